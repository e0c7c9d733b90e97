/* base/words.c: see words.h. */
#include "base/words.h"

enum {
	MAX_DISTANCE = 3, /* a word that differs more is not considered a misspelling */
	MAX_LENGTH = 128, /* bytes of a word that are compared */
};

/* The number of insertions, deletions and replacements of a byte that turn a into b (Levenshtein's
 * distance). Only one row of the usual table is kept. */
static size_t
edit_distance(struct str a, struct str b)
{
	size_t row[MAX_LENGTH + 1];

	a = str_head(a, MAX_LENGTH);
	b = str_head(b, MAX_LENGTH);
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t replaced = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);

			diagonal = row[j];
			if (row[j] > row[j - 1])
				row[j] = row[j - 1];
			row[j] = row[j] + 1 < replaced ? row[j] + 1 : replaced;
		}
	}
	return row[b.len];
}

/* At most half of the letters of a word may differ, because short words are all similar. */
struct nearest
nearest_to(struct str word)
{
	size_t most = word.len / 2 < MAX_DISTANCE ? word.len / 2 : MAX_DISTANCE;

	return (struct nearest){ .word = word, .least = most + 1 };
}

void
nearest_compare(struct nearest *nearest, const char *known)
{
	size_t distance = edit_distance(nearest->word, str_c(known));

	if (distance < nearest->least) {
		nearest->least = distance;
		nearest->found = known;
	}
}

const char *
words_nearest(const char *const *list, struct str word)
{
	struct nearest nearest = nearest_to(word);

	for (; *list; list++)
		nearest_compare(&nearest, *list);
	return nearest.found;
}

bool
words_have(const char *const *list, struct str word)
{
	for (; list && *list; list++) {
		if (str_eq_c(word, *list))
			return true;
	}
	return false;
}
