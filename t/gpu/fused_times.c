/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures fused products of ranks that share a device against cuBLASLt alone,
 * which runs the same multiplications consecutively, and against an exchange
 * followed by a product. On a device the ratio to cuBLASLt is checked; for
 * sums over ranks with fused.round_parts, because cuBLASLt alone writes 16-bit
 * results, too. Without it they are only measured.
 */
#include "t/blas/product.h"
#include "t/fused/made.h"
#include "t/gpu/cublaslt.h"
#include "t/gpu/measure.h"
#include "t/gpu/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define ROOM ((size_t)32 << 20) /* bytes of the workspace of cuBLASLt alone */

/* Each operation is measured with all shapes of bfloat16, with 2 ranks: part
 * by part; all at once, as an exchange followed by a product; and the same
 * products by cuBLASLt alone, one product of each rank after the other. */
enum form {
    PARTS,
    AT_ONCE,
    ALONE,
    FORMS
};

enum operation {
    GATHER,
    SCATTER,
    OPERATIONS
};

#define RANKS 2
#define ROWS_DEFAULT 512 /* of a part: fused.device_rows */
#define NOISE 1.02       /* of two medians of the same */

struct shape {
    int64_t m, n, k;
};

/* The shape that needs most memory comes first. */
static const struct shape shapes[] = {{8192, 8192, 1024}, {4096, 4096, 4096},
    {4096, 14336, 4096}, {16, 4096, 4096}, {32, 4096, 4096}, {64, 4096, 4096},
    {128, 4096, 4096}, {256, 4096, 4096}, {512, 4096, 4096}};
#define SHAPES ((int)LENGTH(shapes))

/* The largest allowed ratio of the times to those of cuBLASLt alone. */
static const struct {
    const char *name;
    double most;
} operations[OPERATIONS] = {
    {"all_gather_matmul", 1.05}, {"matmul_reduce_scatter", 1.08}};

/* Microseconds, shared with the process that checks them: with
 * fused.round_parts off and on. */
static double (*found)[LENGTH(shapes)][OPERATIONS][FORMS];
static int rounds; /* whether it is on */

static struct shape shape_of(int i)
{
    return gpu_is_rehearsal() ? (struct shape){16, 16, 16} : shapes[i];
}

/* A rank's memory, which all shapes use. */
struct timed {
    struct symmcoll_group *group;
    int rank;
    struct symmcoll_call call;
    struct shape shape;
    char *a, *b, *out;
};

/* The plan that multiplies alone, on rank 0. */
struct alone {
    struct symc_lt lt;
    struct symc_lt_plan plan;
    char *c, *workspace;
};

static const struct timed *ranks[RANKS];

static struct symmcoll_tensor matrix(void *at, int64_t rows, int64_t cols)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(at, SYMMCOLL_BFLOAT16, rows, cols);

    made.device = SYMMCOLL_CUDA;
    return made;
}

/* Synchronises through host memory, because the device may have pending
 * work. */
static bool synchronise(struct symmcoll_group *group)
{
    int32_t one = 1;

    return OK(symmcoll_all_reduce(
        group, &one, &one, 1, SYMMCOLL_INT32, SUM, NULL, NULL));
}

static bool run_fused(const struct timed *it, enum operation operation)
{
    struct shape shape = it->shape;
    struct symmcoll_tensor a, b, out;

    if (operation == GATHER) {
        a = matrix(it->a, shape.m / RANKS, shape.k);
        b = matrix(it->b, shape.k, shape.n / RANKS);
        out = matrix(it->out, shape.m, shape.n / RANKS);
        return OK(symmcoll_fused_all_gather_matmul(
            it->group, &a, &b, 1, 0, &it->call, NULL, &out));
    }
    a = matrix(it->a, shape.m, shape.k / RANKS);
    b = matrix(it->b, shape.k / RANKS, shape.n);
    out = matrix(it->out, shape.m / RANKS, shape.n);
    return OK(symmcoll_fused_matmul_reduce_scatter(
        it->group, &a, &b, SYMMCOLL_SUM, 0, &it->call, &out));
}

static bool run_alone(const struct timed *it, struct alone *alone)
{
    bool right = true;

    for (int r = 0; r < RANKS && right; r++) {
        struct symc_product_operands operands = {.a = ranks[r]->a,
            .b = ranks[r]->b,
            .c = alone->c,
            .workspace = alone->workspace};

        right = OK(symc_lt_matmul(&alone->plan, &operands, it->call.stream));
    }
    return right;
}

/* Returns the microseconds of a call, from when all ranks have arrived until
 * all have finished. */
static bool take_sample(const struct timed *it, struct alone *alone,
    enum operation operation, enum form form, double *us)
{
    int calls = gpu_choose(20, 1, 1);
    bool right = OK(symmcoll_fused_set_plain(it->group, form == AT_ONCE)) &&
                 synchronise(it->group);
    double began = now();

    for (int i = 0; i < calls && right; i++)
        right = form != ALONE   ? run_fused(it, operation)
                : it->rank == 0 ? run_alone(it, alone)
                                : true;
    device_wait(it->call.stream);
    right = right && synchronise(it->group);
    *us = (now() - began) * 1e6 / calls;
    return right;
}

static bool plan_alone(
    const struct timed *it, struct alone *alone, enum operation operation)
{
    int64_t m = it->shape.m, n = it->shape.n, k = it->shape.k;
    struct symc_product product;

    if (operation == GATHER)
        n /= RANKS;
    else
        k /= RANKS;
    product =
        (struct symc_product){.a = {SYMMCOLL_BFLOAT16, m, k, k, false, 256},
            .b = {SYMMCOLL_BFLOAT16, k, n, n, false, 256},
            .c = {SYMMCOLL_BFLOAT16, m, n, n, false, 256},
            .workspace = gpu_is_rehearsal() ? 64 : ROOM};
    return it->rank != 0 ||
           OK(symc_lt_plan_make(&alone->lt, &product, &alone->plan));
}

/* Measures all forms alternately, so that other load on the machine affects
 * all alike. */
static bool time_operation(const struct timed *it, struct alone *alone,
    enum operation operation, double medians[FORMS])
{
    int n = gpu_choose(SAMPLES, 3, 1);
    double samples[FORMS][SAMPLES];
    bool right = plan_alone(it, alone, operation);

    for (int i = -1; i < n && right; i++) /* the first one creates plans and
                                           * memory */
        for (int form = 0; form < FORMS && right; form++)
            right = take_sample(it, alone, operation, (enum form)form,
                &samples[form][i < 0 ? 0 : i]);
    if (right && it->rank == 0) {
        symc_lt_plan_free(&alone->plan);
        for (int form = 0; form < FORMS; form++)
            medians[form] = median(samples[form], n);
    }
    return right;
}

static void tell_shape(
    struct shape shape, const double medians[FORMS], enum operation operation)
{
    static const char *const forms[FORMS] = {
        "part by part", "at once", "cuBLASLt alone"};
    char what[96];

    for (int form = 0; form < FORMS; form++) {
        (void)snprintf(what, sizeof(what), "bfloat16 %d x %d x %d, %s%s, %s",
            (int)shape.m, (int)shape.n, (int)shape.k,
            operations[operation].name, rounds ? " (rounded parts)" : "",
            forms[form]);
        tell(what, medians[form], "us");
        if (form != ALONE)
            tell("  over cuBLASLt alone", medians[form] / medians[ALONE], "");
    }
}

static size_t most_of(int64_t (*count_of)(struct shape shape))
{
    int64_t most = 0;

    for (int i = 0; i < SHAPES; i++)
        if (count_of(shape_of(i)) > most)
            most = count_of(shape_of(i));
    return (size_t)most * 2;
}

static int64_t count_a(struct shape shape)
{
    return shape.m * shape.k;
}

static int64_t count_b(struct shape shape)
{
    return shape.n * shape.k / RANKS;
}

static int64_t count_out(struct shape shape)
{
    return shape.m * shape.n;
}

static bool open_alone(struct alone *alone)
{
    alone->c = device_alloc(most_of(count_out));
    alone->workspace = device_alloc(ROOM);
    return OK(symc_lt_open(&alone->lt, symc_fail, gpu_cublaslt()));
}

static int times(struct symmcoll_group *group, int rank)
{
    struct timed it = {
        .group = group, .rank = rank, .call = SYMMCOLL_CALL_INIT};
    struct alone alone = {.c = NULL};
    bool right;

    device_use(0);
    it.call.stream = device_stream();
    it.a = device_alloc(most_of(count_a));
    it.b = device_alloc(most_of(count_b));
    it.out = device_alloc(most_of(count_out) / RANKS);
    fill_random((float *)(void *)it.a, most_of(count_a) / sizeof(float), rank);
    fill_random(
        (float *)(void *)it.b, most_of(count_b) / sizeof(float), RANKS + rank);
    ranks[rank] = &it;
    right = (rank != 0 || open_alone(&alone)) && synchronise(group);
    for (int i = 0; i < (gpu_is_short() ? 1 : SHAPES) && right; i++) {
        it.shape = shape_of(i);
        for (int operation = rounds ? SCATTER : GATHER;
             operation < OPERATIONS && right; operation++) {
            right = time_operation(&it, &alone, (enum operation)operation,
                found[rounds][i][operation]);
            if (right && rank == 0)
                tell_shape(it.shape, found[rounds][i][operation],
                    (enum operation)operation);
        }
    }
    if (rank == 0)
        symc_lt_close(&alone.lt);
    return right && synchronise(group);
}

/* Checks the form that is used without a setting. */
static void judge(int i, enum operation operation)
{
    const double *us = found[operation == SCATTER][i][operation];
    double taken = us[shapes[i].m / RANKS < ROWS_DEFAULT ? AT_ONCE : PARTS];
    char what[160];

    (void)snprintf(what, sizeof(what),
        "%s of %d x %d x %d takes %g of cuBLASLt alone at most, and no longer "
        "than the sequence",
        operations[operation].name, (int)shapes[i].m, (int)shapes[i].n,
        (int)shapes[i].k, operations[operation].most);
    if (!ok(us[ALONE] > 0 && taken <= operations[operation].most * us[ALONE] &&
                taken <= NOISE * us[AT_ONCE],
            "%s", what))
        diag("found %.2f us, alone %.2f, in sequence %.2f", taken, us[ALONE],
            us[AT_ONCE]);
}

static void judge_all(void)
{
    if (gpu_is_rehearsal()) {
        skip(1, "in a rehearsal no time is a device's");
        return;
    }
    for (int i = 0; i < SHAPES; i++)
        for (int operation = 0; operation < OPERATIONS; operation++)
            judge(i, (enum operation)operation);
}

int main(void)
{
    gpu_begin(200);
    gpu_need_cublaslt();
    found = mmap(NULL, 2 * sizeof(*found), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        abort();
    setenv("SYMMCOLL_FUSED_DEVICE_ROWS", "0", 1);
    ok(threads_run(RANKS, times), "how long they take is measured");
    setenv("SYMMCOLL_FUSED_ROUND_PARTS", "on", 1);
    rounds = 1;
    ok(threads_run(RANKS, times), "so is that of rounded parts");
    judge_all();
    return done_testing();
}
