/* watcher.c: see watcher.h. */
#include "providers/cloudlycke/watcher.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

enum {
	ASK_STOP = 1,
	ASK_RELOAD = 2,
	ASK_CHECK = 4,
};

#define FALLBACK_POLL_NS (5 * NS_PER_SEC)
#define BUSY_PAUSE_NS (20 * NS_PER_MS)

struct cl_watcher {
	struct cl_loader *loader;
	const char *path;
	char *folder;
	struct str name; /* of the file in its folder */
	pthread_t thread;
	bool is_started;
	int inotify_fd; /* -1: none to be had */
	int watch;      /* -1: the folder is not watched */
	int event_fd;   /* readable: look at asked */
	_Atomic unsigned asked;

	/* of the thread */
	bool is_enabled;
	int64_t debounce_ns, poll_ns;
	int64_t due_ns;        /* when to load; CLOCK_FOREVER: nothing has changed */
	struct cl_stamp noted; /* the file as last seen */
};

/* ---- the folder ---- */

static void
watch_folder(struct cl_watcher *w)
{
	if (w->inotify_fd >= 0 && w->watch < 0)
		w->watch = inotify_add_watch(w->inotify_fd, w->folder,
		                             IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_DELETE |
		                                     IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
		                                     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
}

/* Of all else that happens in the folder, what matters shows in the file's stamp: a ConfigMap's
 * file, say, is a link through another link that is turned. */
static bool
is_ours(const struct cl_watcher *w, const struct inotify_event *event)
{
	return event->mask & IN_Q_OVERFLOW || (event->len > 0 && str_eq_c(w->name, event->name));
}

/* The folder is gone or elsewhere: what has its name is watched from the next round on. */
static void
forget_folder(struct cl_watcher *w)
{
	if (w->watch >= 0)
		(void)inotify_rm_watch(w->inotify_fd, w->watch);
	w->watch = -1;
}

static bool
take_event(struct cl_watcher *w, const struct inotify_event *event)
{
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF) && event->wd == w->watch) {
		forget_folder(w);
		return true;
	}
	return is_ours(w, event);
}

/* True when something happened to our file. */
static bool
take_events(struct cl_watcher *w)
{
	_Alignas(struct inotify_event) char events[4096];
	bool is_touched = false;
	ssize_t n;

	while ((n = read(w->inotify_fd, events, sizeof(events))) > 0) {
		for (const char *at = events; at < events + n;) {
			const struct inotify_event *event = (const void *)at;

			is_touched = take_event(w, event) || is_touched;
			at += sizeof(*event) + event->len;
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

/* Every change restarts the wait for quiet. */
static void
note_changes(struct cl_watcher *w)
{
	struct cl_stamp now = cl_stamp_of(w->path);

	if (cl_stamp_eq(&now, &w->noted))
		return;
	w->noted = now;
	set_due(w, w->debounce_ns);
}

static void
load_file(struct cl_watcher *w, bool is_forced)
{
	w->due_ns = CLOCK_FOREVER;
	w->noted = cl_stamp_of(w->path);
	if (cl_loader_reload(w->loader, is_forced) == CL_BUSY)
		set_due(w, w->debounce_ns > BUSY_PAUSE_NS ? w->debounce_ns : BUSY_PAUSE_NS);
}

static int64_t
poll_interval(const struct cl_watcher *w)
{
	if (!w->is_enabled)
		return CLOCK_FOREVER;
	if (w->poll_ns > 0)
		return w->poll_ns;
	return w->watch >= 0 ? CLOCK_FOREVER : FALLBACK_POLL_NS;
}

/* Milliseconds for poll(), rounded up. */
static int
time_to_wait(const struct cl_watcher *w)
{
	int64_t wait_ns = poll_interval(w);

	if (w->due_ns != CLOCK_FOREVER) {
		int64_t due_in_ns = w->due_ns - clock_mono(&clock_real);

		wait_ns = due_in_ns < 0 ? 0 : due_in_ns < wait_ns ? due_in_ns : wait_ns;
	}
	if (wait_ns / NS_PER_MS >= INT_MAX)
		return -1;
	return (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* Sleeps until something happens; returns what was asked. */
static unsigned
wait_for_change(struct cl_watcher *w)
{
	struct pollfd fds[] = {
		{ .fd = w->event_fd, .events = POLLIN },
		{ .fd = w->is_enabled ? w->inotify_fd : -1, .events = POLLIN },
	};
	eventfd_t count;

	if (poll(fds, ARRAY_LEN(fds), time_to_wait(w)) <= 0)
		return 0;
	if (fds[0].revents)
		(void)eventfd_read(w->event_fd, &count);
	if (fds[1].revents && take_events(w))
		set_due(w, w->debounce_ns);
	return atomic_exchange(&w->asked, 0);
}

static void *
watcher_run(void *arg)
{
	struct cl_watcher *w = arg;
	unsigned asked = 0;

	while (!(asked & ASK_STOP)) {
		if (asked & ASK_RELOAD)
			load_file(w, /*is_forced=*/true);
		if (w->is_enabled) {
			watch_folder(w);
			note_changes(w);
		}
		if (w->due_ns != CLOCK_FOREVER && clock_mono(&clock_real) >= w->due_ns)
			load_file(w, /*is_forced=*/false);
		asked = wait_for_change(w);
	}
	return NULL;
}

/* ---- life cycle ---- */

struct cl_watcher *
cl_watcher_new(struct cl_loader *loader)
{
	struct cl_watcher *w = xcalloc(1, sizeof(*w));
	struct str path = str_c(cl_loader_path(loader)), folder = file_folder(path);

	w->loader = loader;
	w->path = path.ptr;
	w->folder = xstrndup(folder.ptr, folder.len);
	w->name = path;
	while (str_index(w->name, '/') >= 0)
		w->name = str_skip(w->name, (size_t)str_index(w->name, '/') + 1);
	w->due_ns = CLOCK_FOREVER;
	w->watch = -1;
	w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event_fd < 0)
		alloc_fail(1, sizeof(int)); /* no descriptors left before anything has begun */
	watch_folder(w);
	return w;
}

static void
watcher_ask(struct cl_watcher *w, unsigned what)
{
	atomic_fetch_or(&w->asked, what);
	(void)eventfd_write(w->event_fd, 1);
}

void
cl_watcher_free(struct cl_watcher *w)
{
	if (!w)
		return;
	if (w->is_started) {
		watcher_ask(w, ASK_STOP);
		thread_join(w->thread);
	}
	if (w->inotify_fd >= 0)
		close(w->inotify_fd);
	close(w->event_fd);
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
	w->noted = cl_stamp_of(w->path);
	if (w->is_enabled)
		set_due(w, w->debounce_ns); /* it may have changed while it was loaded */
	w->is_started = true;
	thread_start(&w->thread, "inventory", watcher_run, w);
}

void
cl_watcher_reload(struct cl_watcher *w)
{
	watcher_ask(w, ASK_RELOAD);
}

void
cl_watcher_check(struct cl_watcher *w)
{
	watcher_ask(w, ASK_CHECK);
}
