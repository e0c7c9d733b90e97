/* reference.c: generates the documents that come from the program's own tables.
 *
 *	reference write FOLDER    writes them
 *	reference check FOLDER    names the pages that are out of date; fails if there is one
 *
 * FOLDER is the root of the tree. Each page is a row of pages[] below. In a page that is also
 * written by hand, only the part between two marks is generated. This program is not installed.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "reference_pages.h"

#define COMMANDS ".\\\" What follows is made by tools/reference from the table of commands.\n"
#define FLAGS ".\\\" What follows is made by tools/reference from the table of flags.\n"
#define END ".\\\" Here ends what tools/reference makes.\n"

static const struct page {
	const char *file;
	void (*add)(struct buf *out);
	const char *begin; /* the mark before the part that is made; NULL: all of it is */
} pages[] = {
	{ "deploy/completion/_ccmd", completion_zsh, NULL },
	{ "deploy/completion/ccmd.bash", completion_bash, NULL },
	{ "deploy/completion/ccmd.fish", completion_fish, NULL },
	{ "docs/ccmd.8", commands_man, COMMANDS },
	{ "docs/ccmd.8", flags_man, FLAGS },
	{ "docs/reference/checks.md", checks_reference, NULL },
	{ "docs/reference/endpoints.md", endpoints_reference, NULL },
	{ "docs/reference/events.md", events_reference, NULL },
	{ "docs/reference/flags.md", flags_reference, NULL },
	{ "docs/reference/metrics.md", metrics_reference, NULL },
};

/* The present page with its part generated again. */
static bool
add_around(const struct page *page, struct str present, struct buf *out, struct error *err)
{
	const char *begin = strstr(present.ptr, page->begin);
	const char *end = begin ? strstr(begin, END) : NULL;

	if (!end)
		return err_set(err, ERR_INVALID, "%s has no marks around what is made", page->file);
	buf_add_str(out, str_n(present.ptr, (size_t)(begin - present.ptr) + strlen(page->begin)));
	page->add(out);
	buf_add_c(out, end);
	return true;
}

static bool
make_page(const struct page *page, const char *path, struct buf *out, struct error *err)
{
	CLEANUP(buf_fini) struct buf present = BUF_INIT(MIB(1));

	if (page->begin)
		return file_read(path, &present, err) &&
		       add_around(page, buf_str(&present), out, err);
	page->add(out);
	return true;
}

static bool
write_page(const char *path, struct str wanted, struct error *err)
{
	return file_replace(path, wanted, 0644, err);
}

static bool
check_page(const char *path, struct str wanted, struct error *err)
{
	CLEANUP(buf_fini) struct buf present = BUF_INIT(MIB(1));

	if (!file_read(path, &present, err))
		return false;
	if (!str_eq(buf_str(&present), wanted))
		return err_set(err, ERR_INVALID,
		               "%s does not match the program's tables: run tools/reference", path);
	return true;
}

static bool
do_page(const struct page *page, const char *folder, bool is_check, struct error *err)
{
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(MIB(1));
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(4));

	file_join(&path, str_c(folder), str_c(page->file));
	return make_page(page, path.ptr, &wanted, err) &&
	       (is_check ? check_page : write_page)(path.ptr, buf_str(&wanted), err);
}

int
main(int argc, char *argv[])
{
	bool is_check = argc == 3 && strcmp(argv[1], "check") == 0;
	int status = 0;
	struct error err;

	if (argc != 3 || (!is_check && strcmp(argv[1], "write") != 0)) {
		fprintf(stderr, "usage: reference write|check FOLDER\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		if (!do_page(&pages[i], argv[2], is_check, &err)) {
			fprintf(stderr, "%s\n", err.msg);
			status = 1;
		}
	}
	return status;
}
