/* tests/simulation/curl_model.c: the functions of libcurl that src/http uses; see curl_model.h.
 *
 * What libcurl does and this does as well: it copies text options and not the body, calls the
 * callbacks only while the multi handle is performed, keeps idle connections, holds back bytes of a
 * paused transfer, and closes the connection of a transfer that is removed before its end. */
#define CURL_DISABLE_TYPECHECK
#include "curl_model.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net.h"
#include "parts.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define CHUNK ((size_t)16 << 10)
#define BUFFER_MAX ((size_t)512 << 20)

enum {
	MAX_IDLE = 16,
};

struct easy {
	LIST_ENTRY(easy) of_replica;
	TAILQ_ENTRY(easy) of_multi;
	struct replica *replica;
	struct multi *multi; /* NULL: not running */

	/* options */
	char *url, *method, *target, *user_agent;
	const struct curl_slist *headers;
	const char *body;
	curl_off_t body_len;
	bool has_body, wants_fresh, forbids_reuse;
	long connect_timeout_ms, max_idle_s;
	void *private;
	char *error;
	size_t (*on_body)(char *, size_t, size_t, void *);
	size_t (*on_header)(char *, size_t, size_t, void *);
	int (*on_send)(void *, char *, char *, int, int);
	curl_socket_t (*open_socket)(void *, curlsocktype, struct curl_sockaddr *);
	void *body_arg, *header_arg, *send_arg;

	/* the transfer */
	struct exchange *exchange;
	bool is_new, is_reused, is_paused, has_end, is_reported;
	struct buf head, bytes; /* arrived, not consumed */
	struct buf given;       /* that on_body() gets now, or has refused */
	size_t n_given;         /* how much of it was consumed */
	CURLcode result;
	long system_error;
};

struct multi {
	TAILQ_HEAD(, easy) easies;
	bool is_ready;
	int64_t idle_ns[MAX_IDLE]; /* since when connections are idle */
	unsigned n_idle;
	CURLMsg message;
};

static LIST_HEAD(, easy) all[N_REPLICAS];

static struct easy *
easy_of(CURL *handle)
{
	return handle;
}

/* Forgets what has arrived. */
static void
discard(struct easy *e)
{
	buf_reset(&e->head);
	buf_reset(&e->bytes);
	buf_reset(&e->given);
	e->n_given = 0;
}

/* ---- handles ---- */

CURLcode
curl_global_init_mem(long flags, curl_malloc_callback m, curl_free_callback f,
                     curl_realloc_callback r, curl_strdup_callback s, curl_calloc_callback c)
{
	(void)flags;
	(void)m;
	(void)f;
	(void)r;
	(void)s;
	(void)c;
	return CURLE_OK;
}

CURL *
curl_easy_init(void)
{
	struct easy *e = xcalloc(1, sizeof(*e));

	e->replica = fiber_replica(fiber_self());
	e->max_idle_s = 118;
	e->connect_timeout_ms = 300000;
	e->head = (struct buf)BUF_INIT(BUFFER_MAX);
	e->bytes = (struct buf)BUF_INIT(BUFFER_MAX);
	e->given = (struct buf)BUF_INIT(BUFFER_MAX);
	LIST_INSERT_HEAD(&all[e->replica->index], e, of_replica);
	return e;
}

void
curl_easy_cleanup(CURL *handle)
{
	struct easy *e = easy_of(handle);

	if (!e)
		return;
	assert(!e->multi);
	LIST_REMOVE(e, of_replica);
	free(e->url);
	free(e->method);
	free(e->target);
	free(e->user_agent);
	buf_fini(&e->head);
	buf_fini(&e->bytes);
	buf_fini(&e->given);
	free(e);
}

void
curl_model_drop(const struct replica *r)
{
	struct easy *e;

	while ((e = LIST_FIRST(&all[r->index]))) {
		if (e->exchange)
			net_close(TAKE(e->exchange));
		e->multi = NULL; /* its memory was the replica's */
		curl_easy_cleanup(e);
	}
}

static void
set_text(char **to, const char *text)
{
	free(*to);
	*to = text ? xstrdup(text) : NULL;
}

CURLcode
curl_easy_setopt(CURL *handle, CURLoption option, ...)
{
	struct easy *e = easy_of(handle);
	va_list args;

	va_start(args, option);
	switch ((int)option) {
	case CURLOPT_URL:
		set_text(&e->url, va_arg(args, const char *));
		break;
	case CURLOPT_CUSTOMREQUEST:
		set_text(&e->method, va_arg(args, const char *));
		break;
	case CURLOPT_REQUEST_TARGET:
		set_text(&e->target, va_arg(args, const char *));
		break;
	case CURLOPT_USERAGENT:
		set_text(&e->user_agent, va_arg(args, const char *));
		break;
	case CURLOPT_HTTPHEADER:
		e->headers = va_arg(args, struct curl_slist *);
		break;
	case CURLOPT_HTTPGET:
		e->has_body = false;
		break;
	case CURLOPT_POSTFIELDS:
		e->body = va_arg(args, const char *);
		e->has_body = true;
		break;
	case CURLOPT_POSTFIELDSIZE_LARGE:
		e->body_len = va_arg(args, curl_off_t);
		break;
	case CURLOPT_FRESH_CONNECT:
		e->wants_fresh = va_arg(args, long) != 0;
		break;
	case CURLOPT_FORBID_REUSE:
		e->forbids_reuse = va_arg(args, long) != 0;
		break;
	case CURLOPT_MAXAGE_CONN:
		e->max_idle_s = va_arg(args, long);
		break;
	case CURLOPT_CONNECTTIMEOUT_MS:
		e->connect_timeout_ms = va_arg(args, long);
		break;
	case CURLOPT_PRIVATE:
		e->private = va_arg(args, void *);
		break;
	case CURLOPT_ERRORBUFFER:
		e->error = va_arg(args, char *);
		break;
	case CURLOPT_WRITEFUNCTION:
		e->on_body = va_arg(args, size_t (*)(char *, size_t, size_t, void *));
		break;
	case CURLOPT_WRITEDATA:
		e->body_arg = va_arg(args, void *);
		break;
	case CURLOPT_HEADERFUNCTION:
		e->on_header = va_arg(args, size_t (*)(char *, size_t, size_t, void *));
		break;
	case CURLOPT_HEADERDATA:
		e->header_arg = va_arg(args, void *);
		break;
	case CURLOPT_PREREQFUNCTION:
		e->on_send = va_arg(args, int (*)(void *, char *, char *, int, int));
		break;
	case CURLOPT_PREREQDATA:
		e->send_arg = va_arg(args, void *);
		break;
	case CURLOPT_OPENSOCKETFUNCTION:
		e->open_socket = va_arg(args, curl_socket_t (*)(void *, curlsocktype,
		                                                struct curl_sockaddr *));
		break;
	default: /* about TLS, proxies and sockets, which do not exist here */
		break;
	}
	va_end(args);
	return CURLE_OK;
}

CURLcode
curl_easy_getinfo(CURL *handle, CURLINFO info, ...)
{
	const struct easy *e = easy_of(handle);
	va_list args;

	va_start(args, info);
	switch ((int)info) {
	case CURLINFO_PRIVATE:
		*va_arg(args, void **) = e->private;
		break;
	case CURLINFO_NUM_CONNECTS:
		*va_arg(args, long *) = e->is_reused ? 0 : 1;
		break;
	case CURLINFO_OS_ERRNO:
		*va_arg(args, long *) = e->system_error;
		break;
	default: /* how long a look-up of a name took */
		*va_arg(args, curl_off_t *) = 0;
		break;
	}
	va_end(args);
	return CURLE_OK;
}

/* ---- the multi handle ---- */

CURLM *
curl_multi_init(void)
{
	struct multi *m = xcalloc(1, sizeof(*m));

	TAILQ_INIT(&m->easies);
	return (CURLM *)m;
}

CURLMcode
curl_multi_cleanup(CURLM *multi)
{
	free(multi);
	return CURLM_OK;
}

CURLMcode
curl_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
	(void)multi;
	(void)option;
	return CURLM_OK;
}

/* Takes the connection that was idle for the shortest time. */
static bool
take_idle(struct multi *m, const struct easy *e)
{
	if (m->n_idle == 0 || e->wants_fresh)
		return false;
	m->n_idle--;
	return schedule_now_ns() - m->idle_ns[m->n_idle] <= e->max_idle_s * NS_PER_SEC;
}

CURLMcode
curl_multi_add_handle(CURLM *multi, CURL *handle)
{
	struct multi *m = (struct multi *)multi;
	struct easy *e = easy_of(handle);

	discard(e);
	e->multi = m;
	e->is_new = true;
	e->is_paused = e->has_end = e->is_reported = false;
	e->system_error = 0;
	e->is_reused = take_idle(m, e);
	TAILQ_INSERT_TAIL(&m->easies, e, of_multi);
	m->is_ready = true;
	return CURLM_OK;
}

CURLMcode
curl_multi_remove_handle(CURLM *multi, CURL *handle)
{
	struct easy *e = easy_of(handle);

	(void)multi;
	if (!e->multi)
		return CURLM_OK;
	TAILQ_REMOVE(&e->multi->easies, e, of_multi);
	e->multi = NULL;
	if (e->exchange)
		net_close(TAKE(e->exchange));
	return CURLM_OK;
}

CURLMsg *
curl_multi_info_read(CURLM *multi, int *ret_left)
{
	struct multi *m = (struct multi *)multi;
	struct easy *e;

	*ret_left = 0;
	TAILQ_FOREACH(e, &m->easies, of_multi) {
		if (!e->has_end || e->is_reported || e->head.len > 0 || e->bytes.len > 0 ||
		    e->n_given < e->given.len)
			continue;
		e->is_reported = true;
		if (e->result == CURLE_OK && !e->forbids_reuse && m->n_idle < MAX_IDLE)
			m->idle_ns[m->n_idle++] = schedule_now_ns();
		m->message = (CURLMsg){ .msg = CURLMSG_DONE,
			                .easy_handle = e,
			                .data.result = e->result };
		return &m->message;
	}
	return NULL;
}

/* ---- sending ---- */

static struct str
header_of(const struct curl_slist *headers, struct str name)
{
	for (; headers; headers = headers->next) {
		struct str line = str_c(headers->data);

		if (line.len > name.len && str_eq_nocase(str_head(line, name.len), name))
			return str_trim(str_skip(line, name.len));
	}
	return STR_EMPTY;
}

static void
end_with(struct easy *e, CURLcode code)
{
	e->has_end = true;
	e->result = code;
	discard(e);
}

static void
send_request(struct easy *e)
{
	struct str token = header_of(e->headers, STR("Authorization:"));
	struct str agent = header_of(e->headers, STR("User-Agent:"));
	struct net_message message = {
		.method = e->method ? e->method : "GET",
		.target = str_c(e->target),
		.accept = header_of(e->headers, STR("Accept:")),
		.content_type = header_of(e->headers, STR("Content-Type:")),
		.token = str_starts(token, STR("Bearer ")) ? str_skip(token, 7) : STR_EMPTY,
		.basic = str_starts(token, STR("Basic ")) ? str_skip(token, 6) : STR_EMPTY,
		.user_agent = agent.len > 0 ? agent : str_c(e->user_agent),
		.body = e->has_body ? str_n(e->body, (size_t)e->body_len) : STR_EMPTY,
		.is_reused = e->is_reused,
	};

	e->is_new = false;
	if (!e->target) { /* the transfer that only closes idle connections */
		e->multi->n_idle = 0;
		end_with(e, CURLE_COULDNT_CONNECT);
	} else if (e->on_send(e->send_arg, NULL, NULL, 0, 0) != CURL_PREREQFUNC_OK) {
		end_with(e, CURLE_ABORTED_BY_CALLBACK);
	} else {
		e->exchange = net_send(e->replica,
		                       str_starts(str_c(e->url), STR("https:")) ? HOST_KUBE
		                                                                : HOST_CLOUD,
		                       &message, e);
	}
}

/* ---- what arrives ---- */

static void
mark_ready(struct easy *e)
{
	world_curl_wake(e->multi);
}

void
easy_head(struct easy *e, struct str lines)
{
	buf_add_str(&e->head, lines);
	mark_ready(e);
}

void
easy_body(struct easy *e, struct str bytes)
{
	buf_add_str(&e->bytes, bytes);
	if (!e->is_paused)
		mark_ready(e);
}

void
easy_end(struct easy *e, CURLcode code, int system_error, const char *text)
{
	e->has_end = true;
	e->result = code;
	e->system_error = system_error;
	e->exchange = NULL;
	if (e->error)
		snprintf(e->error, CURL_ERROR_SIZE, "%s", text);
	mark_ready(e);
}

/* A callback may let other fibers and the world run, and then more arrives. So the bytes are taken
 * out before the calls. */
static struct buf
take_bytes(struct buf *from)
{
	struct buf taken = *from;

	*from = (struct buf)BUF_INIT(BUFFER_MAX);
	return taken;
}

static void
give_head(struct easy *e)
{
	CLEANUP(buf_fini) struct buf lines = take_bytes(&e->head);
	struct str rest = buf_str(&lines);

	while (rest.len > 0) {
		char *end = memchr(rest.ptr, '\n', rest.len);
		size_t n = end ? (size_t)(end + 1 - rest.ptr) : rest.len;

		if (e->on_header((char *)(uintptr_t)rest.ptr, 1, n, e->header_arg) != n) {
			end_with(e, CURLE_WRITE_ERROR);
			return;
		}
		rest = str_skip(rest, n);
	}
}

/* A list can be large and be refused often, so what is refused is not copied. */
static void
give_bytes(struct easy *e)
{
	if (e->n_given == e->given.len) {
		buf_fini(&e->given);
		e->given = take_bytes(&e->bytes);
		e->n_given = 0;
	} else {
		buf_add_str(&e->given, buf_str(&e->bytes));
		buf_reset(&e->bytes);
	}
	while (e->n_given < e->given.len) {
		size_t rest = e->given.len - e->n_given, n = rest < CHUNK ? rest : CHUNK;
		size_t taken = e->on_body(e->given.ptr + e->n_given, 1, n, e->body_arg);

		if (taken == CURL_WRITEFUNC_PAUSE) {
			e->is_paused = true;
			return;
		}
		if (taken != n) {
			end_with(e, CURLE_WRITE_ERROR);
			return;
		}
		e->n_given += n;
	}
}

CURLcode
curl_easy_pause(CURL *handle, int bits)
{
	struct easy *e = easy_of(handle);

	(void)bits;
	e->is_paused = false;
	give_bytes(e);
	return CURLE_OK;
}

/* ---- for parts.c ---- */

void
world_curl_wait(void *multi, int timeout_ms)
{
	struct multi *m = multi;

	if (!m->is_ready && timeout_ms > 0)
		(void)fiber_wait(m, schedule_now_ns() + timeout_ms * NS_PER_MS);
}

void
world_curl_wake(void *multi)
{
	struct multi *m = multi;

	m->is_ready = true;
	fiber_wake(m, true);
}

void
world_curl_perform(void *multi)
{
	struct multi *m = multi;
	struct easy *e;

	m->is_ready = false;
	TAILQ_FOREACH(e, &m->easies, of_multi) {
		bool had_exchange = e->exchange != NULL || e->has_end;

		if (e->is_new)
			send_request(e);
		if (!had_exchange || e->is_reported)
			continue;
		if (e->head.len > 0)
			give_head(e);
		if (e->bytes.len > 0 && !e->is_paused)
			give_bytes(e);
	}
}
