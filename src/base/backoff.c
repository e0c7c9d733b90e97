/* base/backoff.c: see backoff.h. */
#include "base/backoff.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/rand.h"

#define DURATION_STEP_NS (100 * NS_PER_MS) /* durations in messages are multiples of it */

int64_t
backoff_ns(int64_t first_ns, unsigned n_times, int64_t most_ns)
{
	int64_t delay_ns = first_ns;

	while (n_times-- > 0 && delay_ns > 0 && delay_ns < most_ns)
		delay_ns = delay_ns <= most_ns / 2 ? 2 * delay_ns : most_ns;
	return delay_ns < most_ns ? delay_ns : most_ns;
}

int64_t
backoff_spread_ns(int64_t first_ns, unsigned n_times, int64_t most_ns)
{
	int64_t delay_ns = backoff_ns(first_ns, n_times, most_ns);
	int64_t spread_ns = delay_ns / 5 * 2;
	int64_t latest_ns = spread_ns < most_ns - delay_ns ? delay_ns + spread_ns : most_ns;

	/* Two sevenths of delay and spread together are two fifths of the delay alone. */
	return rand_between(latest_ns - latest_ns / 7 * 2, latest_ns);
}

void
attempts_note(struct attempts *a, const struct error *err)
{
	if (a->n++ == 0 || err->code != ERR_TIMEOUT)
		a->why = *err;
}

bool
attempts_end(const struct attempts *a, int64_t now_ns, struct error *err)
{
	struct error last = *err;
	char memory[32] = "";
	struct buf duration = BUF_FIXED(memory);

	if (a->n < 2 || err->code == ERR_CANCELLED)
		return false;
	clock_format_duration(&duration,
	                      (now_ns - a->begun_ns) / DURATION_STEP_NS * DURATION_STEP_NS);
	err_set(err, last.code, "%s (%u attempts in %s)", a->why.msg, a->n, memory);
	err->http_status = last.http_status;
	err->retry_after_ms = last.retry_after_ms;
	return false;
}
