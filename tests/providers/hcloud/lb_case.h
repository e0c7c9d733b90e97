/* lb_case.h: a Service with annotations, for tests about load balancers. */
#ifndef CCMD_TESTS_HCLOUD_LB_CASE_H
#define CCMD_TESTS_HCLOUD_LB_CASE_H

#include "providers/hcloud/lb_desired.h"

#define CASE_UID "0a1b2c3d-1111-2222-3333-444455556666"
#define CASE_NAME "a0a1b2c3d11112222333344445555666"

/** One port, 80, at the nodes' 30080, no annotation and nothing configured. */
struct lb_case {
	struct arena arena;
	struct hz_config config;
	struct label annotations[8];
	struct lb_port ports[4];
	struct lb_spec spec;
};

void lb_case_init(struct lb_case *c);
void lb_case_fini(struct lb_case *c);
/** key without prefix; both live on. */
void lb_case_note(struct lb_case *c, const char *key, const char *value);
void lb_case_port(struct lb_case *c, enum lb_protocol protocol, int32_t port, int32_t node_port);

/** What it wants; a refusal fails the test. */
struct hz_lb_desired lb_case_desired(struct lb_case *c, int64_t network);
void lb_case_refused(struct lb_case *c, int64_t network, const char *msg);

#endif
