/* dialect.h: what the official controller and the tutorial's do differently (hcloud.md 10), as a table.
 *
 * The engine is one; whoever needs to know which of them it plays asks this table.
 *
 * Threads: constants.
 */
#ifndef CCMD_HCLOUD_DIALECT_H
#define CCMD_HCLOUD_DIALECT_H

#include <stdbool.h>

#define HZ_COMPONENT \
	"hcloud-cloud-controller-manager" /* the source of our Events (hcloud.md 1.1) */

struct hz_dialect {
	const char *name;              /* of the provider */
	const char *id_prefix;         /* of the provider IDs that are written */
	const char *const *id_aliases; /* further prefixes that are read; NULL at the end */
	const char *user_agent;        /* before "/VERSION" */
	bool is_tutorial; /* few variables, no labels, no Robot, no annotations, no metrics listener */
	bool is_off_unless_running; /* a machine is shut down with any status but "running"; else with "off" */
	bool has_wide_regions; /* region is the network zone, zone the location; else location and data centre */
	bool has_all_families; /* ExternalIP of both families, IPv6 as the base of its network */
};

extern const struct hz_dialect hz_official;
/** The tutorial's repository. */
extern const struct hz_dialect hz_tutorial;
/** The tutorial's text, which has another name and another idea of "shut down". */
extern const struct hz_dialect hz_tutorial_text;

#endif
