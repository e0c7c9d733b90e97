/* A Lease as the API server may send it. What is written back is a Lease again, with our fields,
 * and none of its other fields is lost. */
#include "kube/lease.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_update(const struct lease *old, enum lease_change change)
{
	const struct lease_claim claim = { STR("host_uuid"), 15, 0 };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(lease_fini) struct lease l = LEASE_INIT;
	struct error err;

	lease_add_update(&b, old, change, &claim);
	if (!buf_ok(&b))
		return;
	if (!lease_parse(buf_str(&b), &l, &err))
		abort();
	assert(str_eq_c(l.holder, "host_uuid") && l.duration_s == 15);
	assert(str_eq(l.uid, old->uid) && l.transitions >= old->transitions);
	assert(lease_spec_differs(&l, old) || str_eq_c(old->holder, "host_uuid"));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(lease_fini) struct lease l = LEASE_INIT;
	struct error err;

	if (!lease_parse(str_n((const char *)data, size), &l, &err)) {
		assert(err.code == ERR_INVALID && !l.doc);
		return 0;
	}
	check_update(&l, LEASE_RENEW);
	check_update(&l, LEASE_TAKE);
	return 0;
}
