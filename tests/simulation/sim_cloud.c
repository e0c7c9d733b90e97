/* tests/simulation/sim_cloud.c: the clouds that a history may have; see sim_cloud.h. */
#include "sim_cloud.h"

#include <string.h>

#include "base/macros.h"
#include "schedule.h"

static const struct sim_cloud *const clouds[] = { &sim_hcloud, &sim_brightbox, &sim_cloudlycke,
	                                          &sim_example };

const struct sim_cloud *
sim_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(clouds); i++) {
		if (strcmp(clouds[i]->name, name) == 0)
			return clouds[i];
	}
	return NULL;
}

/* Half of the histories are at Hetzner: that cloud has the most that can happen. */
const struct sim_cloud *
sim_of_seed(uint64_t seed)
{
	struct rng r = rng_of(seed, "cloud", 0);

	if (rng_chance(&r, 500))
		return &sim_hcloud;
	if (rng_chance(&r, 600))
		return &sim_brightbox;
	return rng_chance(&r, 500) ? &sim_cloudlycke : &sim_example;
}
