/* tests/simulation/model.h: what the models of clouds share: what a value of a request may be,
 * matching of paths, and arrays that are replaced.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_MODEL_H
#define CCMD_TESTS_SIMULATION_MODEL_H

#include "base/arena.h"
#include "base/json.h"
#include "server.h"
#include "target.h"

/* ---- values of requests ---- */

enum kind_form {
	KIND_FLAG,
	KIND_NUMBER,
	KIND_TEXT,
	KIND_ONE_OF,
	KIND_ID_OR_NAME,
	KIND_OBJECT, /* of any members */
	KIND_LIST,
	KIND_FIELDS, /* an object of certain members */
};

struct kind_problems;

/** What a value of a request may be. */
struct kind {
	enum kind_form form;
	bool is_nullable;
	int64_t low, high;         /* of a number; of the characters of a text; high 0: none */
	const char *const *values; /* of KIND_ONE_OF; NULL ends it */
	const struct kind *item;   /* of a list */
	const struct kind_field *fields; /* of KIND_FIELDS; a name NULL ends it */
	/* of KIND_TEXT and KIND_OBJECT: notes what else is wrong; NULL: nothing */
	void (*check)(struct arena *, yyjson_val *, struct str where, struct kind_problems *);
};

/** Required fields come first, ordered by name, because the missing ones are listed so. */
struct kind_field {
	const char *name;
	const struct kind *kind;
	bool is_required;
};

struct kind_problem {
	struct str field, message; /* "services.0.listen_port" */
};

struct kind_problems {
	struct kind_problem *items; /* on the heap */
	size_t n, cap;
};

#define KIND(...) (&(const struct kind){ __VA_ARGS__ })
#define OBJECT(...)               \
	KIND(.form = KIND_FIELDS, \
	     .fields = (const struct kind_field[]){ __VA_ARGS__, { NULL, NULL, false } })
#define LIST(of) KIND(.form = KIND_LIST, .item = (of))
#define ONE_OF(...) KIND(.form = KIND_ONE_OF, .values = (const char *const[]){ __VA_ARGS__, NULL })

/** Notes every problem of the value. */
void kind_check(struct arena *, const struct kind *, yyjson_val *, struct str where,
                struct kind_problems *);
void kind_check_parameters(struct arena *, const struct kind *, const struct target_pair[],
                           size_t n, struct kind_problems *);
void kind_note(struct kind_problems *, struct str field, struct str message);

/* ---- arrays ---- */

/** Arrays of resources are replaced, never changed in place: with one more at the end, or without
 * the i-th. */
void *model_with(struct arena *, const void *array, size_t n, size_t size, const void *one);
void *model_without(struct arena *, const void *array, size_t n, size_t size, size_t i);

/* ---- random numbers ---- */

uint64_t model_random(uint64_t *state);

#endif
