/* haproxy.c: see haproxy.h. */
#include "providers/cloudlycke/haproxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "providers/cloudlycke/haproxy_file.h"
#include "providers/cloudlycke/haproxy_stats.h"

enum {
	BUSY_MS = 100, /* when to come back while another is at it, at the earliest */
	QUIET_MS = 20,
	LINE_MAX_BYTES = 500,
};

#define PAUSE_NS NS_PER_SEC
#define GATHER_NS (500 * NS_PER_MS)

struct cl_haproxy {
	const struct cloud_host *host;
	struct cl_books *books;
	char *file, *draft;      /* the one in use; the one to be checked */
	struct str stats_socket; /* empty: none */
	const char **check, **reload;
	int64_t timeout_ms;
	pthread_mutex_t mu;
	bool is_busy;         /* mu */
	uint64_t version;     /* mu: of the books, as HAProxy was told last */
	int64_t next_mono_ns; /* mu: not loaded again before */
	int64_t begun_ns;     /* mu: mono; of the last who was, or is, busy */
	int64_t took_ns;      /* mu: the one before */
	uint64_t loaded;      /* of who is busy: a hash of what HAProxy has loaded; 0: not known */
};

/* ---- life cycle -------------------------------------------------------------------------------------- */

static const char **
copy_words(const struct cl_strings *words, const char *last)
{
	const char **copy = xcalloc(words->n + 2, sizeof(*copy));

	for (size_t i = 0; i < words->n; i++)
		copy[i] = xstrndup(words->items[i].ptr, words->items[i].len);
	copy[words->n] = last ? xstrdup(last) : NULL;
	return copy;
}

static void
free_words(const char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free((void *)(uintptr_t)words[i]);
	free(words);
}

static char *
beside(struct str file)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(8));

	buf_add_str(&b, file);
	buf_add_c(&b, ".unchecked");
	return buf_take(&b);
}

struct cl_haproxy *
cl_haproxy_new(const struct cl_balancers *config, struct cl_books *books,
               const struct cloud_host *host)
{
	struct cl_haproxy *h = xcalloc(1, sizeof(*h));
	const struct cl_haproxy_config *c = &config->haproxy;

	h->host = host;
	h->books = books;
	h->file = xstrndup(c->file.ptr, c->file.len);
	h->draft = beside(c->file);
	h->stats_socket = str_c(xstrndup(c->stats_socket.ptr, c->stats_socket.len));
	h->check = copy_words(&c->check, h->draft);
	h->reload = copy_words(&c->reload, NULL);
	h->timeout_ms = config->hook_timeout_ns / NS_PER_MS;
	PTHREAD_OK(pthread_mutex_init(&h->mu, NULL));
	return h;
}

void
cl_haproxy_free(struct cl_haproxy *h)
{
	if (!h)
		return;
	PTHREAD_OK(pthread_mutex_destroy(&h->mu));
	free_words(h->check);
	free_words(h->reload);
	free((void *)(uintptr_t)h->stats_socket.ptr);
	free(h->draft);
	free(h->file);
	free(h);
}

/* ---- what it can do ---------------------------------------------------------------------------------- */

bool
cl_haproxy_accepts(const struct cl_record *draft, struct error *err)
{
	for (size_t i = 0; i < draft->holding.n_ports; i++) {
		const struct lb_port *port = &draft->holding.ports[i];

		if (port->protocol != LB_TCP)
			return err_set(err, ERR_INVALID,
			               "port %d/%" STR_FMT
			               ": HAProxy balances TCP only; leave that port out, or use "
			               "loadBalancers.hook for it",
			               (int)port->port, STR_ARG(port->protocol_text));
		if (port->node_port == 0)
			return err_set(
				err, ERR_INVALID,
				"port %d/TCP has no node port: HAProxy reaches nodes by it, so "
				"spec.allocateLoadBalancerNodePorts must be true",
				(int)port->port);
	}
	return true;
}

/* ---- programs ---------------------------------------------------------------------------------------- */

/* HAProxy says what is wrong first, and that something is wrong last. */
static struct str
main_line(const struct buf *text)
{
	struct str last = STR_EMPTY;

	for (struct str line, rest = buf_str(text); str_split(&rest, '\n', &line);) {
		if (str_contains(line, STR("[ALERT]")))
			return str_utf8_head(str_trim(line), LINE_MAX_BYTES);
		if (str_trim(line).len > 0)
			last = str_trim(line);
	}
	return str_utf8_head(last, LINE_MAX_BYTES);
}

static bool
run(struct cl_haproxy *h, struct call *call, const char *const *argv, struct error *err)
{
	CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
	struct child_spec spec = { .argv = argv,
		                   .timeout_ms = h->timeout_ms,
		                   .grace_ms = 2 * MS_PER_SEC,
		                   .take_stderr = true };
	struct str line;

	if (!child_run(call, &spec, &result, err)) {
		err->code = err->code == ERR_CANCELLED ? ERR_CANCELLED : ERR_UNAVAILABLE;
		return false;
	}
	if (result.exit_code == 0)
		return true;
	line = main_line(&result.err);
	return err_set(err, ERR_UNAVAILABLE, "%s: exit %d: %" STR_FMT, argv[0], result.exit_code,
	               STR_ARG(line));
}

/* ---- one round --------------------------------------------------------------------------------------- */

/* A node that comes or goes changes all balancers, one after the other: they are told to HAProxy together. Until nothing
 * was changed for a moment, or it takes too long. */
static bool
gather(struct cl_haproxy *h, struct call *call, struct error *err)
{
	int64_t end_ns = clock_mono(call->clock) + GATHER_NS;
	uint64_t seen, version;
	bool is_busy;

	version = cl_books_version(h->books, &is_busy);
	do {
		seen = version;
		if (!cancel_sleep(call->cancel, call->clock, QUIET_MS * NS_PER_MS, err))
			return false;
		version = cl_books_version(h->books, &is_busy);
	} while ((is_busy || version != seen) && clock_mono(call->clock) < end_ns);
	return true;
}

static void
render(struct cl_haproxy *h, struct buf *text, uint64_t *ret_version)
{
	struct cl_record **records;
	size_t n;

	records = cl_books_list(h->books, &n, ret_version);
	cl_haproxy_file(text, records, n, h->stats_socket);
	for (size_t i = 0; i < n; i++)
		cl_record_unref(records[i]);
	free(records);
}

static bool
check(struct cl_haproxy *h, struct call *call, struct str text, struct error *err)
{
	bool is_good;

	if (!file_replace(h->draft, text, 0644, err))
		return err_wrap(err, "HAProxy's configuration");
	is_good = run(h, call, h->check, err) ||
	          err_wrap(err, "HAProxy's configuration was not accepted, the former stays");
	(void)unlink(h->draft);
	return is_good;
}

static bool
install(struct cl_haproxy *h, struct call *call, struct str text, struct error *err)
{
	if (!check(h, call, text, err) || !fence_check(h->host->fence, h->host->clock, err))
		return false;
	h->loaded = 0;
	if (!file_replace(h->file, text, 0644, err))
		return err_wrap(err, "HAProxy's configuration");
	cl_haproxy_keep_server_state(h->stats_socket, h->host->clock);
	if (!run(h, call, h->reload, err))
		return err_wrap(err, "HAProxy was not reloaded");
	return true;
}

/* *ret_is_loaded: HAProxy was reloaded. */
static bool
work(struct cl_haproxy *h, struct call *call, uint64_t *ret_version, bool *ret_is_loaded,
     struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_HAPROXY_FILE);
	uint64_t hash;

	if (!gather(h, call, err))
		return false;
	render(h, &text, ret_version);
	if (!buf_ok(&text))
		return err_set(err, ERR_INTERNAL,
		               "HAProxy's configuration would have more than %zu bytes",
		               LIMIT_HAPROXY_FILE);
	hash = str_hash(buf_str(&text)) | 1;
	*ret_is_loaded = hash != h->loaded;
	if (!*ret_is_loaded)
		return true;
	if (!fence_check(h->host->fence, h->host->clock, err) ||
	    !install(h, call, buf_str(&text), err))
		return false;
	h->loaded = hash;
	log_info("HAProxy reloaded", LOG_I64("bytes", (int64_t)text.len));
	return true;
}

/* ---- taking turns ------------------------------------------------------------------------------------ */

static bool
come_back(struct error *err, int64_t after_ms)
{
	err_set(err, ERR_PENDING, "waiting for HAProxy's next reload");
	err->retry_after_ms = after_ms;
	return false;
}

/* With the lock held: how long to stay away. HAProxy needs seconds to check tens of thousands of servers, and who asks all
 * the while only makes it slower. */
static int64_t
wait_ms(const struct cl_haproxy *h, int64_t now_ns)
{
	int64_t wait_ns = h->next_mono_ns - now_ns;

	if (h->is_busy)
		wait_ns = h->begun_ns + h->took_ns - now_ns;
	if (h->is_busy && wait_ns < BUSY_MS * NS_PER_MS)
		return BUSY_MS;
	return wait_ns > 0 ? wait_ns / NS_PER_MS + 1 : 0;
}

/* *ret_is_ours: nobody else is at it, and it is time. */
static bool
begin(struct cl_haproxy *h, struct call *call, uint64_t wanted, bool *ret_is_ours,
      struct error *err)
{
	int64_t now_ns = clock_mono(call->clock), after_ms;
	WITH_LOCK(&h->mu);

	*ret_is_ours = false;
	if (h->version >= wanted)
		return true;
	after_ms = wait_ms(h, now_ns);
	if (after_ms > 0)
		return come_back(err, after_ms);
	h->is_busy = true;
	h->begun_ns = now_ns;
	*ret_is_ours = true;
	return true;
}

static void
end(struct cl_haproxy *h, struct call *call, bool is_done, bool is_loaded, uint64_t version)
{
	int64_t now_ns = clock_mono(call->clock);
	WITH_LOCK(&h->mu);

	h->is_busy = false;
	h->took_ns = now_ns - h->begun_ns;
	if (is_done)
		h->version = version;
	if (is_loaded)
		h->next_mono_ns = now_ns + PAUSE_NS;
}

bool
cl_haproxy_apply(struct cl_haproxy *h, struct call *call, struct error *err)
{
	bool is_ours, is_done, is_busy, is_loaded = false;
	uint64_t version = 0;

	if (!begin(h, call, cl_books_version(h->books, &is_busy), &is_ours, err))
		return false;
	if (!is_ours)
		return true;
	is_done = work(h, call, &version, &is_loaded, err);
	end(h, call, is_done, is_loaded, version);
	return is_done;
}
