/* watcher.c: see watcher.h.
 *
 * The thread has one piece of state, due_ns: when the file is to be loaded. An event of the folder
 * or another stamp sets it to now plus the debounce time; every further change moves it. A file
 * that changes while it is read is due again. Other threads set bits in `requests` and wake poll()
 * by an eventfd.
 */
#include "providers/cloudlycke/watcher.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wake.h"

#define FALLBACK_POLL_NS (5 * NS_PER_SEC)
#define BUSY_PAUSE_NS (20 * NS_PER_MS)

struct cl_watcher {
	struct cl_loader *loader;
	const char *path;
	char *folder;
	struct str name; /* of the file in its folder */
	pthread_t thread;
	bool is_started;
	int inotify_fd; /* -1: the kernel gave none */
	int watch;      /* -1: the folder is not watched */
	int wake_fd;    /* readable: there are requests */
	_Atomic unsigned requests;

	/* used by the thread only */
	bool is_enabled;
	int64_t debounce_ns, poll_ns;
	int64_t due_ns;       /* when to load; CLOCK_FOREVER: nothing has changed */
	struct cl_stamp seen; /* of the file, when its stamp was taken last */
};

/* ---- the folder ---- */

/* All that may mean another content of the file: written in place, replaced by a rename, a link
 * changed, and the folder itself replaced. Tried again in each round while it fails. */
static void
watch_folder(struct cl_watcher *w)
{
	if (w->inotify_fd >= 0 && w->watch < 0)
		w->watch = inotify_add_watch(w->inotify_fd, w->folder,
		                             IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_DELETE |
		                                     IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
		                                     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
}

/* Reads all events; true when one concerns our file. Events of other names in the folder do not
 * count, even where our file is a link through them, as in a ConfigMap: such a change is found by
 * the file's stamp, which is compared after every event. */
static bool
read_events(struct cl_watcher *w)
{
	_Alignas(struct inotify_event) char events[4096];
	bool is_touched = false;
	ssize_t n;

	while ((n = read(w->inotify_fd, events, sizeof(events))) > 0) {
		for (const char *at = events; at < events + n;) {
			const struct inotify_event *event = (const void *)at;

			at += sizeof(*event) + event->len;
			if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF) &&
			    event->wd == w->watch) {
				/* The folder was removed or renamed: a folder of that name is
				 * watched from the next round on. */
				(void)inotify_rm_watch(w->inotify_fd, w->watch);
				w->watch = -1;
				is_touched = true;
			} else if (event->mask & IN_Q_OVERFLOW ||
			           (event->len > 0 && str_eq_c(w->name, event->name))) {
				is_touched = true;
			}
		}
	}
	return is_touched;
}

/* ---- the loop ---- */

static void
set_due(struct cl_watcher *w, int64_t delay_ns)
{
	w->due_ns = clock_deadline(clock_mono(&clock_real), delay_ns);
}

static void
load_file(struct cl_watcher *w, bool is_forced)
{
	enum cl_outcome outcome;

	w->due_ns = CLOCK_FOREVER;
	w->seen = cl_stamp_of(w->path);
	outcome = cl_loader_reload(w->loader, is_forced);
	if (outcome != CL_UNCHANGED)
		thread_trim();
	if (outcome == CL_BUSY)
		set_due(w, clock_later(w->debounce_ns, BUSY_PAUSE_NS));
}

/* Milliseconds for poll(), rounded up. */
static int
time_to_wait(const struct cl_watcher *w)
{
	int64_t wait_ns = CLOCK_FOREVER;

	if (w->is_enabled && w->poll_ns > 0)
		wait_ns = w->poll_ns;
	else if (w->is_enabled && w->watch < 0)
		wait_ns = FALLBACK_POLL_NS;
	wait_ns = clock_earlier(wait_ns, clock_left(clock_mono(&clock_real), w->due_ns));
	if (wait_ns / NS_PER_MS >= INT_MAX)
		return -1;
	return (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* Sleeps until an event, a request, or the next due time; returns the requests. */
static unsigned
wait_for_change(struct cl_watcher *w)
{
	struct pollfd fds[] = {
		{ .fd = w->wake_fd, .events = POLLIN },
		{ .fd = w->is_enabled ? w->inotify_fd : -1, .events = POLLIN },
	};

	if (poll(fds, ARRAY_LEN(fds), time_to_wait(w)) <= 0)
		return 0;
	if (fds[0].revents)
		(void)wake_drain(w->wake_fd);
	if (fds[1].revents && read_events(w))
		set_due(w, w->debounce_ns);
	return atomic_exchange(&w->requests, 0);
}

static void *
watcher_run(void *arg)
{
	struct cl_watcher *w = arg;
	unsigned requests = 0;

	while (!(requests & CL_WATCHER_STOP)) {
		struct cl_stamp now;

		if (requests & CL_WATCHER_RELOAD)
			load_file(w, /*is_forced=*/true);
		if (w->is_enabled) {
			watch_folder(w);
			now = cl_stamp_of(w->path);
			/* every change restarts the wait for quiet */
			if (!cl_stamp_eq(&now, &w->seen)) {
				w->seen = now;
				set_due(w, w->debounce_ns);
			}
		}
		if (w->due_ns != CLOCK_FOREVER && clock_mono(&clock_real) >= w->due_ns)
			load_file(w, /*is_forced=*/false);
		requests = wait_for_change(w);
	}
	return NULL;
}

/* ---- life cycle ---- */

struct cl_watcher *
cl_watcher_new(struct cl_loader *loader)
{
	struct cl_watcher *w = xcalloc(1, sizeof(*w));
	const char *path = cl_loader_path(loader), *slash = strrchr(path, '/');
	struct str folder = file_folder(str_c(path));

	*w = (struct cl_watcher){ .loader = loader,
		                  .path = path,
		                  .folder = xstrndup(folder.ptr, folder.len),
		                  .name = str_c(slash ? slash + 1 : path),
		                  .due_ns = CLOCK_FOREVER,
		                  .watch = -1,
		                  .inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
		                  .wake_fd = wake_open() };
	if (w->wake_fd < 0)
		alloc_fail(1, sizeof(int)); /* no descriptors are left at the start */
	watch_folder(w);
	return w;
}

void
cl_watcher_request(struct cl_watcher *w, enum cl_watcher_request request)
{
	atomic_fetch_or(&w->requests, (unsigned)request);
	wake_ring(w->wake_fd);
}

void
cl_watcher_free(struct cl_watcher *w)
{
	if (!w)
		return;
	if (w->is_started) {
		cl_watcher_request(w, CL_WATCHER_STOP);
		thread_join(w->thread);
	}
	if (w->inotify_fd >= 0)
		close(w->inotify_fd);
	close(w->wake_fd);
	free(w->folder);
	free(w);
}

void
cl_watcher_start(struct cl_watcher *w, const struct cl_reload *reload)
{
	w->is_enabled = reload->is_enabled;
	w->debounce_ns = reload->debounce_ns;
	w->poll_ns = reload->poll_ns;
	if (w->is_enabled && w->watch < 0)
		log_warn("the inventory's folder cannot be watched, polling the file");
	w->seen = cl_stamp_of(w->path);
	if (w->is_enabled)
		set_due(w, w->debounce_ns); /* it may have changed while it was loaded */
	w->is_started = true;
	thread_start(&w->thread, "inventory", watcher_run, w);
}
