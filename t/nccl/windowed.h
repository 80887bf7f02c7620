/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetric memory of a rank's device, and collectives on it by NCCL. */
#ifndef T_NCCL_WINDOWED_H
#define T_NCCL_WINDOWED_H

#include "t/nccl/by.h"

#include "cuda/nccl/nccl.h"
#include "group/group.h"

#include <string.h>

#define ROOM 65536 /* bytes of the allocation */
#define OUT 32768  /* offset of the results */

/* ---- memory ---- */

struct memory {
    char *at; /* NULL: freed */
    struct symmcoll_symm *handle;
};

static inline int allocate(
    struct symmcoll_group *group, int rank, struct memory *made)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    void *data = NULL;

    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    if (!say(symmcoll_symm_alloc(group->world, ROOM, &args, &data) ==
                     SYMMCOLL_OK &&
                 symmcoll_symm_rendezvous(group, data, NULL, &made->handle) ==
                     SYMMCOLL_OK,
            "symmetric memory"))
        return 0;
    made->at = data;
    return 1;
}

static inline int release(struct symmcoll_group *group, struct memory *memory)
{
    symmcoll_symm_release(memory->handle);
    return say(
        symmcoll_symm_free(group->world, memory->at) == SYMMCOLL_OK, "a free");
}

/* ---- collectives ---- */

/* How an operation uses NCCL. */
enum use {
    WINDOW,
    PLAIN,
    KERNELS
};

static inline int counts(enum use use, int enqueued_before, int windowed_before)
{
    const struct fake_nccl *fake = find_nccl();
    int enqueued_now = atomic_load(&fake->enqueued) - enqueued_before;
    int windowed_now = atomic_load(&fake->windowed) - windowed_before;

    if (enqueued_now == (use != KERNELS) && windowed_now == (use == WINDOW))
        return 1;
    diag("expected use %d, found %d calls of NCCL, %d in windows", (int)use,
        enqueued_now, windowed_now);
    return 0;
}

/* Runs a collective between the two addresses, and checks that it has the bits
 * of host memory. */
static inline int collect(struct symmcoll_group *group, int rank,
    const struct collective *one, void *out, void *in, enum use use)
{
    static uint32_t sent[ROOM / 4], host[ROOM / 4], found[ROOM / 4];
    const struct fake_nccl *fake = find_nccl();
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    const size_t out_nbytes = collective_out_nbytes(one, SIZE);
    int enqueued_before = atomic_load(&fake->enqueued);
    int windowed_before = atomic_load(&fake->windowed);
    int right;

    fill(one->dtype, sent, collective_in_nbytes(one, SIZE) / sizeof(*sent),
        (uint64_t)rank + 1);
    device_write(in, sent, collective_in_nbytes(one, SIZE));
    call.stream = device_stream();
    right = say(
        collective_call(group, one, out, in, &call, NULL) == SYMMCOLL_OK &&
            collective_call(group, one, host, sent, NULL, NULL) == SYMMCOLL_OK,
        symc_kind_name(one->kind));
    device_wait(call.stream);
    device_end_stream(call.stream);
    device_read(found, out, out_nbytes);
    return say(memcmp(found, host, out_nbytes) == 0, "the host's bits") &&
           counts(use, enqueued_before, windowed_before) && right;
}

static const struct collective kinds[] = {
    {.kind = SYMC_ALL_GATHER, .dtype = SYMMCOLL_INT32, .count = ELEMENTS},
    {.kind = SYMC_ALL_TO_ALL, .dtype = SYMMCOLL_INT32, .count = ELEMENTS},
    {.kind = SYMC_ALL_REDUCE, .dtype = SYMMCOLL_INT32, .count = ELEMENTS},
    {.kind = SYMC_REDUCE_SCATTER, .dtype = SYMMCOLL_INT32, .count = ELEMENTS}};

static inline int every_kind(
    struct symmcoll_group *group, int rank, char *out, char *in, enum use use)
{
    int right = 1;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && right; i++)
        right = collect(group, rank, &kinds[i], out, in, use);
    return right;
}

static inline int have(int windows)
{
    int found = atomic_load(&find_nccl()->windows);

    if (found == windows)
        return 1;
    diag("expected %d windows, found %d", windows, found);
    return 0;
}

static inline void begin(int rank)
{
    device_use(rank);
    atexit(check_nccl);
}

#endif
