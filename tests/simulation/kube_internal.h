/* tests/simulation/kube_internal.h: what the files of the model of kube-apiserver share.
 *
 * A request becomes a struct km_call: kube_call.c parses it and finds the kind of object, and
 * kube_read.c or kube_write.c serves it. A function that serves or checks returns false when it
 * refuses; the Status object is then in the answer.
 *
 * An object is stored as text and parsed again for each request, because stored objects are shared
 * by the history, backups and watches. While a write is served, the object is a tree of yyjson in
 * the document of the call. km_decode() gives the object the form that it has after it was decoded
 * into the Go types of Kubernetes: unknown members are removed, empty ones are omitted, and times
 * are rewritten.
 */
#ifndef CCMD_TESTS_SIMULATION_KUBE_INTERNAL_H
#define CCMD_TESTS_SIMULATION_KUBE_INTERNAL_H

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "kube.h"
#include "target.h"

#define KM_NS_PER_SECOND INT64_C(1000000000)

struct km_call;

/* ---- types of objects: kube_schema.c ---- */

enum km_type {
	KM_TEXT,
	KM_NUMBER,
	KM_FLAG,
	KM_TIME,       /* "2026-01-02T03:04:05Z" */
	KM_MICRO_TIME, /* "2026-01-02T03:04:05.000000Z" */
	KM_NUMBER_OR_TEXT,
	KM_MAP,   /* of texts */
	KM_TEXTS, /* a list */
	KM_OBJECT,
	KM_LIST, /* of objects */
	KM_ANY,  /* kept as it is */
};

/** A member of an object. An array of them ends with one whose name is NULL. */
struct km_field {
	const char *name;
	enum km_type type;
	const struct km_field *of; /* the members of the object, or of each object of the list */
	/* The value that Go's zero value has is omitted, unless the member is always shown, or the
	 * member is a pointer in Go: then only its absence is. */
	enum { KM_OMIT, KM_ALWAYS, KM_POINTER } zero;
	/* How a strategic merge patch treats a list: NULL: it replaces the list; "": it merges a
	 * set of texts; else the member that identifies an element. */
	const char *merge_key;
};

/** Rewrites a value. False: it has another type; the path of the first is in call->mistyped. */
bool km_decode(struct km_call *, const struct km_field *fields, yyjson_mut_val *in,
               yyjson_mut_val **ret);

/* ---- kinds: kube_kinds.c ---- */

struct km_kind {
	const char *name, *resource; /* "Node", "nodes" */
	const char *group;           /* "" or "coordination.k8s.io" */
	const char *version;         /* "v1" or "coordination.k8s.io/v1", as in apiVersion */
	const char *prefix;          /* "/api/v1/" */
	const struct km_field *fields;
	bool is_namespaced, has_status;
	bool may_create_by_put, needs_version; /* needs_version: a PUT without one is refused */
	bool shows_deleted;                    /* DELETE answers with the object */
	bool has_label_name; /* the name is a DNS label (RFC 1035), no subdomain */
	/* Each may be NULL. Defaults of a new or changed object, old is NULL for a new one. */
	void (*admit)(struct km_call *, yyjson_mut_val *object);
	void (*set_defaults)(struct km_call *, yyjson_mut_val *object);
	void (*prepare)(struct km_call *, yyjson_mut_val *object, yyjson_mut_val *old);
	/* Adds problems; is not called for the subresource status. */
	void (*check)(struct km_call *, yyjson_mut_val *object, yyjson_mut_val *old);
	void (*check_status)(struct km_call *, yyjson_mut_val *object, yyjson_mut_val *old);
};

extern const struct km_kind km_kinds[KUBE_MODEL_N_KINDS];
extern const struct km_field km_node_fields[], km_service_fields[], km_lease_fields[],
	km_event_fields[], km_namespace_fields[], km_config_map_fields[];

void km_default_service(struct km_call *, yyjson_mut_val *service);
void km_prepare_service(struct km_call *, yyjson_mut_val *service, yyjson_mut_val *old);
void km_check_service(struct km_call *, yyjson_mut_val *service, yyjson_mut_val *old);
void km_check_service_status(struct km_call *, yyjson_mut_val *service, yyjson_mut_val *old);

/* ---- the model: kube.c ---- */

struct km_object {
	struct kube_model_object base; /* first: the public struct is this one */
	unsigned n_refs;
	char bytes[];
};

struct km_objects {
	struct km_object **items; /* sorted by namespace and name; owns a reference to each */
	size_t n, cap;
};

/** A write in the history. */
struct km_change {
	int64_t version;
	struct km_object *before, *after; /* NULL: was created, was deleted */
	struct km_object *last;           /* of a deleted object: the state that watches get */
};

struct km_watch {
	uint64_t stream;
	enum kube_model_kind kind;
	struct str namespace; /* empty: all */
	bool is_partial, wants_bookmarks;
	int64_t first_version; /* from which it began */
	int64_t version;       /* changes up to this one are not sent, or have been sent */
	int64_t end_ns, bookmark_ns;
};

struct kube_model {
	struct server base; /* first */
	struct arena arena; /* tokens, clients, namespaces of watches */
	int64_t now_ns;
	uint64_t random;
	int64_t version;
	int64_t lease_version; /* of the etcd that has the Leases; 0: they are with the others */
	int64_t compacted;     /* older versions cannot be listed */
	int64_t oldest;        /* watches from older versions are refused */
	int64_t held_version;  /* of the watch cache; 0: it is not held */
	unsigned n_addresses, n_ports; /* that were given to Services */
	struct km_objects of[KUBE_MODEL_N_KINDS];
	struct km_change *log; /* since compacted */
	size_t n_log, cap_log;
	struct km_watch *watches;
	size_t n_watches, cap_watches;
	struct str *tokens;
	size_t n_tokens, cap_tokens;
	struct kube_model_client *clients;
	size_t n_clients, cap_clients;
	kube_model_observe *observe;
	void *observe_arg;
};

struct kube_model_backup {
	int64_t version;
	struct km_objects of[KUBE_MODEL_N_KINDS];
};

uint64_t km_random(struct kube_model *);
/** Of the watch cache. */
int64_t km_cache_version(const struct kube_model *);
struct km_object *km_find(const struct km_objects *, struct str namespace, struct str name,
                          size_t *ret_place);
/** The objects of a kind as they were, in the arena and without references. */
struct km_objects km_objects_at(struct kube_model *, struct arena *arena, enum kube_model_kind kind,
                                int64_t version);
/** Writes a new state of an object under the next version. The version is put into its metadata.
 *
 * @param before  NULL: it is created
 * @param tree    the new state; NULL: it is deleted
 * @return  the new state, or the last one of a deleted object
 */
const struct km_object *km_commit(struct km_call *, struct km_object *before, yyjson_mut_val *tree);
/** Writes a Lease that has a renewTime, with another one. */
void km_commit_renewal(struct km_call *, struct km_object *lease, struct str time);
/** Sends the watches what they have not got. */
void km_send_changes(struct kube_model *);
void km_send_bookmarks(struct kube_model *);
/** All watches end. */
void km_end_watches(struct kube_model *);

/* ---- a request: kube_call.c ---- */

enum km_problem_type {
	KM_INVALID,
	KM_REQUIRED,
	KM_FORBIDDEN,
	KM_DUPLICATE,
	KM_UNSUPPORTED,
};

struct km_problem {
	enum km_problem_type type;
	struct str field, message;
};

struct km_call {
	struct kube_model *m;
	const struct server_request *request;
	struct server_response *answer;
	bool is_actor;
	struct arena arena;
	yyjson_mut_doc *doc;

	const struct km_kind *kind;
	enum kube_model_kind which;
	struct str namespace, name; /* of the path; empty: not in it */
	bool is_status;             /* the subresource */
	struct target_pair *query;
	size_t n_query;

	struct str mistyped;
	struct km_problem *problems;
	size_t n_problems, cap_problems;
	bool has_changed;
};

/** Serves a request. is_actor: it needs no token. */
void km_serve(struct kube_model *, const struct server_request *, struct server_response *,
              bool is_actor);
/** What a PATCH of a Lease with another renewTime would do, in a fraction of its time. */
void km_renew_lease(struct kube_model *, const char *user_agent, struct km_object *lease,
                    struct str time);
/** Empty: the parameter is absent. */
struct str km_parameter(const struct km_call *, const char *name);
/** Does the client ask for the metadata only? */
bool km_is_partial(const struct km_call *);

/** Each fills the answer with a Status object and returns false. */
bool km_refuse(struct km_call *, int code, const char *reason, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
bool km_refuse_not_found(struct km_call *);
bool km_refuse_exists(struct km_call *, const struct km_object *);
/** of_kind: the text names the kind instead of the resource, as DELETE does. */
bool km_refuse_conflict(struct km_call *, bool of_kind, struct str why);
/** of: what the text names, the kind or the resource. */
bool km_refuse_problems(struct km_call *, const char *of);
/** The result of a patch cannot be decoded. */
bool km_refuse_patch(struct km_call *);
bool km_refuse_version_too_large(struct km_call *, int64_t version);
bool km_refuse_expired(struct km_call *, struct str why);
bool km_refuse_unsupported(struct km_call *, const char *what);

/** Notes what is wrong with the object. `value` is shown as Go would, e.g. quoted; of KM_REQUIRED
 * and KM_FORBIDDEN it is ignored. A problem that was noted before is ignored. */
void km_problem(struct km_call *, enum km_problem_type type, struct str field, struct str value,
                const char *detail);
struct str km_quote(struct km_call *, struct str text);
#define KM_FIELD(call, ...) arena_printf(&(call)->arena, __VA_ARGS__)

/** The version in a text. False: it is no number. Empty is 0. */
bool km_read_version(struct str text, int64_t *ret);

/* ---- trees ---- */

/** Follows a path of keys separated by dots. NULL: absent or null. */
yyjson_mut_val *km_at(yyjson_mut_val *, const char *path);
yyjson_mut_val *km_get(yyjson_mut_val *object, struct str key);
/** Empty: no text. */
struct str km_text(yyjson_mut_val *);
struct str km_text_at(yyjson_mut_val *, const char *path);
int64_t km_number_at(yyjson_mut_val *, const char *path);
size_t km_length(yyjson_mut_val *list);
/** Replaces or appends a member. value NULL: removes it. */
void km_put(struct km_call *, yyjson_mut_val *object, const char *key, yyjson_mut_val *value);
void km_put_text(struct km_call *, yyjson_mut_val *object, const char *key, struct str text);
void km_put_number(struct km_call *, yyjson_mut_val *object, const char *key, int64_t number);
yyjson_mut_val *km_copy(struct km_call *, yyjson_mut_val *);
bool km_equals(yyjson_mut_val *, yyjson_mut_val *);
/** The stored object as a tree of the call. */
yyjson_mut_val *km_tree(struct km_call *, const struct km_object *);

/* ---- patches: kube_patch.c ---- */

/** *ret is the changed copy of `original`. */
bool km_patch(struct km_call *, yyjson_mut_val *original, yyjson_mut_val **ret);

/* ---- serving: kube_read.c, kube_write.c ---- */

bool km_get_object(struct km_call *);
bool km_list(struct km_call *);
bool km_watch(struct km_call *);
bool km_create(struct km_call *);
bool km_update(struct km_call *); /* PUT and PATCH */
bool km_delete(struct km_call *);
/** Writes an object as the client wants it. */
void km_answer_object(struct km_call *, int status, struct str json);
/** Appends {"kind":"PartialObjectMetadata",…}, or the object itself. */
void km_add_object(struct buf *b, struct str json, bool is_partial);

#endif
