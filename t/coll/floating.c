/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that call the library in different floating-point modes: every
 * rank receives the bits of the default mode, from blocking calls and from
 * works, and its mode is kept.
 */
#include "../floating.h"
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WORKS 3
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const size_t counts[] = {2, 33, 3000, 150000};
static const symmcoll_op_t ops[] = {
    SYMMCOLL_SUM, SYMMCOLL_AVG, SYMMCOLL_PRODUCT};

/* Fills with float32: sums that are rounded, and sums that are subnormal. */
static void fill_floats(float *to, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++) {
        float odd = (float)(3 * rank + 1) / (float)(i % 1000 + 3);

        to[i] = i % 2 == 0 ? odd : (rank % 2 == 0 ? 1.5f : -1.0f) * 0x1p-126f;
    }
}

/* The buffers of one call, of count elements. */
struct buffers {
    struct symmcoll_group *group;
    size_t count;
    symmcoll_op_t op;
    float *in, *expected;
    float *out[WORKS];
};

static bool open_buffers(struct buffers *it, int rank)
{
    size_t nbytes = it->count * sizeof(float);
    bool all = true;

    it->in = malloc(nbytes);
    it->expected = malloc(nbytes);
    for (int i = 0; i < WORKS; i++) {
        it->out[i] = calloc(1, nbytes);
        all = all && it->out[i] != NULL;
    }
    if (!all || it->in == NULL || it->expected == NULL)
        return false;
    fill_floats(it->in, it->count, rank);
    return symmcoll_all_reduce(it->group, it->expected, it->in, it->count,
               SYMMCOLL_FLOAT32, it->op, NULL, NULL) == SYMMCOLL_OK;
}

static void close_buffers(struct buffers *it)
{
    free(it->in);
    free(it->expected);
    for (int i = 0; i < WORKS; i++)
        free(it->out[i]);
}

static bool is_same(const struct buffers *it, int i, uint64_t mode)
{
    if (memcmp(it->out[i], it->expected, it->count * sizeof(float)) == 0)
        return true;
    diag("%s of %zu, mode %#llx: %s has other bits", symmcoll_op_name(it->op),
        it->count, (unsigned long long)mode,
        i == 0 ? "a call that blocks" : "a work");
    return false;
}

/* Runs a blocking call after two works, in that mode. */
static bool reduces(struct buffers *it, uint64_t mode)
{
    struct symmcoll_work *works[WORKS] = {NULL};
    uint64_t before = symc_floating_get();
    bool right = true, kept;

    symc_floating_put(mode);
    for (int i = 1; i < WORKS; i++)
        right = symmcoll_all_reduce(it->group, it->out[i], it->in, it->count,
                    SYMMCOLL_FLOAT32, it->op, NULL, &works[i]) == SYMMCOLL_OK &&
                right;
    right = symmcoll_all_reduce(it->group, it->out[0], it->in, it->count,
                SYMMCOLL_FLOAT32, it->op, NULL, NULL) == SYMMCOLL_OK &&
            right;
    for (int i = 1; i < WORKS; i++) {
        right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK && right;
        symmcoll_work_free(works[i]);
    }
    kept = floating_is(mode);
    symc_floating_put(before);
    if (!kept)
        diag("mode %#llx is another one now", (unsigned long long)mode);
    for (int i = 0; i < WORKS; i++)
        right = right && is_same(it, i, mode);
    return right && kept;
}

static int modes_change_nothing(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (size_t c = 0; c < LENGTH(counts) * LENGTH(ops); c++) {
        struct buffers it = {.group = group,
            .count = counts[c % LENGTH(counts)],
            .op = ops[c / LENGTH(counts)]};

        right = open_buffers(&it, rank) && right;
        /* First all ranks use the same mode, then each another one. */
        for (size_t m = 0; right && m < 2 * FLOATING_MODES; m++)
            right = reduces(&it, floating_modes[(m / 2 + m % 2 * (size_t)rank) %
                                                FLOATING_MODES]);
        close_buffers(&it);
    }
    return right;
}

/* ---- threads ---- */

struct noted {
    bool is_default;
    sem_t done;
};

static void note_mode(symmcoll_status_t status, void *arg)
{
    struct noted *noted = arg;

    (void)status;
    noted->is_default = symc_floating_is_default(symc_floating_get());
    sem_post(&noted->done);
}

/* Starts the thread of callbacks by a call in another mode. */
static int callbacks_have_the_default(struct symmcoll_group *group, int rank)
{
    uint64_t before = symc_floating_get();
    struct symmcoll_work *work = NULL;
    struct noted noted = {.is_default = false};
    bool right;

    (void)rank;
    sem_init(&noted.done, 0, 0);
    symc_floating_put(floating_modes[0]);
    right = symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
            symmcoll_work_then(work, note_mode, &noted) == SYMMCOLL_OK;
    symc_floating_put(before);
    while (right && sem_wait(&noted.done) != 0)
        continue;
    symmcoll_work_free(work);
    sem_destroy(&noted.done);
    return right && noted.is_default;
}

static symmcoll_status_t compare_mode(struct symmcoll_world *world, void *arg)
{
    const uint64_t *mode = arg;

    (void)world;
    return floating_is(*mode) ? SYMMCOLL_OK : SYMMCOLL_ERR_INTERNAL;
}

static int ranks_have_the_callers(void)
{
    uint64_t before = symc_floating_get(), mode = floating_modes[0];
    symmcoll_status_t status;

    symc_floating_put(mode);
    status = symmcoll_threads_run(2, compare_mode, &mode, NULL);
    symc_floating_put(before);
    return status == SYMMCOLL_OK;
}

int main(void)
{
    plan(5);
    ok(ranks_run(2, modes_change_nothing) && ranks_run(3, modes_change_nothing),
        "processes: the bits depend on no rank's mode of floating-point "
        "arithmetic");
    ok(threads_run(2, modes_change_nothing) &&
            threads_run(3, modes_change_nothing),
        "threads: nor on the mode of a thread");
    ok(ranks_run(2, callbacks_have_the_default),
        "processes: callbacks run in the default mode");
    ok(threads_run(2, callbacks_have_the_default),
        "threads: callbacks run in the default mode");
    ok(process_run(ranks_have_the_callers),
        "ranks of symmcoll_threads_run() run in its caller's mode");
    return done_testing();
}
