/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the PowerSGD hook against a plain transcription of its steps in double
 * precision, which computes the gradients of all ranks itself.
 */
#include "model.h"

#include "base/reduce.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS 5
#define MOST 480 /* elements of a parameter */
#define RANKS 4
#define STEPS 8
#define SQUARE (40 * 40) /* elements of all parameters, as a padded square */

static const int64_t shapes[PARAMS][3] = {
    {20, 24, 0}, {24, 0, 0}, {8, 3, 5}, {1, 40, 0}, {10, 10, 0}};

static int ndim_of(int p)
{
    return 1 + (shapes[p][1] > 0) + (shapes[p][2] > 0);
}

static int count_of(int p)
{
    int count = 1;

    for (int d = 0; d < ndim_of(p); d++)
        count *= (int)shapes[p][d];
    return count;
}

/* Returns an element of a gradient: of low rank, and some noise. */
static float usual(int rank, int param, int i, int step)
{
    uint64_t bits = model_mix(
        (uint64_t)((rank * 64 + param) * 1024 + i) * 64 + (uint64_t)step);

    return (float)((i / 7 % 5) * (i % 7 + rank)) / 8.0f +
           (float)(bits >> 40) / (float)(1 << 24) - 0.5f;
}

/* ---- a run of the reducer ---- */

struct run {
    struct symmcoll_powersgd_args args;
    struct symmcoll_reducer_args reducer;
    float (*of)(int, int, int, int);
    int steps;
    int reload;   /* the state is saved and loaded before this step; 0: not */
    double bound; /* of differences, relative to the largest element */
    enum symmcoll_dtype wrapper; /* of the wrapper; 0: none */
};

/* The averages of all steps, and the layout of the last ones. */
struct result {
    float values[STEPS][PARAMS][MOST];
    int nbuckets;
    int ngrads[PARAMS];
    int params[PARAMS][PARAMS];
};

static struct run make_run(void)
{
    struct run run = {.args = SYMMCOLL_POWERSGD_ARGS_INIT,
        .reducer = SYMMCOLL_REDUCER_ARGS_INIT,
        .of = usual,
        .steps = 5,
        .bound = 1e-4};

    run.args.rank = 2;
    run.args.start = 2;
    run.args.seed = 5;
    run.reducer.bucket_cap = 1024;
    return run;
}

/* Replaces a state by a new one with the bytes of the old one. */
static int reload(struct symmcoll_group *group, const struct run *run,
    struct symmcoll_powersgd *state)
{
    struct symmcoll_powersgd *other = NULL;
    void *data = NULL, *again = NULL;
    size_t nbytes = 0, nagain = 0;
    int right;

    right =
        symmcoll_powersgd_save(state, &data, &nbytes) == SYMMCOLL_OK &&
        symmcoll_powersgd_create(group, &run->args, &other) == SYMMCOLL_OK &&
        symmcoll_powersgd_load(other, group, data, nbytes) == SYMMCOLL_OK &&
        symmcoll_powersgd_save(other, &again, &nagain) == SYMMCOLL_OK &&
        nagain == nbytes && memcmp(data, again, nbytes) == 0 &&
        symmcoll_powersgd_load(state, group, again, nagain) == SYMMCOLL_OK;
    free(data);
    free(again);
    symmcoll_powersgd_free(other);
    return right;
}

static void keep_layout(struct symmcoll_reducer *reducer, struct result *result)
{
    result->nbuckets = symmcoll_reducer_bucket_count(reducer);
    for (int b = 0; b < result->nbuckets; b++) {
        struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;

        if (symmcoll_reducer_bucket(reducer, b, &bucket) != SYMMCOLL_OK)
            return;
        result->ngrads[b] = bucket.ngrads;
        memcpy(result->params[b], bucket.params,
            (size_t)bucket.ngrads * sizeof(int));
    }
}

/* Passes a gradient, in the reducer's memory with views. */
static symmcoll_status_t pass(struct symmcoll_reducer *reducer,
    const struct run *run, int rank, int p, int step, float *grad)
{
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

    if (run->reducer.gradient_as_bucket_view) {
        if (symmcoll_reducer_grad(reducer, p, &view) != SYMMCOLL_OK)
            return SYMMCOLL_ERR_INTERNAL;
        grad = view.data;
    }
    for (int i = 0; i < count_of(p); i++)
        grad[i] = run->of(rank, p, i, step);
    return symmcoll_reducer_ready(reducer, p, grad);
}

/* Runs one pass and keeps the averages. */
static int run_step(struct symmcoll_reducer *reducer, const struct run *run,
    int rank, int step, struct result *result)
{
    static _Thread_local float grads[PARAMS][MOST];
    int right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;

    for (int p = PARAMS - 1; right && p >= 0; p--)
        right = pass(reducer, run, rank, p, step, grads[p]) == SYMMCOLL_OK;
    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
    for (int p = 0; right && p < PARAMS; p++) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

        right = symmcoll_reducer_grad(reducer, p, &view) == SYMMCOLL_OK;
        if (right)
            memcpy(result->values[step][p], view.data,
                (size_t)count_of(p) * sizeof(float));
        if (right && run->reducer.write_back)
            right = memcmp(view.data, grads[p],
                        (size_t)count_of(p) * sizeof(float)) == 0;
    }
    symmcoll_reducer_zero(reducer);
    return right;
}

static void use_hook(const struct run *run, struct symmcoll_powersgd *state,
    struct symmcoll_hook_wrapped *wrapped, struct symmcoll_reducer_args *args)
{
    args->hook = symmcoll_hook_powersgd;
    args->hook_end = symmcoll_hook_powersgd_end;
    args->hook_arg = state;
    if (run->wrapper == 0)
        return;
    *wrapped = (struct symmcoll_hook_wrapped)SYMMCOLL_HOOK_WRAPPED_INIT;
    wrapped->hook = args->hook;
    wrapped->hook_end = args->hook_end;
    wrapped->arg = state;
    args->hook = run->wrapper == SYMMCOLL_FLOAT16 ? symmcoll_hook_fp16_wrapper
                                                  : symmcoll_hook_bf16_wrapper;
    args->hook_end = symmcoll_hook_wrapper_end;
    args->hook_arg = wrapped;
}

/* Runs all steps.  The result is freed by the caller; NULL: failed. */
static struct result *run_all(
    struct symmcoll_group *group, int rank, const struct run *run)
{
    static _Thread_local float values[PARAMS][MOST];
    struct result *result = calloc(1, sizeof(*result));
    struct symmcoll_tensor params[PARAMS];
    struct symmcoll_reducer_args args = run->reducer;
    struct symmcoll_hook_wrapped wrapped;
    struct symmcoll_powersgd *state = NULL;
    struct symmcoll_reducer *reducer = NULL;
    int right;

    for (int p = 0; p < PARAMS; p++) {
        params[p] = model_vector(values[p], SYMMCOLL_FLOAT32, count_of(p));
        params[p].ndim = ndim_of(p);
        for (int d = params[p].ndim - 1, stride = 1; d >= 0; d--) {
            params[p].shape[d] = shapes[p][d];
            params[p].strides[d] = stride;
            stride *= (int)shapes[p][d];
        }
    }
    right = result != NULL &&
            symmcoll_powersgd_create(group, &run->args, &state) == SYMMCOLL_OK;
    use_hook(run, state, &wrapped, &args);
    right = right && symmcoll_reducer_create(
                         group, params, PARAMS, &args, &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < run->steps; step++) {
        if (run->reload > 0 && run->reload == step)
            right = reload(group, run, state);
        right = right && run_step(reducer, run, rank, step, result);
    }
    if (right) {
        keep_layout(reducer, result);
    } else {
        diag("%s", symmcoll_last_error());
        free(result);
        result = NULL;
    }
    symmcoll_reducer_free(reducer);
    symmcoll_powersgd_free(state);
    return result;
}

/* ---- the transcription ---- */

/* A matrix: a gradient, or a bucket with padding. */
struct unit {
    int bucket, number; /* from which random numbers follow */
    int n, m, k;        /* k 0: without compression */
    int count;          /* elements before the padding */
    int param[SQUARE], index[SQUARE];
    double error[RANKS][SQUARE];
    double sum[RANKS][SQUARE];
    double q[SQUARE];
    double mean[SQUARE]; /* the result of the step */
    int has_q;
};

static void orthogonalise(double *a, int n, int k, double epsilon)
{
    for (int c = 0; c < k; c++) {
        double before = 0.0, after = 0.0;

        for (int r = 0; r < n; r++)
            before += a[r * k + c] * a[r * k + c];
        for (int other = 0; other < c; other++) {
            double dot = 0.0;

            for (int r = 0; r < n; r++)
                dot += a[r * k + c] * a[r * k + other];
            for (int r = 0; r < n; r++)
                a[r * k + c] -= dot * a[r * k + other];
        }
        for (int r = 0; r < n; r++)
            after += a[r * k + c] * a[r * k + c];
        after = sqrt(after);
        for (int r = 0; r < n; r++)
            a[r * k + c] = after <= 1e-5 * sqrt(before)
                               ? 0.0
                               : a[r * k + c] / (after + epsilon);
    }
}

static void draw(struct unit *unit, const struct run *run, int step)
{
    uint64_t key = run->args.seed;

    key = model_mix(key) ^ (uint64_t)step;
    key = model_mix(key) ^ (uint64_t)unit->bucket;
    key = model_mix(model_mix(key) ^ (uint64_t)unit->number);
    for (int i = 0; i < unit->m * unit->k; i++) {
        uint64_t bits = model_mix(key + (uint64_t)i);

        unit->q[i] = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) +
                     (double)(bits >> 32 & 0xffff) + (double)(bits >> 48) -
                     2.0 * 0xffff;
    }
}

/* Computes the mean of the ranks' sums of gradients and errors. */
static void average(struct unit *unit, int size)
{
    for (int i = 0; i < unit->n * unit->m; i++) {
        unit->mean[i] = 0.0;
        for (int r = 0; r < size; r++)
            unit->mean[i] += unit->sum[r][i] / size;
    }
}

static void approximate(
    struct unit *unit, const struct run *run, int size, int step)
{
    static _Thread_local double p[SQUARE], mean[SQUARE];
    int n = unit->n, m = unit->m, k = unit->k;

    average(unit, size);
    memcpy(mean, unit->mean, sizeof(mean));
    if (!unit->has_q)
        draw(unit, run, step);
    orthogonalise(unit->q, m, k, run->args.epsilon);
    for (int r = 0; r < n; r++)
        for (int c = 0; c < k; c++) {
            p[r * k + c] = 0.0;
            for (int i = 0; i < m; i++)
                p[r * k + c] += size * mean[r * m + i] * unit->q[i * k + c];
        }
    orthogonalise(p, n, k, run->args.epsilon);
    for (int r = 0; r < m; r++)
        for (int c = 0; c < k; c++) {
            unit->q[r * k + c] = 0.0;
            for (int i = 0; i < n; i++)
                unit->q[r * k + c] += mean[i * m + r] * p[i * k + c];
        }
    for (int r = 0; r < n; r++)
        for (int c = 0; c < m; c++) {
            unit->mean[r * m + c] = 0.0;
            for (int i = 0; i < k; i++)
                unit->mean[r * m + c] += p[r * k + i] * unit->q[c * k + i];
        }
    unit->has_q = !run->args.no_warm_start;
}

static void step_unit(
    struct unit *unit, const struct run *run, int size, int step)
{
    int compressed = step >= run->args.start;

    for (int r = 0; r < size; r++)
        for (int i = 0; i < unit->count; i++)
            unit->sum[r][i] =
                run->of(r, unit->param[i], unit->index[i], step) +
                (run->args.no_error_feedback ? 0.0 : unit->error[r][i]);
    if (!compressed || unit->k == 0) {
        average(unit, size);
        return;
    }
    approximate(unit, run, size, step);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < unit->count; i++)
            unit->error[r][i] = unit->sum[r][i] - unit->mean[i];
}

/* Makes the matrix of one gradient, or adds it to that of its bucket. */
static void add_param(struct unit *unit, const struct run *run, int p)
{
    int count = count_of(p), k = run->args.rank;

    for (int i = 0; i < count; i++) {
        unit->param[unit->count] = p;
        unit->index[unit->count++] = i;
    }
    if (run->args.batched) {
        while (unit->n * unit->n < unit->count)
            unit->n++;
        unit->m = unit->n;
        unit->k = k < unit->n ? k : unit->n;
        return;
    }
    unit->n = (int)shapes[p][0];
    unit->m = count / unit->n;
    if (k > unit->n)
        k = unit->n;
    if (k > unit->m)
        k = unit->m;
    if ((unit->n + unit->m) * k *
            (run->args.min_rate > 0.0 ? run->args.min_rate : 2.0) <
        count)
        unit->k = k;
}

/* Compares all steps of a unit with what the reducer has computed. */
static int compare_unit(struct unit *unit, const struct run *run, int size,
    const struct result *result)
{
    for (int step = 0; step < run->steps; step++) {
        double most = 0.0;

        step_unit(unit, run, size, step);
        for (int i = 0; i < unit->count; i++)
            if (fabs(unit->mean[i]) > most)
                most = fabs(unit->mean[i]);
        for (int i = 0; i < unit->count; i++) {
            double found =
                (double)result->values[step][unit->param[i]][unit->index[i]];

            if (fabs(found - unit->mean[i]) <= run->bound * most)
                continue;
            diag("step %d, parameter %d, element %d: expected %g, found %g",
                step, unit->param[i], unit->index[i], unit->mean[i], found);
            return 0;
        }
    }
    return 1;
}

static int agrees(const struct run *run, int size, const struct result *result)
{
    struct unit *unit = malloc(sizeof(*unit));
    int right = unit != NULL;

    for (int b = 0; right && b < result->nbuckets; b++) {
        memset(unit, 0, sizeof(*unit));
        unit->bucket = b;
        for (int i = 0; right && i < result->ngrads[b]; i++) {
            if (!run->args.batched) {
                memset(unit, 0, sizeof(*unit));
                unit->bucket = b;
                unit->number = i;
            }
            add_param(unit, run, result->params[b][i]);
            if (!run->args.batched)
                right = compare_unit(unit, run, size, result);
        }
        if (run->args.batched)
            right = right && compare_unit(unit, run, size, result);
    }
    free(unit);
    return right;
}

/* Checks that all ranks have the same bits. */
static int same_on_all(
    struct symmcoll_group *group, const struct result *result)
{
    struct result *first = malloc(sizeof(*first));
    int right = first != NULL;

    if (right) {
        *first = *result;
        right = symmcoll_broadcast(group, first, sizeof(*first), SYMMCOLL_UINT8,
                    0, NULL, NULL) == SYMMCOLL_OK &&
                memcmp(first, result, sizeof(*first)) == 0;
    }
    free(first);
    return right;
}

static int run_and_compare(
    struct symmcoll_group *group, int rank, const struct run *run)
{
    struct result *result = run_all(group, rank, run);
    int right = result != NULL &&
                agrees(run, symmcoll_group_size(group), result) &&
                same_on_all(group, result);

    free(result);
    return right;
}

/* ---- the points ---- */

static int all_states(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; right && i < 8; i++) {
        struct run run = make_run();

        run.args.no_error_feedback = i & 1;
        run.args.no_warm_start = i >> 1 & 1;
        run.args.batched = i >> 2 & 1;
        right = run_and_compare(group, rank, &run);
    }
    return right;
}

static int one_bucket_of_views(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();

    run.reducer.bucket_cap = 1 << 20;
    run.reducer.gradient_as_bucket_view = 1;
    run.args.rank = 3;
    run.args.epsilon = 1e-8;
    return run_and_compare(group, rank, &run);
}

static int written_back(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();

    run.reducer.write_back = 1;
    return run_and_compare(group, rank, &run);
}

/* Runs with a rank that no matrix has, with which nothing is lost. */
static int rank_above_all(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();
    int size = symmcoll_group_size(group), right;
    struct result *result;

    run.args.rank = 50;
    run.args.min_rate = 0.01;
    result = run_all(group, rank, &run);
    right = result != NULL && agrees(&run, size, result);
    for (int step = 0; right && step < run.steps; step++)
        for (int p = 0; p < PARAMS; p++)
            for (int i = 0; right && i < count_of(p); i++) {
                double mean = 0.0;

                for (int r = 0; r < size; r++)
                    mean += (double)usual(r, p, i, step) / size;
                right = fabs(result->values[step][p][i] - mean) < 1e-4;
            }
    free(result);
    return right;
}

static int goes_on_from_saved(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();
    struct result *plain, *loaded;
    int right;

    run.steps = STEPS;
    plain = run_all(group, rank, &run);
    run.reload = 5;
    loaded = run_all(group, rank, &run);
    right = plain != NULL && loaded != NULL &&
            memcmp(plain, loaded, sizeof(*plain)) == 0;
    free(plain);
    free(loaded);
    return right;
}

/* Runs in 16 bits: the factors are rounded, and P by the more, the less its
 * columns differ. */
static int wrapped(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();

    run.args.rank = 1;
    run.args.no_error_feedback = 1;
    run.wrapper = SYMMCOLL_FLOAT16;
    run.bound = 1e-2;
    if (!run_and_compare(group, rank, &run))
        return 0;
    run.wrapper = SYMMCOLL_BFLOAT16;
    run.bound = 5e-2;
    return run_and_compare(group, rank, &run);
}

/* ---- values at the limits ---- */

static float zeros(int rank, int param, int i, int step)
{
    (void)rank;
    (void)param;
    (void)i;
    (void)step;
    return 0.0f;
}

/* Returns zeros in the passes 2 and 3 only. */
static float sometimes_zeros(int rank, int param, int i, int step)
{
    return step == 2 || step == 3 ? 0.0f : usual(rank, param, i, step);
}

static float huge(int rank, int param, int i, int step)
{
    (void)rank;
    return (param + i + step) % 3 == 0 ? -FLT_MAX : FLT_MAX;
}

static float tiny(int rank, int param, int i, int step)
{
    (void)step;
    return (float)((rank + param + i) % 3) * 1e-45f;
}

static float with_infinity(int rank, int param, int i, int step)
{
    if (step == 3 && param == 0 && i == 7 && rank == 1)
        return INFINITY;
    return usual(rank, param, i, step);
}

/* Checks that all results are finite, except, if the values are
 * with_infinity(), those of its parameter in its step. */
static int is_finite(const struct result *result, int steps, bool infinite)
{
    for (int step = 0; step < steps; step++)
        for (int p = 0; p < PARAMS; p++)
            for (int i = 0; i < count_of(p); i++)
                if (!isfinite(result->values[step][p][i]) !=
                    (infinite && step == 3 && p == 0)) {
                    diag("step %d, parameter %d, element %d: found %g", step, p,
                        i, (double)result->values[step][p][i]);
                    return 0;
                }
    return 1;
}

static int remains_finite(struct symmcoll_group *group, int rank)
{
    float (*const values[])(int, int, int, int) = {
        zeros, sometimes_zeros, huge, tiny};
    enum symmcoll_dtype wrappers[] = {0, SYMMCOLL_BFLOAT16};
    int right = 1;

    for (int i = 0; right && i < 16; i++) {
        struct run run = make_run();
        struct result *result;

        run.of = values[i % 4];
        run.args.batched = i / 4 % 2;
        run.wrapper = wrappers[i / 8];
        run.steps = STEPS;
        if (run.wrapper != 0 && run.of == huge)
            continue; /* its elements have no finite value in 16 bits */
        result = run_all(group, rank, &run);
        right = result != NULL && is_finite(result, run.steps, false) &&
                same_on_all(group, result);
        if (!right)
            diag("combination %d", i);
        free(result);
    }
    return right;
}

/* Zero gradients do not cost the following ones their approximation. */
static int goes_on_after_zeros(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();
    struct result *result;
    double sum = 0.0;

    run.of = sometimes_zeros;
    run.args.no_error_feedback = 1;
    run.steps = STEPS;
    result = run_all(group, rank, &run);
    for (int i = 0; result != NULL && i < count_of(0); i++)
        sum += fabs((double)result->values[STEPS - 1][0][i]);
    free(result);
    return sum > 1.0;
}

static int infinity_is_seen_once(struct symmcoll_group *group, int rank)
{
    struct run run = make_run();
    struct result *result;
    int right;

    run.of = with_infinity;
    run.steps = STEPS;
    result = run_all(group, rank, &run);
    right = result != NULL && is_finite(result, run.steps, true);
    free(result);
    return right;
}

/* ---- refusals ---- */

static int is_refused(struct symmcoll_group *group,
    const struct symmcoll_powersgd_args *args, const char *text)
{
    struct symmcoll_powersgd *state = NULL;

    return symmcoll_powersgd_create(group, args, &state) ==
               SYMMCOLL_ERR_INVALID &&
           state == NULL && model_error_says(text);
}

static int bad_options(struct symmcoll_group *group, int rank)
{
    struct symmcoll_powersgd_args args[5];

    (void)rank;
    for (int i = 0; i < 5; i++)
        args[i] = make_run().args;
    args[0].rank = -3;
    args[1].start = 1;
    args[2].min_rate = -1.0;
    args[3].epsilon = NAN;
    args[4].size = 4;
    return is_refused(
               group, &args[0], "expected a rank of at least 1, found -3") &&
           is_refused(group, &args[1],
               "expected a start of at least 2, with error feedback or warm "
               "start, found 1") &&
           is_refused(
               group, &args[2], "expected a min_rate above 0, found -1") &&
           is_refused(
               group, &args[3], "expected an epsilon of at least 0, found") &&
           is_refused(group, &args[4], "args") &&
           symmcoll_powersgd_create(NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
           symmcoll_powersgd_create(group, NULL, NULL) == SYMMCOLL_ERR_INVALID;
}

static int other_options(struct symmcoll_group *group, int rank)
{
    struct symmcoll_powersgd_args args = make_run().args;
    struct symmcoll_powersgd *state = NULL;

    args.rank = rank == 2 ? 4 : 3;
    if (symmcoll_powersgd_create(group, &args, &state) !=
            SYMMCOLL_ERR_MISMATCH ||
        !model_error_says("rank differs: rank 0 has 3, rank 2 has 4"))
        return 0;
    args.rank = 3;
    args.seed = rank == 1 ? 8 : 7;
    return symmcoll_powersgd_create(group, &args, &state) ==
               SYMMCOLL_ERR_MISMATCH &&
           model_error_says("seed (low half) differs: rank 0 has 7, rank 1 has "
                            "8") &&
           state == NULL;
}

/* One rank refuses its own options; the others name it. */
static int one_refusal_is_all(struct symmcoll_group *group, int rank)
{
    struct symmcoll_powersgd_args args = make_run().args;
    struct symmcoll_powersgd *state = NULL;

    args.rank = rank == 1 ? -1 : 2;
    return symmcoll_powersgd_create(group, &args, &state) ==
               SYMMCOLL_ERR_INVALID &&
           state == NULL &&
           model_error_says(rank == 1 ? "expected a rank of at least 1"
                                      : "found one on rank 1");
}

/* Loads bytes that were cut at each length, and some that were changed. */
static int bad_bytes(struct symmcoll_group *group, int rank)
{
    struct symmcoll_powersgd_args args = make_run().args, other = args;
    struct symmcoll_powersgd *state = NULL, *second = NULL;
    void *data = NULL;
    size_t nbytes = 0;
    int right;

    (void)rank;
    other.rank = 3;
    right = symmcoll_powersgd_create(group, &args, &state) == SYMMCOLL_OK &&
            symmcoll_powersgd_create(group, &other, &second) == SYMMCOLL_OK &&
            symmcoll_powersgd_save(state, &data, &nbytes) == SYMMCOLL_OK;
    for (size_t n = 0; right && n < nbytes; n += 8)
        right = symmcoll_powersgd_load(state, group, data, n) ==
                SYMMCOLL_ERR_INVALID;
    right = right &&
            symmcoll_powersgd_load(second, group, data, nbytes) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("expected a state with the rank 3, found 2") &&
            symmcoll_powersgd_load(state, group, data, nbytes) == SYMMCOLL_OK;
    if (right)
        memset(data, 1, 8);
    right =
        right &&
        symmcoll_powersgd_load(state, group, data, nbytes) ==
            SYMMCOLL_ERR_INVALID &&
        model_error_says("expected the bytes of symmcoll_powersgd_save()") &&
        symmcoll_powersgd_load(state, group, NULL, 0) == SYMMCOLL_ERR_INVALID &&
        symmcoll_powersgd_save(NULL, &data, &nbytes) == SYMMCOLL_ERR_INVALID;
    free(data);
    symmcoll_powersgd_free(state);
    symmcoll_powersgd_free(second);
    symmcoll_powersgd_free(NULL);
    return right;
}

/* Runs a pass that is refused, of one parameter. */
static int pass_is_refused(struct symmcoll_group *group,
    const struct symmcoll_reducer_args *args, enum symmcoll_dtype dtype,
    symmcoll_status_t expected, const char *text)
{
    static _Thread_local double values[64], grads[64];
    struct symmcoll_tensor param = model_matrix(values, dtype, 8, 8);
    struct symmcoll_reducer *reducer = NULL;
    int right;

    right = symmcoll_reducer_create(group, &param, 1, args, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(reducer, 0, grads) == expected &&
            model_error_says(text);
    symmcoll_reducer_free(reducer);
    return right;
}

static int bad_reducers(struct symmcoll_group *group, int rank)
{
    struct symmcoll_powersgd_args args = make_run().args;
    struct symmcoll_reducer_args reducer = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_powersgd *state = NULL;
    int right;

    (void)rank;
    reducer.hook = symmcoll_hook_powersgd;
    right = symmcoll_powersgd_create(group, &args, &state) == SYMMCOLL_OK;
    reducer.hook_arg = state;
    right =
        right &&
        pass_is_refused(group, &reducer, SYMMCOLL_FLOAT32, SYMMCOLL_ERR_INVALID,
            "expected a reducer with hook_end symmcoll_hook_powersgd_end");
    reducer.hook_end = symmcoll_hook_powersgd_end;
    right = right && pass_is_refused(group, &reducer, SYMMCOLL_FLOAT64,
                         SYMMCOLL_ERR_UNSUPPORTED,
                         "expected gradients of float32, float16 or bfloat16, "
                         "found float64");
    reducer.hook_arg = NULL;
    right = right && pass_is_refused(group, &reducer, SYMMCOLL_FLOAT32,
                         SYMMCOLL_ERR_INVALID,
                         "expected the state of symmcoll_powersgd_create()");
    symmcoll_powersgd_free(state);
    return right;
}

static const struct model_point points[] = {
    {all_states, 2,
        "D69 D80 D81 D83 D84 D85 D86 D88: each kind of state follows the transcription"},
    {all_states, 3, "D69: so does each with three ranks"},
    {all_states, 4, "D69: so does each with four ranks"},
    {one_bucket_of_views, 3, "D69 D82: so do gradients in the buckets"},
    {written_back, 2, "D69: so do gradients that are written back"},
    {rank_above_all, 2, "D82: nothing is lost with the rank of the matrices"},
    {goes_on_from_saved, 2, "D89: a saved state continues to the same bits"},
    {wrapped, 3, "D67 D69: so do the factors in 16 bits"},
    {remains_finite, 2, "D87: finite gradients have finite results"},
    {goes_on_after_zeros, 2, "D87: zero gradients do not empty the factors"},
    {infinity_is_seen_once, 2,
        "an infinite gradient is seen, and the next pass is finite"},
    {bad_options, 2, "bad options are refused with their values"},
    {other_options, 3, "options that differ name the ranks and both values"},
    {one_refusal_is_all, 2, "what one rank refuses fails on all"},
    {bad_bytes, 2, "D89: bytes that are no saved state are refused"},
    {bad_reducers, 2, "reducers that the hook cannot serve are refused"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
