/* token.h: the credentials of the Cloud API and of Robot: a secret that is given as a variable X,
 * or as a file named by X_FILE.
 *
 * The official controller reads such files at its start only. We read them again, so that a token
 * can be replaced without a restart: before each request, and once more when a request is refused,
 * which is sent again when they differ.
 *
 * Threads: a source is protected by its owner's lock; a login may be used from any thread.
 */
#ifndef CCMD_HCLOUD_TOKEN_H
#define CCMD_HCLOUD_TOKEN_H

#include "base/buf.h"
#include "base/secret.h"
#include "http/http.h"

/* ---- where a secret comes from ---- */

struct hz_source {
	char *path; /* NULL: the variable itself, which never changes */
	struct secret value;
};

/** Reads it for the first time. Where the file cannot be read, a line is appended to `problems`. */
void hz_source_load(struct hz_source *, const char *variable, struct buf *problems);
void hz_source_fini(struct hz_source *);
/** Makes *to read what *from does. */
void hz_source_copy(struct hz_source *to, const struct hz_source *from);

/** Reads the file again; true when it holds another value. What cannot be read, or is empty, leaves
 * the last value: it is being replaced. */
bool hz_source_refresh(struct hz_source *);

/* ---- the Authorization header ---- */

struct hz_login;

/** Copies the sources. "Authorization: Bearer SECRET" where user is NULL, else "Basic …". */
struct hz_login *hz_login_new(const struct hz_source *user, const struct hz_source *secret);
void hz_login_free(struct hz_login *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_login, hz_login_free)

/** For http_config.auth; lives as long as the login. */
struct http_auth *hz_login_auth(struct hz_login *);
/** Goes up with every other credential; reads the files. */
uint64_t hz_login_generation(struct hz_login *);

#endif
