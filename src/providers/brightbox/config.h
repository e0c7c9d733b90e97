/* config.h: the environment variables of the Brightbox provider (docs/spec/brightbox.md,
 * "Configuration").
 *
 * Names, defaults and messages are those of the official controller. X_FILE, a file with the value
 * of X, is an addition of ccmd for the four variables that are credentials, and
 * BRIGHTBOX_HOSTS_FILE for tests.
 *
 * Threads: read once at start, constant afterwards except for the credentials, which token.c reads
 * again from their files.
 */
#ifndef CCMD_BRIGHTBOX_CONFIG_H
#define CCMD_BRIGHTBOX_CONFIG_H

#include "cloud/cloud.h"
#include "cloud/login.h"

struct bb_config {
	struct login_secret client, client_secret;
	struct login_secret user, password;
	bool has_user; /* log in with a user's password instead of an API client's credentials */
	struct str account; /* empty: none */
	struct str api_url;
	struct str hosts_file; /* empty: none */
};

/** Reads and checks the environment. Files that are read again later are added to needs. Texts
 * point into the environment. ERR_INVALID. */
NODISCARD bool bb_config_load(struct bb_config *ret, struct cloud_needs *needs, struct error *err);
void bb_config_fini(struct bb_config *); /* it may be all zero */

#endif
