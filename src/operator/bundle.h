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

/** The end of the log of ccmd.service. */
struct journal {
	struct str text, error; /* both empty: no such unit has run here */
};

/** Runs journalctl, so it must be called before the sandbox is entered and before the rights of
 * root are given up. The texts are in the arena. */
void bundle_read_journal(struct arena *, struct journal *ret);

/** Reads what is missing, and writes the file, which only its owner can read. */
NODISCARD bool bundle_write(const char *path, const struct doctor *, const struct report *,
                            const struct journal *, struct error *err);

/** Appends the text without these secrets and without what looks like one. Pure. */
void bundle_redact(struct str text, const struct str secrets[], size_t n, struct buf *out);

#endif
