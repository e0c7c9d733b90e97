/* servers_known.c: a table of servers by id; see servers_known.h. */
#include "providers/hcloud/servers_known.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"

struct hz_servers_known {
	pthread_mutex_t mu;
	struct map by_id; /* mu; struct server_known by its key */
};

struct server_known {
	struct str key; /* the bytes of the id */
	int64_t id;
	bool has_public_ipv4;
	bool is_in_network; /* true if the cluster has none: then the balancer's error says so */
};

struct hz_servers_known *
hz_servers_known_new(void)
{
	struct hz_servers_known *k = xcalloc(1, sizeof(*k));

	k->by_id = MAP_OF(struct server_known, key);
	mutex_init(&k->mu);
	return k;
}

static void
hz_servers_known_forget_all(struct hz_servers_known *k)
{
	struct str key;
	void *server;

	for (size_t pos = 0; map_next(&k->by_id, &pos, &key, &server);)
		free(server);
	map_fini(&k->by_id);
	k->by_id = MAP_OF(struct server_known, key);
}

void
hz_servers_known_free(struct hz_servers_known *k)
{
	if (!k)
		return;
	hz_servers_known_forget_all(k);
	map_fini(&k->by_id);
	mutex_destroy(&k->mu);
	free(k);
}

void
hz_servers_known_note(struct hz_servers_known *k, const struct hz_server *server, int64_t network)
{
	struct server_known *known;
	WITH_LOCK(&k->mu);

	known = map_get(&k->by_id, map_key_i64(&server->id));
	if (!known) {
		if (k->by_id.count >= LIMIT_MACHINES)
			hz_servers_known_forget_all(k);
		known = xcalloc(1, sizeof(*known));
		known->id = server->id;
		known->key = map_key_i64(&known->id);
		map_put(&k->by_id, known->key, known);
	}
	known->has_public_ipv4 = server->ipv4.len > 0;
	known->is_in_network = network == 0 ||
	                       hz_address_in(&server->private_nets, network).len > 0;
}

const char *
hz_servers_known_obstacle(struct hz_servers_known *k, int64_t id, bool is_private)
{
	const struct server_known *known;
	WITH_LOCK(&k->mu);

	known = map_get(&k->by_id, map_key_i64(&id));
	if (!known || (is_private ? known->is_in_network : known->has_public_ipv4))
		return NULL;
	return is_private ? "is not attached to the network" : "has no public IPv4 address";
}
