/* lb_case.c: see lb_case.h. */
#include "lb_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void
lb_case_init(struct lb_case *c)
{
	*c = (struct lb_case){ 0 };
	c->config.lb.location = STR("fsn1");
	c->config.lb.network_zone = STR_EMPTY;
	c->config.lb.type = STR_EMPTY;
	c->config.lb.algorithm = STR_EMPTY;
	c->config.lb.private_subnet = STR_EMPTY;
	c->spec = (struct lb_spec){
		.namespace = STR("default"),
		.service = STR("web"),
		.uid = STR(CASE_UID),
		.name = STR(CASE_NAME),
		.annotations = c->annotations,
		.ports = c->ports,
	};
	lb_case_port(c, LB_TCP, 80, 30080);
}

void
lb_case_fini(struct lb_case *c)
{
	arena_fini(&c->arena);
}

void
lb_case_note(struct lb_case *c, const char *key, const char *value)
{
	assert_true(c->spec.n_annotations < ARRAY_LEN(c->annotations));
	c->annotations[c->spec.n_annotations++] = (struct label){
		arena_printf(&c->arena, HZ_LB_PREFIX "%s", key),
		str_c(value),
	};
}

void
lb_case_port(struct lb_case *c, enum lb_protocol protocol, int32_t port, int32_t node_port)
{
	static const char *const texts[] = {
		[LB_TCP] = "TCP", [LB_UDP] = "UDP", [LB_SCTP] = "SCTP"
	};

	assert_true(c->spec.n_ports < ARRAY_LEN(c->ports));
	c->ports[c->spec.n_ports++] = (struct lb_port){
		.protocol = protocol,
		.protocol_text = str_c(texts[protocol]),
		.port = port,
		.node_port = node_port,
	};
}

struct hz_lb_desired
lb_case_desired(struct lb_case *c, int64_t network)
{
	struct hz_lb_desired desired;
	struct error err;

	if (!hz_lb_desired_read(&c->config, network, &c->spec, &c->arena, &desired, &err))
		fail_msg("%s", err.msg);
	return desired;
}

void
lb_case_refused(struct lb_case *c, int64_t network, const char *msg)
{
	struct hz_lb_desired desired;
	struct error err;

	if (hz_lb_desired_read(&c->config, network, &c->spec, &c->arena, &desired, &err))
		fail_msg("taken, and not refused with: %s", msg);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, msg);
}
