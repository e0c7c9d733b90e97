/* serve/build_info.h: the program's version and origin, for /version and the metrics
 * kubernetes_build_info and ccmd_build_info. The version is that of base/version.h. */
#ifndef CCMD_SERVE_BUILD_INFO_H
#define CCMD_SERVE_BUILD_INFO_H

#include "base/buf.h"

/** Sets both gauges and the commit of base/version.h; once, at the start, after version_set(). */
void build_info_setup(void);

/** Appends the JSON that Kubernetes components answer under /version. */
void build_info_add_json(struct buf *b);

#endif
