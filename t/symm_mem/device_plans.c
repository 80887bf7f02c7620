/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the lifetime of plans in device memory: while they run, without their
 * handle and group, after their world, and in a thread with a pending
 * cancellation.
 */
#include "t/cuda/later.h"
#include "t/symm_mem/device.h"
#include "t/world/faults.h"

#include <pthread.h>

#define ROWS ((size_t)4)
#define OUT_AT ((size_t)1024)
#define SPLITS_AT ((size_t)2048)
#define OUT_SPLITS_AT ((size_t)2304)
#define NBYTES ((size_t)4096)
#define SHORT 0.3 /* seconds; timeout of a group */

static struct symmcoll_symm_exchange exchange(void)
{
    struct symmcoll_symm_exchange made = SYMMCOLL_SYMM_EXCHANGE_INIT;

    made.dtype = F32;
    made.in_rows = made.out_rows = ROWS;
    made.out_offset = OUT_AT;
    made.in_splits_offset = SPLITS_AT;
    made.out_splits_offset = OUT_SPLITS_AT;
    return made;
}

/* Writes a row for each rank, with this rank's number. */
static void write_rows(struct joined *it)
{
    float rows[ROWS];
    int64_t splits[ROWS];

    for (size_t i = 0; i < ROWS; i++) {
        rows[i] = (float)(10 * it->rank + (int)i);
        splits[i] = i < (size_t)it->size ? 1 : 0;
    }
    device_write(it->data, rows, sizeof(rows));
    device_write(it->data + SPLITS_AT, splits, sizeof(splits));
}

static bool has_rows(struct joined *it)
{
    float rows[ROWS];
    bool right = true;

    device_read(rows, it->data + OUT_AT, sizeof(rows));
    for (int r = 0; r < it->size; r++)
        right = HOLDS(rows[r] == (float)(10 * r + it->rank)) && right;
    return right;
}

/* Creates a new group with joined memory. */
static bool begin(struct symmcoll_group *all, int rank, struct joined *it)
{
    struct symmcoll_group *group = NULL;
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(it, group, rank, NBYTES);

    if (right)
        write_rows(it);
    return right && OK(symmcoll_barrier(all, NULL, NULL));
}

static bool make(struct joined *it, struct symmcoll_symm_plan **plan)
{
    struct symmcoll_symm_exchange args = exchange();
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = it->stream;
    return OK(symmcoll_symm_plan_create(it->handle, &args, &call, plan));
}

static symmcoll_status_t run(struct joined *it, struct symmcoll_symm_plan *plan)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = it->stream;
    return symmcoll_symm_plan_run(plan, &call);
}

/* Ends the test when all ranks have stopped using the memory. */
static bool end(struct symmcoll_group *all, struct joined *it, bool released)
{
    bool right;

    device_wait(it->stream);
    if (!released) {
        symmcoll_symm_release(it->handle);
        right = OK(symmcoll_symm_free(it->world, it->data)) &&
                OK(symmcoll_barrier(all, NULL, NULL)) &&
                OK(symmcoll_group_free(it->group));
    } else {
        right = OK(symmcoll_barrier(all, NULL, NULL));
    }
    device_end_stream(it->stream);
    return right;
}

/* ---- a running plan ---- */

static int is_awaited(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_plan *plan = NULL;
    struct later later;
    struct joined it = {0};
    bool right = begin(all, rank, &it) && make(&it, &plan);

    if (!right)
        return false;
    device_wait(it.stream);
    fake_stall(it.stream);
    right = OK(run(&it, plan));
    later_resume(&later, it.stream);
    symmcoll_symm_plan_free(plan);
    right = later_end(&later) && right;
    device_wait(it.stream);
    right = right && has_rows(&it);
    return end(all, &it, false) && right;
}

/* Checks that an operation which still runs after the timeout keeps the plan's
 * memory, and that no memory is lost. */
static int is_left_for_later(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_plan *plan = NULL;
    struct joined it = {0};
    int before, live = 0;
    bool right = begin(all, rank, &it);

    before = fake_live(FAKE_PHYSICAL);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = right && make(&it, &plan) &&
            OK(symmcoll_group_set_timeout(it.group, SHORT));
    if (!right)
        return false;
    device_wait(it.stream);
    fake_stall(it.stream);
    right = OK(symmcoll_symm_put_data(
        it.handle, rank, OUT_AT, it.data + OUT_SPLITS_AT, 64));
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_plan_free(plan);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    live = fake_live(FAKE_PHYSICAL);
    right = HOLDS(live > before) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    fake_resume(it.stream);
    right = end(all, &it, false) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = HOLDS(fake_live(FAKE_PHYSICAL) < before) && right;
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    return right;
}

/* ---- a plan without its handle or group ---- */

static int outlives_its_handle(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_plan *plan = NULL;
    struct joined it = {0};
    bool right = begin(all, rank, &it) && make(&it, &plan);

    symmcoll_symm_release(it.handle);
    right = right && OK(run(&it, plan));
    device_wait(it.stream);
    right = right && has_rows(&it) &&
            OK(symmcoll_symm_free(it.world, it.data)) &&
            OK(symmcoll_barrier(all, NULL, NULL)) &&
            OK(symmcoll_group_free(it.group)) &&
            refused(run(&it, plan), SYMMCOLL_ERR_INVALID,
                "symm_plan_run:", "has been released");
    symmcoll_symm_plan_free(plan);
    return end(all, &it, true) && right;
}

static int outlive_a_world(struct faults_rank *self)
{
    struct symmcoll_symm_plan *plan = NULL;
    struct joined it = {0};
    bool right =
        faults_init(self) && begin_joined(&it, self->group, self->rank, NBYTES);

    if (right)
        write_rows(&it);
    right = right && make(&it, &plan);
    device_wait(it.stream);
    right = OK(symmcoll_finalize(self->world)) && right;
    right = HOLDS(fake_live(FAKE_MAPPED) == 0) && right;
    symmcoll_symm_plan_free(plan);
    symmcoll_symm_release(it.handle);
    right = HOLDS(fake_live(FAKE_PHYSICAL) == 0) && right;
    return !right;
}

static void outlives_its_world(void)
{
    struct faults_job job;

    faults_start(&job, 2, outlive_a_world, NULL);
    ok(faults_finish(&job, 0),
        "a plan that is freed after finalize(), which has left all memory");
}

/* ---- threads with a pending cancellation ---- */

struct cancelled {
    struct joined *it;
    struct symmcoll_symm_plan *plan;
    struct later later;
    bool created, freed;
};

static void *use_cancelled(void *arg)
{
    struct cancelled *test = arg;
    struct joined *it = test->it;
    int state;

    device_use(it->rank);
    pthread_cancel(pthread_self());
    test->created = make(it, &test->plan);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    device_wait(it->stream);
    fake_stall(it->stream);
    (void)OK(symmcoll_symm_put_data(
        it->handle, it->rank, OUT_AT, it->data + OUT_SPLITS_AT, 64));
    later_resume(&test->later, it->stream);
    pthread_setcancelstate(state, NULL);
    symmcoll_symm_plan_free(test->plan);
    test->freed = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    test->freed = later_end(&test->later) && test->freed;
    return arg;
}

static int ends_before_a_cancellation(struct symmcoll_group *all, int rank)
{
    struct joined it = {0};
    bool right = begin(all, rank, &it);
    struct cancelled test = {.it = &it};
    pthread_t thread;
    void *result = NULL;

    if (!right)
        return false;
    pthread_create(&thread, NULL, use_cancelled, &test);
    pthread_join(thread, &result);
    right = HOLDS(test.created) && HOLDS(test.freed) && HOLDS(result == &test);
    return end(all, &it, false) && right;
}

int main(void)
{
    device_begin();
    faults_begin();
    on_both(2, is_awaited, "a plan is freed when nothing runs by it");
    on_both(2, is_left_for_later,
        "memory of a plan that something may use is freed later");
    on_both(2, outlives_its_handle,
        "a plan keeps its handle, and is refused without its group");
    outlives_its_world();
    on_both(2, ends_before_a_cancellation,
        "a thread is not cancelled while it makes a plan, or frees it");
    faults_end();
    return done_testing();
}
