/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests products on a device with the stand-in for cuBLASLt: every type, both
 * orders of both operands, separate lines, sums that are added, scales,
 * alignments, order, and errors.
 */
#include "t/blas/fake_cublaslt.h"
#include "t/blas/product.h"
#include "t/cuda/members.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE "t/blas/.libs/libcublasLt.so.13"
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct fake_cublaslt *fake;
static struct symc_lt lt;
static CUstream stream;
static struct product_on on;

/* ---- what is tested ---- */

static const struct product_room nothing = {NULL, 0};

static int each_type(void)
{
    static const enum symmcoll_dtype types[][2] = {
        {SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT32},
        {SYMMCOLL_FLOAT64, SYMMCOLL_FLOAT64},
        {SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT16},
        {SYMMCOLL_BFLOAT16, SYMMCOLL_BFLOAT16},
        {SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT32},
        {SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32}};

    for (size_t i = 0; i < LENGTH(types) * 32; i++) {
        struct product_given given = {types[i / 32][0], types[i / 32][1], 5, 7,
            11, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0 ? 3 : 0,
            .add = (i & 8) != 0, .apart = (i & 24) == 24,
            .divisor = (i & 16) != 0 ? 3 : 0};

        if (!product_run(&on, &given, &nothing)) {
            diag("of %s to %s, number %zu", symmcoll_dtype_name(given.dtype),
                symmcoll_dtype_name(given.out), i % 32);
            return 0;
        }
    }
    return 1;
}

static int each_shape(void)
{
    static const int64_t sizes[] = {1, 2, 33};

    for (size_t i = 0; i < 27; i++) {
        struct product_given given = {SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT32,
            sizes[i % 3], sizes[i / 3 % 3], sizes[i / 9],
            .b_columns = i % 2 != 0};

        if (!product_run(&on, &given, &nothing))
            return say(0, "a shape");
    }
    return 1;
}

static int tf32_is_chosen(void)
{
    struct product_given given = {
        SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT32, 5, 7, 11, .tf32 = true};
    bool right = product_run(&on, &given, &nothing) &&
                 fake->compute == SYMC_LT_COMPUTE_TF32;

    given.tf32 = false;
    right = right && product_run(&on, &given, &nothing) &&
            fake->compute == SYMC_LT_COMPUTE_32F;
    given.tf32 = true;
    given.dtype = given.out = SYMMCOLL_BFLOAT16;
    return right && product_run(&on, &given, &nothing) &&
           fake->compute == SYMC_LT_COMPUTE_32F;
}

static int eighths_are_scaled(void)
{
    static const enum symmcoll_dtype outs[] = {
        SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT32};

    for (size_t i = 0; i < LENGTH(outs) * 4; i++) {
        struct product_given given = {SYMMCOLL_FLOAT8_E4M3FN, outs[i / 4], 16,
            32, 48, .b_columns = true, .room = 16, .outer = (i & 1) != 0,
            .scaled = (i & 1) != 0 || (i & 2) != 0};

        if (!product_run(&on, &given, &nothing))
            return say(0, symmcoll_dtype_name(given.out));
    }
    return 1;
}

static int its_room_is_used(void)
{
    struct product_given given = {.dtype = SYMMCOLL_FLOAT32,
        .out = SYMMCOLL_FLOAT32,
        .m = 5,
        .n = 7,
        .k = 11};
    struct product_room room = {device_alloc(512), 512};
    unsigned char found[512];
    bool right;

    fake->workspace = 500;
    right = product_run(&on, &given, &room);
    fake->workspace = 0;
    device_read(found, room.at, sizeof(found));
    right = right && found[0] == 0x5a && found[499] == 0x5a && found[500] == 0;
    device_free(room.at);
    return right;
}

static int alignments_are_told(void)
{
    struct symc_product product = {.a = {SYMMCOLL_FLOAT32, 4, 4, 4, false, 64},
        .b = {SYMMCOLL_FLOAT32, 4, 4, 4, false, 32},
        .c = {SYMMCOLL_FLOAT32, 4, 4, 4, false, 16}};
    struct symc_lt_plan plan;
    bool right = symc_lt_plan_make(&lt, &product, &plan) == SYMMCOLL_OK;

    symc_lt_plan_free(&plan);
    return right && fake->alignments[0] == 32 && fake->alignments[1] == 64 &&
           fake->alignments[2] == 16 && fake->alignments[3] == 16 &&
           symc_product_alignment((void *)0x1000, 0) == 256 &&
           symc_product_alignment((void *)0x1010, 0) == 16 &&
           symc_product_alignment((void *)0x1000, 12) == 4;
}

static int some_processors_are_left(void)
{
    struct product_matrix a = product_make(SYMMCOLL_FLOAT32, 4, 4, false, 0, 1);
    struct symc_product product = {
        .a = a.shape, .b = a.shape, .c = a.shape, .sms = 116};
    struct symc_product_operands operands = {
        .a = a.device, .b = a.device, .c = a.device};
    struct symc_lt_plan plan;
    bool right = symc_lt_plan_make(&lt, &product, &plan) == SYMMCOLL_OK &&
                 symc_lt_matmul(&plan, &operands, stream) == SYMMCOLL_OK &&
                 fake->sms == 116;

    device_wait(stream);
    symc_lt_plan_free(&plan);
    product_drop(&a);
    return right;
}

/* Checks that a product reads the contents at the time when its stream reaches
 * it. */
static int streams_are_waited_for(void)
{
    struct product_given given = {.dtype = SYMMCOLL_FLOAT32,
        .out = SYMMCOLL_FLOAT32,
        .m = 3,
        .n = 3,
        .k = 3};
    struct product_matrix a = product_make(SYMMCOLL_FLOAT32, 3, 3, false, 0, 4);
    struct product_matrix b = product_make(SYMMCOLL_FLOAT32, 3, 3, false, 0, 2);
    struct product_matrix c = product_make(SYMMCOLL_FLOAT32, 3, 3, false, 0, 3);
    struct product_matrix late =
        product_make(SYMMCOLL_FLOAT32, 3, 3, false, 0, 1);
    struct symc_product product = {.a = a.shape, .b = b.shape, .c = c.shape};
    struct symc_product_operands operands = {
        .a = a.device, .b = b.device, .c = c.device};
    struct symc_lt_plan plan;
    bool right;

    fake_stall(stream);
    cuMemcpyAsync((CUdeviceptr)(uintptr_t)a.device,
        (CUdeviceptr)(uintptr_t)late.device, a.nbytes, stream);
    right = symc_lt_plan_make(&lt, &product, &plan) == SYMMCOLL_OK &&
            symc_lt_matmul(&plan, &operands, stream) == SYMMCOLL_OK;
    symc_lt_plan_free(&plan);
    fake_resume(stream);
    device_wait(stream);
    device_read(c.host, c.device, c.nbytes);
    right = right && product_is_right(&given, &c, NULL);
    product_drop(&a);
    product_drop(&b);
    product_drop(&c);
    product_drop(&late);
    return right;
}

/* ---- errors ---- */

static const struct symc_product small = {
    {SYMMCOLL_BFLOAT16, 2, 3, 3, false, 256},
    {SYMMCOLL_BFLOAT16, 3, 4, 3, true, 256},
    {SYMMCOLL_BFLOAT16, 2, 4, 4, false, 256}, .workspace = 64};

static int plan_fails(symmcoll_status_t expected, const char *text)
{
    struct symc_lt_plan plan;

    return ended(symc_lt_plan_make(&lt, &small, &plan), expected, text);
}

static int what_it_lacks_is_told(void)
{
    const char *text = "cublasLtMatmulAlgoGetHeuristic of bfloat16 [2, 3] @ "
                       "bfloat16 [3, 4] by columns to bfloat16 in a workspace "
                       "of 64 bytes: CUBLAS_STATUS_NOT_SUPPORTED";
    struct symc_product product = small;
    struct symc_lt_plan plan;
    int right;

    fake->heuristic_status = SYMC_LT_NOT_SUPPORTED;
    right = plan_fails(SYMMCOLL_ERR_UNSUPPORTED, text);
    fake->heuristic_status = 0;
    fake->none = 1;
    right = right && plan_fails(SYMMCOLL_ERR_UNSUPPORTED, text);
    fake->none = 0;
    fake->workspace = 65;
    right = right && plan_fails(SYMMCOLL_ERR_UNSUPPORTED, text);
    fake->workspace = 0;
    product.a.dtype = SYMMCOLL_FLOAT8_E4M3FNUZ;
    return right && ended(symc_lt_plan_make(&lt, &product, &plan),
                        SYMMCOLL_ERR_UNSUPPORTED,
                        "expected float32, float64, float16, bfloat16, "
                        "float8_e4m3fn or float8_e5m2, found element type");
}

static int errors_have_a_status(void)
{
    struct symc_lt other;
    struct symc_lt_plan plan;
    struct symc_product_operands operands = {
        .a = (void *)4096, .b = (void *)4096, .c = (void *)4096};
    int right;

    fake->heuristic_status = SYMC_LT_INTERNAL_ERROR;
    right = plan_fails(SYMMCOLL_ERR_DEVICE, "CUBLAS_STATUS_INTERNAL_ERROR");
    fake->heuristic_status = 0;
    fake->create_status = SYMC_LT_ALLOC_FAILED;
    right = right &&
            ended(symc_lt_open(&other, symc_fail, ""), SYMMCOLL_ERR_NO_MEMORY,
                "cublasLtCreate: CUBLAS_STATUS_ALLOC_FAILED") &&
            other.table == NULL;
    symc_lt_close(&other);
    fake->create_status = 0;
    fake->matmul_status = SYMC_LT_INTERNAL_ERROR;
    right = right && symc_lt_plan_make(&lt, &small, &plan) == SYMMCOLL_OK &&
            ended(symc_lt_matmul(&plan, &operands, stream), SYMMCOLL_ERR_DEVICE,
                "cublasLtMatmul of bfloat16 [2, 3] @ bfloat16 [3, 4] by "
                "columns");
    symc_lt_plan_free(&plan);
    fake->matmul_status = 0;
    return right;
}

static int nothing_is_left(void)
{
    symc_lt_close(&lt);
    return fake->live == 0;
}

static void begin(void)
{
    const char *build = getenv("T_BUILDDIR");
    char path[4096];
    void *library, *found;

    (void)snprintf(
        path, sizeof(path), "%s/%s", build != NULL ? build : ".", FAKE);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    found = library != NULL ? dlsym(library, "fake_cublaslt") : NULL;
    if (found == NULL)
        skip_all("no stand-in: %s", dlerror());
    fake = found;
    device_use(0);
    stream = device_stream();
    on = (struct product_on){&lt, stream};
}

int main(void)
{
    device_begin();
    begin();
    plan(11);
    ok(symc_lt_open(&lt, symc_fail, "") == SYMMCOLL_OK, "cuBLASLt is opened");
    ok(each_type(), "products of each type in each order are right");
    ok(each_shape(), "those of each shape are, down to one element");
    ok(tf32_is_chosen(), "TF32 is for float32, where it is wanted");
    ok(eighths_are_scaled(), "8-bit floats have a scale, or one for each line");
    ok(its_room_is_used(), "a product uses its workspace, and no more of it");
    ok(alignments_are_told() && some_processors_are_left(),
        "cuBLASLt is told of alignments, and of processors that it may use");
    ok(streams_are_waited_for(), "a product is computed in its stream's order");
    ok(what_it_lacks_is_told(),
        "what cuBLASLt does not multiply is UNSUPPORTED, with what it was");
    ok(errors_have_a_status(), "each error has its status and its name");
    ok(nothing_is_left(), "and nothing of it is left");
    device_end_stream(stream);
    return done_testing();
}
