/* problems.c: see problems.h. */
#include "providers/cloudlycke/problems.h"

#include "base/alloc.h"

enum {
	PROBLEM_MAX = 900, /* bytes of one problem: it fits a struct error */
};

void
cl_problems_fini(struct cl_problems *p)
{
	for (size_t i = 0; i < p->n_kept; i++)
		free(p->kept[i].text);
	*p = CL_PROBLEMS_INIT(p->file);
}

/* Where a problem of that line belongs: behind those of the same line. */
static size_t
place_of(const struct cl_problems *p, int line)
{
	size_t i = p->n_kept;

	while (i > 0 && p->kept[i - 1].line > line)
		i--;
	return i;
}

static void
insert(struct cl_problems *p, size_t at, struct cl_problem problem)
{
	if (p->n_kept == ARRAY_LEN(p->kept))
		free(p->kept[--p->n_kept].text);
	memmove(&p->kept[at + 1], &p->kept[at], (p->n_kept - at) * sizeof(p->kept[0]));
	p->kept[at] = problem;
	p->n_kept++;
}

/* What we quoted is clean; what a parser says may not be. */
static void
drop_controls(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
	}
}

void
cl_problems_addv(struct cl_problems *p, int line, struct str path, const char *fmt, va_list args)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(PROBLEM_MAX);
	size_t at;

	if (line < 1)
		line = 1;
	p->n++;
	at = place_of(p, line);
	if (at == ARRAY_LEN(p->kept))
		return;
	buf_addf(&b, "%s:%d: ", p->file, line);
	if (path.len > 0)
		buf_addf(&b, "%" STR_FMT ": ", STR_ARG(path));
	buf_addv(&b, fmt, args);
	drop_controls(b.ptr);
	insert(p, at, (struct cl_problem){ line, buf_take(&b) });
}

void
cl_problems_add(struct cl_problems *p, int line, struct str path, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	cl_problems_addv(p, line, path, fmt, args);
	va_end(args);
}

void
cl_problems_text(const struct cl_problems *p, size_t most, struct buf *b)
{
	size_t n = p->n_kept < most ? p->n_kept : most;

	for (size_t i = 0; i < n; i++)
		buf_addf(b, "%s%s", i > 0 ? "; " : "", p->kept[i].text);
	if (p->n > n)
		buf_addf(b, " (and %zu more)", p->n - n);
}
