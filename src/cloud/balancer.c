/* cloud/balancer.c: see balancer.h. */
#include "cloud/balancer.h"

const struct str *
lb_annotation(const struct lb_spec *spec, const char *key)
{
	for (size_t i = spec->n_annotations; i-- > 0;) {
		if (str_eq_c(spec->annotations[i].key, key))
			return &spec->annotations[i].value;
	}
	return NULL;
}
