/* login.h: what our requests are signed with: a token, or a user name and a password.
 *
 * Files are read again before every request, which are few, and so a replaced token is used at once. A 401 reads them once
 * more, and the request is sent again when they differ.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LOGIN_H
#define CCMD_HCLOUD_LOGIN_H

#include "http/http.h"
#include "providers/hcloud/source.h"

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
