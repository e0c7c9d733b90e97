/* lab.h: a Hetzner Cloud that answers from a script, a host that remembers what it was told, and a
 * clock in a hurry.
 *
 * Answers belong to a target ("/servers/1", or "/servers/" and a star for all that begin so), of
 * any method or of one ("DELETE /load_balancers/1"): each is given once, in the order they were
 * added, the last one again and again. A request without one fails the test. Whoever waits on the
 * clock finds the time passed at once.
 */
#ifndef CCMD_TESTS_HCLOUD_LAB_H
#define CCMD_TESTS_HCLOUD_LAB_H

#include "cloud/host.h"
#include "http/http.h"
#include "providers/hcloud/instances.h"

enum {
	LAB_ANSWERS = 64,
};

struct lab_answer {
	const char *target;
	int status;       /* 0: none comes, for the reason `code` */
	const char *body; /* must live as long as the lab */
	enum err_code code;
	int64_t limit, remaining, reset_s; /* RateLimit-*; limit 0: none */
	bool is_used;
};

struct lab {
	struct http_client http;
	struct clock clock;
	int64_t now_ns;
	struct cloud_host host;
	struct lab_answer answers[LAB_ANSWERS];
	size_t n_answers;
	struct buf
		asked; /* the targets, each with a new line; of what is no GET "POST target body" */
	const char *correlation_id; /* of all answers; NULL: none */
	struct buf events; /* "node reason: message", likewise; with "Normal " before the reason of
	                      one that is no Warning */
	unsigned n_asked;
	unsigned n_recovered;   /* how often controllers were woken after an outage */
	struct node_ref *nodes; /* what the host knows; borrowed */
	size_t n_nodes;
	const char *service_address; /* that a live Service has in its status; NULL: none */
	struct hz_config *config;
	struct hz_api *api;
	struct hz_robot *robot; /* made by lab_use_robot() */
	struct hz_instances *instances;
	struct arena arena; /* for what a test reads */
};

/** For setup and teardown: a clean environment with a token. */
int lab_setup(void **state);
/** The same, and lab_open() for the official dialect without a network. */
int lab_setup_open(void **state);
int lab_teardown(void **state);

/** Reads the environment as it is now, and makes api and instances anew; network 0: none. */
void lab_open(struct lab *, const struct hz_dialect *, int64_t network);
/** Before lab_open(). */
void lab_use_robot(struct lab *);

void lab_add(struct lab *, struct lab_answer answer);
void lab_answer(struct lab *, const char *target, int status, const char *body);
/** What was asked so far, and forgets it. */
void lab_check_asked(struct lab *, const char *targets);

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
