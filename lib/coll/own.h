/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on memory of the library, for other modules.
 */
#ifndef SYMC_COLL_OWN_H
#define SYMC_COLL_OWN_H

#include <symmcoll/collectives.h>

/* Like symmcoll_all_gather() of bytes, in host memory of the library: no driver
 * is queried for the place of the buffers. */
symmcoll_status_t symc_coll_gather_own(struct symmcoll_group *group, void *out,
    const void *in, size_t nbytes, const struct symmcoll_call *call,
    struct symmcoll_work **work);

#endif
