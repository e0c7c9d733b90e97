/* source.c: see source.h. */
#include "providers/hcloud/source.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"

enum {
	NAME_MAX_LEN = 64, /* of a variable, with "_FILE" */
};

/* The file that X_FILE names; NULL: none, or X comes first. */
static const char *
file_of(const char *variable)
{
	char memory[NAME_MAX_LEN] = "";
	struct buf name = BUF_FIXED(memory);

	buf_addf(&name, "%s_FILE", variable);
	return getenv(variable) ? NULL : getenv(memory);
}

static bool
read_path(const char *path, struct secret *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_CREDENTIAL);

	if (!file_read(path, &text, err))
		return false;
	secret_set(ret, str_trim(buf_str(&text)));
	return true;
}

/* In Go's words, where people search for them. */
static void
add_problem(struct buf *problems, const char *variable, const char *path, const struct error *err)
{
	buf_addf(problems, "failed to read %s_FILE: ", variable);
	if (err->code == ERR_NOT_FOUND)
		buf_addf(problems, "open %s: no such file or directory\n", path);
	else if (err->code == ERR_FORBIDDEN)
		buf_addf(problems, "open %s: permission denied\n", path);
	else
		buf_addf(problems, "%s\n", err->msg);
}

void
hz_source_load(struct hz_source *s, const char *variable, struct buf *problems)
{
	const char *path = file_of(variable);
	struct error err;

	*s = (struct hz_source){ 0 };
	if (!path) {
		secret_set(&s->value, str_c(getenv(variable)));
		return;
	}
	s->path = xstrdup(path);
	if (!read_path(s->path, &s->value, &err))
		add_problem(problems, variable, s->path, &err);
}

void
hz_source_fini(struct hz_source *s)
{
	secret_fini(&s->value);
	free(TAKE(s->path));
}

void
hz_source_copy(struct hz_source *to, const struct hz_source *from)
{
	*to = (struct hz_source){ .path = from->path ? xstrdup(from->path) : NULL };
	secret_set(&to->value, secret_expose(&from->value));
}

bool
hz_source_refresh(struct hz_source *s)
{
	CLEANUP(secret_fini) struct secret fresh = SECRET_NONE;
	struct error err;

	if (!s->path || !read_path(s->path, &fresh, &err) || secret_expose(&fresh).len == 0 ||
	    secret_eq(&fresh, &s->value))
		return false;
	secret_set(&s->value, secret_expose(&fresh));
	return true;
}
