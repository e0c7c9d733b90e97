/* kube/intern.h: stores one copy of each text and label that many objects have in common.
 *
 * Thousands of nodes repeat the same few dozen label keys, zones, instance types and taints. The
 * copies are never freed, so their number (LIMIT_INTERN of each sort) and length are bounded; an
 * object has its own copy of a text that does not fit.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_INTERN_H
#define CCMD_KUBE_INTERN_H

#include "base/str.h"

/** Makes *s a view of the shared copy, which lives as long as the process. False, with *s
 * unchanged, when a limit is reached. Equal texts give equal pointers. */
NODISCARD bool intern(struct str *s);

/** The shared copy of n texts in a row, such as a struct label; NULL when a limit is reached.
 * Each text must be a result of intern(). Equal rows give equal pointers. */
const void *intern_row(const struct str *row, size_t n);

/** The number of texts that are kept. */
size_t intern_count(void);

#endif
