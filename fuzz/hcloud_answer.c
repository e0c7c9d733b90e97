/* The first byte selects a status; the rest is every answer of Hetzner Cloud and of Robot. A lookup
 * of two machines fails with an error, or gives instances with all their texts. Only a 404 with the
 * API's code `not_found` may make a machine of the cloud absent. */
#include <assert.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/robot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str body;
static int status;

/* Time passes for callers that wait. */
static int64_t now_ns = NS_PER_SEC;

static int64_t
now(struct clock *c)
{
	(void)c;
	return now_ns;
}

static bool
hurry(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mu, int64_t deadline_ns)
{
	(void)c;
	(void)cond;
	(void)mu;
	now_ns = deadline_ns > now_ns ? deadline_ns : now_ns;
	return false;
}

static bool
answer(struct http_client *c, struct call *call, const struct http_request *request,
       struct http_response *response, struct error *err)
{
	(void)c;
	(void)call;
	(void)request;
	(void)err;
	response->status = status;
	response->ratelimit_limit = response->ratelimit_remaining = response->ratelimit_reset = -1;
	response->body = BUF_INIT(LIMIT_HTTP_BODY);
	buf_add_str(&response->body, body);
	return true;
}

static void
ignore(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
       const char *reason, struct str message)
{
	(void)host;
	(void)ref;
	(void)type;
	(void)reason;
	(void)message;
}

static void
check(const struct look *look)
{
	for (size_t i = 0; i < look->n; i++) {
		const struct instance *one = &look->instances[i];

		assert(one->error.ptr);
		for (size_t k = 0; k < one->n_addresses; k++)
			assert(one->addresses[k].address.len > 0);
		assert(one->presence != PRESENCE_PRESENT || one->provider_id.len > 0);
	}
	if (status != 404)
		assert(look->instances[0].presence != PRESENCE_ABSENT);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = { 200, 404, 401, 403, 429, 500, 502 };
	static const struct http_ops ops = { .do_request = answer };
	struct http_client http = { &ops };
	struct clock clock = { now, now, now, hurry };
	struct cloud_host host = { .clock = &clock, .event = ignore };
	struct hz_config config = { .dialect = &hz_official, .families = HZ_DUALSTACK };
	struct hz_api_config api_config = { .http = &http, .base_url = STR("x"), .host = &host };
	struct hz_robot_config robot_config = { .http = &http, .host = &host };
	struct node_ref refs[] = { { .name = STR("n1"), .provider_id = STR("hcloud://1") },
		                   { .name = STR("n2"), .provider_id = STR("hrobot://2") },
		                   { .name = STR("n3"), .provider_id = STR_EMPTY } };
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = &clock, .deadline_mono_ns = CLOCK_FOREVER, .arena = &arena };
	CLEANUP(hz_api_freep) struct hz_api *api = NULL;
	CLEANUP(hz_robot_freep) struct hz_robot *robot = NULL;
	struct hcloud hcloud;
	CLEANUP(look_unrefp) struct look *look = NULL;
	struct error err;

	if (size == 0)
		return 0;
	log_set_fd(-1);
	status = statuses[data[0] % ARRAY_LEN(statuses)];
	body = str_skip(str_n((const char *)data, size), 1);
	config.cache_mode = data[0] & 128 ? HZ_CACHE_ONE : HZ_CACHE_ALL;
	api = hz_api_new(&api_config);
	robot = hz_robot_new(&robot_config);
	hcloud = (struct hcloud){
		.config = &config, .host = &host, .api = api, .robot = robot, .network = 4711
	};
	if (hz_instances_look(&hcloud.cloud, &call, refs, ARRAY_LEN(refs), 0, &look, &err))
		check(look);
	else
		assert(err.code != ERR_NONE && strlen(err.msg) > 0);
	return 0;
}
