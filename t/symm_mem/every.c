/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failures of every operation on symmetric memory: a rank dies in the
 * middle, ranks pass different sizes, or bytes are beyond the end of the
 * buffer; and a rank that leaves early while another one copies.
 */
#include "base/moving.h"
#include "group/group.h"
#include "run/call.h"
#include "t/symm_mem/ops.h"
#include "t/world/faults.h"

#include <signal.h>

#define SIZE 3
#define VICTIM 1
#define NBYTES ((size_t)1 << 20)
#define COUNT ((size_t)12288) /* elements to be divided */
#define OTHER ((size_t)11520) /* divisible by the same numbers */
#define OUT_AT ((size_t)512 * 1024)
#define IN_SPLITS_AT ((size_t)768 * 1024)
#define OUT_SPLITS_AT ((size_t)800 * 1024)
#define F32 SYMMCOLL_FLOAT32

/* The buffers of a rank. */
struct buffers {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    struct symmcoll_symm_plan *plan;
    void *data;
    float *out, *in; /* private, of COUNT elements */
    int rank;
};

static bool acquire(struct buffers *it, struct symmcoll_group *group)
{
    int64_t *splits;

    *it = (struct buffers){.group = group,
        .rank = symmcoll_group_rank(group),
        .out = calloc(COUNT, sizeof(float)),
        .in = calloc(COUNT, sizeof(float))};
    if (it->out == NULL || it->in == NULL ||
        !join(group, NBYTES, &it->data, &it->handle))
        return false;
    splits = (int64_t *)(void *)((char *)it->data + IN_SPLITS_AT);
    for (int64_t r = 0; r < SIZE; r++) {
        splits[r] = (int64_t)OTHER / SIZE;
        splits[SIZE + r] = r * (int64_t)OTHER / SIZE; /* of the way back */
    }
    return OK(symmcoll_barrier(group, NULL, NULL));
}

static bool release_all(struct buffers *it)
{
    symmcoll_symm_plan_free(it->plan);
    free(it->out);
    free(it->in);
    return part(it->group, it->data, it->handle);
}

static struct symmcoll_symm_exchange exchange_of(size_t count, size_t offset)
{
    struct symmcoll_symm_exchange exchange = SYMMCOLL_SYMM_EXCHANGE_INIT;

    exchange.dtype = F32;
    exchange.in_offset = offset;
    exchange.in_rows = count;
    exchange.out_offset = OUT_AT;
    exchange.out_rows = count;
    exchange.in_splits_offset = IN_SPLITS_AT;
    exchange.out_splits_offset = OUT_SPLITS_AT;
    return exchange;
}

/* ---- the operations: on `count` elements, from byte `at` on ---- */

static symmcoll_status_t one_shot(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_one_shot_all_reduce(
        it->handle, at, it->out, count, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t one_shot_copy(
    struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_one_shot_all_reduce_copy(
        it->handle, at, it->out, it->in, count, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t reduce(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_one_shot_reduce(
        it->handle, at, it->out, count, F32, SYMMCOLL_SUM, 0, NULL);
}

static symmcoll_status_t two_shot(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_two_shot_all_reduce(
        it->handle, at, NULL, count, F32, SYMMCOLL_MAX, NULL);
}

static symmcoll_status_t scatter_rows(
    struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_reduce_scatter(
        it->handle, at, it->out, count, 1, 0, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t scatter_columns(
    struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_reduce_scatter(
        it->handle, at, it->out, count / 48, 48, 1, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t scatter_in_turn(
    struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_low_contention_reduce_scatter(
        it->handle, at, it->out, count / SIZE, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t gather(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_all_gather(
        it->handle, at, it->in, count / SIZE, F32, NULL);
}

static symmcoll_status_t gather_in_turn(
    struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_low_contention_all_gather(
        it->handle, at, it->out, count / SIZE, F32, NULL);
}

static symmcoll_status_t tile(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_tile_reduce(it->handle, at, it->out, 60, count / 64,
        60, 64, F32, SYMMCOLL_SUM, 0, NULL);
}

static symmcoll_status_t tiles(struct buffers *it, size_t count, size_t at)
{
    const size_t offsets[2] = {at, at + 64};
    static const int roots[2] = {2, 1};

    return symmcoll_symm_multi_root_tile_reduce(it->handle, offsets, roots, 2,
        it->out, 30, count / 64, 30, 64, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t scatter_blocks(
    struct buffers *it, size_t count, size_t at)
{
    const size_t rows = count / 16, ends[] = {rows / 3, rows / 2, rows};
    void *outs[] = {it->out};

    return symmcoll_symm_reduce_scatter_offset(it->handle, at, outs, rows, 16,
        16, 0, ends, NULL, SIZE, F32, SYMMCOLL_SUM, NULL);
}

static symmcoll_status_t exchange(struct buffers *it, size_t count, size_t at)
{
    struct symmcoll_symm_exchange args = exchange_of(count, at);

    return symmcoll_symm_all_to_all_v(it->handle, &args, NULL);
}

static symmcoll_status_t exchange_back(
    struct buffers *it, size_t count, size_t at)
{
    struct symmcoll_symm_exchange args = exchange_of(count, at);

    return symmcoll_symm_all_to_all_v_back(it->handle, &args, NULL);
}

static symmcoll_status_t make_plan(struct buffers *it, size_t count, size_t at)
{
    struct symmcoll_symm_exchange args = exchange_of(count, at);
    struct symmcoll_symm_plan *plan = NULL;
    symmcoll_status_t status =
        symmcoll_symm_plan_create(it->handle, &args, NULL, &plan);

    symmcoll_symm_plan_free(plan);
    return status;
}

/* Uses the sizes of the plan. */
static symmcoll_status_t run_plan(struct buffers *it, size_t count, size_t at)
{
    struct symmcoll_symm_exchange args = exchange_of(count, at);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (it->plan == NULL)
        status = symmcoll_symm_plan_create(it->handle, &args, NULL, &it->plan);
    return status == SYMMCOLL_OK ? symmcoll_symm_plan_run(it->plan, NULL)
                                 : status;
}

static symmcoll_status_t push_rows(struct buffers *it, size_t count, size_t at)
{
    static const int ranks[] = {0, 1, 2};
    const size_t rows[] = {(size_t)it->rank, (size_t)it->rank + 3, 7};

    return symmcoll_symm_push_rows(it->handle, at, count / 256, it->in,
        it->rank == 0 ? 3 : 2, 256, F32, ranks, rows, NULL);
}

static symmcoll_status_t broadcast(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_broadcast(it->handle, at, count, F32, 2, NULL);
}

static symmcoll_status_t all_to_all(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_all_to_all(
        it->handle, at, OUT_AT, count / SIZE, F32, NULL);
}

static symmcoll_status_t gather_unequal(
    struct buffers *it, size_t count, size_t at)
{
    const size_t ends[] = {count / 4, count / 2, count};

    return symmcoll_symm_all_gather_offset(
        it->handle, at, it->in, ends, F32, NULL);
}

static symmcoll_status_t permute(struct buffers *it, size_t count, size_t at)
{
    static const int to[] = {1, 2, 0};

    return symmcoll_symm_permute(it->handle, at, OUT_AT, count, F32, to, NULL);
}

static symmcoll_status_t reshard(struct buffers *it, size_t count, size_t at)
{
    return symmcoll_symm_reshard(
        it->handle, at, it->out, count / 48, 48, 0, 1, F32, NULL);
}

static const struct operation {
    const char *name;
    symmcoll_status_t (*run)(struct buffers *it, size_t count, size_t at);
} operations[] = {{"symm_one_shot_all_reduce", one_shot},
    {"symm_one_shot_all_reduce", one_shot_copy},
    {"symm_one_shot_reduce", reduce}, {"symm_two_shot_all_reduce", two_shot},
    {"symm_reduce_scatter", scatter_rows},
    {"symm_reduce_scatter", scatter_columns},
    {"symm_low_contention_reduce_scatter", scatter_in_turn},
    {"symm_all_gather", gather},
    {"symm_low_contention_all_gather", gather_in_turn},
    {"symm_tile_reduce", tile}, {"symm_multi_root_tile_reduce", tiles},
    {"symm_reduce_scatter_offset", scatter_blocks},
    {"symm_all_to_all_v", exchange}, {"symm_all_to_all_v_back", exchange_back},
    {"symm_plan_create", make_plan}, {"symm_push_rows", push_rows},
    {"symm_broadcast", broadcast}, {"symm_all_to_all", all_to_all},
    {"symm_all_gather_offset", gather_unequal}, {"symm_permute", permute},
    {"symm_reshard", reshard}, {"symm_plan_run", run_plan}};

/* ---- a death during an operation ---- */

static int operate_for_ever(struct faults_rank *self)
{
    const struct operation *operation = self->arg;
    symmcoll_status_t status = SYMMCOLL_OK;
    struct buffers it;

    if (!faults_init(self) || !acquire(&it, self->group))
        return 1;
    for (int i = 0; status == SYMMCOLL_OK; i++) {
        status = operation->run(&it, OTHER, 0);
        if (i == 10)
            faults_reach(self, 1);
    }
    faults_note(self, status);
    (void)release_all(&it);
    return faults_finalize(self);
}

static bool death_is_known(const struct operation *operation)
{
    struct faults_job job;
    bool good;

    faults_start(&job, SIZE, operate_for_ever, operation);
    good = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    good = faults_kill_is_known(&job, VICTIM) && good;
    for (int r = 0; r < SIZE; r++)
        good = (r == VICTIM || faults_said(faults_told(&job, r, 0),
                                   SYMMCOLL_ERR_PEER, operation->name, NULL)) &&
               good;
    return faults_finish(&job, 1u << VICTIM) && faults_clear_dumps(SIZE) &&
           good;
}

/* ---- arguments ---- */

/* Checks that all ranks' errors have the sizes that each passed, and that the
 * group remains usable. */
static int sizes_differ(struct symmcoll_group *group, int rank)
{
    struct buffers it;
    bool good = acquire(&it, group);

    /* The last operation is excluded: sizes of a plan cannot differ. */
    for (size_t i = 0; good && i + 1 < LENGTH(operations); i++) {
        const struct operation *operation = &operations[i];

        good = REFUSED(operation->run(&it, rank == VICTIM ? COUNT : OTHER, 0),
                   SYMMCOLL_ERR_MISMATCH, "rank 1 passed ") &&
               HOLDS(strstr(symmcoll_last_error(), operation->name) != NULL) &&
               REFUSED(operation->run(&it, OTHER, rank == VICTIM ? 256 : 0),
                   SYMMCOLL_ERR_MISMATCH, "rank 1 passed ") &&
               OK(operation->run(&it, OTHER, 0));
        if (!good)
            diag("rank %d: %s, number %zu", rank, operation->name, i);
    }
    return release_all(&it) && good;
}

/* Checks that the rank with an end beyond the buffer gets an error, and that
 * nothing else happens. */
static int ends_are_kept(struct symmcoll_group *group, int rank)
{
    uint64_t before;
    struct buffers it;
    bool good = acquire(&it, group);

    (void)rank;
    before = symmcoll_group_sequence(group);
    for (size_t i = 0; good && i < LENGTH(operations); i++) {
        const struct operation *operation = &operations[i];

        good = REFUSED(operation->run(&it, OTHER, NBYTES - 64),
                   SYMMCOLL_ERR_INVALID, "expected ") &&
               HOLDS(strstr(symmcoll_last_error(), ", found ") != NULL) &&
               HOLDS(strstr(symmcoll_last_error(), "buffer's 1048576") != NULL);
        if (!good)
            diag("%s, number %zu: %s", operation->name, i,
                symmcoll_last_error());
    }
    good = HOLDS(symmcoll_group_sequence(group) == before) && good;
    return release_all(&it) && good;
}

/* ---- an owner that leaves while another rank copies ---- */

static symmcoll_status_t agrees(struct symc_mover *mover,
    const struct symc_moving *moving, const void *const *payloads)
{
    (void)mover;
    (void)moving;
    (void)payloads;
    return SYMMCOLL_OK;
}

/* Memory of rank 0, if ranks are threads. */
static _Alignas(64) char owned[4096];

struct leaving {
    struct symc_mover mover;
    bool streaming; /* by non-temporal stores */
};

/* Rank 1 writes the memory of rank 0 until that is no longer permitted. */
static void copies_for_ever(
    struct symc_mover *mover, const struct symc_moving *moving)
{
    const struct leaving *leaving = (const struct leaving *)mover;
    static const char from[sizeof(owned)];

    while (moving->rank == 1 && symc_moving_copy(moving, 0, owned, from,
                                    sizeof(from), leaving->streaming))
        continue;
}

static symmcoll_status_t leave_early(
    struct symmcoll_group *group, int rank, bool streaming)
{
    struct leaving leaving = {
        .mover = {.check = agrees, .move = copies_for_ever},
        .streaming = streaming};
    struct symc_op op = {.kind = SYMC_SYMM_ALL_GATHER,
        .dtype = SYMMCOLL_UINT8,
        .count = 1,
        .elem = 1,
        .out = &leaving.mover,
        .timeout_ns = rank == 0 ? SYMC_NS_PER_S / 5 : 60 * SYMC_NS_PER_S};

    return symc_run_call(&group->runner, &op);
}

static int leaves_early(struct faults_rank *self)
{
    if (!faults_init(self))
        return 1;
    faults_note(self, leave_early(self->group, self->rank, self->arg != NULL));
    faults_reach(self, 1);
    faults_pass(self, 1);
    return faults_finalize(self);
}

static bool copy_ends_with_its_owner(const void *streaming)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 2, leaves_early, streaming);
    good = faults_await_all(&job, 1) &&
           faults_said(
               faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT, "rank 1", NULL) &&
           faults_said(
               faults_told(&job, 1, 0), SYMMCOLL_ERR_ABORTED, "rank 1", NULL);
    faults_open(&job, 1);
    return faults_finish(&job, 0) && faults_clear_dumps(2) && good;
}

/* The owner waits for a thread that is accessing its memory, however long;
 * afterwards the memory has only the owner's writes. */
static bool thread_leaves(
    struct symmcoll_group *group, int rank, bool streaming)
{
    bool right = REFUSED(leave_early(group, rank, streaming),
        rank == 0 ? SYMMCOLL_ERR_TIMEOUT : SYMMCOLL_ERR_ABORTED, "rank 1");

    if (rank != 0)
        return right;
    memset(owned, 'x', sizeof(owned));
    for (size_t i = 0; right && i < sizeof(owned); i++)
        right = HOLDS(owned[i] == 'x');
    return right;
}

static int thread_leaves_early(struct symmcoll_group *group, int rank)
{
    return thread_leaves(group, rank, false);
}

static int thread_that_streams_leaves_early(
    struct symmcoll_group *group, int rank)
{
    return thread_leaves(group, rank, true);
}

int main(void)
{
    bool good = true;

    plan(9);
    ok(ranks_run(SIZE, sizes_differ),
        "processes: sizes and offsets that differ are named on all (S71)");
    ok(threads_run(SIZE, sizes_differ),
        "threads: sizes and offsets that differ are named on all (S71)");
    ok(ranks_run(SIZE, ends_are_kept),
        "processes: bytes beyond a buffer's end change no counter (C6 S71)");
    ok(threads_run(SIZE, ends_are_kept),
        "threads: bytes beyond a buffer's end change no counter (C6 S71)");
    faults_begin();
    for (size_t i = 0; i < LENGTH(operations); i++)
        good = death_is_known(&operations[i]) && good;
    ok(good, "a death in the middle of any operation is known (S71)");
    ok(copy_ends_with_its_owner(NULL),
        "processes: a copy ends when the owner of its memory has left");
    ok(copy_ends_with_its_owner(operations),
        "processes: and so does one by non-temporal stores");
    ok(threads_run(2, thread_leaves_early),
        "threads: a copy ends when the owner of its memory has left");
    ok(threads_run(2, thread_that_streams_leaves_early),
        "threads: and so does one by non-temporal stores");
    faults_end();
    return done_testing();
}
