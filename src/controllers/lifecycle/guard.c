/* controllers/lifecycle/guard.c: the deletion guard; see guard.h.
 *
 * Why the guard is so careful: with a wrong token, the credentials of another project, an empty
 * answer or a truncated list, the cloud seems to have lost its machines. Deleting a Node evicts
 * every pod on it, and waiting a little costs nothing.
 */
#include "controllers/lifecycle/guard.h"

const struct guard_config guard_defaults = {
	.is_enabled = true,
	.require_witness = true,
	.confirm_ns = 12 * NS_PER_SEC,
	.min_age_ns = 60 * NS_PER_SEC,
	.nameless_ns = 15 * 60 * NS_PER_SEC,
	.breaker_min = 3,
	.breaker_percent = 20,
	.breaker_window_ns = 10 * 60 * NS_PER_SEC,
	.breaker_agree_ns = 5 * 60 * NS_PER_SEC,
};

void
guard_observe(struct guard_track *t, const struct guard_config *config,
              const struct guard_observation *seen)
{
	if (seen->presence == PRESENCE_UNKNOWN)
		return; /* neither counts nor resets the count */
	if (seen->presence != PRESENCE_ABSENT) {
		*t = (struct guard_track){ 0 };
		return;
	}

	/* An absence without a witness does not count. A kubelet that reported since the first
	 * absence shows that its machine runs: counting begins again. */
	t->lacks_witness = config->is_enabled && config->require_witness && !seen->has_witness;
	if (t->lacks_witness)
		return;
	t->has_heartbeat = t->n_absent > 0 && seen->heartbeat != t->heartbeat;
	if (t->n_absent == 0 || t->has_heartbeat) {
		t->n_absent = 0;
		t->first_boot_ns = seen->started_boot_ns;
		t->heartbeat = seen->heartbeat;
	}
	t->n_absent++;
	t->last_boot_ns = seen->started_boot_ns;
}

enum guard_outcome
guard_prove(const struct guard_config *config, const struct guard_facts *f)
{
	const struct guard_track *t = &f->track;

	if (f->is_ready)
		return GUARD_KEEP;
	if (f->is_foreign)
		return GUARD_FOREIGN;
	if (t->lacks_witness)
		return GUARD_NO_WITNESS;
	if (t->n_absent == 0)
		return GUARD_KEEP;
	if (t->has_heartbeat || (config->is_enabled && f->has_new_heartbeat))
		return GUARD_KUBELET_ALIVE;
	/* without the guard the first absence is enough, as in the Go controllers */
	if (!config->is_enabled)
		return GUARD_DELETE;
	if (t->n_absent < 2 || t->last_boot_ns - t->first_boot_ns < config->confirm_ns)
		return GUARD_UNCONFIRMED;
	if (f->age_ns < config->min_age_ns)
		return GUARD_YOUNG;
	if (!f->has_provider_id && t->last_boot_ns - t->first_boot_ns < config->nameless_ns)
		return GUARD_NAMELESS;
	return GUARD_DELETE;
}

enum guard_outcome
guard_decide(const struct guard_config *config, const struct guard_facts *f)
{
	enum guard_outcome outcome = guard_prove(config, f);
	bool is_too_many = f->n_going > config->breaker_min &&
	                   (uint64_t)f->n_going * 100 >
	                           (uint64_t)f->n_nodes * config->breaker_percent;

	if (outcome != GUARD_DELETE || !config->is_enabled || f->is_announced)
		return outcome;
	if (is_too_many &&
	    f->track.last_boot_ns - f->group_first_boot_ns < config->breaker_agree_ns)
		return GUARD_BREAKER;
	return GUARD_DELETE;
}

int64_t
guard_not_before_ns(const struct guard_config *config, const struct guard_facts *f,
                    int64_t now_boot_ns)
{
	enum guard_outcome outcome = guard_decide(config, f);
	/* the next look starts counting again if the kubelet has reported since the last one */
	int64_t first_ns = f->has_new_heartbeat ? now_boot_ns : f->track.first_boot_ns;
	int64_t at_ns = clock_later(now_boot_ns, first_ns + config->confirm_ns);

	switch (outcome) {
	case GUARD_KEEP:
	case GUARD_FOREIGN:
	case GUARD_NO_WITNESS:
	case GUARD_N_OUTCOMES:
		return CLOCK_FOREVER;
	case GUARD_DELETE:
		return now_boot_ns;
	case GUARD_UNCONFIRMED:
	case GUARD_KUBELET_ALIVE:
	case GUARD_YOUNG:
	case GUARD_NAMELESS:
		break;
	case GUARD_BREAKER:
		at_ns = clock_later(at_ns, f->group_first_boot_ns + config->breaker_agree_ns);
		break;
	}
	at_ns = clock_later(at_ns, now_boot_ns + config->min_age_ns - f->age_ns);
	return f->has_provider_id ? at_ns : clock_later(at_ns, first_ns + config->nameless_ns);
}

const char *
guard_outcome_name(enum guard_outcome outcome)
{
	static const char *const names[GUARD_N_OUTCOMES] = {
		[GUARD_KEEP] = "keep",
		[GUARD_DELETE] = "delete",
		[GUARD_FOREIGN] = "foreign",
		[GUARD_UNCONFIRMED] = "unconfirmed",
		[GUARD_NO_WITNESS] = "no_witness",
		[GUARD_KUBELET_ALIVE] = "kubelet_alive",
		[GUARD_YOUNG] = "young",
		[GUARD_NAMELESS] = "nameless",
		[GUARD_BREAKER] = "breaker",
	};

	return names[outcome];
}

/* Without a witness no look can prove anything until a person has corrected something, and each
 * look costs a request for every node. */
int64_t
guard_next_look_ns(const struct guard_config *config, const struct guard_facts *f, unsigned n_looks,
                   int64_t period_ns)
{
	static const int64_t steps_s[] = { 12, 18, 30 };
	int64_t regular = (f->track.lacks_witness ? GUARD_LOST_LOOK_S : GUARD_LOOK_S) * NS_PER_SEC;

	if (period_ns != 0)
		regular = period_ns;
	else if (n_looks >= 1 && n_looks <= ARRAY_LEN(steps_s))
		regular = steps_s[n_looks - 1] * NS_PER_SEC;
	switch (guard_decide(config, f)) {
	case GUARD_UNCONFIRMED:
	case GUARD_KUBELET_ALIVE:
		return config->confirm_ns < regular ? config->confirm_ns : regular;
	case GUARD_YOUNG:
		return config->min_age_ns - f->age_ns < regular ? config->min_age_ns - f->age_ns
		                                                : regular;
	default:
		return regular;
	}
}
