/* controllers/env.h: what every controller works with. All of it is borrowed and outlives the
 * controllers.
 *
 * Threads: all of it may be used from any thread.
 */
#ifndef CCMD_CONTROLLERS_ENV_H
#define CCMD_CONTROLLERS_ENV_H

#include "cloud/cloud.h"
#include "kube/client.h"
#include "kube/recorder.h"
#include "kube/store.h"

struct lookup;
struct event_dedup;
struct node_errors;
struct own_writes;
struct paces;
struct settling;

struct controller_env {
	struct clock *clock;
	struct cancel *cancel;
	struct kube_client *kube;
	struct store *nodes;
	struct store *services; /* NULL where no controller needs them */
	struct recorder *recorder;
	struct cloud *cloud;
	struct lookup *lookup;
	struct event_dedup *event_dedup;
	struct node_errors *node_errors;
	struct own_writes *own_writes;
	struct paces *paces;
	struct settling *settling; /* NULL in unit tests: nothing waits for first runs */
	struct dry_run *dry;       /* NULL: changes are made; else they are only noted */
};

#endif
