/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory that a thread frees while another thread of the rank
 * uses it: a thread that waits for a device has released the lock. The linker
 * makes the library call the wrapper here, in which the other thread acts.
 */
#include "group/group.h"
#include "symm_mem/share.h"
#include "t/symm_mem/device.h"

#include <stdatomic.h>

#define NBYTES 4096
#define QUARTER ((size_t)NBYTES / 4)
#define SHORT 0.3 /* seconds; timeout of a group */

bool __real_symc_queue_await_begun(
    struct symc_queue *queue, uint64_t number, int64_t deadline_ns);
bool __wrap_symc_queue_await_begun(
    struct symc_queue *queue, uint64_t number, int64_t deadline_ns);

/* Memory of rank 0, from a pool or not. */
struct test {
    struct joined it;
    struct symmcoll_symm_pool *pool; /* NULL: of none */
    CUstream other;                  /* of the thread that leaves */
    bool left;
};

/* What the wrapper does for the queue of rank 0's group. */
static _Atomic(struct symc_queue *) watched;
static _Atomic(struct test *) leaving; /* once */
static _Atomic bool blind;             /* completed work is not seen */

/* Copies within this rank's memory; the two streams write different parts. */
static bool copy(struct joined *it, size_t offset)
{
    return OK(symmcoll_symm_put_data(
        it->handle, it->rank, offset, it->data, QUARTER));
}

/* Enqueues a copy on another stream and releases the last handle; then resumes
 * the first stream. */
static bool leave(struct test *test)
{
    struct joined *it = &test->it;
    bool right = OK(symmcoll_group_set_stream(it->group, test->other)) &&
                 copy(it, 2 * QUARTER);

    symmcoll_symm_release(it->handle);
    fake_resume(it->stream);
    device_wait(it->stream);
    return right;
}

bool __wrap_symc_queue_await_begun(
    struct symc_queue *queue, uint64_t number, int64_t deadline_ns)
{
    struct test *test;
    bool ended;

    if (queue == atomic_load(&watched) &&
        (test = atomic_exchange(&leaving, NULL)) != NULL)
        test->left = leave(test);
    ended = __real_symc_queue_await_begun(queue, number, deadline_ns);
    return ended && (queue != atomic_load(&watched) || !atomic_load(&blind));
}

/* ---- a new group ---- */

static bool begin(struct symmcoll_group *all, int rank, struct joined *it)
{
    struct symmcoll_group *group = NULL;
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(it, group, rank, NBYTES) &&
        OK(symmcoll_barrier(all, NULL, NULL));

    if (right && rank == 0)
        atomic_store(&watched, group->runner.queue);
    return right && OK(symmcoll_group_set_timeout(group, SHORT));
}

/* Ends the test. released: rank 0 has neither handle nor memory. */
static bool end(struct symmcoll_group *all, struct joined *it, bool released)
{
    bool right = OK(symmcoll_barrier(all, NULL, NULL));

    if (it->rank == 0)
        atomic_store(&watched, NULL);
    device_wait(it->stream);
    if (it->rank != 0 || !released) {
        symmcoll_symm_release(it->handle);
        right = OK(symmcoll_symm_free(it->world, it->data)) && right;
    }
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = OK(symmcoll_group_free(it->group)) && right;
    device_end_stream(it->stream);
    return right;
}

/* ---- calls during which the other thread leaves ---- */

static symmcoll_status_t free_data(struct test *test)
{
    return test->pool != NULL
               ? symmcoll_symm_pool_trim(test->pool)
               : symmcoll_symm_free(test->it.world, test->it.data);
}

static bool frees_last(struct test *test)
{
    struct joined *it = &test->it;
    bool right;

    test->other = device_stream();
    write_pattern(it->data, QUARTER, 1);
    fake_stall(it->stream);
    fake_stall(test->other);
    right = copy(it, QUARTER);
    atomic_store(&leaving, test);
    right = right &&
            refused(free_data(test), SYMMCOLL_ERR_TIMEOUT, ": after",
                "symm_put_data on stream") &&
            HOLDS(test->left);
    fake_resume(test->other);
    device_wait(test->other);
    right = right && is_pattern(it->data + 2 * QUARTER, QUARTER, 1) &&
            OK(free_data(test));
    return right;
}

static int awaits_who_leaves(struct symmcoll_group *all, int rank)
{
    struct test test = {.pool = NULL};
    bool right = begin(all, rank, &test.it);

    if (right && rank == 0)
        right = frees_last(&test);
    right = right && end(all, &test.it, true);
    if (test.other != NULL)
        device_end_stream(test.other);
    return right;
}

/* The memory is freed while the handle still uses it, and the pool is
 * trimmed. */
static int awaits_before_a_trim(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct test test = {.pool = NULL};
    struct joined kept;
    bool right = begin(all, rank, &test.it);

    kept = test.it;
    right = right &&
            OK(symmcoll_symm_pool_create(test.it.world, &args, &test.pool)) &&
            OK(symmcoll_symm_pool_alloc(
                test.pool, NBYTES, (void **)&test.it.data)) &&
            OK(symmcoll_symm_rendezvous(
                test.it.group, test.it.data, NULL, &test.it.handle)) &&
            OK(symmcoll_symm_free(test.it.world, test.it.data));
    if (right && rank == 0)
        right = frees_last(&test);
    else if (right)
        symmcoll_symm_release(test.it.handle);
    right = right && OK(symmcoll_barrier(all, NULL, NULL)) &&
            OK(symmcoll_symm_pool_free(test.pool)) && end(all, &kept, false);
    if (test.other != NULL)
        device_end_stream(test.other);
    return right;
}

/* ---- the last moment ---- */

/* The copy ends between the last check and the report about it. */
static int says_nothing_of_what_has_ended(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = begin(all, rank, &it) && copy(&it, QUARTER);

    device_wait(it.stream);
    if (right && rank == 0) {
        symmcoll_symm_release(it.handle);
        atomic_store(&blind, true);
        right = OK(symmcoll_symm_free(it.world, it.data));
        atomic_store(&blind, false);
    }
    return right && end(all, &it, true);
}

/* ---- released memory ---- */

static int released, counted; /* calls; threads counted during one of them */

static void look(void *memory)
{
    struct symc_share *share = memory;

    released++;
    counted += (int)atomic_load(&share->waiting);
}

/* Checks that a call of the driver, which may block, is not counted as a user
 * of the group, the release of which would wait for it. */
static int counts_nobody_in_the_driver(struct symmcoll_group *all, int rank)
{
    static const struct symc_memory_ops ops = {.free = look};
    struct joined it = {0};
    bool right = begin(all, rank, &it);
    struct symc_symm *symm = symc_symm_of(it.world);

    if (right && rank == 0) {
        pthread_mutex_lock(&symm->lock);
        symc_left_memory(symm, &ops, it.handle->share);
        right = OK(symc_share_await(symm, it.handle->share, "t"));
        symc_symm_unlock(symm);
        right = HOLDS(released == 1) && HOLDS(counted == 0) && right;
    }
    return right && end(all, &it, false);
}

int main(void)
{
    device_begin();
    on_both(2, awaits_who_leaves,
        "symm_free() waits for what another thread's handle has left");
    on_both(2, awaits_before_a_trim,
        "symm_pool_trim() waits for what another thread's handle has left");
    on_both(2, says_nothing_of_what_has_ended,
        "symm_free() returns OK if all has ended when the time is over");
    on_both(2, counts_nobody_in_the_driver,
        "who waits releases what was left before it is counted");
    return done_testing();
}
