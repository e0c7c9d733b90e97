/* serve/build_info.c: see build_info.h. */
#include "serve/build_info.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <openssl/crypto.h>

#include "base/json.h"
#include "base/metrics.h"
#include "base/version.h"
#include "commit.h"

METRIC_FAMILY(kubernetes_build_info, METRIC_GAUGE, "kubernetes_build_info",
              "[ALPHA] Always 1; the labels name the program's version and where it comes from.",
              .labels = { "major", "minor", "git_version", "git_commit", "git_tree_state",
                          "build_date", "go_version", "compiler", "platform" });
METRIC_FAMILY(ccmd_build_info, METRIC_GAUGE, "ccmd_build_info",
              "[ALPHA] Always 1; the labels name the versions of the program and of its libraries.",
              .labels = { "version", "curl", "openssl", "libevent" });

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

enum {
	MAX_NUMBER = 16,
	MAX_COMMIT = 64,
};

/* In the order of kubernetes_build_info's labels. Builds are reproducible, so the date is that of
 * Kubernetes' own builds without a date. */
struct build_info {
	char major[MAX_NUMBER], minor[MAX_NUMBER];
	const char *version;
	char commit[MAX_COMMIT];
	const char *tree_state, *date, *go_version, *compiler, *platform;
};

static struct build_info
build_info(void)
{
	struct build_info info = {
		.version = version_get().ptr,
		.date = "1970-01-01T00:00:00Z",
		.go_version = "",
		.compiler = COMPILER,
		.platform = version_platform().ptr,
	};
	/* "0123abcd", with a '+' at its end if files differed from the commit; empty outside of a
	 * repository */
	struct str major, minor, commit = STR(CCMD_COMMIT);
	bool is_dirty = str_ends(commit, STR("+"));

	version_split(version_get(), &major, &minor);
	snprintf(info.major, sizeof(info.major), "%" STR_FMT, STR_ARG(major));
	snprintf(info.minor, sizeof(info.minor), "%" STR_FMT, STR_ARG(minor));
	commit.len -= is_dirty;
	snprintf(info.commit, sizeof(info.commit), "%" STR_FMT, STR_ARG(commit));
	info.tree_state = commit.len == 0 ? "" : is_dirty ? "dirty" : "clean";
	return info;
}

void
build_info_setup(void)
{
	struct build_info i = build_info();

	version_set_commit(str_c(i.commit));
	metric_set(metric_of(&kubernetes_build_info, i.major, i.minor, i.version, i.commit,
	                     i.tree_state, i.date, i.go_version, i.compiler, i.platform),
	           1);
	metric_set(metric_of(&ccmd_build_info, i.version + 1,
	                     curl_version_info(CURLVERSION_NOW)->version,
	                     OpenSSL_version(OPENSSL_VERSION_STRING), event_get_version()),
	           1);
}

/* Indented, as the Go programs print it. */
void
build_info_add_json(struct buf *b)
{
	struct build_info i = build_info();
	const char *members[][2] = {
		{ "major", i.major },
		{ "minor", i.minor },
		{ "gitVersion", i.version },
		{ "gitCommit", i.commit },
		{ "gitTreeState", i.tree_state },
		{ "buildDate", i.date },
		{ "goVersion", i.go_version },
		{ "compiler", i.compiler },
		{ "platform", i.platform },
	};

	for (size_t n = 0; n < ARRAY_LEN(members); n++) {
		buf_addf(b, "%s\n  \"%s\": ", n > 0 ? "," : "{", members[n][0]);
		json_add_str(b, str_c(members[n][1]));
	}
	buf_add_c(b, "\n}");
}
