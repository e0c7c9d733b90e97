/* base/banned.h: calls that cut, overflow, or depend on the locale become compile errors.
 *
 * Use struct buf, struct str, str_to_i64() and clock_*() in their place. The system headers that
 * declare the banned names are pulled in first, so that the poison does not hit their declarations.
 */
#ifndef CCMD_BASE_BANNED_H
#define CCMD_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* with _FORTIFY_SOURCE and clang these are macros */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strncpy strcat strncat stpcpy sprintf vsprintf gets strtok strtok_r
#pragma GCC poison atoi atol atoll atof strtod strtof strtold
#pragma GCC poison localtime localtime_r ctime ctime_r asctime asctime_r gmtime

#endif
