/* controllers/dry_item.c: see dry_item.h. */
#include "controllers/dry_item.h"

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
