/* flags/table.h: the table of all flags, and the steps that read it; for the files of this
 * folder. */
#ifndef CCMD_FLAGS_TABLE_H
#define CCMD_FLAGS_TABLE_H

#include "base/buf.h"
#include "flags/options.h"

/* What a value looks like, and the type of its field. */
enum flag_kind {
	FLAG_TEXT,     /* const char * */
	FLAG_BOOL,     /* bool */
	FLAG_COUNT,    /* int64_t, 1 to 1000 */
	FLAG_PERCENT,  /* unsigned */
	FLAG_NUMBER,   /* unsigned */
	FLAG_LEVEL,    /* int64_t, 0 and more */
	FLAG_PORT,     /* int */
	FLAG_RATE,     /* double, above 0 */
	FLAG_DURATION, /* int64_t nanoseconds, 0 and more */
	FLAG_PERIOD,   /* int64_t nanoseconds, above 0 */
	FLAG_ADDRESS,  /* const char *, an IP address */
	FLAG_CHOICE,   /* an enum: the index into choices */
	FLAG_LIST,     /* struct text_list, cut at commas */
	FLAG_EACH,     /* struct text_list, one item each time it is given */
	FLAG_HELP,
	FLAG_VERSION,
};

enum flag_effect {
	FLAG_HONOURED = 0,
	FLAG_NO_EFFECT,  /* accepted: upstream has it, it means nothing here */
	FLAG_DEPRECATED, /* as well, and upstream itself is about to drop it, or has */
};

struct flag {
	const char *name;
	enum flag_kind kind;
	size_t offset;        /* in struct options; FLAG_NOWHERE: only checked */
	const char *fallback; /* the default, as one would type it; NULL: none. "auto": the field
	                         stays 0 */
	const char *help;
	enum flag_effect effect;
	const char *why;            /* it has no effect */
	const char *const *choices; /* FLAG_CHOICE; NULL at the end */
};

#define FLAG_NOWHERE SIZE_MAX
#define AT(field) offsetof(struct options, field)

struct flag_group {
	const char *name;
	const struct flag *flags;
	size_t n;
};

/* In the order of --help. */
extern const struct flag_group generic_flags, client_flags, election_flags, controller_flags,
	node_flags, guard_flags, service_flags, route_flags, serving_flags, authentication_flags,
	authorization_flags, webhook_flags, debugging_flags, logging_flags, deprecated_flags,
	global_flags;

/** All groups, NULL at the end. */
extern const struct flag_group *const flag_groups[];

/** Flags that people may still have in their manifests, and that are refused as unknown; with the
 * reason. */
struct refused_flag {
	const char *name, *why;
};

extern const struct refused_flag refused_flags[]; /* name NULL at the end */

/** What is known of a flag beside its field. */
struct flag_state {
	const char *text; /* the value as typed, or the default */
	bool is_given;
};

/** The n-th flag of the table, counted through all groups; NULL behind the last. */
const struct flag *flag_at(size_t index);
size_t flag_count(void);
/** By its name, with '_' for '-'; false when there is none. */
bool flag_find(struct str name, size_t *ret_index);
/** "-" or "--". */
const char *flag_dashes(const struct flag *flag);
/** "string", "duration", "strings"…; empty for a boolean. */
const char *flag_type(const struct flag *flag);
/** The default as it is shown: strings in quotes, lists in brackets, nothing for what is empty. */
void flag_add_default(const struct flag *flag, struct buf *b);

/** Sets the field; value is terminated and lives as long as the options. A list is replaced when
 * the flag is given for the first time, and grows after that. False when the value is not what
 * flag_add_expected() says. */
bool flag_set(struct options *o, size_t index, const char *value, bool is_default);
void flag_add_expected(const struct flag *flag, struct buf *b);

/* ---- checks beyond one value; each appends its problems, a line each ---- */

void controllers_resolve(struct options *o, struct buf *problems);
void gates_resolve(struct options *o, struct buf *problems, struct buf *warnings);
void serving_resolve(struct options *o, struct buf *problems, struct buf *warnings);
void options_validate(struct options *o, struct buf *problems, struct buf *warnings);

/** The text of --help. Descriptions are wrapped at width columns; 0: not at all. */
void help_print(struct buf *out, unsigned width);
/** The columns of the terminal behind fd, 80 at least; 0 when it is none. */
unsigned help_width(int fd);

#endif
