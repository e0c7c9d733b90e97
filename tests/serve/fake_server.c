/* tests/serve/fake_server.c: see fake_server.h. */
#include "serve/fake_server.h"

#include "base/alloc.h"
#include "base/ref.h"

struct trust {
	struct ref refs;
	char *pem;
};

bool
trust_new(struct str ca_pem, struct trust **ret, struct error *err)
{
	if (!str_starts(ca_pem, STR("CA ")))
		return err_set(err, ERR_INVALID, "no certificate in it");
	*ret = xcalloc(1, sizeof(**ret));
	ref_init(&(*ret)->refs);
	(*ret)->pem = xstrndup(ca_pem.ptr, ca_pem.len);
	return true;
}

struct trust *
trust_ref(struct trust *t)
{
	ref_take(&t->refs);
	return t;
}

void
trust_unref(struct trust *t)
{
	if (!t || !ref_drop(&t->refs))
		return;
	free(t->pem);
	free(t);
}

enum server_method
server_request_method(const struct server_request *r)
{
	return r->method;
}

struct str
server_request_path(const struct server_request *r)
{
	return str_c(r->path);
}

struct str
server_request_peer(const struct server_request *r)
{
	return str_c(r->peer ? r->peer : "192.0.2.1");
}

bool
server_request_header(const struct server_request *r, const char *name, size_t n, struct str *ret)
{
	for (size_t i = 0; i < FAKE_HEADERS && r->headers[i].name; i++) {
		if (!str_eq_nocase(str_c(r->headers[i].name), str_c(name)) || n-- > 0)
			continue;
		*ret = str_c(r->headers[i].value);
		return true;
	}
	return false;
}

bool
server_request_has_certificate(const struct server_request *r)
{
	return r->issuer;
}

bool
server_request_verify(const struct server_request *r, const struct trust *trust,
                      struct arena *arena, struct peer_name *ret, struct error *err)
{
	if (!str_contains(str_c(trust->pem), str_c(r->issuer)))
		return err_set(err, ERR_UNAUTHORIZED, "unknown authority");
	*ret = (struct peer_name){ .common_name = str_c(r->common_name) };
	if (!r->organization)
		return true;
	ret->organizations = ARENA_NEW(arena, struct str);
	ret->organizations[0] = str_c(r->organization);
	ret->n_organizations = 1;
	return true;
}
