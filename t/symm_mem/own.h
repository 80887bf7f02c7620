/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered and joined device memory of the program, for tests. */
#ifndef T_SYMM_MEM_OWN_H
#define T_SYMM_MEM_OWN_H

#include "t/cuda/mapped.h"
#include "t/symm_mem/device.h"

#define NBYTES ((size_t)5000)
#define PAGES 3
#define WHOLE (PAGES * PAGE) /* at least */

enum kind {
    ALLOCATED, /* cuMemAlloc() */
    MAPPED
};

/* An allocation of a rank's device, and the part of it that is registered, at
 * a different offset on each rank. */
struct own {
    enum kind kind;
    struct mapped mapped;
    char *begin, *data;
};

static inline struct own make_own(enum kind kind, int rank)
{
    struct own own = {.kind = kind};

    if (kind == MAPPED) {
        own.mapped = map_pages(device_use(rank), PAGES, true);
        own.begin = (char *)(uintptr_t)own.mapped.at;
    } else {
        own.begin = device_alloc(WHOLE);
    }
    own.data = own.begin + 48 + 16 * rank;
    return own;
}

static inline void free_own(struct own *own)
{
    if (own->kind == MAPPED)
        unmap_pages(&own->mapped);
    else
        device_free(own->begin);
}

/* Checks that the program's memory beside its registered part is unchanged. */
static inline bool is_alone(const struct own *own)
{
    size_t before = (size_t)(own->data - own->begin);

    return HOLDS(is_zero(own->begin, before)) &&
           HOLDS(is_zero(own->data + NBYTES, WHOLE - before - NBYTES));
}

/* Does the same as begin_joined() with the program's memory. */
static inline bool begin_own(struct joined *it, struct symmcoll_group *group,
    int rank, const struct own *own)
{
    struct symmcoll_symm_args args = device_args(device_use(rank));
    int size = symmcoll_group_size(group);

    *it = (struct joined){.group = group,
        .world = symmcoll_group_world(group),
        .rank = rank,
        .size = size,
        .next = (rank + 1) % size,
        .before = (rank + size - 1) % size,
        .data = own->data,
        .nbytes = NBYTES,
        .stream = device_stream()};
    return OK(symmcoll_group_set_stream(group, it->stream)) &&
           OK(symmcoll_symm_register(
               it->world, own->data, NBYTES, rank % 2 == 0 ? NULL : &args)) &&
           OK(symmcoll_symm_rendezvous(group, own->data, NULL, &it->handle));
}

/* Synchronises on the host, so that no kernel waits for a rank that unmaps
 * memory. */
static inline bool synchronise(struct symmcoll_group *group)
{
    int32_t one = 1;

    return OK(symmcoll_all_reduce(
        group, &one, &one, 1, SYMMCOLL_INT32, SUM, NULL, NULL));
}

static inline bool end_own(struct joined *it, struct own *own, bool right)
{
    device_wait(it->stream);
    right = OK(symmcoll_group_set_stream(it->group, NULL)) && right;
    right = synchronise(it->group) && right;
    symmcoll_symm_release(it->handle);
    right = OK(symmcoll_symm_deregister(it->world, own->data)) && right;
    right = synchronise(it->group) && right;
    device_end_stream(it->stream);
    free_own(own);
    return right;
}

/* Sends bytes to the next rank with a signal, checks those of the previous
 * rank, and passes a barrier. */
static inline bool passes_on(const struct joined *it)
{
    unsigned char *source = device_alloc(NBYTES);
    bool right;

    write_pattern(source, NBYTES, 10 + it->rank);
    right =
        OK(symmcoll_symm_put_with_signal(
            it->handle, it->next, 0, source, NBYTES, 1, -1)) &&
        OK(symmcoll_symm_wait_signal(it->handle, it->before, 1, -1)) &&
        OK(symmcoll_symm_barrier(it->handle, 0, -1)) &&
        OK(symmcoll_symm_get_data(it->handle, it->next, 0, source, NBYTES)) &&
        OK(symmcoll_symm_barrier(it->handle, 0, -1));
    device_wait(it->stream);
    right = right && is_pattern(it->data, NBYTES, 10 + it->before) &&
            is_pattern(source, NBYTES, 10 + it->rank);
    device_free(source);
    return right;
}

#endif
