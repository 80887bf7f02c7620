/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the order of the steps of fused operations on devices: the rank's own
 * part first, or last; the others beginning with the next rank; and many
 * operations in a row, none of which may overwrite data that a rank still
 * reads in the one before.
 */
#include "t/fused/made.h"
#include "t/fused/on_device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MANY 24
#define ROWS 4 /* of a part */
#define DEPTH 3
#define COLUMNS 2
#define RANKS_MOST 8

/* One call: a is a shard, or for a scatter the input of all parts. */
struct one {
    struct symmcoll_tensor a, b, out;
    float *data;
    size_t nbytes;
};

/* Returns an element: a small integer, so that sums are exact; those of rank 0
 * are the smallest. */
static float value_of(int call, int rank, int64_t row, int64_t k)
{
    return (float)((call * 5 + rank * 3 + (int)row * 2 + (int)k) % 17);
}

static void make(struct one *it, int call, int rank, int64_t rows, int device)
{
    float *b_data = malloc(sizeof(float) * DEPTH * COLUMNS);
    struct symmcoll_tensor a, b;

    it->nbytes = sizeof(float) * (size_t)rows * DEPTH;
    it->data = malloc(it->nbytes);
    for (int64_t i = 0; i < rows * DEPTH; i++)
        it->data[i] = value_of(call, rank, i / DEPTH, i % DEPTH);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        b_data[i] = (float)(i + 1);
    a = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        it->data, SYMMCOLL_FLOAT32, rows, DEPTH);
    b = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        b_data, SYMMCOLL_FLOAT32, DEPTH, COLUMNS);
    it->a = on_device(&a, device);
    it->b = on_device(&b, device);
    it->out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    free(b_data);
}

static void drop(struct one *it, struct symmcoll_world *world)
{
    symmcoll_f_free(world, &it->out);
    on_device_free(&it->a);
    on_device_free(&it->b);
    free(it->data);
}

/* Returns an element of the product of a row. */
static float product_of(int call, int rank, int64_t row, int column)
{
    float sum = 0;

    for (int k = 0; k < DEPTH; k++)
        sum += value_of(call, rank, row, k) * (float)(k * COLUMNS + column + 1);
    return sum;
}

static int rows_are_right(const struct symmcoll_tensor *out, int call)
{
    for (int64_t i = 0; i < made_count(out); i++) {
        int64_t row = i / COLUMNS;
        float wanted =
            product_of(call, (int)(row / ROWS), row % ROWS, (int)(i % COLUMNS));

        if (made_at(out, i) == (double)wanted)
            continue;
        diag("gathered, call %d: element %lld: expected %g, found %g", call,
            (long long)i, (double)wanted, made_at(out, i));
        return 0;
    }
    return 1;
}

static int sums_are_right(
    const struct symmcoll_tensor *out, int call, int rank, int size)
{
    for (int64_t i = 0; i < made_count(out); i++) {
        float wanted = 0;

        for (int r = 0; r < size; r++)
            wanted += product_of(
                call, r, rank * ROWS + i / COLUMNS, (int)(i % COLUMNS));
        if (made_at(out, i) == (double)wanted)
            continue;
        diag("scattered, call %d: element %lld: expected %g, found %g", call,
            (long long)i, (double)wanted, made_at(out, i));
        return 0;
    }
    return 1;
}

/* ---- many consecutive operations ---- */

/* Returns whether call i gathers; otherwise it scatters. */
static bool (*gathers)(int i);

static bool always(int i)
{
    (void)i;
    return true;
}

static bool never(int i)
{
    (void)i;
    return false;
}

static bool in_turn(int i)
{
    return i % 3 != 0;
}

/* Enqueues all operations before one has ended. */
static int in_a_row(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group), device = device_use(rank), right = 1;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct one all[MANY];

    call.stream = device_stream();
    for (int i = 0; i < MANY; i++)
        make(&all[i], i, rank, gathers(i) ? ROWS : ROWS * size, device);
    for (int i = 0; i < MANY && right; i++)
        right = gathers(i)
                    ? OK(symmcoll_fused_all_gather_matmul(group, &all[i].a,
                          &all[i].b, 1, 0, &call, NULL, &all[i].out))
                    : OK(symmcoll_fused_matmul_reduce_scatter(group, &all[i].a,
                          &all[i].b, SYMMCOLL_SUM, 0, &call, &all[i].out));
    device_wait(call.stream);
    for (int i = 0; i < MANY && right; i++) {
        struct symmcoll_tensor read = on_host(&all[i].out);

        right = gathers(i) ? rows_are_right(&read, i)
                           : sums_are_right(&read, i, rank, size);
        free(read.data);
    }
    for (int i = 0; i < MANY; i++)
        drop(&all[i], world);
    device_wait(call.stream);
    device_end_stream(call.stream);
    return right;
}

/* ---- order of the parts ---- */

/* Checks that the own part is multiplied first. Each process has its own
 * stand-in, which records the places of results. */
static int own_part_first(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), device = device_use(rank), right;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct fake_cublaslt *lt;
    struct one one;
    const char *out;

    call.stream = device_stream();
    make(&one, 0, rank, ROWS, device);
    right = OK(symmcoll_fused_all_gather_matmul(
        group, &one.a, &one.b, 1, 0, &call, NULL, &one.out));
    lt = on_device_cublaslt();
    right = right && lt != NULL && lt->products == size;
    out = one.out.data;
    for (int i = 0; i < size && right; i++) {
        int part = (rank + i) % size;
        const void *wanted =
            out + sizeof(float) * ROWS * COLUMNS * (size_t)part;

        right = lt->results[i] == wanted;
        if (!right)
            diag("product %d of rank %d is not of part %d", i, rank, part);
    }
    device_wait(call.stream);
    drop(&one, symmcoll_group_world(group));
    device_wait(call.stream);
    device_end_stream(call.stream);
    return right;
}

/* Checks that sums for other ranks alternate between two places of the next
 * rank, and that the own sum is completed last, in the result. */
static int own_part_last(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), device = device_use(rank), right;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct fake_cublaslt *lt;
    struct one one;

    call.stream = device_stream();
    make(&one, 0, rank, ROWS * size, device);
    right = OK(symmcoll_fused_matmul_reduce_scatter(
        group, &one.a, &one.b, SYMMCOLL_SUM, 0, &call, &one.out));
    lt = on_device_cublaslt();
    right = right && lt != NULL && lt->products == size;
    for (int i = 1; i < size && right; i++)
        right = lt->results[i] != lt->results[i - 1];
    for (int i = 2; i < size - 1 && right; i++)
        right = lt->results[i] == lt->results[i - 2];
    right = right && lt->results[size - 1] == one.out.data;
    device_wait(call.stream);
    drop(&one, symmcoll_group_world(group));
    device_wait(call.stream);
    device_end_stream(call.stream);
    return right;
}

/* ---- late ranks ---- */

static _Atomic int seen; /* ranks with their own product; of threads */

static bool has_own_product(const struct one *one, int rank)
{
    struct symmcoll_tensor part = SYMMCOLL_TENSOR_SHAPE(
        (float *)one->out.data + (size_t)rank * ROWS * COLUMNS,
        SYMMCOLL_FLOAT32, ROWS, COLUMNS);

    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        if (made_at(&part, i) !=
            (double)product_of(0, rank, i / COLUMNS, (int)(i % COLUMNS)))
            return false;
    return true;
}

/* Blocks rank 1's stream until all other ranks have multiplied their own
 * parts. */
static int own_part_at_once(struct symmcoll_group *group, int rank)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int size = symmcoll_group_size(group), device = device_use(rank), right;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_tensor read;
    struct one one;

    call.stream = device_stream();
    make(&one, 0, rank, ROWS, device);
    if (rank == 1)
        fake_stall(call.stream);
    right = OK(symmcoll_fused_all_gather_matmul(
        group, &one.a, &one.b, 1, 0, &call, NULL, &one.out));
    if (rank == 1) {
        for (int i = 0; i < 20000 && seen < size - 1; i++)
            (void)nanosleep(&pause, NULL);
        right = right && seen == size - 1;
        fake_resume(call.stream);
    } else {
        bool has = false;

        for (int i = 0; i < 10000 && !has; i++) {
            (void)nanosleep(&pause, NULL);
            has = has_own_product(&one, rank);
        }
        right =
            right && has && cuStreamQuery(call.stream) == CUDA_ERROR_NOT_READY;
        seen++;
    }
    device_wait(call.stream);
    read = on_host(&one.out);
    right = right && rows_are_right(&read, 0);
    free(read.data);
    drop(&one, symmcoll_group_world(group));
    device_wait(call.stream);
    device_end_stream(call.stream);
    return right;
}

/* Captures both operations in one graph, and launches it with several
 * contents. */
static int in_a_graph(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group), device = device_use(rank), right;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_tensor outs[2];
    struct one both[2];
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUstream stream;

    call.stream = stream = device_stream();
    make(&both[0], 0, rank, ROWS, device);
    make(&both[1], 0, rank, ROWS * size, device);
    right = OK(symmcoll_fused_all_gather_matmul(group, &both[0].a, &both[0].b,
                1, 0, &call, NULL, &both[0].out)) &&
            OK(symmcoll_fused_matmul_reduce_scatter(group, &both[1].a,
                &both[1].b, SYMMCOLL_SUM, 0, &call, &both[1].out));
    device_wait(stream);
    outs[0] = both[0].out, outs[1] = both[1].out;
    right = right &&
            cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
                CUDA_SUCCESS &&
            OK(symmcoll_fused_all_gather_matmul(
                group, &both[0].a, &both[0].b, 1, 0, &call, NULL, &outs[0])) &&
            OK(symmcoll_fused_matmul_reduce_scatter(group, &both[1].a,
                &both[1].b, SYMMCOLL_SUM, 0, &call, &outs[1])) &&
            cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS &&
            cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS;
    for (int i = 1; i < 4 && right; i++) {
        struct symmcoll_tensor read[2];

        for (int k = 0; k < 2; k++) {
            int64_t count = made_count(&both[k].a);

            for (int64_t at = 0; at < count; at++)
                both[k].data[at] = value_of(i, rank, at / DEPTH, at % DEPTH);
            device_write(both[k].a.data, both[k].data, both[k].nbytes);
        }
        right = cuGraphLaunch(exec, stream) == CUDA_SUCCESS;
        device_wait(stream);
        read[0] = on_host(&outs[0]);
        read[1] = on_host(&outs[1]);
        right = right && rows_are_right(&read[0], i) &&
                sums_are_right(&read[1], i, rank, size);
        free(read[0].data);
        free(read[1].data);
    }
    if (exec != NULL)
        (void)cuGraphExecDestroy(exec);
    if (graph != NULL)
        (void)cuGraphDestroy(graph);
    drop(&both[0], world);
    drop(&both[1], world);
    device_wait(stream);
    device_end_stream(stream);
    return right;
}

/* Multiplies an element with 11 bits after the point, which TF32 rounds. */
static int is_rounded(struct symmcoll_group *group, int rank)
{
    int device = device_use(rank), right;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float a_data = 1 + 0x1p-11f + 0x1p-12f, b_data = 1;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(&a_data, SYMMCOLL_FLOAT32, 1, 1);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(&b_data, SYMMCOLL_FLOAT32, 1, 1);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, read;

    call.stream = device_stream();
    a = on_device(&a, device);
    b = on_device(&b, device);
    right = OK(symmcoll_fused_all_gather_matmul(
        group, &a, &b, 1, 0, &call, NULL, &out));
    device_wait(call.stream);
    read = on_host(&out);
    right = right && made_at(&read, 0) == 1 + 0x1p-10;
    if (!right)
        diag("found %a", made_at(&read, 0));
    free(read.data);
    symmcoll_f_free(symmcoll_group_world(group), &out);
    device_wait(call.stream);
    on_device_free(&a);
    on_device_free(&b);
    device_end_stream(call.stream);
    return right;
}

/* Values that a device is still writing are read without any order. */
#if defined(__SANITIZE_THREAD__)
#define LOOKS 0
#else
#define LOOKS 1
#endif

int main(void)
{
    on_device_begin("2");
    ok(ranks_run(4, own_part_first),
        "the own part is multiplied first, then those of the ranks after it (M5)");
    ok(ranks_run(4, own_part_last),
        "sums for others are written to the next rank in turn, the own one is ended last (M22)");
    if (LOOKS)
        ok(threads_run(3, own_part_at_once),
            "the own part is multiplied while others are late");
    else
        skip(1, "a look at memory that a device writes is a race");
    /* Delays streams, and thereby ranks, in turn. */
    fake_configure("delay=800 seed=5");
    gathers = always;
    on_both(3, in_a_row, "many gathered in a row have what each was passed");
    gathers = never;
    on_both(5, in_a_row, "so have many that are scattered");
    gathers = in_turn;
    on_both(3, in_a_row, "and both in turn");
    on_both(3, in_a_graph, "both in a graph that is started three times");
    setenv("SYMMCOLL_FUSED_DEVICE_ROWS", "100", 1);
    on_both(3, in_a_row, "fused.device_rows: of fewer, all at once");
    fake_configure("delay=0");
    setenv("SYMMCOLL_FUSED_TF32", "on", 1);
    on_both(2, is_rounded, "fused.tf32: elements are rounded to 10 bits");
    return done_testing();
}
