/* flags/serving.c: the flags of the HTTPS server, checked and translated.
 *
 * The flags use the names of Go's crypto/tls for cipher suites, key exchanges and versions; the
 * server takes OpenSSL's. A name that the Go programs accept is accepted here too, with a warning
 * where OpenSSL cannot provide what it stands for.
 */
#include "flags/table.h"

#include <openssl/ssl.h>
#include <string.h>

#include "base/limits.h"

/* ---- names ---- */

/* By the names of Go. A suite that OpenSSL has removed has no name there: it is accepted, but never
 * negotiated. */
struct suite {
	const char *name, *openssl;
	bool is_tls13;
};

static const struct suite suites[] = {
	{ "TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", true },
	{ "TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", true },
	{ "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", true },
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", false },
	{ "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", false },
	{ "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", false },
	{ "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", false },
	{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305", false },
	{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", false },
	{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305", false },
	{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", false },
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA", false },
	{ "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", false },
	{ "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA", false },
	{ "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA", false },
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256", false },
	{ "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256", false },
	{ "TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", false },
	{ "TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA", false },
	{ "TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256", false },
	{ "TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256", false },
	{ "TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384", false },
	{ "TLS_RSA_WITH_3DES_EDE_CBC_SHA", NULL, false },
	{ "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", NULL, false },
	{ "TLS_RSA_WITH_RC4_128_SHA", NULL, false },
	{ "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", NULL, false },
	{ "TLS_ECDHE_RSA_WITH_RC4_128_SHA", NULL, false },
};

/* The Go programs take numbers only; the names are those of Go's constants. */
struct group {
	const char *name, *number, *openssl;
	bool needs_ml_kem; /* which needs OpenSSL 3.5 */
};

static const struct group groups[] = {
	{ "CurveP256", "23", "P-256", false },
	{ "CurveP384", "24", "P-384", false },
	{ "CurveP521", "25", "P-521", false },
	{ "X25519", "29", "X25519", false },
	{ "X25519MLKEM768", "4588", "X25519MLKEM768", true },
	{ "SecP256r1MLKEM768", "4587", "SecP256r1MLKEM768", true },
	{ "SecP384r1MLKEM1024", "4589", "SecP384r1MLKEM1024", true },
};

static const struct {
	const char *name;
	int version;
} versions[] = {
	{ "", TLS1_2_VERSION },
	{ "VersionTLS10", 0 },
	{ "VersionTLS11", 0 },
	{ "VersionTLS12", TLS1_2_VERSION },
	{ "VersionTLS13", TLS1_3_VERSION },
};

/* Appends to a list of OpenSSL, whose separator is a colon. */
static void
add_openssl_name(struct options *o, struct str *list, const char *name)
{
	*list = list->len == 0 ? str_c(name)
	                       : arena_printf(&o->arena, "%" STR_FMT ":%s", STR_ARG(*list), name);
}

/* ---- cipher suites ---- */

static const struct suite *
find_suite(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(suites); i++) {
		if (str_eq_c(name, suites[i].name))
			return &suites[i];
	}
	return NULL;
}

/* If only suites of TLS 1.3 are named, TLS 1.2 is switched off: OpenSSL would otherwise offer its
 * default suites for it. If no named suite can be used, that is an error: the default suites are
 * not what was asked for. */
static void
resolve_suites(struct options *o, struct buf *problems, struct buf *warnings)
{
	const struct str_list *names = &o->serving.cipher_names;
	struct server_tls *tls = &o->serving.secure.tls;
	size_t n_problems = problems->len;

	for (size_t i = 0; i < names->n; i++) {
		const struct suite *suite = find_suite(names->items[i]);

		if (!suite)
			buf_addf(problems,
			         "--tls-cipher-suites: unknown cipher suite \"%" STR_FMT "\"\n",
			         STR_ARG(names->items[i]));
		else if (!suite->openssl)
			buf_addf(warnings, "--tls-cipher-suites: %s is broken and never used\n",
			         suite->name);
		else
			add_openssl_name(o, suite->is_tls13 ? &tls->ciphersuites : &tls->ciphers,
			                 suite->openssl);
	}
	if (names->n == 0 || problems->len > n_problems || tls->ciphers.len > 0)
		return;
	if (tls->ciphersuites.len > 0)
		tls->min_version = TLS1_3_VERSION;
	else
		buf_add_c(problems, "--tls-cipher-suites: none of these suites can be used\n");
}

/* ---- versions and curves ---- */

static void
resolve_version(struct serving_options *s, struct buf *problems, struct buf *warnings)
{
	s->secure.tls.min_version = TLS1_2_VERSION;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		if (strcmp(s->min_version_name, versions[i].name) != 0)
			continue;
		if (versions[i].version != 0)
			s->secure.tls.min_version = versions[i].version;
		else
			buf_addf(warnings, "--tls-min-version: %s is treated as VersionTLS12\n",
			         versions[i].name);
		return;
	}
	buf_addf(problems, "--tls-min-version: want VersionTLS12 or VersionTLS13, got \"%s\"\n",
	         s->min_version_name);
}

static const struct group *
find_group(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		if (str_eq_c(name, groups[i].name) || str_eq_c(name, groups[i].number))
			return &groups[i];
	}
	return NULL;
}

static void
resolve_groups(struct options *o, struct buf *problems, struct buf *warnings)
{
	const struct str_list *names = &o->serving.curve_names;
	struct str *list = &o->serving.secure.tls.groups;
	size_t n_problems = problems->len;

	for (size_t i = 0; i < names->n; i++) {
		const struct group *group = find_group(names->items[i]);

		if (!group)
			buf_addf(problems,
			         "--tls-curve-preferences: unknown key exchange \"%" STR_FMT "\"\n",
			         STR_ARG(names->items[i]));
		else if (group->needs_ml_kem && OpenSSL_version_num() < 0x30500000UL)
			buf_addf(warnings,
			         "--tls-curve-preferences: %s needs OpenSSL 3.5, ignoring it\n",
			         group->name);
		else
			add_openssl_name(o, list, group->openssl);
	}
	if (names->n > 0 && list->len == 0 && problems->len == n_problems)
		buf_add_c(problems,
		          "--tls-curve-preferences: none of these key exchanges can be used\n");
}

/* ---- certificates ---- */

/* "cert,key" or "cert,key:name,name". The first colon separates the names, as in the Go programs,
 * even if it is part of a path. */
static bool
parse_sni(struct str text, struct server_certificate *ret)
{
	struct str files = text, names = STR_EMPTY, cert, key;
	bool has_names = str_cut(text, ':', &files, &names);

	names = str_trim(names);
	if ((has_names && names.len == 0) || !str_cut(str_trim(files), ',', &cert, &key) ||
	    str_index(key, ',') >= 0)
		return false;
	*ret = (struct server_certificate){ str_trim(cert), str_trim(key), names };
	return ret->cert_file.len > 0 && ret->key_file.len > 0;
}

static void
resolve_sni(struct options *o, struct buf *problems)
{
	const struct serving_options *s = &o->serving;
	struct server_tls *tls = &o->serving.secure.tls;
	struct server_certificate *sni = arena_calloc(&o->arena, s->sni_texts.n + 1, sizeof(*sni));

	tls->sni = sni;
	for (size_t i = 0; i < s->sni_texts.n; i++) {
		if (parse_sni(s->sni_texts.items[i], &sni[tls->n_sni]))
			tls->n_sni++;
		else
			buf_addf(
				problems,
				"--tls-sni-cert-key: want cert,key or cert,key:name,name, got \"%" STR_FMT
				"\"\n",
				STR_ARG(s->sni_texts.items[i]));
	}
}

/* ---- the metrics listener ---- */

/* ":8233", "127.0.0.1:8233", "[::1]:8233" */
static bool
parse_listener(struct str text, struct str *ret_host, int64_t *ret_port)
{
	ptrdiff_t colon = -1;
	struct str host;
	struct ip ip;

	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] == ':')
			colon = (ptrdiff_t)i;
	}
	if (colon < 0 || !str_to_i64(str_skip(text, (size_t)colon + 1), 1, 65535, ret_port))
		return false;
	host = str_head(text, (size_t)colon);
	if (str_starts(host, STR("[")) && str_ends(host, STR("]")) && host.len > 2)
		host = str_n(host.ptr + 1, host.len - 2);
	else if (str_index(host, ':') >= 0)
		return false;
	*ret_host = host.len > 0 ? host : STR("0.0.0.0");
	return ip_parse(*ret_host, &ip);
}

static void
resolve_metrics(struct serving_options *s, struct buf *problems)
{
	struct str text = str_c(s->metrics_bind_address);
	struct str host;
	int64_t port;

	if (text.len == 0)
		return;
	if (!parse_listener(text, &host, &port)) {
		buf_addf(
			problems,
			"--metrics-bind-address: want an IP address and a port, such as 127.0.0.1:8233 or :8233, got \"%s\"\n",
			text.ptr);
		return;
	}
	s->metrics.address = host;
	s->metrics.port = (int)port;
	if (s->metrics.port == s->secure.port)
		buf_add_c(problems, "--metrics-bind-address and --secure-port must differ\n");
}

void
serving_resolve(struct options *o, struct buf *problems, struct buf *warnings)
{
	const struct server_certificate *main = &o->serving.secure.tls.main;

	if ((main->cert_file.len == 0) != (main->key_file.len == 0))
		buf_add_c(problems,
		          "--tls-cert-file and --tls-private-key-file must be given together\n");
	resolve_sni(o, problems);
	resolve_version(&o->serving, problems, warnings);
	resolve_suites(o, problems, warnings);
	resolve_groups(o, problems, warnings);
	resolve_metrics(&o->serving, problems);
}
