/* serve/authorities.c: see authorities.h.
 *
 * Keeps the text that was read last (of the file or of the ConfigMap), and makes a struct trust of
 * it when it has changed. The one in use is never changed, since requests on other threads hold
 * references to it; it is replaced under a short lock.
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
#define RECHECK_EVERY_NS (10 * NS_PER_SEC)
#define WARN_EVERY_NS (600 * NS_PER_SEC)

struct authorities {
	struct authorities_config config;
	bool has_file, has_map; /* what is read; with a file, the ConfigMap is not used */

	/* of the thread that refreshes */
	struct buf client_ca, map;         /* the texts as they were read last; empty: none */
	int64_t next_file_ns, next_map_ns; /* mono */
	int64_t next_warn_ns;              /* mono */

	pthread_mutex_t mu;
	struct trust *current; /* mu; NULL: no client certificate is trusted */
	/* mu; mono; when everything is read again; CLOCK_FOREVER: no recheck was requested */
	int64_t recheck_ns;
	int64_t recheck_from_ns; /* mu; mono; the earliest time of the next recheck */
};

/* ---- the ConfigMap ---- */

bool
authorities_read_map(struct str body, struct arena *arena, struct str *ret_client_ca_pem,
                     struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str kind = STR_EMPTY, pem;
	yyjson_val *root, *val, *data = NULL;

	if (!json_parse(body, &doc, err))
		return false;
	root = yyjson_doc_get_root(doc);
	if (json_str(root, "kind", &kind) != JSON_FOUND || !str_eq_c(kind, "ConfigMap"))
		return err_set(err, ERR_INVALID, "the response is not a ConfigMap");
	if (json_object(root, "data", &data) == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "data is not an object");
	val = json_key(data, STR("client-ca-file"));
	if (val && !yyjson_is_str(val))
		return err_set(err, ERR_INVALID, "client-ca-file is not a string");
	pem = val ? json_text(val) : STR_EMPTY;
	if (pem.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INVALID, "client-ca-file is longer than %zu bytes",
		               LIMIT_CREDENTIAL);
	*ret_client_ca_pem = arena_str(arena, str_trim(pem));
	return true;
}

/* ---- putting them into effect ---- */

/* Puts the texts that were read last into effect. The file of the flag takes precedence over the
 * ConfigMap. */
static bool
apply_texts(struct authorities *s, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(trust_unrefp) struct trust *old = NULL;
	struct str client_ca_pem = STR_EMPTY;
	struct trust *trust = NULL;

	if (s->map.len > 0 && !authorities_read_map(buf_str(&s->map), &arena, &client_ca_pem, err))
		return err_wrap(err, "ConfigMap " MAP_NAME);
	if (s->has_file)
		client_ca_pem = buf_str(&s->client_ca);
	if (client_ca_pem.len > 0 && !trust_new(client_ca_pem, &trust, err))
		return err_wrap(err, "authorities of clients");
	WITH_LOCK(&s->mu);
	old = s->current;
	s->current = trust;
	return true;
}

/* ---- reading ---- */

/* Keeps the text; sets *ret_changed if it differs from the one before. */
static void
keep_text(struct buf *b, struct str text, bool *ret_changed)
{
	if (str_eq(buf_str(b), text))
		return;
	buf_reset(b);
	buf_add_str(b, text);
	*ret_changed = true;
}

static bool
read_file(struct authorities *s, bool *ret_changed, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_CREDENTIAL);
	const char *path = s->config.client_ca_file.ptr;

	if (!file_read(path, &text, err))
		return false;
	if (text.len == 0)
		return err_set(err, ERR_INVALID, "%s is empty", path);
	keep_text(&s->client_ca, buf_str(&text), ret_changed);
	return true;
}

static bool
fetch_map(struct authorities *s, struct call *call, bool *ret_changed, struct error *err)
{
	struct str body;

	if (!kube_get(s->config.client, call, STR(MAP_PATH), &body, err)) {
		if (err->code == ERR_FORBIDDEN)
			return err_wrap(err, "ConfigMap " MAP_NAME " (bind Role " MAP_ROLE
			                     " in kube-system)");
		return err_wrap(err, "ConfigMap " MAP_NAME);
	}
	keep_text(&s->map, body, ret_changed);
	return true;
}

/* ---- reading again ---- */

struct trust *
authorities_get(struct authorities *s)
{
	WITH_LOCK(&s->mu);

	return s->current ? trust_ref(s->current) : NULL;
}

int64_t
authorities_recheck(struct authorities *s)
{
	int64_t now_ns = clock_mono(s->config.clock);
	WITH_LOCK(&s->mu);

	if (s->recheck_ns == CLOCK_FOREVER && (s->has_file || s->has_map))
		s->recheck_ns = now_ns > s->recheck_from_ns ? now_ns : s->recheck_from_ns;
	return s->recheck_ns;
}

static void
warn_not_read(struct authorities *s, const struct error *err)
{
	int64_t now_ns = clock_mono(s->config.clock);

	if (err->code == ERR_CANCELLED || now_ns < s->next_warn_ns)
		return;
	s->next_warn_ns = clock_deadline(now_ns, WARN_EVERY_NS);
	log_warn("trusted authorities cannot be read again, keeping the last ones", LOG_ERR(err));
}

int64_t
authorities_refresh(void *authorities, struct call *call)
{
	struct authorities *s = authorities;
	int64_t now_ns = clock_mono(s->config.clock), next_ns;
	bool is_changed = false;
	struct error err;

	mutex_lock(&s->mu);
	if (now_ns >= s->recheck_ns) {
		s->recheck_ns = CLOCK_FOREVER;
		s->recheck_from_ns = clock_deadline(now_ns, RECHECK_EVERY_NS);
		s->next_file_ns = s->has_file ? now_ns : CLOCK_FOREVER;
		s->next_map_ns = s->has_map ? now_ns : CLOCK_FOREVER;
	}
	mutex_unlock(&s->mu);

	if (now_ns >= s->next_file_ns) {
		s->next_file_ns = clock_deadline(now_ns, FILE_EVERY_NS);
		if (!read_file(s, &is_changed, &err))
			warn_not_read(s, &err);
	}
	if (now_ns >= s->next_map_ns) {
		s->next_map_ns = clock_deadline(now_ns, MAP_EVERY_NS);
		if (!fetch_map(s, call, &is_changed, &err))
			warn_not_read(s, &err);
	}
	if (is_changed) {
		if (apply_texts(s, &err))
			log_info("trusted authorities changed");
		else
			log_warn("trusted authorities cannot be used, keeping the last ones",
			         LOG_ERR(&err));
	}

	next_ns = s->next_file_ns < s->next_map_ns ? s->next_file_ns : s->next_map_ns;
	WITH_LOCK(&s->mu);
	return s->recheck_ns < next_ns ? s->recheck_ns : next_ns;
}

/* ---- start ---- */

static bool
tolerate(const struct authorities *s, struct error *err)
{
	if (!s->config.tolerate_lookup_failure || err->code == ERR_CANCELLED)
		return false;
	log_warn("the authorities of client certificates cannot be read from the API server: "
	         "client certificates are refused until they can",
	         LOG_ERR(err));
	return true;
}

static bool
read_first_map(struct authorities *s, struct call *call, struct error *err)
{
	bool is_changed = false;

	if (!s->has_map || fetch_map(s, call, &is_changed, err))
		return true;
	if (err->code != ERR_NOT_FOUND)
		return tolerate(s, err);
	log_warn("no ConfigMap " MAP_NAME ": client certificates are not trusted", LOG_ERR(err));
	return true;
}

/* A ConfigMap that cannot be used may be tolerated as well: then it counts as missing. */
static bool
apply_first_texts(struct authorities *s, struct error *err)
{
	if (apply_texts(s, err))
		return true;
	if (s->map.len == 0 || !tolerate(s, err))
		return false;
	buf_reset(&s->map);
	return apply_texts(s, err);
}

bool
authorities_new(const struct authorities_config *config, struct call *call,
                struct authorities **ret, struct error *err)
{
	CLEANUP(authorities_freep) struct authorities *s = xcalloc(1, sizeof(*s));
	int64_t now_ns = clock_mono(config->clock);
	bool is_changed = false;

	*s = (struct authorities){
		.config = *config,
		.client_ca = BUF_INIT(LIMIT_CREDENTIAL),
		.map = BUF_INIT(LIMIT_HTTP_BODY),
		.recheck_ns = CLOCK_FOREVER,
	};
	mutex_init(&s->mu);
	s->has_file = config->client_ca_file.len > 0;
	s->has_map = config->client && !config->skip_lookup && !s->has_file;
	s->next_file_ns = s->has_file ? clock_deadline(now_ns, FILE_EVERY_NS) : CLOCK_FOREVER;
	s->next_map_ns = s->has_map ? clock_deadline(now_ns, MAP_EVERY_NS) : CLOCK_FOREVER;

	if (s->has_file && !read_file(s, &is_changed, err))
		return false;
	if (!read_first_map(s, call, err) || !apply_first_texts(s, err))
		return false;
	*ret = TAKE(s);
	return true;
}

void
authorities_free(struct authorities *s)
{
	if (!s)
		return;
	trust_unref(s->current);
	buf_fini(&s->client_ca);
	buf_fini(&s->map);
	mutex_destroy(&s->mu);
	free(s);
}
