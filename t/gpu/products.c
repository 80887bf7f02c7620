/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests products on a device by cuBLASLt, as lib/cuda calls it: every type,
 * both orders of both operands, odd sizes, separate lines, sums that are
 * added, 8-bit floats with scales; 200 repetitions have the same bits. Also
 * measures the products with which fused operations are compared, on all
 * multiprocessors and on fewer, without checking the times.
 */
#include "t/blas/product.h"
#include "t/gpu/cublaslt.h"
#include "t/gpu/measure.h"
#include "t/gpu/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)32 << 20) /* bytes of the workspace */
#define LEFT 16                 /* multiprocessors */
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct symc_cuda *cuda;
static struct symc_lt lt;
static struct product_on on;
static struct product_room room;

/* Opens the library; prints errors. */
static int open_library(void)
{
    cuda = gpu_open();
    if (symc_lt_open(&lt, symc_fail, gpu_cublaslt()) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 0;
    }
    room = (struct product_room){device_alloc(gpu_is_rehearsal() ? 64 : ROOM),
        gpu_is_rehearsal() ? 64 : ROOM};
    on = (struct product_on){&lt, device_stream()};
    return 1;
}

static int close_library(int right)
{
    device_wait(on.stream);
    device_end_stream(on.stream);
    device_free(room.at);
    symc_lt_close(&lt);
    return right;
}

/* ---- bounds ---- */

static int is_right(const struct product_given *given)
{
    if (product_run(&on, given, &room))
        return 1;
    diag("%s [%d, %d] by %s @ [%d, %d] by %s to %s%s",
        symmcoll_dtype_name(given->dtype), (int)given->m, (int)given->k,
        given->a_columns ? "columns" : "rows", (int)given->k, (int)given->n,
        given->b_columns ? "columns" : "rows", symmcoll_dtype_name(given->out),
        given->add ? ", added" : "");
    return 0;
}

static int each_type(void)
{
    static const enum symmcoll_dtype types[][2] = {{F32, F32},
        {SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT64},
        {SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT16},
        {SYMMCOLL_BFLOAT16, SYMMCOLL_BFLOAT16}, {SYMMCOLL_FLOAT16, F32},
        {SYMMCOLL_BFLOAT16, F32}};
    static const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 11}, {129, 65, 255}};
    int nsizes = gpu_choose(LENGTH(sizes), LENGTH(sizes), 2);
    int right = open_library();

    for (size_t i = 0; right && i < LENGTH(types) * 32; i++) {
        for (int k = 0; right && k < nsizes && k < (int)LENGTH(sizes); k++) {
            struct product_given given = {.dtype = types[i / 32][0],
                .out = types[i / 32][1],
                .m = sizes[k][0],
                .n = sizes[k][1],
                .k = sizes[k][2],
                .a_columns = (i & 1) != 0,
                .b_columns = (i & 2) != 0,
                .room = (i & 4) != 0 ? 3 : 0,
                .add = (i & 8) != 0,
                .apart = (i & 24) == 24,
                .divisor = (i & 16) != 0 ? 3 : 0};

            right = is_right(&given);
            given.tf32 = right && given.dtype == F32;
            right = right && is_right(&given);
        }
    }
    return close_library(right);
}

/* Returns whether the device supports scales of lines: compute capability 9. */
static int has_eighths(void)
{
    int major = 0;

    cuda = gpu_open();
    GPU_CHECK(cuda->device_get_attribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    return major == 9;
}

static int eighths(void)
{
    static const enum symmcoll_dtype outs[] = {SYMMCOLL_BFLOAT16, F32};
    int right = open_library();

    for (size_t i = 0; right && i < LENGTH(outs) * 6; i++) {
        struct product_given given = {.dtype = SYMMCOLL_FLOAT8_E4M3FN,
            .out = outs[i / 6],
            .m = 64,
            .n = 32,
            .k = 128,
            .b_columns = true,
            .outer = i % 3 == 2,
            .scaled = i % 3 > 0,
            .add = i / 3 % 2 != 0,
            .apart = i / 3 % 2 != 0,
            .divisor = i / 3 % 2 != 0 ? 3 : 0};

        right = is_right(&given);
    }
    return close_library(right);
}

/* Checks that each repetition has the same bits, whatever the memory held
 * before. */
static int repetitions(void)
{
    int n = gpu_choose(200, 200, 5), right = open_library();
    struct product_matrix a, b, c;
    struct symc_product product = {.workspace = room.nbytes};
    struct symc_product_operands operands = {.workspace = room.at};
    struct symc_lt_plan plan;
    char *first;

    if (!right)
        return 0;
    a = product_make(SYMMCOLL_BFLOAT16, 65, 129, false, 0, 1);
    b = product_make(SYMMCOLL_BFLOAT16, 129, 33, true, 0, 2);
    c = product_make(SYMMCOLL_BFLOAT16, 65, 33, false, 0, 3);
    first = malloc(c.nbytes);
    product.a = a.shape, product.b = b.shape, product.c = c.shape;
    operands.a = a.device, operands.b = b.device, operands.c = c.device;
    right = symc_lt_plan_make(&lt, &product, &plan) == SYMMCOLL_OK;
    for (int i = 0; right && i < n; i++) {
        GPU_CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)c.device,
            0xffffffffU, c.nbytes / sizeof(uint32_t), on.stream));
        right = symc_lt_matmul(&plan, &operands, on.stream) == SYMMCOLL_OK;
        device_wait(on.stream);
        device_read(c.host, c.device, c.nbytes);
        if (i == 0)
            memcpy(first, c.host, c.nbytes);
        right = right && memcmp(first, c.host, c.nbytes) == 0;
    }
    if (!right)
        diag("%s", symmcoll_last_error());
    symc_lt_plan_free(&plan);
    product_drop(&a);
    product_drop(&b);
    product_drop(&c);
    free(first);
    return close_library(right);
}

/* ---- times ---- */

struct shape {
    int64_t m, n, k;
};

static struct symc_product_matrix shape_of(int64_t rows, int64_t cols)
{
    return (struct symc_product_matrix){
        SYMMCOLL_BFLOAT16, rows, cols, cols, false, 256};
}

static int time_one(struct shape shape, int sms, void *memory)
{
    const size_t elem = 2;
    struct symc_product product = {.a = shape_of(shape.m, shape.k),
        .b = shape_of(shape.k, shape.n),
        .c = shape_of(shape.m, shape.n),
        .sms = sms,
        .workspace = room.nbytes};
    struct symc_product_operands operands = {.a = memory,
        .b = (char *)memory + (size_t)(shape.m * shape.k) * elem,
        .c = (char *)memory + (size_t)((shape.m + shape.n) * shape.k) * elem,
        .workspace = room.at};
    int n = gpu_choose(SAMPLES, 3, 1);
    double samples[SAMPLES];
    char what[96];
    struct symc_lt_plan plan;
    struct span span;

    if (symc_lt_plan_make(&lt, &product, &plan) != SYMMCOLL_OK)
        return 0;
    open_span(&span, cuda);
    for (int i = 0; i < n; i++) {
        begin_span(&span);
        if (symc_lt_matmul(&plan, &operands, span.stream) != SYMMCOLL_OK)
            n = 0;
        end_span(&span);
        samples[i] = measure_span(&span);
    }
    close_span(&span);
    symc_lt_plan_free(&plan);
    (void)snprintf(what, sizeof(what), "bfloat16 %d x %d x %d, %s",
        (int)shape.m, (int)shape.n, (int)shape.k,
        sms == 0 ? "all multiprocessors" : "some left");
    if (n > 0)
        tell(what, median(samples, n), "us");
    return n > 0;
}

static int times(void)
{
    static const struct shape shapes[] = {{4096, 4096, 4096},
        {8192, 8192, 1024}, {4096, 14336, 4096}, {16, 4096, 4096},
        {64, 4096, 4096}, {512, 4096, 4096}};
    int64_t less = gpu_choose(1, 256, 512);
    size_t most = ((size_t)4096 * (4096 + 14336) + (size_t)14336 * 4096) * 2;
    int right = open_library(), sms = gpu_multiprocessors();
    void *memory;

    if (!right)
        return 0;
    memory = device_alloc(most / (size_t)less + 65536);
    for (size_t i = 0; right && i < LENGTH(shapes); i++) {
        /* Aligned to 256 bytes, as the plans assume. */
        struct shape shape = {shapes[i].m, shapes[i].n, shapes[i].k};

        if (less > 1)
            shape = (struct shape){16, 16, 16};
        right =
            time_one(shape, 0, memory) && time_one(shape, sms - LEFT, memory);
    }
    if (!right)
        diag("%s", symmcoll_last_error());
    device_free(memory);
    return close_library(right);
}

int main(void)
{
    gpu_begin(300);
    gpu_need_cublaslt();
    ok(process_run(each_type), "products of every type and order are near");
    if (process_run(has_eighths))
        ok(process_run(eighths),
            "so are those of 8-bit floats, with their scales");
    else
        skip(1, "a device of another compute capability than 9");
    ok(process_run(repetitions), "each time they have the same bits");
    ok(process_run(times), "those of fused operations are measured");
    return done_testing();
}
