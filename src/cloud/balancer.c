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

bool
lb_needs_evidence(const struct lb_spec *spec)
{
	const struct str *is_gone = lb_annotation(spec, LB_ANNOTATION_GONE);

	return spec->status.n_ingress > 0 && !(is_gone && str_eq_c(*is_gone, "true"));
}

bool
lb_check_evidence(const struct lb_evidence *found, struct error *err)
{
	if (found->n_machines > 0 || found->n_balancers > 0 || found->n_networks > 0)
		return true;
	return err_set(
		err, ERR_PENDING,
		"The load balancer of this Service was not found, and neither was any machine of a node, "
		"any other load balancer of this cluster, or its network by id: the credentials may be "
		"those of another project. No load balancer is created, and the Service is not released. "
		"Check the credentials. If the load balancer really no longer exists, annotate the "
		"Service with " LB_ANNOTATION_GONE "=true");
}
