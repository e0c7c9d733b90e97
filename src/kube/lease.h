/* kube/lease.h: the Lease that says who leads (docs/spec/kube-client.md, "Lease").
 *
 * What the server sent is kept whole, and what is sent back differs from it in our five fields of
 * the spec only: labels, annotations and fields that we do not know survive. Pure: text in, text
 * out. Times in it are told to people and never compared with a clock.
 */
#ifndef CCMD_KUBE_LEASE_H
#define CCMD_KUBE_LEASE_H

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

struct lease {
	yyjson_doc *doc;     /* owns the views below; NULL: none was seen */
	struct buf spec;     /* the whole spec as compact JSON: did its holder renew it? */
	struct str holder;   /* empty: nobody's */
	struct str acquired; /* as it was sent; empty: absent */
	struct str uid;
	struct str version;  /* metadata.resourceVersion */
	int64_t duration_s;  /* for which its holder wants it respected; 0: not told */
	int64_t transitions; /* how often it went from one holder to another */
};

#define LEASE_INIT ((struct lease){ .spec = BUF_INIT(LIMIT_HTTP_BODY) })
/** Frees everything and leaves an empty one. For CLEANUP(lease_fini). */
void lease_fini(struct lease *);

/** Reads what the API server answered. ret: LEASE_INIT. ERR_INVALID when it is no Lease with a
 * name, UID and resourceVersion, or a field of ours has another type or range than the API
 * allows. */
NODISCARD bool lease_parse(struct str json, struct lease *ret, struct error *err);

/** Is anything in the specs different, as text? A new label does not prolong a lease, a renewal in
 * the same second does. One that was never seen differs from all others. */
bool lease_spec_differs(const struct lease *a, const struct lease *b);

enum lease_change {
	LEASE_RENEW,   /* ours: only the renewal's time */
	LEASE_TAKE,    /* somebody else's or nobody's: one more transition */
	LEASE_RELEASE, /* nobody's from now on */
};

/** What is written into the spec. */
struct lease_claim {
	struct str holder;
	int64_t duration_s;
	int64_t wall_ns; /* now, as told to people */
};

/** Appends the body of the PUT that makes this change to old. */
void lease_add_update(struct buf *b, const struct lease *old, enum lease_change change,
                      const struct lease_claim *claim);
/** Appends the body of the POST that makes the first Lease of that name. */
void lease_add_new(struct buf *b, struct str namespace, struct str name,
                   const struct lease_claim *claim);
/** Appends "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases/NAME", escaped; without the
 * name when it is empty. */
void lease_add_path(struct buf *b, struct str namespace, struct str name);

#endif
