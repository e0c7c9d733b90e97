/* http_hold.h: an HTTP client that holds every request until the test releases it, for tests of
 * threads that share the answer of one request.
 *
 * Released requests are sent to another client, one at a time. A held request waits on the clock of
 * its call, so that fake_clock_settle() counts it among the waiting threads, and it ends when its
 * call is cancelled or out of time.
 *
 * Threads: every function may be called from any thread, except init and fini.
 */
#ifndef CCMD_TESTS_CLOUD_HTTP_HOLD_H
#define CCMD_TESTS_CLOUD_HTTP_HOLD_H

#include <pthread.h>

#include "http/http.h"

struct http_hold {
	struct http_client client;
	struct http_client *inner; /* mu */
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned n_arrived;  /* mu; requests so far */
	unsigned n_released; /* mu; requests that may still pass */
};

void http_hold_init(struct http_hold *, struct http_client *inner);
void http_hold_fini(struct http_hold *);

/** Lets n requests pass, those held now and later ones. */
void http_hold_release(struct http_hold *, unsigned n);
/** The number of requests so far, held or not. */
unsigned http_hold_arrived(struct http_hold *);

#endif
