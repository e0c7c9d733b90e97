/* base/names.h: which texts Kubernetes accepts as names and labels.
 *
 * The rules are those of RFC 1123 as k8s.io/apimachinery, pkg/util/validation, applies them. Names
 * are checked before they become part of a request, because the server refuses the whole request
 * otherwise.
 */
#ifndef CCMD_BASE_NAMES_H
#define CCMD_BASE_NAMES_H

#include "base/str.h"

/** ASCII letters and digits, whatever the locale. */
bool char_is_alnum(char c);

/** Letters, digits and characters of `others` only? True when s is empty. */
bool name_has_only(struct str s, const char *others);
/** Returns true when s has 1 to max characters, each of them accepted by is_end or contained in
 * `inner`, and the first and the last one accepted by is_end. */
bool name_is_word(struct str s, bool (*is_end)(char), const char *inner, size_t max);

/** At most 63 lower case letters, digits and '-': the name of a namespace or Service. */
bool name_is_dns_label(struct str s);
/** Words of lower case letters, digits and '-', joined by dots: the name of most objects. The
 * length is bounded only as a whole, by LIMIT_NAME: the words may be longer than a DNS label. */
bool name_is_dns_subdomain(struct str s);
/** Empty, or at most 63 letters, digits, '-', '_' and '.'. */
bool name_is_label_value(struct str s);
/** A text like a label value, but not empty, after an optional DNS subdomain and '/'. */
bool name_is_label_key(struct str s);
/** Is this label's key reserved for Kubernetes: (^|\.)(kubernetes|k8s)\.io/ ? Clouds must not set
 * such labels. */
bool name_is_reserved_label(struct str key);

#endif
