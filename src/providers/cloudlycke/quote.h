/* quote.h: base/quote.h under this provider's names. */
#ifndef CCMD_CLOUDLYCKE_QUOTE_H
#define CCMD_CLOUDLYCKE_QUOTE_H

#include "base/quote.h"

static inline const char *
cl_q(struct arena *arena, struct str text)
{
	return quote_z(arena, text);
}

#endif
