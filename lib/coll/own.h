/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of what modules of the library tell each other, in memory of their own.
 */
#ifndef SYMC_COLL_OWN_H
#define SYMC_COLL_OWN_H

#include <symmcoll/collectives.h>

/* symmcoll_all_gather() of bytes from and to the library's memory of the host: no
 * driver is asked where that is. */
symmcoll_status_t symc_coll_gather_own(struct symmcoll_group *group, void *out,
    const void *in, size_t nbytes, const struct symmcoll_call *call,
    struct symmcoll_work **work);

#endif
