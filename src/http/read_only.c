/* http/read_only.c: see read_only.h. */
#include "http/read_only.h"

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
	return is_permitted(request) ||
	       err_set(err, ERR_FORBIDDEN,
	               "%s %" STR_FMT ": not sent, because this process changes nothing",
	               http_method_name(request->method), STR_ARG(str_head(request->target, 200)));
}
