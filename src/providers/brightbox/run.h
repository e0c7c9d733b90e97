/* run.h: one run of ensure or remove: its passes, the changes that they send, and the state in
 * which it ends.
 *
 * A run is a sequence of passes. A pass goes through the same steps every time, and each step
 * compares one thing with the view and sends a change where it differs. The first pass is a trial:
 * it sends nothing, and its view may be some seconds old, unless the Service has changed. If no
 * change is due, nothing needs to be done for the Service. Otherwise more passes follow, until one
 * has nothing left to do. Their views were read after the run began and after its last change. A
 * step whose object is still missing ends its pass, because the next view shows it.
 *
 * No run waits for the cloud. If nothing is left to be sent, but the cloud has not finished, or
 * does not do what it should, the run ends with that state, and the Service comes back after a
 * pause (unsettled.h). Until then, a run of the Service ends with the same state without a request,
 * unless the Service or its nodes have changed.
 *
 * In a dry run the second pass notes the changes that are due, and is the last one. No view will
 * ever show them, so the pass continues with made-up objects. These exist only in the run: neither
 * a view nor unsettled.h gets them.
 *
 * Threads: a run belongs to one thread.
 */
#ifndef CCMD_BRIGHTBOX_RUN_H
#define CCMD_BRIGHTBOX_RUN_H

#include "base/event_kind.h"
#include "providers/brightbox/brightbox.h"
#include "providers/brightbox/desired.h"

/* The oldest view for a Service whose last run did not end in a state, and for lists. */
#define BB_VIEW_MAX_AGE_NS (10 * NS_PER_SEC)

enum {
	/* the shortest pauses until a Service is looked at again: a change of a balancer or a cloud
	 * IP needs seconds, a certificate and what a person has to do need minutes or hours */
	BB_SOON_MS = 500,
	BB_LATER_MS = 5000,
};

/** Why a Service is not settled although nothing is left to be sent. */
struct bb_state {
	enum err_code code; /* ERR_NONE: there is no state. ERR_PENDING: the cloud has not finished,
	                     * which is not a failure */
	struct str text;
	const char *advice; /* what a person can do; NULL: nothing */
	uint64_t hash;      /* identifies the state; 0: the hash of the text does */
	int64_t first_ms;   /* the shortest pause */
	/* an event that is sent when the state begins; NULL: none */
	const struct event_kind *event;
	struct str event_text;
};

struct bb_run {
	struct brightbox *bb;
	struct call *call;
	const struct lb_spec *spec;
	struct bb_desired desired; /* only its name if the balancer is removed */
	bool is_removal;
	struct bb_unsettled *unsettled; /* borrowed from the table; NULL in a dry run */
	uint64_t service_hash;          /* of what the Service asks for */
	uint64_t inputs_hash;           /* of that and of the Service's nodes */
	struct bb_view *view;
	bool only_compares;    /* the pass is a trial and sends nothing */
	bool has_difference;   /* a step of the pass has sent a change, or would */
	bool has_acted;        /* a change was sent, in any pass */
	bool has_missed;       /* what a pass wanted to delete did not exist */
	bool is_ours;          /* the account is that of the cluster */
	bool is_reported;      /* events about the balancer were sent */
	bool has_reported_ips; /* events about cloud IPs were sent */
	struct str checked;    /* id of the cloud IP whose domains were resolved */
	/* of the pass */
	struct bb_state state;
	bool ends_in_state;           /* it failed, and the error is that state */
	const struct bb_cloud_ip *ip; /* NULL: it is still to be made */
	struct bb_cloud_ip named_ip;  /* where the list does not have it */
	bool has_new_ip;              /* in a dry run: named_ip is made up */
	struct str *domains;
	size_t n_domains;
	const struct bb_lb *lb; /* NULL: it is still to be made */
	struct bb_lb new_lb;    /* in a dry run: made up */
};

/** Begins a run. The caller has set bb, call, spec, desired and is_removal. False: the pause after
 * the last run is not over, and *err is the result of that run; or ERR_UNAVAILABLE: too many
 * Services are not settled. */
NODISCARD bool bb_run_begin(struct bb_run *, struct error *err);
/** Makes passes until one has nothing left to do. */
NODISCARD bool bb_run_converge(struct bb_run *, bool (*pass)(struct bb_run *, struct error *),
                               struct error *err);
/** Ends a run that has begun, and passes its result on. If it failed because of a state, the next
 * look is after a pause. */
bool bb_run_end(struct bb_run *, bool is_done, struct error *err);
void bb_run_fini(struct bb_run *);

/* ---- for steps ---- */

void bb_run_warn(const struct bb_run *, const struct event_kind *kind, struct str text);

/** This pass will not settle the Service, and goes on. Of several states the first counts. */
void bb_run_await(struct bb_run *, const struct bb_state *);
/** Ends the pass with this state, whatever came before. Returns false. */
bool bb_run_stop(struct bb_run *, const struct bb_state *, struct error *err);

/* ---- changes ---- */

/** A change that a step needs. Its kind, id and body identify it, and `of` where these do not. */
struct bb_change {
	struct change sends;
	const char *kind;   /* "map cloud IP"; a literal */
	struct str of;      /* empty: nothing */
	struct str missing; /* what the lists show as long as it has no effect */
	/* it may take any time; other changes without effect are failures after 10 s */
	bool is_slow;
	/* the error of the request that means that the change is made, or being made, already */
	enum err_code done;
	/* for a creation: how many objects of that kind the account has, which has a limit */
	const size_t *n_of_kind;
	bool names_servers; /* it is refused if one of the desired servers does not exist */
	bool may_repeat;    /* the caller knows whether it took effect */
};

/** Sends the change, unless the pass is a trial, the same change that was sent before may still
 * take effect, or BB_SENT_MAX changes are unfinished.
 *
 * @param ret_id  of what a creation has created; empty: it was not sent, or was refused because of
 *                servers that the next pass leaves out. NULL: not wanted
 * @return  false: it failed, or the cloud has refused it before. Such an earlier refusal does not
 *          end a removal: the result is true then. */
NODISCARD bool bb_run_change(struct bb_run *, const struct bb_change *, struct str *ret_id,
                             struct error *err);
/** Sends the DELETE, as bb_run_change() does; what does not exist any more counts as deleted.
 * subject: "Cloud IP cip-aaaaa", for the text as long as the lists show it. */
NODISCARD bool bb_run_destroy(struct bb_run *, const char *what, const char *request, struct str id,
                              const char *kind, struct str subject, struct error *err);

struct bb_pair {
	const char *name;
	struct str value;
};

/** The body {"name":"value", …} of those pairs whose value is not empty. */
struct str bb_run_body(const struct bb_run *, const struct bb_pair pairs[], size_t n);
#define BB_BODY(run, ...)                                         \
	bb_run_body(run, (const struct bb_pair[]){ __VA_ARGS__ }, \
	            ARRAY_LEN(((const struct bb_pair[]){ __VA_ARGS__ })))

/* ---- steps about cloud IPs: cloud_ips.c (docs/spec/brightbox.md, "Cloud IPs") ---- */

/** Sets run->ip to the cloud IP that the Service chooses, or its own; NULL: yet to be made. */
NODISCARD bool bb_step_ip(struct bb_run *, struct error *err);
/** Maps run->ip to run->lb, unless it is mapped to something else. */
NODISCARD bool bb_step_map(struct bb_run *, struct error *err);
/** Unmaps the balancer's other cloud IPs, and destroys unmapped ones with the Service's name. */
NODISCARD bool bb_step_stale_ips(struct bb_run *, struct error *err);
/** Waits for the cloud IPs that are mapped to a balancer of the Service's name, while that balancer
 * is being deleted. */
void bb_step_await_ips(struct bb_run *);
/** "Mapping of CloudIP "cip-aaaaa" to "lba-aaaaa" not complete", as in the official controller. */
struct str bb_mapping_text(const struct bb_run *);

/* ---- steps about the firewall: firewall.c ("The firewall", "Deletion") ---- */

/** The server group with the nodes' servers, and its policy with its rule. */
NODISCARD bool bb_step_firewall(struct bb_run *, struct error *err);
NODISCARD bool bb_step_remove_firewall(struct bb_run *, struct error *err);

#endif
