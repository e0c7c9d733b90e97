/* lb_model.h: a load balancer, as the cloud has it and as a Service wants it (hcloud.md 3).
 *
 * One vocabulary for both: what the cloud says is complete, what a Service wants leaves open what nobody asked for, and an open
 * member is never changed. All texts are views into the arena of whoever filled it.
 *
 * Threads: plain values.
 */
#ifndef CCMD_HCLOUD_LB_MODEL_H
#define CCMD_HCLOUD_LB_MODEL_H

#include "base/label.h"
#include "providers/hcloud/config.h"
#include "providers/hcloud/private_nets.h"

/** The label that makes a balancer ours; its value is the Service's UID. */
#define HZ_LABEL_UID "hcloud-ccm/service-uid"
/** The cluster (--cluster-name) that created or adopted a balancer. */
#define HZ_LABEL_CLUSTER "ccmd.io/cluster"
/** Set by an operator: the cluster with that name may adopt the balancer. */
#define HZ_LABEL_ADOPT "ccmd.io/adopt"

struct hz_opt_str {
	bool is_set;
	struct str value;
};

struct hz_opt_i64 {
	bool is_set;
	int64_t value;
};

struct hz_lb_http {
	struct hz_opt_str cookie_name;
	struct hz_opt_i64 cookie_lifetime_s, timeout_idle_s;
	enum hz_tri redirects, is_sticky;
	bool has_certificates; /* the list counts, though it may be empty */
	int64_t *certificates; /* ids */
	size_t n_certificates;
};

struct hz_lb_check {
	struct str protocol; /* "tcp" or "http" */
	int64_t port;
	struct hz_opt_i64 interval_s, timeout_s, retries;
	struct hz_opt_str domain, path; /* of http only, as what follows */
	bool has_status_codes;
	struct str *status_codes;
	size_t n_status_codes;
	enum hz_tri is_tls;
};

struct hz_lb_service {
	int64_t listen_port, destination_port;
	struct str protocol; /* "tcp", "http", "https" */
	enum hz_tri proxy_protocol;
	bool has_http; /* "http" is there at all */
	struct hz_lb_http http;
	struct hz_lb_check check;
};

enum hz_target_type {
	HZ_TARGET_SERVER,
	HZ_TARGET_IP,
	HZ_TARGET_SELECTOR, /* somebody else's: left alone, and counted */
};

struct hz_lb_target {
	enum hz_target_type type;
	int64_t server;
	struct str ip;
	bool uses_private_ip; /* servers */
};

struct hz_lb_end {          /* of the public interface */
	struct str ip;      /* empty: none */
	struct str dns_ptr; /* empty: none */
};

struct hz_lb_type {
	int64_t id;
	struct str name;
	int64_t max_targets, max_services; /* 0: the API gives no limit */
	bool is_deprecated;
	int64_t unavailable_wall_s; /* of a deprecated one; Unix time */
};

/** A balancer as the cloud has it. */
struct hz_lb {
	int64_t id;
	struct str name;
	struct label *labels; /* all of them: a PUT replaces them as a whole */
	size_t n_labels;
	struct str uid; /* the value of HZ_LABEL_UID; empty: none */
	struct hz_lb_type type;
	struct str algorithm;
	bool is_public, is_protected;
	struct hz_lb_end ipv4, ipv6;
	struct hz_private_nets nets;
	struct hz_lb_service *services;
	size_t n_services;
	struct hz_lb_target *targets;
	size_t n_targets;
};

#endif
