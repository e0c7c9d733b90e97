/* lb_health.c: see lb_health.h.
 *
 * The metrics have a series for each Service. No other metric has names of objects as labels, so
 * the number of series is bounded: if there are more than LIMIT_METRIC_SERIES Services, the last
 * series has the labels "other" and the sum of the rest. The series of a deleted Service is absent
 * from the next scrape.
 */
#include "providers/hcloud/lb_health.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "cloud/balancer.h"
#include "providers/hcloud/client.h"

enum {
	MAX_DESCRIBED = 5, /* unhealthy targets of one balancer */
};

METRIC_FAMILY(
	healthy_targets, METRIC_GAUGE, "hcloud_load_balancer_healthy_targets",
	"[ALPHA] Targets of a Service's load balancer that were healthy when it was read last. Services beyond 199 are summed as \"other\".",
	.labels = { "namespace", "service" });
METRIC_FAMILY(
	all_targets, METRIC_GAUGE, "hcloud_load_balancer_targets",
	"[ALPHA] Targets of a Service's load balancer when it was read last, healthy or not. Services beyond 199 are summed as \"other\".",
	.labels = { "namespace", "service" });

/* ---- the metrics ---- */

static int
hz_health_compare(const void *a, const void *b)
{
	const struct hz_service_health *left = a, *right = b;
	int order = str_cmp(left->namespace, right->namespace);

	return order != 0 ? order : str_cmp(left->service, right->service);
}

/* Called for each scrape. The order decides which Services are in the sum, so the Services are
 * sorted by name: otherwise their series would change without a reason. */
static void
hz_health_scrape(void *cache)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct metric_row healthy[LIMIT_METRIC_SERIES] = { 0 }, all[LIMIT_METRIC_SERIES] = { 0 };
	struct hz_service_health *services;
	size_t n_read, n = 0, n_rows;

	hz_lb_cache_health(cache, &arena, &services, &n_read);
	qsort(services, n_read, sizeof(*services), hz_health_compare);
	for (size_t i = 0; i < n_read; i++) {
		if (n == 0 || hz_health_compare(&services[n - 1], &services[i]) != 0)
			services[n++] = services[i];
	}
	n_rows = n < LIMIT_METRIC_SERIES ? n : LIMIT_METRIC_SERIES;
	for (size_t i = 0; i < n; i++) {
		bool is_other = n > LIMIT_METRIC_SERIES && i >= LIMIT_METRIC_SERIES - 1;
		size_t row = is_other ? LIMIT_METRIC_SERIES - 1 : i;

		healthy[row].labels[0] = is_other ? "other" : services[i].namespace.ptr;
		healthy[row].labels[1] = is_other ? "other" : services[i].service.ptr;
		healthy[row].value += (double)services[i].n_healthy;
		all[row].labels[0] = healthy[row].labels[0];
		all[row].labels[1] = healthy[row].labels[1];
		all[row].value += (double)services[i].n_targets;
	}
	metrics_replace(&healthy_targets, healthy, n_rows);
	metrics_replace(&all_targets, all, n_rows);
}

void
hz_health_open(struct hz_lb_cache *cache)
{
	metrics_on_scrape(hz_health_scrape, cache);
}

void
hz_health_close(struct hz_lb_cache *cache)
{
	metrics_off_scrape(hz_health_scrape, cache);
	metrics_replace(&healthy_targets, NULL, 0);
	metrics_replace(&all_targets, NULL, 0);
}

/* ---- for `ccmd explain` and `ccmd doctor` ---- */

struct map
hz_health_names(const struct hz_config *config, const struct cloud_host *host, struct arena *arena)
{
	struct map names = MAP_INIT;
	struct node_ref *nodes;
	size_t n;

	host->nodes(host, arena, &nodes, &n);
	for (size_t i = 0; i < n; i++) {
		int64_t *server = ARENA_NEW(arena, int64_t);
		struct error ignored;
		struct hz_id id;

		if (!hz_id_parse(config->dialect, nodes[i].provider_id, &id, &ignored) ||
		    id.kind != HZ_CLOUD)
			continue;
		*server = id.number;
		map_put(&names, map_key_i64(server), &nodes[i].name);
	}
	return names;
}

static void
hz_health_add_target(struct buf *b, const struct hz_lb_target *target, const struct map *names)
{
	const struct str *node = map_get(names, map_key_i64(&target->server));

	if (b->len > 0)
		buf_add_c(b, "; ");
	if (target->type == HZ_TARGET_IP)
		buf_add_str(b, target->ip);
	else if (node)
		buf_addf(b, "node %" STR_FMT, STR_ARG(*node));
	else
		buf_addf(b, "server %" PRId64, target->server);
	buf_addf(b, " at port %" PRId64, target->failing_port);
	if (target->detail.len > 0)
		buf_addf(b, ": %" STR_FMT, STR_ARG(str_head(target->detail, 100)));
	if (target->http_status != 0)
		buf_addf(b, " (HTTP %" PRId64 ")", target->http_status);
}

static void
hz_health_add_blocked(struct buf *b, const struct hz_lb_end *end)
{
	if (end->is_blocked)
		buf_addf(b, "%s%" STR_FMT, b->len > 0 ? ", " : "", STR_ARG(end->ip));
}

void
hz_health_describe(const struct hz_lb *lb, const struct map *names, struct arena *arena,
                   struct lb_listed *ret)
{
	CLEANUP(buf_fini) struct buf unhealthy = BUF_INIT(KIB(4)), blocked = BUF_INIT(KIB(1));
	size_t n_described = 0;

	for (size_t i = 0; i < lb->n_targets && n_described < MAX_DESCRIBED; i++) {
		if (lb->targets[i].health != HZ_UNHEALTHY)
			continue;
		hz_health_add_target(&unhealthy, &lb->targets[i], names);
		n_described++;
	}
	if (n_described > 0 && lb->n_of_health[HZ_UNHEALTHY] > n_described)
		buf_addf(&unhealthy, "; and %zu more", lb->n_of_health[HZ_UNHEALTHY] - n_described);
	hz_health_add_blocked(&blocked, &lb->ipv4);
	hz_health_add_blocked(&blocked, &lb->ipv6);
	ret->has_health = true;
	ret->n_healthy = lb->n_of_health[HZ_HEALTHY];
	ret->n_unhealthy = lb->n_of_health[HZ_UNHEALTHY];
	ret->unhealthy = arena_str(arena, buf_str(&unhealthy));
	ret->blocked = arena_str(arena, buf_str(&blocked));
}
