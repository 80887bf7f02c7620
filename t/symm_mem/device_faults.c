/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failures of symmetric device memory: a kernel that times out waiting
 * for a peer fails the group, with an error that names the call, both ranks
 * and the channel; a peer that dies ends all kernels that wait for it; and no
 * stream hangs.
 */
#include "symm_mem/symm_mem.h"
#include "t/attempts.h"
#include "t/symm_mem/device.h"
#include "t/world/others.h"

#include <pthread.h>

#define NBYTES 1024
#define SIZE 3
#define VICTIM 1

/* ---- deadlines ---- */

/* The call that times out: only rank 0 makes it. */
enum call {
    PUT,
    PUT_WITH,
    WAIT,
    BARRIER,
    VALUE,
    CALLS
};

static const struct {
    const char *name;
    const char *found;
} calls[CALLS] = {{"symm_put_signal of group",
                      "rank 0 timed out waiting for rank 1 on channel 3"},
    {"symm_put_with_signal of group",
        "rank 0 timed out waiting for rank 1 on channel 3"},
    {"symm_wait_signal of group",
        "rank 0 timed out waiting for rank 1 on channel 3"},
    {"symm_barrier of group",
        "rank 0 timed out waiting for rank 1 on channel 3"},
    {"symm_wait_value32 of group",
        "rank 0 timed out waiting for rank 1 to store 77 at"}};

static symmcoll_status_t make(
    const struct joined *it, enum call call, double timeout)
{
    switch (call) {
    case PUT:
        return symmcoll_symm_put_signal(it->handle, 1, 3, timeout);
    case PUT_WITH:
        return symmcoll_symm_put_with_signal(
            it->handle, 1, 512, it->data, 64, 3, timeout);
    case WAIT:
        return symmcoll_symm_wait_signal(it->handle, 1, 3, timeout);
    case BARRIER:
        return symmcoll_symm_barrier(it->handle, 3, timeout);
    default:
        return symmcoll_symm_wait_value32(it->handle, 1, 0, 77, timeout);
    }
}

/* Runs the call in a new group. Another operation of that group, on another
 * stream, also waits for its peer and must not be named. */
static bool ends_in_vain(struct symmcoll_group *all, int rank, enum call call)
{
    struct symmcoll_call options = SYMMCOLL_CALL_INIT;
    struct symmcoll_group *group = NULL;
    struct symmcoll_work *work = NULL;
    symmcoll_status_t freed;
    CUstream other;
    struct joined it;
    float *sums;
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(&it, group, rank, NBYTES);

    if (!right)
        return false;
    other = device_stream();
    sums = device_alloc(64 * sizeof(float));
    options.stream = other;
    if (rank == 1)
        fake_stall(other);
    right = right && OK(symmcoll_all_reduce(
                         group, sums, sums, 64, F32, SUM, &options, &work));
    if (rank == 0 && (call == PUT || call == PUT_WITH))
        right = right && OK(make(&it, PUT, 20)); /* without a receiver */
    if (rank == 0)
        right = right && OK(make(&it, call, 0.4));
    right = faults_await_failure(group) < 0 &&
            ended(symmcoll_group_error(group), SYMMCOLL_ERR_TIMEOUT,
                calls[call].name) &&
            ended(symmcoll_group_error(group), SYMMCOLL_ERR_TIMEOUT,
                calls[call].found) &&
            right;
    if (rank == 1)
        fake_resume(other);
    right = HOLDS(symmcoll_work_wait(work, FAULTS_WAIT_MAX) < 0) && right;
    symmcoll_work_free(work);
    right = HOLDS(make(&it, BARRIER, -1) < 0) && right;
    device_wait(it.stream);
    device_wait(other);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_symm_free(it.world, it.data)) && right;
    /* On a busy machine the stream may continue after the second in which the
     * group has tried to end running work. */
    freed = symmcoll_group_free(group);
    right =
        HOLDS(freed == SYMMCOLL_OK || freed == SYMMCOLL_ERR_DEVICE) && right;
    device_free(sums);
    device_end_stream(other);
    device_end_stream(it.stream);
    return right;
}

static int names_whom_it_waits_for(struct symmcoll_group *all, int rank)
{
    bool right = true;

    for (int call = 0; call < CALLS && right; call++) {
        right = ends_in_vain(all, rank, (enum call)call);
        if (!right)
            diag("rank %d: %s", rank, calls[call].name);
    }
    return right;
}

/* ---- refusals ---- */

static bool make_memory(
    struct symmcoll_group *group, int device, bool on_host, void **data)
{
    struct symmcoll_symm_args args = device_args(device);

    return OK(symmcoll_symm_alloc(
        symmcoll_group_world(group), NBYTES, on_host ? NULL : &args, data));
}

/* Checks that a refused rendezvous does not bind the group to a device. */
static int tries_another_device(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    void *first = NULL, *second = NULL;
    bool right = make_memory(group, rank, rank == 1, &first) &&
                 make_memory(group, rank + 2, false, &second);

    right = right &&
            ended(symmcoll_symm_rendezvous(group, first, NULL, &handle),
                SYMMCOLL_ERR_MISMATCH, "kinds of memory differ") &&
            OK(symmcoll_symm_rendezvous(group, second, NULL, &handle));
    symmcoll_symm_release(handle);
    return OK(symmcoll_symm_free(world, first)) &&
           OK(symmcoll_symm_free(world, second)) && right;
}

/* Checks that operations which run on the host refuse a stream with that
 * reason, and not because the memory is host memory. */
static int takes_no_stream(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_symm *handle = NULL;
    struct joined it;
    void *data = NULL;
    bool right = begin_joined(&it, group, rank, NBYTES) &&
                 make_memory(group, rank, false, &data);

    call.stream = it.stream;
    right = right &&
            refused(symmcoll_symm_rendezvous(group, data, &call, &handle),
                SYMMCOLL_ERR_UNSUPPORTED,
                "symm_rendezvous: expected no stream, for it enqueues nothing",
                "returns when all ranks have joined, found 0x") &&
            refused(symmcoll_symm_workspace(group, NBYTES, &call, &handle),
                SYMMCOLL_ERR_UNSUPPORTED,
                "symm_workspace: expected no stream, for it enqueues nothing",
                "returns when all ranks have joined, found 0x") &&
            HOLDS(handle == NULL) && OK(symmcoll_group_error(group));
    right = OK(symmcoll_symm_free(it.world, data)) && right;
    return end_joined(&it, right);
}

/* The memory of rank 1 belongs to another backend, which the error names. */
static int names_another_backend(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;
    struct symc_backend other;
    struct symc_symm *symm;
    struct joined it;
    void *data = NULL;
    bool right = begin_joined(&it, group, rank, NBYTES) &&
                 make_memory(group, rank, false, &data);

    symm = symc_symm_of(it.world);
    if (rank == 1 && right) {
        other = *symm->allocations->backend;
        other.name = "other";
        symm->allocations->backend = &other; /* the latest */
    }
    right = right &&
            refused(symmcoll_symm_rendezvous(group, data, NULL, &handle),
                SYMMCOLL_ERR_INVALID, "symm_rendezvous: ",
                "rank 1: expected memory of backend cuda, which serves the "
                "group's operations, found memory of backend other") &&
            HOLDS(handle == NULL) && OK(symmcoll_group_error(group));
    right = OK(symmcoll_symm_free(it.world, data)) && right;
    return end_joined(&it, right);
}

/* The group's operations use one backend, and new memory is allocated by
 * another one, which has a higher priority in the world. */
static int has_a_workspace_of_its_backend(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *workspace = NULL;
    struct symc_registry *registry, kept;
    struct symc_backend other;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);

    registry = &it.world->registry;
    kept = *registry;
    other = *symc_registry_memory(registry, SYMC_MEMORY_DEVICE);
    other.name = "other";
    memmove(&registry->backends[1], &registry->backends[0],
        (size_t)registry->count * sizeof(registry->backends[0]));
    registry->backends[0] = &other;
    registry->count++;
    right = right &&
            OK(symmcoll_symm_workspace(group, NBYTES, NULL, &workspace)) &&
            OK(symmcoll_symm_get_info(workspace, &info)) &&
            HOLDS(info.device == SYMMCOLL_HOST);
    *registry = kept;
    symmcoll_symm_release(workspace);
    workspace = NULL;
    right = right &&
            OK(symmcoll_symm_workspace(group, NBYTES, NULL, &workspace)) &&
            OK(symmcoll_symm_get_info(workspace, &info)) &&
            HOLDS(info.device == SYMMCOLL_CUDA);
    symmcoll_symm_release(workspace);
    return end_joined(&it, right);
}

/* Rank 1 is late in two rounds, in each of them by less than the timeout. */
static int has_one_deadline(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_symm *handle = NULL;
    struct joined it;
    void *data = NULL;
    bool right = begin_joined(&it, group, rank, NBYTES) &&
                 make_memory(group, rank, false, &data);

    call.timeout = 0.9;
    if (rank == 1)
        right = HOLDS(fake_configure("slow=cuMemExportToShareableHandle:600 "
                                     "slow=cuMemMap:300")) &&
                right;
    right = HOLDS(symmcoll_symm_rendezvous(group, data, &call, &handle) < 0) &&
            refused(symmcoll_group_error(group), SYMMCOLL_ERR_TIMEOUT,
                "symm_rendezvous of group ", " did not come") &&
            right; /* either rank waits for the other when the timeout has
                    * expired */
    right = OK(symmcoll_symm_free(it.world, data)) && right;
    return end_joined(&it, right);
}

/* ---- deaths ---- */

static int lose_a_peer(struct faults_rank *self)
{
    struct joined it;
    bool right =
        faults_init(self) && begin_joined(&it, self->group, self->rank, NBYTES);

    if (!right)
        return 1;
    if (self->rank != VICTIM)
        right = OK(symmcoll_symm_put_signal(it.handle, VICTIM, 0, -1)) &&
                OK(symmcoll_symm_put_signal(it.handle, VICTIM, 0, -1));
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 2); /* never reached */
    faults_note(self, faults_await_failure(self->group));
    device_wait(it.stream);
    right = HOLDS(symmcoll_symm_put_signal(it.handle, 0, 1, -1) < 0) && right;
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_symm_free(it.world, it.data)) && right;
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

/* Kills a rank while all ranks map each other's memory. */
static int join_with_a_victim(struct faults_rank *self)
{
    struct symmcoll_symm_args args = device_args(self->rank);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right;

    if (!faults_init(self))
        return 1;
    device_use(self->rank);
    right = OK(symmcoll_symm_alloc(self->world, NBYTES, &args, &data));
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 2);
    faults_note(
        self, symmcoll_symm_rendezvous(self->group, data, NULL, &handle));
    right = OK(symmcoll_symm_free(self->world, data)) && right;
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

int main(void)
{
    device_begin();
    faults_begin();
    on_both(2, names_whom_it_waits_for,
        "a kernel that waits in vain: the call, both ranks, the channel (S27)");
    on_both(2, takes_no_stream, "a rendezvous of device memory has no stream");
    on_both(2, tries_another_device,
        "a rendezvous that is refused leaves the group on no device");
    on_both(2, has_a_workspace_of_its_backend,
        "a workspace is no memory of a backend that does not serve the group");
    on_both(2, names_another_backend,
        "memory of another backend than the group's is refused: all learn whose");
    ok(ranks_run(2, has_one_deadline),
        "a rendezvous has one deadline for all that it takes");
    ok(others_survive(SIZE, VICTIM, lose_a_peer, NULL),
        "a peer that dies while puts wait for it: its name, and streams end");
    ok(others_survive(SIZE, VICTIM, join_with_a_victim, NULL),
        "a peer that dies before it joins its memory is named");
    faults_end();
    return done_testing();
}
