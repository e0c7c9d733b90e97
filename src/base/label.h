/* base/label.h: the two pairs of texts that the Kubernetes client and the clouds share.
 *
 * Both are plain views; the documentation of each holder states who owns the bytes.
 *
 * Threads: not relevant; these are plain values.
 */
#ifndef CCMD_BASE_LABEL_H
#define CCMD_BASE_LABEL_H

#include "base/str.h"

/** A label or an annotation. */
struct label {
	struct str key, value;
};

/** An address of a machine, with its Kubernetes type: "Hostname", "InternalIP", "ExternalIP",
 * "InternalDNS" or "ExternalDNS". */
struct address {
	struct str type, address;
};

static inline bool
address_eq(const struct address *a, const struct address *b)
{
	return str_eq(a->type, b->type) && str_eq(a->address, b->address);
}

#endif
