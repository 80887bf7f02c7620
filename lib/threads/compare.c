/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparison of elements with those of one rank.
 */
#include "base/base.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>
#include <symmcoll/threads.h>

#include <inttypes.h>
#include <string.h>

/* On the stack, so that no rank can lack the memory while others wait for
 * it. */
#define CHUNK 16384

/* Checks that all ranks pass the same count, if this rank's has more than one
 * chunk; else a rank might wait for a chunk that another does not have. A rank
 * with one chunk does not call this; its broadcast does not match this
 * all_reduce. */
static symmcoll_status_t check_count(struct symmcoll_group *group, size_t count,
    const struct symmcoll_call *call)
{
    uint64_t limits[2] = {count, ~(uint64_t)count}, least;
    symmcoll_status_t status = symmcoll_all_reduce(
        group, limits, limits, 2, SYMMCOLL_UINT64, SYMMCOLL_MAX, call, NULL);

    least = ~limits[1];
    if (status != SYMMCOLL_OK || limits[0] == least)
        return status;
    return symc_fail(SYMMCOLL_ERR_MISMATCH,
        "compare: count differs: this rank passed %zu, the ranks of the group "
        "%" PRIu64 " to %" PRIu64,
        count, least, limits[0]);
}

symmcoll_status_t symmcoll_compare(struct symmcoll_group *group,
    const void *buf, size_t count, enum symmcoll_dtype dtype, int root,
    const struct symmcoll_call *call, int *equal)
{
    _Alignas(64) char theirs[CHUNK];
    size_t elem = symmcoll_dtype_size(dtype), most;
    const char *mine = buf;
    symmcoll_status_t status = SYMMCOLL_OK;
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
    if (root < 0 || root >= symmcoll_group_size(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "compare: expected a root of 0 to %d, found %d",
            symmcoll_group_size(group) - 1, root);
    most = CHUNK / elem;
    if (count > most)
        status = check_count(group, count, call);
    if (status != SYMMCOLL_OK)
        return status;
    do {
        size_t n = count < most ? count : most;

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
