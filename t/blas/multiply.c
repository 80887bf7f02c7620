/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of the stand-in for cuBLASLt: sums of float32 in the order of the
 * depth, or of float64, rounded once. Each is a piece of work of a stream of
 * the fake driver, so it runs in stream order.
 */
#include "t/blas/objects.h"

#include "base/float8.h"
#include "base/reduce.h"

#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* An enqueued product, which is kept because graphs run it again. */
struct product {
    struct product *next;
    struct symc_lt_desc desc;
    struct symc_lt_layout a_layout, b_layout, d_layout;
    const void *a, *b, *c;
    void *d;
    double alpha, beta;
    unsigned char *workspace;
    size_t workspace_nbytes;
};

static struct {
    pthread_mutex_t lock;
    struct product *all;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- elements ---- */

static size_t elem_of(enum symc_lt_type type)
{
    return type == SYMC_LT_F64                            ? 8
           : type == SYMC_LT_F32                          ? 4
           : type == SYMC_LT_E4M3 || type == SYMC_LT_E5M2 ? 1
                                                          : 2;
}

static double read_at(const struct symc_lt_layout *layout, const void *data,
    int64_t row, int64_t col)
{
    const char *at =
        (const char *)data +
        (size_t)(row + col * layout->distance) * elem_of(layout->type);
    uint16_t half;
    float single;
    double twice;

    switch (layout->type) {
    case SYMC_LT_F64:
        memcpy(&twice, at, sizeof(twice));
        return twice;
    case SYMC_LT_F32:
        memcpy(&single, at, sizeof(single));
        return single;
    case SYMC_LT_F16:
        memcpy(&half, at, sizeof(half));
        return symc_half_to_float(half);
    case SYMC_LT_BF16:
        memcpy(&half, at, sizeof(half));
        return symc_bfloat16_to_float(half);
    default:
        return symc_float8_to_float(layout->type == SYMC_LT_E4M3
                                        ? SYMMCOLL_FLOAT8_E4M3FN
                                        : SYMMCOLL_FLOAT8_E5M2,
            (uint8_t)*at);
    }
}

static void write_at(const struct symc_lt_layout *layout, void *data,
    int64_t row, int64_t col, double value)
{
    char *at = (char *)data +
               (size_t)(row + col * layout->distance) * elem_of(layout->type);
    float single = (float)value;
    uint16_t half;

    switch (layout->type) {
    case SYMC_LT_F64:
        memcpy(at, &value, sizeof(value));
        return;
    case SYMC_LT_F32:
        memcpy(at, &single, sizeof(single));
        return;
    case SYMC_LT_F16:
    case SYMC_LT_BF16:
        half = layout->type == SYMC_LT_F16 ? symc_float_to_half(single)
                                           : symc_float_to_bfloat16(single);
        memcpy(at, &half, sizeof(half));
        return;
    default:
        *(uint8_t *)at = symc_float_to_float8(layout->type == SYMC_LT_E4M3
                                                  ? SYMMCOLL_FLOAT8_E4M3FN
                                                  : SYMMCOLL_FLOAT8_E5M2,
            single);
    }
}

/* Rounds to the nearest number with 10 bits after the point. */
static double round_tf32(double value)
{
    float single = (float)value;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
    memcpy(&single, &bits, sizeof(single));
    return single;
}

/* ---- one product ---- */

static double scale_of(const float *scales, int32_t mode, int64_t index)
{
    return scales == NULL ? 1 : scales[mode == SYMC_LT_SCALE_OUTER ? index : 0];
}

static double sum_of(const struct product *it, int64_t i, int64_t j)
{
    const struct symc_lt_desc *desc = &it->desc;
    int64_t depth = desc->trans_a ? it->a_layout.rows : it->a_layout.cols;
    bool is_double = desc->compute == SYMC_LT_COMPUTE_64F;
    bool tf32 = desc->compute == SYMC_LT_COMPUTE_TF32;
    double sum = 0;

    for (int64_t k = 0; k < depth; k++) {
        double a = read_at(
            &it->a_layout, it->a, desc->trans_a ? k : i, desc->trans_a ? i : k);
        double b = read_at(
            &it->b_layout, it->b, desc->trans_b ? j : k, desc->trans_b ? k : j);

        sum += tf32 ? round_tf32(a) * round_tf32(b) : a * b;
        sum = is_double ? sum : (double)(float)sum;
    }
    return sum * scale_of(desc->a_scale, desc->a_mode, i) *
           scale_of(desc->b_scale, desc->b_mode, j) * it->alpha;
}

/* Computes a product. It overwrites its workspace, which no other stream may
 * use at the same time. */
static void CUDA_CB multiply(void *data)
{
    const struct product *it = data;

    if (it->workspace_nbytes > 0)
        memset(it->workspace, 0x5a, it->workspace_nbytes);
    for (int64_t j = 0; j < it->d_layout.cols; j++) {
        for (int64_t i = 0; i < it->d_layout.rows; i++) {
            double sum = sum_of(it, i, j);

            if (it->beta != 0)
                sum += it->beta * read_at(&it->d_layout, it->c, i, j);
            write_at(&it->d_layout, it->d, i, j, sum);
        }
    }
}

/* Checks that the heuristic has returned the algorithm for these matrices. */
static void check_algo(
    const struct product *it, const struct symc_lt_algo *algo)
{
    const uint64_t wanted[] = {ALGO_MAGIC, (uint64_t)it->d_layout.rows,
        (uint64_t)it->d_layout.cols,
        (uint64_t)(it->desc.trans_a ? it->a_layout.rows : it->a_layout.cols)};
    const void *at[] = {it->a, it->b, it->d, it->c};

    if (memcmp(algo->data, wanted, sizeof(wanted)) != 0)
        fake_lt_die("an algorithm of another product");
    for (int i = 0; i < 4; i++)
        if (algo->data[i < 3 ? 4 + i : 6] == 0 ||
            (uintptr_t)at[i] % algo->data[i < 3 ? 4 + i : 6] != 0)
            fake_lt_die("a matrix that is not aligned as the heuristic was "
                        "told");
    if (algo->data[7] != fake_lt_scales(&it->desc))
        fake_lt_die("other scales than the heuristic was told of");
    if ((it->desc.a_mode == SYMC_LT_SCALE_OUTER &&
            (uintptr_t)it->desc.a_scale % 16 != 0) ||
        (it->desc.b_mode == SYMC_LT_SCALE_OUTER &&
            (uintptr_t)it->desc.b_scale % 16 != 0))
        fake_lt_die("scales of lines that are not aligned");
    if (it->workspace_nbytes < fake_cublaslt.workspace)
        fake_lt_die("a workspace that is smaller than the algorithm needs");
}

static struct product *keep(const struct product *it)
{
    struct product *made = malloc(sizeof(*made));

    if (made == NULL)
        abort();
    *made = *it;
    pthread_mutex_lock(&kept.lock);
    made->next = kept.all;
    kept.all = made;
    pthread_mutex_unlock(&kept.lock);
    return made;
}

static double number_at(const struct symc_lt_desc *desc, const void *at)
{
    float single;
    double twice;

    if (desc->compute == SYMC_LT_COMPUTE_64F) {
        memcpy(&twice, at, sizeof(twice));
        return twice;
    }
    memcpy(&single, at, sizeof(single));
    return single;
}

/* Returns whether a stream is in the current context, as a handle and its
 * kernels must be. */
static bool is_of_current(CUstream stream)
{
    CUcontext of = NULL, current = NULL;

    return cuStreamGetCtx(stream, &of) == CUDA_SUCCESS &&
           cuCtxGetCurrent(&current) == CUDA_SUCCESS && of == current;
}

FAKE_API enum symc_lt_status cublasLtMatmul(struct symc_lt_context *handle,
    struct symc_lt_desc *desc, const void *alpha, const void *a,
    struct symc_lt_layout *a_layout, const void *b,
    struct symc_lt_layout *b_layout, const void *beta, const void *c,
    struct symc_lt_layout *c_layout, void *d, struct symc_lt_layout *d_layout,
    const struct symc_lt_algo *algo, void *workspace, size_t workspace_nbytes,
    CUstream stream)
{
    struct product it = {.a = a,
        .b = b,
        .c = c,
        .d = d,
        .workspace = workspace,
        .workspace_nbytes = workspace_nbytes};

    fake_lt_check(handle, OBJECT_HANDLE);
    fake_lt_check(desc, OBJECT_DESC);
    fake_lt_check(a_layout, OBJECT_LAYOUT);
    fake_lt_check(b_layout, OBJECT_LAYOUT);
    fake_lt_check(d_layout, OBJECT_LAYOUT);
    if (c_layout != d_layout)
        fake_lt_die("what is added is not as the result");
    it.desc = *desc;
    it.a_layout = *a_layout;
    it.b_layout = *b_layout;
    it.d_layout = *d_layout;
    it.alpha = number_at(desc, alpha);
    it.beta = number_at(desc, beta);
    check_algo(&it, algo);
    if (fake_cublaslt.matmul_status != 0)
        return (enum symc_lt_status)fake_cublaslt.matmul_status;
    if (!is_of_current(stream))
        return SYMC_LT_EXECUTION_FAILED;
    fake_cublaslt.results[fake_cublaslt.products++ % FAKE_CUBLASLT_RESULTS] = d;
    fake_cublaslt.sms = desc->sms;
    fake_cublaslt.compute = (int)desc->compute;
    return cuLaunchHostFunc(stream, multiply, keep(&it)) == CUDA_SUCCESS
               ? SYMC_LT_SUCCESS
               : SYMC_LT_EXECUTION_FAILED;
}
