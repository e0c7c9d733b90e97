/* operator/bundle.c: see bundle.h. */
#include "operator/bundle.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/version.h"
#include "cloud/cloud.h"
#include "kube/config.h"
#include "operator/explain.h"
#include "operator/plan.h"
#include "operator/status.h"

enum {
	MAX_EXPLAINED = 20, /* objects with problems */
	MAX_LOGS = 5,       /* pods */
	MAX_SECRETS = 64,
	SHORTEST_SECRET = 6,
	LONG_WORD = 40, /* a shorter one is no token of a cloud; a UUID has 36 */
};

#define REDACTED "[redacted]"

/* ---- redaction ---- */

static bool
is_word(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static size_t
word_length(struct str text)
{
	size_t n = 0;

	while (n < text.len && is_word(text.ptr[n]))
		n++;
	return n;
}

/* Has the word letters of both cases and digits, as random tokens have? Names of objects, UIDs and
 * digests have small letters only. */
static bool
is_random(struct str word)
{
	bool has_upper = false, has_lower = false, has_digit = false;

	for (size_t i = 0; i < word.len; i++) {
		has_upper |= isupper((unsigned char)word.ptr[i]) != 0;
		has_lower |= islower((unsigned char)word.ptr[i]) != 0;
		has_digit |= isdigit((unsigned char)word.ptr[i]) != 0;
	}
	return has_upper && has_lower && has_digit;
}

/* The number of bytes up to one of these characters, or to the end. */
static size_t
length_until(struct str text, const char *ends)
{
	size_t n = 0;

	while (n < text.len && !strchr(ends, text.ptr[n]))
		n++;
	return n;
}

/* A password or a token behind its name: "token=…", "\"password\":\"…". */
static size_t
named_secret(struct str text, size_t *ret_kept)
{
	static const char *const names[] = { "password", "passwd", "token", "secret", "apikey" };
	static const char *const signs[] = { "=\\\"", "=\"", "=", "\":\"", "\\\":\\\"" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (text.len < strlen(names[i]) ||
		    strncasecmp(text.ptr, names[i], strlen(names[i])) != 0)
			continue;
		for (size_t j = 0; j < ARRAY_LEN(signs); j++) {
			struct str rest = str_skip(text, strlen(names[i]));
			size_t n;

			if (!str_starts(rest, str_c(signs[j])))
				continue;
			n = length_until(str_skip(rest, strlen(signs[j])), " \"\\,;&<>(){}[]");
			*ret_kept = strlen(names[i]) + strlen(signs[j]);
			return n >= SHORTEST_SECRET ? *ret_kept + n : 0;
		}
	}
	return 0;
}

/* The length of a secret at the begin of the text, of which the first *ret_kept bytes may stay; 0:
 * there is none. */
static size_t
find_secret(struct str text, const struct str secrets[], size_t n_secrets, size_t *ret_kept)
{
	static const char *const schemes[] = { "Bearer ", "Basic " };
	size_t n;

	*ret_kept = 0;
	for (size_t i = 0; i < n_secrets; i++) {
		if (str_starts(text, secrets[i]))
			return secrets[i].len;
	}
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (str_starts(text, str_c(schemes[i]))) {
			*ret_kept = strlen(schemes[i]);
			n = length_until(str_skip(text, *ret_kept), " \"\\,;");
			return n >= SHORTEST_SECRET ? *ret_kept + n : 0;
		}
	}
	if (str_starts(text, STR("-----BEGIN ")) &&
	    str_contains(str_head(text, length_until(text, "\\\n")), STR("PRIVATE KEY"))) {
		const char *end = memmem(text.ptr, text.len, "-----END", strlen("-----END"));

		return end ? (size_t)(end - text.ptr) : length_until(text, "\"");
	}
	if (str_starts(text, STR("://"))) {
		n = length_until(str_skip(text, 3), "/@ \"\\");
		*ret_kept = 3;
		return 3 + n < text.len && text.ptr[3 + n] == '@' ? 3 + n : 0;
	}
	return named_secret(text, ret_kept);
}

void
bundle_redact(struct str text, const struct str secrets[], size_t n_secrets, struct buf *out)
{
	size_t i = 0;

	while (i < text.len) {
		struct str rest = str_skip(text, i);
		bool is_begin = i == 0 || !is_word(text.ptr[i - 1]);
		size_t kept, n = find_secret(rest, secrets, n_secrets, &kept);
		size_t word = is_begin ? word_length(rest) : 0;

		if (n == 0 && ((word >= LONG_WORD && is_random(str_head(rest, word))) ||
		               (word > SHORTEST_SECRET && str_starts(rest, STR("eyJ")))))
			n = length_until(rest, " \"\\,;&<>(){}[]/");
		if (n == 0) {
			buf_add_char(out, text.ptr[i++]);
			continue;
		}
		buf_add_str(out, str_head(rest, kept));
		buf_add_c(out, REDACTED);
		i += n;
	}
}

/* The secrets of this process, as they are in JSON. */
struct secrets {
	struct arena arena;
	struct str items[MAX_SECRETS];
	size_t n;
};

static void
add_secret(struct secrets *s, struct str secret)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(LIMIT_CREDENTIAL);

	secret = str_trim(secret);
	if (secret.len < SHORTEST_SECRET || s->n == MAX_SECRETS)
		return;
	json_add_str(&json, secret);
	s->items[s->n++] = arena_str(&s->arena, str_n(json.ptr + 1, json.len - 2));
}

static void
add_secret_file(struct secrets *s, const char *path)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_CREDENTIAL);
	struct error ignored;

	if (path[0] && file_read(path, &text, &ignored))
		add_secret(s, buf_str(&text));
}

/* Variables of clouds with such a name, or the files that they name. */
static void
add_secret_variables(struct secrets *s)
{
	static const char *const words[] = { "TOKEN", "SECRET", "PASSWORD", "KEY" };

	for (char **entry = environ; *entry; entry++) {
		struct str name, value;
		bool is_secret = false;

		if (!str_cut(str_c(*entry), '=', &name, &value) || !cloud_reads_variable(name))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			is_secret |= str_contains(name, str_c(words[i]));
		if (is_secret && str_ends(name, STR("_FILE")))
			add_secret_file(s, value.ptr);
		else if (is_secret)
			add_secret(s, value);
	}
}

static void
collect_secrets(const struct options *o, struct secrets *ret)
{
	CLEANUP(kube_config_freep) struct kube_config *kube = NULL;
	struct kube_config_source source = { .kubeconfig = o->kubeconfig,
		                             .is_list = o->kubeconfig_is_list,
		                             .master = o->master };
	struct error ignored;

	add_secret_variables(ret);
	if (!kube_config_load(&source, &kube, /*problems=*/NULL, &ignored))
		return;
	add_secret(ret, secret_expose(&kube->token));
	add_secret(ret, secret_expose(&kube->password));
	add_secret_file(ret, arena_strz(&ret->arena, kube->token_file));
}

/* ---- the parts ---- */

/* A command's JSON object, without its line feed. */
static void
add_part(struct buf *json, const char *name, struct buf *part)
{
	json_add_raw(json, name, str_trim(buf_str(part)));
	buf_reset(part);
}

/* The objects about which doctor has findings, each once. */
static void
add_explanations(struct view *v, const struct report *r, struct buf *json)
{
	CLEANUP(buf_fini) struct buf part = BUF_INIT(LIMIT_REPORT);
	CLEANUP(map_fini) struct map seen = MAP_INIT;

	json_begin_array(json, "explain");
	for (size_t i = 0; i < r->n; i++) {
		for (size_t j = 0; j < r->results[i].n_findings; j++) {
			const struct finding *f = &r->results[i].findings[j];
			struct explanation e = { 0 };
			struct str path = arena_printf(&v->arena, "%" STR_FMT "s/%" STR_FMT,
			                               STR_ARG(f->kind), STR_ARG(f->name));
			struct described what;

			if (f->is_note || !described_parse(path, &what) ||
			    seen.count >= MAX_EXPLAINED || map_get(&seen, path))
				continue;
			map_put(&seen, path, (void *)(uintptr_t)f);
			explain_read(v, &what, &e);
			explain_print_json(&e, &part);
			add_part(json, NULL, &part);
			explanation_fini(&e);
		}
	}
	json_end_array(json);
}

#define UNIT "ccmd.service"
#define NO_ENTRIES "-- No entries --"

void
bundle_read_journal(struct arena *arena, struct journal *ret)
{
	static const char *const argv[] = { "journalctl", "--unit=ccmd.service", "--lines=500",
		                            "--no-pager", "--output=short-iso",  NULL };
	const char *const env[] = { "LC_ALL=C", NULL };
	const struct child_spec spec = { .argv = argv,
		                         .env = env,
		                         .timeout_ms = 10000,
		                         .max_output = MIB(2),
		                         .take_stderr = true };
	struct call call = { .clock = &clock_real, .deadline_mono_ns = CLOCK_FOREVER };
	struct child_result result = CHILD_RESULT_INIT;
	struct str why = STR_EMPTY;
	struct error err;

	*ret = (struct journal){ .text = STR_EMPTY, .error = STR_EMPTY };
	if (!child_run(&call, &spec, &result, &err)) {
		if (err.code != ERR_NOT_FOUND)
			why = str_c(err.msg);
	} else if (result.exit_code != 0 || str_trim(buf_str(&result.err)).len > 0) {
		/* also exit code 0, with a hint that these credentials do not see all messages */
		why = str_trim(buf_str(&result.err));
	} else if (!str_starts(buf_str(&result.out), STR(NO_ENTRIES))) {
		ret->text = arena_str(arena, buf_str(&result.out));
	}
	if (why.len > 0)
		ret->error = arena_printf(
			arena,
			"if ccmd runs here as a unit, its log could not be read: %" STR_FMT
			"; add the output of: sudo journalctl -u ccmd -n 500",
			STR_ARG(why));
	child_result_fini(&result);
}

/* The end of the log of the unit and of each pod. */
static void
add_logs(struct view *v, const struct journal *journal, struct buf *json)
{
	struct str namespace, text;
	yyjson_val *pods, *pod;
	struct error err;
	size_t i, n;

	json_begin_array(json, "logs");
	if (journal->text.len + journal->error.len > 0)
		json_add_object(json, NULL, JSON_TEXT("unit", STR(UNIT)),
		                JSON_TEXT(journal->error.len > 0 ? "error" : "text",
		                          journal->error.len > 0 ? journal->error : journal->text));
	if (!view_list_pods(v, &namespace, &pods, &err))
		json_add_object(json, NULL, JSON_TEXT("error", str_c(err.msg)));
	yyjson_arr_foreach(pods, i, n, pod)
	{
		struct str name = json_view(pod, "metadata.name");
		struct str path = arena_printf(&v->arena,
		                               "/api/v1/namespaces/%" STR_FMT "/pods/%" STR_FMT
		                               "/log?tailLines=500&limitBytes=500000",
		                               STR_ARG(namespace), STR_ARG(name));
		bool is_read;

		if (i >= MAX_LOGS)
			break;
		is_read = kube_get(v->kube, &v->call, path, &text, &err);
		json_add_object(json, NULL, JSON_TEXT("pod", name),
		                JSON_TEXT(is_read ? "text" : "error",
		                          is_read ? text : str_c(err.msg)));
	}
	json_end_array(json);
}

static void
add_all(const struct doctor *d, const struct report *r, const struct journal *journal,
        struct buf *json)
{
	CLEANUP(buf_fini) struct buf part = BUF_INIT(LIMIT_REPORT);
	CLEANUP(plan_freep) struct plan *plan = plan_new();
	struct view *v = d->view;
	struct status status;

	json_begin_object(json, NULL);
	json_add_members(json, JSON_TIME("time", clock_wall(&clock_real)),
	                 JSON_TEXT("version", version_get()), JSON_TEXT("server", v->server.url),
	                 JSON_TEXT("kubernetes", v->server.version));
	json_begin_array(json, "flags");
	for (int i = 1; i < d->argc; i++)
		json_add_text(json, NULL, str_c(d->argv[i]));
	json_end_array(json);
	report_print_json(r, v, &part);
	add_part(json, "doctor", &part);
	status_read(v, &status);
	status_print_json(&status, &part);
	add_part(json, "status", &part);
	add_explanations(v, r, json);
	json_add_text(json, "metrics", status.metrics);
	add_logs(v, journal, json);
	plan_run(plan, v, PLAN_ALL);
	plan_print_json(plan, &part);
	add_part(json, "plan", &part);
	json_end_object(json);
	buf_add_char(json, '\n');
}

bool
bundle_write(const char *path, const struct doctor *d, const struct report *r,
             const struct journal *journal, struct error *err)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(LIMIT_REPORT);
	CLEANUP(buf_fini) struct buf clean = BUF_INIT(LIMIT_REPORT);
	struct secrets secrets = { .arena = ARENA_INIT };

	add_all(d, r, journal, &json);
	collect_secrets(d->view->options, &secrets);
	bundle_redact(buf_str(&json), secrets.items, secrets.n, &clean);
	arena_fini(&secrets.arena);
	if (!buf_ok(&json) || !buf_ok(&clean))
		return err_set(err, ERR_INVALID, "%s would be larger than %zu bytes", path,
		               LIMIT_REPORT);
	return file_replace(path, buf_str(&clean), 0600, err);
}
