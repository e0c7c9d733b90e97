/* robot.h: dedicated servers, from the Robot web service (docs/spec/hcloud.md, "Robot").
 *
 * The service permits few requests (200 an hour), and blocks clients that send more, or that use a
 * wrong password. So one list answers for all servers and is kept for ROBOT_CACHE_TIMEOUT, and
 * after a refusal no request is sent for a while. A server that the list lacks is read by its
 * number before it counts as absent.
 *
 * Threads: any; one request at a time.
 */
#ifndef CCMD_HCLOUD_ROBOT_H
#define CCMD_HCLOUD_ROBOT_H

#include "cloud/host.h"
#include "cloud/login.h"

struct hz_robot_server {
	int64_t number;
	struct str name, product, dc; /* dc: "FSN1-DC14" */
	struct str ipv4;              /* empty: none */
	struct str ipv6_net;          /* "2a01:4f8:111:4221::"; empty: none */
};

struct hz_robot;

struct hz_robot_config {
	struct http_client *http; /* borrowed, as is the login */
	struct login *login;      /* NULL: credentials never change */
	const struct cloud_host *host;
	int64_t cache_ns; /* how long a list is used */
	int64_t pause_ns; /* after the rate limit was exceeded; 0: a minute */
};

struct hz_robot *hz_robot_new(const struct hz_robot_config *config);
void hz_robot_free(struct hz_robot *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_robot, hz_robot_free)

/** Finds a server in the list, which may be cache_ns old. ERR_NOT_FOUND: the list lacks it, which
 * does not prove that it does not exist. Texts are copied to the arena. */
NODISCARD bool hz_robot_find(struct hz_robot *, struct call *, struct arena *, int64_t number,
                             struct hz_robot_server *ret, struct error *err);
/** All servers of the list, copied to the arena. */
NODISCARD bool hz_robot_list(struct hz_robot *, struct call *, struct arena *,
                             struct hz_robot_server **ret, size_t *ret_n, struct error *err);
/** Finds a server by name; of several the last. If the list cannot be read again, an older one may
 * answer with the server, and with ERR_NOT_FOUND only if may_be_old. */
NODISCARD bool hz_robot_find_name(struct hz_robot *, struct call *, struct arena *, struct str name,
                                  bool may_be_old, struct hz_robot_server *ret, struct error *err);
/** Reads one server. ERR_NOT_FOUND: the service says that it does not exist. */
NODISCARD bool hz_robot_get(struct hz_robot *, struct call *, struct arena *, int64_t number,
                            struct hz_robot_server *ret, struct error *err);
/** Returns true if the server is switched off: the service answers "shut off". Other answers are
 * "running" and "not supported". */
NODISCARD bool hz_robot_is_off(struct hz_robot *, struct call *, int64_t number, bool *ret,
                               struct error *err);

#endif
