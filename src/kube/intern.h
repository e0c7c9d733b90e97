/* kube/intern.h: keeps one copy of texts and labels that many objects have in common.
 *
 * Thousands of nodes repeat the same few dozen label keys, zones, instance types and taints. The
 * copies are never freed, so their number (LIMIT_INTERN of each sort) and length are bounded; an
 * object keeps a text that does not fit by itself.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_INTERN_H
#define CCMD_KUBE_INTERN_H

#include "base/str.h"

/** Makes *s a view of the shared copy, which lives as long as the process. False, with *s
 * unchanged, when there is no room for a copy. Equal texts give equal pointers. */
NODISCARD bool intern(struct str *s);

/** The shared copy of n texts in a row, such as a struct label; NULL when there is no room for it.
 * Each text must be a result of intern(). Equal rows give equal pointers. */
const void *intern_row(const struct str *row, size_t n);

/** The number of texts that are kept. */
size_t intern_count(void);

#endif
