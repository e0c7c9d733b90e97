/* serve/authorities.c: see authorities.h.
 *
 * The source keeps the two texts it read last (the file, the ConfigMap), and makes a configuration of them whenever
 * one has changed. What is in use is swapped under a short lock, never changed.
 */
#include "serve/authorities.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

#define MAP_NAME "kube-system/extension-apiserver-authentication"
#define MAP_PATH "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
#define MAP_ROLE "extension-apiserver-authentication-reader"

#define FILE_EVERY_NS (60 * NS_PER_SEC)
#define MAP_EVERY_NS (300 * NS_PER_SEC)
#define DOUBT_EVERY_NS (10 * NS_PER_SEC)
#define WARN_EVERY_NS (600 * NS_PER_SEC)

struct auth_source {
	struct auth_source_config config;

	/* of whoever refreshes */
	struct buf client_ca, map;         /* the texts as they were read last; empty: none */
	int64_t next_file_ns, next_map_ns; /* mono */
	int64_t next_warn_ns;              /* mono */

	pthread_mutex_t mu;
	struct auth_config *current; /* mu */
	int64_t doubt_ns;            /* mu; mono; read all by then */
	int64_t doubted_ns;          /* mu; mono; not sooner than this again */
};

/* --- the ConfigMap ----------------------------------------------------------------------------------- */

static bool
read_pem(yyjson_val *data, const char *key, struct arena *arena, struct str *ret, struct error *err)
{
	yyjson_val *val = json_key(data, str_c(key));
	struct str text;

	if (val && !yyjson_is_str(val))
		return err_set(err, ERR_INVALID, "%s is no text", key);
	text = val ? json_text(val) : STR_EMPTY;
	if (text.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INVALID, "%s is longer than %zu bytes", key,
		               LIMIT_CREDENTIAL);
	*ret = arena_str(arena, str_trim(text));
	return true;
}

static bool
find_data(yyjson_val *root, yyjson_val **ret, struct error *err)
{
	struct str kind = STR_EMPTY;

	if (json_str(root, "kind", &kind) != JSON_FOUND || !str_eq_c(kind, "ConfigMap"))
		return err_set(err, ERR_INVALID, "it is no ConfigMap");
	if (json_object(root, "data", ret) == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "data is no object");
	return true;
}

bool
auth_data_read(struct str body, struct arena *arena, struct str *ret_client_ca_pem,
               struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_val *data = NULL;

	return json_parse(body, &doc, err) && find_data(yyjson_doc_get_root(doc), &data, err) &&
	       read_pem(data, "client-ca-file", arena, ret_client_ca_pem, err);
}

/* --- configurations -------------------------------------------------------------------------------- */

void
auth_config_unref(struct auth_config *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	trust_free(c->client);
	free(c);
}

static bool
make_config(struct str client_ca_pem, struct auth_config **ret, struct error *err)
{
	CLEANUP(auth_config_unrefp) struct auth_config *c = xcalloc(1, sizeof(*c));

	atomic_init(&c->refs, 1);
	if (client_ca_pem.len > 0 && !trust_new(client_ca_pem, &c->client, err)) {
		(void)err_wrap(err, "authorities of clients");
		return false;
	}
	*ret = TAKE(c);
	return true;
}

/* --- from texts to a configuration ----------------------------------------------------------------- */

static bool
read_map(struct str body, struct arena *arena, struct str *ret_client_ca_pem, struct error *err)
{
	*ret_client_ca_pem = STR_EMPTY;
	if (body.len == 0)
		return true;
	return auth_data_read(body, arena, ret_client_ca_pem, err) ||
	       err_wrap(err, "ConfigMap " MAP_NAME);
}

/* The flag wins over the ConfigMap. */
static bool
compose(const struct auth_source *s, struct auth_config **ret, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str client_ca_pem;

	if (!read_map(buf_str(&s->map), &arena, &client_ca_pem, err))
		return false;
	if (s->config.client_ca_file.len)
		client_ca_pem = buf_str(&s->client_ca);
	return make_config(client_ca_pem, ret, err);
}

static void
use(struct auth_source *s, struct auth_config *config)
{
	struct auth_config *before;

	mutex_lock(&s->mu);
	before = s->current;
	s->current = config;
	mutex_unlock(&s->mu);
	auth_config_unref(before);
}

static bool
apply(struct auth_source *s, struct error *err)
{
	struct auth_config *config;

	if (!compose(s, &config, err))
		return false;
	use(s, config);
	return true;
}

/* --- reading --------------------------------------------------------------------------------------- */

/* Keeps the text; true in *ret_changed when it is another one. */
static void
keep(struct buf *b, struct str text, bool *ret_changed)
{
	if (str_eq(buf_str(b), text))
		return;
	buf_reset(b);
	buf_add_str(b, text);
	*ret_changed = true;
}

static bool
read_file(struct auth_source *s, bool *ret_changed, struct error *err)
{
	CLEANUP(buf_fini) struct buf name = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_CREDENTIAL);

	if (s->config.client_ca_file.len == 0)
		return true;
	buf_add_str(&name, s->config.client_ca_file);
	if (!file_read(name.ptr, &text, err))
		return false;
	if (text.len == 0)
		return err_set(err, ERR_INVALID, "%s is empty", name.ptr);
	keep(&s->client_ca, buf_str(&text), ret_changed);
	return true;
}

static bool
has_file(const struct auth_source *s)
{
	return s->config.client_ca_file.len > 0;
}

/* Is there anything that only the ConfigMap can tell? */
static bool
needs_map(const struct auth_source *s)
{
	return s->config.client && !s->config.skip_lookup && !has_file(s);
}

static bool
fetch_map(struct auth_source *s, struct call *call, bool *ret_changed, struct error *err)
{
	struct str body;

	if (!kube_get(s->config.client, call, STR(MAP_PATH), &body, err)) {
		if (err->code == ERR_FORBIDDEN)
			return err_wrap(err, "ConfigMap " MAP_NAME " (bind Role " MAP_ROLE
			                     " in kube-system)");
		return err_wrap(err, "ConfigMap " MAP_NAME);
	}
	keep(&s->map, body, ret_changed);
	return true;
}

static void
plan_file(struct auth_source *s, int64_t now_ns)
{
	s->next_file_ns = has_file(s) ? clock_deadline(now_ns, FILE_EVERY_NS) : CLOCK_FOREVER;
}

static void
plan_map(struct auth_source *s, int64_t now_ns)
{
	s->next_map_ns = needs_map(s) ? clock_deadline(now_ns, MAP_EVERY_NS) : CLOCK_FOREVER;
}

/* --- following ------------------------------------------------------------------------------------- */

struct auth_config *
auth_source_get(struct auth_source *s)
{
	WITH_LOCK(&s->mu);

	atomic_fetch_add_explicit(&s->current->refs, 1, memory_order_relaxed);
	return s->current;
}

int64_t
auth_source_doubt(struct auth_source *s)
{
	int64_t now_ns = clock_mono(s->config.clock);
	WITH_LOCK(&s->mu);

	if (s->doubt_ns == CLOCK_FOREVER && (has_file(s) || needs_map(s)))
		s->doubt_ns = now_ns > s->doubted_ns ? now_ns : s->doubted_ns;
	return s->doubt_ns;
}

/* Makes everything due, when somebody doubts it. */
static void
hear_doubts(struct auth_source *s, int64_t now_ns)
{
	WITH_LOCK(&s->mu);

	if (now_ns < s->doubt_ns)
		return;
	s->doubt_ns = CLOCK_FOREVER;
	s->doubted_ns = clock_deadline(now_ns, DOUBT_EVERY_NS);
	s->next_file_ns = has_file(s) ? now_ns : CLOCK_FOREVER;
	s->next_map_ns = needs_map(s) ? now_ns : CLOCK_FOREVER;
}

static void
complain(struct auth_source *s, const struct error *err)
{
	int64_t now_ns = clock_mono(s->config.clock);

	if (err->code == ERR_CANCELLED || now_ns < s->next_warn_ns)
		return;
	s->next_warn_ns = clock_deadline(now_ns, WARN_EVERY_NS);
	log_warn("trusted authorities cannot be read again, keeping the last ones", LOG_ERR(err));
}

static bool
read_due(struct auth_source *s, struct call *call, int64_t now_ns)
{
	bool is_changed = false;
	struct error err;

	if (now_ns >= s->next_file_ns) {
		plan_file(s, now_ns);
		if (!read_file(s, &is_changed, &err))
			complain(s, &err);
	}
	if (now_ns >= s->next_map_ns) {
		plan_map(s, now_ns);
		if (!fetch_map(s, call, &is_changed, &err))
			complain(s, &err);
	}
	return is_changed;
}

static int64_t
next_ns(struct auth_source *s)
{
	int64_t next = s->next_file_ns < s->next_map_ns ? s->next_file_ns : s->next_map_ns;
	WITH_LOCK(&s->mu);

	return s->doubt_ns < next ? s->doubt_ns : next;
}

int64_t
auth_source_refresh(struct auth_source *s, struct call *call)
{
	int64_t now_ns = clock_mono(s->config.clock);
	struct error err;

	hear_doubts(s, now_ns);
	if (read_due(s, call, now_ns)) {
		if (apply(s, &err))
			log_info("trusted authorities changed");
		else
			log_warn("trusted authorities cannot be used, keeping the last ones",
			         LOG_ERR(&err));
	}
	return next_ns(s);
}

/* --- start ----------------------------------------------------------------------------------------- */

static bool
tolerate(const struct auth_source *s, struct error *err)
{
	if (!s->config.tolerate_lookup_failure || err->code == ERR_CANCELLED)
		return false;
	log_warn("the API server's authorities are not known: client certificates are refused "
	         "until they are",
	         LOG_ERR(err));
	return true;
}

static bool
first_map(struct auth_source *s, struct call *call, struct error *err)
{
	bool is_changed = false;

	if (!needs_map(s) || fetch_map(s, call, &is_changed, err))
		return true;
	if (err->code != ERR_NOT_FOUND)
		return tolerate(s, err);
	log_warn("no ConfigMap " MAP_NAME ": client certificates are not trusted", LOG_ERR(err));
	return true;
}

/* A ConfigMap that says nonsense may be tolerated too: then it is as if it were not there. */
static bool
first_config(struct auth_source *s, struct error *err)
{
	if (apply(s, err))
		return true;
	if (s->map.len == 0 || !tolerate(s, err))
		return false;
	buf_reset(&s->map);
	return apply(s, err);
}

static bool
read_first(struct auth_source *s, struct call *call, struct error *err)
{
	int64_t now_ns = clock_mono(s->config.clock);
	bool is_changed = false;

	plan_file(s, now_ns);
	plan_map(s, now_ns);
	return read_file(s, &is_changed, err) && first_map(s, call, err) && first_config(s, err);
}

bool
auth_source_new(const struct auth_source_config *config, struct call *call,
                struct auth_source **ret, struct error *err)
{
	CLEANUP(auth_source_freep) struct auth_source *s = xcalloc(1, sizeof(*s));

	s->config = *config;
	s->client_ca = BUF_INIT(LIMIT_CREDENTIAL);
	s->map = BUF_INIT(LIMIT_HTTP_BODY);
	s->doubt_ns = CLOCK_FOREVER;
	PTHREAD_OK(pthread_mutex_init(&s->mu, NULL));
	if (!read_first(s, call, err))
		return false;
	*ret = TAKE(s);
	return true;
}

void
auth_source_free(struct auth_source *s)
{
	if (!s)
		return;
	auth_config_unref(s->current);
	buf_fini(&s->client_ca);
	buf_fini(&s->map);
	PTHREAD_OK(pthread_mutex_destroy(&s->mu));
	free(s);
}
