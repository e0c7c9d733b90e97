/* tests/simulation/curl_model.h: libcurl, as the replicas see it.
 *
 * src/http uses about twenty functions of libcurl. curl_model.c defines them, and the dynamic
 * linker takes these definitions instead of the library's. So everything above libcurl's interface
 * is the real code: the fence, the gate, deadlines, credentials and streams.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_CURL_MODEL_H
#define CCMD_TESTS_SIMULATION_CURL_MODEL_H

#include <curl/curl.h>

#include "base/str.h"
#include "replica.h"

struct easy;

/** Closes the connections of a replica that has ended, as the kernel does. */
void curl_model_drop(const struct replica *);

/* ---- for net.c: what arrives ---- */

/** The head of an answer: a status line and headers, each with its line ending. */
void easy_head(struct easy *, struct str lines);
void easy_body(struct easy *, struct str bytes);
/** Ends the transfer after the replica has read everything that arrived before.
 *
 * @param system_error  an errno, 0: none
 */
void easy_end(struct easy *, CURLcode code, int system_error, const char *text);

#endif
