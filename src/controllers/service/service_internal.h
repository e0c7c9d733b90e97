/* controllers/service/service_internal.h: what the files behind controllers/service/service.h
 * share.
 *
 * 	service.c         what leads to work, the queue, workers, records
 * 	service_adopt.c   what a provider has to know before it is asked for the first Service
 * 	service_sync.c    one Service: ensure its balancer, update targets, clean up
 * 	service_events.c  the events about a Service
 * 	service_spec.c    a Service as a provider sees it
 *
 * A *record* is the memory of one Service, found by its key. A *run* is one turn of a worker with a
 * record and the Service as the store has it.
 */
#ifndef CCMD_CONTROLLERS_SERVICE_SERVICE_INTERNAL_H
#define CCMD_CONTROLLERS_SERVICE_SERVICE_INTERNAL_H

#include "base/map.h"
#include "base/thread.h"
#include "controllers/pace.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"
#include "kube/queue.h"
#include "kube/service.h"

enum service_reason {
	REASON_NODES = 1, /* the targets of its balancer may have changed */
	REASON_FULL = 2,  /* anything about it may have changed */
	REASON_RETRY = 4, /* the last run failed: as FULL, but not before the retry is due */
	REASON_DRIFT = 8, /* another client may have changed or deleted its balancer */
};

/* The events about work that begins, ends or fails. */
enum service_event {
	SERVICE_NOTHING,
	SERVICE_ENSURING,
	SERVICE_ENSURED,
	SERVICE_REPAIRED,
	SERVICE_DELETING,
	SERVICE_DELETED,
	SERVICE_SYNC_FAILED,
	SERVICE_DELETE_FAILED,
};

/** What the controller stores about one Service. Made when a Service first needs work, dropped
 * when there is nothing left to remember. */
struct service_record {
	struct str key;
	unsigned reasons; /* mu: for the next run; enum service_reason */
	/* mu: the last state of a Service of this name that left the store; NULL: none */
	struct object *vanished;
	/* The Service whose balancer we created, tried to create or found; NULL: none. Only the
	 * worker that has the key changes it, with mu held; other threads read it with mu held. */
	struct object *service_with_balancer;
	char *failure;           /* mu: why the last run was not complete; NULL: it was */
	int64_t failed_mono_ns;  /* mu: when that run ended */
	int64_t failing_mono_ns; /* mu: when the first of the runs ended that were not complete */

	/* The rest belongs to the worker that has the key. */
	/* of a Service of another class that has no balancer of ours: a hash of its UID, and of
	 * whether it is being deleted */
	uint64_t foreign_hash;
	/* targets_hash is the hash of the targets that the provider was given last */
	bool has_targets;
	bool has_failed;        /* the last ensure or update failed */
	uint64_t left_out;      /* of balancer_report_left_out() */
	bool is_repairing;      /* it is ensured for REASON_DRIFT, and that has not ended */
	struct buf repairs;     /* if is_repairing: what was changed, for the event */
	uint64_t warned_outage; /* hash of the last Warning if an outage was its cause; else 0 */
	/* the provider answered that another controller handles it: we must not set its targets */
	bool is_handled_by_other;
	bool is_empty_reported; /* the event that there are no targets was sent */
	/* the event about work that began and has not ended */
	enum service_event announced;
	char *written_version; /* the resource version after our own last write; NULL: none */
	/* our last write was not answered, so it may or may not have been executed */
	bool is_unsure;
	unsigned n_conflicts; /* conflicts since the last complete run */
	struct lb_wait wait;  /* all zero after a complete run */
	bool has_new_targets; /* its targets were changed, and no event has reported it yet */
	uint64_t targets_hash;
	int64_t next_report_ns;  /* mono: the next report of changed targets is not due before */
	int64_t report_pause_ns; /* the pause before that time */
	int64_t next_update_ns;  /* mono: targets are not updated again before */
	int64_t retry_ns;        /* mono: when REASON_RETRY is due */
	bool is_retry_fixed; /* the cloud named that time: changed nodes do not bring it forward */
};

struct service_controller {
	struct controller_env *env;
	struct service_controller_config config;
	const struct balancer_ops *ops;
	struct queue *queue;
	struct targets *targets;
	pthread_t *workers;
	struct failure_pause adopt_pause;

	pthread_mutex_t mu;
	pthread_cond_t adopted;
	struct map records;                                        /* mu; struct service_record */
	enum { ADOPT_WANTED, ADOPT_RUNNING, ADOPT_DONE } adoption; /* mu */
	int64_t next_pass_ns; /* mu: mono; Services get no further reason NODES before */
};

/** One run of a worker with one Service. */
struct service_run {
	struct service_controller *c;
	struct call *call;
	struct service_record *record;
	const struct service *service;
	unsigned reasons;
};

/** Is the state of the Service older than our own last write to it? Then its finalizers and its
 * status may be outdated. Relying on them has left Services with a balancer and without a
 * finalizer. */
bool service_is_stale(const struct service_run *run);

/** Makes the balancer and the status of one Service as they should be. *ret_is_done: nothing has to
 * be stored about it any more. The caller retries ERR_PENDING and ERR_THROTTLED after
 * retry_after_ms, and backs off for other errors. */
NODISCARD bool service_sync(struct service_run *run, bool *ret_is_done, struct error *err);
/** Do the targets differ from those that the provider was given last? */
bool service_sync_has_new_targets(struct service_run *run);
/** The Service whose balancer we have is gone from the store, or another Service has its name.
 * last: the last state of a vanished Service of that name. The balancer is removed if it shows
 * that the Service was deleted, else kept and reported. */
NODISCARD bool service_sync_former(struct service_run *run, const struct service *last,
                                   struct error *err);

/** What a worker does once the stores have synced: the first one lets the provider adopt existing
 * balancers, the others wait for it. Returns true in the first one. */
bool service_begin(struct service_controller *c, struct call *call);
/** Lets the provider read all balancers. */
NODISCARD bool service_adopt(struct service_controller *c, struct call *call, struct error *err);
/** What a worker does with each key that the queue hands out. The arena is empty afterwards. */
void service_work_on(struct service_controller *c, struct arena *arena, struct str key);

/* ---- service_events.c ---- */

#define SERVICE_COMPONENT "service-controller"

/** Sends the event that work begins; not again when the work is retried. */
void service_announce(struct service_run *, enum service_event event);
/** Sends the event that this work has ended. */
void service_report_end(struct service_run *, enum service_event event);
/** The comparison with the Service has ended: sends an event if something was repaired. */
void service_report_repairs(struct service_run *);
/** Is this error a failure? Waiting for the cloud or for its rate limit is not. */
bool service_is_failure(const struct error *);
/** Sends a Warning if the error is a failure. */
void service_warn(struct service_run *, enum service_event event, const struct error *);
/** Sends a Warning that the balancer of a former Service is kept although that Service is gone. */
void service_warn_of_kept(struct service_run *, const struct service *former);
/** Sends a Warning that the targets could not be changed. */
void service_warn_of_update(struct service_run *, const struct target_list *, const struct error *);
/** Sends a Warning once if there are no targets. */
void service_report_empty(struct service_run *, size_t n_targets);
/** Reports changed targets with an event, if there are any. If the last report is too recent, the
 * Service is queued to report them later. */
void service_report_new_targets(struct service_run *);

#endif
