/* base/event_kind.h: which Events there are: each is defined once, beside the code that sends it,
 * and the reference page is made from the same list.
 *
 * Threads: constants.
 */
#ifndef CCMD_BASE_EVENT_KIND_H
#define CCMD_BASE_EVENT_KIND_H

#include <stdbool.h>

#include "base/macros.h"

struct event_kind {
	const char *component; /* "cloud-node-controller" */
	const char *reason;    /* "Synced" */
	bool is_warning;
	const char *about; /* on what kind of object: "Node" */
	const char *when;  /* for people */
};

/** Defines one for this file, and puts it on the list (base/metrics.h does the same). */
#define EVENT_KIND(id, component_, reason_, is_warning_, about_, when_)                         \
	static const struct event_kind id = { (component_), (reason_), (is_warning_), (about_), \
		                              (when_) };                                        \
	static const struct event_kind *id##_entry                                              \
		__attribute__((section("event_kinds"), used, aligned(sizeof(void *)))) = &id

/** All there are in the program, by component and reason; *ret_n of them. The array is the
 * linker's. */
const struct event_kind *const *event_kinds(size_t *ret_n);

#endif
