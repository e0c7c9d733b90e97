/* tests/kube/fake_streams.h: a transport whose streams follow a script, on a clock of the test.
 *
 * The whole script is written before the code under test starts; every wait goes through the clock,
 * so that fake_clock_settle() says when nothing happens any more. When no answer is left, the next
 * stream does not open until it is cancelled; a stream with no step left is silent.
 */
#ifndef CCMD_TESTS_KUBE_FAKE_STREAMS_H
#define CCMD_TESTS_KUBE_FAKE_STREAMS_H

#include "http/http.h"
#include "fake_clock.h"

struct fake_streams;

struct fake_streams *fake_streams_new(struct clock *clock);
void fake_streams_free(struct fake_streams *);
struct http_client *fake_streams_client(struct fake_streams *);

/** The next stream does not open. */
void fake_streams_refuse(struct fake_streams *, enum err_code code, int http_status,
                         int64_t retry_after_ms);
/** The next stream opens; what follows are its steps. */
void fake_streams_open(struct fake_streams *);
/** After a while bytes arrive (copied), the answer ends, or the connection breaks. */
void fake_streams_send(struct fake_streams *, int64_t after_ns, struct str text);
void fake_streams_end(struct fake_streams *, int64_t after_ns);
void fake_streams_break(struct fake_streams *, int64_t after_ns);

/** What has been asked so far, and by the i-th stream; "" when there were fewer. */
size_t fake_streams_count(struct fake_streams *);
const char *fake_streams_target(struct fake_streams *, size_t i);

#endif
