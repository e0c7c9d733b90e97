/* cloud/look.c: the answer of a look: made by a provider, read by any number of controllers.
 *
 * Every instance starts as UNKNOWN with an error, so that a provider that forgets one cannot get a
 * node deleted.
 */
#include "cloud/cloud.h"

#include "base/alloc.h"

struct look *
look_new(size_t n, int64_t started_boot_ns)
{
	struct look *look = xcalloc(1, sizeof(*look));

	atomic_init(&look->n_refs, 1);
	look->instances = arena_calloc(&look->arena, n, sizeof(look->instances[0]));
	look->n = n;
	look->started_boot_ns = started_boot_ns;
	for (size_t i = 0; i < n; i++) {
		look->instances[i] = (struct instance){
			.presence = PRESENCE_UNKNOWN,
			.error_code = ERR_INTERNAL,
			.error = STR("the cloud provider gave no answer"),
			.provider_id = STR_EMPTY,
			.type = STR_EMPTY,
			.zone = STR_EMPTY,
			.region = STR_EMPTY,
		};
	}
	return look;
}

struct look *
look_ref(struct look *look)
{
	atomic_fetch_add_explicit(&look->n_refs, 1, memory_order_relaxed);
	return look;
}

void
look_unref(struct look *look)
{
	if (!look || atomic_fetch_sub_explicit(&look->n_refs, 1, memory_order_acq_rel) > 1)
		return;
	if (look->release)
		look->release(look->owner);
	arena_fini(&look->arena);
	free(look);
}

void
look_set_error(struct look *look, size_t i, enum presence presence, enum err_code code,
               struct str text)
{
	struct instance *instance = &look->instances[i];

	instance->presence = presence;
	instance->error_code = code;
	instance->error = arena_str(&look->arena, text);
}
