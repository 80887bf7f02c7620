/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings that symmcoll_init() would read now, each with its origin.
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
    const char *value;    /* in effect; in the syntax of the file, unquoted */
    const char *origin;   /* "built-in", "profile NAME", "FILE:LINE",
                             "environment NAME" */
    const char *help;     /* a few sentences */
    const char *dflt;     /* the default */
    const char *expected; /* "a size from 4KiB to 1MiB" */
    const char *variable; /* "SYMMCOLL_ERRORS_BLOCKING_WAIT" */
    const char *aliases;  /* other variables, separated by blanks; or "" */
};
typedef void (*symmcoll_setting_fn)(
    const struct symmcoll_setting *setting, void *arg);

/* Called with one line for each warning, such as an unknown key. */
typedef void (*symmcoll_warning_fn)(const char *line, void *arg);

/*
 * Reads the files and the environment as symmcoll_init() would, and calls fn
 * for each setting in the order of the manual page; warn may be NULL.
 *
 * Errors: INVALID (fn is NULL), CONFIG (a bad value: the detail has its origin,
 * what was expected and what was found), NO_MEMORY, SYSTEM (an unreadable
 * file).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_each(
    symmcoll_setting_fn fn, symmcoll_warning_fn warn, void *arg);

/*
 * Reads the settings as symmcoll_config_each() does, and calls fn for one of
 * them.
 *
 * Errors: INVALID (an unknown key: the detail suggests the nearest one; key or
 * fn is NULL), and those of symmcoll_config_each().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_get(const char *key, symmcoll_setting_fn fn,
    symmcoll_warning_fn warn, void *arg);

/*
 * Reads one file, without other files and without the environment, and calls
 * warn for each unknown key, with its line and the nearest key.
 *
 * Errors: INVALID (path is NULL), CONFIG (a syntax error or a bad value),
 * NO_MEMORY, SYSTEM (the file cannot be read), UNSUPPORTED (the library was
 * built without libconfig).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_config_check(
    const char *path, symmcoll_warning_fn warn, void *arg);

SYMMCOLL_END_DECLS

#endif
