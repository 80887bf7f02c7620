/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of which operations use NCCL. */
#ifndef T_NCCL_BY_H
#define T_NCCL_BY_H

#include "t/cuda/members.h"
#include "t/nccl/named.h"

#define SIZE 3
#define MIN 1000                         /* bytes, as the tests set the limit */
#define ELEMENTS (MIN / sizeof(int32_t)) /* a count of elements of four bytes */

/* Checks whether a rank's latest collective used NCCL; threads share one NCCL,
 * and all have called it by now. */
static inline int was_by(int before, bool nccl, const char *what)
{
    int found = enqueued() - before;

    if (nccl ? found == 1 || found == SIZE : found == 0)
        return 1;
    diag("%s: expected it %s NCCL, found %d calls", what,
        nccl ? "by" : "without", found);
    return 0;
}

/* Checks whether a collective uses NCCL, and that it has the bits of host
 * memory. */
static inline int right_by(struct symmcoll_group *group, int rank,
    const struct collective *one, bool nccl)
{
    int before = enqueued();
    int right = same_as_host(group, rank, one);

    return was_by(before, nccl, symc_kind_name(one->kind)) && right;
}

#endif
