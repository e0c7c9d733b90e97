/* flags/configz.h: the configuration in effect, as /configz shows it: an object
 * CloudControllerManagerConfiguration with the Go framework's keys in its order
 * (docs/spec/framework.md, "Configuration endpoint").
 *
 * Values that are "auto" here are numbers in the Go programs. They are shown as 0, unless main has
 * put the chosen number into the options. The object has no secrets, because the command line has
 * none.
 */
#ifndef CCMD_FLAGS_CONFIGZ_H
#define CCMD_FLAGS_CONFIGZ_H

#include "flags/options.h"

/** Appends the object. options is a const struct options *. Any thread; nothing may change the
 * options meanwhile. */
void configz_add(void *options, struct buf *json);

#endif
