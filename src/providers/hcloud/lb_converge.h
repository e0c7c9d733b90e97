/* lb_converge.h: makes one balancer what its Service asks for, step by step (docs/spec/hcloud.md,
 * "Changing a balancer").
 *
 * Only what differs is changed. If the API refuses one change for a reason of its own, the other
 * changes are made nevertheless, and the first refusal is reported at the end. A refused target is
 * reported in an Event on its node.
 *
 * Threads: a run belongs to one thread.
 */
#ifndef CCMD_HCLOUD_LB_CONVERGE_H
#define CCMD_HCLOUD_LB_CONVERGE_H

#include <pthread.h>

#include "cloud/refusals.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_catalog.h"
#include "providers/hcloud/lb_plan.h"
#include "providers/hcloud/lb_targets.h"

struct event_kind;

/** For dry runs: the servers of the project, of which only some can be targets. */
struct hz_dry_servers {
	pthread_mutex_t mu;
	/* everything below: mu */
	struct hz_servers list;
	int64_t read_boot_ns; /* 0: never */
	struct error err;     /* if the list is not complete: why */
};

/** What all runs share. */
struct hz_lb_tools {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	int64_t network; /* 0: none */
	struct hz_actions *actions;
	struct hz_lb_cache *cache;
	struct refusals *refusals;
	struct hz_catalog *catalog;
	struct hz_dry_servers *dry_servers;
	struct hz_targets_config targets;
};

/** One ensure, update or remove of one Service's balancer. Of both errors only the first that
 * occurs is kept; their code is ERR_NONE until then. */
struct hz_lb_run {
	struct cloud *cloud;
	const struct hz_lb_tools *tools;
	struct call *call;
	const struct lb_spec *spec;
	struct hz_lb_desired desired;
	/* false: one of their certificates was refused, so the services stay as they are */
	bool has_services;
	uint64_t searched; /* login_count_replaced() when the balancer was searched */
	/* of the managed certificate, which services cannot name before it is over; id 0: none */
	struct hz_action issuing;
	struct hz_found found;
	const struct hz_lb *lb; /* as it was read last; NULL: not found yet */
	struct hz_targets targets;
	struct error refusal; /* a request that the API refused: the run fails with it */
	struct error missing; /* a part that another run may complete: the result is partial */
};

/** Sends an Event about the Service with the text of `why`, unless its last one of this kind within
 * the last hour had the same text. A dry run notes it instead (dry_kept()). kind: a literal. */
void hz_lb_report_once(const struct hz_lb_run *run, const struct event_kind *event,
                       const char *kind, const struct error *why);

/** Changes run->lb until it is what run->desired says. Afterwards run->lb may be out of date in its
 * services and targets.
 *
 * @return  On false, *err is a failure that ended the run, or the first refusal. */
NODISCARD bool hz_lb_converge(struct hz_lb_run *run, struct error *err);

/** Finds the desired type; an Event on the Service reports that it is deprecated.
 * ERR_INVALID: no type has that name, or it can no longer be ordered. */
NODISCARD bool hz_lb_find_type(struct hz_lb_run *run, struct hz_lb_type *ret, struct error *err);
/** Sets run->lb to the balancer with the Service's label; it is read again if it was changed.
 * ERR_NOT_FOUND: no balancer has the label; ERR_INVALID: several have it. */
NODISCARD bool hz_lb_refresh(struct hz_lb_run *run, enum hz_age age, struct error *err);
/** Waits for the action for a few seconds. If it takes longer: ERR_PENDING, and the cache keeps the
 * action, for which the next run waits first. */
NODISCARD bool hz_lb_wait(struct hz_lb_run *run, struct hz_action action, struct error *err);
/** Turns the error of a request that the API refused because it is busy with the balancer into
 * ERR_PENDING. Others stay as they are. Returns false. */
bool hz_lb_set_pending_if_busy(const char *code, struct error *err);
/** Is the error the API's refusal of this one request, after which other requests may succeed? */
bool hz_lb_is_refusal(const struct error *err);
/** Notes a refusal, after which the run goes on; it fails at its end, with the first one. False:
 * the error is another one, which ends the run. */
NODISCARD bool hz_lb_tolerate_refusal(struct hz_lb_run *run, const struct error *err);

/* ---- lb_adopt.c ----
 *
 * If no balancer has the label of a Service, the one with the name that its annotation asks for is
 * adopted, unless it belongs to another live Service, or HCLOUD_LOAD_BALANCERS_ADOPTION forbids it.
 */

/** Adopts the balancer that has the desired name, as run->lb.
 *
 * @return  On false, err->code is ERR_NOT_FOUND if no balancer has the name, and ERR_INVALID if the
 * one that has it must not be adopted, which an Event reports. */
NODISCARD bool hz_lb_adopt(struct hz_lb_run *run, struct error *err);
/** ERR_INVALID: in the tutorial's dialect two live Services have the same name for their balancers;
 * both get an Event. */
NODISCARD bool hz_lb_check_name(const struct hz_lb_run *run, struct error *err);

/* ---- lb_dry.c ----
 *
 * Notes the changes of a dry run (base/dry_run.h): each request that would be sent, and the values
 * that it would change. What does not exist yet has the id HZ_DRY_ID, and the path of a request
 * about it has "{id}". Such things are never put into a cache, so the next run starts from what the
 * cloud really has.
 */

/** Notes that the target is not added if the API would refuse it: its server does not exist, or is
 * not attached to the network, or has only a public address for the balancer lb, whose public
 * interface is or will be disabled. lb may be a balancer that does not exist yet. Returns true
 * then. If the servers cannot be listed, notes that this is not known, and returns false.
 *
 * Cost: one request for each 50 servers of the project, at most once a minute. */
bool hz_dry_refuses_target(const struct hz_lb_run *run, const struct hz_lb *lb,
                           const struct hz_lb_target *target);

/** In place of hz_create_lb(): notes the request; run->lb is the balancer that it would make. */
void hz_dry_create(struct hz_lb_run *run, struct str body, const struct hz_lb_type *type);
/** Notes a step for run->lb. */
void hz_dry_note_step(const struct hz_lb_run *run, const struct hz_step *step);
/** In place of hz_order_certificate(): notes the request. *ret_action is not over, because a
 * certificate takes minutes: services cannot use it yet, so a new balancer is created without them,
 * and they are added later. */
void hz_dry_order_certificate(struct call *call, const struct hz_lb_desired *desired,
                              struct hz_certificate *ret, struct hz_action *ret_action);

#endif
