/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory that is freed while it is used: which operations are
 * waited for, how long, the error if that was too short, and that no memory is
 * lost.
 */
#include "t/symm_mem/device_freed.h"
#include "t/attempts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- how long ---- */

static int has_a_bound(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = begin(all, rank, &it) && stall_copy(&it);

    right = right &&
            refused(symmcoll_symm_free(it.world, it.data), SYMMCOLL_ERR_TIMEOUT,
                "symm_free: after", "symm_put_data on stream") &&
            ended(SYMMCOLL_ERR_TIMEOUT, SYMMCOLL_ERR_TIMEOUT,
                "the call can be repeated") &&
            HOLDS(symmcoll_symm_is_symmetric(it.world, it.data) == 1) &&
            OK(symmcoll_group_error(it.group));
    fake_resume(it.stream);
    device_wait(it.stream);
    right = right && is_pattern(it.data + NBYTES / 2, NBYTES / 2, 1) &&
            OK(symmcoll_symm_free(it.world, it.data)) &&
            HOLDS(symmcoll_symm_is_symmetric(it.world, it.data) == 0);
    symmcoll_symm_release(it.handle);
    return end(all, &it, true) && right;
}

/* The other ranks continue to use the group. */
static int waits_for_what_was_before(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    CUstream other;
    void *data = NULL;
    struct symmcoll_symm *handle = NULL;
    struct symmcoll_symm_args args = device_args(rank);
    bool right = begin(all, rank, &it);

    other = device_stream();
    right = right && OK(symmcoll_symm_alloc(it.world, 64, &args, &data)) &&
            OK(symmcoll_symm_rendezvous(it.group, data, NULL, &handle)) &&
            stall_copy(&it) && OK(symmcoll_group_set_stream(it.group, other)) &&
            OK(symmcoll_symm_memset32(handle, rank, 0, 1, 4));
    device_wait(other);
    right = right &&
            refused(symmcoll_symm_free(it.world, data), SYMMCOLL_ERR_TIMEOUT,
                "symm_free: after", "symm_put_data on stream");
    fake_resume(it.stream);
    right = OK(symmcoll_symm_free(it.world, data)) && right;
    symmcoll_symm_release(handle);
    device_end_stream(other);
    return end(all, &it, false) && right;
}

/* ---- an id ---- */

/* The memory is freed while a handle still uses it, and then allocated
 * again. */
static int waits_before_an_id_is_used_again(
    struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct joined it = {0}, kept;
    void *again = NULL;
    bool right = begin(all, rank, &it);

    kept = it;
    args.id = 7;
    right = right && OK(symmcoll_symm_alloc(it.world, NBYTES, &args, &again)) &&
            OK(symmcoll_symm_rendezvous(it.group, again, NULL, &kept.handle)) &&
            OK(symmcoll_symm_free(it.world, again));
    kept.data = again;
    right = right && stall_copy(&kept) &&
            refused(symmcoll_symm_alloc(it.world, NBYTES, &args, &again),
                SYMMCOLL_ERR_TIMEOUT, "symm_alloc: after",
                "symm_put_data on stream") &&
            HOLDS(symmcoll_symm_is_symmetric(it.world, kept.data) == 0) &&
            OK(symmcoll_group_error(it.group));
    fake_resume(it.stream);
    right = right && OK(symmcoll_symm_alloc(it.world, NBYTES, &args, &again)) &&
            HOLDS(again == (void *)kept.data) &&
            is_pattern(kept.data + NBYTES / 2, NBYTES / 2, 1) &&
            OK(symmcoll_symm_free(it.world, again));
    symmcoll_symm_release(kept.handle);
    return end(all, &it, false) && right;
}

/* Checks that memory which a device keeps for good is not allocated again. */
static int refuses_an_id_in_use(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(device_use(rank));
    struct joined it = {.rank = rank};
    void *again = NULL;
    bool right;

    args.id = 8;
    __lsan_disable(); /* it cannot be freed */
    it.world = symmcoll_group_world(all);
    it.stream = device_stream();
    right =
        OK(symmcoll_group_create(it.world, NULL, &it.group)) &&
        OK(symmcoll_group_set_stream(it.group, it.stream)) &&
        OK(symmcoll_symm_alloc(it.world, NBYTES, &args, (void **)&it.data)) &&
        OK(symmcoll_symm_rendezvous(it.group, it.data, NULL, &it.handle)) &&
        OK(symmcoll_symm_free(it.world, it.data)) && stall_copy(&it);
    __lsan_enable();
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    if (right)
        symmcoll_group_abort(it.group, "enough");
    symmcoll_symm_release(it.handle);
    right = right &&
            ended(symmcoll_group_free(it.group), SYMMCOLL_ERR_DEVICE,
                "still owns the buffers of symm_put_data on stream 0x") &&
            refused(symmcoll_symm_alloc(it.world, NBYTES, &args, &again),
                SYMMCOLL_ERR_DEVICE,
                "symm_alloc: expected the memory of id 8 to be out of use",
                "released before device ");
    fake_resume(it.stream);
    device_wait(it.stream);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    device_end_stream(it.stream);
    return right;
}

/* ---- the last handle, the release of which has no status ---- */

static int keeps_for_later(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct joined it = {0};
    void *data = NULL;
    int mapped;
    bool right = begin(all, rank, &it) &&
                 OK(symmcoll_symm_alloc(it.world, 64, &args, &data)) &&
                 OK(symmcoll_barrier(all, NULL, NULL)) &&
                 OK(symmcoll_symm_free(it.world, it.data)) && stall_copy(&it);

    if (right)
        symmcoll_symm_release(it.handle);
    /* The memory of all threads is counted together. */
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    mapped = fake_live(FAKE_MAPPED);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = right && is_pattern(it.data, NBYTES / 2, 1);
    fake_resume(it.stream);
    device_wait(it.stream);
    right = right && is_pattern(it.data + NBYTES / 2, NBYTES / 2, 1);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = OK(symmcoll_symm_free(it.world, data)) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    /* Its own part, twice, and those of the other ranks; and `data`. */
    right = HOLDS(fake_live(FAKE_MAPPED) <= mapped - 1 - 1 - it.size) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    return end(all, &it, true) && right;
}

/* ---- a failed group ---- */

static int says_what_a_device_has(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = begin(all, rank, &it) && stall_copy(&it);

    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    if (right)
        symmcoll_group_abort(it.group, "enough");
    right = right &&
            refused(symmcoll_symm_free(it.world, it.data), SYMMCOLL_ERR_TIMEOUT,
                "symm_free: after",
                "what was given up when the group failed: symm_put_data on "
                "stream 0x");
    fake_resume(it.stream);
    device_wait(it.stream);
    right = right && OK(symmcoll_symm_free(it.world, it.data));
    symmcoll_symm_release(it.handle);
    return end(all, &it, true) && right;
}

/* Whether notify() has reported the error; for this process, or for all ranks
 * that are threads. */
static _Atomic bool told;

static void listen(const struct symmcoll_operation *operation, void *arg)
{
    const char *text = symmcoll_last_error();

    (void)arg;
    if (operation->status >= 0 || strstr(text, "still owns") == NULL)
        return;
    if (strstr(text, "still owns its buffers") == NULL ||
        strstr(text, "0x") != NULL)
        diag("%s", text);
    else
        atomic_store(&told, true);
}

/* Checks that the error of an operation on handles names no other buffers. */
static int names_no_other_buffers(struct symmcoll_group *all, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct joined it = {0};
    bool right = begin(all, rank, &it);

    call.stream = it.stream;
    right = right && OK(symmcoll_group_notify(it.group, listen, NULL));
    atomic_store(&told, false);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    fake_stall(it.stream);
    right = right && OK(symmcoll_symm_two_shot_all_reduce(
                         it.handle, 0, NULL, 64, F32, SUM, &call));
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    if (right)
        symmcoll_group_abort(it.group, "enough");
    for (double until = faults_now() + FAULTS_WAIT_MAX;
         !atomic_load(&told) && faults_now() < until;)
        faults_rest();
    right = HOLDS(atomic_load(&told)) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    fake_resume(it.stream);
    return end(all, &it, false) && right;
}

/* Releases the group while a device still uses its memory. */
static int keeps_what_a_device_has(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right;

    __lsan_disable(); /* it cannot be freed */
    right = begin(all, rank, &it) && stall_copy(&it);
    __lsan_enable();
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    if (right)
        symmcoll_group_abort(it.group, "enough");
    right = right &&
            ended(symmcoll_group_free(it.group), SYMMCOLL_ERR_DEVICE,
                "still owns the buffers of symm_put_data on stream 0x") &&
            refused(symmcoll_symm_free(it.world, it.data), SYMMCOLL_ERR_DEVICE,
                "symm_free: the group that had joined the memory",
                "remains until the process ends") &&
            HOLDS(symmcoll_symm_is_symmetric(it.world, it.data) == 1);
    fake_resume(it.stream);
    device_wait(it.stream);
    right = right && is_pattern(it.data + NBYTES / 2, NBYTES / 2, 1);
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    device_end_stream(it.stream);
    return right;
}

/* ---- the workspace of a group ---- */

/* Checks that memory is abandoned when the group's queue is gone. Rank 1 still
 * has a handle. */
static int ends_with_its_group(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    struct symmcoll_symm *workspace = NULL;
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    int before = fake_live(FAKE_MAPPED); /* of all threads together */
    bool right =
        OK(symmcoll_barrier(all, NULL, NULL)) && begin(all, rank, &it) &&
        OK(symmcoll_symm_workspace(it.group, NBYTES, NULL, &workspace)) &&
        OK(symmcoll_symm_get_info(workspace, &info)) &&
        HOLDS(info.device == SYMMCOLL_CUDA) &&
        OK(symmcoll_symm_put_data(workspace, rank, 0, it.data, 64));

    if (rank == 0)
        symmcoll_symm_release(workspace);
    right = end(all, &it, false) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    if (rank == 1)
        symmcoll_symm_release(workspace);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = HOLDS(fake_live(FAKE_MAPPED) == before) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    return right;
}

/* The first of three workspaces is used until the second has been released. */
static int grows_while_it_is_used(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    struct symmcoll_symm *workspace = NULL;
    bool right = begin(all, rank, &it);

    for (size_t i = 1; right && i <= 6; i++) {
        right =
            OK(symmcoll_symm_workspace(it.group, i * NBYTES, NULL, &workspace));
        if (i % 3 == 1)
            fake_stall(it.stream);
        right = right &&
                OK(symmcoll_symm_put_data(workspace, rank, 0, it.data, 64));
        symmcoll_symm_release(workspace);
        if (i % 3 == 2 || !right)
            fake_resume(it.stream);
        if (i % 3 != 1)
            device_wait(it.stream);
    }
    return end(all, &it, false) && right;
}

/* ---- captures ---- */

static int leaves_captures_alone(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct joined it = {0};
    struct symmcoll_symm *handle = NULL;
    CUgraph graph = NULL;
    CUstream other;
    void *data = NULL;
    int mapped = 0;
    bool right = begin(all, rank, &it) &&
                 OK(symmcoll_symm_alloc(it.world, 64, &args, &data)) &&
                 OK(symmcoll_symm_rendezvous(it.group, data, NULL, &handle)) &&
                 OK(symmcoll_barrier(all, NULL, NULL));

    other = device_stream();
    mapped = fake_live(FAKE_MAPPED);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = right && HOLDS(cuStreamBeginCapture(other,
                               CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    right = right && OK(symmcoll_symm_free(it.world, data));
    symmcoll_symm_release(handle);
    right = HOLDS(cuStreamEndCapture(other, &graph) == CUDA_SUCCESS) && right;
    if (graph != NULL)
        cuGraphDestroy(graph);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = HOLDS(fake_live(FAKE_MAPPED) <= mapped - 1 - it.size) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    device_end_stream(other);
    return end(all, &it, false) && right;
}

/* ---- the driver ---- */

static char slow_unmap[32]; /* a setting of the fake driver */

static void *free_data(void *arg)
{
    const struct joined *it = arg;

    return OK(symmcoll_symm_free(it->world, it->data)) ? arg : NULL;
}

/* Another thread looks up host memory while the driver unmaps, and gets its
 * result before the unmap has ended. */
static int keeps_nobody_waiting(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    void *host = NULL, *freed = NULL;
    double until = faults_now() + FAULTS_WAIT_MAX;
    bool right = begin(all, rank, &it) &&
                 OK(symmcoll_symm_alloc(it.world, 64, NULL, &host));
    uint64_t before = fake_calls("cuMemUnmap"), calls;
    pthread_t thread;

    symmcoll_symm_release(it.handle);
    (void)fake_configure(slow_unmap);
    if (!right || pthread_create(&thread, NULL, free_data, &it) != 0)
        return 0;
    while (fake_calls("cuMemUnmap") == before && faults_now() < until)
        faults_rest();
    right = HOLDS(symmcoll_symm_is_symmetric(it.world, host) == 1);
    calls = fake_calls("cuMemUnmap");
    pthread_join(thread, &freed);
    right = HOLDS(freed != NULL) && right;
    if (fake_calls("cuMemUnmap") == calls)
        diag("the answer came after %d calls", (int)(calls - before));
    right = fake_calls("cuMemUnmap") > calls && right;
    return OK(symmcoll_symm_free(it.world, host)) && end(all, &it, true) &&
           right;
}

static bool answers_meanwhile(double seconds, void *unused)
{
    (void)unused;
    (void)snprintf(slow_unmap, sizeof(slow_unmap), "slow=cuMemUnmap:%d",
        (int)(seconds * 1e3));
    return ranks_run(2, keeps_nobody_waiting);
}

int main(void)
{
    device_begin();
    faults_begin();
    on_both(2, has_a_bound,
        "symm_free() waits for so long, says for what, and can be repeated");
    on_both(2, waits_for_what_was_before,
        "what else the group runs is waited for, too, and named");
    on_both(2, waits_before_an_id_is_used_again,
        "what runs in memory of an id is waited for before its next use (S7)");
    on_both(2, refuses_an_id_in_use,
        "memory of an id that a device has for good is not allocated again");
    on_both(2, keeps_for_later,
        "memory that the last handle could not release is released later");
    on_both(2, says_what_a_device_has,
        "what a group that failed could not end is waited for, and named");
    on_both(2, names_no_other_buffers,
        "what a symmetric call could not end is named without addresses");
    on_both(2, keeps_what_a_device_has,
        "memory that a device has for good is said not to be freed");
    on_both(2, ends_with_its_group,
        "the workspace of a group is left when that is released");
    on_both(2, grows_while_it_is_used,
        "the workspace grows when the former one is still in use");
    on_both(2, leaves_captures_alone,
        "memory is freed while a stream is captured, which goes on");
    ok(attempts_hold(answers_meanwhile, 0.3, NULL),
        "nobody waits for the driver that unmaps what another thread frees");
    faults_end();
    return done_testing();
}
