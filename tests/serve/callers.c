/* Callers with good tokens among many callers with random ones: real sockets, and a slow API
 * server.
 *
 * The tests measure no time, since a busy machine slows everything down: they stop the API server,
 * and count what it reviews before the request that has come in meanwhile.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/log.h"
#include "base/rand.h"
#include "serve/endpoints.h"
#include "serve/server_world.h"
#include "fake_clock.h"

#define TTL_NS (10 * NS_PER_SEC)

enum {
	N_ATTACKERS = 150,
	REVIEW_MS = 50,
	/* The review that runs, and one of the attackers'. If the oldest question were asked first,
	 * it would be all LIMIT_SERVER_PER_SOURCE of theirs. */
	MAX_BEFORE = 2,
};

struct fixture {
	struct server_world w;
	struct fake_clock *clock;
	struct http_client api;
	struct kube_client client;
	struct access *access;
	struct endpoints_config endpoints;
	pthread_t thread;
	atomic_int n_reviews, n_refused;
	atomic_int n_before_good; /* n_reviews when the last good token was reviewed */
	atomic_bool is_stopped, is_over;
};

/* ---- the API server ---- */

static bool
review(struct http_client *client, struct call *call, const struct http_request *request,
       struct http_response *response, struct error *err)
{
	struct fixture *f = CONTAINER_OF(client, struct fixture, api);
	bool is_good = str_contains(request->body, STR("\"good"));

	(void)call;
	(void)err;
	while (atomic_load(&f->is_stopped))
		usleep(1000);
	usleep(REVIEW_MS * 1000);
	if (is_good)
		atomic_store(&f->n_before_good, atomic_load(&f->n_reviews));
	atomic_fetch_add(&f->n_reviews, 1);
	response->status = 201;
	response->body = BUF_INIT(KIB(4));
	if (str_contains(request->target, STR("subjectaccessreviews")))
		buf_add_c(&response->body,
		          "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":true}}");
	else
		buf_addf(&response->body,
		         "{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":%s,"
		         "\"user\":{\"username\":\"jane\"}}}",
		         is_good ? "true" : "false");
	return true;
}

/* ---- attackers: 150 connections, each with a random token in each request ---- */

static void
attack(struct client *c, int port)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(1));

	if (c->fd < 0)
		*c = client_open(port);
	buf_add_c(&text, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ");
	rand_uuid(&text);
	buf_add_c(&text, "\r\n\r\n");
	client_send(c, text.ptr);
}

/* Sends the next request when the last one was answered, and connects again when it was cut off. */
static void
go_on(struct fixture *f, struct client *c)
{
	char bytes[1024];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		client_close(c);
	else if (str_starts(str_n(bytes, (size_t)n), STR("HTTP/1.1 429 ")) ||
	         str_starts(str_n(bytes, (size_t)n), STR("HTTP/1.1 503 ")))
		atomic_fetch_add(&f->n_refused, 1);
	attack(c, f->w.port);
}

static void *
run_attack(void *arg)
{
	struct fixture *f = arg;
	struct client clients[N_ATTACKERS];

	for (size_t i = 0; i < N_ATTACKERS; i++) {
		clients[i].fd = -1;
		attack(&clients[i], f->w.port);
	}
	while (!atomic_load(&f->is_over)) {
		for (size_t i = 0; i < N_ATTACKERS; i++)
			go_on(f, &clients[i]);
		usleep(20 * 1000);
	}
	for (size_t i = 0; i < N_ATTACKERS; i++)
		client_close(&clients[i]);
	return NULL;
}

/* Returns when no further request of the attackers can wait. */
static void
begin_attack(struct fixture *f)
{
	thread_start(&f->thread, "attackers", run_attack, f);
	while (atomic_load(&f->n_refused) == 0)
		usleep(1000);
}

/* ---- the rig ---- */

static void
add_configz(void *arg, struct buf *json)
{
	(void)arg;
	buf_add_c(json, "{}");
}

static int
set_up(void **state)
{
	static const struct http_ops ops = { .do_request = review };
	static struct str allow_paths[] = { { "/livez", 6 } };
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err;

	server_world_init(&f->w);
	f->clock = fake_clock_new(NS_PER_SEC);
	f->api.ops = &ops;
	f->client = (struct kube_client){ .http = &f->api, .clock = fake_clock_clock(f->clock) };
	assert_true(access_new(&(struct access_config){ .authentication = &f->client,
	                                                .authorization = &f->client,
	                                                .clock = fake_clock_clock(f->clock),
	                                                .skip_lookup = true,
	                                                .token_ttl_ns = TTL_NS,
	                                                .authorized_ttl_ns = TTL_NS,
	                                                .unauthorized_ttl_ns = TTL_NS,
	                                                .client_ca_file = STR_EMPTY,
	                                                .allow_paths = { allow_paths, 1 } },
	                       &f->access, &err));
	f->endpoints = (struct endpoints_config){ .access = f->access,
		                                  .health = health_new(),
		                                  .configz = add_configz };
	f->w.config.handle = endpoints_handle;
	f->w.config.arg = &f->endpoints;
	server_world_start(&f->w);
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->is_over, true);
	atomic_store(&f->is_stopped, false);
	if (f->thread)
		thread_join(f->thread);
	server_world_stop(&f->w);
	access_free(f->access);
	server_world_fini(&f->w);
	health_free(f->endpoints.health);
	fake_clock_free(f->clock);
	free(f);
	return 0;
}

static struct client
send_get(struct fixture *f, const char *from, const char *path, const char *token)
{
	char text[200];
	struct client c = client_open_from(from, f->w.port);

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n%s%s%s\r\n", path,
	         token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");
	client_send(&c, text);
	return c;
}

static int
read_status(struct client *c)
{
	int status = client_answer(c, NULL);

	client_close(c);
	return status;
}

/* One request on a connection of its own. The connection may be cut off before its request is read,
 * by the next one of the attackers' address, which cannot be distinguished from it: then the client
 * connects again. */
static int
get(struct fixture *f, const char *from, const char *path, const char *token)
{
	int status;

	do {
		struct client c = send_get(f, from, path, token);

		status = read_status(&c);
	} while (status == 0);
	return status;
}

/* Returns when the attackers' questions take all the room that they may take. */
static void
stop_reviews(struct fixture *f)
{
	int n;

	atomic_store(&f->is_stopped, true);
	n = atomic_load(&f->n_refused);
	while (atomic_load(&f->n_refused) < n + N_ATTACKERS)
		usleep(1000);
}

/* ---- tests ---- */

/* While the reviews are stopped, the request comes in: when the server has answered two probes that
 * were sent after it, it has read it. */
static int
get_while_stopped(struct fixture *f, const char *from, const char *token, int *ret_n_before)
{
	struct client c;

	stop_reviews(f);
	c = send_get(f, from, "/metrics", token);
	for (int i = 0; i < 2; i++)
		assert_int_equal(get(f, "127.0.0.3", "/livez", NULL), 200);
	*ret_n_before = atomic_load(&f->n_reviews);
	atomic_store(&f->is_stopped, false);
	return read_status(&c);
}

static void
a_good_token_from_another_address_is_served(void **state)
{
	struct fixture *f = *state;
	char token[] = "good-0";

	begin_attack(f);
	for (; token[5] < '5'; token[5]++) {
		int n_before;

		assert_int_equal(get_while_stopped(f, "127.0.0.2", token, &n_before), 200);
		assert_in_range(atomic_load(&f->n_before_good) - n_before, 0, MAX_BEFORE);
	}
}

/* Like a scraper behind the same NAT, every 11 s: the answers about it have just expired. If its
 * token were not known, it would be refused like the attackers. */
static void
a_good_token_from_the_same_address_is_served(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(get(f, "127.0.0.1", "/metrics", "good"), 200);
	begin_attack(f);
	for (int i = 0; i < 5; i++) {
		fake_clock_advance(f->clock, TTL_NS + TTL_NS / 10);
		assert_int_equal(get(f, "127.0.0.1", "/metrics", "good"), 200);
		/* the answers about it are renewed meanwhile: two reviews, and the attackers'
		 * between them */
		for (int n = atomic_load(&f->n_reviews); atomic_load(&f->n_reviews) < n + 8;)
			usleep(1000);
	}
}

static void
probes_need_no_review(void **state)
{
	struct fixture *f = *state;

	begin_attack(f);
	stop_reviews(f);
	for (int i = 0; i < 5; i++)
		assert_int_equal(get(f, "127.0.0.1", "/livez", NULL), 200);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_good_token_from_another_address_is_served),
		TEST(a_good_token_from_the_same_address_is_served),
		TEST(probes_need_no_review),
	};

	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
