/* tests/simulation/curl_model.h: libcurl, as the replicas see it.
 *
 * src/http uses about twenty functions of libcurl. They are defined here, and the dynamic linker
 * prefers them to the library's, so everything above libcurl's interface is the real code: the
 * fence, the gate, deadlines, credentials, the streams.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_CURL_MODEL_H
#define CCMD_TESTS_SIMULATION_CURL_MODEL_H

#include <curl/curl.h>

#include "base/str.h"
#include "replica.h"

struct easy;

/** The replica has ended: its connections are closed by the kernel. */
void curl_model_drop(const struct replica *);

/* ---- for net.c: what arrives ---- */

/** The head of an answer: a status line and headers, each with its line's end. */
void easy_head(struct easy *, struct str lines);
void easy_body(struct easy *, struct str bytes);
/** The transfer ends when what has arrived before was consumed.
 *
 * @param system_error  an errno, 0: none
 */
void easy_end(struct easy *, CURLcode code, int system_error, const char *text);

#endif
