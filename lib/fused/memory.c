/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks in memory that all ranks map: the caller's, if it is symmetric memory
 * of the group, or memory that the group allocates for them.
 */
#include "fused/fused.h"
#include "run/call.h"

#include "segment/shared.h"

#include <symmcoll/symm_mem.h>

#define GRAIN ((size_t)4096)

bool symc_fused_is_alone(const struct symc_fused *fused)
{
    return symc_group_size(fused->group) == 1 ||
           symc_group_world(fused->group)->fake != NULL;
}

char *symc_fused_next_half(struct symc_fused *fused, size_t nbytes)
{
    struct symc_fused_memory *memory = &fused->memory;

    if (memory->data == NULL || nbytes > memory->nbytes)
        return NULL;
    return memory->data + (size_t)(1 - memory->half) * memory->nbytes;
}

void symc_fused_use_half(struct symc_fused *fused)
{
    if (fused->mine.state == SYMC_FUSED_READY)
        fused->memory.half = 1 - fused->memory.half;
}

/* Finds symmetric memory of the group. Its table changes only under the
 * ticket. */
static const struct symc_shared *find_shared(struct symmcoll_group *group,
    const void *address, size_t nbytes, size_t *offset)
{
    const struct symc_shared *found;
    uint64_t ticket;

    /* The operation that follows returns the error. */
    if (symc_run_take_ticket(
            symc_group_runner(group), SYMC_ALL_GATHER, &ticket) != SYMMCOLL_OK)
        return NULL;
    found = symc_shared_find(symc_group_shared(group), address, nbytes, offset);
    symc_queue_leave(symc_group_queue(group), ticket);
    return found;
}

bool symc_fused_locate(
    struct symc_fused *fused, const void *chunks, size_t nbytes)
{
    size_t offset = 0;
    const struct symc_shared *found =
        find_shared(fused->group, chunks, nbytes, &offset);

    fused->shared = found;
    if (found == NULL)
        return false;
    fused->mine.number = found->number;
    fused->mine.offset = offset;
    return true;
}

bool symc_fused_find_sources(
    struct symc_fused *fused, size_t shift, size_t nbytes)
{
    const struct symc_shared *shared = fused->shared;

    for (int r = 0; r < symc_group_size(fused->group); r++) {
        const struct symc_fused_word *word = &fused->all[r];

        if (word->state == SYMC_FUSED_NOT_READY ||
            word->state != fused->mine.state ||
            word->number != fused->mine.number || shared == NULL)
            return false;
        /* A stray store of a peer must not lead outside of its memory. */
        if (word->offset > shared->nbytes ||
            shift > shared->nbytes - word->offset ||
            nbytes > shared->nbytes - word->offset - shift)
            return false;
        fused->sources[r] = shared->at[r] + word->offset + shift;
    }
    return true;
}

symmcoll_status_t symc_fused_alloc(struct symc_fused *fused, const char *name,
    size_t nbytes, struct symc_fused_memory *made)
{
    size_t half, whole;
    void *data = NULL;
    symmcoll_status_t status;

    *made = (struct symc_fused_memory){.data = NULL};
    if (!symc_add(nbytes, GRAIN - 1, &half) ||
        !symc_multiply(half / GRAIN * GRAIN, 2, &whole))
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: expected chunks that memory has room for, found %zu bytes",
            name, nbytes);
    status =
        symmcoll_symm_alloc(symc_group_world(fused->group), whole, NULL, &data);
    made->data = data;
    made->nbytes = half / GRAIN * GRAIN;
    return status;
}

symmcoll_status_t symc_fused_map(struct symc_fused *fused,
    struct symc_fused_memory *made, const struct symmcoll_call *call)
{
    symmcoll_status_t status =
        symmcoll_symm_rendezvous(fused->group, made->data, call, &made->handle);

    if (status != SYMMCOLL_OK)
        return status;
    symc_fused_shrink(fused);
    fused->memory = *made;
    return SYMMCOLL_OK;
}

void symc_fused_shrink(struct symc_fused *fused)
{
    struct symc_fused_memory *memory = &fused->memory;

    symmcoll_symm_release(memory->handle);
    (void)symmcoll_symm_free(symc_group_world(fused->group), memory->data);
    *memory = (struct symc_fused_memory){.data = NULL};
}
