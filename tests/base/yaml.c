#include "base/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/limits.h"

static struct arena arena;

static int
forget(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

static struct yaml_node
parse(struct str text)
{
	struct yaml_node root;
	struct error err = { 0 };
	int line = 0;

	if (!yaml_parse(text, &arena, &root, &line, &err))
		fail_msg("line %d: %s", line, err.msg);
	return root;
}

static void
check_refused(struct str text, int line, const char *msg)
{
	struct yaml_node root = { .line = 99 };
	struct error err = { 0 };
	int ret_line = -1;

	if (yaml_parse(text, &arena, &root, &ret_line, &err))
		fail_msg("%" STR_FMT " was taken", STR_ARG(text));
	assert_int_equal(err.code, ERR_INVALID);
	if (!strstr(err.msg, msg))
		fail_msg("%" STR_FMT ": %s", STR_ARG(text), err.msg);
	assert_int_equal(ret_line, line);
	assert_int_equal(root.line, 99);
	assert_false(yaml_parse(text, &arena, &root, /*ret_line=*/NULL, &err));
}

static void
check_scalar(const struct yaml_node *node, const char *text, int line)
{
	assert_non_null(node);
	assert_int_equal(node->kind, YAML_SCALAR);
	assert_true(str_eq_c(node->text, text));
	assert_int_equal(node->line, line);
}

static void
reads_a_tree_with_lines(void **state)
{
	struct yaml_node root = parse(STR("# a comment\n"
	                                  "kind: Inventory\n"
	                                  "machines:\n"
	                                  "  - name: a\n"
	                                  "    addresses: [x,\n"
	                                  "      y]\n"
	                                  "  - {name: b}\n"));
	const struct yaml_node *machines = yaml_get(&root, STR("machines")), *addresses;

	(void)state;
	assert_int_equal(root.kind, YAML_MAP);
	assert_int_equal(root.line, 2);
	assert_int_equal(root.n, 2);
	assert_true(str_eq(root.keys[1].text, STR("machines")));
	assert_int_equal(root.keys[1].line, 3);
	check_scalar(yaml_get(&root, STR("kind")), "Inventory", 2);
	assert_int_equal(machines->kind, YAML_LIST);
	assert_int_equal(machines->n, 2);
	check_scalar(yaml_get(&machines->items[0], STR("name")), "a", 4);
	addresses = yaml_get(&machines->items[0], STR("addresses"));
	assert_int_equal(addresses->n, 2);
	check_scalar(&addresses->items[0], "x", 5);
	check_scalar(&addresses->items[1], "y", 6);
	check_scalar(yaml_get(&machines->items[1], STR("name")), "b", 7);
	assert_null(yaml_get(&root, STR("nothing")));
	assert_null(yaml_get(machines, STR("name")));
}

static void
reads_json(void **state)
{
	struct yaml_node root =
		parse(STR("{\"a\": [1, true, null, \"x\\u00e9\\/\"],\n\t\"b\": {}, \"c\": []}"));
	const struct yaml_node *a = yaml_get(&root, STR("a"));

	(void)state;
	assert_int_equal(a->n, 4);
	assert_string_equal(yaml_kind_name(&a->items[0]), "number");
	assert_string_equal(yaml_kind_name(&a->items[1]), "boolean");
	assert_string_equal(yaml_kind_name(&a->items[2]), "null");
	check_scalar(&a->items[3], "x\xc3\xa9/", 1);
	assert_int_equal(yaml_get(&root, STR("b"))->kind, YAML_MAP);
	assert_int_equal(yaml_get(&root, STR("b"))->n, 0);
	assert_int_equal(yaml_get(&root, STR("c"))->kind, YAML_LIST);
}

static void
an_empty_text_is_null(void **state)
{
	(void)state;
	assert_int_equal(parse(STR("")).kind, YAML_NULL);
	assert_int_equal(parse(STR("# only a comment\n")).kind, YAML_NULL);
	assert_int_equal(parse(STR("---\n")).kind, YAML_NULL);
	assert_int_equal(parse(STR("--- ~\n...\n")).kind, YAML_NULL);
	assert_int_equal(parse(STR("\xef\xbb\xbf")).kind, YAML_NULL);
}

static void
takes_a_byte_order_mark(void **state)
{
	struct yaml_node root = parse(STR("\xef\xbb\xbf\x61: 1\n"));

	(void)state;
	check_scalar(yaml_get(&root, STR("a")), "1", 1);
}

static void
keeps_the_text_of_scalars(void **state)
{
	struct yaml_node root = parse(STR(
		"a: 007\nb: 'it''s'\nc: \"x\\ty\\0\"\nd: |\n  two\n  lines\ne: >-\n  one\n  line\n"));

	(void)state;
	check_scalar(yaml_get(&root, STR("a")), "007", 1);
	assert_false(yaml_get(&root, STR("a"))->is_quoted);
	check_scalar(yaml_get(&root, STR("b")), "it's", 2);
	assert_true(yaml_get(&root, STR("b"))->is_quoted);
	assert_true(str_eq(yaml_get(&root, STR("c"))->text, STR("x\ty\0")));
	check_scalar(yaml_get(&root, STR("d")), "two\nlines\n", 4);
	assert_true(yaml_get(&root, STR("d"))->is_quoted);
	check_scalar(yaml_get(&root, STR("e")), "one line", 7);
}

static void
duplicate_and_merge_keys_are_ordinary(void **state)
{
	struct yaml_node root = parse(STR("a: 1\na: 2\n<<: {b: 3}\n~: 4\n"));

	(void)state;
	assert_int_equal(root.n, 4);
	assert_true(str_eq(root.keys[0].text, root.keys[1].text));
	assert_int_equal(root.keys[1].line, 2);
	check_scalar(yaml_get(&root, STR("a")), "1", 1);
	assert_null(yaml_get(&root, STR("b")));
	check_scalar(yaml_get(yaml_get(&root, STR("<<")), STR("b")), "3", 3);
	check_scalar(yaml_get(&root, STR("~")), "4", 4);
}

static void
check_kind(struct str text, const char *name)
{
	struct yaml_node root = parse(text);

	if (strcmp(yaml_kind_name(&root), name) != 0)
		fail_msg("%" STR_FMT " is a %s", STR_ARG(text), yaml_kind_name(&root));
}

static void
names_kinds(void **state)
{
	(void)state;
	check_kind(STR("[]"), "list");
	check_kind(STR("a: 1"), "map");
	check_kind(STR("~"), "null");
	check_kind(STR("NULL"), "null");
	check_kind(STR("''"), "string");
	check_kind(STR("'null'"), "string");
	check_kind(STR("'1'"), "string");
	check_kind(STR("\"true\""), "string");
	check_kind(STR("true"), "boolean");
	check_kind(STR("False"), "boolean");
	check_kind(STR("tRUE"), "string");
	check_kind(STR("on"), "string");
}

static void
names_numbers(void **state)
{
	(void)state;
	check_kind(STR("0"), "number");
	check_kind(STR("-12"), "number");
	check_kind(STR("+1.5e-3"), "number");
	check_kind(STR(".5"), "number");
	check_kind(STR("5."), "number");
	check_kind(STR("0x1F"), "number");
	check_kind(STR("0o17"), "number");
	check_kind(STR("-.inf"), "number");
	check_kind(STR(".NaN"), "number");
	check_kind(STR("."), "string");
	check_kind(STR("1e"), "string");
	check_kind(STR("1e+"), "string");
	check_kind(STR("0x"), "string");
	check_kind(STR("0o8"), "string");
	check_kind(STR("1.2.3"), "string");
	check_kind(STR("10%"), "string");
	check_kind(STR("250ms"), "string");
	check_kind(STR("-"), "list");
}

static void
tags_say_how_to_read(void **state)
{
	(void)state;
	check_kind(STR("!!str 5"), "string");
	check_kind(STR("! 5"), "string");
	check_kind(STR("!!str"), "string");
	check_kind(STR("!!int '5'"), "number");
	check_kind(STR("!!bool 'true'"), "boolean");
	check_kind(STR("!!null ''"), "null");
}

static void
check_bool(struct str text, bool core, bool yaml11, bool expected)
{
	struct yaml_node root = parse(text);
	bool value = !expected;

	assert_int_equal(yaml_to_bool(&root, /*allow_yaml11=*/false, &value), core);
	assert_int_equal(value, core ? expected : !expected);
	value = !expected;
	assert_int_equal(yaml_to_bool(&root, /*allow_yaml11=*/true, &value), yaml11);
	assert_int_equal(value, yaml11 ? expected : !expected);
}

static void
reads_booleans(void **state)
{
	(void)state;
	check_bool(STR("true"), true, true, true);
	check_bool(STR("TRUE"), true, true, true);
	check_bool(STR("False"), true, true, false);
	check_bool(STR("On"), false, true, true);
	check_bool(STR("oFF"), false, true, false);
	check_bool(STR("yes"), false, true, true);
	check_bool(STR("no"), false, true, false);
	check_bool(STR("'true'"), false, false, true);
	check_bool(STR("\"on\""), false, false, true);
	check_bool(STR("1"), false, false, true);
	check_bool(STR("~"), false, false, true);
	check_bool(STR("[true]"), false, false, true);
}

static void
reports_the_line_of_a_mistake(void **state)
{
	(void)state;
	check_refused(STR("a: 1\nb: [1, 2\nc: 3\n"), 3, "did not find expected ',' or ']'");
	check_refused(STR("a: 1\n b: 2\n"), 2, "mapping values are not allowed");
	check_refused(STR("a: 1\n\tb: 2\n"), 2, "found a tab character");
	check_refused(STR("a:\n  - 'x\n"), 3, "unexpected end of stream");
	check_refused(STR("a\n---\nb\n"), 2, "more than one document");
}

static void
refuses_aliases_and_anchors(void **state)
{
	(void)state;
	check_refused(STR("a: 1\nb: &x 2\n"), 2, "anchors and aliases");
	check_refused(STR("a: 1\nb: &x [2]\n"), 2, "anchors and aliases");
	check_refused(STR("\n&x {}\n"), 2, "anchors and aliases");
	check_refused(STR("&x a: 1\n"), 1, "anchors and aliases");
	check_refused(STR("b: *x\n"), 1, "anchors and aliases");
	check_refused(STR("*x : 1\n"), 1, "anchors and aliases");
}

static void
refuses_tags_and_strange_keys(void **state)
{
	(void)state;
	check_refused(STR("a: !custom 1\n"), 1, "tag !custom");
	check_refused(STR("a:\n  !!binary aGk=\n"), 2, "tag tag:yaml.org,2002:binary");
	check_refused(STR("!!map {}\n"), 1, "tag tag:yaml.org,2002:map");
	check_refused(STR("!!set [a]\n"), 1, "tag tag:yaml.org,2002:set");
	check_refused(STR("!x a: 1\n"), 1, "tag !x");
	check_refused(STR("[a]: 1\n"), 1, "a key is not a plain text");
	check_refused(STR("\n? {b: 1}\n: 1\n"), 2, "a key is not a plain text");
}

static void
refuses_other_encodings(void **state)
{
	(void)state;
	check_refused(STR("\xff\xfe\x61\0"), 1, "UTF-16");
	check_refused(STR("\xfe\xff\0a"), 1, "UTF-16");
	check_refused(STR("a\0b\0"), 1, "control characters");
	check_refused(STR("a: b\nc: \0\n"), 2, "control characters");
	check_refused(STR("a: b\nc:\n \xff\n"), 3, "UTF-8");
}

static void
bounds_the_depth(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));

	(void)state;
	for (int i = 0; i < LIMIT_YAML_DEPTH; i++)
		buf_add_char(&b, '[');
	for (int i = 0; i < LIMIT_YAML_DEPTH; i++)
		buf_add_char(&b, ']');
	assert_int_equal(parse(buf_str(&b)).kind, YAML_LIST);
	buf_reset(&b);
	for (int i = 0; i < 5000; i++)
		buf_add_char(&b, '[');
	check_refused(buf_str(&b), 1, "nested deeper than 32");
	buf_reset(&b);
	for (int i = 0; i < LIMIT_YAML_DEPTH + 1; i++)
		buf_addf(&b, "%*sa:\n", i, "");
	check_refused(buf_str(&b), 33, "nested deeper than 32");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(reads_a_tree_with_lines, forget),
		cmocka_unit_test_teardown(reads_json, forget),
		cmocka_unit_test_teardown(an_empty_text_is_null, forget),
		cmocka_unit_test_teardown(takes_a_byte_order_mark, forget),
		cmocka_unit_test_teardown(keeps_the_text_of_scalars, forget),
		cmocka_unit_test_teardown(duplicate_and_merge_keys_are_ordinary, forget),
		cmocka_unit_test_teardown(names_kinds, forget),
		cmocka_unit_test_teardown(names_numbers, forget),
		cmocka_unit_test_teardown(tags_say_how_to_read, forget),
		cmocka_unit_test_teardown(reads_booleans, forget),
		cmocka_unit_test_teardown(reports_the_line_of_a_mistake, forget),
		cmocka_unit_test_teardown(refuses_aliases_and_anchors, forget),
		cmocka_unit_test_teardown(refuses_tags_and_strange_keys, forget),
		cmocka_unit_test_teardown(refuses_other_encodings, forget),
		cmocka_unit_test_teardown(bounds_the_depth, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
