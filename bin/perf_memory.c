/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of symmcoll-perf: buffers of operations, symmetric with --symmetric,
 * and a rank's own memory.
 */
#include "perf_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

void *perf_allocate(const struct perf_rank *rank, size_t nbytes)
{
    void *memory = NULL;

    if (posix_memalign(&memory, PAGE, nbytes) != 0) {
        fprintf(stderr,
            "symmcoll-perf: rank %d of %d: no memory for a buffer of %zu "
            "bytes\n",
            rank->rank, rank->size, nbytes);
        return NULL;
    }
    memset(memory, 0, nbytes);
    return memory;
}

/* Joins an allocation of every rank in a group, whose operations use it until
 * it is freed. */
static symmcoll_status_t join(struct symmcoll_group *group, void *memory)
{
    struct symmcoll_symm *handle;
    symmcoll_status_t status =
        symmcoll_symm_rendezvous(group, memory, NULL, &handle);

    if (status == SYMMCOLL_OK)
        symmcoll_symm_release(handle);
    return status;
}

/* Joins an allocation in all groups of operations. */
static symmcoll_status_t join_all(const struct perf_rank *rank, void *memory)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (rank->groups == NULL)
        return join(rank->group, memory);
    for (int i = 0; i < rank->ngroups && status == SYMMCOLL_OK; i++)
        status = join(rank->groups[i], memory);
    return status;
}

void *perf_allocate_buffer(const struct perf_rank *rank, size_t nbytes)
{
    symmcoll_status_t status;
    void *memory;

    if (rank->device != NULL)
        return perf_device_allocate(rank->device, nbytes);
    if (!rank->options->symmetric)
        return perf_allocate(rank, nbytes);
    status = symmcoll_symm_alloc(rank->world, nbytes, NULL, &memory);
    if (status == SYMMCOLL_OK) {
        memset(memory, 0, nbytes);
        status = join_all(rank, memory);
    }
    if (status == SYMMCOLL_OK)
        return memory;
    perf_report(rank, "symmetric memory", status);
    return NULL;
}

void perf_free_buffer(const struct perf_rank *rank, void *memory)
{
    if (rank->device != NULL)
        perf_device_free(rank->device, memory);
    else if (!rank->options->symmetric)
        free(memory);
    else if (symmcoll_symm_free(rank->world, memory) != SYMMCOLL_OK)
        perf_report(rank, "symmetric memory", SYMMCOLL_ERR_INVALID);
}
