/* reference_pages.h: the pages made from what the linker lists, and from the table of endpoints. */
#ifndef CCMD_REFERENCE_PAGES_H
#define CCMD_REFERENCE_PAGES_H

#include "base/buf.h"

void metrics_reference(struct buf *out);
void events_reference(struct buf *out);
void endpoints_reference(struct buf *out);

#endif
