/* main.c: flags, wiring, signals: the one file that knows every part.
 *
 * Order of start: flags, configuration, clients (no connection yet), the cloud, then the API server, the election, and
 * when it is won the controllers. Order of the end: no new work, a second of grace for what runs, then everything that
 * blocks is cancelled, threads are joined, the lease is given back, events are flushed. Who loses the lease has no end:
 * _exit(1), by the elector's thread or, if that hangs, by the loop.
 */
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "cloud/cloud.h"
#include "controllers/manager.h"
#include "flags/flags.h"
#include "kube/connection.h"
#include "kube/elector.h"
#include "kube/node.h"
#include "loop.h"

enum {
	AUTO_NODE_WORKERS = 8,     /* as many as the gate lets through */
	AUTO_SERVICE_WORKERS = 10, /* most of them wait for the cloud */
	API_SERVER_WAIT_MS = 10000,
	RELEASE_MS = 400,
	EVENT_FLUSH_MS = 500,
	EXIT_BAD = 1,
};

/* The elector's thread goes first: it knows why. */
#define EXPIRY_MARGIN_NS (100 * NS_PER_MS)

/* Everything there is, in the order it is made. */
struct program {
	struct options options;
	struct cancel *cancel;
	struct fence fence;
	struct kube_connection *connection;
	struct kube_client *kube; /* the connection's */
	struct recorder *recorder;
	struct store *nodes;
	struct host *host;
	struct cloud *cloud;
	struct loop *loop;
	struct manager *manager;
	struct elector *elector; /* NULL: no election, we lead */
};

/* One arena, since threads wait far more than they allocate, and a second costs memory; and large buffers go back to
 * the kernel when they are freed. */
static void
tune_malloc(void)
{
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, (int)KIB(128));
	mallopt(M_TRIM_THRESHOLD, (int)KIB(256));
}

/* ---- start ---- */

static bool
connect_api_server(struct program *p, struct error *err)
{
	struct kube_config_source source = { .kubeconfig = p->options.kubeconfig,
		                             .master = p->options.master };
	struct kube_client_options options = {
		.name = "http",
		.fence = &p->fence,
		.qps = p->options.kube_api_qps,
		.burst = p->options.kube_api_burst,
	};

	return kube_connection_open(&source, &clock_real, &p->connection, err) &&
	       kube_connection_client(p->connection, &options, &p->kube, err);
}

static bool
open_cloud(struct program *p, struct error *err)
{
	const struct cloud_ops *ops = cloud_find(str_c(p->options.cloud_provider));
	struct cloud_config config = {
		.path = p->options.cloud_config[0] ? p->options.cloud_config : NULL,
		.cluster_name = p->options.cluster_name,
	};

	if (ops->node_annotations)
		node_keep_annotations(ops->node_annotations);
	p->recorder = recorder_new(p->kube, &clock_real);
	p->nodes = store_new(&node_kind, &clock_real);
	p->host = host_new(&(struct host_config){ &clock_real, &p->fence, p->nodes, p->recorder });
	if (!ops->open(&config, host_cloud_host(p->host), &p->cloud, err))
		return err_wrap(err, "Cloud provider could not be initialized");
	return true;
}

/* Does the cloud have that ability, as it is configured? */
static bool
offers(struct program *p, const void *ops)
{
	struct cloud *cloud = p->cloud;

	return ops && (!cloud->ops->offers || cloud->ops->offers(cloud, ops));
}

static struct manager_config
manager_config(struct program *p)
{
	const struct options *o = &p->options;

	return (struct manager_config){
		.clock = &clock_real,
		.shared = p->kube,
		.node_client = p->kube,
		.lifecycle_client = p->kube,
		.service_client = offers(p, p->cloud->ops->balancers) ? p->kube : NULL,
		.recorder = p->recorder,
		.nodes = p->nodes,
		.host = p->host,
		.cloud = p->cloud,
		.node = { .n_workers = o->n_node_workers > 0 ? (unsigned)o->n_node_workers
		                                             : AUTO_NODE_WORKERS,
		          .refresh_period_ns = o->node_refresh_period_ns },
		.lifecycle = { .guard = o->guard, .period_ns = o->node_monitor_period_ns },
		.service = { .n_workers = AUTO_SERVICE_WORKERS, .cluster_name = o->cluster_name },
	};
}

static bool
wait_for_api_server(struct program *p, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { &clock_real, p->cancel, CLOCK_FOREVER, &arena };

	if (!kube_wait_healthy(p->kube, &call, API_SERVER_WAIT_MS, err))
		return err_wrap(err, "the API server at %" STR_FMT " cannot be used",
		                STR_ARG(kube_connection_server(p->connection)));
	return true;
}

/* ---- while it runs: called by the loop ---- */

static void
on_signal(void *program, int signal)
{
	struct program *p = program;

	if (signal != SIGHUP) {
		log_info("stopping", LOG_CSTR("signal", sigabbrev_np(signal)));
		loop_end(p->loop);
		return;
	}
	log_info("reloading, on SIGHUP");
	if (p->cloud->ops->reload)
		p->cloud->ops->reload(p->cloud);
}

/* We may act now: at once without election, when the lease is ours with it. */
static void
on_told(void *program)
{
	struct program *p = program;

	if (!manager_is_started(p->manager))
		manager_start(p->manager);
}

/* ---- the election ---- */

/* Another may lead already, so nothing is finished and nobody is waited for. */
static void
on_lost(void *program, const char *why)
{
	(void)program;
	log_error("leaderelection lost", LOG_CSTR("reason", why));
	_exit(EXIT_BAD);
}

/* The elector's thread should have said so before. */
static void
on_expired(void *program)
{
	on_lost(program, "not renewed in time, and not noticed");
}

static void
on_elected(void *program)
{
	struct program *p = program;

	loop_tell(p->loop);
}

static void
on_renewed(void *program, int64_t deadline_boot_ns)
{
	struct program *p = program;

	loop_set_expiry(p->loop, deadline_boot_ns + EXPIRY_MARGIN_NS);
}

static bool
start_election(struct program *p, struct error *err)
{
	CLEANUP(buf_fini) struct buf identity = BUF_INIT(KIB(1));
	const struct election_options *o = &p->options.election;
	struct kube_client_options options = { .name = "lease", .agent = "leader-election" };
	struct kube_client *kube;

	if (!kube_connection_client(p->connection, &options, &kube, err))
		return false;
	elector_identity(&identity);
	p->elector = elector_new(&(struct elector_config){
		.kube = kube,
		.clock = &clock_real,
		.fence = &p->fence,
		.recorder = p->recorder,
		.namespace = o->resource_namespace,
		.name = o->resource_name,
		.identity = buf_str(&identity),
		.lease_duration_ns = o->lease_duration_ns,
		.renew_deadline_ns = o->renew_deadline_ns,
		.retry_period_ns = o->retry_period_ns,
		.started = on_elected,
		.lost = on_lost,
		.renewed = on_renewed,
		.arg = p,
	});
	return true;
}

static bool
start(struct program *p, struct error *err)
{
	struct manager_config config;

	if (!p->options.election.is_enabled)
		fence_renew(&p->fence, CLOCK_FOREVER);
	if (!connect_api_server(p, err) || !open_cloud(p, err) || !wait_for_api_server(p, err))
		return false;
	p->loop = loop_new(&(struct loop_handlers){
		.signalled = on_signal, .told = on_told, .expired = on_expired, .arg = p });
	config = manager_config(p);
	p->manager = manager_new(&config);
	if (p->options.election.is_enabled)
		return start_election(p, err);
	loop_tell(p->loop);
	return true;
}

/* ---- end ---- */

static void
stop(struct program *p)
{
	bool has_ended = !p->manager || manager_stop(p->manager, p->options.grace_period_ns);

	if (p->cloud)
		p->cloud->ops->close(p->cloud);
	if (p->elector)
		elector_stop(p->elector, /*release=*/has_ended, RELEASE_MS);
	elector_free(p->elector);
	recorder_free(p->recorder, p->manager ? EVENT_FLUSH_MS : 0);
	manager_free(p->manager);
	host_free(p->host);
	store_free(p->nodes);
	kube_connection_close(p->connection);
	cancel_free(p->cancel);
	loop_free(p->loop);
}

static void
write_all(int fd, struct str text)
{
	while (text.len > 0) {
		ssize_t n = write(fd, text.ptr, text.len);

		if (n <= 0)
			return;
		text = str_skip(text, (size_t)n);
	}
}

/* Flags that mean nothing here are told once, so that nobody wonders. */
static void
log_notes(struct str notes, struct str warnings)
{
	for (struct str line, rest = notes; str_split(&rest, '\n', &line);) {
		if (line.len > 0)
			log_info("flag is accepted and has no effect", LOG_STR("flag", line));
	}
	for (struct str line, rest = warnings; str_split(&rest, '\n', &line);) {
		if (line.len > 0)
			log_warn("flags", LOG_STR("warning", line));
	}
}

static int
run(struct program *p)
{
	struct error err;

	log_info("ccmd starts", LOG_CSTR("version", CCMD_VERSION),
	         LOG_CSTR("cloud", p->options.cloud_provider));
	if (!start(p, &err)) {
		log_error("cannot start", LOG_ERR(&err));
		stop(p);
		return EXIT_BAD;
	}
	loop_run(p->loop);
	stop(p);
	return 0;
}

int
main(int argc, char *argv[])
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf warnings = BUF_INIT(KIB(64));
	struct program p = { .fence = FENCE_CLOSED };
	int status;

	tune_malloc();
	switch (flags_parse(argc, argv, &p.options, &out, &problems, &notes, &warnings)) {
	case FLAGS_DONE:
		write_all(STDOUT_FILENO, buf_str(&out));
		return 0;
	case FLAGS_BAD:
		write_all(STDERR_FILENO, buf_str(&problems));
		return EXIT_BAD;
	case FLAGS_RUN:
		break;
	}
	log_setup(p.options.log_format, (int)p.options.verbosity);
	log_notes(buf_str(&notes), buf_str(&warnings));
	flags_log(&p.options);
	signal(SIGPIPE, SIG_IGN);
	p.cancel = cancel_new();
	status = run(&p);
	options_fini(&p.options);
	return status;
}
