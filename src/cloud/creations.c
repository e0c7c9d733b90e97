/* cloud/creations.c: see creations.h. */
#include "cloud/creations.h"

#include "base/clock.h"
#include "base/thread.h"

/* For all clouds of the process, of which there is one outside of tests. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static struct creation *
find_creation(struct creations *c, struct str uid)
{
	uint64_t hash = str_hash(uid);

	for (size_t i = 0; i < LIMIT_CREATIONS; i++) {
		if (c->all[i].begun_boot_ns != 0 && c->all[i].uid_hash == hash)
			return &c->all[i];
	}
	return NULL;
}

/* The entry of that UID, or a free one, which it then gets; NULL: all are in use. */
static struct creation *
make_creation(struct creations *c, struct str uid, int64_t hidden_ns, int64_t now_ns)
{
	struct creation *found = find_creation(c, uid);

	for (size_t i = 0; i < LIMIT_CREATIONS && !found; i++) {
		if (c->all[i].begun_boot_ns == 0 || c->all[i].begun_boot_ns + hidden_ns <= now_ns)
			found = &c->all[i];
	}
	if (found && (found->begun_boot_ns == 0 || found->uid_hash != str_hash(uid)))
		*found = (struct creation){ .uid_hash = str_hash(uid) };
	return found;
}

void
creations_begin(struct creations *c, int64_t now_boot_ns)
{
	WITH_LOCK(&mu);

	if (c->leads_since_boot_ns == 0)
		c->leads_since_boot_ns = now_boot_ns;
}

bool
creations_note(struct creations *c, struct str uid, int64_t hidden_ns, int64_t now_boot_ns)
{
	struct creation *one;
	WITH_LOCK(&mu);

	one = make_creation(c, uid, hidden_ns, now_boot_ns);
	if (one)
		one->begun_boot_ns = now_boot_ns;
	return one != NULL;
}

void
creations_forget(struct creations *c, struct str uid)
{
	struct creation *one;
	WITH_LOCK(&mu);

	one = find_creation(c, uid);
	if (one)
		*one = (struct creation){ 0 };
}

bool
creations_may_hide(struct creations *c, struct str uid, int64_t hidden_ns, int64_t now_boot_ns,
                   int64_t *ret_since_boot_ns, bool *ret_reports)
{
	int64_t since_ns, age_ns;
	struct creation *one;
	WITH_LOCK(&mu);

	one = find_creation(c, uid);
	since_ns = one ? one->begun_boot_ns : c->leads_since_boot_ns;
	age_ns = now_boot_ns - since_ns;
	if (age_ns >= hidden_ns)
		return false;
	*ret_since_boot_ns = since_ns;
	*ret_reports = false;
	if (age_ns < CREATION_LONG_S * NS_PER_SEC)
		return true;
	if (!one) {
		one = make_creation(c, uid, hidden_ns, now_boot_ns);
		if (!one)
			return true;
		one->begun_boot_ns = since_ns;
	}
	*ret_reports = !one->is_reported;
	one->is_reported = true;
	return true;
}
