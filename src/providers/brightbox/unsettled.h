/* unsettled.h: what ccmd remembers of a Service until its balancer is settled.
 *
 * A Service is settled when a run has found nothing to do, and the cloud has finished all changes.
 * Nothing is stored for settled Services. Stored for each of the others are:
 *
 * - The state that the last run ended in, if the cloud has not finished or does not do what it
 *   should. A run of the same Service gets the same result, without a request, until the pause
 *   after that run is over. Pauses grow while the state stays the same, from 0.5 s or 5 s up to
 *   5 min. So no worker waits until the cloud has finished.
 * - The changes that were sent and have not taken effect. They are sent again after a minute, and
 *   from then on every twenty minutes, so an API that shows a value in another form, or that loses
 *   a change, does not cause a change in each run.
 * - The last balancer that this process created, and when it created the last BB_CREATIONS_MAX, so
 *   that balancers that fail are not created without end.
 *
 * Threads: the functions of the table may be called from any thread. A struct bb_unsettled belongs
 * to the run of its Service, of which there is one at a time.
 */
#ifndef CCMD_BRIGHTBOX_UNSETTLED_H
#define CCMD_BRIGHTBOX_UNSETTLED_H

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

enum {
	BB_SENT_MAX = 16,     /* changes of one Service that may be unfinished at the same time */
	BB_CREATIONS_MAX = 3, /* balancers that are created for one Service in an hour */
};

/* A change that was sent. */
struct bb_sent {
	uint64_t change; /* a hash that identifies it */
	int64_t boot_ns; /* when it was sent last */
	bool is_repeated;
	bool is_needed; /* in the current pass */
	char *refusal;  /* the API's error, because the object is busy; NULL: it was accepted */
};

struct bb_unsettled {
	struct str name, uid; /* behind this struct */
	char *created;        /* id of the balancer that this process created; NULL: none */
	int64_t creations_boot_ns[BB_CREATIONS_MAX]; /* of balancers, the newest first; 0: none */
	struct bb_sent sent[BB_SENT_MAX];
	size_t n_sent;
	uint64_t view; /* number of the last view that a run has seen */
	/* the state after the last run; result.code ERR_NONE: it is not known */
	struct error result;
	uint64_t state;           /* a hash that differs when the state of the cloud differs */
	uint64_t service, inputs; /* hashes of the Service, and of the Service with its nodes */
	int64_t since_boot_ns;    /* when that state was seen first */
	int64_t next_boot_ns;     /* the next look at the cloud */
	int64_t pause_ns;         /* between the last look and the next one */
	bool is_reported;         /* an event about that state was sent */
};

struct bb_unsettled_table;

struct bb_unsettled_table *bb_unsettled_table_new(void);
void bb_unsettled_table_free(struct bb_unsettled_table *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_unsettled_table, bb_unsettled_table_free)

/** Returns what is stored for the Service with that UID, whose objects have that name, or makes an
 * empty one. What a former Service of that name has left is removed. The caller uses it until
 * bb_unsettled_return(). ERR_UNAVAILABLE: LIMIT_UNSETTLED Services are not settled. */
NODISCARD bool bb_unsettled_borrow(struct bb_unsettled_table *, struct str name, struct str uid,
                                   struct bb_unsettled **ret, struct error *err);
/** Ends a run. The struct is freed if the Service is settled, or if it has nothing to remember. */
void bb_unsettled_return(struct bb_unsettled_table *, struct bb_unsettled *, bool is_settled);
/** The Service does not exist any more. */
void bb_unsettled_forget(struct bb_unsettled_table *, struct str uid);

/* ---- the state ---- */

/** Stores the state that a run ended in, and sets result->retry_after_ms for ERR_PENDING. first_ms:
 * the shortest pause. u->service and u->inputs are those of this run. */
void bb_unsettled_note_state(struct bb_unsettled *, uint64_t service, uint64_t inputs,
                             uint64_t state, int64_t first_ms, int64_t now_boot_ns,
                             struct error *result);

/* ---- changes ---- */

/** Notes that the pass needs that change. Returns the change that was sent before if it is too
 * early to send it again, else NULL. */
const struct bb_sent *bb_unsettled_need(struct bb_unsettled *, uint64_t change,
                                        int64_t now_boot_ns);
/** May that change be sent? No, if BB_SENT_MAX others are unfinished. */
bool bb_unsettled_has_room(const struct bb_unsettled *, uint64_t change);
/** It was sent. refusal: NULL if it was accepted. There must be room for it. */
void bb_unsettled_note_sent(struct bb_unsettled *, uint64_t change, int64_t now_boot_ns,
                            const char *refusal);
/** Ends a pass. is_whole: it saw everything, so a change that it did not need has taken effect. */
void bb_unsettled_end_pass(struct bb_unsettled *, bool is_whole);

/* ---- creations ---- */

void bb_unsettled_note_created(struct bb_unsettled *, struct str id, int64_t now_boot_ns);
/** This process has deleted the balancer that it created last, because another process had created
 * one as well. It does not count as created. */
void bb_unsettled_note_withdrawn(struct bb_unsettled *);
/** Were BB_CREATIONS_MAX created within the last hour? */
bool bb_unsettled_has_created_enough(const struct bb_unsettled *, int64_t now_boot_ns);

#endif
