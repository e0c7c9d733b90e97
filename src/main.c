/* main.c: flags, wiring and signals: the only file that knows every part.
 *
 * Order of the start: the flags; the configurations of the API server and of the cloud; the
 * sandbox; clients, which do not connect yet; the cloud; the wait for the API server; the HTTPS
 * server; the election, on its own thread; the controllers, when this process leads.
 *
 * Order of the end: no new work; a second of grace for running work; then everything that blocks is
 * cancelled, and all threads are joined; the lease is released if all work ended by itself; events
 * are flushed. Release and flush may also use what remains of the second of grace. When the lease
 * is lost, none of this applies: the process exits immediately, because another leader may be
 * active.
 */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/notify.h"
#include "base/watchdog.h"
#include "base/thread.h"
#include "base/version.h"
#include "serve/build_info.h"
#include "cloud/cloud.h"
#include "confine.h"
#include "controllers/manager.h"
#include "flags/controllers.h"
#include "flags/flags.h"
#include "kube/connection.h"
#include "kube/elector.h"
#include "loop.h"
#include "operator/command.h"
#include "serve/review.h"
#include "serving.h"
#include "signals.h"
#include "stopper.h"

enum {
	API_SERVER_WAIT_MS = 10000,
	EVENT_FLUSH_MS = 500,
	RELEASE_MS = 400,
	EXIT_BAD = 1,
	EXIT_WRONG_LINE = 2, /* as the commands for operators */
};

#define CLOUD_FAILED "Cloud provider could not be initialized"
#define SERVING_RELOAD_NS (60 * NS_PER_SEC)
/* When the lease expires, the elector's thread has this much time to report the loss with its
 * reason, before the main thread ends the process. */
#define EXPIRY_MARGIN_NS (100 * NS_PER_MS)
/* The release may use at most this much of the unused grace period, and so may the events: an API
 * server that does not respond must not delay the exit by a long grace period. */
#define MAX_UNUSED_GRACE_NS (5 * NS_PER_SEC)

/* All parts of the program, in the order in which they are created. */
struct program {
	struct options options;
	struct cancel *cancel;
	struct dry_run *dry; /* NULL: without --dry-run */
	struct fence fence;  /* stays closed in a dry run */
	struct kube_connection *connection;
	struct review_connections reviews;
	/* the client of the connection; the next line: the same one under other user agents */
	struct kube_client *kube;
	struct kube_client root, informers, of_controllers[N_CONTROLLERS];
	struct controller_parts parts;
	struct stopper *stopper; /* until the loop runs */
	struct loop *loop;
	struct health *health;
	struct manager *manager;
	struct elector *elector; /* NULL: without election */
	struct serving *serving;
};

/* ---- running: called by the loop ---- */

static void
main_on_signal(void *program, int signal)
{
	struct program *p = program;

	if (signal != SIGHUP) {
		log_info("stopping", LOG_CSTR("signal", signals_name(signal)));
		notify_send("STOPPING=1");
		loop_end(p->loop);
		return;
	}
	notify_reloading();
	log_info("reloading, on SIGHUP");
	if (p->parts.cloud->ops->reload)
		p->parts.cloud->ops->reload(p->parts.cloud);
	serving_reload(p->serving);
	notify_send("READY=1");
}

/* This process may act now: with election, because it has the lease; without, from the start. */
static void
main_on_woken(void *program)
{
	struct program *p = program;
	struct elector_term term = { 0 };

	if (manager_is_started(p->manager))
		return;
	if (p->elector)
		term = elector_term(p->elector);
	/* Without election a restart by the operator and a restart after a crash look the same; it
	 * is treated as the former (docs/deletion.md). */
	manager_start(p->manager, str_c(term.version),
	              /*may_follow_crash=*/p->elector && !term.was_handed_over);
	for (enum controller which = 0; which < N_CONTROLLERS; which++) {
		if (!controllers_why_not(&p->options, p->parts.cloud, which))
			health_add(p->health, controllers_names[which].name, HEALTH_HEALTHZ, NULL,
			           NULL);
	}
	notify_send(p->dry ? "STATUS=dry run" : "STATUS=leading");
}

/* Another replica may lead already, so no work is finished and no thread is joined. */
static void
main_on_lost(void *program, const char *why)
{
	(void)program;
	log_error("leaderelection lost", LOG_CSTR("reason", why));
	_exit(EXIT_BAD);
}

/* The elector's thread should have reported the loss before, so it must be stuck. */
static void
main_on_expired(void *program)
{
	main_on_lost(program, "the lease was not renewed in time, and the elector did not notice");
}

/* systemd's watchdog is only fed while no other thread is stuck. */
static void
feed_watchdog(void *program)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(1));

	(void)program;
	if (watchdog_late(&clock_real, &names))
		log_error("threads are stuck", LOG_STR("threads", buf_str(&names)));
	else
		notify_send("WATCHDOG=1");
}

/* ---- election: called by the elector's thread ---- */

static void
main_on_leading(void *program)
{
	struct program *p = program;

	loop_wake(p->loop);
}

static void
main_on_renewed(void *program, int64_t deadline_boot_ns)
{
	struct program *p = program;

	loop_set_expiry(p->loop, deadline_boot_ns + EXPIRY_MARGIN_NS);
}

static bool
start_election(struct program *p, struct error *err)
{
	const struct election_options *o = &p->options.election;
	struct kube_client_options options = { .name = "lease", .agent = "leader-election" };
	struct elector_config config = {
		.clock = &clock_real,
		.fence = &p->fence,
		.recorder = p->parts.recorder,
		.namespace = o->resource_namespace,
		.name = o->resource_name,
		.identity = str_c(p->parts.identity),
		.lease_duration_ns = o->lease_duration_ns,
		.renew_deadline_ns = o->renew_deadline_ns,
		.retry_period_ns = o->retry_period_ns,
		.started = main_on_leading,
		.lost = main_on_lost,
		.renewed = main_on_renewed,
		.arg = p,
	};

	if (!kube_connection_client(p->connection, &options, &config.kube, err))
		return err_wrap(err, "leader election");
	p->elector = elector_new(&config);
	health_add(p->health, "leaderElection", HEALTH_HEALTHZ | HEALTH_LIVEZ, elector_health,
	           p->elector);
	return true;
}

/* ---- start ---- */

/* Reads all configuration, which determines the rights that the program will need, then gives up
 * all others. No other thread may run yet, because it would keep them. */
static bool
configure(struct program *p, struct error *err)
{
	const struct options *o = &p->options;
	struct kube_config_source source = { .kubeconfig = o->kubeconfig, .master = o->master };

	if (!kube_connection_open(&source, &clock_real, &p->connection, err)) {
		if (o->kubeconfig[0] && !o->master[0])
			return err_wrap(err, "--kubeconfig");
		return false;
	}
	if (!controllers_load_cloud(o, o->is_dry_run, &p->parts.cloud, err))
		return err_wrap(err, CLOUD_FAILED);
	review_connections_load(&p->reviews, o, p->connection);
	confine(o, p->connection, &p->reviews, &p->parts.cloud->needs);
	return true;
}

/* Sets the client of each controller that runs; the others stay NULL. A controller has the shared
 * client, under its own user agent, or, with --use-service-account-credentials, one for its
 * account. Controllers with the same account are neighbours in the enum, and share the client. */
static bool
choose_clients(struct program *p, struct kube_client *ret[N_CONTROLLERS], struct error *err)
{
	/* to request the token of an account would change the cluster */
	bool uses_accounts = p->options.use_service_account_credentials && !p->dry;
	struct kube_client_options options = {
		.fence = &p->fence,
		.qps = p->options.kube_api_qps,
		.burst = p->options.kube_api_burst,
	};
	struct kube_client *client = NULL; /* of options.service_account */

	for (enum controller which = 0; which < N_CONTROLLERS; which++) {
		const struct controller_names *names = &controllers_names[which];
		const char *reason = controllers_why_not(&p->options, p->parts.cloud, which);

		if (reason) {
			log_warn(reason, LOG_CSTR("controller", names->name));
			continue;
		}
		if (!uses_accounts) {
			p->of_controllers[which] = kube_connection_named(p->connection, p->kube,
			                                                 names->account);
			ret[which] = &p->of_controllers[which];
			continue;
		}
		if (!client || strcmp(options.service_account, names->account) != 0) {
			options.name = names->account;
			options.agent = names->account;
			options.service_account = names->account;
			if (!kube_connection_client(p->connection, &options, &client, err))
				return err_wrap(err, "%s", names->name);
		}
		ret[which] = client;
	}
	return true;
}

static bool
start_program(struct program *p, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = &clock_real,
		             .cancel = p->cancel,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct kube_client_options shared = {
		.name = "http",
		.fence = &p->fence,
		.qps = p->options.kube_api_qps,
		.burst = p->options.kube_api_burst,
	};
	struct manager_config manager;

	if (!configure(p, err))
		return false;

	/* the client, which does not connect yet */
	if (!kube_connection_client(p->connection, &shared, &p->kube, err))
		return false;
	p->root = kube_connection_named(p->connection, p->kube, "cloud-controller-manager");
	p->informers = kube_connection_named(p->connection, p->kube, "shared-informers");

	/* what follows may block */
	p->stopper = stopper_new(p->cancel);
	if (!controllers_start_cloud(&p->parts, &p->options, &p->fence, p->dry ? NULL : &p->root,
	                             err))
		return err_wrap(err, CLOUD_FAILED);
	manager = controllers_config(&p->options, &p->parts);
	if (!choose_clients(p, manager.clients, err) ||
	    !controllers_check_cluster_cidr(&p->options, p->parts.cloud, err))
		return false;
	manager.shared = &p->informers;
	manager.dry = p->dry;
	p->manager = manager_new(&manager);

	/* the loop, and what others see of this process */
	p->loop = loop_new(&(struct loop_handlers){ .signalled = main_on_signal,
	                                            .woken = main_on_woken,
	                                            .expired = main_on_expired,
	                                            .arg = p });
	p->health = health_new();
	health_add(p->health, "progress", HEALTH_HEALTHZ | HEALTH_LIVEZ, watchdog_health,
	           &clock_real);
	health_add(p->health, "informers", HEALTH_READYZ, manager_has_synced, p->manager);
	if (!kube_wait_healthy(&p->root, &call, API_SERVER_WAIT_MS, err))
		return err_wrap(err, "the API server at %" STR_FMT " cannot be used",
		                STR_ARG(kube_connection_config(p->connection)->server));
	if (!serving_start(&(struct serving_config){ .options = &p->options,
	                                             .loop = p->loop,
	                                             .health = p->health,
	                                             .cancel = p->cancel,
	                                             .reviews = &p->reviews,
	                                             .manager = p->manager,
	                                             .cloud = p->parts.cloud },
	                   &p->serving, err))
		return false;

	/* The election comes last: a process that cannot serve, because its port is in use or it
	 * may not read the authorities that it has to trust, would otherwise take the Lease away
	 * from a healthy replica each time it is started. */
	if (p->options.election.is_enabled && !start_election(p, err))
		return false;

	loop_every(p->loop, SERVING_RELOAD_NS, serving_reload, p->serving);
	if (notify_watchdog_ns() > 0)
		loop_every(p->loop, notify_watchdog_ns(), feed_watchdog, p);
	notify_send(p->elector ? "READY=1\nSTATUS=standing by" : "READY=1");
	if (!p->elector)
		loop_wake(p->loop); /* it acts immediately */
	return true;
}

/* ---- end ---- */

/* How long a step of the end may take: own_ms, and what remains of the grace period, up to
 * MAX_UNUSED_GRACE_NS. */
static int64_t
stop_limit_ms(int64_t grace_end_ns, int64_t own_ms)
{
	int64_t left_ns = clock_left(clock_mono(&clock_real), grace_end_ns);

	return own_ms + clock_earlier(left_ns, MAX_UNUSED_GRACE_NS) / NS_PER_MS;
}

static void
stop_program(struct program *p)
{
	int64_t grace_ns = p->options.grace_period_ns;
	int64_t grace_end_ns = clock_deadline(clock_mono(&clock_real), grace_ns);
	/* only if no work goes on may another replica begin before the lease has expired */
	bool is_done = !p->manager || manager_stop(p->manager, grace_ns);

	if (p->elector)
		elector_stop(p->elector, is_done, stop_limit_ms(grace_end_ns, RELEASE_MS));
	elector_free(p->elector);
	serving_stop(p->serving);
	/* After the release of the lease, because on a busy machine the kernel may take seconds to
	 * close an inotify descriptor. Before the recorder is freed, because the threads of the
	 * cloud may send events until they are joined. */
	if (p->parts.cloud)
		p->parts.cloud->ops->close(p->parts.cloud);
	recorder_free(p->parts.recorder,
	              p->manager ? stop_limit_ms(grace_end_ns, EVENT_FLUSH_MS) : 0);
	manager_free(p->manager);
	dry_log_free(p->dry);
	host_free(p->parts.host);
	store_free(p->parts.nodes);
	health_free(p->health);
	review_connections_fini(&p->reviews);
	kube_connection_close(p->connection);
	cancel_free(p->cancel);
	loop_free(p->loop);
}

/* ---- the process ---- */

/* Repairs what the parent process may have left behind, and tunes the allocator. */
static void
prepare_process(void)
{
	/* If standard descriptors are closed, the log would go into the first file that we open;
	 * the lowest free number is always that of the closed one. A closed standard output stays
	 * one that cannot be written, so that commands can report it. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
	}

	/* if SIGCHLD is ignored, no child process can be waited for */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);

	/* One malloc arena is enough, because threads wait far more than they allocate, and each
	 * further one costs memory. Large buffers are returned to the kernel when they are freed.
	 * musl behaves like this by itself. */
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, (int)KIB(128));
	mallopt(M_TRIM_THRESHOLD, (int)KIB(256));
#endif
}

/* With --dry-run. The process does not lead, so the fence stays closed. All controllers run as if
 * it led. Three things keep it from changing anything: the controllers and the cloud note each
 * change instead of making it; the fence stops hooks and file writes of code that fails to do so,
 * and requests are refused by every HTTP client. The requests that are still sent ask the API
 * server about callers of our server, or log in to the cloud. */
static void
begin_dry_run(struct program *p)
{
	static const char *posts[] = { REVIEW_TOKEN_TARGET, REVIEW_ACCESS_TARGET, NULL, NULL };

	posts[2] = cloud_find(str_c(p->options.cloud_provider))->login_target;
	http_set_read_only(posts);
	p->dry = dry_log_new();
	p->options.election.is_enabled = false;
	p->fence = FENCE_READ_ONLY;
	log_info("dry run: changes are logged and not made");
}

/* A configuration may have several problems: each is a line of the message. Whether a wrong
 * --cluster-cidr ends the program depends on the cloud. If the start has failed before the cloud
 * was known, it is reported as well, so that one start shows all problems. */
static void
log_why_not_started(const struct options *o, const struct error *err)
{
	log_lines(LOG_ERROR, "cannot start", "err", str_c(err->msg));
	if (options_want_routes(o) && o->routes.cidr_problem[0] &&
	    !strstr(err->msg, o->routes.cidr_problem))
		log_warn("--cluster-cidr is invalid", LOG_CSTR("problem", o->routes.cidr_problem));
}

/* The commands come first: somebody who looks for help looks for them rather than for flags. */
static int
print_help(struct str flags)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(128));

	buf_add_c(&out, "ccmd is a cloud-controller-manager for Kubernetes.\n\n");
	(void)!command_help(STR_EMPTY, &out);
	buf_add_str(&out, flags);
	return fd_print(buf_str(&out)) ? 0 : EXIT_WRONG_LINE;
}

/* Who may change anything: nobody in a dry run, and with an election only the leader. Replicas that
 * lead with different Leases are told apart by the name of the Lease, which the metric shows. */
static void
set_fence(struct program *p)
{
	CLEANUP(buf_fini) struct buf lease = BUF_INIT(LIMIT_NAME);
	const struct election_options *e = &p->options.election;

	p->fence = FENCE_OPEN;
	if (p->options.is_dry_run)
		begin_dry_run(p);
	if (e->is_enabled) {
		p->fence = FENCE_CLOSED;
		buf_addf(&lease, "%s/%s", e->resource_namespace, e->resource_name);
	}
	fence_show(&p->fence, &clock_real, lease.len > 0 ? lease.ptr : "none");
}

/* Returns the exit code of the process. */
static int
run_program(struct program *p)
{
	struct error err;
	bool is_started, is_stopped;

	p->cancel = cancel_new();
	log_info("ccmd starts", LOG_STR("version", str_skip(version_get(), 1)),
	         LOG_CSTR("cloud", p->options.cloud_provider));
	is_started = start_program(p, &err);
	is_stopped = stopper_free(p->stopper); /* a signal has arrived during the start */
	if (is_started && !is_stopped)
		loop_run(p->loop);
	else if (!is_stopped)
		log_why_not_started(&p->options, &err);
	stop_program(p);
	options_fini(&p->options);
	return is_started || is_stopped ? 0 : EXIT_BAD;
}

int
main(int argc, char *argv[])
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf warnings = BUF_INIT(KIB(64));
	struct program p = { 0 };

	prepare_process();
	if (command_is_given(argc, argv))
		return command_main(argc, argv); /* signals end a command by themselves */
	/* As early as possible, so that the exit code is 0 whenever a signal arrives. The signal
	 * stays pending until the thread "stopper" reads it, which starts after the sandbox. */
	signals_block();

	switch (flags_parse(argc, argv, &p.options, &out, &problems, &notes, &warnings)) {
	case FLAGS_HELP:
		return print_help(buf_str(&out));
	case FLAGS_VERSION:
		return fd_print(buf_str(&out)) ? 0 : EXIT_WRONG_LINE;
	case FLAGS_BAD:
		if (argc == 1)
			buf_add_c(&problems, "ccmd help lists the commands\n");
		(void)!fd_write_all(STDERR_FILENO, buf_str(&problems));
		return EXIT_WRONG_LINE;
	case FLAGS_RUN:
		break;
	}
	version_set(p.options.version);
	controllers_choose_numbers(&p.options);
	confine_secrets(&p.options);

	/* the log; flags without effect come first, so that users do not rely on them */
	log_setup(p.options.log_format, (int)p.options.verbosity);
	log_lines(LOG_INFO, "flag is accepted and has no effect", "flag", buf_str(&notes));
	log_lines(LOG_WARN, "flags", "warning", buf_str(&warnings));
	flags_log(&p.options);

	notify_setup();
	build_info_setup();
	metrics_process_setup();
	set_fence(&p);
	return run_program(&p);
}
