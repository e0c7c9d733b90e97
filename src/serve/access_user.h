/* serve/access_user.h: who somebody is: a name, groups, extras. Immutable, counted, in one piece of memory.
 *
 * Collected in a draft, whose size is watched while it grows: what a certificate or the API server says about a
 * caller is foreign text. Threads: a user may be read and counted from any thread, a draft belongs to one.
 */
#ifndef CCMD_SERVE_ACCESS_USER_H
#define CCMD_SERVE_ACCESS_USER_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/label.h"

#define ACCESS_ANONYMOUS "system:anonymous"
#define ACCESS_AUTHENTICATED "system:authenticated"
#define ACCESS_UNAUTHENTICATED "system:unauthenticated"
#define ACCESS_MASTERS "system:masters"

struct access_user {
	atomic_uint refs;
	size_t size; /* bytes of memory, all told */
	struct str name, uid;
	struct str *groups;
	size_t n_groups;
	struct label *extras; /* one for each value; those of a key follow each other */
	size_t n_extras;
};

struct access_draft {
	struct arena *arena; /* texts are not copied: they live as long as it does, or longer */
	struct str name, uid;
	struct str *groups;
	size_t n_groups, cap_groups;
	struct label *extras;
	size_t n_extras, cap_extras;
	size_t bytes;
	bool is_over; /* larger than any user may be */
};

#define ACCESS_DRAFT_INIT(in) \
	((struct access_draft){ .arena = (in), .name = STR_EMPTY, .uid = STR_EMPTY })

void access_draft_name(struct access_draft *, struct str name);
void access_draft_uid(struct access_draft *, struct str uid);
void access_draft_group(struct access_draft *, struct str group);
void access_draft_extra(struct access_draft *, struct str key, struct str value);

/** A user as drafted, with system:authenticated among its groups. ERR_INVALID: it is too large, or has no name. */
NODISCARD bool access_user_new(struct access_draft *, struct access_user **ret, struct error *err);
/** system:anonymous. */
struct access_user *access_user_anonymous(void);

struct access_user *access_user_ref(struct access_user *);
/** NULL is fine. */
void access_user_unref(struct access_user *);
DEFINE_CLEANUP(struct access_user, access_user_unref)

bool access_user_is_in(const struct access_user *, const char *group);

#endif
