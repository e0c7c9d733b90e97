/* base/event_kind.h: the kinds of Events that this program writes.
 *
 * Each kind is defined once, in the file that emits it. The linker gathers all definitions into one
 * list, from which the reference page of Events is generated (tools/reference_pages.c).
 *
 * Threads: the kinds are constants that every thread may read.
 */
#ifndef CCMD_BASE_EVENT_KIND_H
#define CCMD_BASE_EVENT_KIND_H

#include <stdbool.h>

#include "base/macros.h"

struct event_kind {
	const char *component; /* "cloud-node-controller" */
	const char *reason;    /* "Synced" */
	bool is_warning;
	const char *about; /* the kind of the object that the Event refers to: "Node" */
	const char *when;  /* a description for the reference page */
};

/** Defines a kind for this file, as METRIC_FAMILY() does (base/metrics.h). */
#define EVENT_KIND(id, component_, reason_, is_warning_, about_, when_)                         \
	static const struct event_kind id = { (component_), (reason_), (is_warning_), (about_), \
		                              (when_) };                                        \
	static const struct event_kind *id##_entry                                              \
		__attribute__((section("event_kinds"), used, aligned(sizeof(void *)))) = &id

#endif
