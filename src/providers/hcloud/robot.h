/* robot.h: dedicated servers, from the Robot web service (docs/spec/hcloud.md, "Robot").
 *
 * The service grants few requests (200 an hour) and blocks who asks too often or with a wrong
 * password. So one list answers for all servers and is kept for ROBOT_CACHE_TIMEOUT; after a
 * refusal nothing is asked for a while. What the list has not is asked for by number before anybody
 * says that it is not there.
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
	int64_t cache_ns; /* how long a list serves */
	int64_t pause_ns; /* after the rate limit; 0: a minute */
};

struct hz_robot *hz_robot_new(const struct hz_robot_config *config);
void hz_robot_free(struct hz_robot *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_robot, hz_robot_free)

/** From the list, which may be as old as it may be. ERR_NOT_FOUND: not in it, which proves nothing.
 * Texts are copied to the arena. */
NODISCARD bool hz_robot_find(struct hz_robot *, struct call *, struct arena *, int64_t number,
                             struct hz_robot_server *ret, struct error *err);
/** By name; of several the last. Where no fresh list can be had, an older one serves to find it;
 * that it is not there, an older one says only where may_be_old. */
NODISCARD bool hz_robot_find_name(struct hz_robot *, struct call *, struct arena *, struct str name,
                                  bool may_be_old, struct hz_robot_server *ret, struct error *err);
/** Asks for that one. ERR_NOT_FOUND: the service says that there is none. */
NODISCARD bool hz_robot_get(struct hz_robot *, struct call *, struct arena *, int64_t number,
                            struct hz_robot_server *ret, struct error *err);
/** Is it switched off? "shut off" is; "running" and "not supported" are not. */
NODISCARD bool hz_robot_is_off(struct hz_robot *, struct call *, int64_t number, bool *ret,
                               struct error *err);

#endif
