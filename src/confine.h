/* confine.h: gives up the rights that the program will not need, as --sandbox says
 * (base/sandbox.h).
 *
 * The rules name the folders of all files that the flags and the kubeconfigs name, so both must be
 * known before; and they bind only threads that are started afterwards.
 */
#ifndef CCMD_CONFINE_H
#define CCMD_CONFINE_H

#include "cloud/cloud.h"
#include "flags/options.h"
#include "kube/connection.h"
#include "serving.h"

/** Must be called before any secret is read. Switches core files off and, unless the sandbox is
 * off, denies debuggers. */
void confine_secrets(const struct options *);

/** Enters the sandbox; must be called when the configuration is known, before the first thread is
 * started. Does nothing where a credential plugin or programs of the cloud are configured, because
 * programs that we start would be bound by the same rules. Logs what is in force. */
void confine(const struct options *, const struct kube_connection *,
             const struct review_connections *, const struct cloud_needs *);

#endif
