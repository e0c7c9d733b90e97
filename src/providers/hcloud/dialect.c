/* dialect.c: see dialect.h. */
#include "providers/hcloud/dialect.h"

#include <stddef.h>

static const char *const no_aliases[] = { NULL };
static const char *const tutorial_aliases[] = { "hcloud-from-scratch://", "ccm-from-scratch://",
	                                        NULL };

const struct hz_dialect hz_official = {
	.name = "hcloud",
	.id_prefix = "hcloud://",
	.id_aliases = no_aliases,
	.user_agent = "hcloud-cloud-controller",
};

const struct hz_dialect hz_tutorial = {
	.name = "hcloud-from-scratch",
	.id_prefix = "hcloud-from-scratch://",
	.id_aliases = tutorial_aliases,
	.user_agent = "ccm-from-scratch",
	.is_tutorial = true,
	.is_off_unless_running = true,
	.has_wide_regions = true,
	.has_all_families = true,
};

const struct hz_dialect hz_tutorial_text = {
	.name = "ccm-from-scratch",
	.id_prefix = "ccm-from-scratch://",
	.id_aliases = tutorial_aliases,
	.user_agent = "ccm-from-scratch",
	.is_tutorial = true,
	.has_wide_regions = true,
	.has_all_families = true,
};
