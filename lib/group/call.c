/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of a call.
 */
#include "group/call.h"

#include <string.h>

static const struct symmcoll_call default_call = SYMMCOLL_CALL_INIT;
const struct symc_sized symc_call_kind = {.name = "call",
    .macro = "SYMMCOLL_CALL_INIT",
    .defaults = &default_call,
    .nbytes = sizeof(default_call),
    .least = sizeof(default_call.size)};

symmcoll_status_t symc_group_read_call(
    const struct symmcoll_call *call, struct symc_op *op)
{
    struct symmcoll_call copy;

    if (call->size != sizeof(*call)) {
        symmcoll_status_t status = symc_sized_read(
            &symc_call_kind, symc_kind_name(op->kind), call, &copy);

        if (status != SYMMCOLL_OK)
            return status;
        call = &copy;
    }
    if (call->flags != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected flags of 0, found 0x%x", symc_kind_name(op->kind),
            call->flags);
    if (call->stream != NULL && op->memory == SYMC_MEMORY_HOST)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: a stream is for device memory, the buffers are in host memory",
            symc_kind_name(op->kind));
    if (call->stream != NULL)
        op->stream = call->stream;
    if (call->label != NULL)
        strncpy(op->label, call->label, sizeof(op->label) - 1);
    return symc_timeout_read(symc_kind_name(op->kind), call->timeout,
        op->timeout_ns, &op->timeout_ns);
}
