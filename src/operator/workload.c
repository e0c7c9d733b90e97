/* operator/workload.c: see workload.h. */
#include "operator/workload.h"

#include <stdlib.h>

#include "base/limits.h"
#include "base/words.h"
#include "cloud/cloud.h"
#include "kube/connection.h"

/* ---- what an object says ---- */

struct str
workload_image_name(struct str image)
{
	struct str name = image, folder, rest;

	if (str_cut(name, '@', &rest, &folder))
		name = rest;
	while (str_cut(name, '/', &folder, &rest))
		name = rest;
	if (str_cut(name, ':', &rest, &folder))
		name = rest;
	return name;
}

yyjson_val *
workload_container(yyjson_val *object)
{
	yyjson_val *containers = json_at(object, "spec.template.spec.containers"), *container;
	size_t i, n;

	yyjson_arr_foreach(containers, i, n, container)
	{
		if (str_eq_c(workload_image_name(json_view(container, "image")), "ccmd"))
			return container;
	}
	return NULL;
}

/* Is the flag about the pod: its files, or where its requests go? */
static bool
is_of_pod(struct str arg)
{
	static const char *const ends[] = { "kubeconfig", "-file", "-dir", "-cert-key" };
	static const char *const names[] = { "--master", "--cloud-config", "--metrics-bind-address",
		                             NULL };
	struct str name = arg, value;
	bool is_found;

	(void)!str_cut(arg, '=', &name, &value);
	is_found = words_have(names, name);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		is_found |= str_ends(name, str_c(ends[i]));
	return is_found;
}

/* A value of the form $(NAME), which the kubelet replaces, is not known here. The manifests write a
 * flag and its value as one argument; a word by itself is the value of the flag before it. */
static void
take_flags(yyjson_val *container, struct arena *arena, struct running *ret, struct buf *notes)
{
	yyjson_val *args = json_at(container, "args"), *arg;
	bool is_taken = false;
	size_t i, n;

	ret->argv = arena_calloc(arena, yyjson_arr_size(args) + 2, sizeof(ret->argv[0]));
	ret->argv[ret->argc++] = arena_strz(arena, STR("ccmd"));
	yyjson_arr_foreach(args, i, n, arg)
	{
		struct str text = json_view(arg, "");

		if (str_starts(text, STR("-")))
			is_taken = !is_of_pod(text) && !str_contains(text, STR("$("));
		if (is_taken)
			ret->argv[ret->argc++] = arena_strz(arena, text);
		else
			buf_addf(notes,
			         "this command does not use the controller's argument %" STR_FMT
			         "\n",
			         STR_ARG(text));
	}
}

/* Does the caller have the variable, or a file in its place? */
static bool
is_set(struct str name, struct arena *arena)
{
	struct str other = arena_printf(arena, "%" STR_FMT "_FILE", STR_ARG(name));

	return getenv(arena_strz(arena, name)) || getenv(other.ptr);
}

/* As the kernel shows an environment. */
static void
add_variable(struct buf *b, struct str name, struct str value)
{
	buf_addf(b, "%" STR_FMT "=%" STR_FMT, STR_ARG(name), STR_ARG(value));
	buf_add_char(b, '\0');
}

static void
take_variables(yyjson_val *container, struct arena *arena, struct running *ret, struct buf *notes)
{
	CLEANUP(buf_fini) struct buf taken = BUF_INIT(LIMIT_PROCESS_TEXT);
	yyjson_val *variables = json_at(container, "env"), *variable;
	size_t i, n;

	yyjson_arr_foreach(variables, i, n, variable)
	{
		struct str name = json_view(variable, "name"), value;
		struct str secret = json_view(variable, "valueFrom.secretKeyRef.name");
		bool is_file = str_ends(name, STR("_FILE"));
		bool is_address = str_ends(name, STR("ENDPOINT")) || str_ends(name, STR("URL"));
		struct str plain = is_file ? str_head(name, name.len - strlen("_FILE")) : name;

		if (!cloud_reads_variable(name) || is_set(plain, arena))
			continue;
		if (json_str(variable, "value", &value) == JSON_FOUND && !is_file && !is_address)
			add_variable(&taken, name, value);
		else if (secret.len > 0)
			buf_addf(notes,
			         "%" STR_FMT " is in the Secret %" STR_FMT ", key %" STR_FMT
			         ", which is not read: set %" STR_FMT " or %" STR_FMT "_FILE\n",
			         STR_ARG(name), STR_ARG(secret),
			         STR_ARG(json_view(variable, "valueFrom.secretKeyRef.key")),
			         STR_ARG(name), STR_ARG(name));
		else
			buf_addf(notes,
			         "this command does not use the controller's variable %" STR_FMT
			         ", which may be valid only in its pod: set %" STR_FMT
			         " here if it is needed\n",
			         STR_ARG(name), STR_ARG(plain));
	}
	ret->environment = arena_str(arena, buf_str(&taken));
}

void
workload_take(yyjson_val *container, struct arena *arena, struct running *ret, struct buf *notes)
{
	*ret = (struct running){ .environment = STR_EMPTY };
	take_flags(container, arena, ret, notes);
	take_variables(container, arena, ret, notes);
}

/* ---- reading ---- */

struct finding_workload {
	struct arena *arena;
	struct running *ret;
	struct buf *notes;
	size_t n;
};

static bool
read_kind(struct kube_client *kube, const char *kind, struct finding_workload *f, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct call call = { .clock = &clock_real,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = f->arena };
	struct str path = arena_printf(f->arena, "/apis/apps/v1/%ss%s", kind, WORKLOAD_SELECTOR),
		   body;
	yyjson_val *items, *item;
	size_t i, n;

	if (!kube_get(kube, &call, path, &body, err) || !json_parse(body, &doc, err))
		return false;
	items = json_at(yyjson_doc_get_root(doc), "items");
	yyjson_arr_foreach(items, i, n, item)
	{
		yyjson_val *container = workload_container(item);

		if (!container || f->n++ > 0)
			continue;
		buf_addf(f->notes,
		         "flags and variables are those of the %s %" STR_FMT "/%" STR_FMT
		         ", image %" STR_FMT "\n",
		         kind, STR_ARG(json_view(item, "metadata.namespace")),
		         STR_ARG(json_view(item, "metadata.name")),
		         STR_ARG(json_view(container, "image")));
		workload_take(container, f->arena, f->ret, f->notes);
	}
	return true;
}

bool
workload_find(const struct kube_config_source *source, struct arena *arena, struct running *ret,
              struct buf *ret_notes, struct error *err)
{
	CLEANUP(kube_connection_closep) struct kube_connection *connection = NULL;
	struct kube_client_options options = { .name = "http", .agent = "operator" };
	struct finding_workload f = { arena, ret, ret_notes, 0 };
	struct kube_client *kube;

	if (!kube_connection_open(source, &clock_real, &connection, err) ||
	    !kube_connection_client(connection, &options, &kube, err) ||
	    !read_kind(kube, "deployment", &f, err) || !read_kind(kube, "daemonset", &f, err))
		return false;
	if (f.n != 1)
		return err_set(
			err, ERR_NOT_FOUND,
			"the cluster has %zu Deployments and DaemonSets of ccmd instead of one: give the command the flags of the controller, first --cloud-provider",
			f.n);
	return true;
}
