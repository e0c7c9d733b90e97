/* dry_notes.h: records the changes of a dry run as text, for tests of providers. */
#ifndef CCMD_TESTS_CLOUD_DRY_NOTES_H
#define CCMD_TESTS_CLOUD_DRY_NOTES_H

#include "base/buf.h"
#include "base/dry_run.h"

struct dry_notes {
	struct dry_run run;
	struct dry_item item; /* for call->dry */
	struct buf requests;  /* each with a new line */
	/* Each change is a line "change load balancer NAME: REQUEST", followed by a line
	 * "  FIELD: OLD -> NEW" for each of its fields. A difference that is kept is a
	 * line "stays: WHY". */
	struct buf text;
};

void dry_notes_init(struct dry_notes *);
void dry_notes_fini(struct dry_notes *);
/** Compares the text, and then forgets all changes. */
void dry_notes_check(struct dry_notes *, const char *text);
void dry_notes_forget(struct dry_notes *);

#endif
