/* lab.h: a Hetzner Cloud that answers from a script (cloud/http_script.h), with a host and a clock
 * for tests (cloud/fake_host.h).
 */
#ifndef CCMD_TESTS_HCLOUD_LAB_H
#define CCMD_TESTS_HCLOUD_LAB_H

#include "cloud/fake_host.h"
#include "cloud/http_script.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/describe.h"
#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_targets.h"

struct lab {
	struct http_script script;
	struct fake_host fake;
	struct hz_config *config;
	struct hz_api *api;
	struct hz_robot *robot; /* made by lab_use_robot() */
	struct hz_servers_known *servers_known;
	struct hcloud hcloud; /* with these */
	struct arena arena;   /* for what a test reads */
};

/** For setup and teardown: a clean environment with a token. */
int lab_setup(void **state);
/** The same, and lab_open() for the official dialect without a network. */
int lab_setup_open(void **state);
int lab_teardown(void **state);

/** Reads the environment as it is now, and makes a new api and a new hcloud; network 0: none. */
void lab_open(struct lab *, const struct hz_dialect *, int64_t network);
/** Before lab_open(). */
void lab_use_robot(struct lab *);

void lab_add(struct lab *, struct http_script_answer answer);
void lab_answer(struct lab *, const char *target, int status, const char *body);
/** What was asked so far, and forgets it. */
void lab_check_asked(struct lab *, const char *targets);

/** A service_event() for lab->fake.host, which records events without namespace and type:
 * "web Reason: message", each with a new line. */
void lab_record_service_event(const struct cloud_host *, const struct lb_spec *, enum host_event,
                              const char *reason, struct str message);

struct call lab_call(struct lab *, struct arena *);

/** Looks for n nodes; NULL when the look failed, with *err. */
struct look *lab_look(struct lab *, const struct node_ref refs[], size_t n, struct error *err);

/** Server bodies. */
#define LAB_SERVER_OF(id, name, status)                                                       \
	"{\"id\":" #id ",\"name\":\"" name "\",\"status\":\"" status                          \
	"\",\"public_net\":{\"ipv4\":{\"ip\":\"203.0.113.7\"},"                               \
	"\"ipv6\":{\"ip\":\"2001:db8:1234::/64\"}},\"private_net\":["                         \
	"{\"network\":4711,\"ip\":\"10.0.0.2\",\"alias_ips\":[\"10.0.0.9\"]},"                \
	"{\"network\":99,\"ip\":\"10.9.0.2\"}],\"server_type\":{\"id\":1,\"name\":\"cx22\"}," \
	"\"location\":{\"id\":1,\"name\":\"fsn1\",\"network_zone\":\"eu-central\"}}"
#define LAB_SERVER(id, name) LAB_SERVER_OF(id, name, "running")
#define LAB_ONE(id, name) "{\"server\":" LAB_SERVER(id, name) "}"
#define LAB_LIST(servers, next, total)                                                     \
	"{\"servers\":[" servers "],\"meta\":{\"pagination\":{\"page\":1,\"per_page\":50," \
	"\"next_page\":" next ",\"total_entries\":" total "}}}"
#define LAB_NOT_FOUND \
	"{\"error\":{\"code\":\"not_found\",\"message\":\"server not found\",\"details\":null}}"
#define LAB_ERROR(code) "{\"error\":{\"code\":\"" code "\",\"message\":\"no\",\"details\":null}}"
#define LAB_PAGE_1 "/servers?page=1&per_page=50&sort=id%3Aasc"
#define LAB_PAGE_2 "/servers?page=2&per_page=50&sort=id%3Aasc"

#endif
