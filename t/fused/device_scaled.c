/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fused products of 8-bit floats in device memory: every supported kind
 * of scales, every type and dimension, with 1 to 8 ranks, against double
 * precision. device_refused.c tests refused ones.
 */
#include "t/fused/eighths_on_device.h"
#include "t/fused/on_device.h"
#include "t/sanitized.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_APART "4" /* from this number on parts are multiplied one by one */
#define E4M3 SYMMCOLL_FLOAT8_E4M3FN
#define E5M2 SYMMCOLL_FLOAT8_E5M2

/* The step through a row of cases: every case, or fewer with many ranks. */
#define EACH (THREADS_CHECKED ? 7 : 1)
static int every = EACH;

static const int64_t shapes[][4] = {
    {7, 16, 0, 0}, {2, 3, 32, 0}, {2, 3, 1, 48}};
static const enum symmcoll_dtype types[][2] = {
    {E4M3, E4M3}, {E5M2, E4M3}, {E4M3, E5M2}};

static struct eighths make_test(int shape, int type)
{
    struct eighths made = {.a_dtype = types[type][0],
        .b_dtype = types[type][1],
        .ndim = shape + 2,
        .n = 1,
        .of_devices = true};

    memcpy(made.shape, shapes[shape], sizeof(made.shape));
    return made;
}

/* ---- bodies ---- */

/* Uses scales of rows and of columns, or neither; the orders of operands
 * alternate. */
static int gathers(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 3 * 3 * 2 && right; i += every) {
        struct eighths test = make_test(i % 3, (i / 3 + i) % 3);

        test.mode = (enum eighths_mode)(i / 3 % 3);
        test.kind = i / 9;
        test.order = (enum made_order)(i % 4);
        test.b_in_order = i % 5 == 0;
        test.n = 1 + i % EIGHTHS_MATRICES;
        test.no_a = i % 2 == 0;
        for (test.dim = 0; test.dim < test.ndim - 1 && right; test.dim++)
            right = eighths_gather_on_device(group, rank, &test);
    }
    return right;
}

static bool rounded; /* data sent between ranks is rounded, to 11 bits or 8 */

static int scatters(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 3 * 2 * 3 && right; i += every) {
        struct eighths test = make_test(i % 3, (i / 3 + i) % 3);

        test.mode = i / 3 % 2 == 0 ? ROWS : ONE_SCALE;
        test.kind = i / 6;
        test.order = (enum made_order)(i % 4);
        test.b_in_order = i % 5 == 0;
        test.op = i % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG;
        test.inexact = rounded ? symmcoll_group_size(group) * 0x1p-8 : 0;
        for (test.dim = 0; test.dim < test.ndim && right; test.dim++)
            right = eighths_scatter_on_device(group, rank, &test);
    }
    return right;
}

/* Multiplies part by part, and all at once if one rank requests it: odd
 * numbers of rows, for which the scales of one part are not aligned like those
 * of the next, and 1 row. */
static int both_ways(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 24 && right; i++) {
        struct eighths test = make_test(i % 2, 0);

        test.dim = i % 2;
        test.shape[0] = i / 12 == 0 ? 9 : 1;
        test.mode = (enum eighths_mode)(i % 3);
        test.kind = i / 3 % 2;
        right = OK(symmcoll_fused_set_plain(group, i / 6 == 0 && rank == 0)) &&
                eighths_gather_on_device(group, rank, &test);
        if (right && test.mode != ALL_ROWS)
            right = eighths_scatter_on_device(group, rank, &test);
    }
    return OK(symmcoll_fused_set_plain(group, 0)) && right;
}

/* Uses operands that begin a byte after an aligned address, and scales four. */
static int unaligned(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 4 && right; i++) {
        struct eighths test = make_test(0, 0);

        test.order = i % 2 == 0 ? MADE_CONTIGUOUS : MADE_REVERSED;
        test.mode = i / 2 == 0 ? ROWS : ONE_SCALE;
        test.shift = 1;
        for (test.dim = 0; test.dim < 2 && right; test.dim++)
            right = (test.dim > 0 ||
                        eighths_gather_on_device(group, rank, &test)) &&
                    eighths_scatter_on_device(group, rank, &test);
    }
    return right;
}

/* Uses results in the caller's memory, of each type. */
static int unaligned_results(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 3 * 2 && right; i++) {
        struct eighths test = make_test(i % 3, 0);

        test.mode = i / 3 == 0 ? ROWS : ONE_SCALE;
        test.shift = 1;
        test.repeated = 2;
        for (test.dim = 0; test.dim < 2 && right; test.dim++)
            right = eighths_scatter_on_device(group, rank, &test);
    }
    return right;
}

/* Runs products without rows, without depth and without matrices. */
static int empty(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 9 && right; i++) {
        struct eighths test = make_test(0, 0);

        test.shape[i % 3 == 1] = 0;
        test.n = i % 3 == 2 ? 0 : 2;
        test.mode = (enum eighths_mode)(i / 3);
        right = eighths_gather_on_device(group, rank, &test);
        if (right && test.n > 0 && test.mode != ALL_ROWS)
            right = eighths_scatter_on_device(group, rank, &test);
    }
    return right;
}

/* Writes A and results to the memory of the scales, which are read before. */
static int over_scales(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 4 && right; i++) {
        struct eighths test = make_test(0, 0);

        test.mode = i % 2 == 0 ? ROWS : ONE_SCALE;
        test.kind = i / 2;
        test.repeated = 2;
        test.over_scales = true;
        right = eighths_gather_on_device(group, rank, &test);
    }
    return right;
}

/* Repeats operations in memory that was full of NaN. */
static int repeated(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 4 && right; i++) {
        struct eighths test = make_test(1, 0);

        test.mode = i % 2 == 0 ? ROWS : ONE_SCALE;
        test.kind = i / 2;
        test.n = 2;
        test.repeated = 5;
        right = eighths_gather_on_device(group, rank, &test) &&
                eighths_scatter_on_device(group, rank, &test);
    }
    return right;
}

/* ---- graphs ---- */

#define LINES 5   /* of each rank's part */
#define LENGTH 16 /* of a line, and of a row of b */
#define RANKS 3
#define ONE 0x38 /* as float8_e4m3fn */

static float scale_of(int start, int rank, int row)
{
    return (float)((start * 7 + rank * 3 + row) % 11 + 1);
}

struct started {
    struct symmcoll_group *group;
    int rank;
    bool gathers;
    struct symmcoll_call call;
    struct symmcoll_tensor a, a_scale, b, b_scale, out;
};

static struct symmcoll_tensor place(
    int device, enum symmcoll_dtype dtype, int64_t rows, int64_t cols)
{
    struct symmcoll_tensor made = SYMMCOLL_TENSOR_SHAPE(
        device_alloc(RANKS * LINES * LENGTH * sizeof(float)), dtype, rows,
        cols);

    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    return made;
}

static void begin(
    struct started *it, struct symmcoll_group *group, int rank, bool gathers)
{
    const float two = 2;
    char ones[(RANKS * LINES + LENGTH) * LENGTH];
    int device = device_use(rank), rows = gathers ? LINES : RANKS * LINES;

    *it = (struct started){.group = group,
        .rank = rank,
        .gathers = gathers,
        .call = SYMMCOLL_CALL_INIT,
        .a = place(device, E4M3, rows, LENGTH),
        .a_scale = place(device, SYMMCOLL_FLOAT32, rows, 1),
        .b = place(device, E4M3, LENGTH, LENGTH),
        .b_scale = place(device, SYMMCOLL_FLOAT32, 1, 1),
        .out = place(
            device, SYMMCOLL_FLOAT32, gathers ? RANKS * LINES : LINES, LENGTH)};
    it->call.stream = device_stream();
    memset(ones, ONE, sizeof(ones));
    device_write(it->a.data, ones, (size_t)rows * LENGTH);
    device_write(it->b.data, ones, (size_t)LENGTH * LENGTH);
    device_write(it->b_scale.data, &two, sizeof(two));
}

static int run(struct started *it)
{
    struct symmcoll_scaled_matrix matrix = SYMMCOLL_SCALED_MATRIX_INIT;

    matrix.b = &it->b;
    matrix.b_scale = &it->b_scale;
    return it->gathers
               ? OK(symmcoll_fused_all_gather_scaled_matmul(it->group, &it->a,
                     &it->a_scale, &matrix, 1, 0, &it->call, NULL, &it->out))
               : OK(symmcoll_fused_scaled_matmul_reduce_scatter(it->group,
                     &it->a, &it->a_scale, &matrix, SYMMCOLL_SUM, 0, &it->call,
                     &it->out));
}

static int is_right(const struct started *it, int start)
{
    struct symmcoll_tensor read = on_host(&it->out);
    int right = 1;

    for (int row = 0; row < it->out.shape[0] && right; row++) {
        double sum = 0;

        for (int r = 0; r < RANKS; r++)
            if (!it->gathers || r == row / LINES)
                sum += 2. * LENGTH *
                       (double)scale_of(start, r,
                           it->gathers ? row % LINES : it->rank * LINES + row);
        right = say(made_at(&read, row * LENGTH) == sum &&
                        made_at(&read, (row + 1) * LENGTH - 1) == sum,
            "a row");
    }
    free(read.data);
    return right;
}

static int start(struct started *it, CUgraph graph)
{
    float scales[RANKS * LINES];
    CUgraphExec exec;
    int right = cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS;

    for (int i = 0; i < 3 && right; i++) {
        for (int row = 0; row < it->a.shape[0]; row++)
            scales[row] = scale_of(i, it->rank, row);
        device_write(
            it->a_scale.data, scales, (size_t)it->a.shape[0] * sizeof(*scales));
        right = cuGraphLaunch(exec, it->call.stream) == CUDA_SUCCESS;
        device_wait(it->call.stream);
        right = right && is_right(it, i);
    }
    (void)cuGraphExecDestroy(exec);
    return right;
}

/* Checks that a graph uses the scales present at its launch. */
static int captured(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 2 && right; i++) {
        struct started it;
        CUgraph graph = NULL;

        begin(&it, group, rank, i == 0);
        right = run(&it);
        device_wait(it.call.stream);
        right = right &&
                cuStreamBeginCapture(it.call.stream,
                    CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS &&
                run(&it) &&
                cuStreamEndCapture(it.call.stream, &graph) == CUDA_SUCCESS &&
                start(&it, graph);
        (void)cuGraphDestroy(graph);
        on_device_free(&it.a);
        on_device_free(&it.a_scale);
        on_device_free(&it.b);
        on_device_free(&it.b_scale);
        on_device_free(&it.out);
        device_end_stream(it.call.stream);
    }
    return right;
}

/* ---- main ---- */

int main(void)
{
    on_device_begin(ROWS_APART);
    for (int n = 1; n <= 3; n++)
        on_both(n, gathers,
            "gathered: one scale, scales of a shard's rows, or of all (M30)");
    for (int n = 1; n <= 3; n++)
        on_both(n, scatters,
            "scattered: products are scaled and added, along any dimension "
            "(M34)");
    every = 5;
    ok(threads_run(8, gathers) && threads_run(8, scatters),
        "both of eight ranks (8 threads)");
    on_both(3, both_ways, "part by part, and all at once: odd rows, and one");
    on_both(2, unaligned, "operands that do not begin where a line may");
    on_both(3, unaligned_results, "nor do results that are added up");
    on_both(2, empty, "no rows, no depth, no matrix");
    on_both(3, over_scales, "results in the memory of scales");
    on_both(RANKS, captured, "a graph reads scales each time it is started");
    on_both(3, repeated, "each time the same bits, in memory of the caller");
    setenv("SYMMCOLL_FUSED_ROUND_PARTS", "on", 1);
    rounded = true;
    every = EACH;
    on_both(3, scatters, "fused.round_parts: products go as 16-bit results");
    on_both(3, unaligned_results, "which begin where no line may, too");
    return done_testing();
}
