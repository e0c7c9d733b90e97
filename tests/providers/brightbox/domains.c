/* Do the names of a certificate lead to the balancer? Section "The desired load balancer" of
 * docs/spec/brightbox.md. */
#include "providers/brightbox/domains.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define V4 "203.0.113.1"
#define V6 "2a02:1348:ffff:ffff::cb00:7101"
#define NOT_RESOLVED(name) "Failed to resolve \"" name "\" to load balancer address (" V4 "," V6 ")"

/* ---- the resolver ---- */

/* What the name servers of "silent.test" and "held.test" wait for. A thread that waits for one of
 * them may still run in the next test, which therefore uses the other one. */
static sem_t silence, hold;
static atomic_uint n_lookups; /* of other names */

static struct sockaddr_in own4 = { .sin_family = AF_INET };
static struct sockaddr_in6 own6 = { .sin6_family = AF_INET6 };
static struct sockaddr_in other4 = { .sin_family = AF_INET };
static struct addrinfo leads_v4 = { .ai_family = AF_INET, .ai_addr = (void *)&own4 };
static struct addrinfo leads_v6 = { .ai_family = AF_INET6, .ai_addr = (void *)&own6 };
static struct addrinfo elsewhere = { .ai_family = AF_INET, .ai_addr = (void *)&other4 };
static struct addrinfo leads_too = { .ai_family = AF_INET,
	                             .ai_addr = (void *)&other4,
	                             .ai_next = &leads_v6 };

/* Replaces the C library's: the machine's own configuration is not used. */
int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
            struct addrinfo **ret)
{
	static const struct {
		const char *name;
		struct addrinfo *found;
	} rows[] = {
		{ "v4.test", &leads_v4 },
		{ "v6.test", &leads_v6 },
		{ "several.test", &leads_too },
		{ "elsewhere.test", &elsewhere },
	};

	(void)service;
	(void)hints;
	if (strcmp(name, "silent.test") == 0)
		sem_wait(&silence);
	else if (strcmp(name, "held.test") == 0)
		sem_wait(&hold);
	else
		n_lookups++;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(name, rows[i].name) == 0) {
			*ret = rows[i].found;
			return 0;
		}
	}
	return EAI_NONAME;
}

void
freeaddrinfo(struct addrinfo *all)
{
	(void)all;
}

static int
setup(void **state)
{
	(void)state;
	sem_init(&silence, 0, 0);
	sem_init(&hold, 0, 0);
	inet_pton(AF_INET, V4, &own4.sin_addr);
	inet_pton(AF_INET6, V6, &own6.sin6_addr);
	inet_pton(AF_INET, "198.51.100.1", &other4.sin_addr);
	return 0;
}

/* ---- the check ---- */

struct check {
	struct arena arena;
	struct call call;
	struct bb_cloud_ip ip;
	const char *hosts_file;
	struct error err;
};

static void
check_init(struct check *c)
{
	*c = (struct check){
		.call = { &clock_real, NULL, CLOCK_FOREVER, NULL },
		.ip = { .id = STR("cip-11111"), .public_ipv4 = STR(V4), .public_ipv6 = STR(V6) },
		.hosts_file = "",
	};
	c->call.arena = &c->arena;
	n_lookups = 0;
}

static void
check_fini(struct check *c)
{
	arena_fini(&c->arena);
}

#define CHECK(c)                            \
	CLEANUP(check_fini) struct check c; \
	check_init(&c)

/* Domains separated by commas. */
static bool
check_domains(struct check *c, const char *list)
{
	struct str domains[8];
	size_t n = 0;

	for (struct str one, rest = str_c(list); str_split(&rest, ',', &one);)
		domains[n++] = one;
	return bb_domains_check(&c->call, str_c(c->hosts_file), &c->ip, domains, list[0] ? n : 0,
	                        &c->err);
}

static void
check_good(struct check *c, const char *list)
{
	if (!check_domains(c, list))
		fail_msg("%s", c->err.msg);
}

static void
check_failed(struct check *c, const char *list, enum err_code code, const char *msg)
{
	assert_false(check_domains(c, list));
	assert_string_equal(c->err.msg, msg);
	assert_int_equal(c->err.code, code);
}

static void
a_domain_needs_one_address_of_the_cloud_ip(void **state)
{
	CHECK(c);

	(void)state;
	check_good(&c, "v4.test,v6.test,several.test");
	assert_int_equal(n_lookups, 3);
}

static void
addresses_are_compared_by_value(void **state)
{
	CHECK(c);

	(void)state;
	c.ip.public_ipv4 = STR("::ffff:" V4);
	c.ip.public_ipv6 = STR("2A02:1348:FFFF:FFFF:0000:0000:CB00:7101");
	check_good(&c, "v4.test,v6.test");
}

static void
a_domain_with_another_address_is_named(void **state)
{
	CHECK(c);

	(void)state;
	check_failed(&c, "elsewhere.test", ERR_INVALID, NOT_RESOLVED("elsewhere.test"));
}

static void
the_first_domain_without_an_address_is_named(void **state)
{
	CHECK(c);

	(void)state;
	check_failed(&c, "v4.test,nowhere.test,elsewhere.test", ERR_INVALID,
	             NOT_RESOLVED("nowhere.test") ": nowhere.test: Name or service not known");
	assert_int_equal(n_lookups, 2);
}

static void
a_domain_may_be_an_address(void **state)
{
	CHECK(c);

	(void)state;
	check_good(&c, V4 "," V6);
	check_failed(&c, "198.51.100.1", ERR_INVALID, NOT_RESOLVED("198.51.100.1"));
	assert_int_equal(n_lookups, 0);
}

static void
without_domains_nothing_is_looked_up(void **state)
{
	CHECK(c);

	(void)state;
	check_good(&c, "");
	assert_int_equal(n_lookups, 0);
}

static void
a_cloud_ip_needs_both_addresses(void **state)
{
	CHECK(c);

	(void)state;
	c.ip.public_ipv6 = STR_EMPTY;
	check_failed(&c, "v4.test", ERR_INVALID,
	             "Cloud IP \"cip-11111\" failed to parse IP addresses");
	c.ip.public_ipv6 = STR(V6);
	c.ip.public_ipv4 = STR("203.0.113");
	check_failed(&c, "v6.test", ERR_INVALID,
	             "Cloud IP \"cip-11111\" failed to parse IP addresses");
	assert_int_equal(n_lookups, 0);
}

/* ---- bounds ---- */

static void
a_silent_name_server_is_waited_for_until_the_deadline(void **state)
{
	CHECK(c);

	(void)state;
	c.call.deadline_mono_ns = clock_mono(&clock_real) + 20 * NS_PER_MS;
	assert_false(check_domains(&c, "silent.test"));
	sem_post(&silence);
	assert_int_equal(c.err.code, ERR_TIMEOUT);
	assert_non_null(strstr(c.err.msg, NOT_RESOLVED("silent.test") ": "));
	assert_null(strstr(c.err.msg, "within 10000 ms"));
}

static void
a_check_can_be_cancelled(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	CHECK(c);

	(void)state;
	c.call.cancel = cancel;
	cancel_fire(cancel);
	assert_false(check_domains(&c, "held.test"));
	sem_post(&hold);
	assert_int_equal(c.err.code, ERR_CANCELLED);
}

/* ---- the file of host names ---- */

static void
the_file_of_host_names_is_read_first(void **state)
{
	char path[] = "/tmp/ccmd-hosts-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	CHECK(c);

	(void)state;
	fputs("# a comment\n"
	      "198.51.100.7 other.test\n"
	      " " V4 "\tone.test  two.test\n"
	      "2a02:1348::7 three.test\n" V6 " three.test\n"
	      "nonsense four.test",
	      file);
	fclose(file);
	c.hosts_file = path;
	check_good(&c, "one.test,TWO.test,three.test");
	check_failed(&c, "other.test", ERR_INVALID, NOT_RESOLVED("other.test"));
	assert_int_equal(n_lookups, 0);
	check_good(&c, "v4.test");
	assert_int_equal(n_lookups, 1);
	check_failed(&c, "four.test", ERR_INVALID,
	             NOT_RESOLVED("four.test") ": four.test: Name or service not known");
	unlink(path);
	check_good(&c, "v4.test");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_domain_needs_one_address_of_the_cloud_ip),
		cmocka_unit_test(addresses_are_compared_by_value),
		cmocka_unit_test(a_domain_with_another_address_is_named),
		cmocka_unit_test(the_first_domain_without_an_address_is_named),
		cmocka_unit_test(a_domain_may_be_an_address),
		cmocka_unit_test(without_domains_nothing_is_looked_up),
		cmocka_unit_test(a_cloud_ip_needs_both_addresses),
		cmocka_unit_test(a_silent_name_server_is_waited_for_until_the_deadline),
		cmocka_unit_test(a_check_can_be_cancelled),
		cmocka_unit_test(the_file_of_host_names_is_read_first),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
