/* kube/lease.c: parses a Lease, and writes the next one.
 *
 * An update is a PUT, which replaces the whole object. So the new Lease is written by walking
 * through the old one: every member is copied as it is, also those that this program does not know,
 * except the five members of the spec that a leader sets. The copy includes metadata with the
 * resourceVersion that was read. So the API server refuses the PUT with a conflict if another
 * replica has written the Lease in the meantime.
 */
#include "kube/lease.h"

#include "base/words.h"
#include "kube/object.h"
#include "http/url.h"

#define API_VERSION "coordination.k8s.io/v1"

void
lease_fini(struct lease *l)
{
	yyjson_doc_free(l->doc);
	buf_fini(&l->spec);
	*l = LEASE_INIT;
}

/* ---- reading ---- */

static bool
read_lease(yyjson_val *root, struct lease *l, struct error *err)
{
	const struct {
		const char *path;
		struct str *ret;
	} texts[] = { { "spec.holderIdentity", &l->holder }, { "spec.acquireTime", &l->acquired } };
	const struct {
		const char *path;
		int64_t *ret;
	} counts[] = { { "spec.leaseDurationSeconds", &l->duration_s },
		       { "spec.leaseTransitions", &l->transitions } };
	struct object_meta meta;
	yyjson_val *spec = NULL;

	if (!str_eq_c(json_view(root, "kind"), "Lease"))
		return err_set(err, ERR_INVALID, "kind is not Lease");
	if (!object_read_meta(root, &meta, err))
		return false;
	l->uid = meta.uid;
	l->version = meta.resource_version;
	if (json_object(root, "spec", &spec) == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "spec is not an object");
	if (spec)
		json_add_value(&l->spec, spec);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (json_str(root, texts[i].path, texts[i].ret) == JSON_MISTYPED)
			return err_set(err, ERR_INVALID, "%s is not a string", texts[i].path);
	}
	/* int32 in the API, and never negative; absent: 0 */
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		if (json_i64(root, counts[i].path, counts[i].ret) == JSON_MISTYPED ||
		    *counts[i].ret < 0 || *counts[i].ret > INT32_MAX)
			return err_set(err, ERR_INVALID, "%s is not a number from 0 to %d",
			               counts[i].path, INT32_MAX);
	}
	return true;
}

bool
lease_parse(struct str json, struct lease *ret, struct error *err)
{
	struct lease l = LEASE_INIT;

	if (json_parse(json, &l.doc, err) && read_lease(yyjson_doc_get_root(l.doc), &l, err)) {
		*ret = l;
		return true;
	}
	lease_fini(&l);
	return err_wrap(err, "Lease");
}

bool
lease_spec_differs(const struct lease *a, const struct lease *b)
{
	return !a->doc || !b->doc || !str_eq(buf_str(&a->spec), buf_str(&b->spec));
}

/* ---- writing ---- */

/* Copies the members of an object, apart from those of these names. */
static void
add_others(struct buf *b, yyjson_val *object, const char *const *names)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(object);
	yyjson_val *key;

	while ((key = yyjson_obj_iter_next(&it))) {
		if (words_have(names, json_text(key)))
			continue;
		json_add_name(b, json_text(key));
		json_add_value(b, yyjson_obj_iter_get_val(key));
	}
}

/* A renewal keeps the time at which the Lease was acquired. */
static void
lease_add_spec(struct buf *b, const struct lease *old, enum lease_change change,
               const struct lease_claim *claim)
{
	/* the members that a leader sets */
	static const char *const ours[] = { "holderIdentity", "leaseDurationSeconds", "acquireTime",
		                            "renewTime",      "leaseTransitions",     NULL };
	/* The number is an int32 in the API, so it does not grow beyond INT32_MAX. */
	bool has_new_holder = change == LEASE_TAKE && old->transitions < INT32_MAX;

	json_begin_object(b, "spec");
	add_others(b, json_at(yyjson_doc_get_root(old->doc), "spec"), ours);
	json_add_members(b, JSON_TEXT("holderIdentity", claim->holder),
	                 JSON_NUMBER("leaseDurationSeconds", claim->duration_s),
	                 change == LEASE_RENEW && old->acquired.len > 0
	                         ? JSON_TEXT("acquireTime", old->acquired)
	                         : JSON_MICRO_TIME("acquireTime", claim->wall_ns),
	                 JSON_MICRO_TIME("renewTime", claim->wall_ns),
	                 JSON_NUMBER("leaseTransitions", old->transitions + has_new_holder));
	json_end_object(b);
}

void
lease_add_update(struct buf *b, const struct lease *old, enum lease_change change,
                 const struct lease_claim *claim)
{
	json_begin_object(b, NULL);
	add_others(b, yyjson_doc_get_root(old->doc), (const char *const[]){ "spec", NULL });
	lease_add_spec(b, old, change, claim);
	json_end_object(b);
}

void
lease_add_new(struct buf *b, struct str namespace, struct str name, const struct lease_claim *claim)
{
	const struct lease none = LEASE_INIT;

	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("apiVersion", STR(API_VERSION)),
	                 JSON_TEXT("kind", STR("Lease")));
	json_add_object(b, "metadata", JSON_TEXT("name", name), JSON_TEXT("namespace", namespace));
	lease_add_spec(b, &none, LEASE_RENEW, claim);
	json_end_object(b);
}

void
lease_add_path(struct buf *b, struct str namespace, struct str name)
{
	buf_add_c(b, "/apis/" API_VERSION "/namespaces/");
	url_add_escaped(b, namespace);
	buf_add_c(b, "/leases");
	if (name.len == 0)
		return;
	buf_add_char(b, '/');
	url_add_escaped(b, name);
}
