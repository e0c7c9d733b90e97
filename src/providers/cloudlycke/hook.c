/* hook.c: see hook.h.
 *
 * Hooks are other people's programs: at most RUNNING_MAX run at a time, so that a change of all
 * Services does not start hundreds; callers wait for one to end, until their deadline. The fence is
 * checked after that wait, immediately before the program starts.
 */
#include "providers/cloudlycke/hook.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

enum {
	RUNNING_MAX = 4,
	GRACE_MS = 2000, /* from SIGTERM to SIGKILL */
	LAST_LINE_MAX = 500,
};

struct cl_hook {
	char *path;
	const char *what;
	int64_t timeout_ns;
	const struct cloud_host *host;
	pthread_mutex_t mu;
	pthread_cond_t ended;
	unsigned n_running; /* mu */
};

struct cl_hook *
cl_hook_new(struct str path, int64_t timeout_ns, const char *what, const struct cloud_host *host)
{
	struct cl_hook *hook = xcalloc(1, sizeof(*hook));

	*hook = (struct cl_hook){ .path = xstrndup(path.ptr, path.len),
		                  .what = what,
		                  .timeout_ns = timeout_ns,
		                  .host = host };
	mutex_init(&hook->mu);
	cond_init(&hook->ended);
	return hook;
}

void
cl_hook_free(struct cl_hook *hook)
{
	if (!hook)
		return;
	cond_destroy(&hook->ended);
	mutex_destroy(&hook->mu);
	free(hook->path);
	free(hook);
}

/* ---- one run ---- */

static bool
run_program(struct cl_hook *hook, struct call *call, const char *action, struct str input,
            struct error *err)
{
	CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
	const char *const argv[] = { hook->path, NULL };
	const char *const env[] = { arena_printf(call->arena, "CLOUDLYCKE_ACTION=%s", action).ptr,
		                    NULL };
	struct child_spec spec = { .argv = argv,
		                   .env = env,
		                   .input = input,
		                   .timeout_ms = hook->timeout_ns / NS_PER_MS,
		                   .grace_ms = GRACE_MS,
		                   .take_stderr = true };
	struct str line = STR_EMPTY;

	if (!fence_check(hook->host->fence, hook->host->clock, err))
		return false;
	if (!child_run(call, &spec, &result, err)) {
		if (err->code == ERR_CANCELLED)
			return false;
		if (err->code == ERR_TIMEOUT)
			return err_set(err, ERR_UNAVAILABLE, "%s hook failed: timed out",
			               hook->what);
		err->code = ERR_UNAVAILABLE;
		return err_wrap(err, "%s hook failed", hook->what);
	}
	if (result.out.len > 0)
		log_debug("output of a hook", LOG_CSTR("of", hook->what),
		          LOG_STR("output", buf_str(&result.out)));
	if (result.exit_code == 0)
		return true;
	/* The last line that a program prints is usually the reason of its failure. The event has
	 * no room for all lines. */
	for (struct str one, rest = buf_str(&result.err); str_split(&rest, '\n', &one);) {
		if (str_trim(one).len > 0)
			line = str_utf8_head(str_trim(one), LAST_LINE_MAX);
	}
	if (line.len == 0)
		line = result.signal > 0 ? arena_printf(call->arena, "signal %d", result.signal)
		                         : arena_printf(call->arena, "exit %d", result.exit_code);
	return err_set(err, ERR_UNAVAILABLE, "%s hook failed: %" STR_FMT, hook->what,
	               STR_ARG(line));
}

bool
cl_hook_run(struct cl_hook *hook, struct call *call, const char *action, struct str input,
            struct error *err)
{
	bool is_done;
	WITH_WAKE(call->cancel, &hook->mu, &hook->ended);
	WITH_LOCK(&hook->mu);

	while (hook->n_running >= RUNNING_MAX) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (!clock_wait(call->clock, &hook->ended, &hook->mu, call->deadline_mono_ns))
			return err_set(err, ERR_UNAVAILABLE,
			               "%s hook failed: other hooks took too long", hook->what);
	}
	hook->n_running++;
	mutex_unlock(&hook->mu);
	is_done = run_program(hook, call, action, input, err);
	mutex_lock(&hook->mu);
	hook->n_running--;
	cond_signal(&hook->ended);
	return is_done;
}
