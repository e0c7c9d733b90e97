/* bench/parse.c: what 5,000 nodes of 12 kB cost: time, memory while listing, memory kept; and queue
 * operations.
 *
 * The list goes through the same steps as in the reflector (split, parse, project, store), in
 * pieces as the network brings them, without the network.
 */
#include <malloc.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/split.h"
#include "base/thread.h"
#include "kube/node.h"
#include "kube/queue.h"
#include "kube/samples.h"
#include "kube/store.h"
#include "kube/object.h"

enum {
	N_NODES = 5000,
	N_IMAGES = 50,
	N_UPDATES = 10000,
	PIECE = 16384, /* a TLS record */
};

struct bench {
	struct store *store;
	unsigned n_put;
	size_t peak_bytes; /* of the heap, a document included */
};

static int64_t
cpu_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * NS_PER_SEC + t.tv_nsec;
}

static size_t
heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* The process's anonymous memory in bytes, as the kernel reports it; 0 if the kernel does not. */
static size_t
anonymous_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	size_t kib = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "RssAnon: %zu", &kib) == 1)
			break;
	}
	if (f)
		(void)fclose(f);
	return kib * KIB(1);
}

static void
print_time(const char *what, int64_t ns, unsigned n)
{
	printf("%-44s %8.1f ms %8.2f us each\n", what, (double)ns / 1e6, (double)ns / 1e3 / n);
}

static void
print_memory(const char *what, size_t bytes, unsigned n)
{
	printf("%-44s %8.2f MiB %7.0f bytes each\n", what, (double)bytes / (double)MIB(1),
	       (double)bytes / n);
}

static void
die(const struct error *err)
{
	fprintf(stderr, "%s\n", err->msg);
	exit(1);
}

static void
make_node(struct sample_node *node, char name[32], char id[32], unsigned i)
{
	(void)snprintf(name, 32, "worker-%05u", i);
	(void)snprintf(id, 32, "hcloud://%u", 40000000 + i);
	*node = (struct sample_node){ .name = name, .provider_id = id, .n_images = N_IMAGES };
}

static void
put(struct bench *b, struct object *object)
{
	struct error err;
	size_t bytes;

	if (!store_put(b->store, object, &err))
		die(&err);
	if (b->n_put++ % 64 > 0) /* heap_bytes() costs more than parsing */
		return;
	bytes = heap_bytes();
	if (bytes > b->peak_bytes)
		b->peak_bytes = bytes;
}

static bool
each(void *arg, struct str item, struct error *err)
{
	struct object *object;

	if (!object_parse(&node_kind.kind, item, &object, err))
		return false;
	put(arg, object);
	return true;
}

static void
feed(struct bench *b, struct json_split *split, struct str text)
{
	struct error err;

	for (struct str piece; text.len > 0; text = str_skip(text, piece.len)) {
		piece = str_head(text, PIECE);
		if (!json_split_feed(split, piece, each, b, &err))
			die(&err);
	}
}

/* The text is made outside of the measured time, and only a piece of it at a time. */
static void
bench_list(struct bench *b)
{
	struct json_split *split = json_split_new(STR("items"), LIMIT_JSON_ITEM);
	struct buf text = BUF_INIT(MIB(1));
	size_t before, bytes = 0;
	int64_t spent_ns = 0;
	size_t resident;

	if (!buf_reserve(&text, KIB(64)))
		abort();
	before = heap_bytes();
	resident = anonymous_bytes();
	b->peak_bytes = before;
	feed(b, split,
	     STR("{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":["));
	for (unsigned i = 0; i < N_NODES; i++) {
		struct sample_node node;
		char name[32], id[32];
		int64_t start_ns;

		make_node(&node, name, id, i);
		buf_reset(&text);
		buf_add_c(&text, i > 0 ? "," : "");
		sample_node(&text, &node);
		bytes += text.len;
		start_ns = cpu_ns();
		feed(b, split, buf_str(&text));
		spent_ns += cpu_ns() - start_ns;
	}
	json_split_free(split);
	printf("%u nodes of %zu bytes\n", N_NODES, bytes / N_NODES);
	print_time("list: split, parse, store", spent_ns, N_NODES);
	print_memory("list: heap at its highest", b->peak_bytes - before, N_NODES);
	print_memory("list: heap kept", heap_bytes() - before, N_NODES);
	print_memory("list: resident, as it is", anonymous_bytes() - resident, N_NODES);
	thread_trim();
	print_memory("list: resident, trimmed", anonymous_bytes() - resident, N_NODES);
	buf_fini(&text);
}

static void
apply_line(struct bench *b, struct str line)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct watch_event event;
	struct object *object = NULL;
	struct error err;

	if (!json_parse(line, &doc, &err) ||
	    !watch_read(&node_kind.kind, yyjson_doc_get_root(doc), &event, &err) ||
	    !node_kind.kind.parse(&node_kind.kind, event.object, &object, &err))
		die(&err);
	put(b, object);
}

static void
bench_updates(struct bench *b)
{
	struct buf text = BUF_INIT(MIB(1));
	int64_t spent_ns = 0;

	for (unsigned i = 0; i < N_UPDATES; i++) {
		struct sample_node node;
		char name[32], id[32], version[32];
		int64_t start_ns;

		make_node(&node, name, id, i % N_NODES);
		(void)snprintf(version, sizeof(version), "%u", 10 + i);
		node.version = version;
		buf_reset(&text);
		sample_event(&text, "MODIFIED", &node);
		start_ns = cpu_ns();
		apply_line(b, buf_str(&text));
		spent_ns += cpu_ns() - start_ns;
	}
	print_time("watch: parse, store", spent_ns, N_UPDATES);
	buf_fini(&text);
	print_memory("watch: heap kept after it", heap_bytes(), N_NODES);
}

static void
bench_queue(void)
{
	struct queue *q = queue_new(&(struct queue_config){ .name = "bench",
	                                                    .base_delay_ns = NS_PER_MS,
	                                                    .max_delay_ns = NS_PER_SEC,
	                                                    .clock = &clock_real });
	static char keys[N_NODES][32];
	int64_t start_ns;
	struct error err;
	struct str key;

	for (unsigned i = 0; i < N_NODES; i++)
		(void)snprintf(keys[i], sizeof(keys[i]), "worker-%05u", i);
	start_ns = cpu_ns();
	for (unsigned i = 0; i < N_NODES; i++)
		queue_add(q, str_c(keys[i]));
	print_time("queue: add", cpu_ns() - start_ns, N_NODES);
	start_ns = cpu_ns();
	while (queue_get(q, /*deadline_ns=*/0, &key, &err))
		queue_done(q, key);
	print_time("queue: get and done", cpu_ns() - start_ns, N_NODES);
	start_ns = cpu_ns();
	for (unsigned i = 0; i < N_NODES; i++)
		(void)queue_add_failed(q, str_c(keys[i]), /*max_delay_ns=*/0);
	print_time("queue: add later", cpu_ns() - start_ns, N_NODES);
	queue_free(q);
}

int
main(void)
{
	struct bench b = { .store = store_new(&node_kind.kind, &clock_real) };

	bench_list(&b);
	bench_updates(&b);
	bench_queue();
	store_free(b.store);
	return 0;
}
