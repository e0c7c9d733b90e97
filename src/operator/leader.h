/* operator/leader.h: what the running leader knows, and what it has said last.
 *
 * The leader is asked once, by explain for one object, by doctor and plan for all objects in
 * trouble (controllers/describe.h): the process on this machine, or that of --url; if it does not
 * answer or does not lead, the pods of ccmd through the API server, for which the caller needs
 * pods/proxy (docs/explain.md, "What the leader adds"). Where that is not possible, the leader's
 * last error about an object is replaced by the newest Warning event about it from ccmd or another
 * cloud controller manager.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_LEADER_H
#define CCMD_OPERATOR_LEADER_H

#include "controllers/describe.h"
#include "operator/report.h"
#include "operator/view.h"

/** The names of the kinds of objects in messages and in JSON, by enum described_kind. */
extern const char *const leader_kinds[];

/** For the view: VIEW_LEADER, and VIEW_EVENTS. */
NODISCARD bool leader_read(struct view *, struct error *err);
NODISCARD bool leader_read_events(struct view *, struct error *err);

/** What the leader says about an object; of a route that is its last run. NULL: it was not asked
 * about the object, is in no trouble with it, or has not answered. */
yyjson_val *leader_about(struct view *, enum described_kind kind, struct str key);

/* The texts below are in the arena of the view. */

/** What the leader's last attempt at the object ended in: "3 attempts failed, the last one 4 s ago:
 * ERROR; the next one is in 4 s". Empty: none failed, or it is not known. */
struct str leader_last_failure(struct view *, enum described_kind, struct str key);
/** Why the object of a finding is in its state: "; " and the last failure, or else the newest
 * Warning event. Empty: no failure is known.
 *
 * @param uid  of the object whose events count: of a route, that of the node
 */
struct str leader_failure(struct view *, struct report *, enum described_kind, struct str key,
                          struct str uid);
/** Sets what to do about such a finding. otherwise: what to do if no failure is known; NULL: wait,
 * or ask the leader. */
void leader_report_fix(struct view *, struct report *, bool is_failing, const char *otherwise);

/** When a node without machine is deleted: "; the leader does not delete it yet, because REASON;
 * the leader deletes it in 214 s at the earliest", or what is known without the leader. */
struct str leader_guard(struct view *, struct str node);

/** When the cloud last accepted a request of the leader; empty if the leader does not say so. */
struct str leader_cloud(struct view *);

/** How many removals of routes the leader holds back, and for how long; empty if none. */
struct str leader_held_routes(struct view *);

/** An Event about an object. */
struct leader_event {
	int64_t time_s; /* Unix time of its last occurrence; 0: unknown */
	struct str type, reason, source, message;
	int64_t count;
};
/** Texts are copied. */
struct leader_event leader_event_of(yyjson_val *event, struct arena *);

#endif
