/* hetzner_rows.c: the requests that the model answers: methods, paths, parameters, bodies.
 *
 * It has what ccmd sends, and what actors need beside it. The required members of an object come
 * first and are ordered by name, because the API lists missing ones so.
 */
#include "hetzner_internal.h"

#define SORT_BY(field) field, field ":asc", field ":desc"

static const struct kind flag = { .form = KIND_FLAG };
static const struct kind text = { .form = KIND_TEXT };
static const struct kind text_or_null = { .form = KIND_TEXT, .is_nullable = true };
static const struct kind some_text = { .form = KIND_TEXT, .low = 1 };
static const struct kind name = { .form = KIND_TEXT, .low = 1, .high = 128 };
static const struct kind positive = { .form = KIND_NUMBER, .low = 1 };
static const struct kind not_negative = { .form = KIND_NUMBER, .low = 0 };
static const struct kind id = { .form = KIND_NUMBER, .low = 1, .high = HM_ID_MAX };
static const struct kind id_or_null = {
	.form = KIND_NUMBER, .is_nullable = true, .low = 1, .high = HM_ID_MAX
};
static const struct kind port = { .form = KIND_NUMBER, .low = 1, .high = 65535 };
static const struct kind timeout_idle = { .form = KIND_NUMBER, .low = 5, .high = 3600 };
static const struct kind id_or_name = { .form = KIND_ID_OR_NAME };
static const struct kind labels = { .form = KIND_OBJECT, .check = hm_check_labels };

/* ---- parameters ---- */

#define PAGES                                \
	{ "page", &positive, false },        \
	{                                    \
		"per_page", &positive, false \
	}
#define BY_NAME { "name", &text, false }, PAGES
#define BY_LABEL                                                                               \
	{ "label_selector", &text, false },                                                    \
		{ "sort", ONE_OF(SORT_BY("id"), SORT_BY("name"), SORT_BY("created")), false }, \
		BY_NAME

#define SERVER_STATUSES                                                                           \
	ONE_OF("running", "initializing", "starting", "stopping", "off", "deleting", "migrating", \
	       "rebuilding", "unknown")
#define ACTIONS_QUERY                                                                             \
	OBJECT({ "id", &positive, false },                                                        \
	       { "status", ONE_OF("running", "success", "error"), false },                        \
	       { "sort",                                                                          \
	         ONE_OF(SORT_BY("id"), SORT_BY("command"), SORT_BY("status"), SORT_BY("started"), \
	                SORT_BY("finished")),                                                     \
	         false },                                                                         \
	       PAGES)

/* ---- bodies ---- */

#define CHECK_HTTP                                                                          \
	{ "http",                                                                           \
	  OBJECT({ "domain", &text_or_null, false }, { "path", &text, false },              \
		 { "response", &text, false }, { "status_codes", LIST(&some_text), false }, \
		 { "tls", &flag, false }),                                                  \
	  false }
#define HEALTH_CHECK(is_new)                                                               \
	{ "health_check",                                                                  \
	  OBJECT({ "port", &port, is_new }, { "protocol", ONE_OF("tcp", "http"), is_new }, \
		 { "interval", &positive, false }, { "timeout", &positive, false },        \
		 { "retries", &positive, false }, CHECK_HTTP),                             \
	  false }
#define SERVICE_HTTP                                                                             \
	{ "http",                                                                                \
	  OBJECT({ "cookie_name", &some_text, false },                                           \
		 { "cookie_lifetime", &not_negative, false },                                    \
		 { "certificates", LIST(&id), false }, { "redirect_http", &flag, false },        \
		 { "sticky_sessions", &flag, false }, { "timeout_idle", &timeout_idle, false }), \
	  false }
#define SERVICE(is_new)                                                                 \
	OBJECT({ "listen_port", &port, true },                                          \
	       { "protocol", ONE_OF("tcp", "http", "https"), is_new },                  \
	       { "destination_port", &port, false }, { "proxyprotocol", &flag, false }, \
	       SERVICE_HTTP, HEALTH_CHECK(is_new))
#define TARGET_MEMBERS                                                            \
	{ "type", ONE_OF("server", "ip", "label_selector"), true },               \
		{ "server", OBJECT({ "id", &id, true }), false },                 \
		{ "ip", OBJECT({ "ip", &some_text, true }), false },              \
	{                                                                         \
		"label_selector", OBJECT({ "selector", &some_text, true }), false \
	}
#define TARGET OBJECT(TARGET_MEMBERS, { "use_private_ip", &flag, false })
#define ALGORITHM OBJECT({ "type", ONE_OF("round_robin", "least_connections"), true })
#define ZONE ONE_OF("eu-central", "us-east", "us-west", "ap-southeast")
#define ROUTE OBJECT({ "destination", &text, true }, { "gateway", &text, true })
#define NETWORK_ONLY OBJECT({ "network", &id, true })
#define CREATE_BALANCER                                                                           \
	OBJECT({ "load_balancer_type", &id_or_name, true }, { "name", &name, true },              \
	       { "algorithm", ALGORITHM, false }, { "location", &id_or_name, false },             \
	       { "network_zone", ZONE, false }, { "labels", &labels, false },                     \
	       { "network", &id, false }, { "public_interface", &flag, false },                   \
	       { "public_net",                                                                    \
	         OBJECT({ "ipv4", &id_or_null, false }, { "ipv6", &id_or_null, false }), false }, \
	       { "services", LIST(SERVICE(true)), false }, { "targets", LIST(TARGET), false })
#define ORDER_CERTIFICATE                                                                 \
	OBJECT({ "name", &name, true }, { "type", ONE_OF("uploaded", "managed"), false }, \
	       { "certificate", &text, false }, { "private_key", &text, false },          \
	       { "domain_names", LIST(&some_text), false }, { "labels", &labels, false })

/* ---- all of them ---- */

#define BALANCER "/load_balancers/{id}"
#define ACT(verb, body, serve) { "POST", BALANCER "/actions/" verb, 201, NULL, body, serve }

const struct hm_row hm_rows[] = {
	{ "GET", "/locations", 200,
	  OBJECT({ "sort", ONE_OF(SORT_BY("id"), SORT_BY("name")), false }, BY_NAME), NULL,
	  hm_list_locations },
	{ "GET", "/locations/{id}", 200, NULL, NULL, hm_show_location },
	{ "GET", "/load_balancer_types", 200, OBJECT(BY_NAME), NULL, hm_list_types },
	{ "GET", "/load_balancer_types/{id}", 200, NULL, NULL, hm_show_type },
	{ "GET", "/actions", 200, ACTIONS_QUERY, NULL, hm_list_actions },
	{ "GET", "/actions/{id}", 200, NULL, NULL, hm_show_action },
	{ "GET", "/servers", 200, OBJECT({ "status", SERVER_STATUSES, false }, BY_LABEL), NULL,
	  hm_list_servers },
	{ "GET", "/servers/{id}", 200, NULL, NULL, hm_show_server },
	{ "GET", "/networks", 200, OBJECT(BY_LABEL), NULL, hm_list_networks },
	{ "GET", "/networks/{id}", 200, NULL, NULL, hm_show_network },
	{ "DELETE", "/networks/{id}", 204, NULL, NULL, hm_delete_network },
	{ "POST", "/networks/{id}/actions/add_route", 201, NULL, ROUTE, hm_add_route },
	{ "POST", "/networks/{id}/actions/delete_route", 201, NULL, ROUTE, hm_delete_route },
	{ "GET", "/load_balancers", 200, OBJECT(BY_LABEL), NULL, hm_list_balancers },
	{ "POST", "/load_balancers", 201, NULL, CREATE_BALANCER, hm_create_balancer },
	{ "GET", BALANCER, 200, NULL, NULL, hm_show_balancer },
	{ "PUT", BALANCER, 200, NULL,
	  OBJECT({ "name", &name, false }, { "labels", &labels, false }), hm_update_balancer },
	{ "DELETE", BALANCER, 201, NULL, NULL, hm_delete_balancer },
	ACT("add_service", SERVICE(true), hm_add_service),
	ACT("update_service", SERVICE(false), hm_update_service),
	ACT("delete_service", OBJECT({ "listen_port", &port, true }), hm_delete_service),
	ACT("add_target", TARGET, hm_add_target),
	ACT("remove_target", OBJECT(TARGET_MEMBERS), hm_remove_target),
	ACT("change_algorithm", ALGORITHM, hm_change_algorithm),
	ACT("change_type", OBJECT({ "load_balancer_type", &id_or_name, true }), hm_change_type),
	ACT("change_dns_ptr",
	    OBJECT({ "dns_ptr", &text_or_null, true }, { "ip", &some_text, true }),
	    hm_change_dns_ptr),
	ACT("change_protection", OBJECT({ "delete", &flag, false }), hm_change_protection),
	ACT("attach_to_network",
	    OBJECT({ "network", &id, true }, { "ip", &text, false }, { "ip_range", &text, false }),
	    hm_attach),
	ACT("detach_from_network", NETWORK_ONLY, hm_detach),
	ACT("enable_public_interface", NULL, hm_enable_public_interface),
	ACT("disable_public_interface", NULL, hm_disable_public_interface),
	{ "GET", "/primary_ips", 200,
	  OBJECT({ "label_selector", &text, false }, { "ip", &text, false },
	         { "sort", ONE_OF(SORT_BY("id"), SORT_BY("created")), false }, BY_NAME),
	  NULL, hm_list_primary_ips },
	{ "GET", "/primary_ips/{id}", 200, NULL, NULL, hm_show_primary_ip },
	{ "GET", "/certificates", 200,
	  OBJECT({ "type", ONE_OF("uploaded", "managed"), false }, BY_LABEL), NULL,
	  hm_list_certificates },
	{ "GET", "/certificates/{id}", 200, NULL, NULL, hm_show_certificate },
	{ "POST", "/certificates", 201, NULL, ORDER_CERTIFICATE, hm_order_certificate },
};
const size_t hm_n_rows = sizeof(hm_rows) / sizeof(hm_rows[0]);
