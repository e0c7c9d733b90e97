#include "http/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct url
parse(const char *text)
{
	struct error err;
	struct url url;

	if (!url_parse(str_c(text), &url, &err))
		fail_msg("%s: %s", text, err.msg);
	return url;
}

static void
check(const char *text, const char *scheme, const char *host, int port, const char *path)
{
	struct url url = parse(text);

	if (!str_eq_c(url.scheme, scheme) || !str_eq_c(url.host, host) || url.port != port ||
	    !str_eq_c(url.path, path))
		fail_msg("%s: %" STR_FMT " %" STR_FMT " %d %" STR_FMT, text, STR_ARG(url.scheme),
		         STR_ARG(url.host), url.port, STR_ARG(url.path));
}

static void
check_refused(struct str text)
{
	struct url url = { .port = 77 };
	struct error err = { 0 };

	if (url_parse(text, &url, &err))
		fail_msg("%" STR_FMT " was taken", STR_ARG(text));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(url.port, 77);
}

static void
reads_urls(void **state)
{
	(void)state;
	check("https://api.example.com:6443", "https", "api.example.com", 6443, "");
	check("https://10.0.0.1", "https", "10.0.0.1", 443, "");
	check("http://localhost/", "http", "localhost", 80, "");
	check("HTTPS://API", "https", "API", 443, "");
	check("https://[::1]:6443/k8s/clusters/c-1/", "https", "::1", 6443, "/k8s/clusters/c-1");
	check("https://[fd00::1]", "https", "fd00::1", 443, "");
	check("https://h:/p//", "https", "h", 443, "/p");
	check("https://h?a=b", "https", "h", 443, "");
	check("https://h/p?a=/b#/c", "https", "h", 443, "/p");
	check("socks5://proxy", "socks5", "proxy", 1080, "");
	check("http://user:p@ss@proxy:3128", "http", "proxy", 3128, "");
	assert_true(parse("http://user:p@ss@proxy:3128").has_userinfo);
	assert_false(parse("http://proxy/@").has_userinfo);
}

static void
refuses_what_is_none(void **state)
{
	(void)state;
	check_refused(STR(""));
	check_refused(STR("api.example.com"));
	check_refused(STR("ftp://h"));
	check_refused(STR("https:/h"));
	check_refused(STR("https://"));
	check_refused(STR("https:///path"));
	check_refused(STR("https://:443"));
	check_refused(STR("https://u@"));
	check_refused(STR("https://h:0"));
	check_refused(STR("https://h:65536"));
	check_refused(STR("https://h:1x"));
	check_refused(STR("https://h:-1"));
	check_refused(STR("https://a:b:1"));
	check_refused(STR("https://::1"));
	check_refused(STR("https://[::1"));
	check_refused(STR("https://[::1]x"));
	check_refused(STR("https://[10.0.0.1]"));
	check_refused(STR("https://[fe80::1%25eth0]"));
	check_refused(STR("https://h\\x"));
	check_refused(STR("https://h%41"));
	check_refused(STR("https://h\xc3\xa4"));
	check_refused(STR("https://h /p"));
	check_refused(STR("https://h/p q"));
	check_refused(STR("https://h/\r\nX: y"));
	check_refused(STR("https://h\0/"));
	check_refused(STR("https://h/\x7f"));
}

static void
repeats_no_password(void **state)
{
	struct error err;
	struct url url;

	(void)state;
	assert_false(url_parse(STR("http://user:hunter2@proxy:x"), &url, &err));
	assert_null(strstr(err.msg, "hunter2"));
}

static void
escapes(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	(void)state;
	buf_add_c(&b, "/api");
	url_add_query(&b, "labelSelector", STR("a=b,c in (d)"));
	url_add_query(&b, "x", STR("-._~/\xc3\xa4\0"));
	assert_string_equal(b.ptr,
	                    "/api?labelSelector=a%3Db%2Cc%20in%20%28d%29&x=-._~%2F%C3%A4%00");
}

static void
check_no_proxy(const char *list, const char *host, int port, bool is_excluded)
{
	if (proxy_is_excluded(str_c(list), str_c(host), port) != is_excluded)
		fail_msg("\"%s\" and %s:%d: not %s", list, host, port,
		         is_excluded ? "excluded" : "proxied");
}

static void
no_proxy_is_read_as_go_does(void **state)
{
	(void)state;
	check_no_proxy("", "a.b", 443, false);
	check_no_proxy("*", "a.b", 443, true);
	check_no_proxy("x, *", "a.b", 443, true);
	check_no_proxy("a.b", "a.b", 443, true);
	check_no_proxy("A.B", "a.b", 443, true);
	check_no_proxy("a.b", "x.a.b", 443, true);
	check_no_proxy("a.b", "xa.b", 443, false);
	check_no_proxy(".a.b", "x.a.b", 443, true);
	check_no_proxy(".a.b", "a.b", 443, false);
	check_no_proxy("*.a.b", "x.a.b", 443, true);
	check_no_proxy("*.a.b", "a.b", 443, false);
	check_no_proxy("a.b:443", "a.b", 443, true);
	check_no_proxy("a.b:443", "a.b", 6443, false);
	check_no_proxy(" c , a.b ,", "a.b", 443, true);
	check_no_proxy("10.0.0.1", "10.0.0.1", 443, true);
	check_no_proxy("10.0.0.1:80", "10.0.0.1", 443, false);
	check_no_proxy("10.0.0.0/8", "10.1.2.3", 443, true);
	check_no_proxy("10.0.0.0/8", "11.1.2.3", 443, false);
	check_no_proxy("10.0.0.0/8", "ten.example", 443, false);
	check_no_proxy("fd00::/8", "fd12::1", 443, true);
	check_no_proxy("fd00::1", "fd00:0::1", 443, true);
	check_no_proxy("[fd00::1]:443", "fd00::1", 443, true);
	check_no_proxy("[fd00::1]", "fd00::1", 443, true);
	check_no_proxy("[fd00::1]:80", "fd00::1", 443, false);
	check_no_proxy(",,.", "a.b", 443, false);
	check_no_proxy("*.", "a.b", 443, false);
}

static const char *
proxy_of(const char *text)
{
	struct url url = parse(text);

	return proxy_from_environment(&url);
}

static void
asks_the_environment(void **state)
{
	(void)state;
	unsetenv("https_proxy");
	unsetenv("http_proxy");
	unsetenv("no_proxy");
	unsetenv("NO_PROXY");
	unsetenv("HTTP_PROXY");
	setenv("HTTPS_PROXY", "http://upper:1", 1);
	assert_string_equal(proxy_of("https://a.b"), "http://upper:1");
	assert_null(proxy_of("http://a.b"));
	setenv("https_proxy", "http://lower:1", 1);
	setenv("http_proxy", "http://plain:1", 1);
	assert_string_equal(proxy_of("https://a.b"), "http://lower:1");
	assert_string_equal(proxy_of("http://a.b"), "http://plain:1");
	setenv("https_proxy", "", 1);
	assert_string_equal(proxy_of("https://a.b"), "http://upper:1");
	assert_null(proxy_of("https://localhost:6443"));
	assert_null(proxy_of("https://127.0.0.2"));
	assert_null(proxy_of("https://[::1]"));
	setenv("NO_PROXY", "10.96.0.0/12", 1);
	assert_null(proxy_of("https://10.96.0.1"));
	assert_non_null(proxy_of("https://10.95.0.1"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_urls),
		cmocka_unit_test(refuses_what_is_none),
		cmocka_unit_test(repeats_no_password),
		cmocka_unit_test(escapes),
		cmocka_unit_test(no_proxy_is_read_as_go_does),
		cmocka_unit_test(asks_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
