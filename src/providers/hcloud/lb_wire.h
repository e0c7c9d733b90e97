/* lb_wire.h: load balancers, their types and certificates, and how the API writes them in JSON.
 *
 * The same structs describe what the cloud has and what a Service asks for (lb_desired.h). What the
 * cloud has is complete. What a Service asks for leaves some members unset, and an unset member is
 * never changed.
 *
 * Of an answer only the types are relied on: an object without an id is an error; any other member
 * may be missing, and is empty or unset then. A target of an unknown type is treated like a label
 * selector, which is never changed; a service without a port is left out. Request
 * bodies have their members in the order of the API's documents, and unset ones are left out.
 *
 * Threads: pure, plain values. All texts are in the arena of the caller.
 */
#ifndef CCMD_HCLOUD_LB_WIRE_H
#define CCMD_HCLOUD_LB_WIRE_H

#include "base/json.h"
#include "base/label.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/config.h"

struct hz_lb_desired;
struct node_ref;

/* ---- the model ---- */

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
	enum hz_opt_bool redirects, is_sticky;
	bool has_certificates; /* the list is set; it may be empty */
	int64_t *certificates; /* ids */
	size_t n_certificates;
};

struct hz_lb_check {
	struct str protocol; /* "tcp" or "http" */
	int64_t port;
	struct hz_opt_i64 interval_s, timeout_s, retries;
	struct hz_opt_str domain, path; /* of http only, as all that follow */
	bool has_status_codes;
	struct str *status_codes;
	size_t n_status_codes;
	enum hz_opt_bool is_tls;
};

struct hz_lb_service {
	int64_t listen_port, destination_port;
	struct str protocol; /* "tcp", "http", "https" */
	enum hz_opt_bool proxy_protocol;
	bool has_http; /* the member "http" is present */
	struct hz_lb_http http;
	struct hz_lb_check check;
};

enum hz_target_type {
	HZ_TARGET_SERVER,
	HZ_TARGET_IP,
	HZ_TARGET_SELECTOR, /* not ours: never changed, but it counts as a target */
};

enum hz_health {
	HZ_HEALTH_UNKNOWN, /* or not in the answer */
	HZ_HEALTHY,        /* at all ports */
	HZ_UNHEALTHY,      /* at one port at least */
};

struct hz_lb_target {
	enum hz_target_type type;
	int64_t server;
	struct str ip;
	bool uses_private_ip;        /* servers */
	const struct node_ref *node; /* of what a Service asks for; NULL: kept without a node */
	/* of what the cloud has */
	enum hz_health health; /* of a selector: unknown; its servers are counted in hz_lb */
	int64_t failing_port;  /* the first one, if it is unhealthy */
	struct str detail;     /* "layer4_timeout"; empty: not in the answer */
	int64_t http_status;   /* 0: none */
};

/** In a dry run, in place of the id of what does not exist yet, and of a private address that the
 * cloud would assign. */
#define HZ_DRY_ID 0
#define HZ_NEW_PRIVATE_IP STR("(new private address)")

struct hz_public_address {  /* of the public interface */
	int64_t id;         /* of the address, which may be a Primary IP; 0: not in the answer */
	struct str ip;      /* empty: none */
	struct str dns_ptr; /* empty: none */
	bool is_blocked;
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
	struct str location;      /* its name */
	struct str monthly_price; /* at its location, without VAT: "5.3900"; empty: not known */
	struct str algorithm;
	bool is_public, is_protected;
	struct hz_public_address ipv4, ipv6;
	struct hz_private_nets nets;
	struct hz_lb_service *services;
	size_t n_services;
	struct hz_lb_target *targets;
	size_t n_targets;
	/* the targets, with the servers of a selector in its place, by enum hz_health */
	size_t n_of_health[HZ_UNHEALTHY + 1];
};

/** A text that is equal for equal targets, "server 7 private" or "ip 10.0.0.1", whatever the
 * spelling of the address. Not private: the server, by whichever of its addresses. */
struct str hz_target_key(const struct hz_lb_target *, bool is_private, struct arena *);

/** The value of a label of the balancer; empty: it does not have the label. */
struct str hz_lb_label_of(const struct hz_lb *, const char *key);

/* ---- reading ---- */

struct hz_certificate {
	int64_t id;
	struct str name, uid;       /* uid: of HZ_LABEL_UID; empty: none */
	bool is_managed, is_failed; /* failed: the order was refused */
};

/** As hz_read_fn, of the struct of the same name; also the two below. */
NODISCARD bool hz_lb_read(yyjson_val *, struct arena *, void *ret, struct error *err);
/** In a dry run: the balancer that POST /load_balancers with this body would make. Its id is 0, and
 * its addresses are texts such as "(new IPv4 address)". */
void hz_lb_read_request(yyjson_val *body, const struct hz_lb_type *type, struct arena *,
                        struct hz_lb *ret);
NODISCARD bool hz_lb_type_read(yyjson_val *, struct arena *, void *ret, struct error *err);
NODISCARD bool hz_certificate_read(yyjson_val *, struct arena *, void *ret, struct error *err);

/* ---- writing: each function appends one JSON value ---- */

/** POST /load_balancers, with all that it accepts: label, services, the network (if neither address
 * nor subnet is asked for) and the first targets, as many as the type permits. Targets are left out
 * if they need a network that is not in the body, or a public interface that is disabled. buf_ok()
 * of *b is false if the body is too long.
 *
 * @param without_parts  leaves out services, targets and network, for when the API refused one of
 * them */
void hz_body_create(struct buf *b, const struct hz_lb_desired *, const struct hz_lb_type *type,
                    const struct hz_lb_target targets[], size_t n_targets, bool without_parts);
/** POST add_service and update_service, which have the same members. */
void hz_body_service(struct buf *b, const struct hz_lb_service *);
/** POST add_target and remove_target, of which the latter names the target and nothing else. */
void hz_body_target(struct buf *b, const struct hz_lb_target *, bool is_removed);
/** PUT /load_balancers/{id}. name empty: it is left out. is_relabelled: with the labels that the
 * balancer has, and ours; else without labels. */
void hz_body_put(struct buf *b, const struct hz_lb *, struct str name, bool is_relabelled,
                 const struct hz_lb_desired *);
/** POST attach_to_network. */
void hz_body_attach(struct buf *b, const struct hz_lb_desired *);
/** POST /certificates of a managed one. */
void hz_body_certificate(struct buf *b, const struct hz_lb_desired *);

#endif
