/* haproxy.c: see haproxy.h.
 *
 * Every change of the allocations has a version. A caller whose version HAProxy has loaded already
 * has nothing to do. Otherwise one caller at a time does the work for all: it waits until changes
 * pause, renders the file under another name, lets HAProxy check it, renames it, saves the state of
 * the servers, reloads, and waits until a new worker responds at the socket, if there is one. Other
 * callers get ERR_PENDING and come back when that should be done.
 *
 * The process may end between any two steps: before the rename, HAProxy has the former file; after
 * it, the first update of the next start reloads, because `loaded` is not known then.
 */
#include "providers/cloudlycke/haproxy.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/names.h"
#include "base/thread.h"

enum {
	QUIET_MS = 20,
	LINE_MAX_BYTES = 500,
	ANSWER_S = 2, /* of HAProxy at its socket */
	READ_SIZE = 16384,
};

#define BUSY_NS (100 * NS_PER_MS) /* the earliest retry while another caller is working */
#define PAUSE_NS NS_PER_SEC
#define QUIET_WAIT_NS (500 * NS_PER_MS)
#define POLL_NS (20 * NS_PER_MS)
/* How long a new worker may take to respond. It reads the same file as the check, and then binds
 * its sockets. */
#define WORKER_NS(check_ns) (2 * NS_PER_SEC + 5 * (check_ns))

struct worker {
	int64_t pid, uptime_s;
};

struct cl_haproxy {
	const struct cloud_host *host;
	struct cl_state *state;
	struct arena arena;           /* of the following */
	const char *file, *unchecked; /* the one in use; the one to be checked */
	struct str stats_socket;      /* empty: none */
	const char **check, **reload;
	int64_t timeout_ms;
	pthread_mutex_t mu;
	bool is_busy;         /* mu: a caller is updating HAProxy */
	uint64_t version;     /* mu: of the state that HAProxy has loaded */
	int64_t next_mono_ns; /* mu: the earliest time of the next reload */
	int64_t begun_ns;     /* mu: mono; when the present or last update began */
	int64_t took_ns;      /* mu: by the last update that ended */
	/* of the busy caller: hashes of the file that HAProxy has loaded, and of that whose reload
	 * had no effect yet; 0: unknown, and none */
	uint64_t loaded, unconfirmed;
	struct worker former; /* of the busy caller: HAProxy's worker before the reload */
};

/* ---- life cycle ---- */

/* last NULL: only the words. */
static const char **
copy_words(struct arena *arena, const struct str_list *words, const char *last)
{
	const char **copy = arena_calloc(arena, words->n + 2, sizeof(*copy));

	for (size_t i = 0; i < words->n; i++)
		copy[i] = arena_strz(arena, words->items[i]);
	copy[words->n] = last;
	return copy;
}

struct cl_haproxy *
cl_haproxy_new(const struct cl_balancers *config, struct cl_state *state,
               const struct cloud_host *host)
{
	struct cl_haproxy *h = xcalloc(1, sizeof(*h));
	const struct cl_haproxy_config *c = &config->haproxy;

	h->host = host;
	h->state = state;
	h->file = arena_strz(&h->arena, c->file);
	h->unchecked = arena_printf(&h->arena, "%s.unchecked", h->file).ptr;
	h->stats_socket = arena_str(&h->arena, c->stats_socket);
	h->check = copy_words(&h->arena, &c->check, h->unchecked);
	h->reload = copy_words(&h->arena, &c->reload, NULL);
	h->timeout_ms = config->hook_timeout_ns / NS_PER_MS;
	mutex_init(&h->mu);
	return h;
}

void
cl_haproxy_free(struct cl_haproxy *h)
{
	if (!h)
		return;
	mutex_destroy(&h->mu);
	arena_fini(&h->arena);
	free(h);
}

/* ---- what it can do ---- */

bool
cl_haproxy_accepts(const struct cl_allocation *allocation, struct error *err)
{
	for (size_t i = 0; i < allocation->n_ports; i++) {
		const struct lb_port *port = &allocation->ports[i];

		if (port->protocol != LB_TCP)
			return err_set(err, ERR_INVALID,
			               "port %d/%" STR_FMT
			               ": HAProxy balances TCP only; leave that port out, or use "
			               "loadBalancers.hook for it",
			               (int)port->port, STR_ARG(port->protocol_text));
		if (port->node_port == 0)
			return err_set(
				err, ERR_INVALID,
				"port %d/TCP has no node port: HAProxy reaches nodes by it, so "
				"spec.allocateLoadBalancerNodePorts must be true",
				(int)port->port);
	}
	return true;
}

/* ---- programs ---- */

static bool
run_program(struct cl_haproxy *h, struct call *call, const char *const *argv, struct error *err)
{
	CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
	struct child_spec spec = { .argv = argv,
		                   .timeout_ms = h->timeout_ms,
		                   .grace_ms = 2 * MS_PER_SEC,
		                   .take_stderr = true };
	struct str why = STR_EMPTY;
	bool has_alert = false;

	if (!child_run(call, &spec, &result, err)) {
		err->code = err->code == ERR_CANCELLED ? ERR_CANCELLED : ERR_UNAVAILABLE;
		return false;
	}
	if (result.exit_code == 0)
		return true;
	/* HAProxy prints the cause first and a summary last. */
	for (struct str line, rest = buf_str(&result.err);
	     !has_alert && str_split(&rest, '\n', &line);) {
		has_alert = str_contains(line, STR("[ALERT]"));
		if (str_trim(line).len > 0)
			why = str_utf8_head(str_trim(line), LINE_MAX_BYTES);
	}
	return err_set(err, ERR_UNAVAILABLE, "%s: exit %d: %" STR_FMT, argv[0], result.exit_code,
	               STR_ARG(why));
}

/* ---- HAProxy's socket ---- */

/* Sends one command and appends the response, which ends when HAProxy closes the connection.
 * Returns false if HAProxy cannot be reached, sends nothing for ANSWER_S, or the response exceeds
 * the buffer. */
static bool
ask_worker(struct str socket_path, struct str command, struct buf *response, struct clock *clock)
{
	CLEANUP(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = { .tv_sec = ANSWER_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int64_t deadline_ns = clock_mono(clock) + ANSWER_S * NS_PER_SEC;
	bool is_open = fd >= 0 && socket_path.len < sizeof(address.sun_path);
	ssize_t n = -1;

	if (is_open) {
		memcpy(address.sun_path, socket_path.ptr, socket_path.len);
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		is_open = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
		          write(fd, command.ptr, command.len) == (ssize_t)command.len;
	}
	while (is_open && buf_reserve(response, READ_SIZE) && clock_mono(clock) < deadline_ns) {
		n = read(fd, response->ptr + response->len, READ_SIZE);
		is_open = n > 0 || (n < 0 && errno == EINTR);
		buf_grown(response, n > 0 ? (size_t)n : 0);
	}
	return n == 0;
}

/* Writes the state of all servers to SOCKET.state, so that a server that is down does not count as
 * up after a reload. An HAProxy that hangs must not prevent the reload that would replace it:
 * without a response nothing is written, and health checks find the state again. Returns false
 * then. */
static bool
save_server_state(struct str socket_path, struct clock *clock)
{
	CLEANUP(buf_fini) struct buf response = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(4));
	struct error err;

	if (!ask_worker(socket_path, STR("show servers state\n"), &response, clock) ||
	    !str_starts(buf_str(&response), STR("1\n"))) {
		log_debug("HAProxy did not report the state of its servers, ignoring",
		          LOG_STR("socket", socket_path));
		return false;
	}
	buf_addf(&path, "%" STR_FMT ".state", STR_ARG(socket_path));
	if (!file_replace(path.ptr, buf_str(&response), 0600, &err))
		log_warn("the state of HAProxy's servers cannot be saved, ignoring", LOG_ERR(&err));
	return true;
}

/* pid 0: no worker responds. */
static struct worker
responding_worker(struct str socket_path, struct clock *clock)
{
	CLEANUP(buf_fini) struct buf response = BUF_INIT(KIB(64));
	const struct str pid = STR("Pid: "), uptime = STR("Uptime_sec: ");
	struct worker worker = { 0 };
	bool is_known = ask_worker(socket_path, STR("show info\n"), &response, clock);

	for (struct str line, rest = buf_str(&response);
	     is_known && str_split(&rest, '\n', &line);) {
		if (str_starts(line, pid))
			is_known = str_to_i64(str_skip(line, pid.len), 1, INT32_MAX, &worker.pid);
		else if (str_starts(line, uptime))
			is_known = str_to_i64(str_skip(line, uptime.len), 0, INT64_MAX,
			                      &worker.uptime_s);
	}
	return is_known ? worker : (struct worker){ 0 };
}

/* A reload starts a new worker. After a restart of its container, it can have the former PID. */
static bool
is_new(struct worker now, struct worker former)
{
	return now.pid != 0 && (now.pid != former.pid || now.uptime_s < former.uptime_s);
}

/* Returns false if no new worker responds within limit_ns, although the reload's command succeeded:
 * a busy master of HAProxy 2.6 loses signals, and `haproxy -c` does not find every problem, e.g.
 * too few descriptors. Returns true if no worker has responded since ccmd started: the command's
 * exit code decides then. */
static bool
wait_for_worker(struct cl_haproxy *h, struct call *call, int64_t limit_ns, struct error *err)
{
	int64_t began_ns = clock_mono(call->clock);
	int64_t end_ns = clock_earlier(began_ns + limit_ns, call->deadline_mono_ns);
	long long took_s;
	struct worker now;

	while (!is_new(now = responding_worker(h->stats_socket, call->clock), h->former) &&
	       clock_mono(call->clock) < end_ns) {
		if (!cancel_sleep(call->cancel, call->clock, POLL_NS, err))
			return false;
	}
	if (is_new(now, h->former)) {
		h->former = now;
		return true;
	}
	if (h->former.pid == 0) {
		log_warn("nothing responds at HAProxy's socket, so its reload is not verified",
		         LOG_STR("socket", h->stats_socket));
		return true;
	}
	took_s = (clock_mono(call->clock) - began_ns) / NS_PER_SEC;
	if (now.pid == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "%s exited with 0, but after %lld s nothing responds at %" STR_FMT
		               "; see HAProxy's log",
		               h->reload[0], took_s, STR_ARG(h->stats_socket));
	return err_set(err, ERR_UNAVAILABLE,
	               "%s exited with 0, but after %lld s the former worker (PID %lld) "
	               "still responds at %" STR_FMT "; see HAProxy's log",
	               h->reload[0], took_s, (long long)now.pid, STR_ARG(h->stats_socket));
}

/* ---- the file ----
 *
 * It has a frontend and a backend of the same name for each Service port and address family. If a
 * Service has source ranges and several ports, these have one frontend for each family.
 * Servers are the nodes' InternalIP of that family, with the node port. `transparent` lets HAProxy
 * bind an address that the host does not have yet: that of a keepalived standby, or one that a hook
 * adds. */

static bool
is_plain(struct str text)
{
	return text.len > 0 && text.len <= LIMIT_NAME && name_has_only(text, "-_.");
}

void
cl_haproxy_add_name(struct buf *b, struct str name)
{
	if (is_plain(name))
		buf_add_str(b, name);
	else
		buf_addf(b, "x%016llx", (unsigned long long)str_hash(name));
}

/* In comments of the file, other characters become "?". */
static void
add_remark(struct buf *b, struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		buf_add_char(b, char_is_alnum(c) || char_is_in(c, "-_.") ? c : '?');
	}
}

static void
add_address(struct buf *b, const struct ip *ip, int32_t port)
{
	bool is_v6 = ip_family(ip) == IP_V6;

	buf_add_c(b, is_v6 ? "ipv6@[" : "ipv4@");
	ip_format(b, ip);
	buf_addf(b, is_v6 ? "]:%d" : ":%d", (int)port);
}

static const char *
family_name(const struct ip *ip)
{
	return ip_family(ip) == IP_V4 ? "v4" : "v6";
}

static bool
is_served(const struct lb_port *port)
{
	return port->protocol == LB_TCP && port->node_port != 0;
}

static bool
has_health_port(const struct cl_record_values *r)
{
	return r->traffic == LB_TRAFFIC_LOCAL && r->health_check_node_port > 0;
}

static void
add_service(struct buf *b, const struct cl_record_values *r)
{
	buf_add_c(b, "\n# ");
	add_remark(b, r->allocation.namespace);
	buf_add_char(b, '/');
	add_remark(b, r->allocation.service);
}

static void
add_part_name(struct buf *b, const struct cl_record_values *r, const struct ip *ip,
              const struct lb_port *port)
{
	cl_haproxy_add_name(b, r->name);
	buf_addf(b, "-%d-%s", (int)port->port, family_name(ip));
}

static void
add_bind(struct buf *b, const struct ip *ip, const struct lb_port *port)
{
	buf_add_c(b, "\tbind ");
	add_address(b, ip, port->port);
	buf_add_c(b, ip_family(ip) == IP_V6 ? " v6only transparent" : " transparent");
}

/* Only ranges of the frontend's family: to HAProxy, ::/0 contains every IPv4 client. One line for
 * each, since HAProxy limits the words of a line. */
static void
add_ranges(struct buf *b, const struct cl_record_values *r, const struct ip *ip)
{
	bool has_any = false;
	struct ip_net net;

	for (size_t i = 0; i < r->n_source_ranges; i++) {
		if (!ip_net_parse(r->source_ranges[i], &net) || ip_family(&net.ip) != ip_family(ip))
			continue;
		buf_addf(b, "\tacl is_allowed src %" STR_FMT "\n", STR_ARG(r->source_ranges[i]));
		has_any = true;
	}
	if (r->n_source_ranges > 0)
		buf_addf(b, "\ttcp-request connection reject%s\n",
		         has_any ? " unless is_allowed" : "");
}

static void
add_frontend(struct buf *b, const struct cl_record_values *r, const struct ip *ip,
             const struct lb_port *port)
{
	add_service(b, r);
	if (port->name.len > 0)
		buf_add_c(b, ", port ");
	add_remark(b, port->name);
	buf_add_c(b, "\nfrontend ");
	add_part_name(b, r, ip, port);
	buf_add_char(b, '\n');
	add_bind(b, ip, port);
	buf_add_char(b, '\n');
	add_ranges(b, r, ip);
	buf_add_c(b, "\tdefault_backend ");
	add_part_name(b, r, ip, port);
	buf_add_char(b, '\n');
}

/* The frontend of all ports, so that the file has the ranges once and not for each port. The id of
 * a socket is its port, by which the backend is found. */
static void
add_common_frontend(struct buf *b, const struct cl_record_values *r, const struct ip *ip,
                    const struct lb_port ports[], size_t n_ports)
{
	add_service(b, r);
	buf_add_c(b, "\nfrontend ");
	cl_haproxy_add_name(b, r->name);
	buf_addf(b, "-all-%s\n", family_name(ip));
	for (size_t i = 0; i < n_ports; i++) {
		if (!is_served(&ports[i]))
			continue;
		add_bind(b, ip, &ports[i]);
		buf_addf(b, " id %d\n", (int)ports[i].port);
	}
	add_ranges(b, r, ip);
	buf_add_c(b, "\tuse_backend ");
	cl_haproxy_add_name(b, r->name);
	buf_addf(b, "-%%[so_id]-%s\n", family_name(ip));
}

static void
add_backend(struct buf *b, const struct cl_record_values *r, const struct ip *ip,
            const struct lb_port *port, bool has_peers)
{
	static const char *const proxies[] = { "", " send-proxy", " send-proxy-v2" };

	buf_add_c(b, "\nbackend ");
	add_part_name(b, r, ip, port);
	buf_add_char(b, '\n');
	/* Without a peer the table is lost at a reload; the hash then selects the same server as
	 * long as the servers are the same. */
	if (r->has_client_ip_affinity)
		buf_addf(b,
		         "\tbalance source\n"
		         "\thash-type consistent\n"
		         "\tstick-table type ipv6 size 100k expire %ds%s\n"
		         "\tstick on src\n",
		         (int)(r->affinity_timeout_s > 0 ? r->affinity_timeout_s : 10800),
		         has_peers ? " peers ccmd" : "");
	else
		buf_add_c(b, "\tbalance roundrobin\n");
	if (has_health_port(r))
		buf_add_c(b, "\toption httpchk GET /healthz\n\thttp-check expect status 200\n");
	for (size_t i = 0; i < r->targets->n; i++) {
		const struct cl_target *target = &r->targets->items[i];
		const struct ip *node = cl_addresses_of(&target->addresses, ip_family(ip));

		if (!node)
			continue;
		buf_add_c(b, "\tserver ");
		cl_haproxy_add_name(b, target->name);
		buf_add_char(b, ' ');
		add_address(b, node, port->node_port);
		if (has_health_port(r))
			buf_addf(b, " port %d", (int)r->health_check_node_port);
		buf_addf(b, "%s\n", proxies[r->proxy]);
	}
}

/* Returns how many parts it has: a part is a port and an address. */
static size_t
add_record(struct buf *b, const struct cl_record_values *r, bool has_peers)
{
	const struct cl_addresses *ips = &r->allocation.addresses;
	const struct lb_port *ports = r->allocation.ports;
	size_t n_ports = r->allocation.n_ports, n_served = 0;
	bool has_common;

	assert(ips->n <= CL_FAMILIES);
	for (size_t i = 0; i < n_ports; i++)
		n_served += is_served(&ports[i]);
	has_common = n_served > 1 && r->n_source_ranges > 0;
	for (size_t k = 0; has_common && k < ips->n; k++)
		add_common_frontend(b, r, &ips->items[k], ports, n_ports);
	for (size_t i = 0; i < n_ports; i++) {
		for (size_t k = 0; k < ips->n && is_served(&ports[i]); k++) {
			if (!has_common)
				add_frontend(b, r, &ips->items[k], &ports[i]);
			add_backend(b, r, &ips->items[k], &ports[i], has_peers);
		}
	}
	return n_served * ips->n;
}

/* Clients and servers may be idle for long (`timeout client`, `timeout server`), so TCP keep-alives
 * find dead ones. A connection that a node refuses is retried, at another node if need be
 * (`redispatch`): on a new node, kube-proxy may not know the Service yet. */
static void
add_head(struct buf *b, struct str stats_socket)
{
	buf_add_c(
		b,
		"# Written by ccmd from the cluster's Services, and replaced at the next change.\n"
		"global\n");
	if (stats_socket.len > 0)
		buf_addf(b,
		         "\tstats socket %" STR_FMT " mode 600 level admin expose-fd listeners\n"
		         "\tserver-state-file %" STR_FMT ".state\n"
		         "\tlocalpeer ccmd\n",
		         STR_ARG(stats_socket), STR_ARG(stats_socket));
	buf_add_c(b,
	          "\ndefaults\n"
	          "\tmode tcp\n"
	          "\toption dontlognull\n"
	          "\toption clitcpka\n"
	          "\toption srvtcpka\n"
	          "\tretries 3\n"
	          "\toption redispatch 1\n"
	          "\ttimeout connect 2s\n"
	          "\ttimeout check 2s\n"
	          "\ttimeout client 1h\n"
	          "\ttimeout server 1h\n"
	          "\tdefault-server check inter 2s fastinter 500ms downinter 2s fall 2 rise 1\n");
	/* At a reload the old worker sends the table of client affinity to the new one: HAProxy is
	 * its own peer. */
	if (stats_socket.len > 0)
		buf_addf(b,
		         "\tload-server-state-from-file global\n"
		         "\npeers ccmd\n"
		         "\tbind unix@%" STR_FMT ".peers mode 600\n"
		         "\tserver ccmd\n",
		         STR_ARG(stats_socket));
}

/* HAProxy does not start without a listener. An abstract socket name is valid for the whole host,
 * so a second idle HAProxy without a stats socket could not bind it. */
static void
add_idle(struct buf *b, struct str stats_socket)
{
	buf_add_c(b, "\nfrontend ccmd-idle\n");
	if (stats_socket.len > 0)
		buf_addf(b, "\tbind unix@%" STR_FMT ".idle mode 600\n", STR_ARG(stats_socket));
	else
		buf_add_c(b, "\tbind abns@ccmd-idle\n");
	buf_add_c(b, "\ttcp-request connection reject\n");
}

void
cl_haproxy_file(struct buf *b, struct cl_record *const records[], size_t n, struct str stats_socket)
{
	size_t n_parts = 0;

	add_head(b, stats_socket);
	for (size_t i = 0; i < n; i++) {
		const struct cl_record_values *r = &records[i]->values;

		if (!r->is_deleting && !r->is_left_out)
			n_parts += add_record(b, r, /*has_peers=*/stats_socket.len > 0);
	}
	if (n_parts == 0)
		add_idle(b, stats_socket);
}

/* ---- its size ----
 *
 * It is needed before the file is written, and without the time and memory that writing takes. */

enum {
	/* the texts around names in a frontend and its backend */
	PART_TEXT = 500,
	RANGE_TEXT = sizeof("\tacl is_allowed src \n"),
	SERVER_TEXT = sizeof("\tserver  \n"),
	V4_TEXT = sizeof("ipv4@255.255.255.255:65535"),
	V6_TEXT = sizeof("ipv6@[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
	HEALTH_TEXT = sizeof(" port 65535"),
	PROXY_TEXT = sizeof(" send-proxy-v2"),
	NAMES_OF_PART = 5,
};

static size_t
name_size(struct str name)
{
	return is_plain(name) ? name.len : sizeof("x0123456789abcdef");
}

/* The servers of one backend. */
static size_t
servers_size(const struct cl_record_values *r, enum ip_family family)
{
	size_t text = SERVER_TEXT, size = 0;

	text += family == IP_V4 ? V4_TEXT : V6_TEXT;
	text += has_health_port(r) ? HEALTH_TEXT : 0;
	text += r->proxy == CL_PROXY_NONE ? 0 : PROXY_TEXT;
	for (size_t i = 0; i < r->targets->n; i++) {
		const struct cl_target *target = &r->targets->items[i];

		if (cl_addresses_of(&target->addresses, family))
			size += name_size(target->name) + text;
	}
	return size;
}

size_t
cl_haproxy_size(const struct cl_record_values *r)
{
	const struct cl_allocation *a = &r->allocation;
	size_t names = a->namespace.len + a->service.len + NAMES_OF_PART * name_size(r->name);
	size_t n_served = 0, parts = 0, ranges = 0, size = 0;

	for (size_t i = 0; i < a->n_ports; i++) {
		if (!is_served(&a->ports[i]))
			continue;
		n_served++;
		parts += PART_TEXT + names + a->ports[i].name.len;
	}
	for (size_t i = 0; i < r->n_source_ranges; i++)
		ranges += RANGE_TEXT + r->source_ranges[i].len;
	if (n_served == 0)
		return 0;
	for (size_t k = 0; k < a->addresses.n; k++) {
		size_t servers = servers_size(r, ip_family(&a->addresses.items[k]));

		size += parts + PART_TEXT + names + ranges + n_served * servers;
	}
	return size;
}

/* ---- reading the file ---- */

/* The address of "ipv4@192.0.2.1:80 transparent" or of "ipv6@[2001:db8::1]:80 v6only". */
static struct str
bound_address(struct str bind)
{
	struct str word = STR_EMPTY, family, address, port;

	(void)str_split(&bind, ' ', &word);
	if (!str_cut(word, '@', &family, &address) || !str_cut_last(address, ':', &address, &port))
		return STR_EMPTY;
	if (str_starts(address, STR("[")) && str_ends(address, STR("]")))
		address = str_head(str_skip(address, 1), address.len - 2);
	return address;
}

/* "a1" of "a1-80-v4" and of "a1-all-v4". */
static struct str
balancer_name(struct str section)
{
	for (int n_dashes = 0; section.len > 0 && n_dashes < 2;)
		n_dashes += section.ptr[--section.len] == '-';
	return section;
}

/* A balancer has a frontend for each port, so an address occurs several times. */
static void
list_address(struct lb_listed *one, struct str address, struct arena *arena)
{
	struct str *addresses = (struct str *)(uintptr_t)one->addresses;

	for (size_t i = 0; i < one->n_addresses; i++) {
		if (str_eq(addresses[i], address))
			return;
	}
	if (address.len > 0 && one->n_addresses < CL_FAMILIES)
		addresses[one->n_addresses++] = arena_str(arena, address);
}

/* The balancer of the Service that a frontend is for; NULL: it is for none. The frontends of a
 * balancer follow each other, so it is the last one of the list, or the next. */
static struct lb_listed *
list_frontend(struct lb_listed list[], size_t *n, struct str service, struct str section,
              struct arena *arena)
{
	if (service.len == 0)
		return NULL;
	if (*n > 0 && str_eq(list[*n - 1].service, service))
		return &list[*n - 1];
	list[*n] = (struct lb_listed){
		.what = "load balancer",
		.is_balancer = true,
		.id = arena_str(arena, balancer_name(section)),
		.uid = STR_EMPTY,
		.service = arena_str(arena, service),
		.cluster = STR_EMPTY,
		.cost = STR_EMPTY,
		.addresses = arena_calloc(arena, CL_FAMILIES, sizeof(struct str)),
		.has_targets = true,
	};
	return &list[(*n)++];
}

void
cl_haproxy_list(struct str text, struct arena *arena, struct lb_listed **ret, size_t *ret_n)
{
	const struct str frontend = STR("frontend "), bind = STR("\tbind ");
	struct str service = STR_EMPTY, after; /* of the remark in the line before */
	struct lb_listed *one = NULL;
	size_t n_frontends = 0, n_servers = 0, n = 0;

	for (struct str line, rest = text; str_split(&rest, '\n', &line);)
		n_frontends += str_starts(line, frontend);
	*ret = arena_calloc(arena, n_frontends + 1, sizeof((*ret)[0]));
	for (struct str line, rest = text; str_split(&rest, '\n', &line);) {
		if (str_starts(line, frontend)) {
			one = list_frontend(*ret, &n, service, str_skip(line, frontend.len), arena);
		} else if (str_starts(line, STR("backend "))) {
			n_servers = 0;
		} else if (one && str_starts(line, bind)) {
			list_address(one, bound_address(str_skip(line, bind.len)), arena);
		} else if (one && str_starts(line, STR("\tserver "))) {
			n_servers++;
			if (n_servers > one->n_targets)
				one->n_targets = n_servers;
		}
		/* "default/web" of the remark "# default/web, port http" */
		service = str_starts(line, STR("# ")) ? str_skip(line, 2) : STR_EMPTY;
		(void)str_cut(service, ',', &service, &after);
	}
	*ret_n = n;
}

/* ---- one update ---- */

/* `loaded` is unknown from the rename until a new worker has responded: if the reload fails, the
 * next update loads the file again, even when it has not changed. It counts then, too, if the
 * worker of the failed reload has come meanwhile. */
static bool
install_file(struct cl_haproxy *h, struct call *call, struct str text, uint64_t hash,
             struct error *err)
{
	int64_t began_ns, check_ns;
	struct worker now;
	bool is_good;

	if (!fence_check(h->host->fence, h->host->clock, err))
		return false;
	if (!file_replace(h->unchecked, text, 0644, err))
		return err_wrap(err, "HAProxy's configuration");
	began_ns = clock_mono(call->clock);
	is_good = run_program(h, call, h->check, err);
	check_ns = clock_mono(call->clock) - began_ns;
	(void)unlink(h->unchecked);
	if (!is_good)
		return err_wrap(err, "HAProxy's configuration was not accepted, the former stays");

	/* The check takes a while. */
	if (!fence_check(h->host->fence, h->host->clock, err))
		return false;
	h->loaded = 0;
	if (!file_replace(h->file, text, 0644, err))
		return err_wrap(err, "HAProxy's configuration");
	if (h->stats_socket.len > 0 && save_server_state(h->stats_socket, h->host->clock) &&
	    h->unconfirmed != hash) {
		now = responding_worker(h->stats_socket, h->host->clock);
		if (now.pid != 0)
			h->former = now;
	}
	h->unconfirmed = hash;
	if (!run_program(h, call, h->reload, err) ||
	    (h->stats_socket.len > 0 && !wait_for_worker(h, call, WORKER_NS(check_ns), err)))
		return err_wrap(err, "HAProxy was not reloaded");
	h->unconfirmed = 0;
	return true;
}

/* *ret_is_loaded: HAProxy was reloaded. */
static bool
update_haproxy(struct cl_haproxy *h, struct call *call, uint64_t *ret_version, bool *ret_is_loaded,
               struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_HAPROXY_FILE);
	int64_t end_ns = clock_mono(call->clock) + QUIET_WAIT_NS;
	uint64_t seen, version = cl_state_version(h->state, NULL), hash;
	struct cl_record **records;
	bool is_busy;
	size_t n;

	/* A node that is added or removed changes all balancers, one after the other: HAProxy is
	 * reloaded once for all of them, when nothing has changed for QUIET_MS, but after
	 * QUIET_WAIT_NS at the latest. */
	do {
		seen = version;
		if (!cancel_sleep(call->cancel, call->clock, QUIET_MS * NS_PER_MS, err))
			return false;
		version = cl_state_version(h->state, &is_busy);
	} while ((is_busy || version != seen) && clock_mono(call->clock) < end_ns);

	records = cl_state_list(h->state, &n, ret_version);
	cl_haproxy_file(&text, records, n, h->stats_socket);
	cl_records_free(records, n);
	if (!buf_ok(&text))
		return err_set(err, ERR_INTERNAL,
		               "HAProxy's configuration would have more than %zu bytes",
		               LIMIT_HAPROXY_FILE);
	hash = str_hash(buf_str(&text)) | 1;
	*ret_is_loaded = hash != h->loaded;
	if (!*ret_is_loaded)
		return true;
	if (!install_file(h, call, buf_str(&text), hash, err))
		return false;
	h->loaded = hash;
	log_info("HAProxy reloaded", LOG_I64("bytes", (int64_t)text.len));
	return true;
}

/* ---- one caller at a time ---- */

bool
cl_haproxy_apply(struct cl_haproxy *h, struct call *call, struct error *err)
{
	uint64_t wanted = cl_state_version(h->state, NULL), version = 0;
	int64_t now_ns = clock_mono(call->clock), wait_ns;
	bool is_done, is_loaded = false;
	WITH_LOCK(&h->mu);

	if (h->version >= wanted)
		return true;
	/* HAProxy needs seconds to check a file with tens of thousands of servers; frequent retries
	 * would only slow it down. */
	wait_ns = h->next_mono_ns - now_ns;
	if (h->is_busy)
		wait_ns = clock_later(h->begun_ns + h->took_ns - now_ns, BUSY_NS);
	if (wait_ns > 0) {
		err_set(err, ERR_PENDING, "waiting for HAProxy's next reload");
		err->retry_after_ms = (wait_ns + NS_PER_MS - 1) / NS_PER_MS;
		return false;
	}
	h->is_busy = true;
	h->begun_ns = now_ns;
	mutex_unlock(&h->mu);
	is_done = update_haproxy(h, call, &version, &is_loaded, err);
	mutex_lock(&h->mu);
	now_ns = clock_mono(call->clock);
	h->is_busy = false;
	h->took_ns = now_ns - h->begun_ns;
	if (is_done)
		h->version = version;
	if (is_loaded)
		h->next_mono_ns = now_ns + PAUSE_NS;
	return is_done;
}
