/* kube/config.h: how to reach the API server, and with which credentials.
 *
 * The configuration comes from --kubeconfig and --master, from $KUBECONFIG for a plugin of kubectl,
 * or from the files in a pod (docs/spec/kube-client.md, "Configuration sources"). All problems of a
 * file are collected, so that they can be fixed together. Unknown keys are ignored, as in every
 * Kubernetes client.
 */
#ifndef CCMD_KUBE_CONFIG_H
#define CCMD_KUBE_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/secret.h"

/** An exec credential plugin (docs/spec/kube-client.md, "Exec plugins"); in its config's arena. */
struct kube_exec {
	const char *const *argv;   /* NULL at the end */
	const char *const *env;    /* "NAME=value"; NULL at the end */
	struct str api_version;    /* "client.authentication.k8s.io/v1" or …/v1beta1 */
	struct str install_hint;   /* foreign text; empty: none */
	bool wants_cluster;        /* provideClusterInfo */
	struct str cluster_config; /* JSON, from the cluster's extensions; empty: none */
};

struct kube_config {
	struct arena arena;         /* owns every view below */
	struct str server;          /* "https://host:port[/prefix]", without a trailing slash */
	struct str context;         /* its name in the kubeconfig; empty: there is none */
	struct str tls_server_name; /* empty: the server's host */
	struct str proxy_url;       /* http, https or socks5; empty: as the environment specifies */
	bool is_insecure;           /* the server's certificate is not verified */
	struct str ca_pem;          /* empty: the system's trust store */
	bool trusts_nothing;        /* the CA file is empty: no certificate is trusted */
	struct str cert_pem;        /* empty: none */
	struct secret key_pem;
	struct secret token;   /* none when token_file is set */
	struct str token_file; /* absolute or relative to the working folder; empty: none */
	struct str username;   /* empty: none */
	struct secret password;
	const struct kube_exec *exec; /* NULL: none */
	/* sent with every request, for impersonation; NULL at the end, or NULL: none */
	const char *const *headers;
	/* the files of the PEM texts, to read them again; empty: inline */
	struct str ca_file, cert_file, key_file;
};

struct kube_config_source {
	const char *kubeconfig; /* --kubeconfig; NULL or "": none */
	bool is_list;           /* kubeconfig is the value of $KUBECONFIG: files with ':' between */
	const char *master;     /* --master: replaces the server; NULL or "": none */
				/* The folder of a pod's files, for tests; NULL:
	                         * /var/run/secrets/kubernetes.io/serviceaccount */
	const char *in_cluster_folder;
};

/** Loads and validates a configuration. On failure err has the first problem and the number of
 * others, and problems, which may be NULL, has a line for each: "FILE: what is wrong".
 *
 * @return  On false, err->code is
 *          ERR_NOT_FOUND    the file is missing, or there is neither a file nor a pod's environment
 *          ERR_INVALID      a value that cannot work
 *          ERR_UNSUPPORTED  auth-provider, or a plugin that needs a terminal
 */
NODISCARD bool kube_config_load(const struct kube_config_source *source, struct kube_config **ret,
                                struct buf *problems, struct error *err);
void kube_config_free(struct kube_config *);

/** Takes the next file from *rest, which is source.kubeconfig at first. False: none is left. */
bool kube_config_next_file(struct str *rest, bool is_list, struct str *ret);
DEFINE_CLEANUP(struct kube_config, kube_config_free)

#endif
