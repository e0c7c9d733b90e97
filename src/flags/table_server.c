/* flags/table_server.c: the flags of the HTTPS server, of authentication and authorization, and of
 * the log (docs/spec/framework.md, "Flags"). */
#include "flags/table.h"

/* Rows leave out the last fields where these are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const char HTTP1_ONLY[] = "the server supports HTTP/1.1 only";

static const struct flag serving[] = {
	{ "secure-port", FLAG_PORT, AT(serving.secure.port), "10258",
	  "Port of the HTTPS server for health, metrics and configuration. 0: no server." },
	{ "bind-address", FLAG_ADDRESS, AT(serving.secure.address), "0.0.0.0",
	  "Address that --secure-port listens on; :: means all addresses of both families." },
	{ "cert-dir", FLAG_STR, AT(serving.secure.tls.cert_folder), "",
	  "Folder in which the self-signed certificate is kept. Without it, the certificate is only in memory." },
	{ "tls-cert-file", FLAG_STR, AT(serving.secure.tls.main.cert_file), "",
	  "File with the certificate of the server and its intermediate certificates. It is read again when it changes. Without it, the certificate is self-signed." },
	{ "tls-private-key-file", FLAG_STR, AT(serving.secure.tls.main.key_file), "",
	  "File with the private key of --tls-cert-file." },
	{ "tls-sni-cert-key", FLAG_EACH, AT(serving.sni_texts), "",
	  "Another certificate and its key for certain host names: cert,key or cert,key:name,*.name. May be repeated." },
	{ "tls-cipher-suites", FLAG_LIST, AT(serving.cipher_names), "",
	  "Permitted cipher suites, by their IANA names. Suites of TLS 1.3 limit TLS 1.3, all others limit TLS 1.2." },
	{ "tls-min-version", FLAG_TEXT, AT(serving.min_version_name), "",
	  "VersionTLS12 or VersionTLS13. Older versions are treated as VersionTLS12." },
	{ "tls-curve-preferences", FLAG_LIST, AT(serving.curve_names), "",
	  "Permitted key exchanges, by their numbers in Go's crypto/tls (23, 24, 25, 29, 4588) or their names there (CurveP256, "
	  "X25519, X25519MLKEM768)." },
	{ "permit-port-sharing", FLAG_BOOL, AT(serving.secure.share_port), "false",
	  "Bind with SO_REUSEPORT." },
	{ "permit-address-sharing", FLAG_BOOL, AT(serving.share_address), "false",
	  "Bind with SO_REUSEADDR.", FLAG_NO_EFFECT, "it is always set, as in the Go programs" },
	{ "disable-http2-serving", FLAG_BOOL, FLAG_NOWHERE, "false", "No HTTP/2.", FLAG_NO_EFFECT,
	  HTTP1_ONLY },
	{ "http2-max-streams-per-connection", FLAG_NUMBER, FLAG_NOWHERE, "0",
	  "Maximum number of HTTP/2 streams per connection.", FLAG_NO_EFFECT, HTTP1_ONLY },
	{ "metrics-bind-address", FLAG_TEXT, AT(serving.metrics_bind_address), "",
	  "Address and port, such as :8233 or [::]:8233, of a plain HTTP server that serves only /metrics, open to everyone. "
	  "Without an address: 0.0.0.0. Empty: no such server." },
};

const struct flag_group serving_flags = { "Secure serving", serving, ARRAY_LEN(serving) };

static const char NO_PROXIES[] = "callers are not identified by headers of front proxies";

static const struct flag authentication[] = {
	{ "authentication-kubeconfig", FLAG_TEXT, AT(access.authentication_kubeconfig), "",
	  "File that says how to reach the API server that checks tokens (TokenReview). Without it, ccmd uses the service account of its pod; outside of a pod, tokens are not checked and callers are anonymous." },
	{ "authentication-skip-lookup", FLAG_BOOL, AT(access.config.skip_lookup), "false",
	  "Do not read missing settings from the ConfigMap extension-apiserver-authentication." },
	{ "authentication-tolerate-lookup-failure", FLAG_BOOL,
	  AT(access.config.tolerate_lookup_failure), "false",
	  "Start even if that ConfigMap cannot be read." },
	{ "authentication-token-webhook-cache-ttl", FLAG_DURATION, AT(access.config.token_ttl_ns),
	  "10s", "How long results about tokens are cached." },
	{ "client-ca-file", FLAG_STR, AT(access.config.client_ca_file), "",
	  "File with the authorities of client certificates." },
	{ "requestheader-client-ca-file", FLAG_TEXT, FLAG_NOWHERE, "",
	  "File with the authorities of front proxies.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-allowed-names", FLAG_LIST, FLAG_NOWHERE, "",
	  "Common names of front proxies.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-username-headers", FLAG_LIST, FLAG_NOWHERE, "x-remote-user",
	  "Headers with the user's name.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-group-headers", FLAG_LIST, FLAG_NOWHERE, "x-remote-group",
	  "Headers with the user's groups.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-extra-headers-prefix", FLAG_LIST, FLAG_NOWHERE, "x-remote-extra-",
	  "Prefixes of headers with more attributes of the user.", FLAG_NO_EFFECT, NO_PROXIES },
	{ "requestheader-uid-headers", FLAG_LIST, FLAG_NOWHERE, "", "Headers with the user's UID.",
	  FLAG_NO_EFFECT, NO_PROXIES },
};

const struct flag_group authentication_flags = { "Authentication", authentication,
	                                         ARRAY_LEN(authentication) };

static const struct flag authorization[] = {
	{ "authorization-kubeconfig", FLAG_TEXT, AT(access.authorization_kubeconfig), "",
	  "File that says how to reach the API server that authorises callers (SubjectAccessReview). Without it, ccmd uses the service account of its pod; outside of a pod, only --authorization-always-allow-paths, and members of system:masters, are allowed." },
	{ "authorization-always-allow-paths", FLAG_LIST, AT(access.config.allow_paths),
	  "/healthz,/readyz,/livez",
	  "Paths that everyone may read; a * at the end matches any text." },
	{ "authorization-webhook-cache-authorized-ttl", FLAG_DURATION,
	  AT(access.config.authorized_ttl_ns), "10s", "How long a permission is cached." },
	{ "authorization-webhook-cache-unauthorized-ttl", FLAG_DURATION,
	  AT(access.config.unauthorized_ttl_ns), "10s", "How long a refusal is cached." },
};

const struct flag_group authorization_flags = { "Authorization", authorization,
	                                        ARRAY_LEN(authorization) };

static const char NO_WEBHOOKS[] = "no supported cloud has admission webhooks";

static const struct flag webhook[] = {
	{ "webhooks", FLAG_LIST, AT(shown.webhooks), "", "Webhooks to serve.", FLAG_NO_EFFECT,
	  NO_WEBHOOKS },
	{ "webhook-secure-port", FLAG_PORT, FLAG_NOWHERE, "10260", "Port of the webhooks.",
	  FLAG_NO_EFFECT, NO_WEBHOOKS },
	{ "webhook-bind-address", FLAG_ADDRESS, FLAG_NOWHERE, "0.0.0.0", "Address of the webhooks.",
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
	  "Serve /debug/flags/v, which sets the verbosity. There is no /debug/pprof/; use perf." },
	{ "contention-profiling", FLAG_BOOL, AT(shown.contention_profiling), "false",
	  "Profile waiting for locks as well.", FLAG_NO_EFFECT,
	  "a C program has no such profiles" },
};

const struct flag_group debugging_flags = { "Debugging", debugging, ARRAY_LEN(debugging) };

static const char NO_BUFFER[] = "lines are written immediately, to standard error";

static const struct flag logging[] = {
	{ "v", FLAG_LEVEL, AT(verbosity), "0",
	  "Verbosity of the log; from 1 on, debug lines are shown." },
	{ "vmodule", FLAG_TEXT, FLAG_NOWHERE, "", "Verbosity by source file, pattern=N,...",
	  FLAG_NO_EFFECT, "the log has one verbosity: --v" },
	{ "logging-format", FLAG_CHOICE, AT(log_format), "text", "text (logfmt) or json.",
	  .choices = (const char *const[]){ "text", "json", NULL } },
	{ "log-flush-frequency", FLAG_PERIOD, FLAG_NOWHERE, "5s",
	  "Longest time that a line is buffered.", FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-text-split-stream", FLAG_BOOL, FLAG_NOWHERE, "false",
	  "Errors to standard error, the rest to standard output.", FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-json-split-stream", FLAG_BOOL, FLAG_NOWHERE, "false", "As above, for json.",
	  FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-text-info-buffer-size", FLAG_TEXT, FLAG_NOWHERE, "0",
	  "Size of the buffer of such an output.", FLAG_NO_EFFECT, NO_BUFFER },
	{ "log-json-info-buffer-size", FLAG_TEXT, FLAG_NOWHERE, "0", "As above, for json.",
	  FLAG_NO_EFFECT, NO_BUFFER },
};

const struct flag_group logging_flags = { "Logging", logging, ARRAY_LEN(logging) };

static const struct flag global[] = {
	{ "version", FLAG_VERSION, FLAG_NOWHERE, NULL,
	  "Print the version and exit; raw: with all details. vX.Y.Z: report that version in place of the real one." },
	{ "help", FLAG_HELP, FLAG_NOWHERE, NULL, "Print this text and exit; also -h." },
};

const struct flag_group global_flags = { "Global", global, ARRAY_LEN(global) };
