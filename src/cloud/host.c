/* cloud/host.c: see host.h. */
#include "cloud/host.h"

#include <stdatomic.h>

#include "base/buf.h"
#include "base/event_kind.h"
#include "base/limits.h"

bool
host_count_request(const struct cloud_host *host, struct error *err)
{
	if (!host->requests || atomic_fetch_add(&host->requests->n, 1) < host->requests->max)
		return true;
	return err_set(
		err, ERR_UNAVAILABLE,
		"not asked: a command about one object sends at most %u requests to the cloud",
		host->requests->max);
}

void
host_report(const struct cloud_host *host, const struct node_ref *ref,
            const struct event_kind *kind, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	BUF_ADD_ARGS(&text, fmt);
	host->event(host, ref, kind->is_warning ? HOST_EVENT_WARNING : HOST_EVENT_NORMAL,
	            kind->reason, buf_str(&text));
}

void
host_report_service(const struct cloud_host *host, const struct lb_spec *spec,
                    const struct event_kind *kind, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	BUF_ADD_ARGS(&text, fmt);
	host->service_event(host, spec, kind->is_warning ? HOST_EVENT_WARNING : HOST_EVENT_NORMAL,
	                    kind->reason, buf_str(&text));
}
