/* http/read_only.c: see read_only.h. */
#include "http/read_only.h"

#include "base/fence.h"
#include "base/limits.h"

static const char *const *permitted_posts; /* NULL: no restriction */

void
http_set_read_only(const char *const posts[])
{
	permitted_posts = posts;
}

static bool
is_permitted(const struct http_request *request)
{
	if (!permitted_posts || request->method == HTTP_GET)
		return true;
	if (request->method != HTTP_POST)
		return false;
	for (const char *const *post = permitted_posts; *post; post++) {
		if (str_eq_c(request->target, *post))
			return true;
	}
	return false;
}

bool
http_check_read_only(const struct http_request *request, struct error *err)
{
	CLEANUP(buf_fini) struct buf what = BUF_INIT(LIMIT_HTTP_URL);

	if (is_permitted(request))
		return true;
	buf_addf(&what, "%s %" STR_FMT, http_method_name(request->method),
	         STR_ARG(str_head(request->target, 200)));
	fence_note_refused(buf_str(&what));
	return err_set(err, ERR_FORBIDDEN, "%s: not sent, because this process changes nothing",
	               what.ptr);
}
