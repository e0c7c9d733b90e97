/* standalone.c: runs a fuzz target over kept input, for compilers without libFuzzer.
 *
 * Arguments are files and folders. The files of a folder are run one after the other. A missing one
 * is no error, because a new target has no corpus yet. If an input crashes the target, its name is
 * the last one on standard error.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
fail(const char *what, const char *path)
{
	fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
	exit(2);
}

/* A buffer of the exact size, so that a read past the end is seen. */
static uint8_t *
read_all(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *room = malloc(INPUT_MAX), *exact;

	if (f == NULL || room == NULL)
		fail("open", path);
	*ret_size = fread(room, 1, INPUT_MAX, f);
	if (ferror(f))
		fail("read", path);
	fclose(f);
	exact = malloc(*ret_size + (*ret_size == 0));
	if (exact == NULL)
		fail("read", path);
	memcpy(exact, room, *ret_size);
	free(room);
	return exact;
}

static int
run_file(const char *path)
{
	size_t size;
	uint8_t *data = read_all(path, &size);

	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static int
run_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char file[4096];
	int n = 0;

	if (folder == NULL)
		fail("open", path);
	while ((entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) < (int)sizeof(file))
			n += run_file(file);
	}
	closedir(folder);
	return n;
}

int
main(int argc, char **argv)
{
	struct stat st;
	int n = 0;

	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &st) != 0)
			continue;
		n += S_ISDIR(st.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
	}
	printf("%d inputs\n", n);
	return 0;
}
