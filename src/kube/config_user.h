/* kube/config_user.h: the parts of a kubeconfig's user besides fixed credentials: an exec plugin,
 * and impersonation of another user. Only for kube/config.c.
 */
#ifndef CCMD_KUBE_CONFIG_USER_H
#define CCMD_KUBE_CONFIG_USER_H

#include "kube/config_entry.h"

/** Reads `exec` into the configuration. cluster may be NULL. A plugin beside a fixed credential is
 * never run, and is therefore not validated (docs/spec/kube-client.md, "Users in a kubeconfig"). */
void load_plugin(const struct config_entry *user, const struct config_entry *cluster);

/** Turns `as`, `as-uid`, `as-groups` and `as-user-extra` into headers (docs/spec/kube-client.md,
 * "Impersonation"). */
void load_impersonation(const struct config_entry *user);

#endif
