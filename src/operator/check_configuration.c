/* operator/check_configuration.c: flags, files, and names in settings and in annotations of
 * Services that have to exist in the cloud: locations, networks. The cloud itself rejects other
 * names only when they are used, which may be much later.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/words.h"
#include "operator/doctor.h"

enum {
	MAX_NAMES = 10,  /* of what exists, in one message */
	MAX_VALUE = 100, /* bytes of a value that are shown */
};

/* ---- flags ---- */

/* All findings are notes: the manifests of the program that ccmd replaces have such flags, and they
 * do no harm. Most warnings begin with the name of the flag: "--name is deprecated …". */
void
check_flags(struct doctor *d, struct report *r)
{
	for (struct str line, rest = d->flag_notes; str_split(&rest, '\n', &line);) {
		if (line.len == 0)
			continue;
		report_note(r, "flag", line, "is accepted and has no effect");
		report_fix(r, "remove it; ccmd --help says why it has none");
	}
	for (struct str line, flag, text, rest = d->flag_warnings; str_split(&rest, '\n', &line);) {
		if (line.len == 0)
			continue;
		if (str_starts(line, STR("--")) && str_cut(line, ' ', &flag, &text))
			report_note(r, "flag", flag, "%" STR_FMT, STR_ARG(text));
		else
			report_note(r, "", STR_EMPTY, "%" STR_FMT, STR_ARG(line));
		report_fix(r, "remove or change it; see ccmd --help");
	}
}

/* A name that is like no other may be that of another program: HCLOUD_CONTEXT. */
void
check_variables(struct doctor *d, struct report *r)
{
	const struct cloud_ops *ops = cloud_find(str_c(d->view->options->cloud_provider));

	if (!ops->reads_variable) {
		report_skip(r, "this cloud does not declare the names of its variables");
		return;
	}
	for (char **one = environ; *one; one++) {
		const char *nearest = NULL;
		struct str name, value;
		bool is_ours = false;

		if (!str_cut(str_c(*one), '=', &name, &value))
			continue;
		for (size_t i = 0; i < CLOUD_VARIABLES_MAX && ops->variables[i]; i++)
			is_ours |= str_starts(name, str_c(ops->variables[i]));
		if (!is_ours || ops->reads_variable(name, &nearest) || !nearest)
			continue;
		report_find(r, "variable", name, "it has no effect; %s is probably meant", nearest);
		report_fix(r, "set %s instead", nearest);
	}
}

/* ---- files ---- */

static void
check_file(struct doctor *d, struct report *r, struct str path)
{
	const char *name = arena_strz(&d->view->arena, path);
	struct stat status;

	if (path.len == 0 || stat(name, &status) != 0 || !(status.st_mode & S_IROTH))
		return;
	report_find(r, "file", path, "every user of this machine can read it");
	if (report_is_plain(path))
		report_command(r, "chmod o-r %" STR_FMT, STR_ARG(path));
	else
		report_fix(r, "make it unreadable for others, by chmod o-r");
}

/* Files of a pod can be read by that pod only, so they are not checked. Certificates and
 * authorities are public: of the files that a kubeconfig names, only the token and the key are
 * checked. */
void
check_files(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	const struct server_tls *tls = &v->options->serving.secure.tls;
	struct str kubeconfig, rest = str_c(v->options->kubeconfig);
	struct error ignored;

	if (getenv("KUBERNETES_SERVICE_HOST")) {
		report_skip(r, "only this pod can read its files");
		return;
	}
	if (view_need(v, VIEW_CONNECTION, &ignored)) {
		struct str files[KUBE_CONNECTION_FILES];
		size_t n = kube_connection_files(v->connection, /*only_secret=*/true, files);

		for (size_t i = 0; i < n; i++)
			check_file(d, r, files[i]);
	}
	while (kube_config_next_file(&rest, v->options->kubeconfig_is_list, &kubeconfig))
		check_file(d, r, kubeconfig);
	check_file(d, r, tls->main.key_file);
	for (size_t i = 0; i < tls->n_sni; i++)
		check_file(d, r, tls->sni[i].key_file);
	if (tls->cert_folder.len > 0)
		check_file(d, r,
		           arena_printf(&v->arena, "%" STR_FMT "/cloud-controller-manager.key",
		                        STR_ARG(tls->cert_folder)));
	if (!view_need(v, VIEW_CLOUD, &ignored))
		return;
	for (size_t i = 0; i < v->cloud->needs.n_reads; i++) {
		if (!v->cloud->needs.reads_are_public[i])
			check_file(d, r, v->cloud->needs.reads[i]);
	}
}

/* ---- names in the cloud ---- */

static bool
has_name(const struct cloud_setting *s, struct str value)
{
	struct ip_net net, range;

	/* a network or a single address; what is neither is reported as invalid */
	net.bits = 128; /* of an address of IPv4, too: base/ip.h */
	if (s->is_range && !ip_net_parse(value, &net) && !ip_parse(value, &net.ip))
		return true;
	for (size_t i = 0; s->is_range && s->names[i]; i++) {
		if (ip_net_parse(str_c(s->names[i]), &range) && ip_net_is_within(&net, &range))
			return true;
	}
	return words_have(s->names, value) || (s->ids && words_have(s->ids, value));
}

/* "the cloud has no location "x", only a, b and 3 more" */
static void
explain_absence(const struct cloud_setting *s, struct str value, struct buf *b)
{
	size_t n = 0;

	buf_addf(b, "the cloud has no %s \"%" STR_FMT "\"", s->what,
	         STR_ARG(str_utf8_head(value, MAX_VALUE)));
	for (; s->names[n]; n++) {
		if (n < MAX_NAMES)
			buf_addf(b, "%s%s", n > 0 ? ", " : ", only ", s->names[n]);
	}
	if (n > MAX_NAMES)
		buf_addf(b, " and %zu more", n - MAX_NAMES);
}

/* "; needed by the Services default/web, default/shop" */
static void
add_dependents(struct doctor *d, const struct cloud_setting *s, struct buf *b)
{
	const struct view_services *services = &d->view->services;
	const char *before = "; needed by the Services ";
	struct error ignored;

	if (!s->needed_by || !view_need(d->view, VIEW_SERVICES, &ignored))
		return;
	for (size_t i = 0; i < services->n; i++) {
		const struct str *value = service_annotation(services->items[i],
		                                             str_c(s->needed_by));

		if (!value || !str_eq_c(*value, "true"))
			continue;
		buf_addf(b, "%s%" STR_FMT, before, STR_ARG(services->items[i]->object.key));
		before = ", ";
	}
}

void
check_settings(struct doctor *d, struct report *r)
{
	if (d->view->n_settings == 0)
		report_skip(r, "no setting of this cloud names anything in it");
	for (size_t i = 0; i < d->view->n_settings; i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(16));
		const struct cloud_setting *s = &d->view->settings[i];
		const char *nearest = s->is_range ? NULL : words_nearest(s->names, s->value);

		if (s->value.len == 0 || has_name(s, s->value))
			continue;
		explain_absence(s, s->value, &text);
		add_dependents(d, s, &text);
		report_find(r, "variable", str_c(s->variable), "%s", text.ptr);
		if (nearest)
			report_fix(r, "set %s=%s", s->variable, nearest);
		else
			report_fix(r, "set %s to the name of a %s that exists", s->variable,
			           s->what);
	}
}

static void
report_unknown_name(struct report *r, const struct service *service, const struct cloud_setting *s,
                    struct str value, bool is_all)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(16));
	const char *nearest = s->is_range ? NULL : words_nearest(s->names, value);

	explain_absence(s, value, &text);
	report_find(r, "service", service->object.key, "%s: %s", s->annotation, text.ptr);
	if (nearest && is_all && report_is_plain(str_c(nearest)))
		report_command(r,
		               "kubectl -n %" STR_FMT " annotate service %" STR_FMT
		               " --overwrite %s=%s",
		               STR_ARG(service->namespace), STR_ARG(service->name), s->annotation,
		               nearest);
	else
		report_fix(r, "%s%s%skubectl -n %" STR_FMT " edit service %" STR_FMT,
		           nearest ? "write " : "", nearest ? nearest : "", nearest ? ": " : "",
		           STR_ARG(service->namespace), STR_ARG(service->name));
}

bool
doctor_report_unknown_names(struct doctor *d, struct report *r, const struct service *service)
{
	bool is_found = false;

	for (size_t i = 0; i < d->view->n_settings; i++) {
		const struct cloud_setting *s = &d->view->settings[i];
		const struct str *value = s->annotation ? service_annotation(service,
		                                                             str_c(s->annotation))
		                                        : NULL;
		struct str rest = value ? *value : STR_EMPTY, all = rest;

		for (struct str one; str_split(&rest, s->is_list ? ',' : '\0', &one);) {
			one = s->is_list ? str_trim(one) : one;
			if (one.len == 0 || has_name(s, one))
				continue;
			report_unknown_name(r, service, s, one, one.len == all.len);
			is_found = true;
		}
	}
	return is_found;
}
