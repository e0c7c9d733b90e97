/* kube/service.c: from a Service's JSON to one small block.
 *
 * As in kube/node.c, a draft is made first: its arrays are in an arena, and its texts are views of
 * the document. Then everything is copied into one allocation. pack_all() runs twice: once to count
 * the bytes, and once to copy, so that both cannot disagree about the parts. A cluster has hundreds
 * of Services where it has thousands of nodes, so Services share no texts.
 *
 * Most Services of a cluster are not of type LoadBalancer. Unless they have our finalizer, only
 * what read_meta() reads is kept, which is enough to notice when one becomes ours.
 */
#include "kube/service.h"

#include "base/arena.h"
#include "base/ip.h"
#include "base/limits.h"
#include "base/words.h"

static struct pool blocks = POOL_INIT;

struct draft {
	const struct service_kind *kind;
	struct arena *arena;
	struct service service;
};

/* Views of the parts of a Service's JSON. */
struct source {
	struct object_meta meta;
	yyjson_val *metadata, *spec, *status;
	yyjson_val *finalizers, *ports, *source_ranges, *external_ips, *families, *affinity_config;
	yyjson_val *load_balancer, *ingress;
	struct str type;
};

static const struct object_field root_fields[] = {
	OBJECT_FIELD(WANT_OBJECT, struct source, metadata, "metadata"),
	OBJECT_FIELD(WANT_OBJECT, struct source, spec, "spec"),
	OBJECT_FIELD(WANT_OBJECT, struct source, status, "status"),
};

static const struct object_field metadata_fields[] = {
	OBJECT_FIELD(WANT_ARRAY, struct source, finalizers, "finalizers"),
};

static const struct object_field spec_source_fields[] = {
	OBJECT_FIELD(WANT_STR, struct source, type, "type"),
	OBJECT_FIELD(WANT_ARRAY, struct source, ports, "ports"),
	OBJECT_FIELD(WANT_ARRAY, struct source, source_ranges, "loadBalancerSourceRanges"),
	OBJECT_FIELD(WANT_ARRAY, struct source, external_ips, "externalIPs"),
	OBJECT_FIELD(WANT_ARRAY, struct source, families, "ipFamilies"),
	OBJECT_FIELD(WANT_OBJECT, struct source, affinity_config, "sessionAffinityConfig"),
};

static const struct object_field spec_fields[] = {
	OBJECT_FIELD(WANT_STR, struct service, family_policy, "ipFamilyPolicy"),
	OBJECT_FIELD(WANT_STR, struct service, session_affinity, "sessionAffinity"),
	OBJECT_FIELD(WANT_STR, struct service, load_balancer_ip, "loadBalancerIP"),
	OBJECT_FIELD(WANT_STR, struct service, traffic_policy, "externalTrafficPolicy"),
};

static const struct object_field status_fields[] = {
	OBJECT_FIELD(WANT_OBJECT, struct source, load_balancer, "loadBalancer"),
};

static const struct object_field balancer_fields[] = {
	OBJECT_FIELD(WANT_ARRAY, struct source, ingress, "ingress"),
};

static const struct object_field port_fields[] = {
	OBJECT_FIELD(WANT_STR, struct service_port, name, "name"),
	OBJECT_FIELD(WANT_STR, struct service_port, protocol, "protocol"),
	OBJECT_FIELD(WANT_STR, struct service_port, app_protocol, "appProtocol"),
};

static const struct object_field ingress_fields[] = {
	OBJECT_FIELD(WANT_STR, struct service_ingress, ip, "ip"),
	OBJECT_FIELD(WANT_STR, struct service_ingress, hostname, "hostname"),
	OBJECT_FIELD(WANT_STR, struct service_ingress, ip_mode, "ipMode"),
};

/* ---- the parts ---- */

/* Reads a number; an absent one is 0. The API server has checked the range, but the conversion to
 * int32_t must be safe whatever the document has. */
static bool
read_number(yyjson_val *val, const char *path, int64_t max, int32_t *ret, struct error *err)
{
	int64_t n = 0;

	if (json_i64(val, path, &n) == JSON_MISTYPED || n < 0 || n > max)
		return err_set(err, ERR_INVALID, "%s: not a number from 0 to %lld", path,
		               (long long)max);
	*ret = (int32_t)n;
	return true;
}

/* Returns a value as compact JSON, for values that are only compared or passed on. */
static struct str
copy_json(struct arena *arena, yyjson_val *val)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_JSON_ITEM);

	if (!val || yyjson_is_null(val))
		return STR_EMPTY;
	json_add_value(&text, val);
	return arena_str(arena, buf_str(&text));
}

static bool
read_texts(struct draft *d, yyjson_val *array, const char *path, struct str **ret, uint32_t *ret_n,
           struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(array);
	yyjson_val *val;

	*ret = arena_calloc(d->arena, yyjson_arr_size(array), sizeof(**ret));
	while ((val = yyjson_arr_iter_next(&iter))) {
		if (!yyjson_is_str(val))
			return err_set(err, ERR_INVALID, "%s[]: not a string", path);
		(*ret)[(*ret_n)++] = json_text(val);
	}
	return true;
}

static bool
read_meta(struct draft *d, const struct source *s, struct error *err)
{
	struct service *service = &d->service;

	service->object.key = arena_printf(d->arena, "%" STR_FMT "/%" STR_FMT,
	                                   STR_ARG(s->meta.namespace), STR_ARG(s->meta.name));
	service->object.uid = s->meta.uid;
	service->object.resource_version = s->meta.resource_version;
	service->is_deleting = s->meta.deleted.len > 0;
	service->is_load_balancer = str_eq_c(s->type, "LoadBalancer");
	service->has_class = yyjson_is_str(json_at(s->spec, "loadBalancerClass"));
	if (!read_texts(d, s->finalizers, "metadata.finalizers", &service->finalizers,
	                &service->n_finalizers, err))
		return false;
	service->has_finalizer = str_is_among(STR(SERVICE_FINALIZER), service->finalizers,
	                                      service->n_finalizers);
	return true;
}

/* The hash of all annotations is the sum of these, so that their order does not matter. Key and
 * value are mixed before: otherwise two annotations could exchange their values, and the sum would
 * be the same. */
static uint64_t
annotation_hash(const struct label *annotation)
{
	uint64_t hash = str_hash(annotation->key) * UINT64_C(0x9e3779b97f4a7c15) +
	                str_hash(annotation->value);

	hash = (hash ^ (hash >> 32)) * UINT64_C(0xc2b2ae3d27d4eb4f);
	return hash ^ (hash >> 29);
}

static bool
read_annotations(struct draft *d, yyjson_val *annotations, struct error *err)
{
	yyjson_obj_iter iter = yyjson_obj_iter_with(annotations);
	const struct service_kind *kind = d->kind;
	struct service *service = &d->service;
	size_t n_prefixed = 0; /* annotations that are kept for their prefix */
	yyjson_val *key;

	service->annotations = arena_calloc(d->arena, yyjson_obj_size(annotations),
	                                    sizeof(struct label));
	while ((key = yyjson_obj_iter_next(&iter))) {
		struct label one;
		bool is_named, has_prefix;

		if (!object_read_pair(key, "metadata.annotations", &one, err))
			return false;
		service->annotations_hash += annotation_hash(&one);
		is_named = !kind->annotations || words_have(kind->annotations, one.key) ||
		           words_have(kind->cloud_annotations, one.key);
		has_prefix = !is_named && kind->annotation_prefix &&
		             str_starts(one.key, str_c(kind->annotation_prefix));
		n_prefixed += has_prefix;
		if (is_named || (has_prefix && n_prefixed <= LIMIT_BALANCER_ANNOTATIONS + 1))
			service->annotations[service->n_annotations++] = one;
	}
	return true;
}

static bool
read_ports(struct draft *d, yyjson_val *ports, struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(ports);
	struct service *service = &d->service;
	yyjson_val *val;

	service->ports = arena_calloc(d->arena, yyjson_arr_size(ports),
	                              sizeof(struct service_port));
	while ((val = yyjson_arr_iter_next(&iter))) {
		struct service_port *port = &service->ports[service->n_ports++];

		if (!OBJECT_READ(val, "spec.ports[]", port_fields, port, err) ||
		    !read_number(val, "port", 65535, &port->port, err) ||
		    !read_number(val, "nodePort", 65535, &port->node_port, err))
			return false;
		/* the default of the API */
		if (port->protocol.len == 0)
			port->protocol = STR("TCP");
		port->has_app_protocol = yyjson_is_str(json_at(val, "appProtocol"));
		port->target_port = copy_json(d->arena, json_at(val, "targetPort"));
	}
	return true;
}

static bool
read_ingress(struct draft *d, yyjson_val *ingress, struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(ingress);
	struct service *service = &d->service;
	yyjson_val *val;

	service->ingress = arena_calloc(d->arena, yyjson_arr_size(ingress),
	                                sizeof(struct service_ingress));
	while ((val = yyjson_arr_iter_next(&iter))) {
		struct service_ingress *one = &service->ingress[service->n_ingress++];

		if (!OBJECT_READ(val, "status.loadBalancer.ingress[]", ingress_fields, one, err))
			return false;
		one->ports = copy_json(d->arena, json_at(val, "ports"));
	}
	return true;
}

static bool
read_spec(struct draft *d, const struct source *s, struct error *err)
{
	struct service *service = &d->service;

	service->affinity_config = copy_json(d->arena, s->affinity_config);
	if (!OBJECT_READ(s->spec, "spec", spec_fields, service, err) ||
	    !read_number(s->spec, "healthCheckNodePort", 65535, &service->health_check_node_port,
	                 err) ||
	    !read_number(s->affinity_config, "clientIP.timeoutSeconds", 86400,
	                 &service->affinity_timeout_s, err) ||
	    !read_texts(d, s->source_ranges, "spec.loadBalancerSourceRanges",
	                &service->source_ranges, &service->n_source_ranges, err) ||
	    !read_texts(d, s->external_ips, "spec.externalIPs", &service->external_ips,
	                &service->n_external_ips, err))
		return false;
	return read_texts(d, s->families, "spec.ipFamilies", &service->families,
	                  &service->n_families, err);
}

/* ---- one block ---- */

/* The places in the block for the next array and the next text. While both pointers are NULL, the
 * block does not exist yet, and the packer only counts bytes. */
struct packer {
	char *arrays, *texts;
	size_t n_array_bytes, n_text_bytes;
};

static void
pack_text(struct packer *p, struct str *s)
{
	if (p->texts)
		*s = str_pack(&p->texts, *s);
	p->n_text_bytes += s->len;
}

static void *
pack_array(struct packer *p, void *array, size_t n, size_t size)
{
	void *to = array;

	if (p->arrays && n > 0) {
		to = memcpy(p->arrays, array, n * size);
		p->arrays += n * size;
	}
	p->n_array_bytes += n * size;
	return to;
}

static struct str *
pack_list(struct packer *p, struct str *list, size_t n)
{
	struct str *texts = pack_array(p, list, n, sizeof(*texts));

	for (size_t i = 0; i < n; i++)
		pack_text(p, &texts[i]);
	return texts;
}

static void
pack_all(struct packer *p, struct service *s)
{
	pack_text(p, &s->object.key);
	pack_text(p, &s->object.uid);
	pack_text(p, &s->object.resource_version);
	pack_text(p, &s->family_policy);
	pack_text(p, &s->session_affinity);
	pack_text(p, &s->affinity_config);
	pack_text(p, &s->load_balancer_ip);
	pack_text(p, &s->traffic_policy);
	s->finalizers = pack_list(p, s->finalizers, s->n_finalizers);
	s->source_ranges = pack_list(p, s->source_ranges, s->n_source_ranges);
	s->external_ips = pack_list(p, s->external_ips, s->n_external_ips);
	s->families = pack_list(p, s->families, s->n_families);
	s->annotations = pack_array(p, s->annotations, s->n_annotations, sizeof(s->annotations[0]));
	for (uint32_t i = 0; i < s->n_annotations; i++) {
		pack_text(p, &s->annotations[i].key);
		pack_text(p, &s->annotations[i].value);
	}
	s->ingress = pack_array(p, s->ingress, s->n_ingress, sizeof(s->ingress[0]));
	for (uint32_t i = 0; i < s->n_ingress; i++) {
		pack_text(p, &s->ingress[i].ip);
		pack_text(p, &s->ingress[i].hostname);
		pack_text(p, &s->ingress[i].ip_mode);
		pack_text(p, &s->ingress[i].ports);
	}
	s->ports = pack_array(p, s->ports, s->n_ports, sizeof(s->ports[0]));
	for (uint32_t i = 0; i < s->n_ports; i++) {
		pack_text(p, &s->ports[i].name);
		pack_text(p, &s->ports[i].protocol);
		pack_text(p, &s->ports[i].app_protocol);
		pack_text(p, &s->ports[i].target_port);
	}
}

static bool
service_parse(const struct kind *kind, yyjson_val *val, struct object **ret, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct draft d = { .kind = (const struct service_kind *)kind,
		           .arena = &arena,
		           .service.object = { .kind = kind, .refs = REF_INIT } };
	struct source s = { .type = STR_EMPTY };
	struct packer size = { 0 }, into = { 0 };
	struct service *block;
	bool is_ok;

	if (!OBJECT_READ(val, "service", root_fields, &s, err) ||
	    !object_read_meta(val, &s.meta, err) ||
	    !OBJECT_READ(s.metadata, "metadata", metadata_fields, &s, err) ||
	    !OBJECT_READ(s.spec, "spec", spec_source_fields, &s, err) ||
	    !OBJECT_READ(s.status, "status", status_fields, &s, err) ||
	    !OBJECT_READ(s.load_balancer, "status.loadBalancer", balancer_fields, &s, err))
		return false;
	is_ok = read_meta(&d, &s, err);
	if (is_ok && (d.service.is_load_balancer || d.service.has_finalizer))
		is_ok = read_annotations(&d, s.meta.annotations, err) &&
		        read_ports(&d, s.ports, err) && read_spec(&d, &s, err) &&
		        read_ingress(&d, s.ingress, err);
	if (!is_ok)
		return err_wrap(err, "service %" STR_FMT "/%" STR_FMT, STR_ARG(s.meta.namespace),
		                STR_ARG(s.meta.name));

	pack_all(&size, &d.service);
	block = pool_alloc(&blocks, sizeof(*block) + size.n_array_bytes + size.n_text_bytes);
	*block = d.service;
	into.arrays = (char *)(block + 1);
	into.texts = into.arrays + size.n_array_bytes;
	pack_all(&into, block);
	str_cut(block->object.key, '/', &block->namespace, &block->name);
	*ret = &block->object;
	return true;
}

/* ---- comparing ---- */

static bool
are_ports_equal(const struct service *a, const struct service *b)
{
	if (a->n_ports != b->n_ports)
		return false;
	for (uint32_t i = 0; i < a->n_ports; i++) {
		const struct service_port *one = &a->ports[i], *other = &b->ports[i];

		if (!str_eq(one->name, other->name) || !str_eq(one->protocol, other->protocol) ||
		    one->port != other->port || one->node_port != other->node_port ||
		    !str_eq(one->target_port, other->target_port) ||
		    one->has_app_protocol != other->has_app_protocol ||
		    !str_eq(one->app_protocol, other->app_protocol))
			return false;
	}
	return true;
}

/* Compares everything from which a balancer is made, apart from type, class and UID
 * (docs/spec/framework.md, "Service changes"). Of the families only the number counts: a second one
 * may be added or removed, but the API server never lets the first one change. */
static bool
is_balancer_spec_equal(const struct service *a, const struct service *b)
{
	return object_texts_equal(a->source_ranges, a->n_source_ranges, b->source_ranges,
	                          b->n_source_ranges) &&
	       are_ports_equal(a, b) && str_eq(a->session_affinity, b->session_affinity) &&
	       str_eq(a->affinity_config, b->affinity_config) &&
	       str_eq(a->load_balancer_ip, b->load_balancer_ip) &&
	       object_texts_equal(a->external_ips, a->n_external_ips, b->external_ips,
	                          b->n_external_ips) &&
	       a->annotations_hash == b->annotations_hash &&
	       str_eq(a->traffic_policy, b->traffic_policy) &&
	       a->health_check_node_port == b->health_check_node_port &&
	       a->n_families == b->n_families;
}

static bool
are_statuses_equal(const struct service *a, const struct service *b)
{
	if (a->n_ingress != b->n_ingress)
		return false;
	for (uint32_t i = 0; i < a->n_ingress; i++) {
		const struct service_ingress *one = &a->ingress[i], *other = &b->ingress[i];

		if (!str_eq(one->ip, other->ip) || !str_eq(one->hostname, other->hostname) ||
		    !str_eq(one->ip_mode, other->ip_mode) || !str_eq(one->ports, other->ports))
			return false;
	}
	return true;
}

static bool
service_differs(const struct object *object_a, const struct object *object_b)
{
	const struct service *a = (const struct service *)object_a,
			     *b = (const struct service *)object_b;

	return !str_eq(a->object.uid, b->object.uid) ||
	       a->is_load_balancer != b->is_load_balancer || a->has_class != b->has_class ||
	       a->is_deleting != b->is_deleting ||
	       !object_texts_equal(a->finalizers, a->n_finalizers, b->finalizers,
	                           b->n_finalizers) ||
	       !object_texts_equal(a->families, a->n_families, b->families, b->n_families) ||
	       !str_eq(a->family_policy, b->family_policy) || !is_balancer_spec_equal(a, b) ||
	       !are_statuses_equal(a, b);
}

/* ---- questions that controllers ask ---- */

const struct str *
service_annotation(const struct service *s, struct str key)
{
	return object_annotation(s->annotations, s->n_annotations, key);
}

bool
service_wants_balancer(const struct service *s)
{
	return s->is_load_balancer && !s->has_class;
}

bool
service_is_served_at(const struct service *s, struct str address)
{
	struct ip wanted, one;
	bool is_ip = ip_parse(address, &wanted);

	if (address.len == 0 || !service_wants_balancer(s) || s->is_deleting)
		return false;
	for (uint32_t i = 0; i < s->n_ingress; i++) {
		if (is_ip ? ip_parse(s->ingress[i].ip, &one) && ip_eq(&one, &wanted)
		          : str_eq_nocase(s->ingress[i].hostname, address))
			return true;
	}
	return false;
}

bool
service_needs_cleanup(const struct service *s)
{
	return s->has_finalizer && (s->is_deleting || !s->is_load_balancer);
}

bool
service_needs_update(const struct service *old, const struct service *new)
{
	if (service_wants_balancer(old) != service_wants_balancer(new))
		return true;
	return service_wants_balancer(new) &&
	       (!str_eq(old->object.uid, new->object.uid) || !is_balancer_spec_equal(old, new));
}

const struct service_kind service_kind = {
	.kind = {
		.name = "Service",
		.path = "/api/v1/services",
		.parse = service_parse,
		.pool = &blocks,
		.differs = service_differs,
	},
};
