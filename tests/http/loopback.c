#include "http/loopback.h"

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

enum {
	MAX_CONNECTIONS = 512,
};

struct connection {
	struct loopback *server;
	pthread_t thread;
	int fd;
	int number;
};

struct loopback {
	loopback_fn handle;
	void *arg;
	SSL_CTX *ctx;
	int listener;
	int port;
	pthread_t thread;
	pthread_mutex_t mu;
	struct connection connections[MAX_CONNECTIONS]; /* mu */
	int n_connections;                              /* mu */
	atomic_int n_open;
	atomic_int n_requests;
};

/* ---- identities ---- */

static void
add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
}

static X509 *
make_cert(EVP_PKEY *key)
{
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1,
	                           0);
	X509_set_issuer_name(cert, name);
	X509_set_pubkey(cert, key);
	add_extension(cert, NID_basic_constraints, "CA:TRUE");
	add_extension(cert, NID_subject_alt_name, "DNS:localhost,DNS:api.test,IP:127.0.0.1");
	X509_sign(cert, key, EVP_sha256());
	return cert;
}

static struct str
bio_bytes(BIO *bio)
{
	char *ptr;
	long len = BIO_get_mem_data(bio, &ptr);

	return str_n(ptr, (size_t)len);
}

void
identity_init(struct identity *ret)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = make_cert(key);
	BIO *cert_bio = BIO_new(BIO_s_mem()), *key_bio = BIO_new(BIO_s_mem());

	*ret = (struct identity){ .cert_pem = BUF_INIT(10000) };
	PEM_write_bio_X509(cert_bio, cert);
	PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL);
	buf_add_str(&ret->cert_pem, bio_bytes(cert_bio));
	secret_set(&ret->key_pem, bio_bytes(key_bio));
	BIO_free(cert_bio);
	BIO_free(key_bio);
	X509_free(cert);
	EVP_PKEY_free(key);
}

void
identity_fini(struct identity *id)
{
	buf_fini(&id->cert_pem);
	secret_fini(&id->key_pem);
}

static int
take_any(int is_ok, X509_STORE_CTX *ctx)
{
	(void)is_ok;
	(void)ctx;
	return 1;
}

static SSL_CTX *
make_ctx(const struct identity *id)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	BIO *cert_bio = BIO_new_mem_buf(id->cert_pem.ptr, (int)id->cert_pem.len);
	struct str pem = secret_expose(&id->key_pem);
	BIO *key_bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	X509 *cert = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);

	SSL_CTX_use_certificate(ctx, cert);
	SSL_CTX_use_PrivateKey(ctx, key);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, take_any);
	SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"test", 4);
	BIO_free(cert_bio);
	BIO_free(key_bio);
	X509_free(cert);
	EVP_PKEY_free(key);
	return ctx;
}

/* ---- bytes ---- */

static ssize_t
receive(struct visit *v, char *ptr, size_t len)
{
	return v->ssl ? SSL_read(v->ssl, ptr, (int)len) : recv(v->fd, ptr, len, 0);
}

bool
visit_write(struct visit *v, struct str bytes)
{
	while (bytes.len > 0) {
		ssize_t n = v->ssl ? SSL_write(v->ssl, bytes.ptr, (int)bytes.len)
		                   : send(v->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

bool
visit_writes(struct visit *v, const char *text)
{
	return visit_write(v, str_c(text));
}

bool
visit_reply(struct visit *v, const char *status, const char *headers, const char *body)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1 << 20);

	buf_addf(&b, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, strlen(body),
	         headers, body);
	return visit_write(v, buf_str(&b));
}

bool
visit_has(const struct visit *v, const char *line)
{
	for (struct str part, rest = v->head; str_split(&rest, '\n', &part);) {
		if (str_eq_nocase(str_trim(part), str_c(line)))
			return true;
	}
	return false;
}

void
visit_wait_gone(struct visit *v)
{
	char c;

	while (recv(v->fd, &c, 1, 0) > 0)
		;
}

/* ---- connections ---- */

static bool
more(struct visit *v)
{
	char part[16384];
	ssize_t n = receive(v, part, sizeof(part));

	if (n <= 0)
		return false;
	buf_add(&v->bytes, part, (size_t)n);
	return true;
}

static size_t
body_length(struct str head)
{
	int64_t length = 0;

	for (struct str part, rest = head; str_split(&rest, '\n', &part);) {
		struct str name, value;

		if (str_cut(part, ':', &name, &value) && str_eq_nocase(name, STR("Content-Length")))
			(void)!str_to_i64(str_trim(value), 0, 1 << 24, &length);
	}
	return (size_t)length;
}

static bool
read_request(struct visit *v)
{
	const char *end;
	size_t head_len, body_len;

	buf_reset(&v->bytes);
	while (!(end = strstr(v->bytes.ptr, "\r\n\r\n"))) {
		if (!more(v))
			return false;
	}
	head_len = (size_t)(end - v->bytes.ptr) + 4;
	body_len = body_length(str_n(v->bytes.ptr, head_len));
	while (v->bytes.len < head_len + body_len) {
		if (!more(v))
			return false;
	}
	v->head = str_n(v->bytes.ptr, head_len);
	v->body = str_n(v->bytes.ptr + head_len, body_len);
	return true;
}

static SSL *
accept_tls(SSL_CTX *ctx, int fd)
{
	SSL *ssl = SSL_new(ctx);

	SSL_set_fd(ssl, fd);
	return ssl;
}

static void *
serve(void *arg)
{
	struct connection *c = arg;
	struct visit v = {
		.server = c->server,
		.arg = c->server->arg,
		.fd = c->fd,
		.ssl = c->server->ctx ? accept_tls(c->server->ctx, c->fd) : NULL,
		.connection = c->number,
		.bytes = BUF_INIT(1 << 26),
	};
	bool is_open = !v.ssl || SSL_accept(v.ssl) == 1;

	while (is_open && read_request(&v)) {
		v.request++;
		v.all = atomic_fetch_add(&v.server->n_requests, 1) + 1;
		is_open = v.server->handle(&v);
	}
	if (v.ssl) {
		SSL_shutdown(v.ssl);
		SSL_free(v.ssl);
	}
	shutdown(c->fd, SHUT_RDWR);
	buf_fini(&v.bytes);
	atomic_fetch_sub(&v.server->n_open, 1);
	return NULL;
}

static void *
listen_on(void *arg)
{
	struct loopback *server = arg;
	int fd;

	while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
		WITH_LOCK(&server->mu);
		struct connection *c = &server->connections[server->n_connections];

		if (server->n_connections == MAX_CONNECTIONS)
			abort();
		*c = (struct connection){ .server = server,
			                  .fd = fd,
			                  .number = ++server->n_connections };
		atomic_fetch_add(&server->n_open, 1);
		thread_start(&c->thread, "visit", serve, c);
	}
	return NULL;
}

struct loopback *
loopback_new(loopback_fn handle, void *arg, const struct identity *identity)
{
	struct loopback *server = xcalloc(1, sizeof(*server));
	struct sockaddr_in addr = { .sin_family = AF_INET,
		                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);

	server->handle = handle;
	server->arg = arg;
	server->ctx = identity ? make_ctx(identity) : NULL;
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(server->listener, (struct sockaddr *)&addr, len) || listen(server->listener, 100))
		abort();
	getsockname(server->listener, (struct sockaddr *)&addr, &len);
	server->port = ntohs(addr.sin_port);
	mutex_init(&server->mu);
	thread_start(&server->thread, "listen", listen_on, server);
	return server;
}

void
loopback_free(struct loopback *server)
{
	shutdown(server->listener, SHUT_RDWR);
	thread_join(server->thread);
	close(server->listener);
	for (int i = 0; i < server->n_connections; i++) {
		shutdown(server->connections[i].fd, SHUT_RDWR);
		thread_join(server->connections[i].thread);
		close(server->connections[i].fd);
	}
	SSL_CTX_free(server->ctx);
	mutex_destroy(&server->mu);
	free(server);
}

int
loopback_port(const struct loopback *server)
{
	return server->port;
}

int
loopback_connections(struct loopback *server)
{
	WITH_LOCK(&server->mu);

	return server->n_connections;
}

int
loopback_open(struct loopback *server)
{
	return atomic_load(&server->n_open);
}

int
loopback_requests(struct loopback *server)
{
	return atomic_load(&server->n_requests);
}
