/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers in memory that is no more.
 */
#include "coll/coll.h"

symmcoll_status_t symc_coll_refuse_lost(
    const struct symc_op *op, const char *buffer, const void *at)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s in memory of the host or of a device, found %p, which "
        "is in neither: it may have been freed",
        symc_kind_name(op->kind), buffer, at);
}
