/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings that a world made now would have, each with its origin.
 * Manual: symmcoll.conf(5), symmcoll_config_each(3).
 */
#ifndef SYMMCOLL_CONFIG_H
#define SYMMCOLL_CONFIG_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

/* One setting.  Each text is one line, never NULL, and borrowed until the
 * callback returns. */
struct symmcoll_setting {
    const char *key;      /* "errors.blocking_wait" */
    const char *value;    /* in effect; as in a file, without quotes */
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
 * The same for one setting.  Errors: as above; INVALID also for an unknown key,
 * with the nearest one.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_get(const char *key, symmcoll_setting_fn fn,
    symmcoll_warning_fn warn, void *arg);

/*
 * Read one file without other files and the environment; warn is called for
 * each unknown key, with its line and the nearest key.
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
