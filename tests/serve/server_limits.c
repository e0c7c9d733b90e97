/* Rude clients, and a polite one that is served all the while. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/server_world.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

enum {
	FEW = 8, /* connections, where the test fills them */
	SHORT_MS = 300,
	LATE_MS = 10000, /* a slow machine's notion of soon */
};

static void
open_all(const struct server_world *w, struct client *clients, size_t n)
{
	for (size_t i = 0; i < n; i++)
		clients[i] = client_open(w->port);
}

static void
send_all(struct client *clients, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		client_send(&clients[i], text);
}

static void
close_all(struct client *clients, size_t n)
{
	for (size_t i = 0; i < n; i++)
		client_close(&clients[i]);
}

static void
silent_clients_do_not_keep_others_out(void **state)
{
	SERVER_WORLD(w);
	struct client clients[3 * LIMIT_SERVER_CONNECTIONS];

	(void)state;
	server_world_start(&w);
	open_all(&w, clients, ARRAY_LEN(clients));
	assert_is_served(&w);
	send_all(clients, ARRAY_LEN(clients), "GET / HT");
	assert_is_served(&w);
	server_world_stop(&w);
	assert_true(w.server->n_connections <= LIMIT_SERVER_CONNECTIONS);
	close_all(clients, ARRAY_LEN(clients));
}

static void
the_longest_idle_goes_first(void **state)
{
	SERVER_WORLD(w);
	struct client clients[FEW], held;

	(void)state;
	w.limits.n_connections = FEW;
	server_world_start(&w);
	held = client_open(w.port);
	client_send(&held, GET("/hold"));
	server_world_wait_held(&w, 1);
	for (size_t i = 0; i < FEW - 1; i++) {
		clients[i] = client_open(w.port);
		client_send(&clients[i], GET("/"));
		assert_int_equal(client_answer(&clients[i], NULL), 200);
	}
	client_send(&clients[0], GET("/")); /* now the second is the longest idle */
	assert_int_equal(client_answer(&clients[0], NULL), 200);
	assert_is_served(&w);
	assert_true(client_is_closed(&clients[1], LATE_MS));
	client_send(&clients[0], GET("/"));
	assert_int_equal(client_answer(&clients[0], NULL), 200);
	server_world_release(&w);
	assert_int_equal(client_answer(&held, NULL), 200);
	client_close(&held);
	close_all(clients, FEW - 1);
}

/* As when the API server does not answer reviews and the kubelet's probe connects: access.c lets
 * fewer requests wait than there may be connections. */
static void
pending_requests_do_not_keep_others_out(void **state)
{
	SERVER_WORLD(w);
	struct client clients[FEW - 1];

	(void)state;
	w.limits.n_connections = FEW;
	server_world_start(&w);
	open_all(&w, clients, FEW - 1);
	send_all(clients, FEW - 1, GET("/hold"));
	server_world_wait_held(&w, FEW - 1);
	for (int i = 0; i < FEW; i++)
		assert_is_served(&w);
	server_world_release(&w);
	for (size_t i = 0; i < FEW - 1; i++)
		assert_int_equal(client_answer(&clients[i], NULL), 200);
	close_all(clients, FEW - 1);
}

static void
a_new_connection_is_refused_before_a_waiting_request_is_dropped(void **state)
{
	SERVER_WORLD(w);
	struct client clients[FEW], more;

	(void)state;
	w.limits.n_connections = FEW;
	server_world_start(&w);
	open_all(&w, clients, FEW);
	send_all(clients, FEW, GET("/hold"));
	server_world_wait_held(&w, FEW);
	for (int i = 0; i < FEW; i++) {
		more = client_open(w.port);
		client_send(&more, GET("/"));
		assert_int_equal(client_answer(&more, NULL), 0);
		client_close(&more);
	}
	server_world_release(&w);
	for (size_t i = 0; i < FEW; i++)
		assert_int_equal(client_answer(&clients[i], NULL), 200);
	close_all(clients, FEW);
	assert_is_served(&w);
}

/* However long it has been idle, and however often another address connects. */
static void
a_connection_of_the_address_with_the_most_is_closed(void **state)
{
	SERVER_WORLD(w);
	struct client idle, clients[3 * FEW];

	(void)state;
	w.limits.n_connections = FEW;
	server_world_start(&w);
	idle = client_open_from("127.0.0.2", w.port);
	client_send(&idle, GET("/"));
	assert_int_equal(client_answer(&idle, NULL), 200);
	open_all(&w, clients, ARRAY_LEN(clients));
	assert_is_served(&w);
	client_send(&idle, GET("/"));
	assert_int_equal(client_answer(&idle, NULL), 200);
	client_close(&idle);
	close_all(clients, ARRAY_LEN(clients));
}

struct gate {
	atomic_bool is_reached, is_open;
};

static void
reply_behind_gate(void *arg, struct server_request *request)
{
	struct gate *gate = arg;

	atomic_store(&gate->is_reached, true);
	while (!atomic_load(&gate->is_open))
		usleep(1000);
	server_reply(request, &(struct server_response){ .status = 200 });
}

/* While the server is busy with one request, all others of the address come in, and then the
 * connection: the server reads them in one turn. */
static void
answered_requests_do_not_keep_others_out(void **state)
{
	SERVER_WORLD(w);
	struct client clients[FEW], more;
	struct gate gate = { 0 };

	(void)state;
	w.limits.n_connections = FEW;
	w.config.handle = reply_behind_gate;
	w.config.arg = &gate;
	server_world_start(&w);
	open_all(&w, clients, FEW);
	client_send(&clients[0], GET("/"));
	while (!atomic_load(&gate.is_reached))
		usleep(1000);
	send_all(&clients[1], FEW - 1, GET("/"));
	more = client_open_from("127.0.0.2", w.port);
	client_send(&more, GET("/"));
	atomic_store(&gate.is_open, true);
	assert_int_equal(client_answer(&more, NULL), 200);
	client_close(&more);
	close_all(clients, FEW);
}

static void
pending_requests_are_bounded(void **state)
{
	SERVER_WORLD(w);
	struct client clients[FEW];

	(void)state;
	w.limits.n_requests = FEW;
	server_world_start(&w);
	open_all(&w, clients, FEW);
	send_all(clients, FEW, GET("/hold"));
	server_world_wait_held(&w, FEW);
	assert_status(&w, GET("/"), 503);
	server_world_release(&w);
	for (size_t i = 0; i < FEW; i++)
		assert_int_equal(client_answer(&clients[i], NULL), 200);
	assert_is_served(&w);
	close_all(clients, FEW);
}

/* Sends a byte every 20 ms until the server closes, or for far too long. */
static void
drip(struct client *c, const char *text)
{
	for (size_t i = 0; i < 1000; i++) {
		char byte[2] = { text[i % strlen(text)], '\0' };

		client_send(c, byte);
		if (client_is_closed(c, 20))
			return;
	}
}

/* since_ns: before the server could begin to count. */
static void
assert_closed_in_time(int64_t since_ns)
{
	int64_t took_ms = (clock_mono(&clock_real) - since_ns) / NS_PER_MS;

	assert_in_range(took_ms, SHORT_MS - 50, LATE_MS);
}

static void
assert_drips_in_vain(struct client *c, int64_t since_ns)
{
	drip(c, "G");
	assert_closed_in_time(since_ns);
	client_close(c);
}

static void
set_headers_ms(struct server_world *w, int64_t ms)
{
	server_world_stop(w);
	w->server->limits.headers_ms = ms;
	server_world_go_on(w);
}

static void
single_bytes_do_not_move_a_deadline(void **state)
{
	SERVER_WORLD(w);
	struct client c, second;
	int64_t since_ns;

	(void)state;
	server_world_start(&w);
	second = client_open(w.port); /* its second head */
	client_send(&second, GET("/"));
	assert_int_equal(client_answer(&second, NULL), 200);
	set_headers_ms(&w, SHORT_MS);
	since_ns = clock_mono(&clock_real);
	assert_drips_in_vain(&second, since_ns);

	since_ns = clock_mono(&clock_real);
	c = client_open(w.port);
	assert_drips_in_vain(&c, since_ns);
	since_ns = clock_mono(&clock_real);
	c = client_open(w.port); /* a body as well */
	client_send(&c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n");
	assert_drips_in_vain(&c, since_ns);
	set_headers_ms(&w, server_limits.headers_ms);
	assert_is_served(&w);
}

static void
idle_connections_end(void **state)
{
	SERVER_WORLD(w);
	struct client c;
	int64_t since_ns;

	(void)state;
	w.limits.idle_ms = SHORT_MS;
	server_world_start(&w);
	since_ns = clock_mono(&clock_real);
	c = client_open(w.port);
	client_send(&c, GET("/"));
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_true(client_is_closed(&c, LATE_MS));
	assert_closed_in_time(since_ns);
	client_close(&c);
}

static void
answers_must_be_taken(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT((size_t)2 * BIG_BYTES);
	struct client c, slow;

	(void)state;
	w.limits.write_ms = SHORT_MS;
	server_world_start(&w);
	slow = client_open(w.port);
	client_send(&slow, GET("/big"));
	assert_is_served(&w);
	c = client_open(w.port);
	client_send(&c, GET("/later"));
	assert_int_equal(client_answer(&c, NULL), 200);
	server_world_wait_connections(&w, 1); /* no client reads */
	assert_int_equal(client_answer(&slow, &answer), 0);
	assert_true(answer.len < BIG_BYTES);
	client_close(&slow);
	client_close(&c);
}

static void
takes_its_time_with_a_large_answer(void **state)
{
	SERVER_WORLD(w);
	struct client c;

	(void)state;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, GET("/big") GET("/"));
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
}

/* The refusal arrives though the client goes on sending. */
static void
says_when_headers_are_too_large(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));

	(void)state;
	server_world_start(&w);
	buf_add_c(&text, "GET / HTTP/1.1\r\nHost: x\r\nA: ");
	for (int i = 0; i < 200000; i++)
		buf_add_char(&text, 'a');
	assert_status(&w, text.ptr, 431);
	assert_is_served(&w);
}

/* A client that is refused, and neither closes its connection nor stops sending. */
static void
lingering_has_a_deadline(void **state)
{
	SERVER_WORLD(w);
	struct client c;

	(void)state;
	w.limits.linger_ms = SHORT_MS;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, "nonsense\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 400);
	for (int i = 0; i < 200; i++) {
		if (send(c.fd, "x", 1, MSG_NOSIGNAL) < 0)
			break;
		usleep(10 * 1000);
	}
	assert_true(send(c.fd, "x", 1, MSG_NOSIGNAL) < 0);
	client_close(&c);
}

static void
thousands_of_connections_leave_nothing(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	server_world_start(&w);
	for (int i = 0; i < 3000; i++) {
		struct client c = client_open(w.port);

		if (i % 3 == 1)
			client_send(&c, "GET /");
		if (i % 3 == 2)
			client_send(&c, GET("/"));
		client_close(&c);
	}
	assert_is_served(&w);
	server_world_stop(&w);
	assert_true(w.server->n_connections <= LIMIT_SERVER_CONNECTIONS);
	assert_true(w.server->n_requests <= LIMIT_SERVER_CONNECTIONS);
}

/* With no descriptor left, an idle connection makes room. */
static void
runs_out_of_descriptors(void **state)
{
	SERVER_WORLD(w);
	struct client idle;
	struct rlimit old, low;
	int last;

	(void)state;
	server_world_start(&w);
	idle = client_open(w.port);
	client_send(&idle, GET("/"));
	assert_int_equal(client_answer(&idle, NULL), 200);
	getrlimit(RLIMIT_NOFILE, &old);
	last = dup(0);
	close(last);
	low = (struct rlimit){ .rlim_cur = (rlim_t)last + 1, .rlim_max = old.rlim_max };
	setrlimit(RLIMIT_NOFILE, &low);
	assert_is_served(&w);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_true(client_is_closed(&idle, LATE_MS));
	client_close(&idle);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_clients_do_not_keep_others_out),
		cmocka_unit_test(the_longest_idle_goes_first),
		cmocka_unit_test(pending_requests_do_not_keep_others_out),
		cmocka_unit_test(a_new_connection_is_refused_before_a_waiting_request_is_dropped),
		cmocka_unit_test(a_connection_of_the_address_with_the_most_is_closed),
		cmocka_unit_test(answered_requests_do_not_keep_others_out),
		cmocka_unit_test(pending_requests_are_bounded),
		cmocka_unit_test(single_bytes_do_not_move_a_deadline),
		cmocka_unit_test(idle_connections_end),
		cmocka_unit_test(answers_must_be_taken),
		cmocka_unit_test(takes_its_time_with_a_large_answer),
		cmocka_unit_test(says_when_headers_are_too_large),
		cmocka_unit_test(lingering_has_a_deadline),
		cmocka_unit_test(thousands_of_connections_leave_nothing),
		cmocka_unit_test(runs_out_of_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
