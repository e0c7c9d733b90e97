/* kube/intern.h: texts, labels and the like that many objects share, kept once.
 *
 * Label keys, zones, instance types, taints: thousands of nodes repeat the same few dozen. They are
 * never freed, so their number (LIMIT_INTERN of each) and length are bounded; what does not fit is
 * for the object to keep itself.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_INTERN_H
#define CCMD_KUBE_INTERN_H

#include "base/str.h"

/** Makes *s a view of the shared copy, which lives as long as the process. False, with *s as it
 * was, when there is no room for it. Equal texts give equal pointers. */
NODISCARD bool intern(struct str *s);

/** The shared copy of n texts in a row, such as a struct label, which are shared themselves; NULL
 * when there is no room for it. row: as intern() left them. Equal ones give equal pointers. */
const void *intern_row(const struct str *row, size_t n);

/** How many texts are kept. */
size_t intern_count(void);

#endif
