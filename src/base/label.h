/* base/label.h: the two pairs that both sides of the house speak of: the Kubernetes client and the
 * clouds.
 *
 * Plain views; who owns the bytes is said where they are kept.
 */
#ifndef CCMD_BASE_LABEL_H
#define CCMD_BASE_LABEL_H

#include "base/str.h"

/** A label or an annotation. */
struct label {
	struct str key, value;
};

/** An address of a machine, with its type as Kubernetes names it: "Hostname", "InternalIP",
 * "ExternalIP", "InternalDNS", "ExternalDNS". */
struct address {
	struct str type, address;
};

#endif
