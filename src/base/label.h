/* base/label.h: the two pairs of texts that the Kubernetes client and the clouds share.
 *
 * Both are plain views; the documentation of each holder states who owns the bytes.
 *
 * Threads: not relevant; these are types only.
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

#endif
