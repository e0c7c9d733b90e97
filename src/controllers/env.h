/* controllers/env.h: what main hands every controller. All of it is borrowed and outlives the
 * controllers. */
#ifndef CCMD_CONTROLLERS_ENV_H
#define CCMD_CONTROLLERS_ENV_H

#include "cloud/cloud.h"
#include "kube/client.h"
#include "kube/recorder.h"
#include "kube/store.h"

struct lookup;
struct event_dedup;
struct own_writes;
struct paces;

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
	struct own_writes *own_writes;
	struct paces *paces;
};

#endif
