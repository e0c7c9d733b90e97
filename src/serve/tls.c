/* serve/tls.c: one SSL_CTX with all settings; the certificate is chosen in each handshake.
 *
 * A certificate can therefore be replaced while connections exist: their sessions hold references
 * to the old one. Clients' certificates are accepted unchecked in the handshake, and checked when a
 * request needs it (trust.c): a failed handshake does not show the client the reason, and the
 * trusted authorities may change while a connection lives. Sessions are not resumed: that would
 * cost memory for each client, and there are only a few probes and scrapes a minute.
 *
 * The first pair is for clients that name no host, or a host of no other pair. It comes from
 * --tls-cert-file, or is self-signed. Pairs from files are read again when a digest of their
 * content has changed, not when the file's time has: Kubernetes replaces Secrets by switching
 * symbolic links. Content that cannot be used is reported once, and the last good pair stays in
 * use.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/tls.h"
#include "serve/internal.h"

/* The suites of Go for TLS 1.2: only forward secrecy and authenticated encryption
 * (docs/spec/kube-client.md, "Server"). */
#define DEFAULT_CIPHERS                                              \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:" \
	"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:" \
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

enum {
	MAX_CLIENT_CHAIN = 32 << 10, /* bytes of certificates that a client may show */
	MAX_RECORD = 4 << 10,        /* saves 12 KiB of buffer for each connection in a handshake */
	FOLDER_MODE = 0755,
	CERT_MODE = 0644,
	KEY_MODE = 0600,
};

/* A certificate, its key, and the files that they come from. */
struct pair {
	char *cert_file, *key_file; /* NULL: in memory only */
	char *names;                /* "*.example.com,example.com"; "": the certificate's own */
	X509 *cert;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
	unsigned char digest[2][EVP_MAX_MD_SIZE]; /* of the files' content when last read */
};

struct tls_server {
	SSL_CTX *ctx;
	struct clock *clock;
	char **self_signed_names; /* NULL at the end */
	bool may_renew;           /* the first pair, if ccmd made it */
	struct pair *pairs;       /* the first is used if no other has the client's host name */
	size_t n_pairs;
};

/* ---- a pair ---- */

static void
pair_drop(struct pair *p)
{
	X509_free(p->cert);
	sk_X509_pop_free(p->chain, X509_free);
	EVP_PKEY_free(p->key);
	p->cert = NULL;
	p->chain = NULL;
	p->key = NULL;
}

/* Takes over the certificates and the key. Sessions keep references to the ones before. */
static bool
pair_set(struct pair *p, STACK_OF(X509) * certs, EVP_PKEY *key, struct error *err)
{
	if (X509_check_private_key(sk_X509_value(certs, 0), key) != 1) {
		sk_X509_pop_free(certs, X509_free);
		EVP_PKEY_free(key);
		return err_set(err, ERR_INVALID, "%s is not the key of the certificate in %s: %s",
		               p->key_file, p->cert_file, openssl_reason());
	}
	pair_drop(p);
	p->cert = sk_X509_shift(certs);
	p->chain = certs;
	p->key = key;
	return true;
}

/* Keeps a digest of the content. True if it differs from what was read last, whether that could be
 * used or not. EVP_Digest() fails only when memory runs out. */
static bool
pair_keep_digest(struct pair *p, struct str cert, struct str key)
{
	unsigned char digest[2][EVP_MAX_MD_SIZE] = { 0 };

	if (EVP_Digest(cert.ptr, cert.len, digest[0], NULL, EVP_sha256(), NULL) != 1 ||
	    EVP_Digest(key.ptr, key.len, digest[1], NULL, EVP_sha256(), NULL) != 1)
		alloc_fail(1, sizeof(digest));
	if (memcmp(digest, p->digest, sizeof(digest)) == 0)
		return false;
	memcpy(p->digest, digest, sizeof(digest));
	return true;
}

/* *ret_changed is also written if the new content cannot be used. */
static bool
pair_load(struct pair *p, bool *ret_changed, struct error *err)
{
	CLEANUP(buf_fini) struct buf cert = BUF_INIT(LIMIT_CREDENTIAL);
	CLEANUP(buf_fini) struct buf key = BUF_SECRET(LIMIT_CREDENTIAL);
	STACK_OF(X509) * certs;
	EVP_PKEY *private_key;

	*ret_changed = true;
	if (!file_read(p->cert_file, &cert, err) || !file_read(p->key_file, &key, err))
		return false;
	*ret_changed = pair_keep_digest(p, buf_str(&cert), buf_str(&key));
	if (!*ret_changed)
		return true;
	if (!pem_certificates(buf_str(&cert), p->cert_file, &certs, err))
		return false;
	if (!pem_key(buf_str(&key), p->key_file, &private_key, err)) {
		sk_X509_pop_free(certs, X509_free);
		return false;
	}
	return pair_set(p, certs, private_key, err);
}

/* ---- the self-signed certificate ---- */

static bool
write_pair(struct pair *p, X509 *cert, EVP_PKEY *key, struct error *err)
{
	CLEANUP(buf_fini) struct buf cert_pem = BUF_INIT(LIMIT_CREDENTIAL);
	CLEANUP(secret_fini) struct secret key_pem = SECRET_NONE;

	self_signed_write(cert, key, &cert_pem, &key_pem);
	(void)pair_keep_digest(p, buf_str(&cert_pem), secret_expose(&key_pem));
	if (!file_replace(p->key_file, secret_expose(&key_pem), KEY_MODE, err))
		return false;
	return file_replace(p->cert_file, buf_str(&cert_pem), CERT_MODE, err);
}

static bool
make_pair(struct tls_server *t, struct error *err)
{
	struct pair *p = &t->pairs[0];
	STACK_OF(X509) * certs;
	EVP_PKEY *key;
	X509 *cert;

	if (!self_signed_new((const char *const *)t->self_signed_names, clock_wall(t->clock), &cert,
	                     &key, err))
		return err_wrap(err, "self-signed certificate");
	certs = sk_X509_new_null();
	if (!certs || !sk_X509_push(certs, cert))
		alloc_fail(1, sizeof(cert));
	if (p->cert_file && !write_pair(p, cert, key, err)) {
		sk_X509_pop_free(certs, X509_free);
		EVP_PKEY_free(key);
		return false;
	}
	return pair_set(p, certs, key, err);
}

/* Only a certificate that ccmd made is renewed: --cert-dir may contain an operator's own. */
static void
renew_self_signed(struct tls_server *t)
{
	struct error err;

	if (!t->may_renew || !self_signed_is_due(t->pairs[0].cert, clock_wall(t->clock)))
		return;
	if (make_pair(t, &err))
		log_info("self-signed certificate renewed");
	else
		log_warn("self-signed certificate cannot be renewed", LOG_ERR(&err));
}

/* ---- choosing ---- */

/* "*.example.com" stands for one label, as in certificates. */
static bool
name_matches(struct str pattern, struct str host, bool is_wild)
{
	ptrdiff_t dot = str_index(host, '.');

	if (!is_wild)
		return str_eq_nocase(pattern, host);
	return dot > 0 && str_starts(pattern, STR("*.")) &&
	       str_eq_nocase(str_skip(pattern, 1), str_skip(host, (size_t)dot));
}

static bool
pair_has(const struct pair *p, const char *host, bool is_wild)
{
	if (p->names[0] == '\0')
		return X509_check_host(p->cert, host, 0,
		                       is_wild ? X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
		                               : X509_CHECK_FLAG_NO_WILDCARDS,
		                       NULL) == 1;
	for (struct str name, rest = str_c(p->names); str_split(&rest, ',', &name);) {
		if (name_matches(str_trim(name), str_c(host), is_wild))
			return true;
	}
	return false;
}

/* The first pair is used if no other one has the client's host name. Exact names take precedence
 * over wildcards; within both, the order of the flags decides. */
static const struct pair *
pick_pair(const struct tls_server *t, const char *host)
{
	for (int is_wild = 0; host && is_wild < 2; is_wild++) {
		for (size_t i = 1; i < t->n_pairs; i++) {
			if (pair_has(&t->pairs[i], host, is_wild))
				return &t->pairs[i];
		}
	}
	return &t->pairs[0];
}

static int
choose_certificate(SSL *ssl, void *arg)
{
	const struct pair *p = pick_pair(arg, SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name));

	return SSL_use_certificate(ssl, p->cert) == 1 && SSL_use_PrivateKey(ssl, p->key) == 1 &&
	       SSL_set1_chain(ssl, p->chain) == 1;
}

static int
accept_unchecked(X509_STORE_CTX *ctx, void *arg)
{
	(void)ctx;
	(void)arg;
	return 1;
}

/* The server supports only HTTP/1.1. Go clients offer "h2" first, and fall back. A client that
 * offers no protocol of ours gets an alert (RFC 7301 3.2). */
static int
choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                const unsigned char *offered, unsigned n_offered, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, ret_len, ours, sizeof(ours) - 1, offered, n_offered) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* ---- the context ---- */

static bool
set_list(SSL_CTX *ctx, int (*set)(SSL_CTX *, const char *), struct str list, const char *what,
         struct error *err)
{
	char *text;
	bool is_ok;

	if (list.len == 0)
		return true;
	text = xstrndup(list.ptr, list.len);
	is_ok = set(ctx, text) == 1;
	if (!is_ok)
		err_set(err, ERR_INVALID, "%s %s: %s", what, text, openssl_reason());
	free(text);
	return is_ok;
}

static int
set_groups(SSL_CTX *ctx, const char *list)
{
	return (int)SSL_CTX_set1_groups_list(ctx, list);
}

static bool
make_context(struct tls_server *t, const struct server_tls *config, struct error *err)
{
	struct str ciphers = config->ciphers.len > 0 ? config->ciphers : STR(DEFAULT_CIPHERS);
	int min_version = config->min_version ? config->min_version : TLS1_2_VERSION;
	SSL_CTX *ctx = t->ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return err_set(err, ERR_INTERNAL, "TLS: %s", openssl_reason());
	/* memory of a connection */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
	                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_max_cert_list(ctx, MAX_CLIENT_CHAIN);
	SSL_CTX_set_max_send_fragment(ctx, MAX_RECORD);

	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
	                                 SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, accept_unchecked, NULL);
	SSL_CTX_set_cert_cb(ctx, choose_certificate, t);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);

	if (SSL_CTX_set_min_proto_version(ctx, min_version) != 1)
		return err_set(err, ERR_INVALID, "minimum version of TLS: %s", openssl_reason());
	if (!set_list(ctx, SSL_CTX_set_cipher_list, ciphers, "cipher suites", err))
		return false;
	if (!set_list(ctx, SSL_CTX_set_ciphersuites, config->ciphersuites, "cipher suites", err))
		return false;
	return set_list(ctx, set_groups, config->groups, "curves", err);
}

/* ---- life cycle ---- */

DEFINE_CLEANUP(struct tls_server, tls_server_free)

static void
set_files(struct pair *p, const struct server_certificate *from)
{
	p->cert_file = xstrndup(from->cert_file.ptr, from->cert_file.len);
	p->key_file = xstrndup(from->key_file.ptr, from->key_file.len);
	p->names = xstrndup(from->names.ptr ? from->names.ptr : "", from->names.len);
}

static char *
file_in(struct str folder, const char *name, const char *ending)
{
	struct buf path = BUF_INIT(folder.len + strlen(name) + strlen(ending) + 2);

	file_join(&path, folder, str_c(name));
	buf_add_c(&path, ending);
	return buf_take(&path);
}

static bool
open_main(struct tls_server *t, const struct server_tls *config, struct error *err)
{
	struct pair *p = &t->pairs[0];
	struct stat st;
	bool changed;

	if (config->main.cert_file.len > 0) {
		set_files(p, &config->main);
		return pair_load(p, &changed, err);
	}
	t->may_renew = true;
	p->names = xstrdup("");
	if (config->cert_folder.len == 0)
		return make_pair(t, err);
	if (mkdir(config->cert_folder.ptr, FOLDER_MODE) != 0 && errno != EEXIST)
		return err_errno(err, errno, "%s", config->cert_folder.ptr);
	p->cert_file = file_in(config->cert_folder, config->pair_name, ".crt");
	p->key_file = file_in(config->cert_folder, config->pair_name, ".key");
	/* a pair in --cert-dir is used, even if ccmd did not write it; half a pair is an error */
	if (stat(p->cert_file, &st) != 0 && errno == ENOENT && stat(p->key_file, &st) != 0 &&
	    errno == ENOENT)
		return make_pair(t, err);
	return pair_load(p, &changed, err);
}

bool
tls_server_new(const struct server_tls *config, struct clock *clock, struct tls_server **ret,
               struct error *err)
{
	static const char *const fallback[] = { "localhost", "127.0.0.1", "::1", NULL };
	CLEANUP(tls_server_freep) struct tls_server *t = xcalloc(1, sizeof(*t));
	const char *const *names = config->self_signed_names;
	bool changed;
	size_t n = 0;

	t->clock = clock;
	names = names && names[0] ? names : fallback;
	while (names[n])
		n++;
	t->self_signed_names = xcalloc(n + 1, sizeof(char *));
	for (size_t i = 0; i < n; i++)
		t->self_signed_names[i] = xstrdup(names[i]);
	t->n_pairs = config->n_sni + 1;
	t->pairs = xcalloc(t->n_pairs, sizeof(t->pairs[0]));

	if (!make_context(t, config, err))
		return false;
	for (size_t i = 0; i < config->n_sni; i++) {
		set_files(&t->pairs[i + 1], &config->sni[i]);
		if (!pair_load(&t->pairs[i + 1], &changed, err))
			return false;
	}
	if (!open_main(t, config, err))
		return false;
	renew_self_signed(t);
	*ret = TAKE(t);
	return true;
}

void
tls_server_free(struct tls_server *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	for (size_t i = 0; i < t->n_pairs; i++) {
		struct pair *p = &t->pairs[i];

		pair_drop(p);
		free(p->cert_file);
		free(p->key_file);
		free(p->names);
	}
	for (size_t i = 0; t->self_signed_names[i]; i++)
		free(t->self_signed_names[i]);
	free(t->self_signed_names);
	free(t->pairs);
	free(t);
}

void
tls_server_reload(struct tls_server *t)
{
	for (size_t i = 0; i < t->n_pairs; i++) {
		struct pair *p = &t->pairs[i];
		bool changed = false;
		struct error err;

		if (!p->cert_file)
			continue;
		if (!pair_load(p, &changed, &err))
			log_warn("certificate cannot be used, keeping the last good one",
			         LOG_ERR(&err));
		else if (changed)
			log_info("certificate read again", LOG_CSTR("file", p->cert_file));
	}
	renew_self_signed(t);
}

SSL *
tls_server_accept(struct tls_server *t, int fd)
{
	SSL *ssl = SSL_new(t->ctx);

	if (!ssl || SSL_set_fd(ssl, fd) != 1)
		alloc_fail(1, sizeof(t));
	SSL_set_accept_state(ssl);
	return ssl;
}
