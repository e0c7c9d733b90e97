/* metadata.h: what a server is told about itself: is the machine we run on attached to a network? (hcloud.md 1.5, 11.9)
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_METADATA_H
#define CCMD_HCLOUD_METADATA_H

#include "http/http.h"

/** Does the text of private-networks name this network? Lines of YAML, of which we read `network_id: N`. */
bool hz_metadata_names_network(struct str text, int64_t network);

/** Asks the metadata service. Errors are those of the request; a status other than 2xx is ERR_UNAVAILABLE. */
NODISCARD bool hz_metadata_is_attached(struct http_client *http, struct call *call, int64_t network,
                                       bool *ret, struct error *err);

#endif
