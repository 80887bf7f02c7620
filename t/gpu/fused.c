/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused products of ranks that share a device: every dimension, type and order of
 * 2 and 4 threads, both ways, has the numbers that it has in host memory.  And how
 * long they take beside cuBLASLt alone, which multiplies as much in a row: nothing
 * is judged there.
 */
#include "t/blas/product.h"
#include "t/fused/on_device.h"
#include "t/gpu/measure.h"
#include "t/gpu/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define ROOM ((size_t)32 << 20) /* bytes of the workspace of cuBLASLt alone */

static char library[4096] = SYMC_CUBLASLT_LIBRARY;

/* In a rehearsal it is the stand-in. */
static void find_library(void)
{
    const char *build = getenv("T_BUILDDIR");

    if (!gpu_is_rehearsal())
        return;
    (void)snprintf(library, sizeof(library), "%s/t/blas/.libs/%s",
        build != NULL ? build : ".", SYMC_CUBLASLT_LIBRARY);
    setenv("SYMMCOLL_CUDA_CUBLASLT", library, 1);
}

static int has_library(void)
{
    struct symc_lt lt;

    (void)gpu_open();
    if (symc_lt_open(&lt, symc_fail, library) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 0;
    }
    symc_lt_close(&lt);
    return 1;
}

/* ---- numbers ---- */

static int both(
    struct symmcoll_group *group, int rank, const struct made_case *given)
{
    struct gathered gathered = {.dtype = given->dtype,
        .ndim = given->ndim,
        .dim = given->dim,
        .order = given->order,
        .b_order = given->b_order,
        .n = 2,
        .no_a = given->dim == 1};
    struct scattered scattered = {.dtype = given->dtype,
        .ndim = given->ndim,
        .columns = 3,
        .dim = given->dim,
        .op = given->dim % 2 == 0 ? SYMMCOLL_SUM : SYMMCOLL_AVG,
        .order = given->order,
        .b_order = given->b_order};

    memcpy(gathered.shape, given->shape, sizeof(gathered.shape));
    memcpy(scattered.shape, given->shape, sizeof(scattered.shape));
    return gathered_on_device(group, rank, &gathered) &&
           scattered_on_device(group, rank, &scattered);
}

static int every_dimension(struct symmcoll_group *group, int rank)
{
    return made_each_dimension(group, rank, both);
}

static int every_order(struct symmcoll_group *group, int rank)
{
    return made_each_order(group, rank, both);
}

/* Rows as many as a device has work for, one odd. */
static int more_rows(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < gpu_choose(20, 2, 1) && right; i++) {
        struct made_case given = {
            .dtype = i % 2 == 0 ? SYMMCOLL_BFLOAT16 : SYMMCOLL_FLOAT32,
            .ndim = 2,
            .shape = {gpu_choose(517, 37, 9), gpu_choose(131, 19, 5)},
            .order = (enum made_order)(i % 3)};

        right = both(group, rank, &given);
    }
    return right;
}

/* ---- times ---- */

struct shape {
    int64_t m, n, k;
};

static const struct shape shapes[] = {{4096, 4096, 4096}, {8192, 8192, 1024},
    {4096, 14336, 4096}, {16, 4096, 4096}, {64, 4096, 4096}, {128, 4096, 4096},
    {256, 4096, 4096}, {512, 4096, 4096}};

static struct shape shape_of(size_t i)
{
    return gpu_is_rehearsal() ? (struct shape){16, 16, 16} : shapes[i];
}

static struct symmcoll_tensor matrix(int64_t rows, int64_t cols)
{
    struct symmcoll_tensor made = SYMMCOLL_TENSOR_SHAPE(
        device_alloc((size_t)(rows * cols) * 2), SYMMCOLL_BFLOAT16, rows, cols);

    made.device = SYMMCOLL_CUDA;
    return made;
}

/* All of the shape's products, in a row: of rank 0. */
static double time_alone(const struct symmcoll_tensor *b, struct shape shape,
    int size, CUstream stream)
{
    int64_t columns = shape.n / size;
    struct symc_product product = {
        .a = {SYMMCOLL_BFLOAT16, shape.m, shape.k, shape.k, false, 256},
        .b = {SYMMCOLL_BFLOAT16, shape.k, columns, columns, false, 256},
        .c = {SYMMCOLL_BFLOAT16, shape.m, columns, columns, false, 256},
        .workspace = gpu_is_rehearsal() ? 64 : ROOM};
    struct symmcoll_tensor a = matrix(shape.m, shape.k);
    struct symmcoll_tensor c = matrix(shape.m, columns);
    struct symc_product_operands operands = {.a = a.data,
        .b = b->data,
        .c = c.data,
        .workspace = device_alloc(product.workspace)};
    int n = gpu_choose(SAMPLES, 3, 1);
    double samples[SAMPLES];
    struct symc_lt_plan plan;
    struct symc_lt lt;

    if (symc_lt_open(&lt, symc_fail, library) != SYMMCOLL_OK ||
        symc_lt_plan_make(&lt, &product, &plan) != SYMMCOLL_OK)
        n = 0;
    for (int i = 0; i < n; i++) {
        double began = now();

        for (int r = 0; r < size; r++)
            if (symc_lt_matmul(&plan, &operands, stream) != SYMMCOLL_OK)
                exit(1);
        device_wait(stream);
        samples[i] = (now() - began) * 1e6;
    }
    if (n > 0)
        symc_lt_plan_free(&plan);
    symc_lt_close(&lt);
    device_free(operands.workspace);
    device_free(a.data);
    device_free(c.data);
    return n > 0 ? median(samples, n) : -1;
}

/* By host memory, for the device may have work. */
static int meet(struct symmcoll_group *group)
{
    int32_t one = 1;

    return OK(symmcoll_all_reduce(
        group, &one, &one, 1, SYMMCOLL_INT32, SUM, NULL, NULL));
}

/* What all ranks need for one call, from when all are there to when all have it. */
static double time_fused(struct symmcoll_group *group,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_call *call, bool gathers)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int n = gpu_choose(SAMPLES, 3, 1), right = 1;
    double samples[SAMPLES];

    for (int i = -1; i < n && right; i++) { /* the first makes the memory */
        struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
        double began;

        right = meet(group);
        began = now();
        right =
            right && (gathers ? OK(symmcoll_fused_all_gather_matmul(
                                    group, a, b, 1, 0, call, NULL, &out))
                              : OK(symmcoll_fused_matmul_reduce_scatter(
                                    group, a, b, SYMMCOLL_SUM, 0, call, &out)));
        device_wait(call->stream);
        right = right && meet(group);
        if (i >= 0)
            samples[i] = (now() - began) * 1e6;
        symmcoll_f_free(world, &out);
    }
    return right ? median(samples, n) : -1;
}

static const char *way; /* how the fused ones are done */

static int times_of(struct symmcoll_group *group, int rank, struct shape shape)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_tensor shard, b, whole, b_part;
    double gather, scatter, alone;
    char what[96];

    device_use(0);
    call.stream = device_stream();
    shard = matrix(shape.m / size, shape.k);
    b = matrix(shape.k, shape.n / size);
    gather = time_fused(group, &shard, &b, &call, true);
    device_free(shard.data);
    whole = matrix(shape.m, shape.k / size);
    b_part = matrix(shape.k / size, shape.n);
    scatter = time_fused(group, &whole, &b_part, &call, false);
    if (rank == 0 && gather >= 0 && scatter >= 0) {
        alone = time_alone(&b, shape, size, call.stream);
        (void)snprintf(what, sizeof(what), "bfloat16 %d x %d x %d, %d ranks, ",
            (int)shape.m, (int)shape.n, (int)shape.k, size);
        (void)snprintf(what + strlen(what), sizeof(what) - strlen(what),
            "all_gather_matmul %s", way);
        tell(what, gather, "us");
        tell("  matmul_reduce_scatter", scatter, "us");
        tell("  cuBLASLt alone", alone, "us");
    }
    device_wait(call.stream);
    device_free(whole.data);
    device_free(b.data);
    device_free(b_part.data);
    device_end_stream(call.stream);
    return gather >= 0 && scatter >= 0 && meet(group);
}

static int times(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (size_t i = 0; i < (gpu_is_short() ? 1 : LENGTH(shapes)) && right; i++)
        right = times_of(group, rank, shape_of(i));
    return right;
}

int main(void)
{
    gpu_begin(300);
    find_library();
    if (!process_run(has_library))
        skip_all("there is no cuBLASLt of %d", SYMC_CUBLASLT_MAJOR);
    for (int parts = 1; parts >= 0; parts--) {
        way = parts ? "part by part" : "at once";
        setenv("SYMMCOLL_FUSED_DEVICE_ROWS", parts ? "0" : "1000000000", 1);
        for (int n = 2; n <= gpu_choose(4, 4, 2); n += 2) {
            ok(threads_run(n, every_dimension),
                "every dimension and type, %s (%d threads)", way, n);
            ok(threads_run(n, more_rows), "more rows, %s (%d threads)", way, n);
        }
        ok(threads_run(2, every_order), "every order, %s", way);
        ok(threads_run(2, times), "they are measured, %s", way);
    }
    return done_testing();
}
