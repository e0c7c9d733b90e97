/* tests/stopper.c: signals while the program starts. */
#include "stopper.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cancel.h"
#include "base/thread.h"

static void
a_start_without_a_signal_continues(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct stopper *stopper = stopper_new(cancel);

	(void)state;
	assert_false(stopper_free(stopper));
	assert_false(cancel_is_fired(cancel));
	assert_false(stopper_free(NULL));
}

static void
a_signal_ends_the_wait_of_the_start(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
		struct stopper *stopper = stopper_new(cancel);
		struct error err;

		kill(getpid(), signals[i]);
		assert_false(cancel_sleep(cancel, &clock_real, 10 * NS_PER_SEC, &err));
		assert_int_equal(err.code, ERR_CANCELLED);
		assert_true(stopper_free(stopper));
	}
}

/* SIGHUP is for the loop. */
static void
other_signals_wait(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	struct stopper *stopper = stopper_new(cancel);
	sigset_t pending;

	(void)state;
	kill(getpid(), SIGHUP);
	assert_false(stopper_free(stopper));
	sigpending(&pending);
	assert_true(sigismember(&pending, SIGHUP));
}

static void
a_start_that_does_not_listen_is_ended(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		(void)stopper_new(cancel_new());
		kill(getpid(), SIGTERM);
		for (;;)
			pause();
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_without_a_signal_continues),
		cmocka_unit_test(a_signal_ends_the_wait_of_the_start),
		cmocka_unit_test(other_signals_wait),
		cmocka_unit_test(a_start_that_does_not_listen_is_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
