/* flags/options.h: what the command line said, typed and checked.
 *
 * Text and lists live in the options themselves or in argv: options_fini() ends the former. Numbers
 * that are 0 where the default is "auto" leave the choice to whoever uses them.
 */
#ifndef CCMD_FLAGS_OPTIONS_H
#define CCMD_FLAGS_OPTIONS_H

#include "base/arena.h"
#include "base/ip.h"
#include "base/log.h"
#include "controllers/lifecycle/guard.h"
#include "serve/server.h"

struct text_list {
	struct str *items;
	size_t n;
};

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
	int port; /* 0: no server */
	const char *address;
	bool share_port, share_address;
	const char *cert_folder, *cert_file, *key_file; /* empty: not given */
	/* as struct server_tls wants them */
	struct server_certificate *sni;
	size_t n_sni;
	struct str ciphers, ciphersuites, groups;
	int min_version; /* TLS1_2_VERSION or TLS1_3_VERSION */
	/* the plain listener for metrics; port 0: none */
	struct str metrics_address;
	int metrics_port;
	/* as typed */
	struct text_list cipher_names, curve_names, sni_texts;
	const char *min_version_name, *metrics_bind_address;
};

struct authentication_options {
	const char *kubeconfig; /* empty: the cluster's */
	bool skip_lookup, tolerate_lookup_failure;
	int64_t token_ttl_ns;
	const char *client_ca_file;
};

struct authorization_options {
	const char *kubeconfig; /* empty: the cluster's */
	struct text_list allow_paths;
	int64_t authorized_ttl_ns, unauthorized_ttl_ns;
};

/** --feature-gates, those that mean something here. */
struct feature_gates {
	bool watch_routes; /* CloudControllerManagerWatchBasedRoutesReconciliation */
};

/** What /configz shows, and nobody else reads. */
struct shown_options {
	const char *external_cloud_volume_plugin, *cidr_allocator_type, *content_type;
	bool allow_untagged_cloud, contention_profiling;
	int64_t min_resync_ns, node_sync_ns;
	unsigned n_status_workers;
	struct text_list webhooks;
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
	unsigned cloud_reserve_percent;
	/* API server */
	const char *kubeconfig;
	const char *master;
	double kube_api_qps;   /* 0: automatic */
	double kube_api_burst; /* 0: automatic */
	bool use_service_account_credentials;
	/* controllers */
	struct text_list controllers; /* canonical names; ask controllers_enabled() */
	int64_t controller_start_interval_ns;
	int64_t n_node_workers;         /* 0: automatic */
	int64_t n_service_workers;      /* 0: automatic */
	int64_t node_monitor_period_ns; /* 0: automatic */
	int64_t node_refresh_period_ns;
	struct guard_config guard;
	struct route_options routes;
	/* program */
	struct election_options election;
	struct serving_options serving;
	struct authentication_options authentication;
	struct authorization_options authorization;
	struct feature_gates gates;
	struct text_list gate_texts; /* "Name=true", as typed */
	int64_t grace_period_ns;
	int64_t verbosity;
	enum log_format log_format;
	enum sandbox_mode sandbox;
	bool profiling;     /* serve /debug/flags/v */
	struct str version; /* as reported: "v0.1.0", or what --version=v… said */
	struct shown_options shown;
	/* of flags/ itself */
	struct flag_state *states; /* one for each flag */
	struct arena arena;
};

#endif
