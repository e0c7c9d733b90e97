/* dump.h: every request and answer on standard error, for HCLOUD_DEBUG, without secrets (hcloud.md 1.2).
 *
 * Authorization is shown as REDACTED, and so are the values of JSON members that hold keys and passwords.
 *
 * Threads: any; a block is written with one write().
 */
#ifndef CCMD_HCLOUD_DUMP_H
#define CCMD_HCLOUD_DUMP_H

#include "http/http.h"

/** Appends "--- Request:" and what was asked. base_url: in front of the target. */
void hz_dump_request(struct buf *b, struct str base_url, const struct http_request *request);
/** Appends "--- Response:" and what came. */
void hz_dump_response(struct buf *b, const struct http_response *response);
/** Appends a JSON text with its secrets blackened; other texts as they are. */
void hz_dump_body(struct buf *b, struct str body);
/** To standard error. */
void hz_dump_write(const struct buf *b);

#endif
