/* serve/trust.c: checks a client's certificate against the trusted authorities, and reads its name.
 *
 * The check is that of Go's crypto/x509 for client certificates: any certificate of the bundle is
 * an anchor, even if it is not self-signed; the time is now; and a certificate that lists purposes
 * must list client authentication. The common name is the user, the organizations are the groups;
 * serve/access.c decides what they may do.
 */
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/ref.h"
#include "http/tls.h"
#include "serve/internal.h"

enum {
	MAX_DEPTH = 8,
	SECURITY_BITS_112 = 2, /* OpenSSL's level: no SHA-1, no RSA below 2048 bits */
};

struct trust {
	struct ref refs;
	X509_STORE *store;
};

bool
trust_new(struct str ca_pem, struct trust **ret, struct error *err)
{
	CLEANUP(x509_stackp) STACK_OF(X509) *anchors = NULL;
	struct trust *trust;

	if (!pem_certificates(ca_pem, "the CA bundle for clients", &anchors, err))
		return false;
	trust = xcalloc(1, sizeof(*trust));
	ref_init(&trust->refs);
	trust->store = X509_STORE_new();
	if (!trust->store)
		alloc_fail(1, sizeof(trust->store));
	X509_STORE_set_flags(trust->store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
	for (int i = 0; i < sk_X509_num(anchors); i++)
		X509_STORE_add_cert(trust->store, sk_X509_value(anchors, i));
	*ret = trust;
	return true;
}

struct trust *
trust_ref(struct trust *trust)
{
	ref_take(&trust->refs);
	return trust;
}

void
trust_unref(struct trust *trust)
{
	if (!trust || !ref_drop(&trust->refs))
		return;
	X509_STORE_free(trust->store);
	free(trust);
}

/* The last common name counts, as in Go (crypto/x509/pkix, Name.FillFromRDNSequence), and every
 * organization. */
static bool
read_name(const X509_NAME *subject, struct arena *arena, struct peer_name *ret, struct error *err)
{
	int n = X509_NAME_entry_count(subject);
	struct peer_name name = { .common_name = STR_EMPTY };

	name.organizations = arena_calloc(arena, (size_t)n + 1, sizeof(struct str));
	for (int i = 0; i < n; i++) {
		const X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, i);
		int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
		unsigned char *text = NULL;
		struct str *into;
		int len;

		if (nid == NID_commonName)
			into = &name.common_name;
		else if (nid == NID_organizationName)
			into = &name.organizations[name.n_organizations++];
		else
			continue;
		len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
		if (len >= 0)
			*into = arena_str(arena, str_n((const char *)text, (size_t)len));
		OPENSSL_free(text);
		/* with a NUL, a program that prints the name as a C string would show another one
		 */
		if (len < 0 || str_index(*into, '\0') >= 0)
			return err_set(err, ERR_UNAUTHORIZED,
			               "client certificate: its subject cannot be read as text");
	}
	*ret = name;
	return true;
}

static bool
run_check(X509_STORE_CTX *ctx, const struct server_request *r, const struct trust *trust,
          struct error *err)
{
	X509_VERIFY_PARAM *how;

	if (!ctx || X509_STORE_CTX_init(ctx, trust->store, r->certificate, r->chain) != 1 ||
	    X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT) != 1)
		return err_set(err, ERR_INTERNAL, "check the client certificate: %s",
		               openssl_reason());
	how = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_time(how, (time_t)(clock_wall(r->clock) / NS_PER_SEC));
	X509_VERIFY_PARAM_set_depth(how, MAX_DEPTH);
	X509_VERIFY_PARAM_set_auth_level(how, SECURITY_BITS_112);
	if (X509_verify_cert(ctx) != 1)
		return err_set(err, ERR_UNAUTHORIZED, "client certificate: %s",
		               X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
	return true;
}

bool
server_request_verify(const struct server_request *r, const struct trust *trust,
                      struct arena *arena, struct peer_name *ret, struct error *err)
{
	X509_STORE_CTX *ctx;
	bool is_good;

	if (!r->certificate)
		return err_set(err, ERR_UNAUTHORIZED, "no client certificate");
	ctx = X509_STORE_CTX_new();
	is_good = run_check(ctx, r, trust, err);
	X509_STORE_CTX_free(ctx);
	ERR_clear_error();
	return is_good && read_name(X509_get_subject_name(r->certificate), arena, ret, err);
}
