/* controllers/service/service_sync.c: one run of one Service (docs/spec/framework.md, "Service
 * sync").
 *
 * The order of writes makes a crash at any point harmless. Ensuring: the finalizer first, then the
 * balancer, then the status. So a balancer never exists without a finalizer that keeps its Service
 * until the balancer is removed. Cleaning up: the balancer first, then status and finalizer in one
 * patch.
 *
 * The store may lag behind our own writes. Until the watch has delivered the last one, neither the
 * finalizers nor the status in the store are relied on (service_is_stale()).
 */
#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "controllers/dry_write.h"
#include "controllers/service/service_internal.h"
#include "kube/patch.h"

/* Changed targets are passed on to the provider immediately, then at most once in this time. */
static const int64_t update_pause_ns = NS_PER_SEC;
/* The pause after a conflict with another writer of the Service, and how many conflicts in a row
 * are expected. Further conflicts have another cause: an admission webhook that answers 409, or a
 * watch that lags. */
static const int64_t overtaken_pause_ms = 1000;
enum {
	CONFLICTS_EXPECTED = 2,
};

static const double latency_buckets[] = { 1,   2,   4,    8,    16,   32,   64,   128,
	                                  256, 512, 1024, 2048, 4096, 8192, 16384 };

METRIC_FAMILY(updates_total, METRIC_COUNTER, "service_controller_loadbalancer_sync_total",
              "[ALPHA] Updates of load balancers whose targets changed because nodes changed.");
METRIC_FAMILY(update_errors_total, METRIC_COUNTER, "service_controller_nodesync_error_total",
              "[ALPHA] Failed updates of the targets of a load balancer.");
METRIC_FAMILY(update_seconds, METRIC_HISTOGRAM,
              "service_controller_update_loadbalancer_host_latency_seconds",
              "[ALPHA] Duration of an update of the targets of one load balancer.",
              METRIC_BUCKETS(latency_buckets));

/* ---- writes ---- */

bool
service_is_stale(const struct service_run *run)
{
	const struct service_record *r = run->record;

	return r->is_unsure ||
	       (r->written_version && object_version_is_older(run->service->object.resource_version,
	                                                      str_c(r->written_version)));
}

/* The server answered 409. Either another Service has the name by now, which the store shows
 * already or will show soon; or other clients wrote to the Service so often that the server gave
 * up. The answer does not say which. */
static bool
handle_conflict(struct service_run *run, bool *ret_is_gone, struct error *err)
{
	const struct object *ours = &run->service->object;
	CLEANUP(object_unrefp) struct object *now = store_get(run->c->env->services, ours->key);

	*ret_is_gone = !now || !str_eq(now->uid, ours->uid);
	if (*ret_is_gone)
		return true;
	if (run->record->n_conflicts < CONFLICTS_EXPECTED) {
		run->record->n_conflicts++;
		err->code = ERR_PENDING;
		err->retry_after_ms = overtaken_pause_ms;
	}
	return false;
}

/* *ret_is_gone: the Service does not exist any more, or another one has its name. That is success:
 * there is nothing left to write. */
static bool
service_patch(struct service_run *run, struct str body, bool *ret_is_gone, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct kube_patch patch = { .type = KUBE_PATCH_STRATEGIC,
		                    .body = body,
		                    .answer = KUBE_ANSWER_META };
	struct service_record *r = run->record;
	struct str answer, version;
	struct error ignored;

	patch_service_path(&path, run->service);
	patch.path = buf_str(&path);
	*ret_is_gone = false;
	if (run->call->dry) {
		dry_write_service(run->call, run->service, patch.path, body);
		return true;
	}
	r->is_unsure = true;
	if (!kube_patch(run->c->env->kube, run->call, &patch, &answer, err)) {
		if (err->code == ERR_CONFLICT)
			return handle_conflict(run, ret_is_gone, err);
		*ret_is_gone = err->code == ERR_NOT_FOUND;
		return *ret_is_gone;
	}
	/* if the answer has no version, it stays unsure whether the write was executed */
	if (json_parse(answer, &doc, &ignored) &&
	    json_str(yyjson_doc_get_root(doc), "metadata.resourceVersion", &version) ==
	            JSON_FOUND) {
		r->is_unsure = false;
		free(r->written_version);
		r->written_version = xstrndup(version.ptr, version.len);
	}
	return true;
}

/* was_stale: the status in the store may be outdated, so it is written even if it is equal. */
static bool
write_status(struct service_run *run, bool was_stale, const struct lb_status *status,
             struct error *err)
{
	struct service_ingress *all = arena_calloc(run->call->arena, status->n_ingress,
	                                           sizeof(*all));
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	bool is_gone;

	/* The mode is always written with an address: if it is left out, the server fills in a
	 * default, and the status would always differ from the one that we want
	 * (docs/spec/framework.md, "Status of a Service"). */
	for (size_t i = 0; i < status->n_ingress; i++) {
		const struct lb_ingress *from = &status->ingress[i];

		all[i] = (struct service_ingress){ .ip = from->ip,
			                           .hostname = from->hostname,
			                           .ip_mode = STR_EMPTY,
			                           .ports = STR_EMPTY };
		if (from->ip.len > 0)
			all[i].ip_mode = from->ip_mode == LB_IP_MODE_PROXY ? STR("Proxy")
			                                                   : STR("VIP");
	}
	if (!was_stale && service_status_equals(run->service, all, status->n_ingress))
		return true;
	patch_service_status(&body, run->service, all, status->n_ingress);
	if (!service_patch(run, buf_str(&body), &is_gone, err))
		return err_wrap(err, "failed to update load balancer status");
	if (!run->call->dry && !is_gone)
		log_info("service status written", LOG_STR("service", run->service->object.key),
		         LOG_I64("addresses", (int64_t)status->n_ingress));
	return true;
}

/* ---- ensuring a balancer ---- */

static struct lb_spec
spec_of(struct service_run *run)
{
	return service_spec(run->service, run->c->config.cluster_name, run->call->arena);
}

/* What a failure of the provider means may depend on how long the Service has waited. */
static void
note_wait(struct service_run *run, struct error *err)
{
	struct lb_spec spec = spec_of(run);

	balancer_note_wait(run->c->env->cloud, &spec, &run->record->wait,
	                   clock_mono(run->call->clock), err);
}

/* service NULL: there is no balancer. Must be called before the provider's ensure() or
 * update_nodes(): even if that fails, it may have created the balancer, which has to be removed
 * later. */
static void
set_service_with_balancer(struct service_run *run, const struct service *service)
{
	CLEANUP(object_unrefp) struct object *old = run->record->service_with_balancer;
	struct object *new = (struct object *)(uintptr_t)service;
	WITH_LOCK(&run->c->mu);

	run->record->service_with_balancer = new ? object_ref(new) : NULL;
}

/* Puts the targets into the spec for the next call, and stores their hash. */
static void
set_targets(struct service_run *run, struct lb_spec *spec, const struct target_list *targets)
{
	spec->nodes = targets->refs;
	spec->n_nodes = targets->n;
	set_service_with_balancer(run, run->service);
	run->record->targets_hash = targets->hash;
	run->record->has_targets = true;
	run->record->next_update_ns = clock_deadline(clock_mono(run->call->clock), update_pause_ns);
}

/* After a restart each Service is ensured once. If it has its finalizer and addresses, very
 * probably nothing changes, and no event is sent. */
static bool
is_first_ensure_after_restart(const struct service_run *run)
{
	return run->service->has_finalizer && run->service->n_ingress > 0 &&
	       !run->record->has_targets && !run->record->has_failed;
}

/* Adds our finalizer. */
static bool
service_claim(struct service_run *run, bool was_stale, bool *ret_is_gone, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	*ret_is_gone = false;
	if (run->service->has_finalizer && !was_stale)
		return true;
	patch_service_claim(&body, run->service);
	if (!service_patch(run, buf_str(&body), ret_is_gone, err))
		return err_wrap(err, "failed to add load balancer cleanup finalizer");
	return true;
}

static bool
service_ensure(struct service_run *run, struct error *err)
{
	struct lb_spec spec = spec_of(run);
	CLEANUP(target_list_fini) struct target_list targets = { 0 };
	enum lb_outcome outcome = LB_DONE;
	struct lb_status status = { 0 };
	struct service_record *r = run->record;
	bool is_gone, was_stale = service_is_stale(run); /* read before our first write */
	struct error why;

	spec.is_changed = (run->reasons & REASON_FULL) && r->has_targets;
	if (!is_first_ensure_after_restart(run) && !r->is_repairing)
		service_announce(run, SERVICE_ENSURING);

	/* The finalizer comes before the balancer, which it keeps from being left behind. */
	if (!service_claim(run, was_stale, &is_gone, err))
		return false;
	if (is_gone)
		return true; /* the watch will deliver the deletion, which removes what there is */

	targets = targets_select(run->c->targets, run->c->env->cloud, &spec, run->call->arena);
	service_report_empty(run, targets.n);
	set_targets(run, &spec, &targets);
	balancer_report_left_out(run->c->env->cloud, run->call, &spec, &r->left_out);

	run->call->changes = r->is_repairing ? &r->repairs : NULL;
	if (!balancer_ensure(run->c->env->cloud, run->call, &spec, &outcome, &status, &why)) {
		*err = why;
		return err_wrap(err, "failed to ensure load balancer");
	}
	r->is_handled_by_other = outcome == LB_NOT_OURS;
	if (r->is_handled_by_other)
		return true;
	if (!write_status(run, was_stale, &status, err))
		return false;
	if (outcome == LB_PARTIAL) {
		*err = why;
		return err_wrap(err, "failed to ensure load balancer");
	}
	if (r->is_repairing)
		service_report_repairs(run);
	if (r->announced)
		service_report_end(run, SERVICE_ENSURED);
	else
		service_report_new_targets(run);
	return true;
}

/* ---- updating targets ---- */

/* *ret_is_missing: the balancer does not exist, so it has to be ensured. */
static bool
service_update(struct service_run *run, bool *ret_is_missing, struct error *err)
{
	struct lb_spec spec = spec_of(run);
	CLEANUP(target_list_fini)
	struct target_list targets = targets_select(run->c->targets, run->c->env->cloud, &spec,
	                                            run->call->arena);
	int64_t begun_ns;
	bool is_done;

	if (targets.hash == run->record->targets_hash || run->record->is_handled_by_other) {
		service_report_new_targets(run);
		return true;
	}
	set_targets(run, &spec, &targets);
	run->record->has_new_targets = targets.n > 0;
	metric_inc(metric_of(&updates_total));
	begun_ns = clock_mono(run->call->clock);
	is_done = balancer_update_nodes(run->c->env->cloud, run->call, &spec, err);
	metric_observe(metric_of(&update_seconds),
	               clock_seconds(clock_mono(run->call->clock) - begun_ns));
	if (is_done) {
		service_report_empty(run, targets.n);
		service_report_new_targets(run);
		return true;
	}
	*ret_is_missing = err->code == ERR_NOT_FOUND;
	if (*ret_is_missing)
		return true;
	note_wait(run, err);
	run->record->has_targets = false; /* the next run ensures, whatever its reason */
	if (service_is_failure(err)) {
		metric_inc(metric_of(&update_errors_total));
		service_warn_of_update(run, &targets, err);
	}
	return false;
}

bool
service_sync_has_new_targets(struct service_run *run)
{
	struct lb_spec spec = spec_of(run);
	CLEANUP(target_list_fini)
	struct target_list targets = targets_select(run->c->targets, run->c->env->cloud, &spec,
	                                            run->call->arena);

	return targets.hash != run->record->targets_hash;
}

/* ---- removing a balancer ---- */

/* The next Service of that name must not inherit anything from this one. */
static void
forget_balancer(struct service_run *run)
{
	struct service_record *r = run->record;

	set_service_with_balancer(run, NULL);
	r->has_targets = r->has_failed = r->is_handled_by_other = r->is_empty_reported =
		r->has_new_targets = r->is_repairing = false;
	buf_reset(&r->repairs);
}

/* Every controller based on k8s.io/cloud-provider uses the same finalizer as we do. On a Service of
 * another class it is ours only if we had a balancer for the Service. If we removed the finalizer
 * of another controller, its balancer would be left behind. That controller is at work if there is
 * a status: the API server cleared ours when the type changed, and without that no Service gets
 * another class. */
static bool
may_release(const struct service_run *run)
{
	return !run->service->has_class ||
	       (run->record->service_with_balancer && run->service->n_ingress == 0);
}

/* Calls the provider. Only the UID and the names of the Service matter for a removal, whatever its
 * other fields contain (docs/spec/framework.md, "Service sync"). */
static bool
remove_balancer(struct service_run *run, bool *ret_found, struct error *err)
{
	struct lb_spec spec = spec_of(run);

	*ret_found = false;
	if (may_release(run))
		service_announce(run, SERVICE_DELETING);
	if (!balancer_remove(run->c->env->cloud, run->call, &spec, ret_found, err))
		return false;
	if (*ret_found && !run->call->dry)
		log_info("load balancer deleted", LOG_STR("service", run->service->object.key));
	return true;
}

/* Removes the status and our finalizer in one patch. */
static bool
service_release(struct service_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	bool is_gone;

	if (!patch_service_release(&body, run->service, service_is_stale(run)))
		return true;
	if (!service_patch(run, buf_str(&body), &is_gone, err))
		return err_wrap(err, "failed to remove load balancer cleanup finalizer");
	return true;
}

/* *ret_is_ours: the Service had a balancer of ours, or its finalizer is ours to remove. That a
 * balancer was found is stored until the Service is released: if writing to the Service fails, the
 * next attempt does not find the balancer any more. */
static bool
remove_and_release(struct service_run *run, bool *ret_is_ours, struct error *err)
{
	bool was_found;

	*ret_is_ours = true;
	if (!remove_balancer(run, &was_found, err))
		return err_wrap(err, "failed to delete load balancer");
	if (was_found)
		set_service_with_balancer(run, run->service);
	*ret_is_ours = may_release(run);
	if (*ret_is_ours && !service_release(run, err))
		return false;
	forget_balancer(run);
	return true;
}

/* *ret_is_done: as in service_sync(). */
static bool
service_clean_up(struct service_run *run, bool *ret_is_done, struct error *err)
{
	uint64_t hash = str_hash(run->service->object.uid) + run->service->is_deleting;

	/* The cloud is asked only once about a Service of another class, and once more when it is
	 * being deleted, however often other clients change it. If it loses its class, it is ours
	 * to release. */
	*ret_is_done = false;
	if (run->service->has_class && run->record->foreign_hash == hash &&
	    !run->record->service_with_balancer)
		return true;
	if (!remove_and_release(run, ret_is_done, err)) {
		note_wait(run, err);
		service_warn(run, SERVICE_SYNC_FAILED, err);
		return false;
	}
	if (*ret_is_done)
		service_report_end(run, SERVICE_DELETED);
	else /* the record is kept until the Service is gone */
		run->record->foreign_hash = hash;
	return true;
}

bool
service_sync(struct service_run *run, bool *ret_is_done, struct error *err)
{
	const struct service *s = run->service;
	struct service_record *r = run->record;
	bool wants_ensure = (run->reasons & (REASON_FULL | REASON_RETRY)) || !r->has_targets;
	bool is_synced = true;

	/* While a Service is being deleted, no finalizer can be added: without ours, the balancer
	 * is removed already or was never made. */
	*ret_is_done = !service_wants_balancer(s) || service_needs_cleanup(s) ||
	               (s->is_deleting && !s->has_finalizer);
	if (*ret_is_done && (s->has_finalizer || r->service_with_balancer))
		return service_clean_up(run, ret_is_done, err);
	if (*ret_is_done)
		return true;

	if (run->reasons & REASON_FULL) {
		/* further changes follow the user's change */
		r->is_repairing = false;
		buf_reset(&r->repairs);
	} else if ((run->reasons & REASON_DRIFT) && !wants_ensure && !r->is_handled_by_other) {
		r->is_repairing = wants_ensure = true;
	}
	if (!wants_ensure)
		is_synced = service_update(run, &wants_ensure, err);
	if (is_synced && wants_ensure) {
		is_synced = service_ensure(run, err);
		if (!is_synced)
			note_wait(run, err);
	}
	r->has_failed = !is_synced && service_is_failure(err);
	if (!is_synced && wants_ensure) /* a failed update has an event of its own */
		service_warn(run, SERVICE_SYNC_FAILED, err);
	return is_synced;
}

/* Leaves the balancer alone: the operator who restores the cluster may still need it, or its
 * address. */
static void
keep_former(struct service_run *run, const struct service *former)
{
	log_warn("a service vanished together with our finalizer, leaving its load balancer alone",
	         LOG_STR("service", former->object.key), LOG_STR("uid", former->object.uid));
	service_warn_of_kept(run, former);
	if (run->c->ops->forget)
		run->c->ops->forget(run->c->env->cloud, former->object.uid);
	run->record->announced = SERVICE_NOTHING;
	forget_balancer(run);
}

bool
service_sync_former(struct service_run *run, const struct service *last, struct error *err)
{
	CLEANUP(object_unrefp) struct object *former = NULL;
	struct service_record *r = run->record;
	struct service_run its = *run; /* another Service may have its name by now */
	bool was_found;

	if (!r->service_with_balancer)
		return true;
	former = object_ref(r->service_with_balancer);
	its.service = service_of(former);
	/* Was the Service deleted by a client, rather than lost? Our finalizer keeps a Service
	 * until its balancer is gone. If a Service disappears together with the finalizer, the API
	 * server's data was lost, or the API server is now that of another cluster. */
	if (!str_eq(former->uid, last->object.uid)) {
		keep_former(run, its.service);
	} else if (last->has_finalizer && !last->is_deleting) {
		keep_former(run, last);
	} else {
		if (!remove_balancer(&its, &was_found, err)) {
			note_wait(&its, err);
			service_warn(&its, SERVICE_DELETE_FAILED, err);
			return false;
		}
		forget_balancer(&its);
		service_report_end(&its, SERVICE_DELETED);
	}
	/* Our writes to a Service say nothing about the next Service of that name. */
	free(TAKE(r->written_version));
	r->is_unsure = false;
	r->n_conflicts = 0;
	return true;
}
