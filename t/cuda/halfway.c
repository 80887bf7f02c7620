/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests an operation of which the driver accepts only a part: its first
 * kernels are on a blocked stream, and begin after the program has released
 * the group. Their resources are kept, and the error states who may write to
 * the buffers.
 */
#include "t/cuda/sums.h"

#define SIZE 2
#define VICTIM 1
#define COUNT 3000 /* takes several kernels */

/* The failure of the victim's driver. */
struct half {
    const char *fault;
    bool direct; /* the call has no work */
    bool known;  /* when it has ended; otherwise the group stays */
};

static bool makes_a_sum(struct symmcoll_group *group, const struct sums *sums)
{
    if (sums_add(group, sums, 3, -1, NULL) != SYMMCOLL_OK) {
        diag("the first sum: %s", symmcoll_last_error());
        return false;
    }
    device_wait(sums->stream);
    return true;
}

/* The other rank's call is valid: it gets the error from the group. */
static symmcoll_status_t learn(struct symmcoll_group *group)
{
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        faults_rest();
    return symmcoll_group_error(group);
}

/* Records how a call ends in a group that the driver blocks. */
static void call(struct faults_rank *self, struct symmcoll_group *group,
    const struct sums *sums)
{
    const struct half *half = self->arg;
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    if (self->rank == VICTIM)
        fake_stall(sums->stream);
    if (self->rank == VICTIM && !fake_configure(half->fault))
        diag("the fake driver does not take %s", half->fault);
    status = sums_add(group, sums, COUNT, -1, half->direct ? NULL : &work);
    if (work != NULL)
        status = symmcoll_work_wait(work, FAULTS_WAIT_MAX);
    faults_note(self, self->rank == VICTIM ? status : learn(group));
    symmcoll_work_free(work);
}

/* The victim's kernels begin after the partial release of its group, and
 * before that of the world. */
static int release_before_the_end(struct faults_rank *self)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    const struct half *half = self->arg;
    struct symmcoll_group *group = NULL;
    symmcoll_status_t status;
    struct sums sums;

    if (!sums_begin(self, &sums, COUNT) ||
        symmcoll_group_create(self->world, &args, &group) != SYMMCOLL_OK ||
        !makes_a_sum(group, &sums)) {
        diag("rank %d, before the call: %s", self->rank, symmcoll_last_error());
        return 1;
    }
    call(self, group, &sums);
    faults_note(self, symmcoll_group_free(group));
    if (self->rank == VICTIM) {
        fake_resume(sums.stream);
        if (cuCtxSynchronize() != CUDA_SUCCESS) /* the group's streams, too */
            return 1;
        fake_finish();
    }
    device_free(device_alloc(64)); /* the device stays usable */
    status = symmcoll_finalize(self->world);
    if (status == (self->rank == VICTIM && !half->known ? SYMMCOLL_ERR_DEVICE
                                                        : SYMMCOLL_OK))
        return 0;
    diag("rank %d: finalize: %s", self->rank, symmcoll_last_error());
    return 1;
}

static bool stays(const struct half *half)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, release_before_the_end, half);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    told = faults_told(&job, 0, 0)->status == SYMMCOLL_ERR_DEVICE;
    told =
        faults_said(faults_told(&job, VICTIM, 0), SYMMCOLL_ERR_DEVICE,
            "backend cuda of rank 1", "still owns in (12000 bytes at", NULL) &&
        told;
    told = faults_said(faults_told(&job, VICTIM, 1), SYMMCOLL_ERR_DEVICE,
               "still owns the buffers of all_reduce", NULL) &&
           told;
    return faults_finish(&job, 0) && told;
}

int main(void)
{
    static const struct {
        struct half half;
        const char *what;
    } all[] = {
        {{"fail=cuLaunchKernelEx:2:701", true, true},
            "a call whose second kernel cannot be started keeps what the first "
            "one uses"},
        {{"fail=cuLaunchKernelEx:2:701", false, true},
            "so does a work, whose kernels are on the group's stream"},
        {{"fail=cuEventRecord:1:304", true, true},
            "so does a call whose end cannot be noted"},
        {{"fail=cuEventRecord:0:304", true, false},
            "where the end can never be noted, the group's memory stays"},
    };

    device_begin();
    faults_begin();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ok(stays(&all[i].half), "%s", all[i].what);
    faults_end();
    return done_testing();
}
