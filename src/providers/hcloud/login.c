/* login.c: see login.h. */
#include "providers/hcloud/login.h"

#include "base/alloc.h"
#include "base/base64.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

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
refresh(struct hz_login *l)
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
	refresh(l);
	return l->generation;
}

/* ---- the header -------------------------------------------------------------------------------------- */

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
authorize(struct http_auth *auth, UNUSED const struct call *call, struct buf *ret,
          uint64_t *ret_generation, struct error *err)
{
	struct hz_login *l = login_of(auth);
	WITH_LOCK(&l->mu);

	refresh(l);
	*ret_generation = l->generation;
	return l->has_user ? add_basic(l, ret, err) : add_bearer(l, ret, err);
}

static bool
rejected(struct http_auth *auth, uint64_t generation)
{
	return hz_login_generation(login_of(auth)) != generation;
}

/* ---- life cycle -------------------------------------------------------------------------------------- */

struct hz_login *
hz_login_new(const struct hz_source *user, const struct hz_source *secret)
{
	struct hz_login *l = xcalloc(1, sizeof(*l));

	l->auth = (struct http_auth){ .authorize = authorize, .rejected = rejected };
	PTHREAD_OK(pthread_mutex_init(&l->mu, NULL));
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
	PTHREAD_OK(pthread_mutex_destroy(&l->mu));
	free(l);
}

struct http_auth *
hz_login_auth(struct hz_login *l)
{
	return &l->auth;
}
