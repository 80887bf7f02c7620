/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path and format of dumps, from the settings.
 */
#include "segment/block.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Creates the folders of a path beyond its first bytes; the last component is
 * the file. */
static symmcoll_status_t make_folders(char *path, size_t first)
{
    for (char *slash = strchr(path + first + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
                "dump of the flight recorder: cannot make the folder %s", path);
        *slash = '/';
    }
    return SYMMCOLL_OK;
}

/* Creates the cache folder of this library. A missing home folder is an error
 * and is not created. */
static symmcoll_status_t make_cache(char *path, const char *home)
{
    if (home == NULL)
        return make_folders(path, 0);
    if (access(home, F_OK) != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "dump of the flight recorder: the home folder %s", home);
    return make_folders(path, strlen(home));
}

struct symc_trace_format symc_trace_format_get(const struct symc_config *config)
{
    return (struct symc_trace_format){
        .version = config->trace_version,
        .syntax = config->trace_format == SYMC_TRACE_FORM_PICKLE
                      ? SYMC_TRACE_PICKLE
                      : SYMC_TRACE_JSON,
        .backend_name = config->trace_backend_name,
        .only_active = config->trace_only_active,
    };
}

/* Appends a string to a path, with '/' replaced by '_'. Returns as
 * snprintf(). */
static int append_name(const char *before, const char *name, char *path,
    size_t nbytes, size_t used)
{
    int n = snprintf(path + used, nbytes - used, "%s%s", before, name);

    for (char *at = path + used; *at != '\0'; at++)
        if (*at == '/')
            *at = '_';
    return n;
}

/* Appends the name of a world other than the default one: a process may have
 * several worlds. */
static int append_world(
    const char *name, char *path, size_t nbytes, size_t used)
{
    return strcmp(name, SYMC_WORLD_DEFAULT) == 0
               ? 0
               : append_name(".", name, path, nbytes, used);
}

symmcoll_status_t symc_trace_pipe_path(const struct symc_config *config,
    const char *world, int rank, char *buffer, size_t nbytes)
{
    int n = snprintf(buffer, nbytes, "%s%d", config->trace_dump_pipe, rank);

    if (n >= 0 && (size_t)n < nbytes)
        n += append_world(world, buffer, nbytes, (size_t)n);
    if (n >= 0 && (size_t)n < nbytes)
        n += snprintf(buffer + n, nbytes - (size_t)n, ".pipe");
    if (n >= 0 && (size_t)n < nbytes)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "expected a path below %zu bytes, found %d", nbytes, n);
}

symmcoll_status_t symc_trace_path(const struct symc_config *config,
    const char *job, const char *world, int rank, char *buffer, size_t nbytes)
{
    const char *prefix = config->trace_dump_file;
    const char *cache = symc_variable_get("XDG_CACHE_HOME");
    const char *home = symc_variable_get("HOME");
    bool is_default = prefix[0] == '\0';
    bool has_cache = cache != NULL && cache[0] == '/';
    int n;

    if (!is_default)
        n = snprintf(buffer, nbytes, "%s%d", prefix, rank);
    else if (has_cache)
        n = snprintf(buffer, nbytes, "%s/symmcoll/", cache);
    else if (home != NULL && home[0] == '/')
        n = snprintf(buffer, nbytes, "%s/.cache/symmcoll/", home);
    else
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "dump of the flight recorder: expected a path in "
            "trace.dump_file%s, found none",
            symc_process_is_privileged()
                ? " (with rights that its caller lacks a process reads no "
                  "environment)"
                : ", XDG_CACHE_HOME or HOME");
    if (is_default && n >= 0 && (size_t)n < nbytes)
        n += append_name("trace_", job, buffer, nbytes, (size_t)n);
    if (is_default && n >= 0 && (size_t)n < nbytes)
        n += snprintf(buffer + n, nbytes - (size_t)n, "_rank_%d", rank);
    if (n >= 0 && (size_t)n < nbytes)
        n += append_world(world, buffer, nbytes, (size_t)n);
    if (n < 0 || (size_t)n >= nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "dump of the flight recorder: expected a path below %zu bytes, "
            "found %d",
            nbytes, n);
    if (!is_default)
        return SYMMCOLL_OK;
    return make_cache(buffer, has_cache ? NULL : home);
}
