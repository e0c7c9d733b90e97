/* base/clock.c: the real clock, and time as text; see clock.h. */
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"

static int64_t
read_clock(clockid_t id)
{
	struct timespec now;

	MUST(clock_gettime(id, &now));
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

static int64_t
real_mono(struct clock *c)
{
	(void)c;
	return read_clock(CLOCK_MONOTONIC);
}

static int64_t
real_boot(struct clock *c)
{
	(void)c;
	return read_clock(CLOCK_BOOTTIME);
}

static int64_t
real_wall(struct clock *c)
{
	(void)c;
	return read_clock(CLOCK_REALTIME);
}

static bool
real_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	struct timespec until;
	int result;

	(void)c;
	if (deadline_ns == CLOCK_FOREVER) {
		MUST(pthread_cond_wait(cond, mutex));
		return true;
	}
	if (deadline_ns < 0)
		deadline_ns = 0;
	until.tv_sec = deadline_ns / NS_PER_SEC;
	until.tv_nsec = deadline_ns % NS_PER_SEC;
	result = pthread_cond_timedwait(cond, mutex, &until);
	if (result == ETIMEDOUT)
		return false;
	MUST(result);
	return true;
}

struct clock clock_real = {
	.mono_ns = real_mono,
	.boot_ns = real_boot,
	.wall_ns = real_wall,
	.wait = real_wait,
};

bool
clock_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	return c->wait(c, cond, mutex, deadline_ns);
}

int64_t
clock_deadline(int64_t now_ns, int64_t duration_ns)
{
	int64_t deadline;

	if (duration_ns == CLOCK_FOREVER)
		return CLOCK_FOREVER;
	if (__builtin_add_overflow(now_ns, duration_ns, &deadline))
		return duration_ns > 0 ? CLOCK_FOREVER : INT64_MIN;
	return deadline;
}

/* ---- RFC 3339 ---- */

void
clock_format_rfc3339(struct buf *b, int64_t wall_ns, bool micros)
{
	int64_t fraction = wall_ns % NS_PER_SEC;
	time_t seconds = wall_ns / NS_PER_SEC;
	struct tm tm;

	if (fraction < 0) {
		fraction += NS_PER_SEC;
		seconds--;
	}
	gmtime_r(&seconds, &tm);
	buf_addf(b, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
	         tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (micros)
		buf_addf(b, ".%06d", (int)(fraction / 1000));
	buf_add_char(b, 'Z');
}

/* Parses exactly n digits. */
static bool
take_digits(struct str *s, size_t n, int min, int max, int *ret)
{
	struct str digits = str_head(*s, n);
	int64_t value;

	if (digits.len < n || !str_is_digits(digits) || !str_to_i64(digits, min, max, &value))
		return false;
	*s = str_skip(*s, n);
	*ret = (int)value;
	return true;
}

static bool
take_char(struct str *s, char c)
{
	if (s->len == 0 || s->ptr[0] != c)
		return false;
	*s = str_skip(*s, 1);
	return true;
}

/* Parses an optional fraction: a point and one to nine digits. */
static bool
take_fraction(struct str *s, int *ret_ns)
{
	int ns = 0, n = 0, digit;

	*ret_ns = 0;
	if (!take_char(s, '.'))
		return true;
	for (; n < 9 && take_digits(s, 1, 0, 9, &digit); n++)
		ns = ns * 10 + digit;
	if (n == 0)
		return false;
	for (; n < 9; n++)
		ns *= 10;
	*ret_ns = ns;
	return true;
}

static bool
take_offset(struct str *s, int64_t *ret_seconds)
{
	bool is_east = str_starts(*s, STR("+"));
	int hours, minutes;

	*ret_seconds = 0;
	if (take_char(s, 'Z'))
		return true;
	if (!take_char(s, '+') && !take_char(s, '-'))
		return false;
	if (!take_digits(s, 2, 0, 23, &hours) || !take_char(s, ':') ||
	    !take_digits(s, 2, 0, 59, &minutes))
		return false;
	*ret_seconds = (hours * 60 + minutes) * (is_east ? 60 : -60);
	return true;
}

static int
days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month == 2 && is_leap ? 29 : days[month - 1];
}

static bool
take_date(struct str *s, struct tm *tm)
{
	int year, month;

	if (!take_digits(s, 4, 0, 9999, &year) || !take_char(s, '-') ||
	    !take_digits(s, 2, 1, 12, &month) || !take_char(s, '-') ||
	    !take_digits(s, 2, 1, days_in_month(year, month), &tm->tm_mday))
		return false;
	tm->tm_year = year - 1900;
	tm->tm_mon = month - 1;
	return true;
}

static bool
take_time(struct str *s, struct tm *tm)
{
	return take_digits(s, 2, 0, 23, &tm->tm_hour) && take_char(s, ':') &&
	       take_digits(s, 2, 0, 59, &tm->tm_min) && take_char(s, ':') &&
	       take_digits(s, 2, 0, 59, &tm->tm_sec);
}

bool
clock_parse_rfc3339(struct str text, int64_t *ret_wall_ns)
{
	struct tm tm = { 0 };
	int64_t offset, wall;
	int fraction;

	if (!take_date(&text, &tm) || !take_char(&text, 'T') || !take_time(&text, &tm) ||
	    !take_fraction(&text, &fraction) || !take_offset(&text, &offset) || text.len > 0)
		return false;
	if (__builtin_mul_overflow(timegm(&tm) - offset, NS_PER_SEC, &wall) ||
	    __builtin_add_overflow(wall, fraction, &wall))
		return false;
	*ret_wall_ns = wall;
	return true;
}

/* ---- durations ---- */

/* Appends ns / unit with as many digits after the point as it needs. */
static void
add_fraction(struct buf *b, uint64_t ns, uint64_t unit)
{
	uint64_t rest = ns % unit;

	buf_addf(b, "%llu", (unsigned long long)(ns / unit));
	if (rest > 0)
		buf_add_char(b, '.');
	for (; rest > 0; rest %= unit) {
		rest *= 10;
		buf_add_char(b, (char)('0' + rest / unit));
	}
}

void
clock_format_duration(struct buf *b, int64_t ns)
{
	uint64_t left = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	uint64_t minutes = left / (60 * NS_PER_SEC);

	if (ns < 0)
		buf_add_char(b, '-');
	if (ns == 0) {
		buf_add_c(b, "0s");
	} else if (left < 1000) {
		buf_addf(b, "%uns", (unsigned)left);
	} else if (left < NS_PER_MS) {
		add_fraction(b, left, 1000);
		buf_add_c(b, "\xc2\xb5s");
	} else if (left < NS_PER_SEC) {
		add_fraction(b, left, NS_PER_MS);
		buf_add_c(b, "ms");
	} else {
		if (minutes >= 60)
			buf_addf(b, "%lluh", (unsigned long long)(minutes / 60));
		if (minutes > 0)
			buf_addf(b, "%um", (unsigned)(minutes % 60));
		add_fraction(b, left % (60 * NS_PER_SEC), NS_PER_SEC);
		buf_add_char(b, 's');
	}
}
