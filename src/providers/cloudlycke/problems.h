/* problems.h: what is wrong with a file, all of it, in the order of its lines.
 *
 * A problem reads `inventory.yaml:14: machines[0].id: required`. Every one is counted, the first LIMIT_PROBLEMS
 * by line are kept: who fixes a file wants the list, not one line a try.
 */
#ifndef CCMD_CLOUDLYCKE_PROBLEMS_H
#define CCMD_CLOUDLYCKE_PROBLEMS_H

#include "base/buf.h"
#include "base/limits.h"

struct cl_problem {
	int line;
	char *text; /* "<file>:<line>: <path>: <message>" */
};

struct cl_problems {
	const char *file; /* as it is to be shown */
	size_t n;         /* found */
	size_t n_kept;
	struct cl_problem kept[LIMIT_PROBLEMS];
};

#define CL_PROBLEMS_INIT(name) ((struct cl_problems){ .file = (name) })

/** For CLEANUP(cl_problems_fini). */
void cl_problems_fini(struct cl_problems *p);

/** line 0: unknown. path empty: the file as a whole. Foreign text in the message has gone through cl_q(). */
void cl_problems_add(struct cl_problems *p, int line, struct str path, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
void cl_problems_addv(struct cl_problems *p, int line, struct str path, const char *fmt,
                      va_list args) PRINTF_LIKE(4, 0);

/** Appends the first `most` problems, with "; " between them, and " (and N more)" for those left out. */
void cl_problems_text(const struct cl_problems *p, size_t most, struct buf *b);

#endif
