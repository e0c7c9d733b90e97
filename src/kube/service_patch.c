/* kube/service_patch.c: see service_patch.h. */
#include "kube/service_patch.h"

#include "http/url.h"

/* All finalizers but ours, as an array, with ours behind them when it is wanted: the order that the
 * server keeps. */
static void
add_order(struct buf *b, const struct service *s, bool wanted)
{
	json_begin_array(b, "$setElementOrder/finalizers");
	for (uint32_t i = 0; i < s->n_finalizers; i++) {
		if (!str_eq_c(s->finalizers[i], SERVICE_FINALIZER))
			json_add_text(b, NULL, s->finalizers[i]);
	}
	if (wanted)
		json_add_text(b, NULL, STR(SERVICE_FINALIZER));
	json_end_array(b);
}

static void
begin(struct buf *b, const struct service *s)
{
	buf_add_c(b, "{\"metadata\":{");
	json_add_text(b, "uid", s->object.uid);
}

void
service_patch_claim(struct buf *b, const struct service *s)
{
	begin(b, s);
	add_order(b, s, /*wanted=*/true);
	buf_add_c(b, ",\"finalizers\":[\"" SERVICE_FINALIZER "\"]}}");
}

bool
service_patch_release(struct buf *b, const struct service *s, bool is_stale)
{
	bool has_status = is_stale || s->n_ingress > 0;
	bool has_finalizer = is_stale || s->has_finalizer;

	if (!has_finalizer && !has_status)
		return false;
	begin(b, s);
	if (has_finalizer) {
		add_order(b, s, /*wanted=*/false);
		buf_add_c(b,
		          ",\"$deleteFromPrimitiveList/finalizers\":[\"" SERVICE_FINALIZER "\"]");
	}
	buf_add_c(b, has_status ? "},\"status\":{\"loadBalancer\":{\"ingress\":null}}}" : "}}");
	return true;
}

static void
add_if_any(struct buf *b, const char *name, struct str value)
{
	if (value.len > 0)
		json_add_text(b, name, value);
}

static void
add_ingress(struct buf *b, const struct service_ingress *ingress)
{
	json_begin_object(b, NULL);
	add_if_any(b, "ip", ingress->ip);
	add_if_any(b, "ipMode", ingress->ip_mode);
	add_if_any(b, "hostname", ingress->hostname);
	json_end_object(b);
}

void
service_patch_status(struct buf *b, const struct service *s, const struct service_ingress *ingress,
                     size_t n)
{
	begin(b, s);
	buf_add_c(b, "},\"status\":{\"loadBalancer\":{\"ingress\":");
	if (n > 0)
		json_begin_array(b, NULL);
	for (size_t i = 0; i < n; i++)
		add_ingress(b, &ingress[i]);
	buf_add_c(b, n > 0 ? "]}}}" : "null}}}");
}

/* One that the server left out says nothing: 1.28 has no such field. One that it has must be
 * ours. */
static bool
is_mode_equal(const struct service_ingress *said, const struct service_ingress *wanted)
{
	return said->ip_mode.len == 0 || str_eq(said->ip_mode, wanted->ip_mode);
}

bool
service_status_equals(const struct service *s, const struct service_ingress *ingress, size_t n)
{
	if (s->n_ingress != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!str_eq(s->ingress[i].ip, ingress[i].ip) ||
		    !str_eq(s->ingress[i].hostname, ingress[i].hostname) ||
		    !is_mode_equal(&s->ingress[i], &ingress[i]))
			return false;
	}
	return true;
}

void
service_patch_path(struct buf *b, const struct service *s)
{
	buf_add_c(b, "/api/v1/namespaces/");
	url_add_escaped(b, s->namespace);
	buf_add_c(b, "/services/");
	url_add_escaped(b, s->name);
	buf_add_c(b, "/status");
}
