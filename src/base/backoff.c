/* base/backoff.c: see backoff.h. */
#include "base/backoff.h"

#include "base/rand.h"

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

	/* two sevenths of the sum are two fifths of the delay */
	return rand_between(latest_ns - latest_ns / 7 * 2, latest_ns);
}
