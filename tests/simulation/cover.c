/* tests/simulation/cover.c: which parts of the replicas have run: tools/coverage.
 *
 * A replica that is compiled with -fsanitize-coverage=trace-pc calls __sanitizer_cov_trace_pc() in
 * each of its basic blocks. gcov would count in variables of the replica, which are restored at
 * each of its starts. The marks are in a file that all processes share. */
#include "cover.h"

#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	ROOM = 16 << 20, /* bytes of a replica's code */
};

static struct {
	uintptr_t start;
	unsigned char *marks; /* NULL: nothing is marked */
} places[2];

void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage)) void
__sanitizer_cov_trace_pc(void)
{
	uintptr_t pc = (uintptr_t)__builtin_return_address(0);

	for (int i = 0; i < 2; i++) {
		if (places[i].marks && pc >= places[i].start && pc - places[i].start < ROOM) {
			places[i].marks[pc - places[i].start] = 1;
			return;
		}
	}
}

static int
find_replica(struct dl_phdr_info *info, size_t size, void *marks)
{
	const char *name = strstr(info->dlpi_name, "libreplica-");

	(void)size;
	if (!name)
		return 0;
	places[name[strlen("libreplica-")] == 'b'].start = info->dlpi_addr;
	places[name[strlen("libreplica-")] == 'b'].marks = marks;
	return 0;
}

void
cover_begin(void)
{
	const char *name = getenv("COVERAGE_FILE");
	void *marks;
	int fd;

	if (!name)
		return;
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, ROOM) != 0) {
		perror(name);
		exit(2);
	}
	marks = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (marks != MAP_FAILED)
		dl_iterate_phdr(find_replica, marks);
	close(fd);
}
