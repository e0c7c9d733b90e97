/* controllers/env.c: see env.h. */
#include "controllers/env.h"

struct call
env_call(const struct controller_env *env, struct arena *arena, int64_t timeout_ns)
{
	return (struct call){ .clock = env->clock,
		              .cancel = env->cancel,
		              .deadline_mono_ns = clock_deadline(clock_mono(env->clock),
		                                                 timeout_ns),
		              .arena = arena };
}

const struct dry_item *
dry_item_new(const struct controller_env *env, const char *kind, struct str name,
             struct str version, struct arena *arena)
{
	struct dry_item *item;

	if (!env->dry)
		return NULL;
	item = arena_calloc(arena, 1, sizeof(*item));
	*item = (struct dry_item){ .run = env->dry,
		                   .kind = kind,
		                   .name = arena_str(arena, name),
		                   .version = arena_str(arena, version) };
	return item;
}

const struct dry_item *
dry_item_find(const struct controller_env *env, struct store *store, const char *kind,
              struct str key, struct arena *arena)
{
	CLEANUP(object_unrefp) struct object *object = env->dry ? store_get(store, key) : NULL;

	return dry_item_new(env, kind, key, object ? object->resource_version : STR_EMPTY, arena);
}
