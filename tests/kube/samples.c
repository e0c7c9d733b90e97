/* tests/kube/samples.c: see samples.h. */
#include "kube/samples.h"

static void
add_managed_fields(struct buf *b)
{
	static const char fields[] =
		"{\"manager\":\"kubelet\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":"
		"\"2026-01-02T03:04:05Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{\"f:annotations\":"
		"{\".\":{},\"f:volumes.kubernetes.io/controller-managed-attach-detach\":{}},\"f:labels\":{\".\":{},"
		"\"f:beta.kubernetes.io/arch\":{},\"f:beta.kubernetes.io/os\":{},\"f:kubernetes.io/arch\":{},"
		"\"f:kubernetes.io/hostname\":{},\"f:kubernetes.io/os\":{}}},\"f:spec\":{\"f:providerID\":{}}}},"
		"{\"manager\":\"kubelet\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":"
		"\"2026-01-02T03:04:05Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:status\":{\"f:addresses\":{"
		"\".\":{},\"k:{\\\"type\\\":\\\"Hostname\\\"}\":{\".\":{},\"f:address\":{},\"f:type\":{}},"
		"\"k:{\\\"type\\\":\\\"InternalIP\\\"}\":{\".\":{},\"f:address\":{},\"f:type\":{}}},\"f:allocatable\":{"
		"\".\":{},\"f:cpu\":{},\"f:ephemeral-storage\":{},\"f:hugepages-1Gi\":{},\"f:memory\":{},\"f:pods\":{}},"
		"\"f:conditions\":{\".\":{},\"k:{\\\"type\\\":\\\"DiskPressure\\\"}\":{\".\":{},\"f:lastHeartbeatTime\":{},"
		"\"f:message\":{},\"f:status\":{}},\"k:{\\\"type\\\":\\\"Ready\\\"}\":{\".\":{},"
		"\"f:lastHeartbeatTime\":{},\"f:message\":{},\"f:status\":{}}},\"f:images\":{},\"f:nodeInfo\":{"
		"\"f:architecture\":{},\"f:bootID\":{},\"f:kernelVersion\":{}}}},\"subresource\":\"status\"}";

	buf_addf(b, ",\"managedFields\":[%s]", fields);
}

static void
add_labels(struct buf *b, const char *name)
{
	buf_addf(
		b,
		"\"labels\":{\"beta.kubernetes.io/arch\":\"amd64\",\"beta.kubernetes.io/instance-type\":\"cx22\","
		"\"beta.kubernetes.io/os\":\"linux\",\"failure-domain.beta.kubernetes.io/region\":\"fsn1\","
		"\"failure-domain.beta.kubernetes.io/zone\":\"fsn1-dc14\",\"kubernetes.io/arch\":\"amd64\","
		"\"kubernetes.io/hostname\":\"%s\",\"kubernetes.io/os\":\"linux\","
		"\"node-role.kubernetes.io/worker\":\"\",\"node.kubernetes.io/instance-type\":\"cx22\","
		"\"topology.kubernetes.io/region\":\"fsn1\",\"topology.kubernetes.io/zone\":\"fsn1-dc14\"}",
		name);
}

static void
add_metadata(struct buf *b, const struct sample_node *n)
{
	buf_addf(b, "\"metadata\":{\"name\":\"%s\",\"uid\":\"", n->name);
	if (n->uid)
		buf_add_c(b, n->uid);
	else
		buf_addf(b, "00000000-0000-0000-0000-%012llx",
		         (unsigned long long)(str_hash(str_c(n->name)) & 0xffffffffffff));
	buf_addf(b, "\",\"resourceVersion\":\"%s\",\"creationTimestamp\":\"2026-01-02T03:04:05Z\",",
	         n->version ? n->version : "1");
	add_labels(b, n->name);
	buf_add_c(b, ",\"annotations\":{\"alpha.kubernetes.io/provided-node-ip\":\"10.0.0.1\","
	             "\"node.alpha.kubernetes.io/ttl\":\"0\","
	             "\"volumes.kubernetes.io/controller-managed-attach-detach\":\"true\"}");
	if (n->n_images > 0)
		add_managed_fields(b);
	buf_add_char(b, '}');
}

static void
add_spec(struct buf *b, const struct sample_node *n)
{
	buf_add_c(b, ",\"spec\":{\"podCIDR\":\"10.244.1.0/24\",\"podCIDRs\":[\"10.244.1.0/24\"]");
	if (n->provider_id)
		buf_addf(b, ",\"providerID\":\"%s\"", n->provider_id);
	if (n->is_uninitialized)
		buf_add_c(
			b,
			",\"taints\":[{\"key\":\"node.cloudprovider.kubernetes.io/uninitialized\","
			"\"value\":\"true\",\"effect\":\"NoSchedule\"}]");
	buf_add_char(b, '}');
}

static void
add_condition(struct buf *b, const struct sample_node *n, const char *type, const char *status)
{
	buf_addf(
		b,
		"{\"type\":\"%s\",\"status\":\"%s\",\"lastHeartbeatTime\":\"%s\",\"lastTransitionTime\":"
		"\"2026-01-02T03:04:05Z\",\"reason\":\"KubeletHasSufficientMemory\",\"message\":"
		"\"kubelet has sufficient memory available\"}",
		type, status, n->heartbeat ? n->heartbeat : "2026-01-02T03:09:05Z");
}

static void
add_images(struct buf *b, unsigned n)
{
	buf_add_c(b, ",\"images\":[");
	for (unsigned i = 0; i < n; i++) {
		buf_addf(b,
		         "%s{\"names\":[\"registry.example.com/team/service-%02u@sha256:%064u\","
		         "\"registry.example.com/team/service-%02u:v1.%u.0\"],\"sizeBytes\":%u}",
		         i > 0 ? "," : "", i, i * 7919, i, i, 41234567 + i);
	}
	buf_add_char(b, ']');
}

static void
add_status(struct buf *b, const struct sample_node *n)
{
	buf_addf(
		b,
		",\"status\":{\"capacity\":{\"cpu\":\"2\",\"ephemeral-storage\":\"40470732Ki\",\"hugepages-1Gi\":\"0\","
		"\"memory\":\"4026036Ki\",\"pods\":\"110\"},\"allocatable\":{\"cpu\":\"2\",\"memory\":\"3923636Ki\","
		"\"pods\":\"110\"},\"addresses\":[{\"type\":\"Hostname\",\"address\":\"%s\"},{\"type\":\"InternalIP\","
		"\"address\":\"10.0.123.101\"},{\"type\":\"ExternalIP\",\"address\":\"203.0.113.101\"}],\"conditions\":[",
		n->name);
	add_condition(b, n, "MemoryPressure", "False");
	buf_add_char(b, ',');
	add_condition(b, n, "DiskPressure", "False");
	buf_add_char(b, ',');
	add_condition(b, n, "PIDPressure", "False");
	buf_add_char(b, ',');
	add_condition(b, n, "Ready", n->ready ? n->ready : "True");
	buf_add_c(
		b,
		"],\"daemonEndpoints\":{\"kubeletEndpoint\":{\"Port\":10250}},\"nodeInfo\":{\"machineID\":"
		"\"3f4c9f4f0f7245a1a1ac0f24ed4a6d4d\",\"systemUUID\":\"3f4c9f4f-0f72-45a1-a1ac-0f24ed4a6d4d\","
		"\"bootID\":\"7a0e2b32-6a0b-4a2a-8f63-0d2f1d5ad6b5\",\"kernelVersion\":\"6.1.0-37-amd64\","
		"\"osImage\":\"Debian GNU/Linux 12 (bookworm)\",\"containerRuntimeVersion\":\"containerd://2.1.4\","
		"\"kubeletVersion\":\"v1.36.3\",\"kubeProxyVersion\":\"\",\"operatingSystem\":\"linux\","
		"\"architecture\":\"amd64\"}");
	if (n->n_images > 0)
		add_images(b, n->n_images);
	buf_add_char(b, '}');
}

static void
add_parts(struct buf *b, const struct sample_node *n)
{
	add_metadata(b, n);
	add_spec(b, n);
	add_status(b, n);
	buf_add_char(b, '}');
}

void
sample_node(struct buf *b, const struct sample_node *n)
{
	buf_add_c(b, "{\"kind\":\"Node\",\"apiVersion\":\"v1\",");
	add_parts(b, n);
}

void
sample_event(struct buf *b, const char *type, const struct sample_node *n)
{
	buf_addf(b, "{\"type\":\"%s\",\"object\":", type);
	sample_node(b, n);
	buf_add_c(b, "}\n");
}

void
sample_list(struct buf *b, const char *version, const struct sample_node *nodes, size_t n)
{
	buf_addf(
		b,
		"{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"%s\"},\"items\":[",
		version);
	for (size_t i = 0; i < n; i++) {
		buf_add_c(b, i > 0 ? ",{" : "{"); /* elements of a list do not say their kind */
		add_parts(b, &nodes[i]);
	}
	buf_add_c(b, "]}\n");
}
