/* actions.h: waiting for what the cloud does behind an answer (docs/spec/hcloud.md, "Actions").
 *
 * A change is answered with an action that runs on. Whoever waits for one, waits together with all
 * others: one request asks for all actions that are waited for (at most 25 a request), soon at
 * first and then less and less often, until they are over or the wait has an end. So 20 Services
 * that are made at once cost a handful of requests.
 *
 * Threads: any. The first whose action is due asks for all, while the others wait for what it
 * hears; when it leaves, another takes over.
 */
#ifndef CCMD_HCLOUD_ACTIONS_H
#define CCMD_HCLOUD_ACTIONS_H

#include "providers/hcloud/api.h"

struct hz_action {
	int64_t id; /* 0: none, it is over */
	bool is_over;
};

/** What a call did, or why it did not. */
struct hz_done {
	struct hz_action action;
	char code[HZ_CODE_MAX]; /* the API's, of what was refused or failed at once; else "" */
};

struct hz_actions;

/** Both are borrowed. */
struct hz_actions *hz_actions_new(struct hz_api *api, struct clock *clock);
/** Nobody may wait. NULL is fine. */
void hz_actions_free(struct hz_actions *);
DEFINE_CLEANUP(struct hz_actions, hz_actions_free)

/** Reads "action" of an answer; absent or null is none. One that has failed already fails as in
 * hz_actions_wait(). */
NODISCARD bool hz_action_read(yyjson_val *answer, struct hz_action *ret, struct error *err);

/** Sends a request that changes something, and reads what that started. *ret_done is filled on
 * failure as well. */
NODISCARD bool hz_change(struct hz_api *, struct call *, const struct hz_request *request,
                         struct hz_answer *ret_answer, struct hz_done *ret_done, struct error *err);

/** Waits until it is over; nothing is asked for one that is.
 *
 * @return  On false, err->code is
 *          ERR_PENDING      the next request for its state would be due only after the call's
 *                           deadline or after five minutes; with retry_after_ms
 *          ERR_CANCELLED
 *          ERR_THROTTLED    the budget or the cloud want no further requests
 *          ERR_UNAVAILABLE  the cloud no longer knows it
 *          any code with is_outage: the API is unavailable, and the action may still be running
 *          of a failed action hz_code_of() its code, with the text "message (code, id)"
 *          other codes as hz_api_do(), but a single request without an answer does not end the
 *          wait */
NODISCARD bool hz_actions_wait(struct hz_actions *, struct call *, struct hz_action action,
                               struct error *err);

#endif
