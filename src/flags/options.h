/* flags/options.h: the command line, parsed and checked.
 *
 * Texts and lists point into the options' own memory, which options_fini() frees, or into argv. A
 * number that is 0 where the default is "auto" leaves the choice to the code that uses it. Where
 * another module takes a structure (the server, access, the guard), the flags are parsed directly
 * into that structure.
 */
#ifndef CCMD_FLAGS_OPTIONS_H
#define CCMD_FLAGS_OPTIONS_H

#include "base/arena.h"
#include "base/ip.h"
#include "base/log.h"
#include "controllers/lifecycle/guard.h"
#include "serve/access.h"
#include "serve/server.h"

struct route_options {
	bool are_configured; /* --configure-cloud-routes */
	bool allocate_node_cidrs;
	int64_t period_ns;
	const char *cluster_cidr; /* as typed */
	struct ip_net cidrs[2];   /* one, or one of each family */
	size_t n_cidrs;
	char cidr_problem[ERR_MSG_SIZE]; /* why cluster_cidr cannot be used; empty: it can */
};

struct election_options {
	bool is_enabled;
	int64_t lease_duration_ns, renew_deadline_ns, retry_period_ns;
	const char *resource_lock, *resource_name, *resource_namespace;
};

struct serving_options {
	/* The HTTPS server, as far as flags define it; port 0: none. Likewise the plain listener
	 * for metrics. */
	struct server_config secure, metrics;
	bool share_address;
	/* as typed */
	struct str_list cipher_names, curve_names, sni_texts;
	const char *min_version_name, *metrics_bind_address;
};

/** Which callers may use the server, and which API servers decide about them. */
struct access_options {
	const char *authentication_kubeconfig, *authorization_kubeconfig; /* empty: the cluster's */
	struct access_config config; /* as far as flags define it */
};

/** Values that only /configz shows. */
struct shown_options {
	const char *external_cloud_volume_plugin, *cidr_allocator_type, *content_type;
	bool allow_untagged_cloud, contention_profiling;
	int64_t min_resync_ns, node_sync_ns;
	unsigned n_status_workers;
	struct str_list webhooks;
};

enum sandbox_mode {
	SANDBOX_AUTO,
	SANDBOX_OFF,
};

struct flag_state;

struct options {
	/* cloud */
	const char *cloud_provider;
	const char *cloud_config;
	const char *cluster_name;
	int64_t drift_period_ns;
	unsigned cloud_reserve_percent;
	bool is_dry_run;
	/* API server */
	const char *kubeconfig;
	bool kubeconfig_is_list; /* as in struct kube_config_source; no flag sets it */
	const char *master;
	double kube_api_qps;   /* 0: automatic */
	double kube_api_burst; /* 0: automatic */
	bool use_service_account_credentials;
	/* controllers */
	struct str_list controllers; /* canonical names; see controllers_enabled() */
	int64_t controller_start_interval_ns;
	int64_t n_node_workers;         /* 0: automatic */
	int64_t n_service_workers;      /* 0: automatic */
	int64_t n_lifecycle_workers;    /* only shown */
	int64_t node_monitor_period_ns; /* 0: automatic */
	int64_t node_refresh_period_ns;
	struct guard_config guard;
	struct route_options routes;
	/* program */
	struct election_options election;
	struct serving_options serving;
	struct access_options access;
	struct str_list gate_texts; /* "Name=true", as typed */
	int64_t grace_period_ns;
	int64_t verbosity;
	enum log_format log_format;
	enum sandbox_mode sandbox;
	bool profiling; /* /debug/flags/v is served */
	struct str
		version; /* the version that is reported: "v0.1.0", or the value of --version=v… */
	struct shown_options shown;
	/* for flags/ itself */
	struct flag_state *states; /* one for each flag */
	struct arena arena;
};

#endif
