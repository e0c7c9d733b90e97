/* haproxy_file.c: see haproxy_file.h.
 *
 * A frontend and a backend of the same name for each Service port and address family. Servers are the nodes' InternalIP of
 * that family, with the node port. `transparent` lets an address be bound that the host does not have yet: a standby of
 * keepalived, an address put up by a hook.
 */
#include "providers/cloudlycke/haproxy_file.h"

/* One frontend. */
struct part {
	const struct cl_record *record;
	const struct lb_port *port;
	const struct ip *ip;
	bool has_peers;
};

/* ---- foreign text ------------------------------------------------------------------------------------ */

static bool
is_plain_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

static bool
is_plain(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (!is_plain_char(text.ptr[i]))
			return false;
	}
	return text.len > 0 && text.len <= 253;
}

/* The name, or a number made of it. */
static void
add_name(struct buf *b, struct str name)
{
	if (is_plain(name))
		buf_add_str(b, name);
	else
		buf_addf(b, "x%016llx", (unsigned long long)str_hash(name));
}

/* For people only. */
static void
add_remark(struct buf *b, struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		buf_add_char(b, is_plain_char(text.ptr[i]) ? text.ptr[i] : '?');
}

/* ---- what they have in common ------------------------------------------------------------------------ */

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
	if (stats_socket.len > 0)
		buf_add_c(b, "\tload-server-state-from-file global\n");
}

/* At a reload the old worker teaches the new one who is whose client: it is its own peer. */
static void
add_peers(struct buf *b, struct str stats_socket)
{
	buf_addf(b,
	         "\npeers ccmd\n"
	         "\tbind unix@%" STR_FMT ".peers mode 600\n"
	         "\tserver ccmd\n",
	         STR_ARG(stats_socket));
}

/* HAProxy does not start with nothing to listen on. An abstract name is the host's: a second idle HAProxy cannot have it. */
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

/* ---- one frontend ------------------------------------------------------------------------------------ */

static void
add_part_name(struct buf *b, const struct part *p)
{
	add_name(b, p->record->name);
	buf_addf(b, "-%d-%s", (int)p->port->port, ip_family(p->ip) == IP_V4 ? "v4" : "v6");
}

static void
add_address(struct buf *b, const struct ip *ip, int32_t port)
{
	bool is_v6 = ip_family(ip) == IP_V6;

	buf_add_c(b, is_v6 ? "ipv6@[" : "ipv4@");
	ip_format(b, ip);
	buf_addf(b, is_v6 ? "]:%d" : ":%d", (int)port);
}

/* Those of the frontend's family only: to HAProxy ::/0 has every IPv4 client in it. One line each, since it bounds the words
 * of a line. */
static void
add_ranges(struct buf *b, const struct part *p)
{
	const struct cl_record *r = p->record;
	bool has_any = false;
	struct ip_net net;

	for (size_t i = 0; i < r->n_source_ranges; i++) {
		if (!ip_net_parse(r->source_ranges[i], &net) ||
		    ip_family(&net.ip) != ip_family(p->ip))
			continue;
		buf_addf(b, "\tacl is_allowed src %" STR_FMT "\n", STR_ARG(r->source_ranges[i]));
		has_any = true;
	}
	if (r->n_source_ranges > 0)
		buf_addf(b, "\ttcp-request connection reject%s\n",
		         has_any ? " unless is_allowed" : "");
}

static void
add_frontend(struct buf *b, const struct part *p)
{
	buf_add_c(b, "\n# ");
	add_remark(b, p->record->holding.namespace);
	buf_add_char(b, '/');
	add_remark(b, p->record->holding.service);
	if (p->port->name.len > 0)
		buf_add_c(b, ", port ");
	add_remark(b, p->port->name);
	buf_add_c(b, "\nfrontend ");
	add_part_name(b, p);
	buf_add_c(b, "\n\tbind ");
	add_address(b, p->ip, p->port->port);
	buf_add_c(b, ip_family(p->ip) == IP_V6 ? " v6only transparent\n" : " transparent\n");
	add_ranges(b, p);
	buf_add_c(b, "\tdefault_backend ");
	add_part_name(b, p);
	buf_add_char(b, '\n');
}

/* ---- its backend ------------------------------------------------------------------------------------- */

static bool
has_health_port(const struct cl_record *r)
{
	return r->traffic == LB_TRAFFIC_LOCAL && r->health_check_node_port > 0;
}

/* Without a peer the table is lost at a reload; the hash then leads to the same server as long as there are the same ones. */
static void
add_affinity(struct buf *b, const struct part *p)
{
	const struct cl_record *r = p->record;

	if (!r->has_client_ip_affinity) {
		buf_add_c(b, "\tbalance roundrobin\n");
		return;
	}
	buf_add_c(b, "\tbalance source\n\thash-type consistent\n");
	buf_addf(b, "\tstick-table type ipv6 size 100k expire %ds%s\n\tstick on src\n",
	         (int)(r->affinity_timeout_s > 0 ? r->affinity_timeout_s : 10800),
	         p->has_peers ? " peers ccmd" : "");
}

static const struct ip *
address_of(const struct cl_target *target, enum ip_family family)
{
	for (size_t i = 0; i < target->n_addresses; i++) {
		if (ip_family(&target->addresses[i]) == family)
			return &target->addresses[i];
	}
	return NULL;
}

static void
add_server(struct buf *b, const struct part *p, const struct cl_target *target)
{
	static const char *const proxies[] = { "", " send-proxy", " send-proxy-v2" };
	const struct ip *ip = address_of(target, ip_family(p->ip));

	if (!ip)
		return;
	buf_add_c(b, "\tserver ");
	add_name(b, target->name);
	buf_add_char(b, ' ');
	add_address(b, ip, p->port->node_port);
	if (has_health_port(p->record))
		buf_addf(b, " port %d", (int)p->record->health_check_node_port);
	buf_addf(b, "%s\n", proxies[p->record->proxy]);
}

static void
add_backend(struct buf *b, const struct part *p)
{
	buf_add_c(b, "\nbackend ");
	add_part_name(b, p);
	buf_add_char(b, '\n');
	add_affinity(b, p);
	if (has_health_port(p->record))
		buf_add_c(b, "\toption httpchk GET /healthz\n\thttp-check expect status 200\n");
	for (size_t i = 0; i < p->record->targets->n; i++)
		add_server(b, p, &p->record->targets->items[i]);
}

/* ---- all of it --------------------------------------------------------------------------------------- */

static size_t
add_record(struct buf *b, const struct cl_record *r, bool has_peers)
{
	const struct cl_holding *h = &r->holding;
	size_t n = 0;

	for (size_t i = 0; i < h->n_ports; i++) {
		for (size_t k = 0; k < h->n_addresses; k++) {
			struct part part = { r, &h->ports[i], &h->addresses[k], has_peers };

			if (part.port->protocol != LB_TCP || part.port->node_port == 0)
				continue;
			add_frontend(b, &part);
			add_backend(b, &part);
			n++;
		}
	}
	return n;
}

void
cl_haproxy_file(struct buf *b, struct cl_record *const records[], size_t n, struct str stats_socket)
{
	bool has_peers = stats_socket.len > 0;
	size_t n_frontends = 0;

	add_head(b, stats_socket);
	if (has_peers)
		add_peers(b, stats_socket);
	for (size_t i = 0; i < n; i++) {
		if (!records[i]->is_deleting)
			n_frontends += add_record(b, records[i], has_peers);
	}
	if (n_frontends == 0)
		add_idle(b, stats_socket);
}
