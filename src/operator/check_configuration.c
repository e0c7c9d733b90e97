/* operator/check_configuration.c: flags and files. */
#include <stdlib.h>
#include <sys/stat.h>

#include "operator/doctor.h"

/* Most warnings begin with the name of the flag: "--name is deprecated …". */
static void
find_warning(struct report *r, struct str line)
{
	struct str flag, rest;
	struct finding *finding;

	if (str_starts(line, STR("--")) && str_cut(line, ' ', &flag, &rest))
		finding = report_note(r, "flag", flag, "%" STR_FMT, STR_ARG(rest));
	else
		finding = report_note(r, "", STR_EMPTY, "%" STR_FMT, STR_ARG(line));
	report_fix(r, finding, "remove or change it; see docs/reference/flags.md");
}

/* All of them are notes: the manifests of the program that ccmd replaces have such flags, and they
 * do no harm. */
void
check_flags(struct doctor *d, struct report *r)
{
	for (struct str line, rest = d->flag_notes; str_split(&rest, '\n', &line);) {
		if (line.len > 0)
			report_fix(r, report_note(r, "flag", line, "is accepted and has no effect"),
			           "remove it; docs/reference/flags.md says why it has none");
	}
	for (struct str line, rest = d->flag_warnings; str_split(&rest, '\n', &line);) {
		if (line.len > 0)
			find_warning(r, line);
	}
}

static void
check_file(struct doctor *d, struct report *r, struct str path)
{
	struct finding *finding;
	struct stat status;
	const char *name = arena_strz(view_call(d->view)->arena, path);

	if (path.len == 0 || stat(name, &status) != 0 || !(status.st_mode & S_IROTH))
		return;
	finding = report_find(r, "file", path, "every user of this machine can read it");
	if (report_is_plain(path))
		report_command(r, finding, "chmod o-r %" STR_FMT, STR_ARG(path));
	else
		report_fix(r, finding, "make it unreadable for others, by chmod o-r");
}

/* Files of a pod can be read by that pod only, so they are not checked. Certificates and
 * authorities are public: of the files that a kubeconfig names, only the token and the key are
 * checked. */
void
check_files(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	const struct server_tls *tls = &o->serving.secure.tls;
	struct str kubeconfig, rest = str_c(o->kubeconfig);
	struct kube_connection *connection;
	struct cloud *cloud;
	struct error err;

	if (getenv("KUBERNETES_SERVICE_HOST")) {
		report_skip(r, "only this pod can read its files");
		return;
	}
	if (view_connection(d->view, &connection, &err)) {
		struct str files[KUBE_CONNECTION_FILES];
		size_t n = kube_connection_files(connection, /*only_secret=*/true, files);

		for (size_t i = 0; i < n; i++)
			check_file(d, r, files[i]);
	}
	while (kube_config_next_file(&rest, o->kubeconfig_is_list, &kubeconfig))
		check_file(d, r, kubeconfig);
	check_file(d, r, tls->main.key_file);
	for (size_t i = 0; i < tls->n_sni; i++)
		check_file(d, r, tls->sni[i].key_file);
	if (tls->cert_folder.len > 0)
		check_file(d, r,
		           arena_printf(view_call(d->view)->arena,
		                        "%" STR_FMT "/cloud-controller-manager.key",
		                        STR_ARG(tls->cert_folder)));
	if (!view_cloud(d->view, &cloud, &err))
		return;
	for (size_t i = 0; i < cloud->needs.n_reads; i++) {
		if (!cloud->needs.reads_are_public[i])
			check_file(d, r, cloud->needs.reads[i]);
	}
}
