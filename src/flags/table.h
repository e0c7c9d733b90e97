/* flags/table.h: the table of all flags and the functions that read it, for the files of this
 * folder.
 *
 * A row says everything about a flag: its name, how its value is parsed, where the value goes, the
 * default, the help text, and whether the flag has an effect. The parser, --help, the log, the man
 * page and docs/reference/flags.md all read the same rows, so they cannot contradict each other.
 */
#ifndef CCMD_FLAGS_TABLE_H
#define CCMD_FLAGS_TABLE_H

#include "base/buf.h"
#include "flags/options.h"

/* What a value looks like, and the type of its field (values.c). */
enum flag_kind {
	FLAG_TEXT,     /* const char * */
	FLAG_STR,      /* struct str */
	FLAG_BOOL,     /* bool */
	FLAG_COUNT,    /* int64_t, 1 to 1000 */
	FLAG_PERCENT,  /* unsigned */
	FLAG_NUMBER,   /* unsigned */
	FLAG_LEVEL,    /* int64_t, 0 and more */
	FLAG_PORT,     /* int */
	FLAG_RATE,     /* double, above 0 */
	FLAG_DURATION, /* int64_t nanoseconds, 0 and more */
	FLAG_PERIOD,   /* int64_t nanoseconds, above 0 */
	FLAG_ADDRESS,  /* struct str, an IP address */
	FLAG_CHOICE,   /* an enum: the index into choices */
	FLAG_LIST,     /* struct str_list; a value is cut at commas */
	FLAG_EACH,     /* struct str_list; a value is one item */
	FLAG_HELP,
	FLAG_VERSION,
};

enum flag_effect {
	FLAG_HONOURED = 0,
	FLAG_NO_EFFECT,  /* accepted because upstream has it, but has no effect here */
	FLAG_DEPRECATED, /* the same, and upstream has deprecated or removed it */
};

struct flag {
	const char *name;
	enum flag_kind kind;
	size_t offset; /* of the field in struct options; FLAG_NOWHERE: the value is only checked */
	/* the default, as it would be typed; NULL: none. "auto": the field stays 0 */
	const char *fallback;
	const char *help;
	enum flag_effect effect;
	const char *why;            /* FLAG_NO_EFFECT, FLAG_DEPRECATED: the reason */
	const char *const *choices; /* FLAG_CHOICE; ends with NULL */
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

/** All groups; ends with NULL. */
extern const struct flag_group *const flag_groups[];

/** Flags of other or older programs that are refused as unknown, with the reason for the message:
 * users may still have them in their manifests. */
struct refused_flag {
	const char *name, *why;
};

extern const struct refused_flag refused_flags[]; /* ends with a NULL name */

/** What is known about a flag besides the value of its field. */
struct flag_state {
	const char *text; /* the value as typed, or the default */
	bool is_given;
};

/** The flag with that index, counted through all groups; NULL after the last one. */
const struct flag *flag_at(size_t index);
size_t flag_count(void);
/** Finds a flag by its name; '_' counts as '-'. False: no flag has that name. */
bool flag_find(struct str name, size_t *ret_index);
/** "-" or "--". */
const char *flag_dashes(const struct flag *flag);
/** "string", "duration", "strings"…; empty for a boolean. */
const char *flag_type(const struct flag *flag);
/** Appends the default as --help shows it: strings in quotes, lists in brackets, nothing for an
 * empty or zero value. */
void flag_add_default(const struct flag *flag, struct buf *b);

/** Parses value into the field. value must live as long as the options. The first value of a list
 * replaces the default, further values are appended. False: the value is not what
 * flag_add_expected() describes. */
bool flag_set(struct options *o, size_t index, const char *value, bool is_default);
/** Appends what values the flag accepts, for an error message. */
void flag_add_expected(const struct flag *flag, struct buf *b);

/* ---- checks beyond one value; each appends its problems and warnings, a line each ---- */
void serving_resolve(struct options *o, struct buf *problems, struct buf *warnings);
void options_validate(struct options *o, struct buf *problems, struct buf *warnings);

/** Appends the flags, for --help. Descriptions are wrapped at width columns; 0: not wrapped. */
void help_print(struct buf *out, unsigned width);

#endif
