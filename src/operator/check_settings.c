/* operator/check_settings.c: names in settings, and in annotations of Services, that have to exist
 * in the cloud: locations, networks. The cloud itself rejects other names only when they are used,
 * which may be much later.
 */
#include "base/limits.h"
#include "base/words.h"
#include "operator/doctor.h"

enum {
	MAX_NAMES = 10,  /* of what exists, in one message */
	MAX_VALUE = 100, /* bytes of a value that are shown */
};

static bool
has_name(const struct cloud_setting *s, struct str value)
{
	return words_have(s->names, value) || (s->ids && words_have(s->ids, value));
}

/* "the cloud has no location "x", only a, b and 3 more" */
static struct str
explain_absence(struct doctor *d, const struct cloud_setting *s, struct str value)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(16));
	size_t n = 0;

	buf_addf(&b, "the cloud has no %s \"%" STR_FMT "\"", s->what,
	         STR_ARG(str_utf8_head(value, MAX_VALUE)));
	for (; s->names[n]; n++) {
		if (n < MAX_NAMES)
			buf_addf(&b, "%s%s", n > 0 ? ", " : ", only ", s->names[n]);
	}
	if (n > MAX_NAMES)
		buf_addf(&b, " and %zu more", n - MAX_NAMES);
	return arena_str(view_call(d->view)->arena, buf_str(&b));
}

void
check_settings(struct doctor *d, struct report *r)
{
	const struct cloud_setting *settings;
	struct error err;
	size_t n;

	if (!view_settings(d->view, &settings, &n, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (n == 0)
		report_skip(r, "no setting of this cloud names anything in it");
	for (size_t i = 0; i < n; i++) {
		const struct cloud_setting *s = &settings[i];
		const char *nearest = words_nearest(s->names, s->value);
		struct finding *finding;

		if (s->value.len == 0 || has_name(s, s->value))
			continue;
		finding = report_find(r, "variable", str_c(s->variable), "%" STR_FMT,
		                      STR_ARG(explain_absence(d, s, s->value)));
		if (nearest)
			report_fix(r, finding, "set %s=%s", s->variable, nearest);
		else
			report_fix(r, finding, "set %s to the name of a %s that exists",
			           s->variable, s->what);
	}
}

static void
check_names_of_service(struct doctor *d, struct report *r, const struct service *service,
                       const struct cloud_setting settings[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct cloud_setting *s = &settings[i];
		const struct str *value = s->annotation ? service_annotation(service,
		                                                             str_c(s->annotation))
		                                        : NULL;
		struct finding *finding;
		const char *nearest;

		if (!value || value->len == 0 || has_name(s, *value))
			continue;
		finding = report_find(r, "service", service->object.key, "%s: %" STR_FMT,
		                      s->annotation, STR_ARG(explain_absence(d, s, *value)));
		nearest = words_nearest(s->names, *value);
		if (nearest && report_is_plain(str_c(nearest)))
			report_command(r, finding,
			               "kubectl -n %" STR_FMT " annotate service %" STR_FMT
			               " --overwrite %s=%s",
			               STR_ARG(service->namespace), STR_ARG(service->name),
			               s->annotation, nearest);
		else
			report_fix(r, finding, "kubectl -n %" STR_FMT " edit service %" STR_FMT,
			           STR_ARG(service->namespace), STR_ARG(service->name));
	}
}

void
doctor_find_unknown_names(struct doctor *d, struct report *r)
{
	const struct view_services *services;
	const struct cloud_setting *settings;
	struct error err;
	size_t n;

	if (!view_services(d->view, &services, &err) ||
	    !view_settings(d->view, &settings, &n, &err)) {
		report_unknown(r, &err);
		return;
	}
	for (size_t i = 0; i < services->n; i++) {
		const struct service *service = services->items[i];

		if (service_wants_balancer(service) && !service->is_deleting)
			check_names_of_service(d, r, service, settings, n);
	}
}
