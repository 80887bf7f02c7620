/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts tensors, small ones together: their elements are copied one after
 * the other into a staging buffer, and from it on the other ranks.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdlib.h>

/* Copies the tensors from first up to last (exclusive) to the staging buffer,
 * or, if spread, from it.  A dense tensor is one piece, in whatever order its
 * elements are, because all ranks have the same strides. */
static symmcoll_status_t copy_run(const struct symc_site *site,
    const struct symc_param *tensors, int first, int last, bool spread,
    const struct symc_ddp_staging *staging)
{
    struct symc_local_pieces dense = {
        .buffer = staging->buffer, .pieces = staging->pieces, .spread = spread};
    symmcoll_status_t status = SYMMCOLL_OK;
    size_t offset = 0;

    for (int i = first; status == SYMMCOLL_OK && i < last; i++) {
        const struct symc_param *tensor = &tensors[i];
        char *at = staging->buffer + offset;

        if (tensor->dense)
            staging->pieces[dense.n++] = (struct symc_local_piece){
                tensor->tensor.data, offset, tensor->nbytes};
        else
            status = spread ? symc_param_unpack(site, tensor, at)
                            : symc_param_pack(site, tensor, at);
        offset += tensor->nbytes;
    }
    return status == SYMMCOLL_OK ? symc_site_move_pieces(site, &dense) : status;
}

/* Broadcasts the tensors from first up to last (exclusive), nbytes in all,
 * through the staging buffer. */
static symmcoll_status_t broadcast_run(const struct symmcoll_reducer *reducer,
    const struct symc_param *tensors, int first, int last, size_t nbytes,
    int root, const struct symc_ddp_staging *staging)
{
    bool is_root = symmcoll_group_rank(reducer->group) == root;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (is_root)
        status = copy_run(reducer->site, tensors, first, last, false, staging);
    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_broadcast(reducer->group, staging->buffer, nbytes,
        SYMMCOLL_UINT8, root, NULL, NULL);
    return status == SYMMCOLL_OK && !is_root
               ? copy_run(reducer->site, tensors, first, last, true, staging)
               : status;
}

symmcoll_status_t symc_broadcast_tensors(const struct symmcoll_reducer *reducer,
    const struct symc_param *tensors, int n, int root,
    const struct symc_ddp_staging *staging)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; status == SYMMCOLL_OK && i < n;) {
        size_t used = 0;
        int last = i;

        while (last < n && tensors[last].nbytes <= staging->room - used)
            used += tensors[last++].nbytes;
        if (last > i) {
            status =
                broadcast_run(reducer, tensors, i, last, used, root, staging);
            i = last;
        } else {
            status = symmcoll_broadcast(reducer->group, tensors[i].tensor.data,
                tensors[i].nbytes, SYMMCOLL_UINT8, root, NULL, NULL);
            i++;
        }
    }
    return status;
}

symmcoll_status_t symc_ddp_staging_open(const char *what,
    struct symc_site *site, const struct symc_param *tensors, int n,
    size_t nbytes, struct symc_ddp_staging *staging)
{
    size_t total = 0, largest = 0;
    void *buffer = NULL;
    symmcoll_status_t status;

    staging->pieces = symc_alloc((size_t)n, sizeof(*staging->pieces));
    if (staging->pieces == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < n; i++) {
        size_t own = tensors[i].nbytes;

        if (!symc_add(total, own, &total))
            total = SIZE_MAX;
        /* A large dense tensor is broadcast in place. */
        if (own > largest && !(own >= nbytes && tensors[i].dense))
            largest = own;
    }
    staging->room = nbytes > largest ? nbytes : largest;
    status = symc_site_alloc(
        what, site, total < staging->room ? total : staging->room, 1, &buffer);
    staging->buffer = buffer;
    return status;
}

void symc_ddp_staging_close(
    struct symc_site *site, struct symc_ddp_staging *staging)
{
    free(staging->pieces);
    symc_site_release(site, staging->buffer);
    *staging = (struct symc_ddp_staging){0};
}
