#include "cloud/fake_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

/* ---- the clock ---- */

static struct fake_host *
of_clock(struct clock *c)
{
	return CONTAINER_OF(c, struct fake_host, clock);
}

static int64_t
now(struct clock *c)
{
	return of_clock(c)->now_ns;
}

static bool
wait_not(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	(void)cond;
	(void)mutex;
	assert_true(deadline_ns < CLOCK_FOREVER);
	if (deadline_ns > of_clock(c)->now_ns)
		of_clock(c)->now_ns = deadline_ns;
	return false;
}

/* ---- the host ---- */

static struct fake_host *
of_host(const struct cloud_host *host)
{
	return CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct fake_host, host);
}

static void
record_event(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
             const char *reason, struct str message)
{
	struct str name = ref ? ref->name : STR("-");

	buf_addf(&of_host(host)->events, "%" STR_FMT " %s%s: %" STR_FMT "\n", STR_ARG(name),
	         type == HOST_EVENT_WARNING ? "" : "Normal ", reason, STR_ARG(message));
}

static void
record_service_event(const struct cloud_host *host, const struct lb_spec *spec,
                     enum host_event type, const char *reason, struct str message)
{
	buf_addf(&of_host(host)->events, "%" STR_FMT "/%" STR_FMT " %s%s: %" STR_FMT "\n",
	         STR_ARG(spec->namespace), STR_ARG(spec->service),
	         type == HOST_EVENT_WARNING ? "" : "Normal ", reason, STR_ARG(message));
}

static void
record_requeue(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	(void)key;
	of_host(host)->n_recovered += what == HOST_REQUEUE_RECOVERED;
	of_host(host)->n_services_requeued += what == HOST_REQUEUE_SERVICES;
}

static void
give_nodes(const struct cloud_host *host, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	(void)arena;
	*ret = of_host(host)->nodes;
	*ret_n = of_host(host)->n_nodes;
}

static bool
is_service_address(const struct cloud_host *host, struct str ip)
{
	const char *address = of_host(host)->service_address;

	return address && str_eq_c(ip, address);
}

/* ---- life cycle ---- */

void
fake_host_init(struct fake_host *f)
{
	*f = (struct fake_host){
		.clock = { now, now, now, wait_not },
		.now_ns = 1800000000 * NS_PER_SEC,
		.events = BUF_INIT(100000),
	};
	f->host = (struct cloud_host){ .clock = &f->clock,
		                       .event = record_event,
		                       .service_event = record_service_event,
		                       .requeue = record_requeue,
		                       .nodes = give_nodes,
		                       .is_service_address = is_service_address };
}

void
fake_host_fini(struct fake_host *f)
{
	buf_fini(&f->events);
}

struct call
fake_host_call(struct fake_host *f, struct arena *arena)
{
	return (struct call){ .clock = &f->clock,
		              .deadline_mono_ns = CLOCK_FOREVER,
		              .arena = arena };
}
