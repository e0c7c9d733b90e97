/* tests/controllers/fake_balancers.h: the balancers of the fake cloud: what exists, what was asked,
 * what goes wrong.
 *
 * A balancer is known by its Service's UID. Ensuring it twice makes one. A Service with the
 * annotation "elsewhere" is another controller's; one with "partial" is never quite done; one with
 * "pool":"P" takes only nodes whose label "pool" is P, where the cloud selects at all. The program
 * ends when two calls for one Service overlap.
 *
 * Threads: any.
 */
#ifndef CCMD_TESTS_CONTROLLERS_FAKE_BALANCERS_H
#define CCMD_TESTS_CONTROLLERS_FAKE_BALANCERS_H

#include "cloud/balancer.h"

struct fake_balancers;

struct fake_balancers *fake_balancers_new(struct clock *clock);
void fake_balancers_free(struct fake_balancers *); /* NULL is fine */
/** selects: nodes by label, and another address is another target. */
const struct balancer_ops *fake_balancers_ops(bool selects);

struct fake_fault {
	const char
		*call; /* how the call begins, as in the log: "ensure", "remove web"; NULL: any */
	enum err_code code;
	int64_t retry_after_ms;
	unsigned times; /* 0: for ever */
	bool is_late;   /* it is done, and then fails */
	bool hangs;     /* waits until fake_balancers_forget_faults(), then goes on */
};
/** Faults are tried in the order they were added. */
void fake_balancers_fault(struct fake_balancers *, struct fake_fault fault);
void fake_balancers_forget_faults(struct fake_balancers *);
/** Asked before each call, after the faults: ERR_NONE, or what it fails with. NULL: not asked. */
typedef enum err_code fake_balancers_mood_fn(void *arg, const char *call, bool *ret_is_late,
                                             int64_t *ret_retry_after_ms);
void fake_balancers_mood(struct fake_balancers *, fake_balancers_mood_fn *mood, void *arg);
/** Called first by each call, which fails with *err if it returns false. NULL: not called. */
typedef bool fake_reach_fn(void *arg, struct error *err);
void fake_balancers_reach(struct fake_balancers *, fake_reach_fn *reach, void *arg);
/** Called after one was made, with its UID. */
void fake_balancers_on_make(struct fake_balancers *, void (*fn)(void *arg, const char *uid),
                            void *arg);

/** Calls so far that begin like that; NULL: all. A call is "ensure web web-1 a,b," or "update …",
 * "remove web web-1", "adopt - web-1,leaving:b-2,bare:c-3", "forget - web-1": operation, name,
 * UID, nodes. "bare": it has neither ports nor source ranges. */
size_t fake_balancers_calls(struct fake_balancers *, const char *begin);
/** The last call; valid until the next. Ends the program when there was none. */
const char *fake_balancers_last(struct fake_balancers *);
void fake_balancers_forget_calls(struct fake_balancers *);
/** The most that ran at the same time. */
unsigned fake_balancers_most_at_once(struct fake_balancers *);

/** A copy; exists is false if there is no such balancer. */
struct fake_balancer_state {
	bool exists;
	char name[64], uid[64], address[32];
	char annotations[256]; /* "k=v," */
	char nodes[512];       /* "a=fake://a,b=," */
	unsigned n_changes;    /* since it was made */
};
struct fake_balancer_state fake_balancers_get(struct fake_balancers *, const char *uid);
size_t fake_balancers_count(struct fake_balancers *);
/** How many there are for a Service of that name, whatever its UID. */
size_t fake_balancers_count_of(struct fake_balancers *, const char *name);
/** As somebody at the cloud's console. */
void fake_balancers_drop(struct fake_balancers *, const char *uid);

#endif
