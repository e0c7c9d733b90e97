/* wire.h: the objects of the Brightbox API, and reading them from JSON.
 *
 * An answer with a member of the wrong type, or with an unknown word where the API has an
 * enumeration, is an error: it is not in the format that we know, and nothing is concluded from it.
 * Members that we do not know are ignored; null is the same as absent.
 *
 * Threads: pure, plain values. All texts are in the arena of the caller.
 */
#ifndef CCMD_BRIGHTBOX_WIRE_H
#define CCMD_BRIGHTBOX_WIRE_H

#include "base/json.h"

/* ---- servers ---- */

struct bb_interface {
	struct str ipv4, ipv6;
};

struct bb_server_cloud_ip {
	struct str id, public_ip, fqdn;
};

struct bb_server {
	struct str id;
	struct str status; /* any text: one server must not make the whole list an error */
	struct str hostname, fqdn;
	struct str zone, type; /* handles; empty: the answer has none */
	struct bb_interface *interfaces;
	size_t n_interfaces;
	struct bb_server_cloud_ip *cloud_ips;
	size_t n_cloud_ips;
};

/* ---- cloud IPs ---- */

struct bb_cloud_ip {
	struct str id, name;
	struct str status; /* "mapped", to a balancer or to anything else; "unmapped" */
	struct str public_ipv4, public_ipv6;
	struct str fqdn, reverse_dns; /* empty: none */
	struct str lb_id, lb_name;    /* of the balancer that it is mapped to; empty: none */
};

/* ---- load balancers ---- */

/* The words of enumerations; NULL at the end. */
extern const char *const bb_policies[], *const bb_protocols[], *const bb_proxy_protocols[],
								       *const bb_check_types[];

struct bb_listener {
	struct str protocol;       /* "tcp", "http", "https" */
	int32_t in, out;           /* out 0: none */
	uint32_t timeout_ms;       /* 0: the API's default */
	struct str proxy_protocol; /* empty: off */
};

struct bb_check {
	struct str type; /* "tcp", "http" */
	int32_t port;
	struct str request;
	uint32_t interval_ms, timeout_ms, threshold_up, threshold_down; /* 0: the API's default */
};

struct bb_domain {
	struct str identifier, status, last_message;
};

struct bb_lb {
	struct str id, name, status, policy;
	bool redirects_to_https;
	struct str *nodes; /* ids of servers, in the API's order */
	size_t n_nodes;
	struct bb_listener *listeners;
	size_t n_listeners;
	struct bb_check check;
	struct bb_domain *domains; /* of its certificate */
	size_t n_domains;
	struct bb_cloud_ip *cloud_ips; /* without lb_id and lb_name */
	size_t n_cloud_ips;
};

/** Is it active, or being created? Only such a balancer counts as that of a Service. */
bool bb_lb_is_alive(const struct bb_lb *);
/** Is it failing, or has it failed? */
bool bb_lb_has_failed(const struct bb_lb *);

/* ---- server groups and the firewall ---- */

struct bb_group {
	struct str id, name;
	struct str *servers; /* ids */
	size_t n_servers;
};

struct bb_rule {
	struct str id, protocol, source, destination_port, description;
};

struct bb_policy {
	struct str id, name;
	struct str group; /* id of the server group that it is applied to; empty: none */
	struct bb_rule *rules;
	size_t n_rules;
};

/* ---- reading ---- */

/** Describes the struct of one kind of object. */
struct bb_object;

extern const struct bb_object bb_server_object, bb_cloud_ip_object, bb_lb_object, bb_group_object,
	bb_policy_object, bb_rule_object;

/** Reads an object into the struct that belongs to the description. ERR_UNAVAILABLE names the
 * member that cannot be understood. */
NODISCARD bool bb_object_read(yyjson_val *, const struct bb_object *, struct arena *, void *ret,
                              struct error *err);
/** Reads an array of them; *ret is an array of these structs. */
NODISCARD bool bb_list_read(yyjson_val *list, const struct bb_object *, struct arena *, void **ret,
                            size_t *ret_n, struct error *err);

#endif
