/* allocations.h: all load balancers, and which Service has which address.
 *
 * There is one record per Service, by UID. A change is made in memory and in the state file, or not
 * at all. The address that a Service gives up is free only after its new one is written, and
 * readers see only what is written. After a start, records are made from the Services and the
 * addresses in their status (cl_allocations_adopt()), so that a new leader on another machine gives
 * the same addresses. The state file adds what hooks were last run for, addresses that no status
 * has yet, and addresses that no pool has any more.
 *
 * Threads: any; for one Service, one call after the other.
 */
#ifndef CCMD_CLOUDLYCKE_ALLOCATIONS_H
#define CCMD_CLOUDLYCKE_ALLOCATIONS_H

#include "providers/cloudlycke/allocate.h"
#include "providers/cloudlycke/state.h"

struct cl_allocations;

/** The state and host outlive the allocations. has_hook: its runs are recorded.
 * has_haproxy: a Service is refused if HAProxy's file has no room for it. */
struct cl_allocations *cl_allocations_new(struct cl_state *state, bool has_hook, bool has_haproxy,
                                          const struct cloud_host *host);
void cl_allocations_free(struct cl_allocations *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_allocations, cl_allocations_free)

/** Rebuilds all records from the existing Services and the state file. A status alone is no proof:
 * an address that no pool could have given to the Service is not taken over, unless the state file
 * has it for that Service. It stays in the status until another one is allocated, and an event
 * names it. If two Services claim one address, the one for which the state file has it keeps it,
 * else the one with the lower UID; a Service that is leaving comes last. The other one gets an
 * event, and another address when it is ensured. ERR_CONFLICT: another process has the state file;
 * ERR_INVALID: it is damaged. */
NODISCARD bool cl_allocations_adopt(struct cl_allocations *, const struct cl_schema *schema,
                                    const struct lb_spec *const specs[], size_t n,
                                    struct arena *arena, struct error *err);

/** Allocates addresses and writes the record. Unref *ret. ERR_INVALID: the request cannot be
 * met. */
NODISCARD bool cl_allocations_ensure(struct cl_allocations *, const struct cl_request *request,
                                     const struct node_ref nodes[], size_t n_nodes,
                                     struct arena *arena, struct cl_record **ret,
                                     struct error *err);
/** For a dry run: the record that cl_allocations_ensure() would write, which is neither written nor
 * kept, so two Services may be promised the same address. Addresses in the Service's status count
 * as its own: another process may have allocated them since the start. Unref *ret. *ret_before: the
 * addresses that the Service has now. */
NODISCARD bool cl_allocations_foresee(struct cl_allocations *, const struct cl_request *request,
                                      const struct lb_spec *spec, struct arena *arena,
                                      struct cl_grant *ret_before, struct cl_record **ret,
                                      struct error *err);
/** The record of that UID, or NULL. Unref it. */
struct cl_record *cl_allocations_get(struct cl_allocations *, struct str uid);
/** Replaces the nodes. ERR_NOT_FOUND; ERR_INVALID: HAProxy's file has no room for them, and the
 * nodes stay as they were. */
NODISCARD bool cl_allocations_retarget(struct cl_allocations *, struct str uid,
                                       const struct node_ref nodes[], size_t n_nodes,
                                       struct cl_record **ret, struct error *err);
/** *ret is NULL when the Service has no record. */
NODISCARD bool cl_allocations_mark_deleting(struct cl_allocations *, struct str uid,
                                            struct cl_record **ret, struct error *err);
/** Frees its addresses; Services that wait for one are requeued. */
NODISCARD bool cl_allocations_remove(struct cl_allocations *, struct str uid, struct error *err);
/** The result of the hook that was run for this record; error empty: it succeeded. */
NODISCARD bool cl_allocations_set_hook_result(struct cl_allocations *,
                                              const struct cl_record *record, struct str error,
                                              struct error *err);

/** All records, sorted by name: cl_records_free(). *ret_version changes with every change of what
 * balancers do. */
struct cl_record **cl_allocations_list(struct cl_allocations *, size_t *ret_n,
                                       uint64_t *ret_version);
/** The version of all changes made so far. *ret_is_busy: more are being written. */
uint64_t cl_allocations_version(struct cl_allocations *, bool *ret_is_busy);

#endif
