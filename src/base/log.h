/* base/log.h: structured lines on standard error.
 *
 * 	log_info("node initialised", LOG_STR("node", name), LOG_I64("addresses", n));
 * 	2026-01-02T03:04:05.678901Z info  node initialised node=worker-1 addresses=2
 *
 * error = someone should look; warn = we coped; info = we changed something outside, or a mile
 * stone of the program's life; debug = the rest (-v=1 and up). At rest the program is silent.
 * Library code returns errors and logs nothing above debug; the worker loop logs a failure once,
 * with its whole message.
 *
 * Secrets have their own type (base/secret.h), which no macro here takes. Values are quoted where
 * needed, so that foreign text cannot forge a line. Threads: any; a line is written with one
 * write().
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

/** verbosity as klog counts it: 0 shows info and above, 1 and more shows debug. */
void log_setup(enum log_format format, int verbosity);
/** Changes it while running. */
void log_set_verbosity(int verbosity);
/** True when debug lines are wanted, for those that are costly to make. */
bool log_is_debug(void);

/** The file descriptor lines go to; 2 by default. For tests. */
void log_set_fd(int fd);

void log_write(enum log_level level, const char *message, const struct log_field *fields, size_t n);

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
