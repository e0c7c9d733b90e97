/* dry.c: see dry.h. */
#include "providers/cloudlycke/dry.h"

#include "base/array.h"
#include "base/file.h"
#include "base/limits.h"
#include "providers/cloudlycke/allocate.h"
#include "providers/cloudlycke/haproxy.h"

/* ---- addresses and hooks ---- */

static void
cl_dry_note(struct call *call, enum dry_verb verb, const char *what, struct str name,
            struct str request, const struct dry_field fields[], size_t n)
{
	dry_note(call->dry, &(struct dry_change){
				    .verb = verb,
				    .what = what,
				    .name = name,
				    .request = request,
				    .is_cloud = true,
				    .fields = fields,
				    .n_fields = n,
			    });
}

void
cl_dry_note_addresses(struct call *call, const struct cl_addresses *before,
                      const struct cl_record *record)
{
	static const struct cl_addresses none = { .n = 0 };
	const struct cl_addresses *after = record ? &record->values.allocation.addresses : &none;

	for (size_t i = 0; i < before->n; i++) {
		const struct ip *ip = &before->items[i];

		if (!cl_addresses_have(after, ip))
			cl_dry_note(call, DRY_DELETE, "address", str_c(cl_ip_text(ip, call->arena)),
			            STR_EMPTY, NULL, 0);
	}
	for (size_t i = 0; i < after->n; i++) {
		const struct ip *ip = &after->items[i];
		const struct dry_field pool = { STR("pool"), STR_EMPTY, record->values.pool };

		if (!cl_addresses_have(before, ip))
			cl_dry_note(call, DRY_CREATE, "address", str_c(cl_ip_text(ip, call->arena)),
			            STR_EMPTY, &pool, 1);
	}
}

/* What the hook was given the last time is only known as a hash, so fields have no old values. */
void
cl_dry_note_hook(struct call *call, enum dry_verb verb, struct str path, const char *action,
                 const struct cl_record *record)
{
	CLEANUP(buf_fini) struct buf addresses = BUF_INIT(KIB(1));
	CLEANUP(buf_fini) struct buf ports = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(buf_fini) struct buf targets = BUF_INIT(LIMIT_HTTP_REQUEST);
	const struct cl_record_values *r = &record->values;
	const struct cl_allocation *a = &r->allocation;
	struct dry_field fields[3];

	for (size_t i = 0; i < a->addresses.n; i++)
		buf_addf(&addresses, "%s%s", i > 0 ? ", " : "",
		         cl_ip_text(&a->addresses.items[i], call->arena));
	for (size_t i = 0; i < a->n_ports; i++)
		buf_addf(&ports, "%s%d to %d", i > 0 ? ", " : "", (int)a->ports[i].port,
		         (int)a->ports[i].node_port);
	for (size_t i = 0; i < r->targets->n; i++)
		buf_addf(&targets, "%s%" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(r->targets->items[i].name));
	fields[0] = (struct dry_field){ STR("addresses"), STR_EMPTY, buf_str(&addresses) };
	fields[1] = (struct dry_field){ STR("ports"), STR_EMPTY, buf_str(&ports) };
	fields[2] = (struct dry_field){ STR("targets"), STR_EMPTY, buf_str(&targets) };
	cl_dry_note(call, verb, "load balancer hook", r->name,
	            arena_printf(call->arena, "%" STR_FMT " %s", STR_ARG(path), action), fields,
	            verb == DRY_DELETE ? 0 : ARRAY_LEN(fields));
}

/* ---- HAProxy's frontends ---- */

/* All lines of a frontend and its backend that begin with the same word: "server", for example. */
struct cl_setting {
	struct str frontend, word;
	struct buf value; /* the rest of these lines, with commas */
};

struct cl_settings {
	struct cl_setting *items;
	size_t n, cap;
};

static void
free_settings(struct cl_settings *s)
{
	for (size_t i = 0; i < s->n; i++)
		buf_fini(&s->items[i].value);
	free(s->items);
}

/* Searches from the end, because the lines of a frontend follow each other, and there may be
 * thousands of them. */
static struct cl_setting *
find_setting(const struct cl_settings *s, struct str frontend, struct str word)
{
	for (size_t i = s->n; i-- > 0;) {
		if (str_eq(s->items[i].frontend, frontend) && str_eq(s->items[i].word, word))
			return &s->items[i];
	}
	return NULL;
}

static void
add_setting(struct cl_settings *s, struct str frontend, struct str line)
{
	struct str rest = line, word = STR_EMPTY;
	struct cl_setting *there;

	(void)str_split(&rest, ' ', &word);
	there = find_setting(s, frontend, word);
	if (there) {
		buf_add_c(&there->value, ", ");
	} else {
		ARRAY_PUSH(s->items, s->n, s->cap,
		           (struct cl_setting){ frontend, word, BUF_INIT(LIMIT_HAPROXY_FILE) });
		there = &s->items[s->n - 1];
	}
	buf_add_str(&there->value, rest);
}

/* A line of a section begins with a tab, the head of a section does not: "frontend NAME". */
static void
read_settings(struct cl_settings *s, struct str text, struct str prefix)
{
	struct str frontend = STR_EMPTY; /* empty: the section belongs to another balancer */

	for (struct str line, rest = text; str_split(&rest, '\n', &line);) {
		if (str_starts(line, STR("\t"))) {
			if (frontend.len > 0)
				add_setting(s, frontend, str_skip(line, 1));
		} else if (line.len > 0) {
			struct str kind = STR_EMPTY;

			(void)str_split(&line, ' ', &kind);
			frontend = (str_eq_c(kind, "frontend") || str_eq_c(kind, "backend")) &&
			                           str_starts(line, prefix)
			                   ? line
			                   : STR_EMPTY;
		}
	}
}

/* The two words that everybody reads have plain names. */
static struct str
setting_name(struct str word)
{
	if (str_eq_c(word, "bind"))
		return STR("address");
	return str_eq_c(word, "server") ? STR("targets") : word;
}

/* The number of its settings; 0: it does not exist. */
static size_t
count_settings(const struct cl_settings *s, struct str frontend)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += str_eq(s->items[i].frontend, frontend);
	return n;
}

/* True if it was noted. */
static bool
note_frontend(struct call *call, const struct cl_settings *old, const struct cl_settings *new,
              struct str frontend)
{
	size_t n_old = count_settings(old, frontend), n_new = count_settings(new, frontend), n = 0;
	struct dry_field *fields = arena_calloc(call->arena, n_old + n_new, sizeof(*fields));
	bool is_there = n_old > 0, is_wanted = n_new > 0;

	for (size_t i = 0; is_wanted && i < old->n; i++) {
		const struct cl_setting *one = &old->items[i];

		if (str_eq(one->frontend, frontend) && !find_setting(new, frontend, one->word))
			fields[n++] = (struct dry_field){ setting_name(one->word),
				                          buf_str(&one->value), STR_EMPTY };
	}
	for (size_t i = 0; i < new->n; i++) {
		const struct cl_setting *one = &new->items[i], *before;
		struct str was = STR_EMPTY, is = buf_str(&one->value);

		if (!str_eq(one->frontend, frontend))
			continue;
		before = find_setting(old, frontend, one->word);
		if (before)
			was = buf_str(&before->value);
		if (!str_eq(was, is))
			fields[n++] = (struct dry_field){ setting_name(one->word), was, is };
	}
	if (is_there && is_wanted && n == 0)
		return false;
	cl_dry_note(call,
	            !is_there    ? DRY_CREATE
	            : !is_wanted ? DRY_DELETE
	                         : DRY_CHANGE,
	            "HAProxy frontend", frontend, STR_EMPTY, fields, n);
	return true;
}

/* Each frontend once, in the order of the list. except: a list that has been noted already. */
static bool
note_frontends(struct call *call, const struct cl_settings *old, const struct cl_settings *new,
               const struct cl_settings *of, const struct cl_settings *except)
{
	bool is_noted = false;

	for (size_t i = 0; i < of->n; i++) {
		struct str frontend = of->items[i].frontend;
		bool is_first = true;

		for (size_t k = 0; k < i; k++)
			is_first &= !str_eq(of->items[k].frontend, frontend);
		if (is_first && !(except && count_settings(except, frontend) > 0))
			is_noted |= note_frontend(call, old, new, frontend);
	}
	return is_noted;
}

bool
cl_dry_note_haproxy(struct call *call, const struct cl_haproxy_config *config, struct str name,
                    struct cl_record *record, bool *ret_is_noted, struct error *err)
{
	CLEANUP(buf_fini) struct buf file = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf wanted = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf prefix = BUF_INIT(KIB(1));
	struct cl_settings old = { .n = 0 }, new = { .n = 0 };

	if (!file_read(arena_strz(call->arena, config->file), &file, err) &&
	    err->code != ERR_NOT_FOUND)
		return err_wrap(err, "HAProxy's configuration");
	cl_haproxy_add_name(&prefix, name);
	buf_add_c(&prefix, "-");
	if (record)
		cl_haproxy_file(&wanted, &record, 1, config->stats_socket);
	read_settings(&old, buf_str(&file), buf_str(&prefix));
	read_settings(&new, buf_str(&wanted), buf_str(&prefix));
	*ret_is_noted = note_frontends(call, &old, &new, &new, NULL);
	*ret_is_noted |= note_frontends(call, &old, &new, &old, &new);
	free_settings(&old);
	free_settings(&new);
	return true;
}
