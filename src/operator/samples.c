/* operator/samples.c: see samples.h. */
#include "operator/samples.h"

#include "base/json.h"

enum {
	NUMBER_MAX = 40,
};

/* Finite numbers are those of JSON; "+Inf" and "NaN" are not wanted. */
static bool
parse_number(struct str text, double *ret)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error ignored;

	if (text.len > NUMBER_MAX || !json_parse(text, &doc, &ignored) ||
	    !yyjson_is_num(yyjson_doc_get_root(doc)))
		return false;
	*ret = yyjson_get_num(yyjson_doc_get_root(doc));
	return true;
}

/* "name 1", "name{a=\"b\"} 1". A value of a label may contain a blank or a brace. */
static bool
parse_sample(struct str line, struct sample *ret)
{
	ptrdiff_t brace = str_index(line, '{'), blank = str_index(line, ' ');
	ptrdiff_t end = (ptrdiff_t)line.len - 1;

	if (blank <= 0 || line.ptr[0] == '#')
		return false;
	while (line.ptr[end] != ' ')
		end--;
	*ret = (struct sample){ .name = str_head(line, (size_t)blank), .labels = STR_EMPTY };
	if (!parse_number(str_skip(line, (size_t)end + 1), &ret->value))
		return false;
	if (brace < 0 || brace > blank)
		return blank == end;
	ret->name = str_head(line, (size_t)brace);
	if (line.ptr[end - 1] != '}')
		return false;
	ret->labels = str_n(line.ptr + brace + 1, (size_t)(end - brace) - 2);
	return true;
}

bool
samples_next(struct str *rest, struct sample *ret)
{
	for (struct str line; str_split(rest, '\n', &line);) {
		if (parse_sample(line, ret))
			return true;
	}
	return false;
}

struct str
sample_label(const struct sample *sample, const char *label)
{
	struct str rest = sample->labels, name, value;

	while (str_cut(rest, '=', &name, &rest) && str_starts(rest, STR("\""))) {
		if (!str_cut(str_skip(rest, 1), '"', &value, &rest))
			break;
		if (str_eq_c(name, label))
			return value;
		if (!str_starts(rest, STR(",")))
			break;
		rest = str_skip(rest, 1);
	}
	return STR_EMPTY;
}

bool
samples_find(struct str text, const char *name, const char *label, struct str value, double *ret)
{
	struct sample sample;

	while (samples_next(&text, &sample)) {
		if (str_eq_c(sample.name, name) &&
		    (!label || str_eq(sample_label(&sample, label), value))) {
			*ret = sample.value;
			return true;
		}
	}
	return false;
}

double
samples_sum(struct str text, const char *name, const char *label, const char *begin, size_t *ret_n)
{
	struct sample sample;
	double sum = 0;
	size_t n = 0;

	while (samples_next(&text, &sample)) {
		if (!str_eq_c(sample.name, name) ||
		    (label && !str_starts(sample_label(&sample, label), str_c(begin))))
			continue;
		sum += sample.value;
		n++;
	}
	if (ret_n)
		*ret_n = n;
	return sum;
}
