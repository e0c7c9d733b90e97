/* controllers/service/service_internal.h: what the files behind controllers/service/service.h
 * share.
 *
 * 	service.c         triggers, the queue, workers, records
 * 	service_adopt.c   what a provider has to know before the first Service
 * 	service_sync.c    one Service: ensure, update targets, clean up
 * 	service_events.c  its events
 * 	service_spec.c    a Service as a provider sees it
 */
#ifndef CCMD_CONTROLLERS_SERVICE_SERVICE_INTERNAL_H
#define CCMD_CONTROLLERS_SERVICE_SERVICE_INTERNAL_H

#include "base/map.h"
#include "base/thread.h"
#include "controllers/failure.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"
#include "kube/queue.h"
#include "kube/service.h"

enum service_reason {
	REASON_NODES = 1, /* its targets may have changed */
	REASON_FULL = 2,  /* anything may have */
	REASON_RETRY = 4, /* the last run did not come to its end: FULL, but not before its time */
};

/* Events about work that begins, ends or fails. */
enum service_event {
	SERVICE_NOTHING,
	SERVICE_ENSURING,
	SERVICE_ENSURED,
	SERVICE_DELETING,
	SERVICE_DELETED,
	SERVICE_SYNC_FAILED,
	SERVICE_DELETE_FAILED,
};

/** What we know of one Service beside what the store knows. Made when a Service first concerns us,
 * dropped when it does not any more. */
struct service_record {
	char *key;
	unsigned reasons;        /* mu: to be dealt with; enum service_reason */
	struct object *vanished; /* mu: its last state, when it went from the store; NULL */
	/* The Service whose balancer we created, tried to create or found; NULL: none. Only the
	 * worker that has the key changes it, with mu held; other threads read it with mu held. */
	struct object *balanced;

	/* of the worker that has the key */
	uint64_t foreign_hash; /* hash of the UID of a Service of another class that has no balancer
	                          of ours */
	bool has_targets;      /* targets_hash is that of the targets the provider was given last */
	bool has_failed;       /* the last ensure or update did */
	uint64_t warned_outage; /* hash of the last Warning if an outage was its cause; else 0 */
	bool is_elsewhere; /* another controller's, said the provider: its targets are not ours to
	                      set */
	bool is_empty_reported; /* "no available nodes" was reported */
	/* what began, as an event said, and has not ended */
	enum service_event announced;
	char *written_version; /* what our own last write made of the Service; NULL: none */
	bool is_unsure;        /* whether that came through: there was no good answer */
	unsigned n_conflicts;  /* counted as expected since the last complete run */
	bool has_new_targets;  /* its targets were changed, and no event said so yet */
	uint64_t targets_hash;
	int64_t next_report_ns;  /* mono: changed targets are not reported again before */
	int64_t report_pause_ns; /* the pause before that */
	int64_t next_update_ns;  /* mono: targets are not touched again before */
	int64_t retry_ns;        /* mono: when REASON_RETRY is due */
	bool is_retry_fixed;     /* the cloud named that time: other nodes do not change it */
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
	struct map records;                                        /* mu */
	enum { ADOPT_WANTED, ADOPT_RUNNING, ADOPT_DONE } adoption; /* mu */
	int64_t next_pass_ns; /* mu: mono; nodes are not looked through again before */
};

/** One run of one Service. */
struct service_run {
	struct service_controller *c;
	struct call *call;
	struct service_record *record;
	const struct service *service;
	unsigned reasons;
};

/** Is that state of the Service older than our own last write to it? Then neither its finalizers
 * nor its status are to be relied on: acting on them has left Services with a balancer and without
 * a finalizer. */
bool service_is_stale(const struct service_record *record, const struct service *service);

/** Brings one Service to where it should be. *ret_is_done: the record may be dropped. ERR_PENDING
 * and ERR_THROTTLED with retry_after_ms; everything else backs off. */
NODISCARD bool service_sync(struct service_run *run, bool *ret_is_done, struct error *err);
/** Do its targets differ from those that the provider was given last? */
bool service_sync_has_new_targets(struct service_run *run);
/** The Service whose balancer we have is gone from the store, or another Service has its name.
 * last: the last state of a vanished Service of that name. The balancer is removed if it shows
 * that the Service was deleted, else kept and reported. */
NODISCARD bool service_sync_former(struct service_run *run, const struct service *last,
                                   struct error *err);

/** What a worker does once the stores have synced: adopts, or waits for the one who does. */
void service_begin(struct service_controller *c, struct call *call);
/** And then with each key that the queue hands out. The arena is empty afterwards. */
void service_work_on(struct service_controller *c, struct arena *arena, struct str key);

/** All views are of the Service or in the arena; no nodes. */
struct lb_spec service_spec(const struct service *, const char *cluster_name, struct arena *arena);

/* ---- service_events.c ---- */

#define SERVICE_COMPONENT "service-controller"

/** Once for a work that takes several tries: its beginning is an event, its repetition is not. */
void service_announce(struct service_run *, enum service_event event);
void service_report_end(struct service_run *, enum service_event event);
/** Is that error a failure? Waiting for a cloud or for its rate limit is not. */
bool service_is_failure(const struct error *);
/** A Warning, where the error is a failure. */
void service_warn(struct service_run *, enum service_event event, const struct error *);
/** A Warning that the balancer of that Service is kept although the Service is gone. */
void service_warn_of_kept(struct service_run *, const struct service *former);
void service_warn_of_update(struct service_run *, const struct target_list *, const struct error *);
/** A Warning that there are no targets: once. */
void service_report_empty(struct service_run *, size_t n_targets);
/** An event that targets were changed, now or later, if they were. */
void service_report_new_targets(struct service_run *);

#endif
