/* actions.h: waits until the cloud has carried out a change (docs/spec/hcloud.md, "Actions").
 *
 * The API answers a change before it is done, with an action whose state can be read. All threads
 * that wait for actions share one request, which reads the state of up to 25 of them: soon after
 * the change, then less and less often, until the actions are over or the waits end. 20 Services
 * that are created at the same time cost a handful of requests.
 *
 * Threads: any. A waiting thread sends the request, and the others wait for its result; when it
 * returns to its caller, another thread sends the next one.
 */
#ifndef CCMD_HCLOUD_ACTIONS_H
#define CCMD_HCLOUD_ACTIONS_H

#include "providers/hcloud/api.h"

struct hz_action {
	int64_t id; /* 0: no action, because the change was complete when the API answered */
	bool is_over;
};

/** What a change started, or why it was refused. */
struct hz_done {
	struct hz_action action;
	/* the API's code if the request was refused, or if its action had failed already in the
	 * answer; else "" */
	char code[HZ_CODE_MAX];
};

struct hz_actions;

/** Both are borrowed. */
struct hz_actions *hz_actions_new(struct hz_api *api, struct clock *clock);
/** No thread may be waiting. NULL is allowed. */
void hz_actions_free(struct hz_actions *);
DEFINE_CLEANUP(struct hz_actions, hz_actions_free)

/** Reads the member "action" of an answer; if it is absent or null, there is no action. If the
 * action has failed already, the error is that of hz_actions_wait(). */
NODISCARD bool hz_action_read(yyjson_val *answer, struct hz_action *ret, struct error *err);

/** Sends a request that changes something, and reads the action that it started. *ret_done is
 * filled on failure as well. */
NODISCARD bool hz_change(struct hz_api *, struct call *, const struct hz_request *request,
                         struct hz_answer *ret_answer, struct hz_done *ret_done, struct error *err);

/** Waits until the action is over, for at most max_ns. No request is sent for an action that is
 * over already.
 *
 * @return  On false, err->code is
 *          ERR_PENDING      the next request for its state would be due only after the call's
 *                           deadline, or the wait took max_ns or five minutes; with
 *                           retry_after_ms
 *          ERR_CANCELLED
 *          ERR_THROTTLED    the budget or the cloud permits no further requests
 *          ERR_UNAVAILABLE  the API does not list the action any more
 *          any code with is_outage: the API is unavailable, and the action may still be running
 *          hz_code_of() the action's code, if it failed; the text is "message (code, id)"
 *          other codes as hz_api_do(), but a single request without an answer does not end the
 *          wait */
NODISCARD bool hz_actions_wait(struct hz_actions *, struct call *, struct hz_action action,
                               int64_t max_ns, struct error *err);

#endif
