/* build_info.h: which program this is: for /version, kubernetes_build_info and ccmd_build_info. Its
 * version is that of base/version.h. */
#ifndef CCMD_SERVE_BUILD_INFO_H
#define CCMD_SERVE_BUILD_INFO_H

#include "base/buf.h"

/** Sets both gauges, and what version_commit() says; once, at the start, after version_set(). */
void build_info_setup(void);

/** Appends what a Kubernetes component answers under /version, and `kubectl get --raw /version`
 * shows. */
void build_info_add_json(struct buf *b);

#endif
