/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings as they are in effect here, each with its origin.
 * Manual: symmcoll.conf(5), symmcoll_config_each(3).
 */
#ifndef SYMMCOLL_CONFIG_H
#define SYMMCOLL_CONFIG_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

/* One setting.  All text is borrowed for the length of the call, one line each,
 * never NULL. */
struct symmcoll_setting {
    const char *key;      /* "errors.blocking_wait" */
    const char *value;    /* as the file would hold it, without quotes */
    const char *origin;   /* "built-in", "profile NAME", "FILE:LINE",
                             "environment NAME" */
    const char *help;     /* a sentence or two */
    const char *dflt;     /* the built-in value */
    const char *expected; /* "a size from 4KiB to 1MiB" */
    const char *variable; /* "SYMMCOLL_ERRORS_BLOCKING_WAIT" */
    const char *aliases;  /* further variables, separated by blanks; or "" */
};
typedef void (*symmcoll_setting_fn)(
    const struct symmcoll_setting *setting, void *arg);

/* Called with one line for each warning, such as an unknown key. */
typedef void (*symmcoll_warning_fn)(const char *line, void *arg);

/*
 * Read files and environment as symmcoll_init() would, and call fn for every
 * setting in the order of the manual page; warn may be NULL.
 *
 * Errors: INVALID (fn is NULL), CONFIG (a value: with origin, what was expected
 * and what was found), NO_MEMORY, SYSTEM (a file that cannot be read).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_each(
    symmcoll_setting_fn fn, symmcoll_warning_fn warn, void *arg);

/*
 * The same for one setting alone.  Errors: as above; INVALID also for a key
 * that is none, with the nearest one.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_get(const char *key, symmcoll_setting_fn fn,
    symmcoll_warning_fn warn, void *arg);

/*
 * Check one file alone, with no environment: warn gets each unknown key with
 * the nearest name and the line.
 *
 * Errors: INVALID (path is NULL), CONFIG (syntax, or a value), NO_MEMORY,
 * SYSTEM (the file cannot be read), UNSUPPORTED (the library was built without
 * libconfig).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_check(
    const char *path, symmcoll_warning_fn warn, void *arg);

SYMMCOLL_END_DECLS

#endif
