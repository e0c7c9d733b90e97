/* reference.c: the pages of docs/reference/ that are made from the program's own tables.
 *
 *	reference write FOLDER    makes them anew
 *	reference check FOLDER    fails, and names them, when one is not what the tables give
 *
 * A page is a line in pages[] below. Nothing of this is in the program that ships.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "flags/reference.h"
#include "reference_pages.h"

static const struct {
	const char *file;
	void (*add)(struct buf *out);
} pages[] = {
	{ "endpoints.md", endpoints_reference },
	{ "events.md", events_reference },
	{ "flags.md", flags_reference },
	{ "metrics.md", metrics_reference },
};

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
		               "%s is not what the program's tables give: run tools/reference",
		               path);
	return true;
}

int
main(int argc, char *argv[])
{
	bool is_check = argc == 3 && strcmp(argv[1], "check") == 0;
	int status = 0;

	if (argc != 3 || (!is_check && strcmp(argv[1], "write") != 0)) {
		fprintf(stderr, "usage: reference write|check FOLDER\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		CLEANUP(buf_fini) struct buf page = BUF_INIT(MIB(1));
		CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(4));
		struct error err;

		pages[i].add(&page);
		file_join(&path, str_c(argv[2]), str_c(pages[i].file));
		if (!(is_check ? check_page : write_page)(path.ptr, buf_str(&page), &err)) {
			fprintf(stderr, "%s\n", err.msg);
			status = 1;
		}
	}
	return status;
}
