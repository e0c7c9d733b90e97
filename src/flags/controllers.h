/* flags/controllers.h: which controllers run, with which settings, and what they work with: the
 * part of the start that follows from the options. The program and `ccmd plan` both use it, so a
 * plan computes with what the controllers would have.
 *
 * Threads: one.
 */
#ifndef CCMD_FLAGS_CONTROLLERS_H
#define CCMD_FLAGS_CONTROLLERS_H

#include "controllers/manager.h"
#include "flags/options.h"
#include "kube/node.h"

/** Replaces "auto" by numbers, in the options themselves, so that /configz shows what is in effect.
 */
void controllers_choose_numbers(struct options *);

/** Returns why the controller does not run with this cloud, which was started; NULL: it runs. */
const char *controllers_why_not(const struct options *, const struct cloud *,
                                enum controller which);

/** The route controller needs a valid --cluster-cidr. If that controller does not run, nothing
 * reads the flag, so a bad value is only worth a warning. */
NODISCARD bool controllers_check_cluster_cidr(const struct options *, const struct cloud *,
                                              struct error *err);

/** The cloud, and what the controllers share with it. */
struct controller_parts {
	struct cloud *cloud; /* as controllers_load_cloud() has made it */
	char identity[128];  /* of this process, in the election and in events */
	struct recorder *recorder;
	struct node_kind node_kind; /* of the nodes, with what the cloud and the controllers need */
	struct store *nodes;
	struct host *host;
};

/** Loads the cloud, which reads its configuration and starts nothing. */
NODISCARD bool controllers_load_cloud(const struct options *, bool is_read_only, struct cloud **ret,
                                      struct error *err);
/** Makes the other parts, and starts the cloud with them. They are there after a failure, too.
 * parts must not move. events: NULL: events are dropped. */
NODISCARD bool controllers_start_cloud(struct controller_parts *parts, const struct options *,
                                       struct fence *, struct kube_client *events,
                                       struct error *err);
/** The configuration of the manager as far as it follows from the parts and the options, which must
 * outlive it. */
struct manager_config controllers_config(const struct options *, const struct controller_parts *);

#endif
