/* settings.h: the variables that name something of the cloud. */
#ifndef CCMD_HCLOUD_SETTINGS_H
#define CCMD_HCLOUD_SETTINGS_H

#include "cloud/cloud.h"

/** cloud_ops.list_settings. */
NODISCARD bool hz_settings_list(struct cloud *, struct call *, struct cloud_setting **ret,
                                size_t *ret_n, struct error *err);

#endif
