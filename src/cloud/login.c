/* cloud/login.c: see login.h. */
#include "cloud/login.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"

/* ---- a secret ---- */

static bool
read_path(const char *path, struct secret *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_CREDENTIAL);

	if (!file_read(path, &text, err))
		return false;
	secret_set(ret, str_trim(buf_str(&text)));
	return true;
}

bool
login_secret_read(struct login_secret *s, const char *path, struct error *err)
{
	*s = (struct login_secret){ .path = xstrdup(path) };
	return read_path(s->path, &s->value, err);
}

void
login_secret_set(struct login_secret *s, struct str text)
{
	*s = (struct login_secret){ 0 };
	secret_set(&s->value, text);
}

void
login_secret_fini(struct login_secret *s)
{
	secret_fini(&s->value);
	free(TAKE(s->path));
}

static void
secret_copy(struct login_secret *to, const struct login_secret *from)
{
	*to = (struct login_secret){ .path = from->path ? xstrdup(from->path) : NULL };
	secret_set(&to->value, secret_expose(&from->value));
}

bool
login_secret_refresh(struct login_secret *s)
{
	CLEANUP(secret_fini) struct secret fresh = SECRET_NONE;
	struct error err;

	if (!s->path || !read_path(s->path, &fresh, &err) || secret_expose(&fresh).len == 0 ||
	    secret_eq(&fresh, &s->value))
		return false;
	secret_set(&s->value, secret_expose(&fresh));
	return true;
}

/* ---- the header ---- */

struct login {
	struct http_auth auth;
	pthread_mutex_t mu;
	char *header; /* NULL: Authorization */
	bool has_user;
	struct login_secret user, secret; /* mu */
	uint64_t generation;              /* mu */
};

/* With mu held. */
static void
login_refresh(struct login *l)
{
	bool has_changed = login_secret_refresh(&l->secret);

	has_changed |= login_secret_refresh(&l->user);
	if (!has_changed)
		return;
	l->generation++;
	login_note_replaced();
	log_info("credentials were replaced",
	         LOG_CSTR("file", l->secret.path ? l->secret.path : l->user.path));
}

uint64_t
login_generation(struct login *l)
{
	WITH_LOCK(&l->mu);
	login_refresh(l);
	return l->generation;
}

static bool
add_token(const struct login *l, struct buf *ret, struct error *err)
{
	struct str token = secret_expose(&l->secret.value);

	if (!str_is_visible(token))
		return err_set(err, ERR_UNAUTHORIZED,
		               "authorization token contains invalid characters");
	if (!l->header)
		buf_add_c(ret, "Bearer ");
	buf_add_str(ret, token);
	return true;
}

static bool
login_authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
                uint64_t *ret_generation, struct error *err)
{
	struct login *l = CONTAINER_OF(auth, struct login, auth);
	WITH_LOCK(&l->mu);

	(void)call;
	login_refresh(l);
	*ret_generation = l->generation;
	if (!l->has_user)
		return add_token(l, ret, err);
	return http_add_basic(ret, secret_expose(&l->user.value), secret_expose(&l->secret.value),
	                      err);
}

static bool
login_rejected(struct http_auth *auth, uint64_t generation)
{
	return login_generation(CONTAINER_OF(auth, struct login, auth)) != generation;
}

/* ---- life cycle ---- */

struct login *
login_new(const struct login_config *config)
{
	struct login *l = xcalloc(1, sizeof(*l));

	mutex_init(&l->mu);
	l->header = config->header ? xstrdup(config->header) : NULL;
	l->has_user = config->user != NULL;
	if (config->user)
		secret_copy(&l->user, config->user);
	secret_copy(&l->secret, config->secret);
	l->auth = (struct http_auth){ .authorize = login_authorize,
		                      .rejected = login_rejected,
		                      .header = l->header };
	return l;
}

void
login_free(struct login *l)
{
	if (!l)
		return;
	login_secret_fini(&l->user);
	login_secret_fini(&l->secret);
	mutex_destroy(&l->mu);
	free(l->header);
	free(l);
}

struct http_auth *
login_auth(struct login *l)
{
	return &l->auth;
}

/* ---- responses of two projects ---- */

static _Atomic uint64_t n_replaced;

uint64_t
login_count_replaced(void)
{
	return atomic_load(&n_replaced);
}

void
login_note_replaced(void)
{
	atomic_fetch_add(&n_replaced, 1);
}

bool
login_check_same(uint64_t since, struct error *err)
{
	if (login_count_replaced() == since)
		return true;
	return err_set(err, ERR_UNAVAILABLE,
	               "credentials of the cloud were replaced meanwhile, so its responses may be "
	               "of two projects; it is asked again");
}

/* ---- what the credentials may do ---- */

METRIC_FAMILY(
	read_only, METRIC_GAUGE, "ccmd_cloud_credentials_read_only",
	"[ALPHA] 1 if the cloud refused the last change because the credentials may only read; 0 after a change that succeeded, and before the first one.");

void
login_set_read_only(bool is_read_only)
{
	metric_set(metric_of(&read_only), is_read_only);
}
