#include "kube/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"
#include "kube/node.h"
#include "kube/samples.h"
#include "fake_clock.h"

/* A store with a handler that records its calls: "+a", "-a", "a:uid>uid". */
struct fixture {
	struct fake_clock *clock;
	struct store *store;
	struct buf told;
};

static void
note(void *arg, const struct object *old, const struct object *new)
{
	struct fixture *f = arg;
	struct str key = new ? new->key : old->key;

	buf_addf(&f->told, f->told.len > 0 ? " " : "");
	if (!old || !new)
		buf_addf(&f->told, "%c%" STR_FMT, new ? '+' : '-', STR_ARG(key));
	else
		buf_addf(&f->told, "%" STR_FMT ":%" STR_FMT ">%" STR_FMT, STR_ARG(key),
		         STR_ARG(old->uid), STR_ARG(new->uid));
}

static int
set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->clock = fake_clock_new(INT64_C(1767323045) * NS_PER_SEC);
	f->store = store_new(&node_kind.kind, fake_clock_clock(f->clock));
	f->told = BUF_INIT(KIB(4));
	store_add_handler(f->store, (struct store_handler){ note, f });
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	store_free(f->store);
	fake_clock_free(f->clock);
	buf_fini(&f->told);
	free(f);
	return 0;
}

static struct object *
make(const struct sample_node *sample)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	struct object *object = NULL;
	struct error err;

	sample_node(&text, sample);
	if (!object_parse(&node_kind.kind, buf_str(&text), &object, &err))
		fail_msg("%s", err.msg);
	return object;
}

static void
put(struct fixture *f, const struct sample_node *sample)
{
	struct error err;

	if (!store_put(f->store, make(sample), &err))
		fail_msg("%s", err.msg);
}

#define PUT(f, ...) put(f, &(struct sample_node){ __VA_ARGS__ })

static void
check_told(struct fixture *f, const char *expected)
{
	assert_string_equal(f->told.ptr, expected);
	buf_reset(&f->told);
}

static void
check_version(struct fixture *f, const char *key, const char *expected)
{
	CLEANUP(object_unrefp) struct object *o = store_get(f->store, str_c(key));

	if (!expected) {
		assert_null(o);
		return;
	}
	assert_non_null(o);
	assert_true(str_eq_c(o->resource_version, expected));
}

static void
remove_node(struct fixture *f, const struct sample_node *sample)
{
	CLEANUP(object_unrefp) struct object *last = make(sample);

	store_remove(f->store, last);
}

#define REMOVE(f, ...) remove_node(f, &(struct sample_node){ __VA_ARGS__ })

static void
reports_changes(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .uid = "1", .version = "1");
	check_told(f, "+a");
	PUT(f, .name = "a", .uid = "1", .version = "2", .ready = "False");
	check_told(f, "a:1>1");
	REMOVE(f, .name = "a", .uid = "1", .version = "3");
	check_told(f, "-a");
	check_version(f, "a", NULL);
	REMOVE(f, .name = "a", .uid = "1", .version = "3");
	check_told(f, "");
	assert_int_equal(store_count(f->store), 0);
}

static void
is_silent_when_only_the_version_differs(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .version = "9");
	check_told(f, "+a");
	PUT(f, .name = "a", .version = "10", .heartbeat = "2026-01-02T03:14:05Z");
	check_told(f, "");
	check_version(f, "a", "10");
}

/* docs/spec/kube-client.md, "Own writes" */
static void
never_goes_back(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .version = "10");
	check_told(f, "+a");
	PUT(f, .name = "a", .version = "9", .ready = "False");
	check_told(f, "");
	check_version(f, "a", "10");
	/* versions that are no numbers cannot be compared */
	PUT(f, .name = "b", .version = "x9");
	PUT(f, .name = "b", .version = "x10");
	PUT(f, .name = "b", .version = "8");
	check_version(f, "b", "8");
}

static void
takes_a_lower_version_of_another_object(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .uid = "1", .version = "10");
	PUT(f, .name = "a", .uid = "2", .version = "9");
	check_told(f, "+a a:1>2");
	check_version(f, "a", "9");
}

/* etcd was restored from a backup (docs/spec/kube-client.md, "Resource versions"). */
static void
goes_back_with_a_newest_list(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .version = "10");
	store_begin_list(f->store, /*is_newest=*/true);
	PUT(f, .name = "a", .version = "7", .ready = "False");
	store_end_list(f->store);
	check_version(f, "a", "7");
	PUT(f, .name = "a", .version = "6");
	check_version(f, "a", "7");
}

static void
remembers_when_it_was_first_seen(void **state)
{
	struct fixture *f = *state;
	int64_t start_ns = clock_boot(fake_clock_clock(f->clock));

	PUT(f, .name = "a", .uid = "1", .version = "1");
	fake_clock_advance(f->clock, NS_PER_SEC);
	PUT(f, .name = "a", .uid = "1", .version = "2", .ready = "False");
	CLEANUP(object_unrefp) struct object *same = store_get(f->store, STR("a"));
	assert_true(same->seen_boot_ns == start_ns);
	PUT(f, .name = "a", .uid = "2", .version = "3");
	CLEANUP(object_unrefp) struct object *other = store_get(f->store, STR("a"));
	assert_true(other->seen_boot_ns == start_ns + NS_PER_SEC);
}

static void
does_not_remove_another_object(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .uid = "2", .version = "5");
	REMOVE(f, .name = "a", .uid = "1", .version = "4");
	check_told(f, "+a");
	check_version(f, "a", "5");
}

static void
lends_snapshots(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .version = "1");
	CLEANUP(object_unrefp) struct object *before = store_get(f->store, STR("a"));
	CLEANUP(store_list_free) struct store_list list = store_list(f->store);
	REMOVE(f, .name = "a", .version = "2");
	assert_int_equal(list.n, 1);
	assert_ptr_equal(list.objects[0], before);
	assert_true(str_eq_c(before->resource_version, "1"));
}

static size_t
count_id(struct fixture *f, const char *id)
{
	struct object *found[8];
	size_t n = store_find(f->store, str_c(id), found, ARRAY_LEN(found));

	for (size_t i = 0; i < n && i < ARRAY_LEN(found); i++) {
		assert_true(str_eq_c(found[i]->index_key, id));
		object_unref(found[i]);
	}
	return n;
}

static void
finds_by_index_key(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .version = "1", .provider_id = "x://1");
	PUT(f, .name = "b", .version = "1", .provider_id = "x://1");
	PUT(f, .name = "c", .version = "1", .provider_id = "x://1");
	PUT(f, .name = "d", .version = "1");
	assert_int_equal(count_id(f, "x://1"), 3);
	assert_int_equal(count_id(f, ""), 0);
	PUT(f, .name = "b", .version = "2", .provider_id = "x://2");
	assert_int_equal(count_id(f, "x://1"), 2);
	assert_int_equal(count_id(f, "x://2"), 1);
	REMOVE(f, .name = "c", .version = "2");
	assert_int_equal(count_id(f, "x://1"), 1);
	PUT(f, .name = "a", .version = "2");
	assert_int_equal(count_id(f, "x://1"), 0);
	PUT(f, .name = "d", .version = "2", .provider_id = "x://1");
	assert_int_equal(count_id(f, "x://1"), 1);
}

static void
gives_no_more_than_asked_for(void **state)
{
	struct fixture *f = *state;
	struct object *found[2] = { NULL, NULL };

	PUT(f, .name = "a", .provider_id = "x://1");
	PUT(f, .name = "b", .provider_id = "x://1");
	assert_int_equal(store_find(f->store, STR("x://1"), found, 1), 2);
	assert_non_null(found[0]);
	assert_null(found[1]);
	object_unref(found[0]);
}

static void
drops_what_a_list_lacks(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a", .uid = "1", .version = "1", .provider_id = "x://1");
	PUT(f, .name = "b", .uid = "2", .version = "1");
	PUT(f, .name = "c", .uid = "3", .version = "5");
	PUT(f, .name = "d", .uid = "4", .version = "1");
	check_told(f, "+a +b +c +d");
	store_begin_list(f->store, /*is_newest=*/false);
	PUT(f, .name = "b", .uid = "2", .version = "1");
	PUT(f, .name = "c", .uid = "3",
	    .version = "4"); /* from a cache that lags: kept as it is, but there */
	store_keep(f->store, STR("d"));
	store_keep(f->store, STR("nobody"));
	check_told(f, "");
	store_end_list(f->store);
	check_told(f, "-a");
	check_version(f, "c", "5");
	assert_int_equal(store_count(f->store), 3);
	assert_int_equal(count_id(f, "x://1"), 0);
}

static void
drops_all_with_an_empty_list(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a");
	store_begin_list(f->store, /*is_newest=*/false);
	store_end_list(f->store);
	check_told(f, "+a -a");
	assert_int_equal(store_count(f->store), 0);
}

static void
drops_nothing_when_a_list_breaks_off(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a");
	store_begin_list(f->store, /*is_newest=*/false);
	PUT(f, .name = "b");
	store_abort_list(f->store, /*is_unusable=*/false);
	assert_false(store_has_synced(f->store));
	store_begin_list(f->store, /*is_newest=*/false);
	PUT(f, .name = "a");
	store_end_list(f->store);
	check_told(f, "+a +b -b");
}

static void
takes_back_what_a_rejected_list_added(void **state)
{
	struct fixture *f = *state;

	PUT(f, .name = "a");
	fake_clock_advance(f->clock, 1);
	store_begin_list(f->store, /*is_newest=*/false);
	PUT(f, .name = "a");
	PUT(f, .name = "b");
	PUT(f, .name = "b");
	store_abort_list(f->store, /*is_unusable=*/true);
	assert_false(store_has_synced(f->store));
	check_told(f, "+a +b -b");
	assert_int_equal(store_count(f->store), 1);
}

static void
is_bounded(void **state)
{
	static struct pool pool = POOL_INIT;
	static const struct kind bare = { .name = "Node", .pool = &pool };
	struct fixture *f = *state;
	struct error err;
	char name[16];
	bool is_ok = true;

	for (unsigned i = 0; i < LIMIT_OBJECTS; i++) {
		struct node *node = pool_alloc(&pool, sizeof(*node) + sizeof(name));
		int len = snprintf((char *)(node + 1), sizeof(name), "%u", i);

		*node = (struct node){ .object = { .kind = &bare,
			                           .refs = REF_INIT,
			                           .key = str_n((char *)(node + 1), (size_t)len),
			                           .index_key = STR_EMPTY } };
		is_ok = store_put(f->store, &node->object, &err) && is_ok;
	}
	assert_true(is_ok);
	assert_false(store_put(f->store, make(&(struct sample_node){ .name = "a" }), &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(store_count(f->store), LIMIT_OBJECTS);
	/* what is there already may change */
	PUT(f, .name = "7");
}

/* ---- waiting ---- */

struct waiter {
	struct store *store;
	struct call call;
	struct error err;
	bool is_synced;
	pthread_t thread;
};

static void *
wait_synced(void *arg)
{
	struct waiter *w = arg;

	w->is_synced = store_wait_synced(w->store, &w->call, &w->err);
	return NULL;
}

static void
start_waiter(struct fixture *f, struct waiter *w, struct cancel *cancel)
{
	*w = (struct waiter){ .store = f->store,
		              .call = { .clock = fake_clock_clock(f->clock),
		                        .cancel = cancel,
		                        .deadline_mono_ns = clock_mono(fake_clock_clock(f->clock)) +
		                                            10 * NS_PER_SEC } };
	thread_start(&w->thread, "waiter", wait_synced, w);
	fake_clock_settle(f->clock, 1);
}

static void
waits_for_the_first_list(void **state)
{
	struct fixture *f = *state;
	struct waiter w;

	start_waiter(f, &w, NULL);
	store_begin_list(f->store, /*is_newest=*/false);
	store_end_list(f->store);
	thread_join(w.thread);
	assert_true(w.is_synced);
	assert_true(store_has_synced(f->store));
	assert_true(store_wait_synced(f->store, &w.call, &w.err));
}

static void
waits_no_longer_than_allowed(void **state)
{
	struct fixture *f = *state;
	struct waiter w;

	start_waiter(f, &w, NULL);
	fake_clock_advance(f->clock, 10 * NS_PER_SEC);
	thread_join(w.thread);
	assert_false(w.is_synced);
	assert_int_equal(w.err.code, ERR_TIMEOUT);
}

static void
stops_waiting_when_cancelled(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct waiter w;

	start_waiter(*state, &w, cancel);
	cancel_fire(cancel);
	thread_join(w.thread);
	assert_false(w.is_synced);
	assert_int_equal(w.err.code, ERR_CANCELLED);
}

/* For the thread sanitizer: readers beside the one who writes. */
static void *
read_all(void *arg)
{
	struct fixture *f = arg;

	for (unsigned i = 0; i < 2000; i++) {
		CLEANUP(store_list_free) struct store_list UNUSED list = store_list(f->store);
		CLEANUP(object_unrefp) struct object *UNUSED o = store_get(f->store, STR("a"));
		struct object *found[4];
		size_t n = store_find(f->store, STR("x://1"), found, ARRAY_LEN(found));

		for (size_t k = 0; k < n; k++)
			object_unref(found[k]);
	}
	return NULL;
}

static void
is_read_while_it_changes(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[2];

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "reader", read_all, f);
	for (unsigned i = 0; i < 1000; i++) {
		char version[16];

		(void)snprintf(version, sizeof(version), "%u", i);
		PUT(f, .name = "a", .version = version, .provider_id = i % 2 ? "x://1" : NULL);
		PUT(f, .name = "b", .version = version, .provider_id = "x://1");
		if (i % 3 == 0)
			REMOVE(f, .name = "b", .version = version);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(store_count(f->store), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reports_changes),
		TEST(is_silent_when_only_the_version_differs),
		TEST(never_goes_back),
		TEST(takes_a_lower_version_of_another_object),
		TEST(goes_back_with_a_newest_list),
		TEST(remembers_when_it_was_first_seen),
		TEST(does_not_remove_another_object),
		TEST(lends_snapshots),
		TEST(finds_by_index_key),
		TEST(gives_no_more_than_asked_for),
		TEST(drops_what_a_list_lacks),
		TEST(drops_all_with_an_empty_list),
		TEST(drops_nothing_when_a_list_breaks_off),
		TEST(takes_back_what_a_rejected_list_added),
		TEST(is_bounded),
		TEST(waits_for_the_first_list),
		TEST(waits_no_longer_than_allowed),
		TEST(stops_waiting_when_cancelled),
		TEST(is_read_while_it_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
