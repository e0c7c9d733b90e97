#include "providers/hcloud/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"

extern char **environ;

/* ---- the clock ---- */

static struct lab *
lab_of_clock(struct clock *c)
{
	return CONTAINER_OF(c, struct lab, clock);
}

static int64_t
now(struct clock *c)
{
	return lab_of_clock(c)->now_ns;
}

static bool
hurry(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	(void)cond;
	(void)mutex;
	assert_true(deadline_ns < CLOCK_FOREVER);
	if (deadline_ns > lab_of_clock(c)->now_ns)
		lab_of_clock(c)->now_ns = deadline_ns;
	return false;
}

/* ---- the cloud ---- */

/* A star at the end stands for whatever follows. */
static bool
is_for(const struct lab_answer *answer, const struct http_request *request)
{
	struct str pattern = str_c(answer->target), target = request->target, method;

	if (str_cut(pattern, ' ', &method, &pattern) &&
	    !str_eq_c(method, http_method_name(request->method)))
		return false;
	if (str_ends(pattern, STR("*")))
		return str_starts(target, str_head(pattern, pattern.len - 1));
	return str_eq(target, pattern);
}

static struct lab_answer *
answer_for(struct lab *lab, const struct http_request *request)
{
	struct lab_answer *last = NULL;

	for (size_t i = 0; i < lab->n_answers; i++) {
		if (!is_for(&lab->answers[i], request))
			continue;
		last = &lab->answers[i];
		if (!last->is_used)
			break;
	}
	if (!last) {
		fail_msg("unexpected request: %s %" STR_FMT, http_method_name(request->method),
		         STR_ARG(request->target));
		abort();
	}
	last->is_used = true;
	return last;
}

static void
fill(struct http_response *response, const struct lab_answer *answer)
{
	bool is_limited = answer->limit > 0;

	response->status = answer->status;
	response->ratelimit_limit = is_limited ? answer->limit : -1;
	response->ratelimit_remaining = is_limited ? answer->remaining : -1;
	response->ratelimit_reset = is_limited ? answer->reset_s : -1;
	buf_init(&response->body, LIMIT_HTTP_BODY);
	buf_add_c(&response->body, answer->body ? answer->body : "");
}

static void
note(struct lab *lab, const struct http_request *request)
{
	lab->n_asked++;
	if (request->method != HTTP_GET)
		buf_addf(&lab->asked, "%s ", http_method_name(request->method));
	buf_add_str(&lab->asked, request->target);
	if (request->body.len > 0)
		buf_addf(&lab->asked, " %" STR_FMT, STR_ARG(request->body));
	buf_add_char(&lab->asked, '\n');
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	struct lab *lab = CONTAINER_OF(client, struct lab, http);
	const struct lab_answer *answer = answer_for(lab, request);

	(void)call;
	note(lab, request);
	if (answer->status == 0)
		return err_set(err, answer->code, "scripted failure");
	fill(response, answer);
	if (lab->correlation_id)
		snprintf(response->correlation_id, HTTP_CORRELATION_MAX, "%s", lab->correlation_id);
	return true;
}

void
lab_add(struct lab *lab, struct lab_answer answer)
{
	if (lab->n_answers == LAB_ANSWERS)
		abort();
	lab->answers[lab->n_answers++] = answer;
}

void
lab_answer(struct lab *lab, const char *target, int status, const char *body)
{
	lab_add(lab, (struct lab_answer){ .target = target, .status = status, .body = body });
}

void
lab_check_asked(struct lab *lab, const char *targets)
{
	assert_string_equal(lab->asked.ptr, targets);
	buf_reset(&lab->asked);
}

/* ---- the host ---- */

static void
remember_event(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
               const char *reason, struct str message)
{
	struct lab *lab = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct lab, host);
	struct str name = ref ? ref->name : STR("-");

	buf_addf(&lab->events, "%" STR_FMT " %s%s: %" STR_FMT "\n", STR_ARG(name),
	         type == HOST_EVENT_WARNING ? "" : "Normal ", reason, STR_ARG(message));
}

static void
remember_requeue(const struct cloud_host *host, enum host_requeue what, struct str key UNUSED)
{
	struct lab *lab = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct lab, host);

	lab->n_recovered += what == HOST_REQUEUE_RECOVERED;
}

static void
give_nodes(const struct cloud_host *host, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	struct lab *lab = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct lab, host);

	(void)arena;
	*ret = lab->nodes;
	*ret_n = lab->n_nodes;
}

static bool
is_service_address(const struct cloud_host *host, struct str ip)
{
	struct lab *lab = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct lab, host);

	return lab->service_address && str_eq_c(ip, lab->service_address);
}

/* ---- life cycle ---- */

int
lab_setup(void **state)
{
	static const struct http_ops ops = { .do_request = do_request };
	struct lab *lab = xcalloc(1, sizeof(*lab));

	environ = NULL;
	setenv("HCLOUD_TOKEN", "jr5g7ZHpPptyhJzZyHw2Pqu4g9gTqDvEceYpngPf79jNZXCeTYQ4uArypFM3nh75",
	       1);
	log_set_fd(-1);
	lab->http.ops = &ops;
	lab->clock = (struct clock){ now, now, now, hurry };
	lab->now_ns = 1800000000 * NS_PER_SEC;
	lab->host = (struct cloud_host){ .clock = &lab->clock,
		                         .event = remember_event,
		                         .requeue = remember_requeue,
		                         .nodes = give_nodes,
		                         .is_service_address = is_service_address };
	lab->asked = BUF_INIT(100000);
	lab->events = BUF_INIT(100000);
	*state = lab;
	return 0;
}

static void
lab_close(struct lab *lab)
{
	hz_instances_free(TAKE(lab->instances));
	hz_api_free(TAKE(lab->api));
	hz_config_free(TAKE(lab->config));
}

int
lab_teardown(void **state)
{
	struct lab *lab = *state;

	lab_close(lab);
	hz_robot_free(lab->robot);
	buf_fini(&lab->asked);
	buf_fini(&lab->events);
	arena_fini(&lab->arena);
	free(lab);
	clearenv();
	return 0;
}

void
lab_use_robot(struct lab *lab)
{
	lab->robot = hz_robot_new(&(struct hz_robot_config){
		.http = &lab->http,
		.host = &lab->host,
		.cache_ns = 300 * NS_PER_SEC,
	});
}

void
lab_open(struct lab *lab, const struct hz_dialect *dialect, int64_t network)
{
	struct error err;

	lab_close(lab);
	if (!hz_config_load(dialect, /*reserve_percent=*/5, &lab->config, &err))
		fail_msg("%s", err.msg);
	lab->api = hz_api_new(&(struct hz_api_config){ .http = &lab->http,
	                                               .base_url = STR("https://lab/v1"),
	                                               .host = &lab->host,
	                                               .reserve_percent = 5 });
	lab->instances = hz_instances_new(&(struct hz_instances_config){
		.config = lab->config,
		.host = &lab->host,
		.api = lab->api,
		.robot = lab->robot,
		.network = network,
		.is_network_ours = network != 0,
	});
}

int
lab_setup_open(void **state)
{
	int result = lab_setup(state);

	lab_open(*state, &hz_official, 0);
	return result;
}

struct call
lab_call(struct lab *lab, struct arena *arena)
{
	return (struct call){ .clock = &lab->clock,
		              .deadline_mono_ns = CLOCK_FOREVER,
		              .arena = arena };
}

struct look *
lab_look(struct lab *lab, const struct node_ref refs[], size_t n, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = lab_call(lab, &arena);
	struct look *look = NULL;

	if (!hz_instances_look(lab->instances, &call, refs, n, &look, err))
		return NULL;
	return look;
}
