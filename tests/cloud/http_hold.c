#include "cloud/http_hold.h"

#include "base/thread.h"

static void
wake(void *hold)
{
	struct http_hold *h = hold;
	WITH_LOCK(&h->mu);

	cond_broadcast(&h->changed);
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	struct http_hold *h = CONTAINER_OF(client, struct http_hold, client);
	WITH_HOOK(call->cancel, wake, h);
	WITH_LOCK(&h->mu);

	h->n_arrived++;
	while (h->n_released == 0) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (!clock_wait(call->clock, &h->changed, &h->mu, call->deadline_mono_ns))
			return err_set(err, ERR_TIMEOUT, "timed out");
	}
	h->n_released--;
	return h->inner->ops->do_request(h->inner, call, request, response, err);
}

void
http_hold_release(struct http_hold *h, unsigned n)
{
	WITH_LOCK(&h->mu);

	h->n_released += n;
	cond_broadcast(&h->changed);
}

unsigned
http_hold_arrived(struct http_hold *h)
{
	WITH_LOCK(&h->mu);

	return h->n_arrived;
}

void
http_hold_init(struct http_hold *h, struct http_client *inner)
{
	static const struct http_ops ops = { .do_request = do_request };

	*h = (struct http_hold){ .client = { &ops }, .inner = inner };
	mutex_init(&h->mu);
	cond_init(&h->changed);
}

void
http_hold_fini(struct http_hold *h)
{
	cond_destroy(&h->changed);
	mutex_destroy(&h->mu);
}
