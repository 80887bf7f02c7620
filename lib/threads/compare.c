/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparing elements with those of one rank.
 */
#include "base/base.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>
#include <symmcoll/threads.h>

#include <string.h>

/* On the stack, so that no rank lacks the memory while others wait for it. */
#define CHUNK 16384

symmcoll_status_t symmcoll_compare(struct symmcoll_group *group,
    const void *buf, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, int *equal)
{
    _Alignas(64) char theirs[CHUNK];
    size_t elem = symmcoll_dtype_size(dtype), most;
    const char *mine = buf;
    int same = 1;

    if (group == NULL || equal == NULL || (buf == NULL && count > 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "compare: expected %s, found NULL",
            group == NULL   ? "a group"
            : equal == NULL ? "a place for the result"
                            : "elements");
    if (elem == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "compare: expected an element type of 0 to %d, found %d",
            SYMMCOLL_DTYPE_COUNT - 1, (int)dtype);
    most = CHUNK / elem;
    do {
        size_t n = count < most ? count : most;
        symmcoll_status_t status;

        memcpy(theirs, n > 0 ? mine : theirs, n * elem);
        status = symmcoll_broadcast(group, theirs, n, dtype, root, call, NULL);
        if (status != SYMMCOLL_OK)
            return status;
        same = same && memcmp(theirs, n > 0 ? mine : theirs, n * elem) == 0;
        mine += n * elem;
        count -= n;
    } while (count > 0);
    *equal = same;
    return SYMMCOLL_OK;
}
