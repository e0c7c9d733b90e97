#include "base/resolve.h"

#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/thread.h"

static sem_t silence; /* what the name server of "silent.test" waits for */
static sem_t held;    /* … and that of "held.test" */

/* The addresses of all names, in the order of the resolver; several threads read them. */
static struct sockaddr_in6 loopback6 = { .sin6_family = AF_INET6,
	                                 .sin6_addr = IN6ADDR_LOOPBACK_INIT };
static struct sockaddr_in loopback4 = { .sin_family = AF_INET };
static struct addrinfo second = { .ai_family = AF_INET, .ai_addr = (void *)&loopback4 };
static struct addrinfo first = { .ai_family = AF_INET6,
	                         .ai_addr = (void *)&loopback6,
	                         .ai_next = &second };

/* Replaces the C library's: the machine's own configuration is not used. */
int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
            struct addrinfo **ret)
{
	(void)service;
	(void)hints;
	if (strcmp(name, "silent.test") == 0)
		sem_wait(&silence);
	else if (strcmp(name, "held.test") == 0)
		sem_wait(&held);
	else if (strcmp(name, "here.test") != 0)
		return EAI_NONAME;
	*ret = &first;
	return 0;
}

void
freeaddrinfo(struct addrinfo *all)
{
	(void)all;
}

static void
gives_all_addresses(void **state)
{
	struct ip ips[RESOLVE_MAX], v4, v6;
	struct error err;
	size_t n;

	(void)state;
	assert_true(ip_parse(STR("127.0.0.1"), &v4) && ip_parse(STR("::1"), &v6));
	assert_true(resolve_host(STR("here.test"), 5000, NULL, ips, &n, &err));
	assert_int_equal(n, 2);
	assert_true(ip_eq(&ips[0], &v6) && ip_eq(&ips[1], &v4));
}

static void
an_address_needs_no_resolver(void **state)
{
	struct ip ips[RESOLVE_MAX], v4;
	struct error err;
	size_t n;

	(void)state;
	assert_true(ip_parse(STR("192.0.2.1"), &v4));
	assert_true(resolve_host(STR("192.0.2.1"), 0, NULL, ips, &n, &err));
	assert_true(n == 1 && ip_eq(&ips[0], &v4));
}

static void
says_that_there_is_no_such_name(void **state)
{
	struct ip ips[RESOLVE_MAX];
	struct error err;
	size_t n;

	(void)state;
	assert_false(resolve_host(STR("nowhere.test"), 5000, NULL, ips, &n, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "nowhere.test: "));
}

static void
fail_silent_lookup(struct cancel *cancel, enum err_code code)
{
	struct ip ips[RESOLVE_MAX];
	struct error err;
	size_t n;

	assert_false(resolve_host(STR("silent.test"), 10, cancel, ips, &n, &err));
	assert_int_equal(err.code, code);
}

/* The threads that wait for the silent name server stay, up to their bound. */
static void
a_silent_name_server_holds_a_bounded_number_of_threads(void **state)
{
	(void)state;
	for (int i = 0; i < LIMIT_LOOKUPS; i++)
		fail_silent_lookup(NULL, ERR_TIMEOUT);
	fail_silent_lookup(NULL, ERR_UNAVAILABLE);
	for (int i = 0; i < LIMIT_LOOKUPS; i++)
		sem_post(&silence);
}

static void
can_be_cancelled(void **state)
{
	struct cancel *cancel = cancel_new();
	struct ip ips[RESOLVE_MAX];
	struct error err;
	size_t n;

	(void)state;
	cancel_fire(cancel);
	/* a thread of the test before may not have ended yet */
	do
		assert_false(resolve_host(STR("held.test"), 600000, cancel, ips, &n, &err));
	while (err.code == ERR_UNAVAILABLE);
	assert_int_equal(err.code, ERR_CANCELLED);
	sem_post(&held);
	cancel_free(cancel);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_all_addresses),
		cmocka_unit_test(an_address_needs_no_resolver),
		cmocka_unit_test(says_that_there_is_no_such_name),
		cmocka_unit_test(a_silent_name_server_holds_a_bounded_number_of_threads),
		cmocka_unit_test(can_be_cancelled),
	};

	sem_init(&silence, 0, 0);
	sem_init(&held, 0, 0);
	loopback4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
