/* kube/intern.h: texts that many objects share, kept once.
 *
 * Label keys, zones, instance types: thousands of nodes repeat the same few dozen. They are never freed, so their
 * number (LIMIT_INTERN) and length are bounded; what does not fit is for the object to keep itself.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_INTERN_H
#define CCMD_KUBE_INTERN_H

#include "base/str.h"

/** Makes *s a view of the shared copy, which lives as long as the process. False, with *s as it was, when there is no
 * room for it. Equal texts give equal pointers. */
NODISCARD bool intern(struct str *s);

/** How many texts are kept. */
size_t intern_count(void);

#endif
