#include "providers/hcloud/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"

extern char **environ;

/* ---- the script ---- */

void
lab_add(struct lab *lab, struct http_script_answer answer)
{
	http_script_add(&lab->script, answer);
}

void
lab_answer(struct lab *lab, const char *target, int status, const char *body)
{
	http_script_answer(&lab->script, target, status, body);
}

void
lab_check_asked(struct lab *lab, const char *targets)
{
	http_script_check_asked(&lab->script, targets);
}

/* ---- life cycle ---- */

int
lab_setup(void **state)
{
	struct lab *lab = xcalloc(1, sizeof(*lab));

	environ = NULL;
	setenv("HCLOUD_TOKEN", "jr5g7ZHpPptyhJzZyHw2Pqu4g9gTqDvEceYpngPf79jNZXCeTYQ4uArypFM3nh75",
	       1);
	log_set_fd(-1);
	http_script_init(&lab->script);
	fake_host_init(&lab->fake);
	*state = lab;
	return 0;
}

static void
lab_close(struct lab *lab)
{
	hz_servers_known_free(TAKE(lab->servers_known));
	hz_api_free(TAKE(lab->api));
	hz_config_free(TAKE(lab->config));
}

int
lab_teardown(void **state)
{
	struct lab *lab = *state;

	lab_close(lab);
	hz_robot_free(lab->robot);
	http_script_fini(&lab->script);
	fake_host_fini(&lab->fake);
	arena_fini(&lab->arena);
	free(lab);
	clearenv();
	return 0;
}

void
lab_use_robot(struct lab *lab)
{
	lab->robot = hz_robot_new(&(struct hz_robot_config){
		.http = &lab->script.client,
		.host = &lab->fake.host,
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
	lab->api = hz_api_new(&(struct hz_api_config){ .http = &lab->script.client,
	                                               .base_url = STR("https://lab/v1"),
	                                               .host = &lab->fake.host,
	                                               .reserve_percent = 5 });
	lab->servers_known = hz_servers_known_new();
	lab->hcloud = (struct hcloud){
		.config = lab->config,
		.host = &lab->fake.host,
		.api = lab->api,
		.robot = lab->robot,
		.servers_known = lab->servers_known,
		.network = network,
		.is_network_ours = network != 0,
	};
}

int
lab_setup_open(void **state)
{
	int result = lab_setup(state);

	lab_open(*state, &hz_official, 0);
	return result;
}

void
lab_record_service_event(const struct cloud_host *host, const struct lb_spec *spec,
                         enum host_event type, const char *reason, struct str message)
{
	struct lab *lab = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct lab, fake.host);

	(void)type;
	buf_addf(&lab->fake.events, "%" STR_FMT " %s: %" STR_FMT "\n", STR_ARG(spec->service),
	         reason, STR_ARG(message));
}

struct call
lab_call(struct lab *lab, struct arena *arena)
{
	return fake_host_call(&lab->fake, arena);
}

struct look *
lab_look(struct lab *lab, const struct node_ref refs[], size_t n, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = lab_call(lab, &arena);
	struct look *look = NULL;

	if (!hz_instances_look(&lab->hcloud.cloud, &call, refs, n, /*not_before_boot_ns=*/0, &look,
	                       err))
		return NULL;
	return look;
}
