/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where dumps go.
 */
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Make the folders of a path, all but the last component. */
static symmcoll_status_t make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
                "dump of the flight recorder: cannot make the folder %s", path);
        *slash = '/';
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_trace_path(
    const char *prefix, int rank, char *buffer, size_t nbytes)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    bool is_default = prefix == NULL || prefix[0] == '\0';
    int n;

    if (!is_default)
        n = snprintf(buffer, nbytes, "%s%d", prefix, rank);
    else if (cache != NULL && cache[0] == '/')
        n = snprintf(buffer, nbytes, "%s/symmcoll/trace_rank_%d", cache, rank);
    else if (home != NULL && home[0] == '/')
        n = snprintf(
            buffer, nbytes, "%s/.cache/symmcoll/trace_rank_%d", home, rank);
    else
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "dump of the flight recorder: expected a path in "
            "trace.dump_file, XDG_CACHE_HOME or HOME, found none");
    if (n < 0 || (size_t)n >= nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "dump of the flight recorder: expected a path below %zu bytes, "
            "found %d",
            nbytes, n);
    return is_default ? make_folders(buffer) : SYMMCOLL_OK;
}
