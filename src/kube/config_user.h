/* kube/config_user.h: what a user of a kubeconfig has besides fixed credentials: a plugin, another
 * name to act under. Only for kube/config.c.
 */
#ifndef CCMD_KUBE_CONFIG_USER_H
#define CCMD_KUBE_CONFIG_USER_H

#include "kube/config_entry.h"

/** Reads `exec` into the configuration. cluster may be NULL. A plugin beside a fixed credential is
 * never run, so it is not looked at (docs/spec/kube-client.md, "Users in a kubeconfig"). */
void load_plugin(const struct config_entry *user, const struct config_entry *cluster);

/** Turns `as`, `as-uid`, `as-groups` and `as-user-extra` into headers (docs/spec/kube-client.md,
 * "Impersonation"). */
void load_impersonation(const struct config_entry *user);

#endif
