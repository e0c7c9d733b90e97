#include "base/alloc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/log.h"

static void
free_is_enough(void **state)
{
	int *numbers = xcalloc(3, sizeof(*numbers));
	char *copy = xstrndup("worker-1", 6);
	char *whole = xstrdup("");

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(numbers[i], 0);
	numbers = xreallocarray(numbers, 1000, sizeof(*numbers));
	numbers[999] = 1;
	assert_string_equal(copy, "worker");
	assert_string_equal(whole, "");
	free(numbers);
	free(copy);
	free(whole);
}

static void
nothing_is_something(void **state)
{
	(void)state;
	void *memory[] = { xcalloc(0, 8), xmalloc(0), xreallocarray(NULL, 0, 4),
		           xstrndup(NULL, 0) };

	for (size_t i = 0; i < ARRAY_LEN(memory); i++)
		assert_non_null(memory[i]);
	memory[1] = xreallocarray(memory[1], 0, 4);
	for (size_t i = 0; i < ARRAY_LEN(memory); i++)
		free(memory[i]);
}

static volatile size_t huge = SIZE_MAX /
                              2; /* volatile: the compiler shall not warn of what we mean to do */

static void
overflow_calloc(void)
{
	free(xcalloc(huge, 4));
}

static void
overflow_realloc(void)
{
	free(xreallocarray(NULL, huge, 4));
}

static void
too_large(void)
{
	free(xmalloc(huge));
}

/* The child says why, on the pipe, and aborts. */
static void
check_aborts(void (*act)(void))
{
	char text[200] = "";
	int ends[2];
	pid_t child;
	int status;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(SIGABRT, SIG_DFL);
		log_set_fd(ends[1]);
		dup2(ends[1], 2); /* what a sanitizer has to say */
		act();
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	close(ends[0]);
	assert_int_not_equal(status, 0);
	if (HAS_SANITIZER)
		return; /* they end the process themselves */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(text, "error out of memory count="));
}

static void
no_memory_is_the_end(void **state)
{
	(void)state;
	check_aborts(overflow_calloc);
	check_aborts(overflow_realloc);
	check_aborts(too_large);
}

static void
arrays_grow(void **state)
{
	struct pair {
		int a, b;
	} *pairs = NULL;
	size_t n = 0;
	size_t cap = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		ARRAY_PUSH(pairs, n, cap, (struct pair){ i, -i });
	assert_int_equal(n, 100);
	assert_true(cap >= n && cap <= 2 * n);
	for (int i = 0; i < 100; i++)
		assert_true(pairs[i].a == i && pairs[i].b == -i);
	free(pairs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_is_enough),
		cmocka_unit_test(nothing_is_something),
		cmocka_unit_test(no_memory_is_the_end),
		cmocka_unit_test(arrays_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
