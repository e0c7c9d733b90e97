/* cloud/login.h: a secret that a cloud's API requires, and the header that carries it.
 *
 * A secret that comes from a file is read again before each request, and when the API refuses it
 * with a 401, so that it can be replaced without a restart. If the file is missing, unreadable or
 * empty, the last value stays in use, because the file is probably being replaced at that moment.
 *
 * Threads: a login_secret has one owner; a login may be used from any thread.
 */
#ifndef CCMD_CLOUD_LOGIN_H
#define CCMD_CLOUD_LOGIN_H

#include "base/buf.h"
#include "base/secret.h"
#include "http/http.h"

/* ---- a secret ---- */

struct login_secret {
	char *path; /* NULL: it does not come from a file, and never changes */
	struct secret value;
};

/** Reads a file, without white space around its content. The path belongs in cloud->needs.reads,
 * unless it is --cloud-config itself. On false, path is set, and value is not. */
NODISCARD bool login_secret_read(struct login_secret *, const char *path, struct error *err);
/** Takes the text itself, e.g. of an environment variable. */
void login_secret_set(struct login_secret *, struct str text);
/** Reads the file again; true when it holds another value. A login does this by itself. */
bool login_secret_refresh(struct login_secret *);
/** For CLEANUP(login_secret_fini); *s may be all zero. */
void login_secret_fini(struct login_secret *s);

/* ---- the header ---- */

struct login;

struct login_config {
	const struct login_secret *secret; /* copied; a token, or a password */
	const struct login_secret *user;   /* copied; NULL: no user name */
	/* The header whose value is the secret alone: "X-Key". NULL: "Authorization: Bearer
	 * SECRET", or with a user name "Authorization: Basic …". */
	const char *header;
};

struct login *login_new(const struct login_config *config);
void login_free(struct login *); /* NULL is fine */
DEFINE_CLEANUP(struct login, login_free)

/** For http_config.auth; lives as long as the login. */
struct http_auth *login_auth(struct login *);
/** A number that grows when a secret changes. Reads the files first. */
uint64_t login_generation(struct login *);

/* ---- responses of two projects ----
 *
 * New credentials may be those of another project, so a response before they were replaced and one
 * after it may contradict each other: a machine that is absent in one project, and in the other
 * the machine that shows that the project is the right one. Who decides by several responses gives
 * up if the credentials were replaced meanwhile. */

/** How many times credentials of the cloud have been replaced in this process. */
uint64_t login_count_replaced(void);
/** Called when the credentials that requests carry are replaced; a login does this by itself. */
void login_note_replaced(void);
/** False if they were replaced since login_count_replaced() returned `since`. */
NODISCARD bool login_check_same(uint64_t since, struct error *err);

/* ---- what the credentials may do ---- */

/** Shows in the metrics whether the cloud refused the last change because the credentials may only
 * read; `ccmd doctor` reports it. A provider whose API says this clearly calls it with false at its
 * start and after each change that succeeded, and with true after each that was refused for this
 * reason. */
void login_set_read_only(bool is_read_only);

#endif
