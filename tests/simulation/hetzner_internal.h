/* tests/simulation/hetzner_internal.h: what the files of the model of Hetzner's API share.
 *
 * A request becomes a struct hm_call: hm_call_read() checks it against a row of the table in
 * hetzner_rows.c, and the row's function serves it. A function that serves or checks returns false
 * when it refuses; the error is then in the answer.
 *
 * A change is stored as a struct hm_effect, because it is made when the action ends. It searches
 * its resource again then: an actor may have deleted the resource meanwhile.
 *
 * Memory that may become part of a resource is from the arena of the model. Memory that is needed
 * only while a request is served is from the arena of the call.
 */
#ifndef CCMD_TESTS_SIMULATION_HETZNER_INTERNAL_H
#define CCMD_TESTS_SIMULATION_HETZNER_INTERNAL_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/ip.h"
#include "base/json.h"
#include "hetzner.h"
#include "model.h"

#define NS_PER_SECOND INT64_C(1000000000)
#define HM_ID_MAX ((INT64_C(1) << 53) - 1)

enum { HM_N_LOCATIONS = 6, HM_N_BALANCER_TYPES = 3, HM_MANAGED_AN_HOUR = 20 };

struct hm_project;
struct hm_call;

/* ---- effects and actions ---- */

/** The cause of a change. If only the command is set, it was a function for actors. */
struct hm_who {
	struct str token, user_agent, command;
};

struct hm_effect {
	/* NULL: nothing happens */
	void (*apply)(struct hetzner *, struct hm_project *, const struct hm_effect *,
	              const struct hm_who *who);
	int64_t id;    /* of the resource */
	int64_t other; /* of the network, or a port */
	struct hetzner_service service;
	struct hetzner_target target;
	struct hetzner_member member;
	struct hetzner_route route;
	const struct hetzner_balancer_type *type;
	struct str text, value;
	bool flag;
};

struct hm_running {
	struct hetzner_action *action;
	struct hm_effect effect;
};

struct hm_doom {
	const char *command;
	enum hetzner_fate fate;
	unsigned times;
};

/* ---- the model ---- */

struct hm_project {
	struct hetzner_project base;             /* first: the public struct is this one */
	const struct hetzner_settings *settings; /* of the model */
	size_t cap_of[HETZNER_N_KINDS], cap_actions;
	struct hm_running *running;
	size_t n_running, cap_running;
	struct hm_doom *dooms;
	size_t n_dooms, cap_dooms;
	struct str *robot_ips;
	size_t n_robot_ips, cap_robot_ips;
	int64_t managed_ns[HM_MANAGED_AN_HOUR]; /* when certificates were ordered; a ring */
	size_t n_managed;
	unsigned n_public; /* pairs of public addresses that were given out */
	/* The bucket of requests, in requests * nanoseconds of an hour: each nanosecond adds
	 * rate_limit. */
	int64_t credit, filled_ns;
};

struct hm_token {
	struct str text;
	struct hm_project *project;
	bool may_write, is_revoked;
};

struct hetzner {
	struct server base; /* first */
	struct arena arena;
	int64_t now_ns;
	uint64_t random;
	int64_t next_id;
	struct hetzner_settings settings;
	hetzner_observe *observe;
	void *observe_arg;
	struct hm_token *tokens;
	size_t n_tokens, cap_tokens;
	struct hm_project **projects;
	size_t n_projects, cap_projects;
	struct hetzner_balancer_type types[HM_N_BALANCER_TYPES];
};

static inline struct hm_project *
hm_project(struct hetzner_project *p)
{
	return (struct hm_project *)p;
}

uint64_t hm_random(struct hetzner *);
/** Reports the change to the observer. */
void hm_report(struct hetzner *, struct hm_project *, const struct hm_who *,
               const struct hetzner_resource *before, const struct hetzner_resource *after);
void hm_add_resource(struct hm_project *, struct hetzner_resource *);
void hm_remove_resource(struct hm_project *, const struct hetzner_resource *);
/** Fills the struct of a new resource. */
void hm_init_resource(struct hetzner *, struct hetzner_resource *, enum hetzner_kind,
                      struct str name, const struct label *labels, size_t n_labels);
/** The labels are copied. */
void hm_set_labels(struct hetzner *, struct hetzner_resource *, const struct label *labels,
                   size_t n_labels);
/** The next public addresses: "198.18.0.1" and "2001:db8:0:1::", with this end. */
void hm_public_pair(struct hetzner *, struct hm_project *, const char *ipv6_end,
                    struct str *ret_ipv4, struct str *ret_ipv6);

static inline struct hetzner_server *
hm_find_server(const struct hm_project *p, int64_t id)
{
	return (struct hetzner_server *)hetzner_find(&p->base, HETZNER_SERVER, id);
}

static inline struct hetzner_network *
hm_find_network(const struct hm_project *p, int64_t id)
{
	return (struct hetzner_network *)hetzner_find(&p->base, HETZNER_NETWORK, id);
}

static inline struct hetzner_balancer *
hm_find_balancer(const struct hm_project *p, int64_t id)
{
	return (struct hetzner_balancer *)hetzner_find(&p->base, HETZNER_BALANCER, id);
}

/* ---- requests: hetzner_call.c ---- */

struct hm_call {
	struct hetzner *h;
	struct hm_project *p;
	struct hm_who who; /* the command is the method */
	const struct hm_row *row;
	struct arena arena;
	struct str path; /* with the base, without the query */
	struct target_pair *query;
	size_t n_query;
	struct str id; /* of the path; empty: it has none */
	yyjson_doc *doc;
	yyjson_val *body;
	struct server_response *answer;
};

/** One thing that can be requested. */
struct hm_row {
	const char *method, *path; /* "/servers/{id}" */
	int status;                /* of a good answer */
	const struct kind *query;  /* an object whose members are the parameters; NULL: none */
	const struct kind *body;   /* NULL: none */
	bool (*serve)(struct hm_call *);
};

extern const struct hm_row hm_rows[];
extern const size_t hm_n_rows;

/** Finds the row of the request, and checks query and body. */
bool hm_call_read(struct hm_call *, const struct server_request *);
void hm_call_fini(struct hm_call *);
/** The value of a parameter; the last one counts. Empty: it is not there. */
struct str hm_parameter(const struct hm_call *, const char *name);

/** Writes the error into the answer. Returns false. */
bool hm_refuse(struct hm_call *, const char *code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/** invalid_input because of what one field asks for. */
bool hm_refuse_field(struct hm_call *, const char *field, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool hm_refuse_used_name(struct hm_call *, struct str name);
/** 501: the API offers it, but the model does not. */
bool hm_refuse_unsupported(struct hm_call *, const char *what);

/** A refusal that is made where no call is at hand. */
struct hm_refusal {
	const char *code, *field; /* field not NULL: invalid_input because of this field */
	struct str message;
};

bool hm_refuse_because(struct hm_call *, const struct hm_refusal *);

/* ---- label selectors: hetzner_selector.c ---- */

struct hm_selector;
/** NULL: it cannot be read; *ret_problem says why. */
const struct hm_selector *hm_selector_parse(struct arena *, struct str text,
                                            struct str *ret_problem);
bool hm_selector_matches(const struct hm_selector *, const struct hetzner_resource *);
bool hm_is_label_key(struct str);
bool hm_is_label_value(struct str);
/** kind.check of labels. */
void hm_check_labels(struct arena *, yyjson_val *labels, struct str where, struct kind_problems *);

/* ---- lists: hetzner_lists.c ---- */

/** How lists read and show one kind of thing. */
struct hm_list {
	const char *name; /* "servers" */
	bool is_resource; /* the things are struct hetzner_resource */
	int64_t (*number)(const void *thing, struct str field);  /* id, created, … */
	struct str (*text)(const void *thing, struct str field); /* name, status, … */
	void (*add)(struct hm_call *, struct buf *, const void *thing);
};

/** Answers with the page that the request asks for. */
bool hm_answer_list(struct hm_call *, const struct hm_list *, const void *const things[], size_t n);
bool hm_answer_resources(struct hm_call *, enum hetzner_kind);

/* ---- JSON: hetzner_json.c ---- */

/** "server", "load_balancer" …, and in the plural. */
extern const char *const hm_kind_names[HETZNER_N_KINDS];
extern const char *const hm_kind_plurals[HETZNER_N_KINDS];

void hm_add_stamp(struct buf *, const char *name, int64_t wall_ns); /* 0: null */
void hm_add_text_or_null(struct buf *, const char *name, struct str text);
void hm_add_resource_json(const struct hm_project *, struct buf *, const char *name,
                          const struct hetzner_resource *);
void hm_add_location(struct buf *, const char *name, const struct hetzner_location *);
void hm_add_balancer_type(struct buf *, const char *name, const struct hetzner_balancer_type *);
void hm_add_server_type(struct buf *, const char *name, const struct hetzner_server_type *);
void hm_add_image(struct buf *, const char *name);
void hm_add_services(struct buf *, const struct hetzner_balancer *);
void hm_add_targets(const struct hm_project *, struct buf *, const struct hetzner_balancer *);
/** Members of a resource. */
void hm_add_primary_ip(struct buf *, const struct hetzner_primary_ip *);

/* ---- the catalog: hetzner_catalog.c ---- */

extern const struct hetzner_location hm_locations[HM_N_LOCATIONS];
extern const struct hetzner_balancer_type hm_balancer_types[HM_N_BALANCER_TYPES];
const struct hetzner_server_type *hm_server_type(const char *name);
/** By ID, by ID in a text, or by name; NULL: there is none. */
const struct hetzner_location *hm_find_location(yyjson_val *wanted);
const struct hetzner_balancer_type *hm_find_type(const struct hetzner *, yyjson_val *wanted);
bool hm_list_locations(struct hm_call *);
bool hm_show_location(struct hm_call *);
bool hm_list_types(struct hm_call *);
bool hm_show_type(struct hm_call *);

/* ---- actions: hetzner_actions.c ---- */

/** Starts an action on one or two resources, and does what it does if it takes no time. */
const struct hetzner_action *hm_act(struct hm_call *, const char *command,
                                    const struct hetzner_resource *one,
                                    const struct hetzner_resource *two,
                                    const struct hm_effect *effect);
/** The same, and answers with {"action": …}. Returns true. */
bool hm_answer_act(struct hm_call *, const char *command, const struct hetzner_resource *one,
                   const struct hetzner_resource *two, const struct hm_effect *effect);
void hm_add_action(struct hm_call *, struct buf *, const char *name, const struct hetzner_action *);
/** Ends the actions whose time has come. */
void hm_settle(struct hetzner *, struct hm_project *);
int64_t hm_next_end(const struct hm_project *);
bool hm_is_busy(const struct hm_project *, const struct hetzner_resource *);
/** Refuses while an action runs on the resource. */
bool hm_check_free(struct hm_call *, const struct hetzner_resource *);
/** Will the next action of this command fail? */
bool hm_is_doomed_to_fail(const struct hm_project *, const char *command);
bool hm_list_actions(struct hm_call *);
bool hm_show_action(struct hm_call *);

/* ---- resources ---- */

/** The resource that the path names, or a refusal. */
bool hm_get(struct hm_call *, enum hetzner_kind, struct hetzner_resource **ret);
/** Answers with {"server": …}. Returns true. */
bool hm_answer_resource(struct hm_call *, const struct hetzner_resource *);
/** Refuses a name that another resource of that kind has. */
bool hm_check_unique(struct hm_call *, enum hetzner_kind, struct str name,
                     const struct hetzner_resource *but);
/** The labels of a body, copied to the memory of the model. */
struct label *hm_read_labels(struct hm_call *, size_t *ret_n);

bool hm_list_servers(struct hm_call *);
bool hm_show_server(struct hm_call *);

bool hm_list_primary_ips(struct hm_call *);
bool hm_show_primary_ip(struct hm_call *);
/** Gives a new balancer the Primary IPs that the body names, or refuses one of them. */
bool hm_take_primary_ips(struct hm_call *, struct hetzner_balancer *);
/** The address that a balancer gets of a Primary IP. False: no Primary IP has that ID. */
bool hm_primary_address(struct hetzner *, const struct hm_project *, int64_t id, struct str *ret);
bool hm_is_blocked(const struct hm_project *, int64_t id);
/** The balancer is gone. */
void hm_free_primary_ips(struct hetzner *, struct hm_project *, const struct hm_who *,
                         int64_t balancer);

bool hm_list_certificates(struct hm_call *);
bool hm_show_certificate(struct hm_call *);
bool hm_order_certificate(struct hm_call *);

bool hm_list_networks(struct hm_call *);
bool hm_show_network(struct hm_call *);
bool hm_delete_network(struct hm_call *);
bool hm_add_route(struct hm_call *);
bool hm_delete_route(struct hm_call *);

/* ---- addresses: hetzner_addresses.c ---- */

enum { HM_IPV4_BITS = 96 }; /* struct ip_net has that many bits before those of IPv4 */

/** Is it "a.b.c.d/n" without host bits? */
bool hm_parse_net(struct str text, struct ip_net *ret);
bool hm_parse_ipv4(struct str text, struct ip *ret);
uint32_t hm_ipv4_number(const struct ip *);
struct str hm_ipv4_text(struct arena *, uint32_t address);
/** Of a text that was checked before. */
struct ip_net hm_net_of(struct str text);
struct str hm_net_text(struct arena *, const struct ip_net *net);
/** The gateway of the network: its first address. */
uint32_t hm_gateway(const struct hetzner_network *);
const struct hetzner_member *hm_member_of(const struct hetzner_member[], size_t n, int64_t network);

/** Which address of a network is wanted; ptr or zone NULL: any. */
struct hm_wish {
	struct str ip, ip_range;
	const char *zone; /* of the subnet */
};

/** Chooses an address that is free, or says why not. */
bool hm_choose_ip(struct hetzner *, const struct hm_project *, const struct hetzner_network *,
                  const struct hm_wish *, struct hetzner_member *ret, struct hm_refusal *ret_why);

/* hetzner_services.c */
/** What is stored for this body beside the services of lb, or a refusal. */
bool hm_new_service(struct hm_call *, const struct hetzner_balancer *lb, yyjson_val *body,
                    struct hetzner_service *ret);
/** The service with what the body says. */
bool hm_merge_service(struct hm_call *, const struct hetzner_balancer *lb, yyjson_val *body,
                      struct hetzner_service *service);
/** The index of the service; n_services: there is none. */
size_t hm_find_service(const struct hetzner_balancer *, int64_t listen_port);

/* hetzner_targets.c */
bool hm_new_target(struct hm_call *, const struct hetzner_balancer *lb, yyjson_val *body,
                   struct hetzner_target *ret);
/** The target that the body names, or a refusal because the body names none. */
bool hm_read_target(struct hm_call *, yyjson_val *body, struct hetzner_target *ret);
bool hm_target_eq(const struct hetzner_target *, const struct hetzner_target *);
/** Removes the targets for which is_gone(target, arg) holds. */
void hm_drop_targets(struct hetzner *, struct hm_project *, const struct hm_who *,
                     struct hetzner_balancer *,
                     bool (*is_gone)(const struct hetzner_target *, const void *arg),
                     const void *arg);

/* hetzner_balancers.c and hetzner_balancer_actions.c */
bool hm_list_balancers(struct hm_call *);
bool hm_show_balancer(struct hm_call *);
bool hm_create_balancer(struct hm_call *);
bool hm_update_balancer(struct hm_call *);
bool hm_delete_balancer(struct hm_call *);
bool hm_network_of_body(struct hm_call *, struct hetzner_network **ret);
bool hm_add_service(struct hm_call *);
bool hm_update_service(struct hm_call *);
bool hm_delete_service(struct hm_call *);
bool hm_add_target(struct hm_call *);
bool hm_remove_target(struct hm_call *);
bool hm_change_algorithm(struct hm_call *);
bool hm_change_type(struct hm_call *);
bool hm_change_dns_ptr(struct hm_call *);
bool hm_change_protection(struct hm_call *);
bool hm_attach(struct hm_call *);
bool hm_detach(struct hm_call *);
bool hm_enable_public_interface(struct hm_call *);
bool hm_disable_public_interface(struct hm_call *);

#endif
