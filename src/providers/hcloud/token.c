/* token.c: see token.h. */
#include "providers/hcloud/token.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

/* ---- where a secret comes from ---- */

enum {
	NAME_MAX_LEN = 64, /* of a variable, with "_FILE" */
};

/* The file that X_FILE names; NULL: none, or X comes first. */
static const char *
file_of(const char *variable)
{
	char memory[NAME_MAX_LEN] = "";
	struct buf name = BUF_FIXED(memory);

	buf_addf(&name, "%s_FILE", variable);
	return getenv(variable) ? NULL : getenv(memory);
}

static bool
read_path(const char *path, struct secret *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_CREDENTIAL);

	if (!file_read(path, &text, err))
		return false;
	secret_set(ret, str_trim(buf_str(&text)));
	return true;
}

/* In Go's words, where people search for them. */
static void
add_read_problem(struct buf *problems, const char *variable, const char *path,
                 const struct error *err)
{
	buf_addf(problems, "failed to read %s_FILE: ", variable);
	if (err->code == ERR_NOT_FOUND)
		buf_addf(problems, "open %s: no such file or directory\n", path);
	else if (err->code == ERR_FORBIDDEN)
		buf_addf(problems, "open %s: permission denied\n", path);
	else
		buf_addf(problems, "%s\n", err->msg);
}

void
hz_source_load(struct hz_source *s, const char *variable, struct buf *problems)
{
	const char *path = file_of(variable);
	struct error err;

	*s = (struct hz_source){ 0 };
	if (!path) {
		secret_set(&s->value, str_c(getenv(variable)));
		return;
	}
	s->path = xstrdup(path);
	if (!read_path(s->path, &s->value, &err))
		add_read_problem(problems, variable, s->path, &err);
}

void
hz_source_fini(struct hz_source *s)
{
	secret_fini(&s->value);
	free(TAKE(s->path));
}

void
hz_source_copy(struct hz_source *to, const struct hz_source *from)
{
	*to = (struct hz_source){ .path = from->path ? xstrdup(from->path) : NULL };
	secret_set(&to->value, secret_expose(&from->value));
}

bool
hz_source_refresh(struct hz_source *s)
{
	CLEANUP(secret_fini) struct secret fresh = SECRET_NONE;
	struct error err;

	if (!s->path || !read_path(s->path, &fresh, &err) || secret_expose(&fresh).len == 0 ||
	    secret_eq(&fresh, &s->value))
		return false;
	secret_set(&s->value, secret_expose(&fresh));
	return true;
}

/* ---- the Authorization header ---- */

struct hz_login {
	struct http_auth auth;
	pthread_mutex_t mu;
	bool has_user;
	struct hz_source user, secret; /* mu */
	uint64_t generation;           /* mu */
};

static struct hz_login *
login_of(struct http_auth *auth)
{
	return CONTAINER_OF(auth, struct hz_login, auth);
}

/* With mu held. */
static void
login_refresh(struct hz_login *l)
{
	bool has_changed = hz_source_refresh(&l->secret);

	has_changed |= l->has_user && hz_source_refresh(&l->user);
	if (!has_changed)
		return;
	l->generation++;
	log_info("credentials were replaced",
	         LOG_CSTR("file", l->secret.path ? l->secret.path : l->user.path));
}

uint64_t
hz_login_generation(struct hz_login *l)
{
	WITH_LOCK(&l->mu);
	login_refresh(l);
	return l->generation;
}

/* ---- the header ---- */

static bool
add_bearer(const struct hz_login *l, struct buf *ret, struct error *err)
{
	struct str token = secret_expose(&l->secret.value);

	if (!str_is_visible(token))
		return err_set(err, ERR_UNAUTHORIZED,
		               "authorization token contains invalid characters");
	buf_add_c(ret, "Bearer ");
	buf_add_str(ret, token);
	return true;
}

static bool
add_basic(const struct hz_login *l, struct buf *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf plain = BUF_SECRET(LIMIT_CREDENTIAL);

	buf_add_str(&plain, secret_expose(&l->user.value));
	buf_add_char(&plain, ':');
	buf_add_str(&plain, secret_expose(&l->secret.value));
	buf_add_c(ret, "Basic ");
	base64_add(ret, buf_str(&plain));
	if (!buf_ok(&plain) || !buf_ok(ret))
		return err_set(err, ERR_UNAUTHORIZED, "user name and password are too long");
	return true;
}

static bool
login_authorize(struct http_auth *auth, UNUSED const struct call *call, struct buf *ret,
                uint64_t *ret_generation, struct error *err)
{
	struct hz_login *l = login_of(auth);
	WITH_LOCK(&l->mu);

	login_refresh(l);
	*ret_generation = l->generation;
	return l->has_user ? add_basic(l, ret, err) : add_bearer(l, ret, err);
}

static bool
login_rejected(struct http_auth *auth, uint64_t generation)
{
	return hz_login_generation(login_of(auth)) != generation;
}

/* ---- life cycle ---- */

struct hz_login *
hz_login_new(const struct hz_source *user, const struct hz_source *secret)
{
	struct hz_login *l = xcalloc(1, sizeof(*l));

	l->auth = (struct http_auth){ .authorize = login_authorize, .rejected = login_rejected };
	mutex_init(&l->mu);
	l->has_user = user != NULL;
	if (user)
		hz_source_copy(&l->user, user);
	hz_source_copy(&l->secret, secret);
	return l;
}

void
hz_login_free(struct hz_login *l)
{
	if (!l)
		return;
	hz_source_fini(&l->user);
	hz_source_fini(&l->secret);
	mutex_destroy(&l->mu);
	free(l);
}

struct http_auth *
hz_login_auth(struct hz_login *l)
{
	return &l->auth;
}
