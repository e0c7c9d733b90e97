/* base/names.c: see names.h. */
#include "base/names.h"

#include "base/limits.h"

enum {
	DNS_LABEL_MAX = 63,
	LABEL_MAX = 63, /* of a label's value, and of its key without the prefix */
};

static bool
char_is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool
char_is_alnum(char c)
{
	return char_is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

bool
name_has_only(struct str s, const char *others)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!char_is_alnum(s.ptr[i]) && !char_is_in(s.ptr[i], others))
			return false;
	}
	return true;
}

bool
name_is_word(struct str s, bool (*is_end)(char), const char *inner, size_t max)
{
	if (s.len == 0 || s.len > max || !is_end(s.ptr[0]) || !is_end(s.ptr[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!is_end(s.ptr[i]) && !char_is_in(s.ptr[i], inner))
			return false;
	}
	return true;
}

bool
name_is_dns_label(struct str s)
{
	return name_is_word(s, char_is_lower_alnum, "-", DNS_LABEL_MAX);
}

bool
name_is_dns_subdomain(struct str s)
{
	if (s.len > LIMIT_NAME)
		return false;
	for (struct str part, rest = s; str_split(&rest, '.', &part);) {
		if (!name_is_word(part, char_is_lower_alnum, "-", LIMIT_NAME))
			return false;
	}
	return true;
}

static bool
is_label_name(struct str s)
{
	return name_is_word(s, char_is_alnum, "-_.", LABEL_MAX);
}

bool
name_is_label_value(struct str s)
{
	return s.len == 0 || is_label_name(s);
}

bool
name_is_label_key(struct str s)
{
	struct str prefix, name;

	if (!str_cut(s, '/', &prefix, &name))
		return is_label_name(s);
	return name_is_dns_subdomain(prefix) && is_label_name(name);
}

bool
name_is_reserved_label(struct str key)
{
	struct str domain, name;

	return str_cut(key, '/', &domain, &name) &&
	       (str_eq_c(domain, "kubernetes.io") || str_eq_c(domain, "k8s.io") ||
	        str_ends(domain, STR(".kubernetes.io")) || str_ends(domain, STR(".k8s.io")));
}
