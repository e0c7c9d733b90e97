/* base/log.c: see log.h.
 *
 * A line is built on the stack, so that it can be logged when memory runs out, and is written with
 * one write(), so that lines of several threads do not mix. A line that is too long ends within a
 * value and is still well-formed: the last bytes of the array are reserved for the closing
 * characters.
 *
 * Both formats quote as JSON does.
 */
#include "base/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	LINE_SIZE = 8192,   /* including the line feed */
	LINE_RESERVE = 4,   /* quote, brace, line feed, terminator */
	DURATION_SIZE = 40, /* "-2562047h47m16.854775808s" is the longest */
};

struct line {
	struct buf text;
	bool is_json;
	bool is_cut; /* the line is truncated: only closing characters may follow */
};

static atomic_int format = LOG_LOGFMT;
static atomic_bool is_debug;
static atomic_int fd = STDERR_FILENO;

static const char *const level_names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

void
log_setup(enum log_format new_format, int verbosity)
{
	atomic_store(&format, (int)new_format);
	log_set_verbosity(verbosity);
}

void
log_set_verbosity(int verbosity)
{
	atomic_store(&is_debug, verbosity > 0);
}

bool
log_is_debug(void)
{
	return atomic_load(&is_debug);
}

void
log_set_fd(int new_fd)
{
	atomic_store(&fd, new_fd);
}

/* Adds the whole text, or nothing when the closing characters would not fit after it. */
static void
add(struct line *line, struct str s)
{
	if (line->text.len + s.len > LINE_SIZE - LINE_RESERVE)
		line->is_cut = true;
	if (!line->is_cut)
		buf_add_str(&line->text, s);
}

/* Adds the text; between quotes, quotes and backslashes are escaped. */
static void
add_text(struct line *line, struct str s, bool is_quoted)
{
	static const char short_names[] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'
	};

	for (struct str_char c; !line->is_cut && str_next_char(&s, &c);) {
		char memory[8] = "";
		struct buf escape = BUF_FIXED(memory);

		if (c.is_valid && c.code < sizeof(short_names) && short_names[c.code])
			buf_addf(&escape, "\\%c", short_names[c.code]);
		else if (c.is_valid && c.is_control)
			buf_addf(&escape, "\\u%04x", (unsigned)c.code);

		if (!c.is_valid)
			add(line, STR("\xef\xbf\xbd")); /* U+FFFD */
		else if (c.is_control)
			add(line, buf_str(&escape));
		else if (is_quoted && c.code == '"')
			add(line, STR("\\\""));
		else if (is_quoted && c.code == '\\')
			add(line, STR("\\\\"));
		else
			add(line, c.bytes);
	}
}

static void
add_quoted(struct line *line, struct str s)
{
	add(line, STR("\""));
	if (line->is_cut)
		return;
	add_text(line, s, /*is_quoted=*/true);
	buf_add_char(&line->text, '"');
}

static bool
needs_quotes(struct str s)
{
	if (s.len == 0)
		return true;
	for (struct str_char c; str_next_char(&s, &c);) {
		if (c.is_control || c.code == ' ' || c.code == '"' || c.code == '=')
			return true;
	}
	return false;
}

static void
add_value(struct line *line, struct str s)
{
	if (line->is_json || needs_quotes(s))
		add_quoted(line, s);
	else
		add_text(line, s, /*is_quoted=*/false);
}

/* Adds the key only if the shortest value fits after it: a key alone would make the JSON invalid.
 */
static void
add_field(struct line *line, const struct log_field *field)
{
	char memory[80] = "";
	struct buf text = BUF_FIXED(memory);

	buf_addf(&text, line->is_json ? ",\"%s\":" : " %s=", field->key);
	if (line->text.len + text.len + sizeof("\"\"") > LINE_SIZE - LINE_RESERVE)
		line->is_cut = true;
	add(line, buf_str(&text));
	if (line->is_cut)
		return;
	buf_reset(&text);
	switch (field->kind) {
	case LOG_FIELD_STR:
		add_value(line, field->text);
		break;
	case LOG_FIELD_I64:
		buf_addf(&text, "%lld", (long long)field->number);
		add(line, buf_str(&text));
		break;
	case LOG_FIELD_DURATION:
		clock_format_duration(&text, field->number);
		add_value(line, buf_str(&text));
		break;
	}
}

void
log_write(enum log_level level, const char *message, const struct log_field *fields, size_t n)
{
	char memory[LINE_SIZE] = "", time[32] = "";
	struct buf now = BUF_FIXED(time);
	struct line line = { .text = BUF_FIXED(memory),
		             .is_json = atomic_load(&format) == LOG_JSON };
	int saved_errno = errno;
	ssize_t written;

	if (level == LOG_DEBUG && !log_is_debug())
		return;
	clock_format_rfc3339(&now, clock_wall(&clock_real), /*micros=*/true);
	if (line.is_json) {
		buf_addf(&line.text, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", time,
		         level_names[level]);
		add_quoted(&line, str_c(message));
	} else {
		buf_addf(&line.text, "%s %-5s ", time, level_names[level]);
		add_text(&line, str_c(message), /*is_quoted=*/false);
	}
	for (size_t i = 0; i < n && !line.is_cut; i++)
		add_field(&line, &fields[i]);
	if (line.is_json)
		buf_add_char(&line.text, '}');
	buf_add_char(&line.text, '\n');
	/* a line that cannot be written is lost: no other place exists to report the failure */
	do
		written = write(atomic_load(&fd), line.text.ptr, line.text.len);
	while (written < 0 && errno == EINTR);
	errno = saved_errno;
}

void
log_lines(enum log_level level, const char *message, const char *key, struct str text)
{
	for (struct str line; str_split(&text, '\n', &line);) {
		if (line.len > 0)
			LOG_AT(level, message, LOG_STR(key, line));
	}
}
