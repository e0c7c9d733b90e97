/* For any annotations, request bodies are JSON, the domains of a certificate are sorted and unique,
 * and a balancer that is as desired needs no change. */
#include <assert.h>

#include "base/json.h"
#include "base/limits.h"
#include "cloud/change.h"
#include "providers/brightbox/desired.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	NOTES_MAX = 64,
};

static const struct lb_port ports[] = {
	{ .name = STR("http"), .protocol = LB_TCP, .port = 80, .node_port = 30080 },
	{ .name = STR("https"), .protocol = LB_TCP, .port = 443, .node_port = 30443 },
};
static const struct node_ref nodes[] = {
	{ .name = STR("a"), .provider_id = STR("brightbox://srv-aaaaa") },
	{ .name = STR("b"), .provider_id = STR("other://srv-bbbbb") },
};
static const struct bb_cloud_ip ip = {
	.id = STR("cip-aaaaa"),
	.fqdn = STR("cip-aaaaa.gb1.example"),
	.reverse_dns = STR("www.example"),
};

/* Lines "key=value", keys without their prefix unless they have another one. */
static size_t
read_notes(struct str text, struct arena *arena, struct label notes[NOTES_MAX])
{
	struct str key, value, vendor, rest_of_key;
	size_t n = 0;

	for (struct str line, rest = text; n < NOTES_MAX && str_split(&rest, '\n', &line);) {
		if (!str_cut(line, '=', &key, &value))
			continue;
		if (!str_cut(key, '/', &vendor, &rest_of_key))
			key = arena_printf(arena, BB_PREFIX "%" STR_FMT, STR_ARG(key));
		notes[n++] = (struct label){ key, value };
	}
	return n;
}

static void
check_body(const struct bb_desired *desired, const struct str domains[], size_t n, bool is_update,
           struct arena *arena)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;

	assert(json_parse(bb_desired_body(desired, domains, n, is_update, arena), &doc, &err));
}

static void
check_settled(const struct bb_desired *desired, const struct str domains[], size_t n,
              struct arena *arena)
{
	struct bb_lb lb = {
		.name = desired->name,
		.policy = desired->policy,
		.redirects_to_https = desired->is_https,
		.nodes = desired->servers,
		.n_nodes = desired->n_servers,
		.listeners = desired->listeners,
		.n_listeners = desired->n_listeners,
		.check = desired->check,
		.domains = arena_calloc(arena, n, sizeof(*lb.domains)),
		.n_domains = n,
	};

	struct change change;

	for (size_t i = 0; i < n; i++)
		lb.domains[i].identifier = domains[n - 1 - i];
	change = (struct change){
		.body = bb_desired_body(desired, domains, n, /*is_update=*/true, arena),
		.present = bb_desired_present(desired, &lb, arena),
	};
	assert(!change_is_needed(&change, arena));
}

static void
check_service(const struct lb_spec *spec, struct arena *arena)
{
	struct bb_desired desired;
	struct error err;
	struct str *domains;
	size_t n;

	if (!bb_desired_read(spec, arena, &desired, &err)) {
		assert(err.code == ERR_INVALID && err.msg[0] != '\0');
		return;
	}
	assert(desired.n_listeners == spec->n_ports && desired.n_servers == 1);
	bb_desired_domains(&desired, &ip, arena, &domains, &n);
	for (size_t i = 0; i < n; i++)
		assert(domains[i].len > 0 && (i == 0 || str_cmp(domains[i - 1], domains[i]) < 0));
	check_body(&desired, domains, n, false, arena);
	check_body(&desired, domains, n, true, arena);
	check_settled(&desired, domains, n, arena);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct label notes[NOTES_MAX];
	struct lb_spec spec = {
		.cluster = STR("k"),
		.namespace = STR("default"),
		.service = STR("web"),
		.annotations = notes,
		.n_annotations = read_notes(str_n((const char *)data, size), &arena, notes),
		.ports = ports,
		.wanted_ip = STR_EMPTY,
		.nodes = nodes,
		.n_nodes = ARRAY_LEN(nodes),
	};

	for (spec.n_ports = 0; spec.n_ports <= ARRAY_LEN(ports); spec.n_ports++)
		check_service(&spec, &arena);
	return 0;
}
