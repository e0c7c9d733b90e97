/* flags.h: the command line, as people type it for the Go programs.
 *
 * --flag=x, --flag x, -v=4, -v 4, bare booleans, 1h2m3s, '_' for '-'. One table defines name, default, meaning and
 * group of every flag: it parses, and it prints --help. All problems are collected, a line each.
 */
#ifndef CCMD_FLAGS_H
#define CCMD_FLAGS_H

#include "base/buf.h"
#include "base/log.h"
#include "controllers/guard.h"

struct options {
	/* cloud */
	const char *cloud_provider;
	const char *cloud_config;
	const char *cluster_name;
	/* API server */
	const char *kubeconfig;
	const char *master;
	double kube_api_qps;   /* 0: automatic */
	double kube_api_burst; /* 0: automatic */
	/* controllers */
	int64_t n_node_workers;         /* 0: automatic */
	int64_t node_monitor_period_ns; /* 0: automatic */
	int64_t node_refresh_period_ns;
	struct guard_config guard;
	/* program */
	bool leader_elect;
	int64_t grace_period_ns;
	int64_t verbosity;
	enum log_format log_format;
};

enum flags_outcome {
	FLAGS_RUN,
	FLAGS_DONE, /* --help or --version was printed to out */
	FLAGS_BAD,  /* problems has a line each */
};

/** Reads the command line. Text in options points into argv. notes gets a line for each flag that is accepted without
 * effect, for the log. */
enum flags_outcome flags_parse(int argc, char *const argv[], struct options *ret, struct buf *out,
                               struct buf *problems, struct buf *notes);

#endif
