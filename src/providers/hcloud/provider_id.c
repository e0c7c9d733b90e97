/* provider_id.c: see provider_id.h. */
#include "providers/hcloud/provider_id.h"

#include <inttypes.h>
#include <string.h>

#define ROBOT_PREFIX "hrobot://"
#define ROBOT_OLD_PREFIX "hcloud://bm-" /* of Syself's fork: read, never written */

/* The upstream parser drops every occurrence of the prefix: "hcloud://hcloud://1" is 1. */
static bool
skip_prefix(struct str *text, const char *prefix)
{
	struct str before = *text;

	while (str_starts(*text, str_c(prefix)))
		*text = str_skip(*text, strlen(prefix));
	return text->len < before.len;
}

static bool
skip_alias(const struct hz_dialect *dialect, struct str *text)
{
	for (const char *const *alias = dialect->id_aliases; *alias; alias++) {
		if (skip_prefix(text, *alias))
			return true;
	}
	return false;
}

/* In this order, since the second begins like the third. */
static bool
skip_any_prefix(const struct hz_dialect *dialect, struct str *text, enum hz_kind *ret)
{
	*ret = HZ_ROBOT;
	if (!dialect->is_tutorial &&
	    (skip_prefix(text, ROBOT_PREFIX) || skip_prefix(text, ROBOT_OLD_PREFIX)))
		return true;
	*ret = HZ_CLOUD;
	return skip_prefix(text, dialect->id_prefix) || skip_alias(dialect, text);
}

static bool
set_unexpected(const struct hz_dialect *dialect, struct str text, struct error *err)
{
	if (dialect->is_tutorial)
		return err_set(err, ERR_UNSUPPORTED,
		               "Provider ID does not have the expected prefix %s: %" STR_FMT,
		               dialect->id_prefix, STR_ARG(text));
	/* "the the" is how people search for it */
	return err_set(err, ERR_UNSUPPORTED,
	               "Provider ID does not have one of the the expected prefixes "
	               "(hcloud://, hrobot://, hcloud://bm-): %" STR_FMT,
	               STR_ARG(text));
}

bool
hz_id_parse(const struct hz_dialect *dialect, struct str text, struct hz_id *ret, struct error *err)
{
	struct str rest = text;
	struct hz_id id;

	if (!skip_any_prefix(dialect, &rest, &id.kind))
		return set_unexpected(dialect, text, err);
	if (rest.len == 0)
		return err_set(err, ERR_INVALID, "providerID is missing a serverID: %" STR_FMT,
		               STR_ARG(text));
	if (rest.len > 1 && rest.ptr[0] == '+' && rest.ptr[1] != '-')
		rest = str_skip(rest, 1); /* Go's parser allows it */
	if (!str_to_i64(rest, 1, INT64_MAX, &id.number))
		return err_set(err, ERR_INVALID, "unable to parse server id: %" STR_FMT,
		               STR_ARG(text));
	*ret = id;
	return true;
}

void
hz_id_format(struct buf *b, const struct hz_dialect *dialect, struct hz_id id)
{
	buf_addf(b, "%s%" PRId64, id.kind == HZ_ROBOT ? ROBOT_PREFIX : dialect->id_prefix,
	         id.number);
}
