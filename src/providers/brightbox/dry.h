/* dry.h: what a dry run notes of a request (base/dry_run.h).
 *
 * The fields of a change are the members of the request's body, beside those of the object as it
 * is, where the caller knows it.
 *
 * Threads: any.
 */
#ifndef CCMD_BRIGHTBOX_DRY_H
#define CCMD_BRIGHTBOX_DRY_H

#include "base/call.h"
#include "http/http.h"

/* The ids of objects that a dry run has made up. The API's own ids have five characters behind the
 * hyphen. */
#define BB_NEW_CLOUD_IP "cip-new"
#define BB_NEW_LB "lba-new"
#define BB_NEW_GROUP "grp-new"
#define BB_NEW_POLICY "fwp-new"

/** A request that changes something. */
struct bb_write {
	enum dry_verb verb;
	const char *what; /* as in struct dry_change */
	struct str name;  /* likewise */
	enum http_method method;
	struct str target; /* "/cloud_ips/cip-aaaaa/map" */
	struct str body;   /* JSON; empty: none */
	/* the object as it is, in the form of the body; empty: it is not known, or not there yet */
	struct str present;
	bool is_removal; /* of the members of the body */
};

/** Notes the request. call->dry is set. */
void bb_note(struct call *, const struct bb_write *);

#endif
