/* selector.h: Kubernetes label selectors: "a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5".
 *
 * For the annotation node-selector. Accepts and refuses the same texts as labels.Parse of
 * k8s.io/apimachinery, which the official controller uses. Two rules are easily missed: "a="
 * selects the empty value, and "b!=c" and "b notin (c)" also select nodes without a label b.
 *
 * Threads: pure; a parsed one may be shared.
 */
#ifndef CCMD_HCLOUD_SELECTOR_H
#define CCMD_HCLOUD_SELECTOR_H

#include "base/arena.h"
#include "base/error.h"
#include "base/label.h"

struct hz_selector;

/** Empty text selects everything. At most LIMIT_SELECTOR bytes and LIMIT_SELECTOR_REQUIREMENTS.
 *
 * @param ret  in the arena; keeps no view of the text
 * @return  On false, err->code is ERR_INVALID, and the message names the selector and the position
 * of what is wrong
 *
 * Cost: one pass; about 64 bytes for each comma.
 */
NODISCARD bool hz_selector_parse(struct str text, struct arena *, const struct hz_selector **ret,
                                 struct error *err);
/** Cost: the labels are searched once for each requirement.
 *
 * @param labels  each key at most once */
bool hz_selector_matches(const struct hz_selector *, const struct label *const labels[], size_t n);

#endif
