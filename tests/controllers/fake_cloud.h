/* tests/controllers/fake_cloud.h: a cloud whose machines are what a test says, and that keeps what
 * it was asked.
 *
 * Machines are known by the node's name; a name that was never set is ABSENT. Threads: any.
 */
#ifndef CCMD_TESTS_CONTROLLERS_FAKE_CLOUD_H
#define CCMD_TESTS_CONTROLLERS_FAKE_CLOUD_H

#include "cloud/cloud.h"

/** All pointers are borrowed. */
struct fake_machine {
	enum presence presence;
	enum power power;
	enum err_code error_code;         /* UNKNOWN and FOREIGN */
	unsigned realm;                   /* struct instance */
	const char *provider_id;          /* NULL: "fake://NAME" */
	const char *type, *zone, *region; /* NULL: not said */
	const struct address *addresses;
	size_t n_addresses;
	const struct label *labels;
	size_t n_labels;
};

#define MACHINE_ON ((struct fake_machine){ .presence = PRESENCE_PRESENT, .power = POWER_ON })
#define MACHINE_OFF ((struct fake_machine){ .presence = PRESENCE_PRESENT, .power = POWER_OFF })
#define MACHINE_GONE ((struct fake_machine){ .presence = PRESENCE_ABSENT })

struct fake_cloud;

struct fake_cloud *fake_cloud_new(struct clock *clock);
void fake_cloud_free(struct fake_cloud *);
struct cloud *fake_cloud_cloud(struct fake_cloud *);

/** From now on it has these too; NULL: not offered. State is what fake_cloud_balancers() and
 * _routes() give back to their functions. */
void fake_cloud_offer_balancers(struct fake_cloud *, const struct balancer_ops *, void *state);
void fake_cloud_offer_routes(struct fake_cloud *, const struct route_ops *, void *state);
void *fake_cloud_balancers(struct cloud *);
void *fake_cloud_routes(struct cloud *);

/** From now on it says that its provider IDs begin with "fake://". */
void fake_cloud_name_prefix(struct fake_cloud *);
void fake_cloud_set(struct fake_cloud *, const char *name, struct fake_machine machine);
/** Every look fails with that code; ERR_NONE: no more. */
void fake_cloud_fail(struct fake_cloud *, enum err_code code);
/** What every later look finds of things that only this project has. */
void fake_cloud_anchors(struct fake_cloud *, unsigned n);

/** Called under the fake's lock before a look is answered: may spoil it, or return false with an
 * error. NULL: nobody. */
typedef bool fake_mood_fn(void *arg, struct look *look, struct error *err);
void fake_cloud_mood(struct fake_cloud *, fake_mood_fn *mood, void *arg);

/** From now on looks wait, each for one release. */
void fake_cloud_hold(struct fake_cloud *);
void fake_cloud_release(struct fake_cloud *, unsigned n);
/** Looks do not wait any more. */
void fake_cloud_let_go(struct fake_cloud *);

/** How many looks were asked for. */
size_t fake_cloud_looks(struct fake_cloud *);
/** When the i-th started, on the boot clock; ends the program when there were fewer. */
int64_t fake_cloud_started_ns(struct fake_cloud *, size_t i);
/** How many nodes it was about, and whether one with that name or provider ID was among them. */
size_t fake_cloud_asked(struct fake_cloud *, size_t i);
bool fake_cloud_has_asked(struct fake_cloud *, size_t i, const char *what);

#endif
