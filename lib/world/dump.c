/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing out flight recorders: this rank's, or that of a peer who cannot.
 */
#include "base/cancel.h"
#include "world/world.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const struct symc_trace_ring *symc_world_ring(
    const struct symmcoll_world *world, int global_rank, size_t *nbytes)
{
    const struct symc_block_view *view = &world->peers[global_rank].view;

    *nbytes = view->layout.trace_nbytes;
    return symc_block_trace(view);
}

/* A process may have several worlds: all but the first-named add their name. */
static void append_world(const char *name, char *path, size_t nbytes)
{
    size_t length = strlen(path);

    if (strcmp(name, SYMC_WORLD_DEFAULT) == 0)
        return;
    snprintf(path + length, nbytes - length, ".%s", name);
    for (char *at = path + length; *at != '\0'; at++) {
        if (*at == '/')
            *at = '_';
    }
}

symmcoll_status_t symc_world_dump(const struct symmcoll_world *world,
    int global_rank, const char *path, uint32_t flags, const char *reason)
{
    const struct symc_config *config = world->config;
    struct symc_trace_format format = {.version = config->trace_version,
        .backend_name = config->trace_backend_name,
        .only_active = (flags & SYMMCOLL_TRACE_ONLY_ACTIVE) != 0,
        .no_collectives = (flags & SYMMCOLL_TRACE_NO_COLLECTIVES) != 0,
        .reason = reason};
    char found[PATH_MAX];
    size_t nbytes;
    const struct symc_trace_ring *ring =
        symc_world_ring(world, global_rank, &nbytes);

    if (path == NULL) {
        symmcoll_status_t status = symc_trace_path(
            config->trace_dump_file, global_rank, found, sizeof(found));

        if (status != SYMMCOLL_OK)
            return status;
        append_world(world->name, found, sizeof(found));
        path = found;
    }
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
    return symc_world_dump(world, world->rank, path, flags, NULL);
}

symmcoll_status_t symmcoll_trace_dump(
    struct symmcoll_world *world, const char *path, uint32_t flags)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = dump_own(world, path, flags);

    symc_cancel_restore(cancel);
    return status;
}
