/* flags/log.c: all flags, for who reads a log without the manifest at hand. */
#include "base/limits.h"
#include "flags/flags.h"
#include "flags/table.h"

#include "base/log.h"

void
flags_log(const struct options *o)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));
	const struct flag *flag;

	if (!log_is_debug())
		return;
	for (size_t i = 0; (flag = flag_at(i)); i++) {
		if (!flag->fallback)
			continue;
		buf_reset(&line);
		buf_addf(&line, "FLAG: --%s=\"%s\"", flag->name, o->states[i].text);
		log_debug(line.ptr);
	}
}
