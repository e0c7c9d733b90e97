/* The first byte selects the kind of answer. Only an explicit permission authorises a caller. A
 * user that is parsed is bounded, and can be sent in another review. */
#include "serve/review.h"

#include <assert.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_user(const struct access_user *user)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MIB(2));
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;

	assert(user->name.len > 0 && user->n_groups > 0);
	assert(user->size < 4 * LIMIT_USER_BYTES && user->n_extras <= LIMIT_USER_EXTRAS);
	review_add_rights(&body, user, STR("get"), STR("/metrics"));
	assert(buf_ok(&body) && json_parse(buf_str(&body), &doc, &err));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(review_answer_unrefp) struct review_answer *answer = NULL;
	struct str body = str_skip(str_n((const char *)data, size), 1);
	bool is_token = size > 0 && data[0] % 2;
	struct error err;

	if (!(is_token ? review_read_token : review_read_rights)(body, &answer, &err)) {
		assert(!answer && err.code == ERR_INVALID);
		return 0;
	}
	assert(answer->verdict == REVIEW_YES || answer->verdict == REVIEW_NO);
	assert(answer->verdict == REVIEW_NO || str_contains(body, STR("true")));
	assert(!answer->user == !(is_token && answer->verdict == REVIEW_YES));
	if (answer->user)
		check_user(answer->user);
	return 0;
}
