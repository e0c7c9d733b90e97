/* bench/limit.c: how fast the API server takes the two writes that initialise a node, from a client
 * that does nothing else.
 *
 * Sends, for each node named on standard input, the PATCH of its addresses and then the PATCH of
 * its provider ID, labels and taints, with a given number of connections, and reads only the
 * status. `./dev bench` compares ccmd with it: no client that does more can be much faster.
 *
 * 	limit URL CA CERT KEY CONNECTIONS < names
 *
 * Prints seconds from the first request to the last answer.
 */
#include <curl/curl.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/clock.h"

struct sender {
	CURL *easy;
	struct curl_slist *headers;
	struct buf url, body;
	size_t node; /* index */
	bool is_second;
};

struct run {
	CURLM *multi;
	const char *server;
	char **names;
	size_t n_names, names_cap, next;
	unsigned n_active, n_failed;
};

static size_t
drop(char *bytes, size_t size, size_t n, void *arg)
{
	(void)bytes;
	(void)arg;
	return size * n;
}

static void
send_patch(struct run *r, struct sender *s)
{
	const char *name = r->names[s->node];

	buf_reset(&s->url);
	buf_reset(&s->body);
	buf_addf(&s->url, "%s/api/v1/nodes/%s%s", r->server, name, s->is_second ? "" : "/status");
	if (s->is_second)
		buf_addf(
			&s->body,
			"{\"metadata\":{\"labels\":{\"beta.kubernetes.io/instance-type\":\"bench\","
			"\"node.kubernetes.io/instance-type\":\"bench\",\"failure-domain.beta.kubernetes.io/zone\":\"z\","
			"\"topology.kubernetes.io/zone\":\"z\",\"failure-domain.beta.kubernetes.io/region\":\"r\","
			"\"topology.kubernetes.io/region\":\"r\"}},\"spec\":{\"providerID\":\"cloudlycke://m-%s\",\"taints\":null}}",
			name);
	else
		buf_addf(
			&s->body,
			"{\"status\":{\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.9.%zu.%zu\"},"
			"{\"type\":\"ExternalIP\",\"address\":\"203.0.113.9\"},{\"type\":\"Hostname\",\"address\":\"%s\"}]}}",
			s->node / 250 % 250, s->node % 250, name);
	curl_easy_setopt(s->easy, CURLOPT_URL, s->url.ptr);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->body.ptr);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE, (long)s->body.len);
	curl_multi_add_handle(r->multi, s->easy);
}

/* The second write of the same node, or the first of the next. */
static void
go_on(struct run *r, struct sender *s)
{
	if (!s->is_second && s->node < r->n_names) {
		s->is_second = true;
	} else if (r->next < r->n_names) {
		s->node = r->next++;
		s->is_second = false;
	} else {
		r->n_active--;
		return;
	}
	send_patch(r, s);
}

static void
init_sender(struct sender *s, char *argv[])
{
	s->easy = curl_easy_init();
	s->url = BUF_INIT(4096);
	s->body = BUF_INIT(65536);
	s->headers = curl_slist_append(NULL, "Content-Type: application/merge-patch+json");
	s->headers = curl_slist_append(
		s->headers, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
	s->headers = curl_slist_append(s->headers, "Expect:");
	curl_easy_setopt(s->easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(s->easy, CURLOPT_USERAGENT, "limit/1");
	curl_easy_setopt(s->easy, CURLOPT_CUSTOMREQUEST, "PATCH");
	curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->headers);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(s->easy, CURLOPT_CAINFO, argv[2]);
	curl_easy_setopt(s->easy, CURLOPT_SSLCERT, argv[3]);
	curl_easy_setopt(s->easy, CURLOPT_SSLKEY, argv[4]);
	curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
}

static void
collect(struct run *r)
{
	CURLMsg *message;
	int n_left;

	while ((message = curl_multi_info_read(r->multi, &n_left))) {
		CURL *easy = message->easy_handle;
		struct sender *s;
		long status = 0;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(easy, CURLINFO_PRIVATE, &s);
		r->n_failed += status != 200;
		curl_multi_remove_handle(r->multi, easy);
		go_on(r, s);
	}
}

static void
read_names(struct run *r)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, stdin)) > 1)
		ARRAY_PUSH(r->names, r->n_names, r->names_cap, xstrndup(line, (size_t)n - 1));
	free(line);
}

int
main(int argc, char *argv[])
{
	struct run r = { 0 };
	struct sender *senders;
	int64_t n_senders, begun;
	int n_running;

	if (argc != 6 || !str_to_i64(str_c(argv[5]), 1, 256, &n_senders)) {
		fprintf(stderr, "usage: limit URL CA CERT KEY CONNECTIONS < names\n");
		return 2;
	}
	r.server = argv[1];
	read_names(&r);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	r.multi = curl_multi_init();
	senders = xcalloc((size_t)n_senders, sizeof(*senders));
	begun = clock_mono(&clock_real);
	for (int64_t i = 0; i < n_senders; i++) {
		init_sender(&senders[i], argv);
		senders[i].node = r.n_names; /* none yet */
		r.n_active++;
		go_on(&r, &senders[i]);
	}
	while (r.n_active > 0) {
		curl_multi_perform(r.multi, &n_running);
		collect(&r);
		if (r.n_active > 0)
			curl_multi_poll(r.multi, NULL, 0, 1000, NULL);
	}
	printf("%.3f %u\n", (double)(clock_mono(&clock_real) - begun) / 1e9, r.n_failed);
	return r.n_failed > 0;
}
