/* Arguments, one per line. They give options that can be used, text after which the program ends,
 * or problems of one line each. */
#include "flags/flags.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "flags/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MAX_ARGUMENTS = 64,
};

static void
check_options(const struct options *o)
{
	for (size_t i = 0; i < flag_count(); i++)
		assert(o->states[i].text);
	assert(o->serving.secure.port >= 0 && o->serving.secure.port <= 65535);
	assert(o->n_node_workers >= 0);
	assert(o->election.lease_duration_ns >= 0 && o->routes.n_cidrs <= 2);
	assert(o->kube_api_qps >= 0 && o->verbosity >= 0);
	(void)controllers_enabled(o, "service-lb-controller");
}

static void
check_command_line(int argc, char *argv[], struct options *o)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(MIB(1));
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf warnings = BUF_INIT(MIB(1));

	switch (flags_parse(argc, argv, o, &out, &problems, &notes, &warnings)) {
	case FLAGS_RUN:
		assert(problems.len == 0);
		check_options(o);
		break;
	case FLAGS_HELP:
	case FLAGS_VERSION:
		assert(out.len > 0 && buf_ok(&out));
		break;
	case FLAGS_BAD:
		assert(problems.len > 0);
		assert(!buf_ok(&problems) || problems.ptr[problems.len - 1] == '\n');
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *argv[MAX_ARGUMENTS] = { (char *)"ccmd" };
	struct options options;
	char *line, *rest;
	int argc = 1;

	assert(text);
	memcpy(text, data, size);
	text[size] = '\0';
	rest = text;
	while ((line = strsep(&rest, "\n")) && argc < MAX_ARGUMENTS)
		argv[argc++] = line;
	check_command_line(argc, argv, &options);
	options_fini(&options);
	free(text);
	return 0;
}
