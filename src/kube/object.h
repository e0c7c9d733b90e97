/* kube/object.h: the base of all stored objects.
 *
 * Objects are immutable, reference-counted projections of API objects: the dozen fields we act on,
 * in one allocation. A store replaces pointers and never changes an object; readers take a
 * reference and may keep it. struct node (kube/node.h) embeds struct object first. struct kind
 * holds what the store and the reflector need to know about a kind. An object
 * refers to the kind that parsed it, which must outlive the object.
 *
 * Threads: any. Fields marked as the store's change under the store's lock and must not be used
 * elsewhere.
 */
#ifndef CCMD_KUBE_OBJECT_H
#define CCMD_KUBE_OBJECT_H

#include "base/json.h"
#include "base/label.h"
#include "base/pool.h"
#include "base/ref.h"

struct object {
	const struct kind *kind;
	struct ref refs;
	uint32_t epoch; /* the store's: the list that had it last */
	struct str key; /* "name", or "namespace/name" */
	struct str uid;
	struct str resource_version; /* opaque */
	struct str index_key;        /* nodes: the provider ID; empty: not indexed */
	struct object *index_next;   /* the store's: another with the same index key */
	int64_t seen_boot_ns;        /* when this UID first entered the store; set by the store */
};

struct kind {
	const char *name; /* "Node": the API's kind */
	const char *path; /* "/api/v1/nodes" */
	/* Projects an API object; kind is this one. ERR_INVALID when the object lacks name, UID or
	 * resourceVersion, or a field has another type. */
	bool (*parse)(const struct kind *kind, yyjson_val *val, struct object **ret,
	              struct error *err);
	struct pool *pool; /* of its objects */
	/* Returns true if a field that we act on differs; the resource version is not such a field.
	 */
	bool (*differs)(const struct object *a, const struct object *b);
};

struct object *object_ref(struct object *);
void object_unref(struct object *); /* NULL is fine */
DEFINE_CLEANUP(struct object, object_unref)

/** Is this resource version a decimal number, as with etcd? Only such versions can be ordered. */
bool object_version_is_decimal(struct str version);
/** Is resource version a older than b? Versions can be compared only if both are decimal, as the
 * API server's are: by length, then by bytes (docs/spec/kube-client.md, "Resource versions"). False
 * if they cannot be compared. */
bool object_version_is_older(struct str a, struct str b);

/** Reads one object of that kind from JSON text. */
NODISCARD bool object_parse(const struct kind *kind, struct str json, struct object **ret,
                            struct error *err);

/* ---- for the authors of a kind ---- */

enum object_want {
	WANT_STR,    /* into a struct str */
	WANT_OBJECT, /* into a yyjson_val * */
	WANT_ARRAY,  /* into a yyjson_val * */
};

/** A member of a JSON object and the place of its value in a struct. */
struct object_field {
	struct str name;
	enum object_want want;
	size_t offset;
};

#define OBJECT_FIELD(want, type, member, text) { STR(text), want, offsetof(type, member) }

/** Reads the named members of val into a struct, in one pass. Absent and null members leave the
 * struct as it is, as does a val of NULL; of several members with one name, the last counts.
 * ERR_INVALID, which names the field with `path` before it, when val or a member has another type.
 * Views live as long as the document. */
NODISCARD bool object_read(yyjson_val *val, const char *path, const struct object_field *fields,
                           size_t n, void *into, struct error *err);

/** The same for an array of fields. */
#define OBJECT_READ(val, path, fields, into, err) \
	object_read(val, path, fields, ARRAY_LEN(fields), into, err)

/** The parts of metadata that all kinds need; views of the document. */
struct object_meta {
	struct str name, namespace, uid, resource_version;
	struct str created, deleted; /* RFC 3339; empty: absent */
	yyjson_val *labels, *annotations;
};

/** Reads the metadata of val, which is the whole object. ERR_INVALID when name, UID or
 * resourceVersion is missing. */
NODISCARD bool object_read_meta(yyjson_val *val, struct object_meta *ret, struct error *err);

/** Appends the object's key in the store; false when val has no name. */
NODISCARD bool object_read_key(yyjson_val *val, struct buf *ret);

/** Reads a label or an annotation, whose key is given. A null value is the empty text, as Go
 * decodes it. ERR_INVALID, which names path and key, for any other value. */
NODISCARD bool object_read_pair(yyjson_val *key, const char *path, struct label *ret,
                                struct error *err);
/** Compares texts in a row, or structs of nothing but texts (struct label): n counts the texts. */
bool object_texts_equal(const void *a, size_t n_a, const void *b, size_t n_b);
/** The value of the label or annotation with that key, or NULL. If the JSON has the key more than
 * once, the last value counts, as in Go. */
const struct str *object_annotation(const struct label *annotations, size_t n, struct str key);

/* ---- texts that many objects have in common ---- */

/* Thousands of nodes repeat the same few dozen label keys, zones, instance types and taints. The
 * shared copies are never freed, so their number (LIMIT_INTERN of each sort) and length are
 * bounded; an object has its own copy of a text that does not fit. */

/** Makes *s a view of the shared copy, which lives as long as the process. False, with *s
 * unchanged, when a limit is reached. Equal texts give equal pointers. */
NODISCARD bool intern(struct str *s);

/** The shared copy of n texts in a row, such as a struct label; NULL when a limit is reached.
 * Each text must be a result of intern(). Equal rows give equal pointers. */
const void *intern_row(const void *row, size_t n);

/* ---- lines of a watch (docs/spec/kube-client.md, "Watch events") ---- */

enum watch_type {
	WATCH_ADDED,
	WATCH_MODIFIED,
	WATCH_DELETED,
	WATCH_BOOKMARK,
	WATCH_ERROR,   /* the watch is over; the object is a Status */
	WATCH_SKIPPED, /* an object of another kind, or without a version: to be ignored */
};

struct watch_event {
	enum watch_type type;
	const char *type_name;       /* "added", "modified" and so on, for a metric's label */
	yyjson_val *object;          /* NULL when it is missing */
	struct str resource_version; /* not set for ERROR and SKIPPED */
};

/** Reads the JSON of a line; views live as long as the document. ERR_INVALID when it is not an
 * event, or has an unknown type. */
NODISCARD bool watch_read(const struct kind *kind, yyjson_val *line, struct watch_event *ret,
                          struct error *err);

/** Returns false with the Status of an ERROR event as error; ERR_GONE: the version is too old. */
bool watch_status_error(yyjson_val *status, struct error *err);

#endif
