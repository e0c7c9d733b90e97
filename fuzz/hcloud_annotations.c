/* For any annotations, request bodies are JSON, and a balancer that is as desired needs no change.
 */
#include <assert.h>

#include "base/json.h"
#include "base/limits.h"
#include "providers/hcloud/balancers.h"
#include "providers/hcloud/lb_plan.h"
#include "providers/hcloud/lb_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	NOTES_MAX = 64,
	NETWORK = 4711,
};

static const struct hz_lb_type lb11 = { .id = 1, .name = STR("lb11"), .max_targets = 25 };
static const struct lb_port ports[] = {
	{ .protocol = LB_TCP, .port = 80, .node_port = 30080 },
	{ .protocol = LB_UDP, .port = 53, .node_port = 30053 },
};

/* Lines "key=value", keys without their prefix. */
static size_t
read_notes(struct str text, struct arena *arena, struct label notes[NOTES_MAX])
{
	struct str key, value;
	size_t n = 0;

	for (struct str line, rest = text; n < NOTES_MAX && str_split(&rest, '\n', &line);) {
		if (!str_cut(line, '=', &key, &value))
			continue;
		key = arena_printf(arena, HZ_LB_PREFIX "%" STR_FMT, STR_ARG(key));
		notes[n++] = (struct label){ key, value };
	}
	return n;
}

static void
check_json(struct buf *b)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;

	assert(buf_ok(b) && json_parse(buf_str(b), &doc, &err));
	buf_reset(b);
}

static void
check_bodies(const struct hz_lb_desired *desired)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);

	hz_body_create(&b, desired, &lb11, NULL, 0, false);
	check_json(&b);
	hz_body_attach(&b, desired);
	check_json(&b);
	if (desired->is_managed) {
		hz_body_certificate(&b, desired);
		check_json(&b);
	}
}

static void
check_settled(const struct hz_lb_desired *desired, const struct lb_spec *spec,
              const struct hz_config *config, struct arena *arena)
{
	struct hz_private_net net = { NETWORK, desired->private_ip.is_set
		                                       ? desired->private_ip.value
		                                       : STR("10.0.0.5") };
	struct hz_lb lb = {
		.name = desired->name,
		.uid = desired->uid,
		.type = { .name = desired->type },
		.algorithm = desired->algorithm,
		.is_public = desired->is_public != HZ_NO,
		.nets = { &net, 1 },
		.services = desired->services,
		.n_services = desired->n_services,
	};
	struct hz_lb_type type = { .name = desired->type };
	struct lb_status status;
	struct hz_steps steps;
	struct hz_lb same;

	hz_plan_shape(desired, &type, &lb, arena, &steps, &same);
	assert(steps.n == 0);
	hz_plan_services(desired, &lb, arena, &steps);
	assert(steps.n == 0);
	hz_lb_status(config, spec, &lb, arena, &status);
	assert(status.n_ingress <= 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hz_config config = { .lb = { .location = STR("fsn1") } };
	struct label notes[NOTES_MAX];
	struct lb_spec spec = {
		.uid = STR("0a1b2c3d-1111-2222-3333-444455556666"),
		.name = STR("a0a1b2c3d11112222333344445555666"),
		.annotations = notes,
		.ports = ports,
		.n_ports = ARRAY_LEN(ports),
	};
	struct hz_lb_desired desired;
	struct error err;

	spec.n_annotations = read_notes(str_n((const char *)data, size), &arena, notes);
	if (!hz_lb_desired_read(&config, NETWORK, &spec, &arena, &desired, &err)) {
		assert(err.code == ERR_INVALID && err.msg[0] != '\0');
		return 0;
	}
	check_bodies(&desired);
	check_settled(&desired, &spec, &config, &arena);
	return 0;
}
