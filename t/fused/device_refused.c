/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests products of 8-bit floats that both operations refuse in device memory:
 * each rank's error has the expected and the found value, or the rank that
 * found it, and the group remains usable.
 */
#include "t/fused/eighths_on_device.h"
#include "t/fused/on_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 2
#define VICTIM 1
#define ROOM 65536 /* bytes of each tensor */
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The arguments of both operations; all elements are 0. */
struct operands {
    struct symmcoll_group *group;
    int rank, device, dim;
    struct symmcoll_call call;
    struct symmcoll_tensor a, a_scale, b, b_scale, more, out;
    struct symmcoll_scaled_matrix matrix;
};

static struct symmcoll_tensor make(
    int device, enum symmcoll_dtype dtype, int64_t rows, int64_t cols)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(device_alloc(ROOM), dtype, rows, cols);

    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    return made;
}

static void begin(struct operands *it, struct symmcoll_group *group, int rank)
{
    static const struct symmcoll_scaled_matrix init =
        SYMMCOLL_SCALED_MATRIX_INIT;
    int device = device_use(rank);

    *it = (struct operands){.group = group,
        .rank = rank,
        .device = device,
        .call = SYMMCOLL_CALL_INIT,
        .out = SYMMCOLL_TENSOR_INIT,
        .matrix = init};
    it->call.stream = device_stream();
    it->a = make(device, SYMMCOLL_FLOAT8_E4M3FN, 8 * SIZE, 32);
    it->b = make(device, SYMMCOLL_FLOAT8_E4M3FN, 32, 16);
    it->a_scale = make(device, SYMMCOLL_FLOAT32, 1, 1);
    it->b_scale = make(device, SYMMCOLL_FLOAT32, 1, 1);
    it->more = make(device, SYMMCOLL_FLOAT32, 1, 1);
    it->matrix.b = &it->b;
    it->matrix.b_scale = &it->b_scale;
}

static void end(struct operands *it)
{
    device_wait(it->call.stream);
    on_device_free(&it->a);
    on_device_free(&it->b);
    on_device_free(&it->a_scale);
    on_device_free(&it->b_scale);
    on_device_free(&it->more);
    device_end_stream(it->call.stream);
}

static symmcoll_status_t call(struct operands *it, bool gathers)
{
    return gathers
               ? symmcoll_fused_all_gather_scaled_matmul(it->group, &it->a,
                     &it->a_scale, &it->matrix, 1, 0, &it->call, NULL, &it->out)
               : symmcoll_fused_scaled_matmul_reduce_scatter(it->group, &it->a,
                     &it->a_scale, &it->matrix, SYMMCOLL_SUM, it->dim,
                     &it->call, &it->out);
}

/* ---- invalid operands ---- */

static void odd_depth(struct operands *it)
{
    it->a.shape[1] = it->a.strides[0] = it->b.shape[0] = 24;
}

static void odd_columns(struct operands *it)
{
    it->b.shape[1] = it->b.strides[0] = 24;
}

static void odd_parts(struct operands *it)
{
    it->dim = 1;
}

/* Makes an invalid product of two types on one rank; the other ranks multiply
 * such an A by another type. */
static void a_e5m2(struct operands *it)
{
    it->a.dtype = SYMMCOLL_FLOAT8_E5M2;
    if (it->rank == VICTIM)
        it->b.dtype = SYMMCOLL_FLOAT8_E5M2;
}

static void a_fnuz(struct operands *it)
{
    it->a.dtype = SYMMCOLL_FLOAT8_E4M3FNUZ;
}

static void b_fnuz(struct operands *it)
{
    it->b.dtype = SYMMCOLL_FLOAT8_E5M2FNUZ;
}

static void bias(struct operands *it)
{
    it->more.ndim = 1;
    it->more.shape[0] = 16;
    it->matrix.bias = &it->more;
}

static void result_scale(struct operands *it)
{
    it->matrix.result_scale = &it->more;
}

static void narrow_result(struct operands *it)
{
    it->matrix.out_dtype = SYMMCOLL_FLOAT8_E5M2;
}

static void blocks(struct operands *it)
{
    it->a.shape[0] = 128;
    it->a_scale.dtype = it->b_scale.dtype = SYMMCOLL_FLOAT8_E8M0FNU;
    it->a_scale.ndim = it->b_scale.ndim = 1;
    it->a_scale.shape[0] = it->b_scale.shape[0] = 512;
}

static void host_scale(struct operands *it)
{
    it->a_scale.device = SYMMCOLL_HOST;
}

static void odd_scale(struct operands *it)
{
    it->b_scale.data = (char *)it->b_scale.data + 2;
}

static void no_scale(struct operands *it)
{
    it->b_scale.data = NULL;
}

static void far_scale(struct operands *it)
{
    it->a_scale.shape[0] = it->a.shape[0];
    it->a_scale.strides[0] = INT64_C(1) << 61;
}

static void odd_result(struct operands *it)
{
    it->out = it->more;
    it->out.data = (char *)it->out.data + 8;
    it->out.shape[0] = it->a.shape[0] * SIZE;
    it->out.shape[1] = it->out.strides[0] = 16;
}

static const struct refusal {
    const char *what;
    void (*spoil)(struct operands *it);
    bool all;  /* all ranks pass it, since it would differ otherwise */
    bool told; /* all ranks that pass it have the text */
    symmcoll_status_t status;
    const char *text;
    enum {
        BOTH,
        GATHERS,
        SCATTERS
    } which;
} refusals[] = {
    {"a depth that is no multiple of 16", odd_depth, true, true,
        SYMMCOLL_ERR_UNSUPPORTED,
        "b 0: expected a multiple of 16 rows in device memory, found 24", BOTH},
    {"such columns of one rank", odd_columns, false, false,
        SYMMCOLL_ERR_UNSUPPORTED,
        "b 0: expected a multiple of 16 columns of a part in device memory, "
        "found 24",
        GATHERS},
    {"such columns of all ranks", odd_columns, true, true,
        SYMMCOLL_ERR_UNSUPPORTED,
        "b 0: expected a multiple of 16 columns of a part in device memory, "
        "found 24",
        SCATTERS},
    {"such columns of a part", odd_parts, true, true, SYMMCOLL_ERR_UNSUPPORTED,
        "b 0: expected a multiple of 16 columns of a part in device memory, "
        "found 8",
        SCATTERS},
    {"float8_e5m2 by float8_e5m2", a_e5m2, true, false,
        SYMMCOLL_ERR_UNSUPPORTED,
        "expected a or b of float8_e4m3fn in device memory, found both of "
        "float8_e5m2",
        BOTH},
    {"another type of A", a_fnuz, true, true, SYMMCOLL_ERR_UNSUPPORTED,
        "expected a of float8_e4m3fn or float8_e5m2 in device memory, found "
        "float8_e4m3fnuz",
        BOTH},
    {"another type of b", b_fnuz, false, false, SYMMCOLL_ERR_UNSUPPORTED,
        "expected matrices of float8_e4m3fn or float8_e5m2 in device memory, "
        "found float8_e5m2fnuz",
        BOTH},
    {"a bias", bias, false, false, SYMMCOLL_ERR_UNSUPPORTED,
        "expected no bias in device memory, found one", BOTH},
    {"a factor of results", result_scale, false, false,
        SYMMCOLL_ERR_UNSUPPORTED,
        "expected no result_scale in device memory, found one", BOTH},
    {"results of 8 bits", narrow_result, false, false, SYMMCOLL_ERR_UNSUPPORTED,
        "expected out_dtype float32, float16 or bfloat16 in device memory, "
        "found float8_e5m2",
        BOTH},
    {"scales of blocks", blocks, true, true, SYMMCOLL_ERR_UNSUPPORTED,
        "expected scales of matrices, rows or columns in device memory, found "
        "scales of blocks",
        GATHERS},
    {"scales of another memory", host_scale, false, false, SYMMCOLL_ERR_INVALID,
        "expected a_scale in device memory of device 1 as a is, found 0x",
        BOTH},
    {"scales between elements", odd_scale, false, false, SYMMCOLL_ERR_INVALID,
        "b_scale 0: expected elements of float32 at a multiple of 4 bytes, "
        "found 0x",
        BOTH},
    {"scales without memory", no_scale, false, false, SYMMCOLL_ERR_INVALID,
        "expected b_scale of 1 elements in device memory, found NULL", BOTH},
    {"scales far apart", far_scale, false, false, SYMMCOLL_ERR_INVALID,
        "expected strides that memory has room for, found elements further "
        "apart",
        BOTH},
    {"results between lines", odd_result, false, false,
        SYMMCOLL_ERR_UNSUPPORTED,
        "expected results at a multiple of 16 bytes, found 0x", GATHERS}};

static const struct refusal *refusal;

static int is_refused_by(struct operands *it, bool gathers)
{
    bool spoils = refusal->all || it->rank == VICTIM;
    char others[64];

    (void)snprintf(others, sizeof(others), "rank 1 cannot go on: %s",
        symmcoll_status_name(refusal->status));
    return made_says(call(it, gathers), refusal->status,
        spoils && (refusal->told || it->rank == VICTIM) ? refusal->text
                                                        : others);
}

static int works(struct symmcoll_group *group, int rank)
{
    struct eighths test = {.a_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .b_dtype = SYMMCOLL_FLOAT8_E4M3FN,
        .ndim = 2,
        .shape = {5, 16},
        .mode = ROWS,
        .n = 1,
        .of_devices = true};

    return eighths_gather_on_device(group, rank, &test) &&
           eighths_scatter_on_device(group, rank, &test);
}

static int is_refused(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; i < 2 && right; i++) {
        struct operands it, kept;

        if (refusal->which == (i == 0 ? SCATTERS : GATHERS))
            continue;
        begin(&it, group, rank);
        kept = it;
        if (refusal->all || rank == VICTIM)
            refusal->spoil(&it);
        right = is_refused_by(&it, i == 0);
        end(&kept);
    }
    return right && works(group, rank);
}

/* ---- devices ---- */

static void be_of(int capability)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "capability=%d", capability);
    if (!fake_configure(text))
        abort();
}

static int is_refused_of(
    struct symmcoll_group *group, int rank, bool columns, const char *text)
{
    struct operands it;
    int right = 1;

    begin(&it, group, rank);
    if (columns)
        it.b_scale.shape[1] = it.b_scale.strides[0] = 16;
    for (int i = 0; i < 2 && right; i++) {
        symmcoll_status_t status = call(&it, i == 0);

        right = text != NULL ? made_says(status, SYMMCOLL_ERR_UNSUPPORTED, text)
                             : OK(status);
        if (text == NULL)
            symmcoll_f_free(symmcoll_group_world(group), &it.out);
        it.out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    }
    end(&it);
    return right;
}

/* Checks a device without support for 8-bit floats. Ranks are processes,
 * because the driver's settings are per process. */
static int old_devices(struct symmcoll_group *group, int rank)
{
    int right;

    be_of(86);
    right = is_refused_of(group, rank, false,
        "expected a device of compute capability 8.9 or more for 8-bit floats "
        "with one scale, found device ");
    right = right && made_says(SYMMCOLL_OK, SYMMCOLL_OK, " of 8.6");
    be_of(89);
    right = right &&
            is_refused_of(group, rank, true,
                "expected a device of compute capability 9 for 8-bit floats "
                "with scales of rows or columns, found device ") &&
            made_says(SYMMCOLL_OK, SYMMCOLL_OK, " of 8.9") &&
            is_refused_of(group, rank, false, NULL);
    be_of(100);
    right = right &&
            is_refused_of(group, rank, true,
                "expected a device of compute capability 9 for 8-bit floats") &&
            made_says(SYMMCOLL_OK, SYMMCOLL_OK, " of 10.0") &&
            is_refused_of(group, rank, false, NULL);
    be_of(90);
    return right && works(group, rank);
}

static symmcoll_status_t produce(void *context, int rank, void *chunk)
{
    (void)context;
    (void)rank;
    memset(chunk, 0, sizeof(float));
    return SYMMCOLL_OK;
}

/* Checks the building blocks, the data of which the host copies, so that
 * device memory would crash the rank. */
static int building_blocks(struct symmcoll_group *group, int rank)
{
    struct operands it;
    float mine = 1, all[SIZE] = {0};
    void *data = all;
    const char *text = "rank 1 cannot go on: INVALID";
    int right;

    begin(&it, group, rank);
    if (rank == VICTIM) {
        data = it.more.data;
        text = "expected a tensor in host memory, found 0x";
    }
    right = made_says(symmcoll_all_gather_and_consume(
                          group, data, sizeof(mine), NULL, NULL, NULL, NULL),
                SYMMCOLL_ERR_INVALID, text) &&
            made_says(symmcoll_all_gather_and_consume(
                          group, &mine, sizeof(mine), NULL, NULL, NULL, data),
                SYMMCOLL_ERR_INVALID, text) &&
            made_says(symmcoll_produce_and_all_to_all(
                          group, sizeof(mine), produce, NULL, NULL, data),
                SYMMCOLL_ERR_INVALID, text) &&
            OK(symmcoll_all_gather_and_consume(
                group, &mine, sizeof(mine), NULL, NULL, NULL, all)) &&
            OK(symmcoll_produce_and_all_to_all(
                group, sizeof(mine), produce, NULL, NULL, all));
    end(&it);
    return right;
}

int main(void)
{
    on_device_begin("4");
    plan((int)LENGTH(refusals) + 2);
    for (size_t i = 0; i < LENGTH(refusals); i++) {
        refusal = &refusals[i];
        ok(ranks_run(SIZE, is_refused), "%s: refused on all ranks",
            refusal->what);
    }
    ok(ranks_run(SIZE, old_devices),
        "devices that multiply no 8-bit floats, or not with such scales, are "
        "named with what they are");
    ok(ranks_run(SIZE, building_blocks),
        "shards and chunks of callers' functions are refused there, for the "
        "host copies them");
    return done_testing();
}
