/* kube/intern.h: texts and labels that many objects share, kept once.
 *
 * Label keys, zones, instance types: thousands of nodes repeat the same few dozen. They are never freed, so their
 * number (LIMIT_INTERN of each) and length are bounded; what does not fit is for the object to keep itself.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_INTERN_H
#define CCMD_KUBE_INTERN_H

#include "base/label.h"

/** Makes *s a view of the shared copy, which lives as long as the process. False, with *s as it was, when there is no
 * room for it. Equal texts give equal pointers. */
NODISCARD bool intern(struct str *s);

/** The shared copy of a label whose key and value are shared, too; NULL when there is no room for it. Equal labels give
 * equal pointers. */
const struct label *intern_label(struct label label);

/** How many texts are kept. */
size_t intern_count(void);

#endif
