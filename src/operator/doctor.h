/* operator/doctor.h: the checks of `ccmd doctor`.
 *
 * doctor.c has the table of all checks; each file check_GROUP.c has the functions of one group. A
 * check reads what it needs from the view, and reports findings, or why it could not run. To add
 * one, write its function, add a row to the table with the next free code of its group, and a
 * section to docs/doctor.md. A code is never used again for another check, because people search
 * for it.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_DOCTOR_H
#define CCMD_OPERATOR_DOCTOR_H

#include "operator/report.h"
#include "operator/view.h"

struct doctor {
	struct view *view;
	/* as flags_parse() returns them, one in each line */
	struct str flag_notes, flag_warnings;
	/* --as-service-account: "namespace/name"; NULL: not given */
	const char *service_account;
	char **argv; /* the flags of the controller that the command has, from argv[1] */
	int argc;
};

/** A check that needs one of these is skipped where it does not hold. */
enum check_condition {
	NEEDS_ELECTION = 1 << 16,      /* with VIEW_LEASE */
	NEEDS_ROUTES = 1 << 17,        /* with VIEW_CLOUD: the route controller works */
	NEEDS_BALANCERS = 1 << 18,     /* with VIEW_CLOUD: the cloud has load balancers */
	NEEDS_BALANCER_LIST = 1 << 19, /* … and can list them */
};

struct checked_node {
	const struct node *node;
	struct str name;
	int64_t age_s;
	const struct instance *machine; /* NULL without VIEW_LOOK */
};

struct checked_service {
	const struct service *service;
	struct str key;
	const struct view_service *more;
	bool is_wanted;                    /* ccmd handles it now */
	const struct service_trial *trial; /* of a wanted one, with VIEW_TRIALS */
};

extern const struct check doctor_checks[];
extern const size_t doctor_n_checks;

/** Runs all checks. */
void doctor_run(struct doctor *, struct report *ret);
/** Runs one of them. */
void doctor_run_check(struct doctor *, const struct check *, struct report *ret);

/** view_need() for a check. False: a part cannot be read, and the check is now UNKNOWN. */
bool doctor_needs(struct doctor *, struct report *, unsigned parts);
/** Did a request about the machine of this node fail? The check is UNKNOWN for the node then. An
 * answer that cannot be used until a user corrects something is not such a failure. Also true,
 * without UNKNOWN, if another node has the provider ID: one check reports that. */
bool doctor_is_unanswered(struct report *, const struct node *, const struct instance *);
/** Can the list of all machines be read (VIEW_MACHINES)? It only improves what is said about a
 * finding. If the cloud has such a list, but it cannot be read, the check is UNKNOWN. */
bool doctor_has_machines(struct doctor *, struct report *);
/** For check_service_specs(): reports the annotations of a Service that name something that the
 * cloud does not have. False: there are none. Needs VIEW_SETTINGS. */
bool doctor_report_unknown_names(struct doctor *, struct report *, const struct service *);

/* ---- the checks ---- */

void check_server(struct doctor *, struct report *);
void check_version(struct doctor *, struct report *);
void check_clock(struct doctor *, struct report *);
void check_expiry(struct doctor *, struct report *);
void check_latency(struct doctor *, struct report *);

void check_rights(struct doctor *, struct report *);

void check_leader(struct doctor *, struct report *);
void check_renewal(struct doctor *, struct report *);
void check_lease_owner(struct doctor *, struct report *);
void check_other_controllers(struct doctor *, struct report *);
void check_other_workloads(struct doctor *, struct report *);
void check_other_leases(struct doctor *, struct report *);
void check_tolerations(struct doctor *, struct report *);
void check_leader_clock(struct doctor *, struct report *);
void check_replicas(struct doctor *, struct report *);

void check_cloud(struct doctor *, struct report *);
void check_project(struct doctor *, struct report *);
void check_budget(struct doctor *, struct report *);
void check_cloud_rights(struct doctor *, struct report *);
void check_cloud_latency(struct doctor *, struct report *);
void check_settings(struct doctor *, struct report *);

void check_kubelets(struct doctor *, struct report *, const struct checked_node *);
void check_new_nodes(struct doctor *, struct report *, const struct checked_node *);
void check_foreign_ids(struct doctor *, struct report *, const struct checked_node *);
void check_duplicate_ids(struct doctor *, struct report *);
void check_absent_machines(struct doctor *, struct report *, const struct checked_node *);
void check_addresses(struct doctor *, struct report *, const struct checked_node *);
void check_labels(struct doctor *, struct report *, const struct checked_node *);
void check_cluster_cidr(struct doctor *, struct report *);
void check_pod_cidrs(struct doctor *, struct report *);
void check_held_deletions(struct doctor *, struct report *);
void check_node_routes(struct doctor *, struct report *);
void check_orphaned_routes(struct doctor *, struct report *);
void check_down_nodes(struct doctor *, struct report *);
void check_missing_cidrs(struct doctor *, struct report *);
void check_network_conditions(struct doctor *, struct report *);

void check_pending_services(struct doctor *, struct report *, const struct checked_service *);
void check_targets(struct doctor *, struct report *, const struct checked_service *);
void check_annotation_names(struct doctor *, struct report *);
void check_service_specs(struct doctor *, struct report *);
void check_balancers(struct doctor *, struct report *, const struct checked_service *);
void check_orphans(struct doctor *, struct report *);
void check_changed_balancers(struct doctor *, struct report *, const struct checked_service *);
void check_refused_balancers(struct doctor *, struct report *, const struct checked_service *);
void check_forwarding(struct doctor *, struct report *);
void check_endpoints(struct doctor *, struct report *);
void check_effects(struct doctor *, struct report *, const struct checked_service *);
void check_address_writers(struct doctor *, struct report *, const struct checked_service *);

void check_flags(struct doctor *, struct report *);
void check_variables(struct doctor *, struct report *);
void check_same_flags(struct doctor *, struct report *);
void check_files(struct doctor *, struct report *);

#endif
