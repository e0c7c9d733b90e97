/* settings.c: see settings.h. */
#include "providers/hcloud/settings.h"

#include "providers/hcloud/client.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/lb_desired.h"

enum {
	MAX_SETTINGS = 4,
};

struct list {
	struct hcloud *hz;
	struct call *call;
	struct cloud_setting *settings;
	size_t n;
};

/* start() has found the network, unless it failed. */
static bool
hz_settings_add_network(struct list *l, struct error *err)
{
	struct str value = l->hz->config->network;
	struct hz_names found;

	if (value.len == 0 || l->hz->network > 0)
		return true;
	if (!hz_list_names(l->hz->api, l->call, l->call->arena, "/networks", &found, err))
		return false;
	l->settings[l->n++] = (struct cloud_setting){
		.variable = "HCLOUD_NETWORK",
		.value = value,
		.what = "network",
		/* the tutorial's controller accepts no name */
		.names = l->hz->config->dialect->is_tutorial ? found.ids : found.names,
		.ids = found.ids,
	};
	return true;
}

static bool
hz_settings_add_places(struct list *l, struct error *err)
{
	const struct hz_lb_config *lb = &l->hz->config->lb;
	struct hz_names found;

	if (!hz_list_names(l->hz->api, l->call, l->call->arena, "/locations", &found, err))
		return false;
	l->settings[l->n++] = (struct cloud_setting){
		.variable = "HCLOUD_LOAD_BALANCERS_LOCATION",
		.value = lb->location,
		.what = "location",
		.annotation = HZ_LB_PREFIX "location",
		.names = found.names,
		.ids = found.ids,
	};
	l->settings[l->n++] = (struct cloud_setting){
		.variable = "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
		.value = lb->network_zone,
		.what = "network zone",
		.annotation = HZ_LB_PREFIX "network-zone",
		.names = found.zones,
	};
	return true;
}

/* The type in an annotation is checked when the Service is compared with its load balancer. */
static bool
hz_settings_add_type(struct list *l, struct error *err)
{
	struct str value = l->hz->config->lb.type;
	struct hz_names found;

	if (value.len == 0)
		return true;
	if (!hz_list_names(l->hz->api, l->call, l->call->arena, "/load_balancer_types", &found,
	                   err))
		return false;
	l->settings[l->n++] = (struct cloud_setting){
		.variable = "HCLOUD_LOAD_BALANCERS_TYPE",
		.value = value,
		.what = "load balancer type",
		.names = found.names,
	};
	return true;
}

bool
hz_settings_list(struct cloud *cloud, struct call *call, struct cloud_setting **ret, size_t *ret_n,
                 struct error *err)
{
	struct hcloud *hz = hcloud_of(cloud);
	const struct hz_config *config = hz->config;
	struct list l = {
		.hz = hz,
		.call = call,
		.settings = arena_calloc(call->arena, MAX_SETTINGS, sizeof(*l.settings)),
	};

	if (!hz_settings_add_network(&l, err))
		return false;
	/* The tutorial's controller has neither variables nor annotations for load balancers. */
	if (!config->lb.is_disabled && !config->dialect->is_tutorial &&
	    (!hz_settings_add_places(&l, err) || !hz_settings_add_type(&l, err)))
		return false;
	*ret = l.settings;
	*ret_n = l.n;
	return true;
}
