/* base/banned.h: turns calls that truncate, overflow or depend on the locale into compile errors.
 *
 * Use struct buf, struct str, str_to_i64() and clock_*() instead. The system headers that declare
 * the banned names are included first, because the poison would also reject their declarations.
 *
 * Threads: not relevant; this header acts at compile time only.
 */
#ifndef CCMD_BASE_BANNED_H
#define CCMD_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* With _FORTIFY_SOURCE and clang these names are macros. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strncpy strcat strncat stpcpy sprintf vsprintf gets strtok strtok_r
#pragma GCC poison atoi atol atoll atof strtod strtof strtold
#pragma GCC poison localtime localtime_r ctime ctime_r asctime asctime_r gmtime

#endif
