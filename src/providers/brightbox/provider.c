/* provider.c: Brightbox, a drop-in for the official controller (docs/brightbox.md).
 *
 * Nodes are in servers.c, load balancers in balancers.c. This file has the start, in the official
 * controller's order, and the table.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "providers/brightbox/brightbox.h"
#include "providers/brightbox/servers.h"
#include "providers/brightbox/token.h"

/* ---- life cycle ---- */

static void
bb_close(struct cloud *cloud)
{
	struct brightbox *bb;

	if (!cloud)
		return;
	bb = brightbox_of(cloud);
	bb_unsettled_table_free(bb->unsettled);
	refusals_free(bb->refusals);
	bb_views_free(bb->views);
	bb_client_free(bb->client);
	bb_token_free(bb->token);
	bb_config_fini(&bb->config);
	free(bb);
}
DEFINE_CLEANUP(struct cloud, bb_close)

extern const struct cloud_ops brightbox_cloud;

static bool
bb_load(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	CLEANUP(bb_closep) struct cloud *cloud = NULL;
	struct brightbox *bb = xcalloc(1, sizeof(*bb));

	cloud = &bb->cloud;
	cloud->ops = &brightbox_cloud;
	if (config->path)
		log_warn("supplied config is not read by this version. Using environment",
		         LOG_CSTR("cloud-config", config->path));
	if (!bb_config_load(&bb->config, &cloud->needs, err))
		return false;
	*ret = TAKE(cloud);
	return true;
}

static bool
bb_start(struct cloud *cloud, const struct cloud_host *host, struct error *err)
{
	struct brightbox *bb = brightbox_of(cloud);
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = host->clock,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct str account;

	bb->host = host;
	if (!bb_token_new(host, &bb->config, &bb->token, err))
		return false;
	if (!bb_client_new(host, &bb->config, bb_token_auth(bb->token), &bb->client, err))
		return false;

	/* Finds out at the start whether a user's password is wrong. The credentials of an API
	 * client with a configured account are first used when a node or a Service needs them, as
	 * in the official controller. */
	if (bb->config.has_user && !bb_token_fetch(bb->token, &call, err))
		return false;
	if (bb->config.account.len == 0) {
		if (!bb_first_account(bb->client, &call, &account, err))
			return false;
		log_debug("default account", LOG_STR("account", account));
	}

	bb->views = bb_views_new(bb->client, host->clock);
	bb->unsettled = bb_unsettled_table_new();
	bb->refusals = refusals_new(host->clock);
	cloud->balancers = &bb_balancer_ops;
	return true;
}

const struct cloud_ops brightbox_cloud = {
	.name = "brightbox",
	.provider_id_prefix = BB_PROVIDER_ID_PREFIX,
	.variables = { "BRIGHTBOX_" },
	.login_target = BB_TOKEN_TARGET,
	.load = bb_load,
	.start = bb_start,
	.close = bb_close,
	.list_machines = bb_servers_list,
	.get_machine = bb_servers_get,
	.names_are_ids = true,
	.count_anchors = bb_balancers_count_serving,
};
