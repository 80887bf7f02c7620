/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on symmetric memory: the input is copied to the group's workspace
 * and the result from there, as for a framework with tensors elsewhere.
 */
#include "perf_device.h"

#include <string.h>

#define PAGE ((size_t)4096)

/* Opens the workspace with room for nbytes. */
static symmcoll_status_t open_workspace(
    const struct perf_case *it, size_t nbytes, char **data)
{
    struct perf_rank *rank = it->rank;
    symmcoll_status_t status = SYMMCOLL_OK;
    void *buffer;

    if (rank->symm == NULL || rank->symm_group != rank->group ||
        rank->symm_nbytes < nbytes) {
        symmcoll_symm_release(rank->symm);
        rank->symm = NULL;
        status =
            symmcoll_symm_workspace(rank->group, nbytes, NULL, &rank->symm);
        if (status != SYMMCOLL_OK)
            return status;
        rank->symm_nbytes = nbytes;
        rank->symm_group = rank->group;
    }
    status = symmcoll_symm_buffer(
        rank->symm, symmcoll_group_rank(rank->group), 0, nbytes, &buffer);
    *data = buffer;
    return status;
}

static size_t part_nbytes(const struct perf_case *it)
{
    return it->count * symmcoll_dtype_size(it->dtype);
}

symmcoll_status_t perf_run_one_shot(const struct perf_case *it)
{
    char *data;
    symmcoll_status_t status = open_workspace(it, part_nbytes(it), &data);

    return status != SYMMCOLL_OK
               ? status
               : symmcoll_symm_one_shot_all_reduce_copy(it->rank->symm, 0,
                     it->out, it->in, it->count, it->dtype, it->op, NULL);
}

symmcoll_status_t perf_run_two_shot(const struct perf_case *it)
{
    char *data;
    symmcoll_status_t status = open_workspace(it, part_nbytes(it), &data);

    if (status != SYMMCOLL_OK)
        return status;
    if (it->count > 0)
        memcpy(data, it->in, part_nbytes(it));
    return symmcoll_symm_two_shot_all_reduce(
        it->rank->symm, 0, it->out, it->count, it->dtype, it->op, NULL);
}

symmcoll_status_t perf_run_symm_reduce_scatter(const struct perf_case *it)
{
    size_t size = (size_t)it->rank->size;
    char *data;
    symmcoll_status_t status =
        open_workspace(it, size * part_nbytes(it), &data);

    if (status != SYMMCOLL_OK)
        return status;
    if (it->count > 0)
        memcpy(data, it->in, size * part_nbytes(it));
    return symmcoll_symm_reduce_scatter(it->rank->symm, 0, it->out,
        size * it->count, 1, 0, it->dtype, it->op, NULL);
}

symmcoll_status_t perf_run_symm_all_gather(const struct perf_case *it)
{
    size_t nbytes = (size_t)it->rank->size * part_nbytes(it);
    char *data;
    symmcoll_status_t status = open_workspace(it, nbytes, &data);

    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_all_gather(
            it->rank->symm, 0, it->in, it->count, it->dtype, NULL);
    if (status == SYMMCOLL_OK && nbytes > 0)
        memcpy(it->out, data, nbytes);
    return status;
}

/* Runs on a device, with the workspace there. */
symmcoll_status_t perf_run_intra_node(const struct perf_case *it)
{
    const struct perf_rank *rank = it->rank;
    char *data;
    symmcoll_status_t status = open_workspace(it, part_nbytes(it), &data);

    if (status != SYMMCOLL_OK)
        return status;
    if (!perf_device_copy(rank->device, it->out, it->in, part_nbytes(it)))
        return SYMMCOLL_ERR_DEVICE;
    return symmcoll_symm_intra_node_all_reduce(
        rank->symm, it->out, it->count, it->dtype, it->op, rank->call);
}

/* Exchanges pieces of equal size, whose sizes are read all the same.  A row is
 * an element. */
symmcoll_status_t perf_run_all_to_all_vdev(const struct perf_case *it)
{
    struct symmcoll_symm_exchange exchange = SYMMCOLL_SYMM_EXCHANGE_INIT;
    size_t size = (size_t)it->rank->size, rows = size * it->count;
    size_t nbytes = size * part_nbytes(it);
    size_t room = (nbytes + PAGE - 1) / PAGE * PAGE;
    size_t splits = (2 * size * sizeof(int64_t) + PAGE - 1) / PAGE * PAGE;
    char *data;
    symmcoll_status_t status =
        open_workspace(it, 2 * (splits + room) + 1, &data);

    if (status != SYMMCOLL_OK)
        return status;
    exchange.dtype = it->dtype;
    exchange.in_rows = rows;
    exchange.out_rows = rows;
    exchange.out_splits_offset = splits;
    exchange.in_offset = 2 * splits;
    exchange.out_offset = 2 * splits + room;
    for (size_t r = 0; r < size; r++)
        ((int64_t *)(void *)data)[r] = (int64_t)it->count;
    if (nbytes > 0)
        memcpy(data + exchange.in_offset, it->in, nbytes);
    status = symmcoll_symm_all_to_all_v(it->rank->symm, &exchange, NULL);
    if (status == SYMMCOLL_OK && nbytes > 0)
        memcpy(it->out, data + exchange.out_offset, nbytes);
    return status;
}
