/* http/read_only.h: a process that changes nothing.
 *
 * The commands for operators (operator/command.h) and --dry-run look at a cluster and its cloud,
 * and must never change them, whatever code they share with the controllers. So the rule is
 * enforced where every request of every client passes: http_do() and http_stream_open() refuse
 * whatever is neither a GET nor a POST that only asks something, such as an access review or the
 * request for a token.
 *
 * Threads: http_set_read_only() is called before the first client is made; the check may be called
 * from any thread.
 */
#ifndef CCMD_HTTP_READ_ONLY_H
#define CCMD_HTTP_READ_ONLY_H

#include "http/http.h"

/** From now on, requests of all clients are restricted. posts has the targets of the permitted
 * POSTs, compared byte by byte and NULL at the end; it must live as long as the process. NULL: no
 * restriction, as at the start of the process. */
void http_set_read_only(const char *const posts[]);

/** May this request be sent? ERR_FORBIDDEN names the request. */
NODISCARD bool http_check_read_only(const struct http_request *, struct error *err);

#endif
