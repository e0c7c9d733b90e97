/* base/words.h: lists of known words, such as flags, fields and annotations. For a word that is not
 * in its list, the word that was probably meant.
 *
 * Threads: any; the functions have no state.
 */
#ifndef CCMD_BASE_WORDS_H
#define CCMD_BASE_WORDS_H

#include "base/str.h"

/** Is the word in the list, which ends with NULL, or is NULL? */
bool words_have(const char *const *list, struct str word);
/** The word of the list that was probably meant. NULL: all of them are too different. */
const char *words_nearest(const char *const *list, struct str word);

/** The same for words that are not in such a list: they are compared one by one. */
struct nearest {
	struct str word;
	size_t least;      /* the distance of `found`; at first, one that is too large */
	const char *found; /* NULL: none yet */
};
struct nearest nearest_to(struct str word);
void nearest_compare(struct nearest *, const char *known);

#endif
