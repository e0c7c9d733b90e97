/* cloud/change.h: one request that changes something in a cloud, and what a dry run notes of it
 * (base/dry_run.h).
 *
 * A change is data: the request as text, and its body beside the object as it is, in the form of
 * the same body. The comparison of both says whether the change is needed, and which fields a dry
 * run notes:
 *
 * 	struct change change = {
 * 		.what = "load balancer",
 * 		.request = "PUT /load_balancers/{id}",
 * 		.id = lb->id,
 * 		.body = STR("{\"name\":\"web\",\"healthcheck\":{\"port\":30080}}"),
 * 		.present = STR("{\"name\":\"web\",\"healthcheck\":{\"port\":30081}}"),
 * 	};
 *
 * Here the field "healthcheck.port" differs. Only members of the body are compared, so the body
 * leaves out what is not to be changed. An absent member equals false, an empty text and an empty
 * list. Lists are compared in their order: if a list is a set, the function that writes `present`
 * brings it into the order of the body, or the change would be needed in each run. It also has to
 * write those members that the API never returns.
 *
 * Threads: any. What these functions return is in the arena of the call, or a constant.
 */
#ifndef CCMD_CLOUD_CHANGE_H
#define CCMD_CLOUD_CHANGE_H

#include "base/call.h"
#include "cloud/rest.h"

struct change {
	const char *what; /* "server group" */
	/* "POST /server_groups/{id}/add_servers". A DELETE is a deletion, any other request without
	 * "{id}" is a creation. */
	const char *request;
	struct str id;      /* takes the place of "{id}" */
	struct str name;    /* of the thing, in notes; empty: its id */
	struct str body;    /* JSON that is valid; empty: none */
	struct str present; /* likewise: the object as it is; empty: not known, or not there yet */
	bool is_removal;    /* of the members of the body */
	const char *prefix; /* of the names of fields, "service 80 "; NULL: none */
	const struct dry_field *fields; /* in place of the members that differ; NULL: those */
	size_t n_fields;
	const char *new_id; /* of a creation: the id of what a dry run would create */
};

/** The fields in which the body differs from the present object; all of them if that is not known.
 * Returns their number: 0 if the object is as the body wants it. */
size_t change_fields(const struct change *, struct arena *, const struct dry_field **ret);
/** Is there no present object, or does it differ? */
bool change_is_needed(const struct change *, struct arena *);

/** Notes the change; call->dry is set.
 * @param root  what paths begin with in notes: "/1.0" */
void change_note(const char *root, struct call *, const struct change *);

/** The API to which changes are sent. */
struct change_sender {
	struct rest *rest;
	const char *root;  /* as in change_note() */
	const char *query; /* behind each path, but not in notes: "?account_id=acc-1"; or "" */
};

/** Sends the change, or notes it in a dry run.
 *
 * @param ret_id  the id in the answer; in a dry run new_id, or an empty text. NULL: not wanted, so
 *                the answer need not be JSON
 * @return  as rest_do(). ERR_UNAVAILABLE also: the answer has no id. */
NODISCARD bool change_send(const struct change_sender *, struct call *, const struct change *,
                           struct str *ret_id, struct error *err);

#endif
