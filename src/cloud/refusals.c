/* cloud/refusals.c: a table of refusals by object and kind; see refusals.h. */
#include "cloud/refusals.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"
#include "cloud/login.h"

#define VALID_NS (3600 * NS_PER_SEC)

struct refusals {
	struct clock *clock;
	pthread_mutex_t mu;
	struct map all; /* mu; struct refusal by its key */
};

struct refusal {
	struct str key; /* "kind/object", in text */
	uint64_t looks;
	uint64_t n_replaced; /* login_count_replaced() */
	int64_t until_boot_ns;
	enum err_code code;
	int http_status;
	struct str msg; /* in text, behind the key */
	char text[];
};

struct refusals *
refusals_new(struct clock *clock)
{
	struct refusals *rs = xcalloc(1, sizeof(*rs));

	rs->clock = clock;
	rs->all = MAP_OF(struct refusal, key);
	mutex_init(&rs->mu);
	return rs;
}

static bool
is_over(const void *refusal, const void *boot_ns)
{
	const struct refusal *r = refusal;

	return r->until_boot_ns <= *(const int64_t *)boot_ns ||
	       r->n_replaced != login_count_replaced();
}

void
refusals_free(struct refusals *rs)
{
	if (!rs)
		return;
	map_free_all(&rs->all, free);
	mutex_destroy(&rs->mu);
	free(rs);
}

/* False: the object's name is too long, so no refusal of it is stored. */
static bool
refusals_make_key(struct buf *b, struct str object, const char *kind)
{
	buf_addf(b, "%s/%" STR_FMT, kind, STR_ARG(object));
	return buf_ok(b);
}

bool
refusals_find(struct refusals *rs, struct str object, const char *kind, uint64_t looks,
              struct error *ret)
{
	int64_t now_ns = clock_boot(rs->clock);
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	const struct refusal *r;
	WITH_LOCK(&rs->mu);

	r = refusals_make_key(&key, object, kind) ? map_get(&rs->all, buf_str(&key)) : NULL;
	if (!r || r->looks != looks || is_over(r, &now_ns))
		return false;
	err_set(ret, r->code, "%" STR_FMT, STR_ARG(r->msg));
	ret->http_status = r->http_status;
	ret->retry_after_ms = (r->until_boot_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return true;
}

void
refusals_note(struct refusals *rs, struct str object, const char *kind, uint64_t looks,
              const struct error *refusal)
{
	int64_t now_ns = clock_boot(rs->clock);
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	struct str msg = str_c(refusal->msg);
	struct refusal *r;
	WITH_LOCK(&rs->mu);

	if (!refusals_make_key(&key, object, kind))
		return;
	free(map_remove(&rs->all, buf_str(&key)));
	if (rs->all.count >= LIMIT_REFUSALS)
		map_free_obsolete(&rs->all, is_over, &now_ns, free);
	if (rs->all.count >= LIMIT_REFUSALS)
		return;
	r = xcalloc(1, sizeof(*r) + key.len + msg.len);
	*r = (struct refusal){ .key = str_n(r->text, key.len),
		               .msg = str_n(r->text + key.len, msg.len),
		               .looks = looks,
		               .n_replaced = login_count_replaced(),
		               .until_boot_ns = now_ns + VALID_NS,
		               .code = refusal->code,
		               .http_status = refusal->http_status };
	memcpy(r->text, key.ptr, key.len);
	memcpy(r->text + key.len, msg.ptr, msg.len);
	map_put(&rs->all, r->key, r);
}

void
refusals_forget(struct refusals *rs, struct str object, const char *kind)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	WITH_LOCK(&rs->mu);

	if (rs->all.count > 0 && refusals_make_key(&key, object, kind))
		free(map_remove(&rs->all, buf_str(&key)));
}

size_t
refusals_count(struct refusals *rs)
{
	WITH_LOCK(&rs->mu);

	return rs->all.count;
}
