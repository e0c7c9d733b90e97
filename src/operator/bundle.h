/* operator/bundle.h: `ccmd doctor --bundle FILE`: one file for a bug report.
 *
 * It is a JSON object with what doctor, status, plan and explain (of the objects with problems)
 * say, and the metrics and the end of the log of the controller, as far as they could be read
 * (docs/doctor.md, "A bundle for a bug report"). Secrets are replaced: those that this process has,
 * and what looks like one.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_BUNDLE_H
#define CCMD_OPERATOR_BUNDLE_H

#include "operator/doctor.h"

/** Reads what is missing, and writes the file, which only its owner can read. */
NODISCARD bool bundle_write(const char *path, const struct doctor *, const struct report *,
                            struct error *err);

/** Appends the text without these secrets and without what looks like one. Pure. */
void bundle_redact(struct str text, const struct str secrets[], size_t n, struct buf *out);

#endif
