#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/server_world.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static sem_t silence; /* what the name server of "silent.test" waits for */

/* Replaces the C library's: the machine's own configuration is not used. */
int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
            struct addrinfo **ret)
{
	static struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	static struct sockaddr_in v4 = { .sin_family = AF_INET };
	static struct addrinfo second = { .ai_family = AF_INET, .ai_addr = (void *)&v4 };
	static struct addrinfo first = { .ai_family = AF_INET6,
		                         .ai_addr = (void *)&v6,
		                         .ai_next = &second };

	(void)service;
	(void)hints;
	if (strcmp(name, "silent.test") == 0)
		sem_wait(&silence);
	else if (strcmp(name, "here.test") != 0)
		return EAI_NONAME;
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	v6.sin6_addr = in6addr_loopback;
	*ret = &first;
	return 0;
}

void
freeaddrinfo(struct addrinfo *all)
{
	(void)all;
}

static void
assert_has(const struct buf *answer, const char *text)
{
	if (!strstr(answer->ptr, text))
		fail_msg("no \"%s\" in:\n%s", text, answer->ptr);
}

/* One exchange on a connection of its own. */
static void
exchange(const struct server_world *w, const char *request, int status, struct buf *answer)
{
	struct client c = client_open(w->port);

	client_send(&c, request);
	assert_int_equal(client_answer(&c, answer), status);
	client_close(&c);
}

static void
answers_with_the_headers_of_all(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));

	(void)state;
	server_world_start(&w);
	exchange(&w, GET("/"), 200, &answer);
	assert_has(&answer, "HTTP/1.1 200 OK\r\nDate: ");
	assert_has(&answer,
	           " GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n");
	assert_has(&answer, "\r\nCache-Control: no-cache, private\r\n"
	                    "X-Content-Type-Options: nosniff\r\n\r\nok");
}

static void
head_has_the_length_but_no_body(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));
	struct client c;

	(void)state;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	assert_int_equal(client_answer(&c, &answer), 0); /* closed before two bytes came */
	assert_has(&answer, "Content-Length: 2\r\n");
	assert_has(&answer, "Connection: close\r\n");
	assert_true(str_ends(buf_str(&answer), STR("\r\n\r\n")));
	client_close(&c);
}

static void
shows_what_came_in(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));

	(void)state;
	server_world_start(&w);
	exchange(&w,
	         "PUT /a%2Fb%20c?p=1&q=2&p=x+y%26&p&p=%00&p=%zz&%70=last HTTP/1.1\r\nhost: x\r\n"
	         "X-A: one\r\nX-a:\t two \r\n"
	         "Content-Length: 5\r\n\r\nhello",
	         200, &answer);
	assert_has(&answer, "method 3\npath /a/b c\nquery p=1&q=2&p=x+y%26&p&p=%00&p=%zz&%70=last\n"
	                    "peer 127.0.0.1\n");
	assert_has(&answer, "p 0 [1]\np 1 [x y&]\np 2 []\np 3 [last]\nx-a 0 [one]\nx-a 1 [two]\n"
	                    "body [hello]\n");
}

static void
keeps_alive_and_takes_pipelined_requests_in_turn(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));
	struct client c;

	(void)state;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, GET("/later") GET("/") "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: "
	                                       "3\r\n\r\nabc" GET("/last"));
	assert_int_equal(client_answer(&c, &answer), 200);
	assert_has(&answer, "\r\n\r\nlater");
	assert_int_equal(client_answer(&c, &answer), 200);
	assert_has(&answer, "\r\n\r\nok");
	assert_int_equal(client_answer(&c, &answer), 200);
	assert_has(&answer, "body [abc]");
	assert_int_equal(client_answer(&c, &answer), 200);
	assert_has(&answer, "path /last");
	client_close(&c);
}

static void
closes_when_asked_and_for_old_clients(void **state)
{
	SERVER_WORLD(w);
	struct client c;

	(void)state;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, "GET / HTTP/1.0\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_true(client_is_closed(&c, 1000));
	client_close(&c);
}

static void
invites_a_body_that_waits(void **state)
{
	SERVER_WORLD(w);
	struct client c;

	(void)state;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, "PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
	                "2\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 100);
	client_send(&c, "hi");
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
}

static void
refuses_what_it_does_not_take(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));

	(void)state;
	server_world_start(&w);
	exchange(&w, "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, &answer);
	assert_has(&answer, "nosniff\r\nConnection: close\r\n\r\n400 Bad Request\n");
	assert_status(&w, "garbage\r\n\r\n", 400);
	assert_status(&w, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411);
	assert_status(&w, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", 413);
	assert_status(&w, "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505);
	assert_is_served(&w);
}

static void
many_threads_answer(void **state)
{
	SERVER_WORLD(w);
	struct client clients[40];

	(void)state;
	server_world_start(&w);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		clients[i] = client_open(w.port);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < ARRAY_LEN(clients); i++)
			client_send(&clients[i], GET("/later"));
		for (size_t i = 0; i < ARRAY_LEN(clients); i++)
			assert_int_equal(client_answer(&clients[i], NULL), 200);
	}
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		client_close(&clients[i]);
}

/* The client may leave, and so may the server, before the answer comes. */
static void
late_answers_are_dropped(void **state)
{
	SERVER_WORLD(w);
	struct client gone, waiting;

	(void)state;
	server_world_start(&w);
	gone = client_open(w.port);
	client_send(&gone, GET("/hold"));
	server_world_wait_held(&w, 1);
	client_close(&gone);
	server_world_release(&w);
	assert_is_served(&w);

	waiting = client_open(w.port);
	client_send(&waiting, GET("/hold"));
	server_world_wait_held(&w, 1);
	server_world_stop(&w);
	server_free(w.server);
	w.server = NULL;
	assert_true(client_is_closed(&waiting, 1000));
	server_world_release(&w);
	client_close(&waiting);
}

/* On the IPv4 address, although it comes second. */
static void
listens_on_the_address_of_a_name(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	w.config.address = STR("here.test");
	server_world_start(&w);
	assert_is_served(&w);
}

static void
a_silent_name_server_is_waited_for_in_bounds(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	sem_init(&silence, 0, 0);
	w.config.address = STR("silent.test");
	w.limits.lookup_ms = 50;
	w.config.limits = &w.limits;
	assert_false(server_new(&w.config, &w.server, &w.err));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	assert_non_null(strstr(w.err.msg, "silent.test: the name was not resolved"));
	sem_post(&silence); /* the thread ends by itself */
}

static void
says_why_it_cannot_listen(void **state)
{
	SERVER_WORLD(w);
	struct server *other;

	(void)state;
	server_world_start(&w);
	w.config.port = w.port;
	assert_false(server_new(&w.config, &other, &w.err));
	assert_int_equal(w.err.code, ERR_EXISTS);
	assert_non_null(strstr(w.err.msg, " at 127.0.0.1 is taken"));
	w.config.address = STR("192.0.2.1");
	assert_false(server_new(&w.config, &other, &w.err));
	assert_int_equal(w.err.code, ERR_INVALID);
	w.config.address = STR("nowhere.test");
	assert_false(server_new(&w.config, &other, &w.err));
	assert_int_equal(w.err.code, ERR_INVALID);
}

static void
shares_a_port_when_asked(void **state)
{
	SERVER_WORLD(w);
	struct server *other;

	(void)state;
	w.config.share_port = true;
	server_world_start(&w);
	server_world_stop(&w);
	w.config.port = w.port;
	assert_true(server_new(&w.config, &other, &w.err));
	server_free(other);
}

static void
listens_on_both_families(void **state)
{
	SERVER_WORLD(w);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	(void)state;
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		close(fd);
		skip();
	}
	close(fd);
	w.config.address = STR("::");
	server_world_start(&w);
	assert_is_served(&w); /* by IPv4 */
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to.sin6_port = htons((uint16_t)w.port);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_with_the_headers_of_all),
		cmocka_unit_test(head_has_the_length_but_no_body),
		cmocka_unit_test(shows_what_came_in),
		cmocka_unit_test(keeps_alive_and_takes_pipelined_requests_in_turn),
		cmocka_unit_test(closes_when_asked_and_for_old_clients),
		cmocka_unit_test(invites_a_body_that_waits),
		cmocka_unit_test(refuses_what_it_does_not_take),
		cmocka_unit_test(many_threads_answer),
		cmocka_unit_test(late_answers_are_dropped),
		cmocka_unit_test(listens_on_the_address_of_a_name),
		cmocka_unit_test(a_silent_name_server_is_waited_for_in_bounds),
		cmocka_unit_test(says_why_it_cannot_listen),
		cmocka_unit_test(shares_a_port_when_asked),
		cmocka_unit_test(listens_on_both_families),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
