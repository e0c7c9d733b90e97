/* tests/configz.c: what /configz shows. */
#include "flags/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/limits.h"
#include "flags/line.h"

static struct buf shown = { .ptr = buf_empty, .max = KIB(64) };

static yyjson_doc *
show(void)
{
	yyjson_doc *doc = NULL;
	struct error err = { 0 };

	buf_reset(&shown);
	configz_add(&line_options, &shown);
	if (!json_parse(buf_str(&shown), &doc, &err))
		fail_msg("%s in %s", err.msg, shown.ptr);
	return doc;
}

/* Appends each path, "Generic.Port ", in the order of the document. */
static void
add_paths(yyjson_val *object, const char *prefix, struct buf *b)
{
	yyjson_obj_iter iter = yyjson_obj_iter_with(object);
	yyjson_val *key;

	while ((key = yyjson_obj_iter_next(&iter))) {
		CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(1));
		yyjson_val *value = yyjson_obj_iter_get_val(key);

		buf_addf(&path, "%s%s", prefix, yyjson_get_str(key));
		if (!yyjson_is_obj(value)) {
			buf_addf(b, "%s ", path.ptr);
			continue;
		}
		buf_add_char(&path, '.');
		add_paths(value, path.ptr, b);
	}
}

/* docs/spec/framework.md, "Configuration endpoint" */
static void
the_keys_are_those_of_the_go_framework_in_its_order(void **state)
{
	CLEANUP(buf_fini) struct buf paths = BUF_INIT(KIB(8));
	yyjson_doc *doc;

	(void)state;
	assert_int_equal(PARSE(), FLAGS_RUN);
	doc = show();
	add_paths(yyjson_doc_get_root(doc), "", &paths);
	yyjson_doc_free(doc);
	assert_string_equal(
		paths.ptr,
		"kind apiVersion Generic.Port Generic.Address Generic.MinResyncPeriod "
		"Generic.ClientConnection.kubeconfig Generic.ClientConnection.acceptContentTypes "
		"Generic.ClientConnection.contentType Generic.ClientConnection.qps "
		"Generic.ClientConnection.burst Generic.ControllerStartInterval "
		"Generic.LeaderElection.leaderElect Generic.LeaderElection.leaseDuration "
		"Generic.LeaderElection.renewDeadline Generic.LeaderElection.retryPeriod "
		"Generic.LeaderElection.resourceLock Generic.LeaderElection.resourceName "
		"Generic.LeaderElection.resourceNamespace Generic.Controllers "
		"Generic.Debugging.enableProfiling Generic.Debugging.enableContentionProfiling "
		"Generic.LeaderMigrationEnabled Generic.LeaderMigration.leaderName "
		"Generic.LeaderMigration.resourceLock Generic.LeaderMigration.controllerLeaders "
		"KubeCloudShared.CloudProvider.Name KubeCloudShared.CloudProvider.CloudConfigFile "
		"KubeCloudShared.ExternalCloudVolumePlugin KubeCloudShared.UseServiceAccountCredentials "
		"KubeCloudShared.AllowUntaggedCloud KubeCloudShared.RouteReconciliationPeriod "
		"KubeCloudShared.ClusterName "
		"KubeCloudShared.ClusterCIDR KubeCloudShared.AllocateNodeCIDRs "
		"KubeCloudShared.CIDRAllocatorType KubeCloudShared.ConfigureCloudRoutes "
		"KubeCloudShared.NodeSyncPeriod NodeController.ConcurrentNodeSyncs "
		"NodeController.ConcurrentNodeStatusUpdates "
		"NodeLifecycleController.NodeMonitorPeriod "
		"NodeLifecycleController.ConcurrentNodeLifecycleSyncs "
		"ServiceController.ConcurrentServiceSyncs "
		"NodeStatusUpdateFrequency Webhook.Webhooks ");
}

static void
expect(const char *text)
{
	if (!strstr(shown.ptr, text))
		fail_msg("no %s in %s", text, shown.ptr);
}

static void
defaults_are_shown(void **state)
{
	(void)state;
	assert_int_equal(PARSE(), FLAGS_RUN);
	yyjson_doc_free(show());
	expect("{\"kind\":\"CloudControllerManagerConfiguration\",\"apiVersion\":"
	       "\"cloudcontrollermanager.config.k8s.io/v1alpha1\",\"Generic\":{\"Port\":0,"
	       "\"Address\":\"0.0.0.0\",\"MinResyncPeriod\":\"12h0m0s\",");
	expect("\"contentType\":\"application/vnd.kubernetes.protobuf\",\"qps\":-1,\"burst\":8}");
	expect("\"NodeMonitorPeriod\":\"1m5s\"");
	expect("{\"leaderElect\":true,\"leaseDuration\":\"15s\",\"renewDeadline\":\"10s\","
	       "\"retryPeriod\":\"2s\",\"resourceLock\":\"leases\",\"resourceName\":"
	       "\"cloud-controller-manager\",\"resourceNamespace\":\"kube-system\"}");
	expect("\"Controllers\":[\"*\"],\"Debugging\":{\"enableProfiling\":true,"
	       "\"enableContentionProfiling\":false},\"LeaderMigrationEnabled\":false,"
	       "\"LeaderMigration\":{\"leaderName\":\"\",\"resourceLock\":\"\","
	       "\"controllerLeaders\":null}}");
	expect("\"NodeStatusUpdateFrequency\":\"5m0s\",\"Webhook\":{\"Webhooks\":null}}");
}

static void
what_was_given_is_shown(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--kube-api-qps=12.5", "--kube-api-burst=30",
	                       "--node-monitor-period=7s", "--concurrent-node-syncs=3",
	                       "--concurrent-service-syncs=4",
	                       "--concurrent-node-lifecycle-syncs=2",
	                       "--controllers=service,-route", "--cluster-name=a\"b\xff",
	                       "--webhooks=a,b", "--cloud-config=/etc/cloud.yaml",
	                       "--profiling=false"),
	                 FLAGS_RUN);
	yyjson_doc_free(show());
	expect("\"qps\":12.5,\"burst\":30}");
	expect("\"Controllers\":[\"service-lb-controller\",\"-node-route-controller\"]");
	expect("\"ClusterName\":\"a\\\"b\xef\xbf\xbd\"");
	expect("\"CloudProvider\":{\"Name\":\"cloudlycke\",\"CloudConfigFile\":\"/etc/cloud.yaml\"}");
	expect("\"NodeController\":{\"ConcurrentNodeSyncs\":3,\"ConcurrentNodeStatusUpdates\":3},"
	       "\"NodeLifecycleController\":{\"NodeMonitorPeriod\":\"7s\","
	       "\"ConcurrentNodeLifecycleSyncs\":2},"
	       "\"ServiceController\":{\"ConcurrentServiceSyncs\":4}");
	expect("\"Webhooks\":[\"a\",\"b\"]");
	expect("\"enableProfiling\":false");
}

static void
a_rate_alone_lets_one_through_immediately(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--kube-api-qps=5"), FLAGS_RUN);
	yyjson_doc_free(show());
	expect("\"qps\":5,\"burst\":1}");
}

static int
fini(void **state)
{
	buf_fini(&shown);
	return line_fini(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_keys_are_those_of_the_go_framework_in_its_order),
		cmocka_unit_test(defaults_are_shown),
		cmocka_unit_test(what_was_given_is_shown),
		cmocka_unit_test(a_rate_alone_lets_one_through_immediately),
	};

	return cmocka_run_group_tests(tests, NULL, fini);
}
