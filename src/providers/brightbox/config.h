/* config.h: the environment variables of the Brightbox provider (docs/spec/brightbox.md,
 * "Configuration").
 *
 * Names, defaults and messages are those of the official controller. X_FILE, a file with the value
 * of X, is an addition of ccmd for the four variables that are credentials, and
 * BRIGHTBOX_HOSTS_FILE for tests.
 *
 * Threads: read once at start, constant afterwards.
 */
#ifndef CCMD_BRIGHTBOX_CONFIG_H
#define CCMD_BRIGHTBOX_CONFIG_H

#include "cloud/cloud.h"
#include "cloud/login.h"

struct bb_config {
	struct login_secret client, client_secret;
	struct login_secret user, password;
	bool has_user;      /* the password grant, instead of that of an API client */
	struct str account; /* empty: none */
	struct str api_url;
	struct str hosts_file; /* empty: none */
};

/** Reads and checks the environment. What is read again later is added to needs. Texts are those of
 * the environment. ERR_INVALID. */
NODISCARD bool bb_config_load(struct bb_config *ret, struct cloud_needs *needs, struct error *err);
void bb_config_fini(struct bb_config *); /* it may be all zero */

#endif
