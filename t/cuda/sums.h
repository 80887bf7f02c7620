/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums in place in memory of a rank's device, for ranks that fail. */
#ifndef T_CUDA_SUMS_H
#define T_CUDA_SUMS_H

#include "t/cuda/members.h"
#include "t/world/others.h"

struct sums {
    CUstream stream;
    void *at; /* floats */
};

static inline symmcoll_status_t sums_add(struct symmcoll_group *group,
    const struct sums *sums, size_t count, double timeout,
    struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = sums->stream;
    call.label = "the sum";
    return symmcoll_all_reduce(
        group, sums->at, sums->at, count, F32, SUM, &call, work);
}

/* Joins the world, selects a device, and runs a small sum. Returns whether it
 * succeeded. */
static inline bool sums_begin(
    struct faults_rank *self, struct sums *sums, size_t capacity)
{
    if (!faults_init(self))
        return false;
    device_use(self->rank);
    *sums =
        (struct sums){device_stream(), device_alloc(capacity * sizeof(float))};
    if (sums_add(self->group, sums, 3, -1, NULL) != SYMMCOLL_OK) {
        diag("rank %d: %s", self->rank, symmcoll_last_error());
        return false;
    }
    device_wait(sums->stream);
    return true;
}

/* A thread of a rank that aborts its group at gate 1. */
static inline void *sums_abort(void *arg)
{
    struct faults_rank *self = arg;

    faults_pass(self, 1);
    symmcoll_group_abort(self->group, "enough");
    return NULL;
}

#endif
