/* tests/flags/table.c: the table says what the specification says. */
#include "line.h"

#include "flags/table.h"

/* The framework's flags in its order (docs/spec/framework.md, "Flags"). "auto" is ours:
 * docs/migrating.md, "Differences". */
static const struct {
	const char *name, *fallback;
} specified[] = {
	{ "cloud-provider", "" },
	{ "cloud-config", "" },
	{ "cluster-name", "kubernetes" },
	{ "cluster-cidr", "" },
	{ "allocate-node-cidrs", "false" },
	{ "cidr-allocator-type", "RangeAllocator" },
	{ "configure-cloud-routes", "true" },
	{ "route-reconciliation-period", "10s" },
	{ "node-monitor-period", "auto" },
	{ "node-sync-period", "0s" },
	{ "use-service-account-credentials", "false" },
	{ "allow-untagged-cloud", "false" },
	{ "external-cloud-volume-plugin", "" },
	{ "controllers", "*" },
	{ "controller-start-interval", "0s" },
	{ "min-resync-period", "12h0m0s" },
	{ "kube-api-qps", "auto" },
	{ "kube-api-burst", "auto" },
	{ "kube-api-content-type", "application/vnd.kubernetes.protobuf" },
	{ "leader-elect", "true" },
	{ "leader-elect-lease-duration", "15s" },
	{ "leader-elect-renew-deadline", "10s" },
	{ "leader-elect-retry-period", "2s" },
	{ "leader-elect-resource-lock", "leases" },
	{ "leader-elect-resource-name", "cloud-controller-manager" },
	{ "leader-elect-resource-namespace", "kube-system" },
	{ "feature-gates", "" },
	{ "concurrent-node-syncs", "auto" },
	{ "concurrent-node-status-updates", "0" },
	{ "concurrent-node-lifecycle-syncs", "1" },
	{ "concurrent-service-syncs", "auto" },
	{ "node-status-update-frequency", "5m0s" },
	{ "kubeconfig", "" },
	{ "master", "" },
	{ "secure-port", "10258" },
	{ "bind-address", "0.0.0.0" },
	{ "cert-dir", "" },
	{ "tls-cert-file", "" },
	{ "tls-private-key-file", "" },
	{ "tls-cipher-suites", "" },
	{ "tls-min-version", "" },
	{ "tls-sni-cert-key", "" },
	{ "tls-curve-preferences", "" },
	{ "disable-http2-serving", "false" },
	{ "http2-max-streams-per-connection", "0" },
	{ "permit-port-sharing", "false" },
	{ "permit-address-sharing", "false" },
	{ "authentication-kubeconfig", "" },
	{ "authentication-skip-lookup", "false" },
	{ "authentication-tolerate-lookup-failure", "false" },
	{ "authentication-token-webhook-cache-ttl", "10s" },
	{ "client-ca-file", "" },
	{ "requestheader-client-ca-file", "" },
	{ "requestheader-allowed-names", "" },
	{ "requestheader-username-headers", "x-remote-user" },
	{ "requestheader-group-headers", "x-remote-group" },
	{ "requestheader-extra-headers-prefix", "x-remote-extra-" },
	{ "requestheader-uid-headers", "" },
	{ "authorization-kubeconfig", "" },
	{ "authorization-always-allow-paths", "/healthz,/readyz,/livez" },
	{ "authorization-webhook-cache-authorized-ttl", "10s" },
	{ "authorization-webhook-cache-unauthorized-ttl", "10s" },
	{ "profiling", "true" },
	{ "contention-profiling", "false" },
	{ "v", "0" },
	{ "vmodule", "" },
	{ "logging-format", "text" },
	{ "log-flush-frequency", "5s" },
	{ "log-text-split-stream", "false" },
	{ "log-json-split-stream", "false" },
	{ "log-text-info-buffer-size", "0" },
	{ "log-json-info-buffer-size", "0" },
	{ "enable-leader-migration", "false" },
	{ "leader-migration-config", "" },
	{ "webhooks", "" },
	{ "webhook-secure-port", "10260" },
	{ "webhook-bind-address", "0.0.0.0" },
	{ "webhook-cert-dir", "" },
	{ "webhook-tls-cert-file", "" },
	{ "webhook-tls-private-key-file", "" },
	{ "webhook-tls-cipher-suites", "" },
	{ "webhook-tls-curve-preferences", "" },
	{ "webhook-tls-min-version", "" },
	{ "webhook-tls-sni-cert-key", "" },
	{ "webhook-disable-http2-serving", "false" },
};

/* Those that upstream does not have, or has no more. */
static const char *const ours[] = {
	"address",
	"port",
	"sandbox",
	"shutdown-grace-period",
	"metrics-bind-address",
	"version",
	"help",
	"cloud-rate-limit-reserve",
	"dry-run",
	"load-balancer-drift-period",
};

static void
every_specified_flag_is_there_with_its_default(void **state)
{
	size_t index;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(specified); i++) {
		if (!flag_find(str_c(specified[i].name), &index))
			fail_msg("no --%s", specified[i].name);
		assert_string_equal(flag_at(index)->fallback, specified[i].fallback);
	}
}

static bool
is_ours(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
		if (str_eq_c(name, ours[i]))
			return true;
	}
	return str_starts(name, STR("node-delete-"));
}

static void
no_other_flag_is_there_by_accident(void **state)
{
	size_t n_ours = 0;

	(void)state;
	for (size_t i = 0; flag_at(i); i++)
		n_ours += is_ours(str_c(flag_at(i)->name));
	assert_int_equal(flag_count(), n_ours + ARRAY_LEN(specified));
}

static void
rows_are_complete(void **state)
{
	const struct flag *flag;

	(void)state;
	for (size_t i = 0; (flag = flag_at(i)); i++) {
		size_t index;

		assert_true(flag_find(str_c(flag->name), &index));
		assert_int_equal(index, i); /* no name twice */
		assert_true(strlen(flag->help) > 0);
		assert_int_equal(flag->why != NULL, flag->effect != FLAG_HONOURED);
		assert_int_equal(flag->choices != NULL, flag->kind == FLAG_CHOICE);
		if (flag->effect == FLAG_HONOURED && flag->fallback)
			assert_true(flag->offset < sizeof(struct options));
	}
	for (const struct refused_flag *refused = refused_flags; refused->name; refused++)
		assert_false(flag_find(str_c(refused->name), &(size_t){ 0 }));
}

static void
fields_hold_the_defaults(void **state)
{
	const struct options *o = &line_options;

	(void)state;
	assert_int_equal(PARSE(), FLAGS_RUN);
	assert_string_equal(line_notes.ptr, "");
	assert_string_equal(line_warnings.ptr, "");
	assert_string_equal(o->cluster_name, "kubernetes");
	assert_true(o->node_refresh_period_ns == 300 * NS_PER_SEC);
	assert_true(o->node_monitor_period_ns == 0);
	assert_int_equal(o->n_node_workers, 0);
	assert_int_equal(o->n_service_workers, 0);
	assert_true(o->kube_api_qps == 0);
	assert_true(o->kube_api_burst == 0);
	assert_true(o->grace_period_ns == NS_PER_SEC);
	assert_memory_equal(&o->guard, &guard_defaults, sizeof(guard_defaults));
	assert_true(o->election.is_enabled);
	assert_true(o->election.lease_duration_ns == 15 * NS_PER_SEC);
	assert_true(o->routes.are_configured);
	assert_int_equal(o->serving.secure.port, 10258);
	assert_int_equal(o->serving.metrics.port, 0);
	assert_int_equal(o->sandbox, SANDBOX_AUTO);
	assert_true(o->shown.min_resync_ns == 12 * 3600 * NS_PER_SEC);
	assert_int_equal(o->access.config.allow_paths.n, 3);
	assert_true(controllers_enabled(o, "service-lb-controller"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_specified_flag_is_there_with_its_default),
		cmocka_unit_test(no_other_flag_is_there_by_accident),
		cmocka_unit_test(rows_are_complete),
		cmocka_unit_test(fields_hold_the_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
