/* base/call.c: see call.h. */
#include "base/call.h"

int64_t
call_deadline_real(const struct call *call, int64_t timeout_ns)
{
	int64_t left_ns = timeout_ns;

	if (call->deadline_mono_ns != CLOCK_FOREVER) {
		int64_t call_ns = call->deadline_mono_ns - clock_mono(call->clock);

		left_ns = call_ns < left_ns ? call_ns : left_ns;
	}
	return clock_deadline(clock_mono(&clock_real), left_ns);
}

void
call_note_change(const struct call *call, const char *what)
{
	if (!call->changes || str_contains(buf_str(call->changes), str_c(what)))
		return;
	buf_addf(call->changes, "%s%s", call->changes->len > 0 ? ", " : "", what);
}
