/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing flight recorders: this rank's, or that of a peer that cannot write
 * it.
 */
#include "base/cancel.h"
#include "world/world.h"

#include <limits.h>

const struct symc_trace_ring *symc_world_ring(
    const struct symmcoll_world *world, int global_rank, size_t *nbytes)
{
    const struct symc_block_view *view = &world->peers[global_rank].view;

    *nbytes = view->layout.trace_nbytes;
    return view->block != NULL ? symc_block_trace(view) : NULL;
}

symmcoll_status_t symc_world_dump(const struct symmcoll_world *world,
    int global_rank, const char *path, uint32_t flags, const char *reason,
    const struct symc_trace_ras *ras)
{
    struct symc_trace_format format = symc_trace_format_get(world->config);
    char found[PATH_MAX];
    size_t nbytes;
    const struct symc_trace_ring *ring =
        symc_world_ring(world, global_rank, &nbytes);

    if (path == NULL) {
        symmcoll_status_t status = symc_trace_path(world->config, world->job,
            world->name, global_rank, found, sizeof(found));

        if (status != SYMMCOLL_OK)
            return status;
        path = found;
    }
    format.only_active = (flags & SYMMCOLL_TRACE_ONLY_ACTIVE) != 0;
    format.no_collectives = (flags & SYMMCOLL_TRACE_NO_COLLECTIVES) != 0;
    format.reason = reason;
    format.ras = ras;
    return symc_trace_write(ring, nbytes, path, &format);
}

static symmcoll_status_t dump_own(
    struct symmcoll_world *world, const char *path, uint32_t flags)
{
    if (world == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "trace_dump: expected a world, found NULL");
    if (!symc_world_is_mine(world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "trace_dump: expected the process that called init, found a fork "
            "of it");
    if ((flags & ~(uint32_t)(SYMMCOLL_TRACE_ONLY_ACTIVE |
                             SYMMCOLL_TRACE_NO_COLLECTIVES)) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "trace_dump: expected flags of enum symmcoll_trace_flags, found "
            "0x%x",
            flags);
    return symc_world_dump(world, world->rank, path, flags, NULL, NULL);
}

symmcoll_status_t symmcoll_trace_dump(
    struct symmcoll_world *world, const char *path, uint32_t flags)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = dump_own(world, path, flags);

    symc_cancel_restore(cancel);
    return status;
}
