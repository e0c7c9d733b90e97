/* tests/simulation/net.c: see net.h.
 *
 * An exchange is one request and its answer. It is held by the client's transfer, by the model
 * while it is a stream, and by entries of the agenda, and freed when nobody holds it. */
#include "net.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "curl_model.h"

#define BODY_MAX ((size_t)512 << 20)
/* TCP_USER_TIMEOUT and keep-alive of src/http/curl.c: then a silent connection ends */
#define DEAD_PEER_NS (45 * NS_PER_SEC)
#define CONNECT_NS (5 * NS_PER_SEC) /* until a connection that nobody answers is given up */

enum fate {
	ANSWERED,
	REFUSED,
	CLOSED_BEFORE,
	CLOSED_AFTER,
	SILENT_BEFORE,
	SILENT_AFTER,
	REFUSING,
	FAILING,
	CUT,
	SLOW,
	EMPTIED,
	PAGE,
	CONFLICTING,
};

struct exchange {
	uint64_t id;
	const struct replica *replica;
	unsigned incarnation;
	enum host host;
	struct easy *easy;  /* NULL: the client has closed */
	unsigned n_entries; /* of the agenda */
	enum fate fate;
	bool is_reused;
	bool is_open;             /* the model pushes */
	bool is_broken;           /* nothing more reaches the client */
	int64_t sent_ns, last_ns; /* last: when the bytes sent last arrive */
	struct server_request request;
	struct buf memory; /* of the request's texts */
	struct server_response response;
	struct buf head;
};

static struct {
	struct net_hooks hooks;
	struct rng random;
	uint64_t n_exchanges;
	struct exchange **open; /* streams, and exchanges whose model may push */
	size_t n_open, cap_open;
	struct {
		struct server *server;
		struct net_faults faults;
		int64_t min_ns, max_ns;
		int64_t armed_ns;
		uint64_t n;
	} hosts[N_HOSTS];
	bool is_cut[N_REPLICAS][N_HOSTS];
} net;

/* ---- life ---- */

void
net_start(uint64_t seed, const struct net_hooks *hooks)
{
	net.random = rng_of(seed, "net", 0);
	net.hooks = *hooks;
	for (int i = 0; i < N_HOSTS; i++) {
		net.hosts[i].min_ns = NS_PER_MS;
		net.hosts[i].max_ns = 5 * NS_PER_MS;
		net.hosts[i].armed_ns = CLOCK_FOREVER;
	}
}

struct net_faults *
net_faults(enum host host)
{
	return &net.hosts[host].faults;
}

void
net_set_latency(enum host host, int64_t min_ns, int64_t max_ns)
{
	net.hosts[host].min_ns = min_ns;
	net.hosts[host].max_ns = max_ns;
}

uint64_t
net_count(enum host host)
{
	return net.hosts[host].n;
}

static int64_t
latency(const struct exchange *x)
{
	return rng_between(&net.random, net.hosts[x->host].min_ns, net.hosts[x->host].max_ns);
}

static void
release(struct exchange *x)
{
	if (x->easy || x->n_entries > 0 || x->is_open)
		return;
	buf_fini(&x->memory);
	buf_fini(&x->response.headers);
	buf_fini(&x->response.body);
	buf_fini(&x->head);
	free(x);
}

static void
later(struct exchange *x, int64_t at_ns, void (*fn)(void *))
{
	x->n_entries++;
	schedule_at(at_ns, fn, x);
}

/* ---- the models' time ---- */

static void
on_armed(void *arg)
{
	enum host host = (enum host)(uintptr_t)arg;

	if (net.hosts[host].armed_ns > schedule_now_ns())
		return; /* an earlier time was set meanwhile, and then a later one */
	net.hosts[host].armed_ns = CLOCK_FOREVER;
	net_advance(host);
	net_arm(host);
}

void
net_advance(enum host host)
{
	struct server *server = net.hosts[host].server;

	if (server)
		server->ops->advance(server, WALL_START_NS + schedule_now_ns());
}

void
net_arm(enum host host)
{
	struct server *server = net.hosts[host].server;
	int64_t next_ns = server ? server->ops->next_ns(server) : CLOCK_FOREVER;

	if (next_ns == CLOCK_FOREVER || next_ns - WALL_START_NS >= net.hosts[host].armed_ns)
		return;
	net.hosts[host].armed_ns = next_ns - WALL_START_NS;
	if (net.hosts[host].armed_ns < schedule_now_ns())
		net.hosts[host].armed_ns = schedule_now_ns();
	schedule_at(net.hosts[host].armed_ns, on_armed, (void *)(uintptr_t)host);
}

/* ---- from the server to the client ---- */

static void
forget_open(struct exchange *x)
{
	for (size_t i = 0; i < net.n_open; i++) {
		if (net.open[i] == x)
			net.open[i] = net.open[--net.n_open];
	}
	x->is_open = false;
}

static void
close_stream(struct exchange *x)
{
	struct server *server = net.hosts[x->host].server;

	if (!x->is_open)
		return;
	forget_open(x);
	server->ops->closed(server, x->id);
	net_arm(x->host);
}

static struct net_request
seen_as(const struct exchange *x)
{
	return (struct net_request){ x->replica, x->incarnation, x->host, x->sent_ns, &x->request };
}

static void
note_end(const struct exchange *x, bool is_complete)
{
	struct net_request seen = seen_as(x);

	if (net.hooks.ended)
		net.hooks.ended(&seen, is_complete && x->fate != PAGE ? x->response.status : 0);
}

static void
end_easy(struct exchange *x, CURLcode code, int system_error, const char *text)
{
	struct easy *easy = TAKE(x->easy);

	note_end(x, code == CURLE_OK);
	if (code != CURLE_OK)
		trace("%s #%llu %s", x->replica->name, (unsigned long long)x->id, text);
	easy_end(easy, code, system_error, text);
}

static bool
is_cut(const struct exchange *x)
{
	return net.is_cut[x->replica->index][x->host];
}

static void
on_closed(void *arg)
{
	struct exchange *x = arg;

	x->n_entries--;
	if (x->easy)
		end_easy(x, x->is_reused || x->is_open ? CURLE_RECV_ERROR : CURLE_GOT_NOTHING, 0,
		         "the connection was closed");
	close_stream(x);
	release(x);
}

static void
on_refused(void *arg)
{
	struct exchange *x = arg;

	x->n_entries--;
	if (x->easy)
		end_easy(x, CURLE_COULDNT_CONNECT, ECONNREFUSED, "connection refused");
	release(x);
}

static void
on_no_connection(void *arg)
{
	struct exchange *x = arg;

	x->n_entries--;
	if (x->easy)
		end_easy(x, CURLE_OPERATION_TIMEDOUT, 0, "no connection in time");
	release(x);
}

/* The whole answer of a request, or the beginning of a stream's. */
static void
on_answer(void *arg)
{
	struct exchange *x = arg;
	struct net_request seen = { x->replica, x->incarnation, x->host, x->sent_ns, &x->request };
	struct server_response *r = &x->response;
	struct str body = buf_str(&r->body);

	x->n_entries--;
	if (!x->easy || is_cut(x)) {
		x->is_broken = true; /* nothing can follow */
		release(x);
		return;
	}
	(void)!buf_reserve(&x->head, 100 + r->headers.len);
	buf_addf(&x->head, "HTTP/1.1 %d x\r\n", r->status);
	buf_add_str(&x->head, buf_str(&r->headers));
	if (!r->is_stream)
		buf_addf(&x->head, "Content-Length: %zu\r\n", body.len);
	buf_add_c(&x->head, "\r\n");
	easy_head(x->easy, buf_str(&x->head));
	if (x->fate == CUT)
		body = str_head(body, body.len / 2);
	if (body.len > 0)
		easy_body(x->easy, body);
	if (x->fate != CUT && net.hooks.delivered)
		net.hooks.delivered(&seen, r);
	if (x->fate == CUT) {
		end_easy(x, CURLE_PARTIAL_FILE, 0, "the answer was cut");
		close_stream(x);
	} else if (!r->is_stream) {
		end_easy(x, CURLE_OK, 0, "");
	}
	release(x);
}

struct pushed {
	struct exchange *x;
	bool is_end;
	size_t n;
	char bytes[];
};

static void
on_pushed(void *arg)
{
	struct pushed *p = arg;
	struct exchange *x = p->x;

	x->n_entries--;
	if (is_cut(x))
		x->is_broken = true; /* what follows would leave a gap */
	if (x->easy && !x->is_broken) {
		easy_body(x->easy, str_n(p->bytes, p->n));
		if (p->is_end)
			end_easy(x, CURLE_OK, 0, "");
	}
	free(p);
	release(x);
}

static struct exchange *
find_open(uint64_t id)
{
	for (size_t i = 0; i < net.n_open; i++) {
		if (net.open[i]->id == id)
			return net.open[i];
	}
	return NULL;
}

static void
push(struct exchange *x, struct str bytes, bool is_end)
{
	struct pushed *p = xcalloc(1, sizeof(*p) + bytes.len);
	int64_t at_ns = schedule_now_ns() + latency(x);

	p->x = x;
	p->is_end = is_end;
	p->n = bytes.len;
	if (bytes.len > 0)
		memcpy(p->bytes, bytes.ptr, bytes.len);
	/* in order, and after the head of the answer */
	x->last_ns = at_ns > x->last_ns ? at_ns : x->last_ns + 1;
	x->n_entries++;
	schedule_at(x->last_ns, on_pushed, p);
}

static void
sink_push(void *arg, uint64_t stream, struct str bytes)
{
	struct exchange *x = find_open(stream);

	(void)arg;
	if (x)
		push(x, bytes, false);
}

static void
sink_end(void *arg, uint64_t stream)
{
	struct exchange *x = find_open(stream);

	(void)arg;
	if (!x)
		return;
	push(x, STR_EMPTY, true);
	forget_open(x);
}

void
net_set_server(enum host host, struct server *server)
{
	net.hosts[host].server = server;
	server->sink = (struct server_sink){ sink_push, sink_end, NULL };
	net_advance(host);
	net_arm(host);
}

/* ---- at the server ---- */

static void
answer_with_conflict(struct exchange *x)
{
	x->response.status = 409;
	buf_add_c(
		&x->response.body,
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":"
		"\"Conflict\",\"code\":409,\"message\":\"Operation cannot be fulfilled: the object "
		"has been modified; please apply your changes to the latest version and try "
		"again\"}");
}

/* An answer by something before the server, or by the server before it acts. */
static void
answer_with_error(struct exchange *x)
{
	static const int before[] = { 429, 500, 502, 503, 504, 401, 403 };
	static const int after[] = { 502, 504 };
	struct server_response *r = &x->response;

	buf_reset(&r->body);
	buf_reset(&r->headers);
	r->is_stream = false;
	r->status = x->fate == FAILING ? after[rng_below(&net.random, ARRAY_LEN(after))]
	                               : before[rng_below(&net.random, ARRAY_LEN(before))];
	/* ccmd ignores a Lease that it may not read */
	if (r->status == 403 && str_contains(x->request.target, STR("/kube-node-lease/")))
		r->status = 503;
	if (r->status == 429)
		buf_addf(&r->headers, "Retry-After: %d\r\n", (int)rng_between(&net.random, 1, 10));
	buf_addf(&r->body,
	         "{\"message\":\"simulated\",\"error\":{\"code\":\"%s\",\"message\":"
	         "\"simulated\"}}",
	         r->status == 429 ? "rate_limit_exceeded" : "unavailable");
}

static void
answer_with_page(struct exchange *x)
{
	static const int statuses[] = { 404, 503, 200 }; /* the last one only of a GET */
	bool is_get = strcmp(x->request.method, "GET") == 0;

	x->response.status = statuses[rng_below(&net.random, is_get ? 3 : 2)];
	buf_add_c(&x->response.headers, "Content-Type: text/html\r\n");
	buf_add_c(&x->response.body, "<html><body>simulated</body></html>");
}

static void
act(struct exchange *x)
{
	struct server *server = net.hosts[x->host].server;
	struct net_request seen = seen_as(x);

	net_advance(x->host);
	x->is_open = true; /* it may push while it handles the request */
	ARRAY_PUSH(net.open, net.n_open, net.cap_open, x);
	net.hooks.arrived(&seen);
	if (!net.hooks.answer || !net.hooks.answer(&seen, &x->response))
		server->ops->handle(server, &x->request, &x->response);
	net.hooks.acted(&seen, &x->response);
	if (!x->response.is_stream)
		forget_open(x);
	net_arm(x->host);
}

static void
empty_list(struct exchange *x)
{
	struct server_response *r = &x->response;
	struct str body;

	if (x->host != HOST_CLOUD || r->status != 200 || !net.hooks.empty_list)
		return;
	body = net.hooks.empty_list(x->request.target);
	if (body.len == 0)
		return;
	buf_reset(&r->body);
	buf_add_str(&r->body, body);
}

static void
trace_request(const struct exchange *x)
{
	const char *how = x->fate == REFUSING || x->fate == CONFLICTING ? " (simulated)"
	                  : x->fate == EMPTIED                          ? " (as if empty)"
	                  : x->fate == PAGE                             ? " (page of a proxy)"
	                                                                : "";

	if (str_contains(x->request.target, STR("/leases/")))
		trace_detail("%s #%llu %s %.200s = %d%s", x->replica->name,
		             (unsigned long long)x->id, x->request.method, x->request.target.ptr,
		             x->response.status, how);
	else
		trace("%s #%llu %s %.200s = %d%s", x->replica->name, (unsigned long long)x->id,
		      x->request.method, x->request.target.ptr, x->response.status, how);
}

static void
on_arrived(void *arg)
{
	struct exchange *x = arg;
	const struct net_faults *f = &net.hosts[x->host].faults;
	int64_t now_ns = schedule_now_ns(), answer_ns;

	x->n_entries--;
	if (is_cut(x)) {
		release(x);
		return;
	}
	answer_ns = now_ns + latency(x);
	if (x->fate == SLOW)
		answer_ns += rng_between(&net.random, NS_PER_SEC, 20 * NS_PER_SEC);
	x->last_ns = answer_ns;
	if (x->fate == REFUSING)
		answer_with_error(x);
	else if (x->fate == PAGE)
		answer_with_page(x);
	else if (x->fate == CONFLICTING)
		answer_with_conflict(x);
	else if (x->fate != SILENT_BEFORE && x->fate != CLOSED_BEFORE)
		act(x);
	if (x->fate == EMPTIED)
		empty_list(x);
	trace_request(x);
	if (x->fate == FAILING && !x->response.is_stream)
		answer_with_error(x);
	if (x->fate == CLOSED_BEFORE || x->fate == CLOSED_AFTER)
		later(x, answer_ns, on_closed);
	else if (x->fate == SILENT_BEFORE || x->fate == SILENT_AFTER)
		x->is_broken = true;
	else
		later(x, answer_ns, on_answer);
	if (x->response.is_stream && rng_chance(&net.random, f->stream_cut))
		later(x, now_ns + rng_between(&net.random, NS_PER_SEC, 300 * NS_PER_SEC),
		      on_closed);
	release(x);
}

/* ---- from the client to the server ---- */

static enum fate
choose_fate(const struct net_faults *f, const struct net_message *m)
{
	bool is_patch = strcmp(m->method, "PATCH") == 0 &&
	                str_contains(m->target, STR("/services/"));
	bool is_after = rng_chance(&net.random, 500);
	unsigned n = (unsigned)rng_below(&net.random, 1000);
	const struct {
		unsigned weight;
		enum fate fate;
	} fates[] = {
		{ f->refused, REFUSED },
		{ f->closed, is_after ? CLOSED_AFTER : CLOSED_BEFORE },
		{ f->silent, is_after ? SILENT_AFTER : SILENT_BEFORE },
		{ f->refusing, REFUSING },
		{ f->failing, FAILING },
		{ f->cut, CUT },
		{ f->slow, SLOW },
		{ f->emptied, EMPTIED },
		{ f->page, PAGE },
		{ is_patch ? f->lost_patches : 0, CLOSED_AFTER },
		{ is_patch ? f->conflicts : 0, CONFLICTING },
	};

	for (size_t i = 0; i < ARRAY_LEN(fates); i++) {
		if (n < fates[i].weight)
			return fates[i].fate;
		n -= fates[i].weight;
	}
	return ANSWERED;
}

/* Appends a copy that ends with a zero byte, and returns its place. */
static size_t
keep(struct buf *memory, struct str text)
{
	size_t at = memory->len;

	buf_add_str(memory, text);
	buf_add_char(memory, '\0');
	return at;
}

static void
copy_request(struct exchange *x, const struct net_message *m)
{
	const struct str from[] = { str_c(m->method), m->target, m->accept,     m->content_type,
		                    m->token,         m->basic,  m->user_agent, m->body };
	struct str to[ARRAY_LEN(from)];
	size_t at[ARRAY_LEN(from)];

	x->memory = (struct buf)BUF_INIT(BODY_MAX);
	for (size_t i = 0; i < ARRAY_LEN(from); i++)
		at[i] = keep(&x->memory, from[i]);
	for (size_t i = 0; i < ARRAY_LEN(from); i++)
		to[i] = str_n(x->memory.ptr + at[i], from[i].len);
	x->request = (struct server_request){ x->id, to[0].ptr, to[1], to[2], to[3],
		                              to[4], to[5],     to[6], to[7] };
}

struct exchange *
net_send(const struct replica *r, enum host host, const struct net_message *m, struct easy *easy)
{
	struct exchange *x = xcalloc(1, sizeof(*x));
	int64_t now_ns = schedule_now_ns();

	net.hosts[host].n++;
	x->id = ++net.n_exchanges;
	x->replica = r;
	x->incarnation = r->incarnation;
	x->host = host;
	x->easy = easy;
	x->is_reused = m->is_reused;
	x->sent_ns = now_ns;
	x->fate = choose_fate(&net.hosts[host].faults, m);
	if (net.hosts[host].faults.broken &&
	    str_contains(m->target, str_c(net.hosts[host].faults.broken)))
		x->fate = REFUSING;
	copy_request(x, m);
	x->response.headers = (struct buf)BUF_INIT(BODY_MAX);
	x->response.body = (struct buf)BUF_INIT(BODY_MAX);
	x->head = (struct buf)BUF_INIT(BODY_MAX);
	if (net.hooks.sent)
		net.hooks.sent(&(struct net_request){ r, r->incarnation, host, now_ns,
		                                      &x->request });
	if (is_cut(x) && !x->is_reused)
		later(x, now_ns + CONNECT_NS, on_no_connection);
	else if (x->fate == REFUSED && !x->is_reused)
		later(x, now_ns + latency(x), on_refused);
	else
		later(x, now_ns + latency(x), on_arrived);
	return x;
}

/* A request that is under way still arrives. */
void
net_close(struct exchange *x)
{
	if (x->easy)
		note_end(x, /*is_complete=*/false);
	x->easy = NULL;
	close_stream(x);
	release(x);
}

static void
on_dead_peer(void *arg)
{
	struct exchange *x = arg;

	if (x->is_broken || is_cut(x)) {
		on_closed(x);
		return;
	}
	x->n_entries--;
	release(x);
}

void
net_partition(const struct replica *r, enum host host, bool is_cut)
{
	trace("%s %s %s", r->name, is_cut ? "cannot reach" : "reaches",
	      host == HOST_KUBE ? "the API server" : "the cloud");
	net.is_cut[r->index][host] = is_cut;
	for (size_t i = 0; is_cut && i < net.n_open; i++) {
		struct exchange *x = net.open[i];

		if (x->replica == r && x->host == host)
			later(x, schedule_now_ns() + DEAD_PEER_NS, on_dead_peer);
	}
}
