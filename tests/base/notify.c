/* A datagram socket of our own stands for systemd's. */
#include "base/notify.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/buf.h"

static char folder[] = "/tmp/ccmd-notify.XXXXXX";
static char path[64];
static char received[256];

static int
listen_at(const char *name)
{
	const struct timeval patience = { .tv_sec = 5 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, name, len);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&address,
	                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
	                 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static const char *
next(int fd)
{
	memset(received, '\0', sizeof(received));
	assert_true(recv(fd, received, sizeof(received) - 1, 0) > 0);
	return received;
}

static void
assert_silent(int fd)
{
	assert_int_equal(recv(fd, received, sizeof(received), MSG_DONTWAIT), -1);
}

static int
clear(void **state)
{
	(void)state;
	unlink(path);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	notify_setup();
	return 0;
}

static void
set_up(const char *address)
{
	setenv("NOTIFY_SOCKET", address, 1);
	notify_setup();
}

static void
reports_to_a_path(void **state)
{
	int fd = listen_at(path);

	(void)state;
	set_up(path);
	notify_send("READY=1\nSTATUS=leading");
	assert_string_equal(next(fd), "READY=1\nSTATUS=leading");
	notify_send("STOPPING=1");
	assert_string_equal(next(fd), "STOPPING=1");
	close(fd);
}

static void
reports_to_an_abstract_name(void **state)
{
	int fd = listen_at("@ccmd-notify-test");

	(void)state;
	set_up("@ccmd-notify-test");
	notify_send("WATCHDOG=1");
	assert_string_equal(next(fd), "WATCHDOG=1");
	close(fd);
}

static void
a_reload_reports_the_time(void **state)
{
	int64_t before_us = clock_mono(&clock_real) / 1000, told_us;
	struct str head = STR("RELOADING=1\nMONOTONIC_USEC="), text;
	int fd = listen_at(path);

	(void)state;
	set_up(path);
	notify_reloading();
	text = str_c(next(fd));
	assert_true(str_starts(text, head));
	assert_true(str_to_i64(str_skip(text, head.len), before_us, INT64_MAX, &told_us));
	assert_true(told_us <= clock_mono(&clock_real) / 1000);
	close(fd);
}

static void
children_do_not_see_it(void **state)
{
	int fd = listen_at(path);

	(void)state;
	setenv("WATCHDOG_USEC", "10000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	set_up(path);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_null(getenv("WATCHDOG_PID"));
	close(fd);
}

static int64_t
watchdog_of(const char *usec, const char *pid)
{
	setenv("WATCHDOG_USEC", usec, 1);
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	set_up(path);
	return notify_watchdog_ns();
}

static void
the_watchdog_is_fed_twice_as_often(void **state)
{
	char ours[16] = "", other[16] = "";
	struct buf b = BUF_FIXED(ours), c = BUF_FIXED(other);

	(void)state;
	buf_addf(&b, "%d", (int)getpid());
	buf_addf(&c, "%d", (int)getppid());
	assert_int_equal(watchdog_of("30000000", NULL), 15 * NS_PER_SEC);
	assert_int_equal(watchdog_of("3000000", ours), 1500 * NS_PER_MS);
	assert_int_equal(watchdog_of("3000000", other), 0);
	assert_int_equal(watchdog_of("3000000", "x"), 0);
	assert_int_equal(watchdog_of("0", NULL), 0);
	assert_int_equal(watchdog_of("-1", NULL), 0);
	assert_int_equal(watchdog_of("99999999999999999999", NULL), 0);
	assert_int_equal(watchdog_of("", NULL), 0);
}

static void
without_a_socket_nothing_is_sent(void **state)
{
	char too_long[200];

	(void)state;
	notify_send("READY=1");
	memset(too_long, 'x', sizeof(too_long));
	too_long[0] = '/';
	too_long[sizeof(too_long) - 1] = '\0';
	for (const char *const *at =
	             (const char *const[]){ "", "/", "@", "vsock:2:1", "x", too_long, NULL };
	     *at; at++) {
		setenv("WATCHDOG_USEC", "1000000", 1);
		set_up(*at);
		notify_send("READY=1");
		assert_int_equal(notify_watchdog_ns(), 0);
	}
}

static void
a_late_listener_gets_later_messages(void **state)
{
	int fd;

	(void)state;
	set_up(path);
	notify_send("STATUS=starting");
	fd = listen_at(path);
	assert_silent(fd);
	notify_send("READY=1");
	assert_string_equal(next(fd), "READY=1");
	close(fd);
	unlink(path);
	fd = listen_at(path);
	notify_send("STATUS=leading");
	assert_string_equal(next(fd), "STATUS=leading");
	close(fd);
}

static void
a_listener_that_does_not_read_costs_little(void **state)
{
	int64_t started_ns = clock_mono(&clock_real);
	int fd = listen_at(path), n = 0;

	(void)state;
	set_up(path);
	do
		notify_send("WATCHDOG=1");
	while (clock_mono(&clock_real) - started_ns < 50 * NS_PER_MS && n++ < 5000);
	assert_true(clock_mono(&clock_real) - started_ns < 5 * NS_PER_SEC);
	assert_string_equal(next(fd), "WATCHDOG=1");
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reports_to_a_path, clear),
		cmocka_unit_test_setup(reports_to_an_abstract_name, clear),
		cmocka_unit_test_setup(a_reload_reports_the_time, clear),
		cmocka_unit_test_setup(children_do_not_see_it, clear),
		cmocka_unit_test_setup(the_watchdog_is_fed_twice_as_often, clear),
		cmocka_unit_test_setup(without_a_socket_nothing_is_sent, clear),
		cmocka_unit_test_setup(a_late_listener_gets_later_messages, clear),
		cmocka_unit_test_setup(a_listener_that_does_not_read_costs_little, clear),
	};
	struct buf b = BUF_FIXED(path);
	int failed;

	if (!mkdtemp(folder))
		return 1;
	buf_addf(&b, "%s/notify", folder);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(folder);
	return failed;
}
