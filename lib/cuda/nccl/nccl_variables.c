/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's own variables, in the environment and in the files that NCCL reads at its first
 * use.  The library needs them earlier, and reads them as NCCL does.  Variables that a
 * plugin of NCCL sets cannot be known.
 */
#include "base/descriptor.h"
#include "cuda/nccl/nccl.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OF_MACHINE "/etc/nccl.conf"
#define ENTRY_NBYTES 4096 /* of a passwd entry */

/* ---- files ---- */

/* Finds the first line that sets a variable, as NCCL never replaces a value. */
static bool find_in_file(
    const char *path, const char *name, struct symc_nccl_variable *found)
{
    FILE *file = symc_descriptor_read_file(path);
    char *line = NULL, *value;
    bool has = false;
    size_t size = 0;

    if (file == NULL)
        return false;
    for (int number = 1; !has && getline(&line, &size, file) > 0; number++) {
        value = strchr(line, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        if (strcmp(line, name) != 0)
            continue;
        value[strcspn(value, "\r\n")] = '\0';
        (void)snprintf(found->value, sizeof(found->value), "%s", value);
        (void)snprintf(found->path, sizeof(found->path), "%s", path);
        found->line = number;
        has = true;
    }
    free(line);
    (void)fclose(file);
    return has;
}

/* Finds the home directory as NCCL does: since 2.30 in the environment, before that in
 * the user database.  Returns false if there is none. */
static bool find_home(const struct symc_nccl *nccl,
    const char *(*get)(const char *name), char *buffer, size_t nbytes)
{
    char entry_text[ENTRY_NBYTES];
    struct passwd entry, *user = NULL;
    const char *home;

    if (nccl->version >= SYMC_NCCL_CODE(2, 30, 0)) {
        home = get("HOME");
    } else {
        (void)getpwuid_r(
            getuid(), &entry, entry_text, sizeof(entry_text), &user);
        home = user != NULL ? user->pw_dir : NULL;
    }
    return home != NULL && snprintf(buffer, nbytes, "%s", home) < (int)nbytes;
}

/* Finds the user's file: from 2.23 on NCCL_CONF_FILE may name another one. */
static bool find_users(const struct symc_nccl *nccl,
    const char *(*get)(const char *name), char *path, size_t nbytes)
{
    const char *named = nccl->version >= SYMC_NCCL_CODE(2, 23, 0)
                            ? get("NCCL_CONF_FILE")
                            : NULL;
    char home[PATH_MAX];

    if (named != NULL && named[0] != '\0')
        return snprintf(path, nbytes, "%s", named) < (int)nbytes;
    return find_home(nccl, get, home, sizeof(home)) &&
           snprintf(path, nbytes, "%s/.nccl.conf", home) < (int)nbytes;
}

bool symc_nccl_find_variable(const struct symc_nccl *nccl,
    const char *(*get)(const char *name), const char *name,
    struct symc_nccl_variable *found)
{
    const char *value = get(name);
    char path[PATH_MAX];

    *found = (struct symc_nccl_variable){.line = 0};
    if (value != NULL) {
        (void)snprintf(found->value, sizeof(found->value), "%s", value);
        return true;
    }
    return (find_users(nccl, get, path, sizeof(path)) &&
               find_in_file(path, name, found)) ||
           find_in_file(OF_MACHINE, name, found);
}

const char *symc_nccl_format_place(
    const struct symc_nccl_variable *found, char *buffer)
{
    buffer[0] = '\0';
    if (found->line > 0)
        (void)snprintf(
            buffer, SYMC_NCCL_PLACE, "%s:%d: ", found->path, found->line);
    return buffer;
}

/* ---- checks ---- */

symmcoll_status_t symc_nccl_check_variables(symc_nccl_fail_fn fail,
    const struct symc_nccl *nccl, const char *(*get)(const char *name))
{
    struct symc_nccl_variable found;
    char place[SYMC_NCCL_PLACE];

    /* NCCL parses a number, and accepts only 0 and 1. */
    if (!symc_nccl_find_variable(nccl, get, "NCCL_COMM_BLOCKING", &found) ||
        strtoll(found.value, NULL, 0) != 1)
        return SYMMCOLL_OK;
    return fail == NULL
               ? SYMMCOLL_ERR_CONFIG
               : fail(SYMMCOLL_ERR_CONFIG,
                     "%sNCCL_COMM_BLOCKING: expected it unset or 0, found %.16s, of "
                     "which calls of NCCL would block",
                     symc_nccl_format_place(&found, place), found.value);
}
