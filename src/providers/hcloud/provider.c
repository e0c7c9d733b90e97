/* provider.c: Hetzner Cloud and Robot, a drop-in for the official controller (docs/spec/hcloud.md).
 *
 * This file has the start: configuration, clients, the network, the probes, in the official
 * controller's order and with its messages. Nodes are in instances.c, load balancers in
 * balancers.c, routes in routes.c, each with the table of its operations. The tables of the cloud
 * are last: one for each dialect.
 *
 * load() reads the environment and sends nothing. hz_provider_start() sends the first requests and
 * fails if one of them does, so that a wrong token or network is found at the start.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/version.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/balancers.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/describe.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_desired.h"
#include "providers/hcloud/lb_targets.h"
#include "providers/hcloud/routes.h"

enum {
	AGENT_MAX = 200,
	MAX_SETTINGS = 7,
};

/* ---- life cycle ---- */

static void
hz_provider_close(struct cloud *cloud)
{
	struct hcloud *hz;

	if (!cloud)
		return;
	hz = hcloud_of(cloud);
	hz_routes_free(hz->routes);
	hz_balancers_free(hz->balancers);
	hz_lb_cache_free(hz->cache);
	hz_servers_known_free(hz->servers_known);
	hz_robot_free(hz->robot);
	hz_actions_free(hz->actions);
	hz_api_free(hz->api);
	http_client_free(hz->http);
	http_client_free(hz->robot_http);
	login_free(hz->login);
	login_free(hz->robot_login);
	hz_config_free(hz->config);
	free(hz);
}

DEFINE_CLEANUP(struct cloud, hz_provider_close)

/* ---- start: clients and the network ---- */

static bool
hz_provider_open_http(struct hcloud *hz, const char *name, struct str url, struct login *login,
                      struct http_client **ret, struct error *err)
{
	char memory[AGENT_MAX] = "";
	struct buf agent = BUF_FIXED(memory);
	struct str version = str_skip(version_get(), 1);
	struct http_config config = {
		.name = name,
		.base_url = url,
		.proxy_url = login ? STR_EMPTY : STR("-"), /* metadata is on this machine */
		.auth = login ? login_auth(login) : NULL,
		.clock = hz->host->clock,
		.fence = hz->host->fence,
	};

	buf_addf(&agent, "%s/%" STR_FMT " ccmd/%" STR_FMT, hz->config->dialect->user_agent,
	         STR_ARG(version), STR_ARG(version));
	config.user_agent = buf_str(&agent);
	return http_client_new(&config, ret, err);
}

static bool
hz_provider_open_api(struct hcloud *hz, struct error *err)
{
	const struct hz_config *config = hz->config;

	hz->login = login_new(&(struct login_config){ .secret = &config->token });
	if (!hz_provider_open_http(hz, "hcloud", config->endpoint, hz->login, &hz->http, err))
		return err_wrap(err, "HCLOUD_ENDPOINT");
	hz->api = hz_api_new(&(struct hz_api_config){
		.http = hz->http,
		.base_url = config->endpoint,
		.host = hz->host,
		.reserve_percent = config->reserve_percent,
		.is_dumping = config->is_debug,
	});
	hz->actions = hz_actions_new(hz->api, hz->host->clock);
	return true;
}

static bool
hz_provider_open_robot(struct hcloud *hz, struct error *err)
{
	const struct hz_config *config = hz->config;

	if (!config->has_robot || !hz_config_has_robot_login(config))
		return true;
	hz->robot_login = login_new(&(struct login_config){ .secret = &config->robot_password,
	                                                    .user = &config->robot_user });
	if (!hz_provider_open_http(hz, "hrobot", config->robot_endpoint, hz->robot_login,
	                           &hz->robot_http, err))
		return err_wrap(err, "ROBOT_ENDPOINT");
	hz->robot = hz_robot_new(&(struct hz_robot_config){
		.http = hz->robot_http,
		.login = hz->robot_login,
		.host = hz->host,
		.cache_ns = config->robot_cache_ns,
		.pause_ns = config->robot_pause_ns,
	});
	return true;
}

/* A number is an id, or, if no network has that id, a name. */
static bool
hz_provider_resolve_network(struct hcloud *hz, struct call *call, struct error *err)
{
	struct str wanted = hz->config->network;
	struct hz_network network;
	int64_t id;

	if (str_to_i64(wanted, 1, INT64_MAX, &id)) {
		hz->is_network_ours = hz_find_network(hz->api, call, call->arena, HZ_BY_ID(id),
		                                      true, &network, err);
		if (!hz->is_network_ours && err->code != ERR_NOT_FOUND)
			return false;
	}
	if (!hz->is_network_ours &&
	    !hz_find_network(hz->api, call, call->arena, HZ_BY_NAME(wanted), true, &network, err)) {
		if (err->code != ERR_NOT_FOUND)
			return false;
		return err_set(err, ERR_NOT_FOUND, "Network %" STR_FMT " not found",
		               STR_ARG(wanted));
	}
	hz->network = network.id;
	return true;
}

/* Asks the metadata service whether this machine is attached to the network. */
static bool
hz_provider_check_attached(struct hcloud *hz, struct call *call, struct error *err)
{
	CLEANUP(http_client_freep) struct http_client *http = NULL;
	bool is_attached;

	hz_count_operations("serverIsAttachedToNetwork", 1);
	if (!hz_provider_open_http(hz, "metadata", hz->config->metadata_endpoint, NULL, &http,
	                           err) ||
	    !hz_metadata_is_attached(http, call, hz->network, &is_attached, err))
		return err_wrap(err, "checking if server is in Network not possible: "
		                     "serverIsAttachedToNetwork");
	hz->is_network_ours |= is_attached;
	if (!is_attached)
		return err_set(err, ERR_INVALID, "This node is not attached to Network %" STR_FMT,
		               STR_ARG(hz->config->network));
	return true;
}

static bool
hz_provider_open_network(struct hcloud *hz, struct call *call, struct error *err)
{
	if (hz->config->network.len == 0)
		return true;
	if (!hz_provider_resolve_network(hz, call, err))
		return false;
	if (hz->config->skips_attached_check || hz_provider_check_attached(hz, call, err))
		return true;
	if (!hz->cloud_config.is_read_only)
		return false;
	log_warn(
		"this machine may be outside of the network; continuing, because nothing is changed",
		LOG_ERR(err));
	hz->cloud.machine_err = *err;
	return true;
}

static bool
hz_provider_connect(struct hcloud *hz, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = hz->host->clock,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };

	if (!hz_provider_open_api(hz, err) || !hz_provider_open_robot(hz, err) ||
	    !hz_provider_open_network(hz, &call, err))
		return false;
	return hz_probe(hz->api, &call, err);
}

/* ---- load and start ---- */

static bool
hz_provider_open_routes(struct hcloud *hz, struct error *err)
{
	const struct cloud_config *config = &hz->cloud_config;
	const struct ip_net *cidr = NULL;

	if (!hz->config->has_routes)
		return true;
	if (config->cluster_cidr_problem)
		return err_set(err, ERR_INVALID, "%s", config->cluster_cidr_problem);
	/* Networks of the cloud have IPv4 only. */
	for (size_t i = 0; !cidr && i < config->n_cluster_cidrs; i++) {
		if (ip_family(&config->cluster_cidrs[i].ip) == IP_V4)
			cidr = &config->cluster_cidrs[i];
	}
	if (!cidr) {
		log_info("routes are not created, because --cluster-cidr has no IPv4 network");
		return true;
	}
	hz->routes = hz_routes_new(&(struct hz_routes_config){
		.config = hz->config,
		.host = hz->host,
		.api = hz->api,
		.actions = hz->actions,
		.network = hz->network,
		.cluster_cidr = *cidr,
	});
	return true;
}

/* Files with secrets are read again while the program runs, so the sandbox has to permit it. */
static void
hz_provider_add_read(struct cloud_needs *needs, const struct login_secret *source)
{
	if (source->path)
		needs->reads[needs->n_reads++] = str_c(source->path);
}

static bool
hz_provider_load_dialect(const struct cloud_ops *ops, const struct hz_dialect *dialect,
                         const struct cloud_config *cloud_config, struct cloud **ret,
                         struct error *err)
{
	CLEANUP(hz_provider_closep) struct cloud *cloud = NULL;
	struct hcloud *hz = xcalloc(1, sizeof(*hz));

	cloud = &hz->cloud;
	cloud->ops = ops;
	hz->cloud_config = *cloud_config;
	hz_count_operations("hcloud/newCloud", 1);
	if (!hz_config_load(dialect, cloud_config->reserve_percent, &hz->config, err))
		return false;
	hz_provider_add_read(&cloud->needs, &hz->config->token);
	hz_provider_add_read(&cloud->needs, &hz->config->robot_user);
	hz_provider_add_read(&cloud->needs, &hz->config->robot_password);
	cloud->metrics = (struct cloud_listener){ hz->config->has_metrics, hz->config->metrics_host,
		                                  hz->config->metrics_port };
	*ret = TAKE(cloud);
	return true;
}

static bool
hz_provider_start(struct cloud *cloud, const struct cloud_host *host, struct error *err)
{
	struct hcloud *hz = hcloud_of(cloud);

	hz->host = host;
	if (!hz_provider_connect(hz, err))
		return err_wrap(err, "hcloud/newCloud");
	if (!hz->config->lb.is_disabled) {
		hz->cache = hz_lb_cache_new(hz->api, hz->host->clock);
		hz->servers_known = hz_servers_known_new();
	}
	if (hz->cache)
		hz->balancers = hz_balancers_new(&(struct hz_balancers_config){
			.config = hz->config,
			.host = hz->host,
			.api = hz->api,
			.actions = hz->actions,
			.cache = hz->cache,
			.servers_known = hz->servers_known,
			.robot = hz->robot,
			.network = hz->network,
		});
	if (!hz_provider_open_routes(hz, err))
		return false;
	cloud->balancers = hz->balancers ? &hz_balancer_ops : NULL;
	cloud->routes = hz->routes ? &hz_route_ops : NULL;
	log_info("Hetzner Cloud k8s cloud controller started", LOG_STR("version", version_get()));
	return true;
}

static bool
hz_provider_get_budget(struct cloud *cloud, struct cloud_budget *ret)
{
	return hz_api_get_budget(hcloud_of(cloud)->api, ret);
}

/* ---- for `ccmd doctor` ---- */

/* The settings that name a subnet of the network, or an address in one. */
static bool
hz_provider_add_subnets(struct hcloud *hz, struct call *call, struct cloud_setting settings[],
                        size_t *n, struct error *err)
{
	struct hz_network network;
	const char **subnets;

	if (!hz_find_network(hz->api, call, call->arena, HZ_BY_ID(hz->network), false, &network,
	                     err))
		return false;
	subnets = arena_calloc(call->arena, network.n_subnets + 1, sizeof(subnets[0]));
	for (size_t i = 0; i < network.n_subnets; i++)
		subnets[i] = arena_strz(call->arena, network.subnets[i]);
	settings[(*n)++] = (struct cloud_setting){
		.variable = "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE",
		.value = hz->config->lb.private_subnet,
		.what = "subnet",
		.annotation = HZ_LB_PREFIX "private-subnet-ip-range",
		.is_range = true,
		.names = subnets,
	};
	settings[(*n)++] = (struct cloud_setting){
		.value = STR_EMPTY,
		.what = "subnet for",
		.annotation = HZ_LB_PREFIX "private-ipv4",
		.is_range = true,
		.names = subnets,
	};
	return true;
}

/* The variables that name something of the cloud. */
static bool
hz_provider_list_settings(struct cloud *cloud, struct call *call, struct cloud_setting **ret,
                          size_t *ret_n, struct error *err)
{
	struct hcloud *hz = hcloud_of(cloud);
	const struct hz_lb_config *lb = &hz->config->lb;
	bool is_tutorial = hz->config->dialect->is_tutorial;
	struct cloud_setting *settings = arena_calloc(call->arena, MAX_SETTINGS, sizeof(*settings));
	struct hz_names found;
	size_t n = 0;

	/* start() has found the network, unless it failed. */
	if (hz->config->network.len > 0 && hz->network <= 0) {
		if (!hz_list_names(hz->api, call, call->arena, "/networks", &found, err))
			return false;
		settings[n++] = (struct cloud_setting){
			.variable = "HCLOUD_NETWORK",
			.value = hz->config->network,
			.what = "network",
			.needed_by = HZ_LB_PREFIX "use-private-ip",
			/* the tutorial's controller accepts no name */
			.names = is_tutorial ? found.ids : found.names,
			.ids = found.ids,
		};
	}
	/* The tutorial's controller has neither variables nor annotations for load balancers. */
	if (!lb->is_disabled && !is_tutorial) {
		if (!hz_list_names(hz->api, call, call->arena, "/locations", &found, err))
			return false;
		settings[n++] = (struct cloud_setting){
			.variable = "HCLOUD_LOAD_BALANCERS_LOCATION",
			.value = lb->location,
			.what = "location",
			.annotation = HZ_LB_PREFIX "location",
			.names = found.names,
			.ids = found.ids,
		};
		settings[n++] = (struct cloud_setting){
			.variable = "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
			.value = lb->network_zone,
			.what = "network zone",
			.annotation = HZ_LB_PREFIX "network-zone",
			.names = found.zones,
		};
		if (hz->network > 0 && !hz_provider_add_subnets(hz, call, settings, &n, err))
			return false;
		if (!hz_list_names(hz->api, call, call->arena, "/load_balancer_types", &found, err))
			return false;
		settings[n++] = (struct cloud_setting){
			.variable = "HCLOUD_LOAD_BALANCERS_TYPE",
			.value = lb->type,
			.what = "load balancer type",
			.annotation = HZ_LB_PREFIX "type",
			.names = found.names,
		};
		/* The list has the first certificates only, and in a longer one a name may be
		 * missing. */
		if (!hz_list_names(hz->api, call, call->arena, "/certificates", &found, err))
			return false;
		settings[n] = (struct cloud_setting){
			.value = STR_EMPTY,
			.what = "certificate",
			.annotation = HZ_LB_PREFIX "http-certificates",
			.is_list = true,
			.names = found.names,
			.ids = found.ids,
		};
		n += !found.ids[HZ_PAGE - 1];
	}
	*ret = settings;
	*ret_n = n;
	return true;
}

/* ---- the tables ---- */

extern const struct cloud_ops hcloud_cloud, hcloud_from_scratch_cloud, ccm_from_scratch_cloud;

static bool
hz_provider_load_official(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	return hz_provider_load_dialect(&hcloud_cloud, &hz_official, config, ret, err);
}

static bool
hz_provider_load_tutorial(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	return hz_provider_load_dialect(&hcloud_from_scratch_cloud, &hz_tutorial, config, ret, err);
}

static bool
hz_provider_load_tutorial_text(const struct cloud_config *config, struct cloud **ret,
                               struct error *err)
{
	return hz_provider_load_dialect(&ccm_from_scratch_cloud, &hz_tutorial_text, config, ret,
	                                err);
}

static const char *const node_annotations[] = { HZ_ANNOTATION_IPV6, NULL };

/* No provider_id_prefix: there are several, for servers of the cloud and of Robot, the texts about
 * other ones are the official controller's, and a node of another cloud that could be a target of a
 * load balancer gets an Event (lb_targets.c). */
#define IN_ALL_DIALECTS                                                                          \
	.event_component = HZ_COMPONENT, .start = hz_provider_start, .close = hz_provider_close, \
	.get_budget = hz_provider_get_budget, .list_settings = hz_provider_list_settings,        \
	.look = hz_instances_look, .list_machines = hz_instances_list,                           \
	.can_find = hz_instances_can_find, .count_anchors = hz_instances_count_anchors

const struct cloud_ops hcloud_cloud = {
	.name = "hcloud",
	.machine_hint = "dedicated servers are found only with ROBOT_ENABLED=true",
	.address_hint =
		"its addresses are those of the families in HCLOUD_INSTANCES_ADDRESS_FAMILY, and "
		"one in the network that HCLOUD_NETWORK names, if the server is attached to it; "
		"a dedicated server keeps its private address only with "
		"ROBOT_FORWARD_INTERNAL_IPS=true",
	.node_annotations = node_annotations,
	.variables = { "HCLOUD_", "ROBOT_" },
	.reads_variable = hz_config_reads_variable,
	.load = hz_provider_load_official,
	IN_ALL_DIALECTS,
};

const struct cloud_ops hcloud_from_scratch_cloud = {
	.name = "hcloud-from-scratch",
	.variables = { "HCLOUD_" },
	.load = hz_provider_load_tutorial,
	IN_ALL_DIALECTS,
};

const struct cloud_ops ccm_from_scratch_cloud = {
	.name = "ccm-from-scratch",
	.variables = { "HCLOUD_" },
	.load = hz_provider_load_tutorial_text,
	IN_ALL_DIALECTS,
};
