/* confine.c: collects what the program will need, and enters the sandbox; see confine.h.
 *
 * Landlock's rules name folders, because files are often replaced by a rename: sandbox_enter()
 * takes the folder of each file named here.
 */
#include "confine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "cloud/cloud.h"

/* The files that are read and the folders that are written after the start. */
struct needs {
	struct str *files;
	size_t n, cap;
	/* what the cloud writes, and the folder of --cert-dir */
	struct str writes[CLOUD_PATHS_MAX + 1];
	size_t n_writes;
	bool has_plugin;
};

static void
needs_fini(struct needs *needs)
{
	free(needs->files);
}

/* Empty names are left out. */
static void
add_file(struct needs *needs, struct str file)
{
	if (file.len > 0)
		ARRAY_PUSH(needs->files, needs->n, needs->cap, file);
}

static void
add_connection(struct needs *needs, const char *kubeconfig,
               const struct kube_connection *connection)
{
	struct str files[KUBE_CONNECTION_FILES];
	size_t n = kube_connection_files(connection, /*only_secret=*/false, files);

	add_file(needs, str_c(kubeconfig));
	for (size_t i = 0; i < n; i++)
		add_file(needs, files[i]);
	needs->has_plugin |= kube_connection_uses_plugin(connection);
}

void
confine_secrets(const struct options *o)
{
	sandbox_no_cores();
	if (o->sandbox != SANDBOX_OFF)
		sandbox_harden();
}

void
confine(const struct options *o, const struct kube_connection *connection,
        const struct review_connections *reviews, const struct cloud_needs *cloud)
{
	CLEANUP(needs_fini) struct needs needs = { 0 };
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(16));
	const struct server_tls *tls = &o->serving.secure.tls;
	unsigned result;

	if (o->sandbox == SANDBOX_OFF)
		return;

	/* the cloud and the API server */
	add_file(&needs, str_c(o->cloud_config));
	for (size_t i = 0; i < cloud->n_reads; i++)
		add_file(&needs, cloud->reads[i]);
	for (size_t i = 0; i < cloud->n_writes; i++)
		needs.writes[needs.n_writes++] = cloud->writes[i];
	add_connection(&needs, o->kubeconfig, connection);

	/* The server. A rule needs an existing folder, so that of --cert-dir is created now. (The
	 * text comes from argv and is terminated.) */
	add_file(&needs, tls->main.cert_file);
	add_file(&needs, tls->main.key_file);
	for (size_t i = 0; i < tls->n_sni; i++) {
		add_file(&needs, tls->sni[i].cert_file);
		add_file(&needs, tls->sni[i].key_file);
	}
	if (tls->cert_folder.len > 0 && (mkdir(tls->cert_folder.ptr, 0755) == 0 || errno == EEXIST))
		needs.writes[needs.n_writes++] = tls->cert_folder;

	/* access to the server */
	add_file(&needs, o->access.config.client_ca_file);
	if (reviews->authentication.is_own)
		add_connection(&needs, o->access.authentication_kubeconfig,
		               reviews->authentication.connection);
	if (reviews->authorization.is_own)
		add_connection(&needs, o->access.authorization_kubeconfig,
		               reviews->authorization.connection);

	if (needs.has_plugin) {
		log_info("no sandbox, because a credential plugin is configured");
		return;
	}
	if (cloud->runs_programs) {
		log_info("no sandbox, because the cloud's configuration names programs to run");
		return;
	}
	result = sandbox_enter(&(struct sandbox_config){ .read_paths = needs.files,
	                                                 .n_read_paths = needs.n,
	                                                 .write_paths = needs.writes,
	                                                 .n_write_paths = needs.n_writes },
	                       &notes);
	log_lines(LOG_INFO, "the sandbox is weaker than it could be", "why", buf_str(&notes));
	log_info("sandbox", LOG_CSTR("by", sandbox_result_name(result)));
}
