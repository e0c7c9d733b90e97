/* kube/credentials.c: the credentials of the configuration; see credentials.h.
 * Ages are measured on the boot clock, because a token may expire while the machine is suspended.
 * The kubelet renews a projected token at 80 % of its life, at least 2 min before its end, so
 * reading it every 50 s is always in time.
 */
#include "kube/credentials.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

#define READ_EVERY_NS (50 * NS_PER_SEC)
#define READ_AGAIN_NS (5 * NS_PER_SEC) /* after a read that failed */
#define WARN_EVERY_NS (60 * NS_PER_SEC)

struct values {
	char *token_file; /* "": none */
	char *username;
	struct secret password;
	struct secret token;
};

struct credentials {
	struct http_auth auth;
	struct clock *clock;
	bool is_plain; /* plain http: credentials are never sent */
	pthread_mutex_t mu;
	struct values values; /* mu */
	uint64_t generation;  /* mu; grows with each change */
	int64_t next_read_ns; /* mu; boot */
	int64_t next_warn_ns; /* mu; boot */
};

/* ---- the token file ---- */

static bool
read_token(const struct credentials *c, struct secret *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_CREDENTIAL);
	const char *path = c->values.token_file;
	struct str token;

	if (!file_read(path, &text, err))
		return false;
	token = str_trim(buf_str(&text));
	if (token.len == 0)
		return err_set(err, ERR_INVALID, "token file %s is empty", path);
	if (!str_is_visible(token))
		return err_set(err, ERR_INVALID,
		               "token file %s contains characters that are not allowed", path);
	secret_set(ret, token);
	return true;
}

/* Reads the file now. True when the token has changed. Called with mu held. */
static bool
refresh_token(struct credentials *c)
{
	CLEANUP(secret_fini) struct secret token = SECRET_NONE;
	int64_t now_ns = clock_boot(c->clock);
	struct error err;

	if (!read_token(c, &token, &err)) {
		c->next_read_ns = now_ns + READ_AGAIN_NS;
		if (now_ns >= c->next_warn_ns) {
			c->next_warn_ns = now_ns + WARN_EVERY_NS;
			log_warn("token cannot be read again, keeping the last one", LOG_ERR(&err));
		}
		return false;
	}
	c->next_read_ns = now_ns + READ_EVERY_NS;
	if (secret_eq(&c->values.token, &token))
		return false;
	secret_set(&c->values.token, secret_expose(&token));
	c->generation++;
	return true;
}

/* ---- struct http_auth ---- */

static bool
credentials_authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
                      uint64_t *ret_generation, struct error *err)
{
	struct credentials *c = CONTAINER_OF(auth, struct credentials, auth);
	const struct values *v = &c->values;
	WITH_LOCK(&c->mu);

	(void)call;
	if (!c->is_plain && v->token_file[0] && clock_boot(c->clock) >= c->next_read_ns)
		(void)refresh_token(c);
	*ret_generation = c->generation;
	if (c->is_plain)
		return true;
	if (secret_is_set(&v->token)) {
		buf_add_c(ret, "Bearer ");
		buf_add_str(ret, secret_expose(&v->token));
	} else if (v->username[0] || secret_is_set(&v->password)) {
		return http_add_basic(ret, str_c(v->username), secret_expose(&v->password), err);
	}
	return true;
}

static bool
credentials_rejected(struct http_auth *auth, uint64_t generation)
{
	struct credentials *c = CONTAINER_OF(auth, struct credentials, auth);
	WITH_LOCK(&c->mu);

	if (c->is_plain)
		return false;
	if (c->generation > generation)
		return true;
	return c->values.token_file[0] && refresh_token(c);
}

/* ---- life cycle ---- */

void
credentials_adopt(struct credentials *c, struct credentials *fresh)
{
	struct values old;
	WITH_LOCK(&c->mu);

	old = c->values;
	if (strcmp(old.token_file, fresh->values.token_file) == 0 &&
	    strcmp(old.username, fresh->values.username) == 0 &&
	    secret_eq(&old.password, &fresh->values.password) &&
	    secret_eq(&old.token, &fresh->values.token))
		return;
	c->values = fresh->values;
	c->generation++;
	c->next_read_ns = fresh->next_read_ns;
	fresh->values = old;
}

static bool
has_credentials(const struct kube_config *config)
{
	return config->token_file.len || secret_is_set(&config->token) || config->username.len ||
	       secret_is_set(&config->password) || config->cert_pem.len || config->exec;
}

/* Sets the token from its file, which goes before the one in the configuration. */
static bool
set_first_token(struct credentials *c, const struct kube_config *config, struct error *err)
{
	struct str token = secret_expose(&config->token);

	if (config->token_file.len) {
		c->next_read_ns = clock_boot(c->clock) + READ_EVERY_NS;
		return read_token(c, &c->values.token, err);
	}
	if (!str_is_visible(token))
		return err_set(err, ERR_INVALID,
		               "the token contains characters that are not allowed");
	secret_assign(&c->values.token, token);
	return true;
}

bool
credentials_new(const struct kube_config *config, struct clock *clock, struct credentials **ret,
                struct error *err)
{
	CLEANUP(credentials_freep) struct credentials *c = xcalloc(1, sizeof(*c));

	*c = (struct credentials){
		.auth = { .authorize = credentials_authorize, .rejected = credentials_rejected },
		.clock = clock,
		.is_plain = !str_starts(config->server, STR("https://")),
		.values = {
			.token_file = xstrndup(config->token_file.ptr, config->token_file.len),
			.username = xstrndup(config->username.ptr, config->username.len),
		},
		.generation = 1,
	};
	mutex_init(&c->mu);
	secret_assign(&c->values.password, secret_expose(&config->password));
	if (c->is_plain && has_credentials(config))
		log_warn("the API server is reached over plain http, so no credentials are sent",
		         LOG_STR("server", config->server));
	if (!c->is_plain && !set_first_token(c, config, err))
		return false;
	*ret = TAKE(c);
	return true;
}

void
credentials_free(struct credentials *c)
{
	if (!c)
		return;
	secret_fini(&c->values.token);
	secret_fini(&c->values.password);
	free(c->values.token_file);
	free(c->values.username);
	mutex_destroy(&c->mu);
	free(c);
}

struct http_auth *
credentials_auth(struct credentials *c)
{
	return &c->auth;
}
