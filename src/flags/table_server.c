/* flags/table_server.c: the flags of the server, of who may use it, and of the log
 * (docs/spec/framework.md, "Flags"). */
#include "flags/table.h"

/* A row ends where it has nothing more to say. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const char HTTP1_ONLY[] = "the server speaks HTTP/1.1";

static const struct flag serving[] = {
	{ "secure-port", FLAG_PORT, AT(serving.port), "10258",
	  "Port of the HTTPS server for health, metrics and configuration. 0: none." },
	{ "bind-address", FLAG_ADDRESS, AT(serving.address), "0.0.0.0",
	  "Address that --secure-port listens on; :: is all of both families." },
	{ "cert-dir", FLAG_TEXT, AT(serving.cert_folder), "",
	  "Folder that keeps the self-signed certificate. Without it, it lives in memory." },
	{ "tls-cert-file", FLAG_TEXT, AT(serving.cert_file), "",
	  "The server's certificate, with those that signed it. Read again when it changes. Without it: self-signed." },
	{ "tls-private-key-file", FLAG_TEXT, AT(serving.key_file), "",
	  "The private key of --tls-cert-file." },
	{ "tls-sni-cert-key", FLAG_EACH, AT(serving.sni_texts), "",
	  "Another certificate and its key, for some names: cert,key or cert,key:name,*.name. May be repeated." },
	{ "tls-cipher-suites", FLAG_LIST, AT(serving.cipher_names), "",
	  "Cipher suites by their IANA names. Those of TLS 1.3 limit TLS 1.3, the others limit TLS 1.2." },
	{ "tls-min-version", FLAG_TEXT, AT(serving.min_version_name), "",
	  "VersionTLS12, or VersionTLS13; older ones are taken for VersionTLS12." },
	{ "tls-curve-preferences", FLAG_LIST, AT(serving.curve_names), "",
	  "Key exchanges by their numbers in Go's crypto/tls (23, 24, 25, 29, 4588) or their names there (CurveP256, "
	  "X25519, X25519MLKEM768)." },
	{ "permit-port-sharing", FLAG_BOOL, AT(serving.share_port), "false",
	  "Bind with SO_REUSEPORT." },
	{ "permit-address-sharing", FLAG_BOOL, AT(serving.share_address), "false",
	  "Bind with SO_REUSEADDR.", FLAG_NO_EFFECT, "it is always set, as in the Go programs" },
	{ "disable-http2-serving", FLAG_BOOL, FLAG_NOWHERE, "false", "No HTTP/2.", FLAG_NO_EFFECT,
	  HTTP1_ONLY },
	{ "http2-max-streams-per-connection", FLAG_NUMBER, FLAG_NOWHERE, "0",
	  "Most HTTP/2 streams of a connection.", FLAG_NO_EFFECT, HTTP1_ONLY },
	{ "metrics-bind-address", FLAG_TEXT, AT(serving.metrics_bind_address), "",
	  "Address and port, such as :8233 or [::]:8233, of a plain HTTP server for /metrics alone, open to everyone. "
	  "Without an address: 0.0.0.0. Empty: none." },
};

const struct flag_group serving_flags = { "Secure serving", serving, ARRAY_LEN(serving) };

static const char NO_PROXIES[] = "headers of front proxies identify no caller";

static const struct flag authentication[] = {
	{ "authentication-kubeconfig", FLAG_TEXT, AT(authentication.kubeconfig), "",
	  "How to reach the API server that knows who asks (TokenReview). Without it: as a pod of the cluster; where that "
	  "is not possible, tokens are not checked and callers are anonymous." },
	{ "authentication-skip-lookup", FLAG_BOOL, AT(authentication.skip_lookup), "false",
	  "Do not read missing settings from the ConfigMap extension-apiserver-authentication." },
	{ "authentication-tolerate-lookup-failure", FLAG_BOOL,
	  AT(authentication.tolerate_lookup_failure), "false",
	  "Start even if that ConfigMap cannot be read." },
	{ "authentication-token-webhook-cache-ttl", FLAG_DURATION, AT(authentication.token_ttl_ns),
	  "10s", "How long answers about tokens are kept." },
	{ "client-ca-file", FLAG_TEXT, AT(authentication.client_ca_file), "",
	  "Authorities of client certificates." },
	{ "requestheader-client-ca-file", FLAG_TEXT, FLAG_NOWHERE, "",
	  "Authorities of front proxies.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-allowed-names", FLAG_LIST, FLAG_NOWHERE, "",
	  "Common names of front proxies.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-username-headers", FLAG_LIST, FLAG_NOWHERE, "x-remote-user",
	  "Headers with the user's name.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-group-headers", FLAG_LIST, FLAG_NOWHERE, "x-remote-group",
	  "Headers with the user's groups.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-extra-headers-prefix", FLAG_LIST, FLAG_NOWHERE, "x-remote-extra-",
	  "Prefixes of headers with more about the user.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-uid-headers", FLAG_LIST, FLAG_NOWHERE, "", "Headers with the user's UID.",
	  FLAG_NO_EFFECT, NO_PROXIES },
};

const struct flag_group authentication_flags = { "Authentication", authentication,
	                                         ARRAY_LEN(authentication) };

static const struct flag authorization[] = {
	{ "authorization-kubeconfig", FLAG_TEXT, AT(authorization.kubeconfig), "",
	  "How to reach the API server that knows who may what (SubjectAccessReview). Without it: as a pod of the "
	  "cluster; where that is not possible, all but --authorization-always-allow-paths is forbidden." },
	{ "authorization-always-allow-paths", FLAG_LIST, AT(authorization.allow_paths),
	  "/healthz,/readyz,/livez",
	  "Paths that everybody may get; a * at the end stands for any rest." },
	{ "authorization-webhook-cache-authorized-ttl", FLAG_DURATION,
	  AT(authorization.authorized_ttl_ns), "10s", "How long a yes is kept." },
	{ "authorization-webhook-cache-unauthorized-ttl", FLAG_DURATION,
	  AT(authorization.unauthorized_ttl_ns), "10s", "How long a no is kept." },
};

const struct flag_group authorization_flags = { "Authorization", authorization,
	                                        ARRAY_LEN(authorization) };

static const char NO_WEBHOOKS[] = "no cloud here has admission webhooks";

static const struct flag webhook[] = {
	{ "webhooks", FLAG_LIST, AT(shown.webhooks), "", "Webhooks to serve.", FLAG_NO_EFFECT,
	  NO_WEBHOOKS },
	{ "webhook-secure-port", FLAG_PORT, FLAG_NOWHERE, "10260", "Port of the webhooks.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-bind-address", FLAG_ADDRESS, FLAG_NOWHERE, "0.0.0.0", "Their address.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-cert-dir", FLAG_TEXT, FLAG_NOWHERE, "", "As --cert-dir.", FLAG_NO_EFFECT,
	  NO_WEBHOOKS },
	{ "webhook-tls-cert-file", FLAG_TEXT, FLAG_NOWHERE, "", "As --tls-cert-file.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-tls-private-key-file", FLAG_TEXT, FLAG_NOWHERE, "", "As --tls-private-key-file.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-tls-cipher-suites", FLAG_LIST, FLAG_NOWHERE, "", "As --tls-cipher-suites.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-tls-curve-preferences", FLAG_LIST, FLAG_NOWHERE, "",
	  "As --tls-curve-preferences.", FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-tls-min-version", FLAG_TEXT, FLAG_NOWHERE, "", "As --tls-min-version.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-tls-sni-cert-key", FLAG_EACH, FLAG_NOWHERE, "", "As --tls-sni-cert-key.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-disable-http2-serving", FLAG_BOOL, FLAG_NOWHERE, "false",
	  "As --disable-http2-serving.", FLAG_NO_EFFECT, NO_WEBHOOKS },
};

const struct flag_group webhook_flags = { "Webhook", webhook, ARRAY_LEN(webhook) };

static const struct flag debugging[] = {
	{ "profiling", FLAG_BOOL, AT(profiling), "true",
	  "Serve /debug/flags/v, which sets the verbosity. There is no /debug/pprof/: use perf." },
	{ "contention-profiling", FLAG_BOOL, AT(shown.contention_profiling), "false",
	  "Profile waiting for locks, too.", FLAG_NO_EFFECT, "a C program has no such profiles" },
};

const struct flag_group debugging_flags = { "Debugging", debugging, ARRAY_LEN(debugging) };

static const char NO_BUFFER[] = "lines are written at once, to standard error";

static const struct flag logging[] = {
	{ "v", FLAG_LEVEL, AT(verbosity), "0",
	  "Verbosity of the log; 1 and more show debug lines." },
	{ "vmodule", FLAG_TEXT, FLAG_NOWHERE, "", "Verbosity by source file, pattern=N,...",
	  FLAG_NO_EFFECT, "the log has one verbosity: --v" },
	{ "logging-format", FLAG_CHOICE, AT(log_format), "text", "text (logfmt) or json.",
	  .choices = (const char *const[]){ "text", "json", NULL } },
	{ "log-flush-frequency", FLAG_PERIOD, FLAG_NOWHERE, "5s", "Longest wait of a line.",
	  FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-text-split-stream", FLAG_BOOL, FLAG_NOWHERE, "false",
	  "Errors to standard error, the rest to standard output.", FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-json-split-stream", FLAG_BOOL, FLAG_NOWHERE, "false", "As above, for json.",
	  FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-text-info-buffer-size", FLAG_TEXT, FLAG_NOWHERE, "0",
	  "Size of the buffer of such an output.", FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-json-info-buffer-size", FLAG_TEXT, FLAG_NOWHERE, "0", "As above, for json.",
	  FLAG_NO_EFFECT, NO_BUFFER },
};

const struct flag_group logging_flags = { "Logs", logging, ARRAY_LEN(logging) };

static const struct flag global[] = {
	{ "version", FLAG_VERSION, FLAG_NOWHERE, NULL,
	  "Print the version and exit; raw: with its parts. vX.Y.Z: report that version instead." },
	{ "help", FLAG_HELP, FLAG_NOWHERE, NULL, "Print this and exit; -h, too." },
};

const struct flag_group global_flags = { "Global", global, ARRAY_LEN(global) };
