/* tests/flags/line.c: see line.h. */
#include "line.h"

struct buf line_out = { .ptr = buf_empty, .max = KIB(64) };
struct buf line_problems = { .ptr = buf_empty, .max = KIB(64) };
struct buf line_notes = { .ptr = buf_empty, .max = KIB(64) };
struct buf line_warnings = { .ptr = buf_empty, .max = KIB(64) };
struct options line_options;

enum {
	MAX_ARGUMENTS = 64,
};

enum flags_outcome
parse_list(const char *const *arguments)
{
	char *argv[MAX_ARGUMENTS] = { (char *)"ccmd", (char *)"--cloud-provider=cloudlycke" };
	int argc = 2;

	while (*arguments && argc < MAX_ARGUMENTS)
		argv[argc++] = (char *)(uintptr_t)*arguments++;
	assert_null(*arguments);
	buf_reset(&line_out);
	buf_reset(&line_problems);
	buf_reset(&line_notes);
	buf_reset(&line_warnings);
	options_fini(&line_options);
	return flags_parse(argc, argv, &line_options, &line_out, &line_problems, &line_notes,
	                   &line_warnings);
}

int
line_fini(void **state)
{
	(void)state;
	options_fini(&line_options);
	buf_fini(&line_out);
	buf_fini(&line_problems);
	buf_fini(&line_notes);
	buf_fini(&line_warnings);
	return 0;
}
