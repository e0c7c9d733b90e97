/* lb_converge.h: makes one balancer as its Service wants it, step by step (docs/spec/hcloud.md,
 * "Changing a balancer").
 *
 * Only what differs is changed. What the API refuses for a reason of its own stops nothing else:
 * the first refusal is reported when all the rest is done. A refused target is reported in an Event
 * on its node.
 *
 * Threads: one run belongs to one thread.
 */
#ifndef CCMD_HCLOUD_LB_CONVERGE_H
#define CCMD_HCLOUD_LB_CONVERGE_H

#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_catalog.h"
#include "providers/hcloud/lb_plan.h"
#include "providers/hcloud/lb_targets.h"

struct event_kind;
struct hz_evidence;

/** What all runs share. */
struct hz_lb_tools {
	const struct hz_config *config;
	const struct cloud_host *host;
	struct hz_api *api;
	struct hz_robot *robot; /* NULL: none to ask */
	int64_t network;        /* 0: none */
	struct hz_actions *actions;
	struct hz_lb_cache *cache;
	struct hz_evidence *evidence;
	struct hz_types *types;
	struct hz_certificates *certificates;
};

/** The work on one Service's balancer. */
struct hz_lb_run {
	const struct hz_lb_tools *tools;
	struct call *call;
	const struct lb_spec *spec;
	struct hz_lb_desired desired;
	bool has_services;        /* desired.services is complete: else they are left as they are */
	struct hz_action issuing; /* their certificate, which they cannot name before; id 0: none */
	struct hz_found found;
	const struct hz_lb *lb; /* as it was read last */
	struct hz_targets targets;
	bool is_partial;      /* something has to wait, or may go another time */
	struct error missing; /* is_partial: what */
	bool is_held; /* neither its balancer nor anything else of this cluster was found: nothing
	                 is done */
	bool is_refused;      /* something was */
	struct error refusal; /* is_refused: the first time */
};

/** Sends an Event about the Service. */
void hz_lb_notify(const struct hz_lb_run *run, const struct event_kind *kind,
                  const struct buf *text);

/** Brings run->lb to where it should be, and leaves it as it is then, but for services and
 * targets. */
NODISCARD bool hz_lb_converge(struct hz_lb_run *run, struct error *err);

/** The desired type; an Event on the Service says where it is deprecated.
 * ERR_INVALID: there is none, or it cannot be had any more. */
NODISCARD bool hz_lb_find_type(struct hz_lb_run *run, struct hz_lb_type *ret, struct error *err);
/** Reads the balancer again where it was changed. */
NODISCARD bool hz_lb_refresh(struct hz_lb_run *run, struct error *err);
/** Waits in place for a few seconds, then ERR_PENDING; the cache keeps the action, and the next run
 * waits for it first. */
NODISCARD bool hz_lb_wait(struct hz_lb_run *run, struct hz_action action, struct error *err);
/** Turns the error of a request that the API refused because it is busy with the balancer into
 * ERR_PENDING. Others stay as they are. Returns false. */
bool hz_lb_set_pending_if_busy(const char *code, struct error *err);
/** Is the error the API's refusal of this one request, after which other requests may succeed? */
bool hz_lb_is_refusal(const struct error *err);
/** Keeps the first one, to be reported at the end of the run. */
void hz_lb_note_refusal(struct hz_lb_run *run, const struct error *err);

#endif
