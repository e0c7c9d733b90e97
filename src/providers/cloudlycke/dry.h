/* dry.h: what a dry run notes of a load balancer (base/dry_run.h).
 *
 * The addresses that a Service would get or lose are compared with those that it has. HAProxy's
 * frontends are compared with its configuration file as it is now, so a dry run beside a running
 * controller sees what that one has done. A frontend stands for its backend, too.
 *
 * Threads: any. Nothing is written, locked or kept.
 */
#ifndef CCMD_CLOUDLYCKE_DRY_H
#define CCMD_CLOUDLYCKE_DRY_H

#include "base/call.h"
#include "providers/cloudlycke/record.h"

/** record NULL: the Service would lose all addresses in `before`. */
void cl_dry_note_addresses(struct call *, const struct cl_addresses *before,
                           const struct cl_record *record);
/** The hook at that path would be run. verb: of what it sets up. */
void cl_dry_note_hook(struct call *, enum dry_verb verb, struct str path, const char *action,
                      const struct cl_record *record);
/** Notes the frontends of the balancer with that name that would change. record NULL: it is
 * removed. *ret_is_noted: there are some. False: the file cannot be read. */
NODISCARD bool cl_dry_note_haproxy(struct call *, const struct cl_haproxy_config *config,
                                   struct str name, struct cl_record *record, bool *ret_is_noted,
                                   struct error *err);

#endif
