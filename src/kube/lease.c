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
read_str(yyjson_val *root, const char *path, struct str *ret, struct error *err)
{
	if (json_str(root, path, ret) == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "%s is not a string", path);
	return true;
}

/* Reads a number that is an int32 in the API, and never negative. An absent number is 0. */
static bool
read_count(yyjson_val *root, const char *path, int64_t *ret, struct error *err)
{
	if (json_i64(root, path, ret) == JSON_MISTYPED || *ret < 0 || *ret > INT32_MAX)
		return err_set(err, ERR_INVALID, "%s is not a number from 0 to %d", path,
		               INT32_MAX);
	return true;
}

static bool
read_lease(yyjson_val *root, struct lease *l, struct error *err)
{
	struct object_meta meta;
	struct str kind = STR_EMPTY;
	yyjson_val *spec = NULL;

	if (!read_str(root, "kind", &kind, err))
		return false;
	if (!str_eq_c(kind, "Lease"))
		return err_set(err, ERR_INVALID, "kind is not Lease");
	if (!object_read_meta(root, &meta, err))
		return false;
	l->uid = meta.uid;
	l->version = meta.resource_version;
	if (json_object(root, "spec", &spec) == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "spec is not an object");
	if (spec)
		json_add_value(&l->spec, spec);
	if (!read_str(root, "spec.holderIdentity", &l->holder, err) ||
	    !read_str(root, "spec.acquireTime", &l->acquired, err) ||
	    !read_count(root, "spec.leaseDurationSeconds", &l->duration_s, err))
		return false;
	return read_count(root, "spec.leaseTransitions", &l->transitions, err);
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

/* A renewal keeps the time at which the Lease was acquired. */
static void
lease_add_spec(struct buf *b, const struct lease *old, enum lease_change change,
               const struct lease_claim *claim)
{
	/* the members that a leader sets */
	static const char *const ours[] = { "holderIdentity", "leaseDurationSeconds", "acquireTime",
		                            "renewTime",      "leaseTransitions",     NULL };
	yyjson_val *spec = json_at(yyjson_doc_get_root(old->doc), "spec"), *key;
	bool has_new_holder = change == LEASE_TAKE && old->transitions < INT32_MAX;
	yyjson_obj_iter it;

	json_begin_object(b, "spec");
	if (spec && yyjson_obj_iter_init(spec, &it)) {
		while ((key = yyjson_obj_iter_next(&it))) {
			if (words_have(ours, json_text(key)))
				continue;
			json_add_name(b, json_text(key));
			json_add_value(b, yyjson_obj_iter_get_val(key));
		}
	}
	json_add_text(b, "holderIdentity", claim->holder);
	json_add_number(b, "leaseDurationSeconds", claim->duration_s);
	if (change == LEASE_RENEW && old->acquired.len > 0)
		json_add_text(b, "acquireTime", old->acquired);
	else
		json_add_time(b, "acquireTime", claim->wall_ns, /*micros=*/true);
	json_add_time(b, "renewTime", claim->wall_ns, /*micros=*/true);
	/* The number is an int32 in the API, so it does not grow beyond INT32_MAX. */
	json_add_number(b, "leaseTransitions", old->transitions + has_new_holder);
	json_end_object(b);
}

void
lease_add_update(struct buf *b, const struct lease *old, enum lease_change change,
                 const struct lease_claim *claim)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(yyjson_doc_get_root(old->doc));
	yyjson_val *key;

	json_begin_object(b, NULL);
	while ((key = yyjson_obj_iter_next(&it))) {
		if (str_eq_c(json_text(key), "spec"))
			continue;
		json_add_name(b, json_text(key));
		json_add_value(b, yyjson_obj_iter_get_val(key));
	}
	lease_add_spec(b, old, change, claim);
	json_end_object(b);
}

void
lease_add_new(struct buf *b, struct str namespace, struct str name, const struct lease_claim *claim)
{
	const struct lease none = LEASE_INIT;

	buf_add_c(b, "{\"apiVersion\":\"" API_VERSION "\",\"kind\":\"Lease\",\"metadata\":{");
	json_add_text(b, "name", name);
	json_add_text(b, "namespace", namespace);
	json_end_object(b);
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
