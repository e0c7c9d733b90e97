/* operator/plan_internal.h: what a plan consists of, for the files that collect it (plan.c) and
 * print it (plan_print.c).
 */
#ifndef CCMD_OPERATOR_PLAN_INTERNAL_H
#define CCMD_OPERATOR_PLAN_INTERNAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/map.h"
#include "operator/plan.h"

/* A request. */
struct plan_change {
	STAILQ_ENTRY(plan_change) next;
	enum dry_verb verb;
	bool is_cloud;
	const char *what;
	struct str name, request, version;
	struct dry_field *fields;
	size_t n_fields;
};
STAILQ_HEAD(plan_changes, plan_change);

/* A cluster object, and all that is known about it. */
struct plan_object {
	struct str key; /* "node n1" */
	const char *kind;
	struct str name;
	struct plan_changes changes;
	struct str error; /* empty: none */
	struct str
		stays;  /* why it, or a part of it, stays as it is: the first reason; empty: none */
	size_t n_stays; /* reasons */
	bool has_step;
	struct plan_step step;
};

enum {
	PLAN_MAX_SKIPPED = 4, /* one for each controller */
};

struct plan {
	struct dry_run dry;
	pthread_mutex_t mu;
	/* everything below: mu */
	struct arena arena;
	struct map by_key;
	struct plan_object **objects;
	size_t n, cap;
	size_t n_cloud, n_server; /* requests */
	size_t n_left_out;        /* requests beyond LIMIT_PLAN, which are counted as well */
	struct {
		const char *what, *reason;
	} skipped[PLAN_MAX_SKIPPED];
	size_t n_skipped;
};

#endif
