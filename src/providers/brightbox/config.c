/* config.c: see config.h. */
#include "providers/brightbox/config.h"

#include <stdlib.h>

/* The official controller's own identity, which its users log in through. It is public. */
#define DEFAULT_CLIENT "app-dkmch"
#define DEFAULT_CLIENT_SECRET "uogoelzgt0nwawb"
#define DEFAULT_API_URL "https://api.gb1.brightbox.com/"

/* The default identity with an account but without a user is refused here. The official controller
 * accepts it, and the API then refuses its requests, because an application may only act for a
 * user. */
static bool
bb_config_check(const struct bb_config *config, struct error *err)
{
	bool is_default = str_eq_c(secret_expose(&config->client.value), DEFAULT_CLIENT) &&
	                  str_eq_c(secret_expose(&config->client_secret.value),
	                           DEFAULT_CLIENT_SECRET);

	if (!is_default) {
		if (config->has_user)
			return err_set(err, ERR_INVALID,
			               "User Credentials not used with API Client");
		return true;
	}
	if (config->account.len == 0)
		return err_set(
			err, ERR_INVALID,
			"must specify Account with User Credentials: set BRIGHTBOX_ACCOUNT with "
			"BRIGHTBOX_USER_NAME and BRIGHTBOX_PASSWORD, or BRIGHTBOX_CLIENT and "
			"BRIGHTBOX_CLIENT_SECRET");
	if (!config->has_user)
		return err_set(
			err, ERR_INVALID,
			"must specify User Credentials with Account: set BRIGHTBOX_USER_NAME and "
			"BRIGHTBOX_PASSWORD, or BRIGHTBOX_CLIENT and BRIGHTBOX_CLIENT_SECRET");
	return true;
}

bool
bb_config_load(struct bb_config *ret, struct cloud_needs *needs, struct error *err)
{
	const struct {
		const char *name, *file_name, *otherwise;
		struct login_secret *secret;
	} credentials[] = {
		{ "BRIGHTBOX_CLIENT", "BRIGHTBOX_CLIENT_FILE", DEFAULT_CLIENT, &ret->client },
		{ "BRIGHTBOX_CLIENT_SECRET", "BRIGHTBOX_CLIENT_SECRET_FILE", DEFAULT_CLIENT_SECRET,
		  &ret->client_secret },
		{ "BRIGHTBOX_USER_NAME", "BRIGHTBOX_USER_NAME_FILE", "", &ret->user },
		{ "BRIGHTBOX_PASSWORD", "BRIGHTBOX_PASSWORD_FILE", "", &ret->password },
	};

	/* a variable that is set, even to an empty text, takes precedence over its file */
	for (size_t i = 0; i < ARRAY_LEN(credentials); i++) {
		const char *value = getenv(credentials[i].name);
		const char *path = getenv(credentials[i].file_name);

		if (value || !path) {
			login_secret_set(credentials[i].secret,
			                 str_c(value ? value : credentials[i].otherwise));
			continue;
		}
		if (!login_secret_read(credentials[i].secret, path, err))
			return err_wrap(err, "failed to read %s", credentials[i].file_name);
		needs->reads[needs->n_reads++] = str_c(credentials[i].secret->path);
	}

	ret->has_user = secret_expose(&ret->user.value).len > 0 ||
	                secret_expose(&ret->password.value).len > 0;
	ret->account = str_c(getenv("BRIGHTBOX_ACCOUNT"));
	ret->api_url = str_c(getenv("BRIGHTBOX_API_URL"));
	if (ret->api_url.len == 0)
		ret->api_url = STR(DEFAULT_API_URL);
	ret->hosts_file = str_c(getenv("BRIGHTBOX_HOSTS_FILE"));
	if (ret->hosts_file.len > 0) {
		needs->reads_are_public[needs->n_reads] = true;
		needs->reads[needs->n_reads++] = ret->hosts_file;
	}
	return bb_config_check(ret, err);
}

void
bb_config_fini(struct bb_config *config)
{
	login_secret_fini(&config->client);
	login_secret_fini(&config->client_secret);
	login_secret_fini(&config->user);
	login_secret_fini(&config->password);
}
