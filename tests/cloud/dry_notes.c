#include "cloud/dry_notes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/macros.h"

static void
note(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	static const char *const verbs[] = {
		[DRY_CREATE] = "create", [DRY_CHANGE] = "change", [DRY_DELETE] = "delete"
	};
	struct dry_notes *d = CONTAINER_OF(run, struct dry_notes, run);

	assert_ptr_equal(item, &d->item);
	assert_true(change->is_cloud);
	buf_addf(&d->requests, "%" STR_FMT "\n", STR_ARG(change->request));
	buf_addf(&d->text, "%s %s %" STR_FMT ": %" STR_FMT "\n", verbs[change->verb], change->what,
	         STR_ARG(change->name), STR_ARG(change->request));
	for (size_t i = 0; i < change->n_fields; i++) {
		const struct dry_field *field = &change->fields[i];

		buf_addf(&d->text, "  %" STR_FMT ": %" STR_FMT " -> %" STR_FMT "\n",
		         STR_ARG(field->name), STR_ARG(field->old), STR_ARG(field->new));
	}
}

static void
note_kept(struct dry_run *run, const struct dry_item *item, const struct error *why)
{
	struct dry_notes *d = CONTAINER_OF(run, struct dry_notes, run);

	assert_ptr_equal(item, &d->item);
	buf_addf(&d->text, "stays: %s\n", why->msg);
}

void
dry_notes_init(struct dry_notes *d)
{
	*d = (struct dry_notes){ .run = { .note = note, .kept = note_kept },
		                 .item = { &d->run, "service", STR("default/web"), STR("1") },
		                 .requests = BUF_INIT(KIB(10)),
		                 .text = BUF_INIT(KIB(100)) };
}

void
dry_notes_fini(struct dry_notes *d)
{
	buf_fini(&d->requests);
	buf_fini(&d->text);
}

void
dry_notes_check(struct dry_notes *d, const char *text)
{
	assert_string_equal(d->text.ptr, text);
	dry_notes_forget(d);
}

void
dry_notes_forget(struct dry_notes *d)
{
	buf_reset(&d->requests);
	buf_reset(&d->text);
}
