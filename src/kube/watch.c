/* kube/watch.c: see watch.h. A line is {"type": …, "object": …}; the object of a bookmark has only
 * a resourceVersion, and that of an error is a Status. */
#include "kube/watch.h"

#include "base/limits.h"
#include "kube/client.h"

struct line {
	struct str type;
	yyjson_val *object;
};

static const struct object_field line_fields[] = {
	OBJECT_FIELD(WANT_STR, struct line, type, "type"),
	OBJECT_FIELD(WANT_OBJECT, struct line, object, "object"),
};

static const struct {
	struct str text;
	const char *name;
} types[] = {
	[WATCH_ADDED] = { STR("ADDED"), "added" },
	[WATCH_MODIFIED] = { STR("MODIFIED"), "modified" },
	[WATCH_DELETED] = { STR("DELETED"), "deleted" },
	[WATCH_BOOKMARK] = { STR("BOOKMARK"), "bookmark" },
	[WATCH_ERROR] = { STR("ERROR"), "error" },
	[WATCH_SKIPPED] = { STR(""), "skipped" },
};

static bool
read_type(struct str text, enum watch_type *ret, struct error *err)
{
	for (enum watch_type type = WATCH_ADDED; type <= WATCH_ERROR; type++) {
		if (str_eq(text, types[type].text)) {
			*ret = type;
			return true;
		}
	}
	return err_set(err, ERR_INVALID, "unknown type \"%" STR_FMT "\" of event",
	               STR_ARG(str_head(text, LIMIT_NAME)));
}

/* Reads the resource version. False if the object is of another kind or has no version: such an
 * event cannot be applied, and the watch could not be reopened after it. */
static bool
read_version(const struct kind *kind, yyjson_val *object, struct str *ret)
{
	struct str name;

	return json_str(object, "kind", &name) == JSON_FOUND && str_eq_c(name, kind->name) &&
	       json_str(object, "metadata.resourceVersion", ret) == JSON_FOUND && ret->len > 0 &&
	       ret->len <= LIMIT_NAME;
}

bool
watch_read(const struct kind *kind, yyjson_val *val, struct watch_event *ret, struct error *err)
{
	struct line line = { STR_EMPTY, NULL };
	struct watch_event event = { .resource_version = STR_EMPTY };

	if (!object_read(val, "event", line_fields, ARRAY_LEN(line_fields), &line, err) ||
	    !read_type(line.type, &event.type, err))
		return false;
	event.object = line.object;
	if (event.type != WATCH_ERROR && !read_version(kind, event.object, &event.resource_version))
		event.type = WATCH_SKIPPED;
	*ret = event;
	return true;
}

bool
watch_status_error(yyjson_val *status, struct error *err)
{
	struct str message = STR_EMPTY;
	int64_t code = 0, retry_after_s = 0;

	(void)json_str(status, "message", &message);
	(void)json_i64(status, "code", &code);
	(void)json_i64(status, "details.retryAfterSeconds", &retry_after_s);
	if (retry_after_s > LIMIT_RETRY_AFTER_S)
		retry_after_s = LIMIT_RETRY_AFTER_S;
	(void)err_set(err, kube_status_code(status), "the server ended the watch: %" STR_FMT,
	              STR_ARG(str_head(message, ERR_MSG_SIZE)));
	/* the code comes from the server and may be anything */
	if (code >= 100 && code <= 599)
		err->http_status = (int)code;
	if (retry_after_s > 0)
		err->retry_after_ms = retry_after_s * MS_PER_SEC;
	return false;
}

const char *
watch_type_name(enum watch_type type)
{
	return types[type].name;
}
