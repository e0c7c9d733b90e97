/* kube/lease.h: reads and writes the Lease that names the leader (docs/spec/kube-client.md,
 * "Lease").
 *
 * The Lease is kept as the server sent it, and an update changes only our five fields of the spec:
 * labels, annotations and unknown fields survive. The functions are pure, from text to text. The
 * times in a Lease are informative, and are never compared with a clock.
 */
#ifndef CCMD_KUBE_LEASE_H
#define CCMD_KUBE_LEASE_H

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

struct lease {
	yyjson_doc *doc;     /* owns the views below; NULL: no Lease was read */
	struct buf spec;     /* the whole spec as compact JSON; a renewal changes it */
	struct str holder;   /* empty: the Lease is free */
	struct str acquired; /* as the server sent it; empty: absent */
	struct str uid;
	struct str version;  /* metadata.resourceVersion */
	int64_t duration_s;  /* how long its holder may rely on it; 0: absent */
	int64_t transitions; /* how often the holder changed */
};

#define LEASE_INIT ((struct lease){ .spec = BUF_INIT(LIMIT_HTTP_BODY) })
/** Frees everything and leaves an empty one. For CLEANUP(lease_fini). */
void lease_fini(struct lease *);

/** Reads an answer of the API server. *ret must be LEASE_INIT. ERR_INVALID when it is not a Lease
 * with name, UID and resourceVersion, or when one of our fields has a type or range that the API
 * does not allow. */
NODISCARD bool lease_parse(struct str json, struct lease *ret, struct error *err);

/** Do the specs differ in any byte? A renewal changes the spec, even within the same second; a new
 * label does not. A Lease that was never read differs from all others. */
bool lease_spec_differs(const struct lease *a, const struct lease *b);

enum lease_change {
	LEASE_RENEW,   /* it is ours: only the time of the renewal changes */
	LEASE_TAKE,    /* it is free or expired: the holder changes, with one more transition */
	LEASE_RELEASE, /* it becomes free */
};

/** The values that are written into the spec. */
struct lease_claim {
	struct str holder;
	int64_t duration_s;
	int64_t wall_ns; /* now, for people */
};

/** Appends the body of the PUT that makes this change to old. */
void lease_add_update(struct buf *b, const struct lease *old, enum lease_change change,
                      const struct lease_claim *claim);
/** Appends the body of the POST that creates the Lease. */
void lease_add_new(struct buf *b, struct str namespace, struct str name,
                   const struct lease_claim *claim);
/** Appends "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases/NAME", escaped. With an empty
 * name it is the path of the collection. */
void lease_add_path(struct buf *b, struct str namespace, struct str name);

#endif
