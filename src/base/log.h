/* base/log.h: structured log lines on standard error.
 *
 * 	log_info("node initialised", LOG_STR("node", name), LOG_I64("addresses", n));
 * 	2026-01-02T03:04:05.678901Z info  node initialised node=worker-1 addresses=2
 *
 * Levels: error = an operator should look; warn = a problem that the program handled; info = a
 * change outside of the program, or a milestone of the process; debug = everything else (-v=1 and
 * up). An idle program logs nothing. Library code returns errors and logs nothing above debug; the
 * worker loop logs a failure once, with its whole message.
 *
 * Secrets have their own type (base/secret.h), which no macro here accepts. Values are quoted where
 * needed, so that foreign text cannot forge a line.
 *
 * Threads: every function may be called from any thread; a line is written with one write().
 */
#ifndef CCMD_BASE_LOG_H
#define CCMD_BASE_LOG_H

#include "base/error.h"
#include "base/str.h"

enum log_level {
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
};

enum log_format {
	LOG_LOGFMT,
	LOG_JSON,
};

struct log_field {
	const char *key;
	enum { LOG_FIELD_STR, LOG_FIELD_I64, LOG_FIELD_DURATION } kind;
	struct str text;
	int64_t number;
};

#define LOG_STR(k, s) ((struct log_field){ .key = (k), .kind = LOG_FIELD_STR, .text = (s) })
#define LOG_CSTR(k, s) LOG_STR(k, str_c(s))
#define LOG_I64(k, n) ((struct log_field){ .key = (k), .kind = LOG_FIELD_I64, .number = (n) })
#define LOG_DURATION(k, n) \
	((struct log_field){ .key = (k), .kind = LOG_FIELD_DURATION, .number = (n) })
#define LOG_ERR(e) LOG_STR("err", str_c((e)->msg))

/** Sets the format, and the verbosity as in klog: 0 shows info and above, 1 and more debug. */
void log_setup(enum log_format format, int verbosity);
/** Changes the verbosity at run time. */
void log_set_verbosity(int verbosity);
/** Returns true when debug lines are written: for callers whose fields are costly to compute. */
bool log_is_debug(void);

/** Sets the file descriptor of the log, 2 by default. For tests. */
void log_set_fd(int fd);

void log_write(enum log_level level, const char *message, const struct log_field *fields, size_t n);

/** Writes one line of the log for each line of text that is not empty, in the field `key`. */
void log_lines(enum log_level level, const char *message, const char *key, struct str text);

#define LOG_AT(level, message, ...)                                                       \
	log_write(level, message, (const struct log_field[]){ { 0 }, ##__VA_ARGS__ } + 1, \
	          ARRAY_LEN(((const struct log_field[]){ { 0 }, ##__VA_ARGS__ })) - 1)

#define log_error(message, ...) LOG_AT(LOG_ERROR, message, ##__VA_ARGS__)
#define log_warn(message, ...) LOG_AT(LOG_WARN, message, ##__VA_ARGS__)
#define log_info(message, ...) LOG_AT(LOG_INFO, message, ##__VA_ARGS__)
#define log_debug(message, ...)                                    \
	do {                                                       \
		if (log_is_debug())                                \
			LOG_AT(LOG_DEBUG, message, ##__VA_ARGS__); \
	} while (0)

#endif
