/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests every operation on symmetric memory of one device that 2, 4 and 8
 * threads or 2 processes share, against the same in host memory: the bits of
 * all buffers, of the bytes before them, and of the arguments; graphs that are
 * launched a hundred times; and a thousand consecutive operations.
 */
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"
#include "t/symm_mem/device_every.h"

/* ---- every operation ---- */

/* Counts for packets and one shot, for two shots, and for chunks of the
 * staging memory, with the settings of set_sizes(); the last one is the
 * largest that fits. */
static size_t counts[] = {1, 7, 130, 1003};

static bool run_counts(struct test *it, size_t first)
{
    static const enum symmcoll_dtype types[] = {
        SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16, SYMMCOLL_INT32, SYMMCOLL_FLOAT64};
    bool right = true;
    int round = 0;

    for (size_t i = 0; every[i].name != NULL && right; i++) {
        for (size_t c = first; c < LENGTH(counts) && right; c++) {
            it->count = counts[c];
            it->dtype = types[(i + c) % LENGTH(types)];
            right = sides_run(it, &every[i], round += 4);
        }
    }
    return right;
}

static int every_operation(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = sides_begin(&it, group, rank);

    right = right && run_counts(&it, gpu_is_short() ? 2 : 0);
    return sides_end(&it, right);
}

/* Runs few operations, because processes run on a device alternately. */
static int some_of_each(struct symmcoll_group *group, int rank)
{
    struct test it;
    bool right = sides_begin(&it, group, rank);

    right = right && run_counts(&it, LENGTH(counts) - 1);
    return sides_end(&it, right);
}

static int graphs(struct symmcoll_group *group, int rank)
{
    const int rounds = gpu_choose(10, 2, 1), starts = gpu_choose(10, 3, 2);
    struct test it;
    bool right = sides_begin(&it, group, rank);

    it.count = 131;
    for (size_t i = 0; every[i].name != NULL && right; i++)
        right = sides_replay(&it, &every[i], rounds, starts);
    return sides_end(&it, right);
}

/* ---- in a row ---- */

#define COUNT 5 /* elements of each result */

#define RESULT ((size_t)512) /* bytes from one to the next */

struct row {
    struct test it;
    uint32_t *out, *found; /* a result of each round */
    int rounds;
};

static bool begin_row(struct row *row, struct symmcoll_group *group, int rank)
{
    bool right = sides_begin(&row->it, group, rank);

    row->rounds = gpu_choose(1000, 40, 12);
    row->out = device_alloc((size_t)row->rounds * RESULT);
    row->found = malloc((size_t)row->rounds * RESULT);
    return right;
}

static bool end_row(struct row *row, bool right)
{
    device_free(row->out);
    free(row->found);
    return sides_end(&row->it, right);
}

static uint32_t number_of(int rank, int round)
{
    return (uint32_t)(7 * round + rank);
}

/* Calls one of the forms. Each leaves in out the same number COUNT times, or
 * that of each rank. */
static symmcoll_status_t call_form(struct row *row, int round)
{
    struct side *side = &row->it.device;
    char *out = (char *)row->out + (size_t)round * RESULT;

    switch (round % 4) {
    case 0:
        return symmcoll_symm_one_shot_all_reduce(
            side->handle, 0, out, COUNT, SYMMCOLL_UINT32, SUM, &side->call);
    case 1:
        return symmcoll_symm_two_shot_all_reduce(
            side->handle, 0, out, COUNT, SYMMCOLL_UINT32, SUM, &side->call);
    case 2:
        return symmcoll_symm_low_contention_all_gather(
            side->handle, 0, out, COUNT, SYMMCOLL_UINT32, &side->call);
    default:
        return symmcoll_symm_one_shot_all_reduce_copy(side->handle, 256, out,
            side->data, COUNT, SYMMCOLL_UINT32, SUM, &side->call);
    }
}

static bool is_result(const struct row *row, int round)
{
    const int size = row->it.size;
    const uint32_t *found = row->found + (size_t)round * RESULT / 4;
    uint32_t sum = 0;

    for (int r = 0; r < size; r++)
        sum += number_of(r, round);
    for (int i = 0; i < (round % 4 == 2 ? size * COUNT : COUNT); i++) {
        const uint32_t expected =
            round % 4 == 2 ? number_of(i / COUNT, round) : sum;

        if (found[i] == expected)
            continue;
        diag(
            "round %d, element %d is %u, not %u", round, i, found[i], expected);
        return false;
    }
    return true;
}

/* The stream writes an input and reduces or gathers it, many times, without
 * waits of the host. */
static int in_a_row(struct symmcoll_group *group, int rank)
{
    struct row row;
    bool right = begin_row(&row, group, rank);
    const struct side *side = &row.it.device;

    for (int i = 0; i < row.rounds && right; i++) {
        GPU_CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)side->data,
            number_of(rank, i), COUNT, side->call.stream));
        right = OK(call_form(&row, i));
    }
    device_wait(side->call.stream);
    device_read(row.found, row.out, (size_t)row.rounds * RESULT);
    for (int i = 0; i < row.rounds && right; i++)
        right = is_result(&row, i);
    return end_row(&row, right);
}

/* ---- all ---- */

static void set_sizes(void)
{
    const bool rehearsal = gpu_is_rehearsal();

    setenv("SYMMCOLL_CUDA_STAGING", rehearsal ? "16KiB" : "256KiB", 1);
    setenv("SYMMCOLL_CUDA_BLOCKS", rehearsal ? "2" : "8", 1);
    sides_region = (size_t)(rehearsal ? 80 : 640) * 1024;
    if (!rehearsal)
        counts[LENGTH(counts) - 1] = 10007;
}

int main(void)
{
    gpu_begin(300);
    set_sizes();
    for (int n = 2; n <= gpu_choose(8, 8, 2); n *= 2) {
        on_threads(n, every_operation,
            "every operation has the bits that it has in host memory");
        on_threads(n, graphs, "and in graphs that are started again and again");
        on_threads(
            n, in_a_row, "each in a row has what the one before it left");
        on_threads(n, sides_factors, "factors of each rank, complex numbers");
    }
    on_threads(2, sides_intra_node, "intra_node_all_reduce");
    on_processes(2, some_of_each,
        "every operation has the bits that it has in host memory");
    on_processes(2, sides_intra_node, "intra_node_all_reduce");
    return done_testing();
}
