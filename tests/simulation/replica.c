/* tests/simulation/replica.c: the objects, their variables, starts and ends; see replica.h. */
#include "replica.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "curl_model.h"
#include "parts.h"
#include "system.h"

enum {
	MAX_ARGUMENTS = 60,
	TOKEN_FD = 100, /* and the next numbers */
};

static const char kubeconfig[] = "apiVersion: v1\n"
				 "kind: Config\n"
				 "clusters: [{name: c, cluster: {server: 'https://192.0.2.1:6443',"
				 " insecure-skip-tls-verify: true}}]\n"
				 "users: [{name: u, user: {token: kube-%s}}]\n"
				 "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
				 "current-context: x\n";

static struct object {
	struct replica replica; /* the first member */
	void *handle;
	int (*main)(int argc, char *argv[]);
	/* the variables, and their first values */
	char *data, *first;
	size_t size;
	char *tls;
	size_t tls_size;
	char *argv[MAX_ARGUMENTS + 2];
	const char *const *environment;
	char kubeconfig[100], token[40], secret[40]; /* names of files */
} objects[N_REPLICAS];

static char folder_name[64];

/* ---- loading ---- */

static void
stop(const char *what, const char *why)
{
	(void)fprintf(stderr, "simulate: %s: %s\n", what, why);
	_exit(2);
}

struct search {
	struct object *object;
	uintptr_t address; /* of a function of the object */
};

/* The writable segment of the object, behind the part that the dynamic linker has made read-only.
 */
static int
find_segments(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	struct object *o = search->object;
	uintptr_t start = 0, end = 0, read_only_end = 0;
	size_t tls_size = 0;
	bool is_this = false;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && search->address - at < p->p_memsz)
			is_this = true;
		if (p->p_type == PT_LOAD && (p->p_flags & PF_W)) {
			start = at;
			end = at + p->p_memsz;
		} else if (p->p_type == PT_GNU_RELRO) {
			read_only_end = at + p->p_memsz;
		} else if (p->p_type == PT_TLS) {
			tls_size = p->p_memsz;
		}
	}
	if (!is_this)
		return 0;
	if (read_only_end > start && read_only_end < end)
		start = read_only_end;
	o->data = (char *)start;
	o->size = end - start;
	o->tls = info->dlpi_tls_data;
	o->tls_size = tls_size;
	return 1;
}

static void
load(struct object *o, const char *folder, unsigned index)
{
	static const char *const names[N_REPLICAS] = { "a", "b" };
	char path[4000];
	void (*touch)(void);
	struct search search = { .object = o };

	snprintf(path, sizeof(path), "%s/libreplica-%s.so", folder, names[index]);
	o->replica.name = names[index];
	o->replica.index = index;
	o->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!o->handle)
		stop("load", dlerror());
	o->main = (int (*)(int, char *[]))dlsym(o->handle, "replica_main");
	touch = (void (*)(void))dlsym(o->handle, "replica_touch_tls");
	if (!o->main || !touch)
		stop(path, "it lacks a function");
	touch();
	search.address = (uintptr_t)o->main;
	if (!dl_iterate_phdr(find_segments, &search) || !o->tls)
		stop(path, "its segments were not found");
	o->first = xmalloc(o->size);
	memcpy(o->first, o->data, o->size);
}

static void
write_kubeconfig(struct object *o)
{
	FILE *file;

	snprintf(o->kubeconfig, sizeof(o->kubeconfig), "%s/%s", folder_name, o->replica.name);
	file = fopen(o->kubeconfig, "w");
	/* doctor reports secrets that others can read */
	if (!file || fchmod(fileno(file), S_IRUSR | S_IWUSR) != 0 ||
	    fprintf(file, kubeconfig, o->replica.name) < 0 || fclose(file) != 0)
		stop(o->kubeconfig, "cannot be written");
}

void
replicas_load(const char *folder)
{
	const char *below = getenv("TMPDIR");

	snprintf(folder_name, sizeof(folder_name), "%s/ccmd-simulation-XXXXXX",
	         below && strlen(below) < 30 ? below : "/tmp");
	if (!mkdtemp(folder_name))
		stop(folder_name, "cannot be made");
	/* OpenSSL reads the real environment. It must not load this machine's certificates. */
	if (setenv("SSL_CERT_FILE", "/nonexistent", 1) != 0 ||
	    setenv("SSL_CERT_DIR", "/nonexistent", 1) != 0)
		stop("SSL_CERT_DIR", "cannot be set");
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		load(&objects[i], folder, i);
		write_kubeconfig(&objects[i]);
		snprintf(objects[i].token, sizeof(objects[i].token), "/proc/self/fd/%d",
		         TOKEN_FD + (int)i);
		snprintf(objects[i].secret, sizeof(objects[i].secret), "/proc/self/fd/%d",
		         TOKEN_FD + N_REPLICAS + (int)i);
	}
}

void
replicas_unload(void)
{
	for (unsigned i = 0; i < N_REPLICAS; i++)
		unlink(objects[i].kubeconfig);
	rmdir(folder_name);
}

struct replica *
replica_at(unsigned index)
{
	return &objects[index].replica;
}

/* ---- life ---- */

static struct object *
object_of(const struct replica *r)
{
	return &objects[r->index];
}

const char *
replica_kubeconfig(const struct replica *r)
{
	return object_of(r)->kubeconfig;
}

const char *
replica_token_file(const struct replica *r)
{
	return object_of(r)->token;
}

const char *
replica_secret_file(const struct replica *r)
{
	return object_of(r)->secret;
}

/* The file is of this process: the histories that run beside this one have others. */
static void
write_file(int number, const char *name, const char *text)
{
	int file = memfd_create("token", MFD_CLOEXEC);

	if (file < 0 || fchmod(file, S_IRUSR | S_IWUSR) != 0 ||
	    write(file, text, strlen(text)) != (ssize_t)strlen(text) || dup2(file, number) < 0 ||
	    close(file) != 0)
		stop(name, "cannot be written");
}

void
replica_write_token(const struct replica *r, const char *text)
{
	write_file(TOKEN_FD + (int)r->index, object_of(r)->token, text);
}

void
replica_write_secret(const struct replica *r, const char *text)
{
	write_file(TOKEN_FD + N_REPLICAS + (int)r->index, object_of(r)->secret, text);
}

void
replica_set_environment(struct replica *r, const char *const *variables)
{
	object_of(r)->environment = variables;
}

const char *
replica_getenv(const struct replica *r, const char *name)
{
	size_t n = strlen(name);

	for (const char *const *v = object_of(r)->environment; v && *v; v++) {
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	}
	return NULL;
}

static void *
run_main(void *arg)
{
	struct object *o = arg;
	int argc = 0;

	while (o->argv[argc])
		argc++;
	replica_exit(o->main(argc, o->argv));
}

void
replica_start(struct replica *r, const char *const *arguments)
{
	struct object *o = object_of(r);
	int argc = 0;

	for (int i = 0; o->argv[i]; i++)
		free(o->argv[i]);
	o->argv[argc++] = xstrdup("ccmd");
	for (; *arguments && argc <= MAX_ARGUMENTS; arguments++)
		o->argv[argc++] = xstrdup(*arguments);
	o->argv[argc] = NULL;
	memcpy(o->data, o->first, o->size);
	r->incarnation++;
	r->is_running = true;
	r->is_paused = false;
	trace("%s starts", r->name);
	system_start(r);
	fiber_set_name(fiber_new(r, run_main, o), "main");
}

static void
end(struct replica *r, int status)
{
	r->is_running = r->is_paused = false;
	r->suspended_ns = 0;
	r->exit_status = status;
	curl_model_drop(r);
}

void
replica_exit(int status)
{
	struct replica *r = fiber_replica(fiber_self());

	trace("%s exits with %d", r->name, status);
	end(r, status);
	fiber_drop(r);
	__builtin_unreachable();
}

void
replica_crash(struct replica *r)
{
	trace("%s crashes%s", r->name, fiber_holds_lock(r) ? " while it holds a lock" : "");
	end(r, -1);
	fiber_drop(r);
}

void
replica_pause(struct replica *r, bool is_paused)
{
	trace("%s %s", r->name, is_paused ? "is stopped" : "continues");
	r->is_paused = is_paused;
	if (is_paused)
		return;
	r->resumed_ns = schedule_now_ns();
	if (r->suspended_ns > 0) {
		int64_t for_ns = r->resumed_ns - r->suspended_ns;

		r->suspended_ns = 0;
		r->asleep_ns += for_ns;
		fiber_postpone(r, for_ns);
	}
	fiber_resume(r);
}

void
replica_suspend(struct replica *r)
{
	trace("the machine of %s is suspended", r->name);
	r->is_paused = true;
	r->suspended_ns = schedule_now_ns();
}

bool
replica_is_paused(const struct replica *r)
{
	return r->is_paused;
}

char *
replica_tls(const struct replica *r, size_t *ret_size)
{
	*ret_size = object_of(r)->tls_size;
	return object_of(r)->tls;
}
