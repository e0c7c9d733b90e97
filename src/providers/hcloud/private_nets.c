/* private_nets.c: see private_nets.h. */
#include "providers/hcloud/private_nets.h"

void
hz_private_nets_read(struct arena *arena, yyjson_val *of, struct hz_private_nets *ret)
{
	struct hz_private_nets nets = { 0 };
	yyjson_val *list = NULL, *one;
	size_t i, n;

	json_array(of, "private_net", &list);
	nets.items = arena_calloc(arena, yyjson_arr_size(list), sizeof(*nets.items));
	yyjson_arr_foreach(list, i, n, one)
	{
		struct hz_private_net net = { .ip = json_text_at(arena, one, "ip") };

		if (json_i64(one, "network", &net.network) == JSON_FOUND && net.network > 0)
			nets.items[nets.n++] = net;
	}
	*ret = nets;
}

struct str
hz_address_in(const struct hz_private_nets *nets, int64_t network)
{
	for (size_t i = 0; i < nets->n; i++) {
		if (nets->items[i].network == network)
			return nets->items[i].ip;
	}
	return STR_EMPTY;
}
