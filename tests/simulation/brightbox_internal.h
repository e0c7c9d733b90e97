/* tests/simulation/brightbox_internal.h: what the files of the model of the Brightbox API share.
 *
 * A request is checked against a row of the table in brightbox_rows.c, and the row's function
 * serves it. What takes effect later is a struct bm_effect; the answer shows the object as it is
 * before. A table of members for each kind of object is used to write and to read JSON.
 *
 * Memory that may become part of an object is from the arena of the model. Memory that is needed
 * only while a request is served is from the arena of the call.
 */
#ifndef CCMD_TESTS_SIMULATION_BRIGHTBOX_INTERNAL_H
#define CCMD_TESTS_SIMULATION_BRIGHTBOX_INTERNAL_H

#include "brightbox.h"
#include "model.h"

#define BM_REGION "gb1"

struct bm_account {
	struct brightbox_account base; /* first: the public struct is this one */
	size_t cap_of[BRIGHTBOX_N_KINDS];
	unsigned n_addresses;
};

/** The cause of a change. */
struct bm_who {
	struct str client, command;
};

struct bm_effect;
typedef void bm_apply(struct brightbox *, struct brightbox_object *, const struct bm_effect *);

/** What happens to an object, if it still exists then. */
struct bm_effect {
	bm_apply *apply;
	struct bm_account *account;
	enum brightbox_kind kind;
	struct str id, text; /* of the object, and a detail */
	struct bm_who who;
	int64_t at_ns;
};

struct bm_client {
	struct str id, secret;
	struct bm_account *account;
	bool is_user;
};

struct bm_token {
	struct str text, refresh; /* refresh empty: none, or it was used */
	struct str client;
	struct bm_account *account;
	int64_t ends_ns; /* 0: revoked */
	bool is_of_user;
};

struct brightbox {
	struct server base; /* first */
	struct arena arena;
	int64_t now_ns;
	uint64_t random;
	struct brightbox_settings settings;
	brightbox_observe *observe;
	void *observe_arg;
	struct bm_account **accounts;
	size_t n_accounts, cap_accounts;
	struct bm_client *clients;
	size_t n_clients, cap_clients;
	struct bm_token *tokens;
	size_t n_tokens, cap_tokens;
	struct bm_effect *due; /* in the order in which they were planned */
	size_t n_due, cap_due;
};

/** "srv-abcde", in the model's arena. */
struct str bm_new_id(struct brightbox *, const char *code);
/** Runs the effect after a delay; immediately, if the delay is 0. */
void bm_later(struct brightbox *, struct bm_effect, int64_t delay_ns);
int64_t bm_delay(struct brightbox *);
/** Reports the change of an object, if it is one; its state before was copied with bm_copy(). */
void bm_report(struct brightbox *, const struct bm_account *, const struct bm_who *,
               const struct brightbox_object *before, const struct brightbox_object *after);

/* ---- calls: brightbox.c ---- */

struct bm_call {
	struct brightbox *b;
	struct bm_account *account;
	struct bm_who who;
	struct arena arena;
	const struct bm_row *row;
	struct str path;                 /* without the query and /1.0 */
	struct str id;                   /* of the path; empty: it has none */
	struct brightbox_object *object; /* of the path; what the answer shows */
	yyjson_doc *doc;
	yyjson_val *body;       /* NULL: none */
	struct bm_effect after; /* runs after the answer was written, if it is set */
	int64_t after_ns;
	struct server_response *answer;
};

/** Writes the error into the answer. Returns false. */
bool bm_refuse(struct bm_call *, int status, const char *name, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/** 422, with one text for each problem; true: there is none. Frees the problems. */
bool bm_refuse_problems(struct bm_call *, struct kind_problems *);
bool bm_refuse_missing(struct bm_call *);
bool bm_refuse_conflict(struct bm_call *);

/* ---- rows: brightbox_rows.c ---- */

/** One thing that can be requested. */
struct bm_row {
	const char *method, *path; /* "/servers/{id}" */
	int status;                /* of a good answer */
	const struct kind *body;   /* NULL: none */
	enum brightbox_kind kind;
	bool (*serve)(struct bm_call *); /* NULL: only shows */
};

extern const struct bm_row bm_rows[];
extern const size_t bm_n_rows;

/** Groups and balancers lose the server. */
void bm_leave_holders(struct brightbox *, struct bm_account *, struct str server);

/* ---- objects: brightbox_objects.c ---- */

enum bm_type {
	BM_TEXT, /* struct str */
	BM_FLAG,
	BM_NUMBER, /* int64_t */
	BM_TIME,   /* int64_t; 0: null */
	BM_RAW,    /* the same JSON in each object */
};

struct bm_member {
	const char *name;
	enum bm_type type;
	size_t at;       /* in the struct */
	const char *raw; /* of BM_RAW */
	bool is_brief;   /* also shown where another object names this one */
};

extern const struct bm_member bm_listener_members[], bm_check_members[];
extern const struct brightbox_check bm_usual_check;

const char *bm_collection(enum brightbox_kind);
/** An object of that kind with the usual members. */
struct brightbox_object *bm_add(struct brightbox *, struct bm_account *, enum brightbox_kind);
/** An effect: the object is gone. */
bm_apply bm_vanish;
/** Is that a copy of the struct, which has not changed since? */
bool bm_eq(const struct brightbox_object *copy, const struct brightbox_object *);
/** A copy of the struct, in the arena of the model. */
const struct brightbox_object *bm_copy(struct brightbox *, const struct brightbox_object *);
/** Sets the members that the body has, of those in the table. */
void bm_read(struct brightbox *, const struct bm_member members[], yyjson_val *body, void *thing);
void bm_read_object(struct brightbox *, yyjson_val *body, struct brightbox_object *);
/** Appends the whole object. */
void bm_write(const struct bm_account *, struct buf *, const struct brightbox_object *);
void bm_write_account(const struct bm_account *, struct buf *, const char *name);

#endif
