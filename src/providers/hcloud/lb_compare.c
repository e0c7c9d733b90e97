/* lb_compare.c: see lb_compare.h. */
#include "providers/hcloud/lb_compare.h"

#include "base/ip.h"

/* ---- single members ---------------------------------------------------------------------------------- */

static bool
is_tri(enum hz_tri wanted, enum hz_tri actual)
{
	return wanted == HZ_UNSET || (wanted == HZ_YES) == (actual == HZ_YES);
}

static bool
is_number(const struct hz_opt_i64 *wanted, const struct hz_opt_i64 *actual)
{
	return !wanted->is_set || (actual->is_set && actual->value == wanted->value);
}

/* The empty text and none are the same. */
static bool
is_text(const struct hz_opt_str *wanted, const struct hz_opt_str *actual)
{
	struct str is = actual->is_set ? actual->value : STR_EMPTY;

	return !wanted->is_set || str_eq(wanted->value, is);
}

/* ---- lists ------------------------------------------------------------------------------------------- */

static bool
has_id(const int64_t ids[], size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] == id)
			return true;
	}
	return false;
}

static bool
has_all_ids(const int64_t ids[], size_t n, const int64_t others[], size_t n_others)
{
	for (size_t i = 0; i < n_others; i++) {
		if (!has_id(ids, n, others[i]))
			return false;
	}
	return true;
}

static bool
are_certificates(const struct hz_lb_http *wanted, const struct hz_lb_http *actual)
{
	return !wanted->has_certificates ||
	       (has_all_ids(wanted->certificates, wanted->n_certificates, actual->certificates,
	                    actual->n_certificates) &&
	        has_all_ids(actual->certificates, actual->n_certificates, wanted->certificates,
	                    wanted->n_certificates));
}

static bool
has_text(const struct str texts[], size_t n, struct str text)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(texts[i], text))
			return true;
	}
	return false;
}

static bool
has_all_texts(const struct str texts[], size_t n, const struct str others[], size_t n_others)
{
	for (size_t i = 0; i < n_others; i++) {
		if (!has_text(texts, n, others[i]))
			return false;
	}
	return true;
}

static bool
are_status_codes(const struct hz_lb_check *wanted, const struct hz_lb_check *actual)
{
	return !wanted->has_status_codes ||
	       (has_all_texts(wanted->status_codes, wanted->n_status_codes, actual->status_codes,
	                      actual->n_status_codes) &&
	        has_all_texts(actual->status_codes, actual->n_status_codes, wanted->status_codes,
	                      wanted->n_status_codes));
}

/* ---- services ---------------------------------------------------------------------------------------- */

/* An API that does not speak of timeout_idle yet would never have the one that is wanted. */
static bool
is_http(const struct hz_lb_http *wanted, const struct hz_lb_http *actual)
{
	return is_text(&wanted->cookie_name, &actual->cookie_name) &&
	       is_number(&wanted->cookie_lifetime_s, &actual->cookie_lifetime_s) &&
	       (!actual->timeout_idle_s.is_set ||
	        is_number(&wanted->timeout_idle_s, &actual->timeout_idle_s)) &&
	       is_tri(wanted->redirects, actual->redirects) &&
	       is_tri(wanted->is_sticky, actual->is_sticky) && are_certificates(wanted, actual);
}

static bool
is_check(const struct hz_lb_check *wanted, const struct hz_lb_check *actual)
{
	return str_eq(wanted->protocol, actual->protocol) && wanted->port == actual->port &&
	       is_number(&wanted->interval_s, &actual->interval_s) &&
	       is_number(&wanted->timeout_s, &actual->timeout_s) &&
	       is_number(&wanted->retries, &actual->retries) &&
	       is_text(&wanted->domain, &actual->domain) && is_text(&wanted->path, &actual->path) &&
	       is_tri(wanted->is_tls, actual->is_tls) && are_status_codes(wanted, actual);
}

/* A service over tcp has no http to compare, though it may be asked for. */
bool
hz_lb_service_is_so(const struct hz_lb_service *wanted, const struct hz_lb_service *actual)
{
	bool has_http = wanted->has_http && !str_eq_c(wanted->protocol, "tcp");

	return str_eq(wanted->protocol, actual->protocol) &&
	       wanted->destination_port == actual->destination_port &&
	       is_tri(wanted->proxy_protocol, actual->proxy_protocol) &&
	       (!has_http || is_http(&wanted->http, &actual->http)) &&
	       is_check(&wanted->check, &actual->check);
}

/* ---- targets ----------------------------------------------------------------------------------------- */

static int
cmp_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Whatever their spelling; what is no address is before all that are, as a text. */
static int
cmp_addresses(struct str a, struct str b)
{
	struct ip left, right;
	bool is_left = ip_parse(a, &left), is_right = ip_parse(b, &right);

	if (is_left && is_right)
		return ip_cmp(&left, &right);
	return is_left != is_right ? is_left - is_right : str_cmp(a, b);
}

int
hz_lb_target_cmp(const struct hz_lb_target *a, const struct hz_lb_target *b)
{
	if (a->type != b->type)
		return cmp_numbers(a->type, b->type);
	if (a->type != HZ_TARGET_SERVER)
		return cmp_addresses(a->ip, b->ip);
	if (a->server != b->server)
		return cmp_numbers(a->server, b->server);
	return a->uses_private_ip - b->uses_private_ip;
}
