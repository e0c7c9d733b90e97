#include "http/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/thread.h"

struct identity identity;

int
world_setup(void **state)
{
	static const char *const names[] = { "http_proxy", "HTTP_PROXY", "https_proxy",
		                             "HTTPS_PROXY" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	identity_init(&identity);
	return 0;
}

int
world_teardown(void **state)
{
	(void)state;
	identity_fini(&identity);
	return 0;
}

int64_t
now_ns(void)
{
	return clock_mono(&clock_real);
}

void
start_server(struct world *w, loopback_fn handle, void *arg, const struct identity *id)
{
	struct buf url = BUF_FIXED(w->url);

	w->server = loopback_new(handle, arg, id);
	buf_reset(&url);
	buf_addf(&url, "%s://127.0.0.1:%d", id ? "https" : "http", loopback_port(w->server));
	w->config.base_url = buf_str(&url);
}

void
start_client(struct world *w)
{
	if (!http_client_new(&w->config, &w->client, &w->err))
		fail_msg("%s", w->err.msg);
}

void
world_init(struct world *w)
{
	*w = (struct world){
		.config = {
			.name = "test",
			.user_agent = STR("ccmd/test"),
			.clock = &clock_real,
			.tls.ca_pem = buf_str(&identity.cert_pem),
		},
		.cancel = cancel_new(),
		.response = HTTP_RESPONSE_INIT,
	};
	w->call = (struct call){
		.clock = &clock_real,
		.cancel = w->cancel,
		.deadline_mono_ns = CLOCK_FOREVER,
	};
}

void
world_fini(struct world *w)
{
	http_client_free(w->client);
	if (w->server)
		loopback_free(w->server);
	cancel_free(w->cancel);
	http_response_fini(&w->response);
}

void
start(struct world *w, loopback_fn handle, void *arg)
{
	start_server(w, handle, arg, NULL);
	start_client(w);
}

bool
send_request(struct world *w, enum http_method method, const char *body, bool can_replay)
{
	const struct http_request request = {
		.method = method,
		.target = STR("/path?q=1"),
		.content_type = body ? "application/json" : NULL,
		.body = str_c(body),
		.can_replay = can_replay,
		.timeout_ms = PATIENCE_MS,
	};

	return http_do(w->client, &w->call, &request, &w->response, &w->err);
}

void
must_get(struct world *w)
{
	if (!send_request(w, HTTP_GET, NULL, false))
		fail_msg("%s", w->err.msg);
}

void
must_fail(struct world *w, enum http_method method, enum err_code code, const char *text)
{
	assert_false(send_request(w, method, method == HTTP_GET ? NULL : "{}", false));
	if (w->err.code != code || !strstr(w->err.msg, text))
		fail_msg("%s: %s", err_code_name(w->err.code), w->err.msg);
}

/* False when it takes too long. */
static bool
becomes(struct loopback *server, int (*count)(struct loopback *), int n)
{
	int64_t deadline_ns = now_ns() + PATIENCE_MS * MS;

	while (count(server) != n) {
		if (now_ns() > deadline_ns)
			return false;
		usleep(1000);
	}
	return true;
}

void
wait_for(struct loopback *server, int (*count)(struct loopback *), int n)
{
	if (!becomes(server, count, n))
		fail_msg("%d instead of %d", count(server), n);
}

bool
echo(struct visit *v)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100000);

	buf_add_str(&b, v->head);
	buf_add_str(&b, v->body);
	return visit_reply(v, "200 OK", "", b.ptr);
}

bool
silent(struct visit *v)
{
	visit_wait_gone(v);
	return false;
}

bool
endless_body(struct visit *v)
{
	visit_writes(v, "HTTP/1.1 200 OK\r\n\r\n");
	while (visit_writes(v, "0123456789012345678901234567890123456789\n"))
		;
	return false;
}

bool
wants_token_2(struct visit *v)
{
	if (visit_has(v, "Authorization: Bearer token-2"))
		return visit_reply(v, "200 OK", "", "welcome\n");
	return visit_reply(v, "401 Unauthorized", "", "{\"message\":\"who are you\"}");
}

void *
fire_later(void *arg)
{
	struct later *later = arg;

	(void)becomes(later->w->server, loopback_requests, later->n_requests);
	usleep(10000); /* for its client to wait */
	later->fired_ns = now_ns();
	cancel_fire(later->w->cancel);
	return NULL;
}

static bool
badge_authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
                uint64_t *ret_generation, struct error *err)
{
	struct badge *badge = CONTAINER_OF(auth, struct badge, auth);

	(void)call;
	if (!badge->text)
		return err_set(err, ERR_UNAUTHORIZED, "no token");
	if (*badge->text)
		buf_addf(ret, "%s%d", badge->text, (int)badge->generation);
	*ret_generation = badge->generation;
	return true;
}

static bool
badge_rejected(struct http_auth *auth, uint64_t generation)
{
	struct badge *badge = CONTAINER_OF(auth, struct badge, auth);

	badge->n_rejected++;
	assert_int_equal(generation, badge->generation);
	if (badge->generation == badge->newest)
		return false;
	badge->generation++;
	return true;
}

struct badge
badge_new(const char *text, uint64_t newest)
{
	return (struct badge){
		.auth = { badge_authorize, badge_rejected },
		.generation = 1,
		.newest = newest,
		.text = text,
	};
}
