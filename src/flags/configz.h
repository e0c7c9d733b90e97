/* configz.h: the configuration in effect, as /configz shows it: an object
 * CloudControllerManagerConfiguration with the Go framework's keys in its order
 * (docs/spec/framework.md, "Configuration endpoint").
 *
 * What is automatic here is a number there: it is shown as 0, unless whoever made the choice put it
 * into the options. There are no secrets in it: the command line has none.
 */
#ifndef CCMD_FLAGS_CONFIGZ_H
#define CCMD_FLAGS_CONFIGZ_H

#include "flags/options.h"

/** Appends the object; options is a const struct options *. From any thread, while nobody changes
 * the options. */
void configz_add(void *options, struct buf *json);

#endif
