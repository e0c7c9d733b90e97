/* cloud/registry.c: the clouds of this program. Adding one is a line in each of the two
 * lists. */
#include "cloud/cloud.h"

/* The formatter would put several clouds into a line. */
/* clang-format off */
extern const struct cloud_ops brightbox_cloud;
extern const struct cloud_ops cloudlycke_cloud;
extern const struct cloud_ops hcloud_cloud;
extern const struct cloud_ops hcloud_from_scratch_cloud;
extern const struct cloud_ops ccm_from_scratch_cloud;
extern const struct cloud_ops example_cloud;

static const struct cloud_ops *const clouds[] = {
	&brightbox_cloud,
	&cloudlycke_cloud,
	&hcloud_cloud,
	&hcloud_from_scratch_cloud,
	&ccm_from_scratch_cloud,
#ifdef CCMD_EXAMPLE
	&example_cloud,
#endif
};
/* clang-format on */

const struct cloud_ops *
cloud_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(clouds); i++) {
		if (str_eq_c(name, clouds[i]->name))
			return clouds[i];
	}
	return NULL;
}

bool
cloud_reads_variable(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(clouds) * CLOUD_VARIABLES_MAX; i++) {
		const char *begin = clouds[i / CLOUD_VARIABLES_MAX]
		                            ->variables[i % CLOUD_VARIABLES_MAX];

		if (begin && str_starts(name, str_c(begin)))
			return true;
	}
	return false;
}

void
cloud_list(struct buf *b)
{
	for (size_t i = 0; i < ARRAY_LEN(clouds); i++)
		buf_addf(b, "%s%s", i > 0 ? ", " : "", clouds[i]->name);
}
