/* operator/samples.h: reads the text format of Prometheus, as far as /metrics of ccmd uses it.
 *
 * A line is NAME{LABEL="VALUE",…} NUMBER. Comments, infinite numbers and lines that are something
 * else are skipped, so an answer of another server gives no samples rather than wrong ones. Labels
 * of ccmd have no escapes, and none are decoded.
 *
 * Threads: any; pure functions.
 */
#ifndef CCMD_OPERATOR_SAMPLES_H
#define CCMD_OPERATOR_SAMPLES_H

#include "base/str.h"

/** Views of the text. */
struct sample {
	struct str name;
	struct str labels; /* between the braces; empty: none */
	double value;
};

/** Cuts the next sample off the front of *rest. At first, rest->ptr must not be NULL. False: no
 * sample is left. */
bool samples_next(struct str *rest, struct sample *ret);

/** The value of a label; empty if the sample does not have it. */
struct str sample_label(const struct sample *, const char *label);

/** The first sample of that name whose label has that value; label NULL: the first one. False:
 * there is none, which is not the same as 0: the process may be of an older version, or another
 * program.
 */
bool samples_find(struct str text, const char *name, const char *label, struct str value,
                  double *ret);

/** The sum of all samples of that name. If label is not NULL, only samples count whose label has a
 * value that starts with `begin`. *ret_n, which may be NULL: their number. */
double samples_sum(struct str text, const char *name, const char *label, const char *begin,
                   size_t *ret_n);

#endif
