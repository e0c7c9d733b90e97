/* controllers/describe.h: what the running controllers know about one object, or about all objects
 * in trouble, as JSON, for the endpoints below /debug/objects/ and so for the commands for
 * operators.
 *
 * It has only what the process alone knows: its queues, the deletion guard's observations, the last
 * failures. Everything else is in the API server and in the cloud. All times are seconds, relative
 * to the answer. docs/explain.md, "The endpoint" lists the members.
 *
 * Threads: any. Locks are held for copies only.
 */
#ifndef CCMD_CONTROLLERS_DESCRIBE_H
#define CCMD_CONTROLLERS_DESCRIBE_H

#include "controllers/lifecycle/lifecycle.h"
#include "controllers/node/node.h"
#include "controllers/route/route.h"
#include "controllers/service/service.h"

enum described_kind {
	DESCRIBED_NODE,
	DESCRIBED_SERVICE,
	DESCRIBED_ROUTE,
};

/** An object that a caller names. */
struct described {
	enum described_kind kind;
	struct str key; /* "worker-1", "default/web", "10.244.1.0/24"; a view of the path */
};

/** The path of all objects in trouble. */
#define DESCRIBED_TROUBLE "trouble"

/** path: "nodes/NAME", "services/NAMESPACE/NAME" or "routes/CIDR", already decoded. Returns
 * false for any other text. The path may come from any caller. */
bool described_parse(struct str path, struct described *ret);

/** The controllers of a process that leads. NULL: the controller does not run. */
struct describe_sources {
	struct store *nodes, *services; /* services: NULL if nothing handles Services */
	struct node_errors *node_errors;
	struct node_controller *node;
	struct lifecycle_controller *lifecycle;
	struct service_controller *service;
	struct route_controller *route;
};

/** Appends a JSON object. sources: NULL if this process does not lead. what: NULL: the objects at
 * which the last attempt failed, or whose machine was looked for, LIMIT_TROUBLES of each kind. */
void describe(const struct describe_sources *sources, const struct described *what,
              struct buf *json);

/** Sets the metric ccmd_doctor_problems, from what the controllers remember. sources: as above. */
void describe_count_problems(const struct describe_sources *sources);

#endif
