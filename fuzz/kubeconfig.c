/* Any bytes give a configuration that could work, or lines that say what is wrong. */
#include "kube/config.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file that exists only in memory, since the loader reads files. */
static const char *
write_file(const uint8_t *data, size_t size)
{
	static char path[32];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("kubeconfig", MFD_CLOEXEC);
		assert(fd >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	assert(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	return path;
}

static void
check_config(const struct kube_config *config)
{
	assert(str_starts(config->server, STR("http")) && !str_ends(config->server, STR("/")));
	assert(!config->is_insecure || config->ca_pem.len == 0);
	assert(!config->cert_pem.len == !secret_is_set(&config->key_pem));
	assert(!config->token_file.len || !secret_is_set(&config->token));
}

static void
check_problems(const char *path, struct str problems, const struct error *err)
{
	size_t n = 0;

	assert(err->code == ERR_INVALID || err->code == ERR_UNSUPPORTED);
	assert(str_starts(str_c(err->msg), str_c(path)) && str_ends(problems, STR("\n")));
	for (struct str line, rest = str_head(problems, problems.len - 1);
	     str_split(&rest, '\n', &line); n++)
		assert(str_starts(line, str_c(path)));
	assert(n <= LIMIT_PROBLEMS + 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64));
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_source source = { .kubeconfig = write_file(data, size) };
	struct error err;

	if (kube_config_load(&source, &config, &problems, &err))
		check_config(config);
	else
		check_problems(source.kubeconfig, buf_str(&problems), &err);
	return 0;
}
