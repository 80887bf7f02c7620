/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the hooks of symmcoll_hook_create() against the gradients of all ranks in
 * double precision, from which each rank computes what it expects.
 */
#include "model.h"

#include "base/reduce.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS 4
#define MOST 1300 /* elements of a parameter */
#define ALL 3000  /* elements of all parameters, or more */
#define RANKS 4
#define STEPS 6

static const int counts[PARAMS] = {30 * 40, 512, 7, 24 * 30};

static void print_error(void)
{
    diag("%s", symmcoll_last_error());
}

/* Returns an element of a gradient, from -1 to 1, and smaller ones more often. */
static float usual(int rank, int param, int i, int step)
{
    uint64_t bits = model_mix(
        (uint64_t)((rank * 64 + param) * 2048 + i) * 64 + (uint64_t)step);
    float value = (float)(bits >> 40) / (float)(1 << 23) - 1.0f;

    return value * value * value;
}

/* ---- a run ---- */

struct run {
    const char *name;
    struct symmcoll_hook_args args;
    struct symmcoll_reducer_args reducer;
    float (*of)(int, int, int, int);
    int steps;
    int reload; /* the hook is saved and loaded before this step; 0: not */
    /* Decodes what a rank sends; returns the largest difference from it that is
     * allowed besides. */
    double (*decode)(const struct run *run, const double *sent, size_t count,
        double *decoded);
    bool feedback;
};

/* The errors of all ranks in a bucket. */
struct track {
    int params[PARAMS];
    int ngrads;
    double errors[RANKS][ALL];
};

static struct run make_run(const char *name)
{
    struct run run = {.name = name,
        .args = SYMMCOLL_HOOK_ARGS_INIT,
        .reducer = SYMMCOLL_REDUCER_ARGS_INIT,
        .of = usual,
        .steps = STEPS};

    run.args.name = name;
    run.reducer.bucket_cap = 4000;
    return run;
}

/* ---- what is expected ---- */

/* Returns the largest step of a level: half of one from rounding, as much from the
 * rounded zero, where the range ends. */
static double decode_levels(
    const struct run *run, const double *sent, size_t count, double *decoded)
{
    size_t channel = strcmp(run->name, "quantize_tensor") == 0 ? count : 512;
    double most = 0.0;

    for (size_t first = 0; first < count; first += channel) {
        double low = 0.0, high = 0.0;

        for (size_t i = first; i < count && i < first + channel; i++) {
            low = sent[i] < low ? sent[i] : low;
            high = sent[i] > high ? sent[i] : high;
        }
        if ((high - low) / 255 > most)
            most = (high - low) / 255;
    }
    memcpy(decoded, sent, count * sizeof(*sent));
    return most;
}

static double decode_signs(
    const struct run *run, const double *sent, size_t count, double *decoded)
{
    (void)run;
    for (size_t first = 0; first < count; first += 512) {
        size_t end = first + 512 < count ? first + 512 : count;
        double sum = 0.0;

        for (size_t i = first; i < end; i++)
            sum += fabs(sent[i]);
        for (size_t i = first; i < end; i++)
            decoded[i] = copysign(sum / (double)(end - first), sent[i]);
    }
    return 0.0;
}

static int compare_magnitudes(const void *a, const void *b)
{
    double left = fabs(*(const double *)a), right = fabs(*(const double *)b);

    return (left < right) - (left > right);
}

static double decode_largest(
    const struct run *run, const double *sent, size_t count, double *decoded)
{
    static _Thread_local double sorted[ALL];
    size_t kept = (size_t)ceil(run->args.ratio * (double)count);

    memcpy(sorted, sent, count * sizeof(*sent));
    qsort(sorted, count, sizeof(*sorted), compare_magnitudes);
    for (size_t i = 0; i < count; i++)
        decoded[i] = fabs(sent[i]) >= fabs(sorted[kept - 1]) ? sent[i] : 0.0;
    return 0.0;
}

/* Computes a bucket's averages in one step; returns how far those of the hook may
 * differ.  Floats have a relative error of 2^-24 in each of a few operations. */
static double average(const struct run *run, struct track *track,
    const struct symmcoll_bucket *bucket, int size, int step, double *mean)
{
    static _Thread_local double sent[ALL], decoded[ALL];
    double bound = 1e-6;
    bool plain = step < run->args.start;

    for (size_t i = 0; i < bucket->count; i++)
        mean[i] = 0.0;
    for (int r = 0; r < size; r++) {
        size_t n = 0;

        for (int g = 0; g < bucket->ngrads; g++)
            for (int i = 0; i < counts[bucket->params[g]]; i++, n++)
                sent[n] = (double)run->of(r, bucket->params[g], i, step) +
                          (plain ? 0.0 : track->errors[r][n]);
        if (plain)
            memcpy(decoded, sent, n * sizeof(*sent));
        else
            bound += run->decode(run, sent, n, decoded) / size;
        for (size_t i = 0; i < n; i++) {
            mean[i] += decoded[i] / size;
            if (run->feedback && !plain)
                track->errors[r][i] = sent[i] - decoded[i];
        }
    }
    return bound;
}

/* Compares the buckets after a step. */
static int holds(struct symmcoll_reducer *reducer, const struct run *run,
    struct track *tracks, int size, int step)
{
    static _Thread_local double mean[ALL];

    for (int b = 0; b < symmcoll_reducer_bucket_count(reducer); b++) {
        struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;
        struct track *track = &tracks[b];
        const float *found;
        double bound;

        if (symmcoll_reducer_bucket(reducer, b, &bucket) != SYMMCOLL_OK)
            return 0;
        if (track->ngrads != bucket.ngrads ||
            memcmp(track->params, bucket.params,
                (size_t)bucket.ngrads * sizeof(int)) != 0)
            memset(track, 0, sizeof(*track));
        track->ngrads = bucket.ngrads;
        memcpy(
            track->params, bucket.params, (size_t)bucket.ngrads * sizeof(int));
        bound = average(run, track, &bucket, size, step, mean);
        found = bucket.buffer;
        for (size_t i = 0; i < bucket.count; i++) {
            if (fabs((double)found[i] - mean[i]) <= bound)
                continue;
            diag("%s, step %d, bucket %d, element %zu: expected %.9g +- %g, "
                 "found %.9g",
                run->name, step, b, i, mean[i], bound, (double)found[i]);
            return 0;
        }
    }
    return 1;
}

/* ---- runs of the reducer ---- */

static int reload(struct symmcoll_group *group, const struct run *run,
    struct symmcoll_hook *hook)
{
    struct symmcoll_hook *other = NULL;
    void *data = NULL, *again = NULL;
    size_t nbytes = 0, nagain = 0;
    int right =
        symmcoll_hook_save(hook, &data, &nbytes) == SYMMCOLL_OK &&
        symmcoll_hook_create(group, &run->args, &other) == SYMMCOLL_OK &&
        symmcoll_hook_load(other, group, data, nbytes) == SYMMCOLL_OK &&
        symmcoll_hook_save(other, &again, &nagain) == SYMMCOLL_OK &&
        nagain == nbytes && memcmp(data, again, nbytes) == 0 &&
        symmcoll_hook_load(hook, group, again, nagain) == SYMMCOLL_OK;

    free(data);
    free(again);
    symmcoll_hook_free(other);
    return right;
}

static symmcoll_status_t pass(struct symmcoll_reducer *reducer,
    const struct run *run, int rank, int p, int step)
{
    static _Thread_local float grads[PARAMS][MOST];
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    float *grad = grads[p];

    if (run->reducer.gradient_as_bucket_view) {
        if (symmcoll_reducer_grad(reducer, p, &view) != SYMMCOLL_OK)
            return SYMMCOLL_ERR_INTERNAL;
        grad = view.data;
    }
    for (int i = 0; i < counts[p]; i++)
        grad[i] = run->of(rank, p, i, step);
    return symmcoll_reducer_ready(reducer, p, grad);
}

static int run_pass(
    struct symmcoll_reducer *reducer, const struct run *run, int rank, int step)
{
    int right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;

    for (int p = PARAMS - 1; right && p >= 0; p--)
        right = pass(reducer, run, rank, p, step) == SYMMCOLL_OK;
    return right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
}

/* Checks that all ranks have rank 0's bits. */
static int same_on_all(
    struct symmcoll_group *group, const void *own, size_t nbytes)
{
    void *first = malloc(nbytes);
    int right = first != NULL;

    if (right) {
        memcpy(first, own, nbytes);
        right = symmcoll_broadcast(group, first, nbytes, SYMMCOLL_UINT8, 0,
                    NULL, NULL) == SYMMCOLL_OK &&
                memcmp(first, own, nbytes) == 0;
    }
    free(first);
    return right;
}

static int buckets_are_same(
    struct symmcoll_group *group, struct symmcoll_reducer *reducer)
{
    for (int b = 0; b < symmcoll_reducer_bucket_count(reducer); b++) {
        struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;

        if (symmcoll_reducer_bucket(reducer, b, &bucket) != SYMMCOLL_OK ||
            !same_on_all(group, bucket.buffer, bucket.count * sizeof(float)))
            return 0;
    }
    return 1;
}

static struct symmcoll_reducer *make_reducer(struct symmcoll_group *group,
    const struct symmcoll_reducer_args *given, struct symmcoll_hook *hook)
{
    static _Thread_local float values[PARAMS][MOST];
    struct symmcoll_reducer_args args = *given;
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_tensor params[PARAMS];

    for (int p = 0; p < PARAMS; p++)
        params[p] = model_vector(values[p], SYMMCOLL_FLOAT32, counts[p]);
    params[0] = model_matrix(values[0], SYMMCOLL_FLOAT32, 30, 40);
    args.hook = symmcoll_hook_run;
    args.hook_end = symmcoll_hook_end;
    args.hook_arg = hook;
    if (symmcoll_reducer_create(group, params, PARAMS, &args, &reducer) !=
        SYMMCOLL_OK)
        print_error();
    return reducer;
}

/* Runs all steps and compares each. */
static int follows(
    struct symmcoll_group *group, int rank, const struct run *run)
{
    struct symmcoll_hook *hook = NULL;
    struct symmcoll_reducer *reducer = NULL;
    struct track *tracks = calloc(PARAMS, sizeof(*tracks));
    int right = tracks != NULL &&
                symmcoll_hook_create(group, &run->args, &hook) == SYMMCOLL_OK &&
                (reducer = make_reducer(group, &run->reducer, hook)) != NULL;

    for (int step = 0; right && step < run->steps; step++) {
        if (run->reload > 0 && run->reload == step)
            right = reload(group, run, hook);
        right = right && run_pass(reducer, run, rank, step) &&
                holds(reducer, run, tracks, symmcoll_group_size(group), step) &&
                buckets_are_same(group, reducer);
        if (reducer != NULL)
            symmcoll_reducer_zero(reducer);
    }
    if (!right)
        print_error();
    free(tracks);
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    return right;
}

/* ---- points: codecs ---- */

static int levels_of_buckets(struct symmcoll_group *group, int rank)
{
    struct run run = make_run("quantize_tensor");

    run.decode = decode_levels;
    if (!follows(group, rank, &run))
        return 0;
    run.reducer.gradient_as_bucket_view = 1;
    return follows(group, rank, &run);
}

static int levels_of_channels(struct symmcoll_group *group, int rank)
{
    struct run run = make_run("quantize_channel");

    run.decode = decode_levels;
    return follows(group, rank, &run);
}

/* Returns integers from -100 to 155, whose step is 1. */
static float integers(int rank, int param, int i, int step)
{
    return (float)((i + 3 * rank + param + step) % 256 - 100);
}

static double decode_exactly(
    const struct run *run, const double *sent, size_t count, double *decoded)
{
    (void)run;
    memcpy(decoded, sent, count * sizeof(*sent));
    return 0.0;
}

static int levels_are_exact(struct symmcoll_group *group, int rank)
{
    struct run run = make_run("quantize_tensor");

    run.decode = decode_exactly;
    run.of = integers;
    run.reducer.bucket_cap = 1 << 20; /* all parameters in one bucket */
    return follows(group, rank, &run);
}

static struct run make_signs(void)
{
    struct run run = make_run("one_bit");

    run.decode = decode_signs;
    run.feedback = true;
    run.args.start = 2;
    return run;
}

static struct run make_largest(void)
{
    struct run run = make_run("top_k");

    run.decode = decode_largest;
    run.feedback = true;
    run.args.start = 1;
    run.args.ratio = 0.125;
    return run;
}

static int signs(struct symmcoll_group *group, int rank)
{
    struct run run = make_signs();

    return follows(group, rank, &run);
}

static int largest(struct symmcoll_group *group, int rank)
{
    struct run run = make_largest();

    return follows(group, rank, &run);
}

static int all_are_largest(struct symmcoll_group *group, int rank)
{
    struct run run = make_largest();

    run.decode = decode_exactly;
    run.args.ratio = 1.0;
    run.reducer.gradient_as_bucket_view = 1;
    return follows(group, rank, &run);
}

static int loaded_hooks_go_on(struct symmcoll_group *group, int rank)
{
    struct run bits = make_signs(), top = make_largest();

    bits.reload = 3;
    top.reload = 4;
    return follows(group, rank, &bits) && follows(group, rank, &top);
}

/* Returns one gradient that is infinite, in the third step. */
static float infinite(int rank, int param, int i, int step)
{
    if (rank == 1 && param == 1 && i == 5 && step == 2)
        return INFINITY;
    return usual(rank, param, i, step);
}

static int infinity_is_seen_once(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {
        "quantize_tensor", "quantize_channel", "top_k", "one_bit"};
    int right = 1;

    for (int n = 0; right && n < 4; n++) {
        struct run run = make_run(names[n]);
        struct symmcoll_hook *hook = NULL;
        struct symmcoll_reducer *reducer = NULL;
        struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;

        run.of = infinite;
        right = symmcoll_hook_create(group, &run.args, &hook) == SYMMCOLL_OK &&
                (reducer = make_reducer(group, &run.reducer, hook)) != NULL;
        for (int step = 0; right && step < 4; step++) {
            const float *at;

            right = run_pass(reducer, &run, rank, step) &&
                    buckets_are_same(group, reducer) &&
                    symmcoll_reducer_grad(reducer, 1, &grad) == SYMMCOLL_OK;
            at = grad.data;
            right = right && (step == 2 ? isnan(at[5]) : isfinite(at[5]));
            symmcoll_reducer_zero(reducer);
        }
        if (!right)
            diag("%s", names[n]);
        symmcoll_reducer_free(reducer);
        symmcoll_hook_free(hook);
    }
    return right;
}

/* ---- points: post-local SGD, none ---- */

/* Returns gradients whose averages over 2 and 4 ranks are exact. */
static float quarter(int rank, int param, int i, int step)
{
    return (float)(4 * ((rank + 1) * (param + 1) + i % 7 + step));
}

/* Runs four steps, and checks that from `start` on averages are over the ranks from
 * first to first + n - 1. */
static int averages_over(struct symmcoll_group *group, int rank,
    const struct symmcoll_hook_args *args, int start, int first, int n)
{
    struct run run = make_run(args->name);
    struct symmcoll_hook *hook = NULL;
    struct symmcoll_reducer *reducer = NULL;
    int right = symmcoll_hook_create(group, args, &hook) == SYMMCOLL_OK &&
                (reducer = make_reducer(group, &run.reducer, hook)) != NULL;

    run.of = quarter;
    for (int step = 0; right && step < 4; step++) {
        int from = step < start ? 0 : first;
        int size = step < start ? symmcoll_group_size(group) : n;

        right = run_pass(reducer, &run, rank, step);
        for (int p = 0; right && p < PARAMS; p++)
            for (int i = 0; right && i < counts[p]; i++) {
                float sum = 0;

                for (int r = from; r < from + size; r++)
                    sum += quarter(r, p, i, step);
                right = model_view_is(reducer, p, i, sum / (float)size);
            }
        symmcoll_reducer_zero(reducer);
    }
    if (!right)
        print_error();
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    return right;
}

static int local_averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_args args = make_run("post_local_sgd").args;
    struct symmcoll_group *pair = NULL;
    int size = symmcoll_group_size(group), right;

    if (symmcoll_group_split_runs(group, 2, NULL, &pair, NULL) != SYMMCOLL_OK) {
        print_error();
        return 0;
    }
    args.start = 2;
    args.subgroup = pair;
    right = averages_over(group, rank, &args, 2, rank / 2 * 2, 2);
    args.subgroup = NULL;
    right = right && averages_over(group, rank, &args, 2, 0, size);
    args.no_local_average = 1;
    right = right && averages_over(group, rank, &args, 2, rank, 1);
    symmcoll_group_free(pair);
    return right;
}

static int nothing_is_averaged(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_args args = make_run("noop").args;

    return averages_over(group, rank, &args, 0, rank, 1);
}

/* ---- points: the step of an optimizer ---- */

struct steps {
    struct run run;
    int size;
    int step; /* of the training */
    int ncalls;
    int fails; /* the call that fails, from 1; 0: none */
    int wrong;
};

/* Checks that the average is complete. */
static symmcoll_status_t note_step(
    void *arg, int param, const struct symmcoll_tensor *grad)
{
    struct steps *steps = arg;
    const float *at = grad->data;
    float sum = 0;

    steps->ncalls++;
    for (int r = 0; r < steps->size; r++)
        sum += quarter(r, param, 3, steps->step);
    if (at[3] != sum / (float)steps->size ||
        (int)model_count(grad) != counts[param])
        steps->wrong++;
    return steps->ncalls == steps->fails ? SYMMCOLL_ERR_CANCELED : SYMMCOLL_OK;
}

static int steps_have_averages(struct symmcoll_group *group, int rank)
{
    struct steps steps = {
        .run = make_run("step"), .size = symmcoll_group_size(group)};
    struct symmcoll_hook *hook = NULL;
    struct symmcoll_reducer *reducer = NULL;
    int right;

    steps.run.of = quarter;
    steps.run.args.step = note_step;
    steps.run.args.step_arg = &steps;
    right =
        symmcoll_hook_create(group, &steps.run.args, &hook) == SYMMCOLL_OK &&
        (reducer = make_reducer(group, &steps.run.reducer, hook)) != NULL;
    for (; right && steps.step < 3; steps.step++) {
        steps.ncalls = 0;
        right = run_pass(reducer, &steps.run, rank, steps.step) &&
                steps.ncalls == PARAMS && steps.wrong == 0;
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    return right;
}

/* Rank 1's second call fails, and PowerSGD has another sum for each bucket. */
static int failed_step_is_one_ranks(struct symmcoll_group *group, int rank)
{
    struct steps steps = {.run = make_run("step"), .fails = rank == 1 ? 2 : 0};
    struct symmcoll_hook_args inner_args = make_run("powersgd").args;
    struct symmcoll_hook_wrapped inner = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct symmcoll_powersgd_args powersgd = SYMMCOLL_POWERSGD_ARGS_INIT;
    struct symmcoll_hook *hook = NULL, *other = NULL;
    struct symmcoll_reducer *reducer = NULL;
    int right;

    powersgd.start = 2;
    powersgd.min_rate = 1.0;
    inner_args.powersgd = &powersgd;
    right = symmcoll_hook_create(group, &inner_args, &other) == SYMMCOLL_OK;
    inner.hook = symmcoll_hook_run;
    inner.hook_end = symmcoll_hook_end;
    inner.arg = other;
    steps.run.args.inner = &inner;
    steps.run.args.step = note_step;
    steps.run.args.step_arg = &steps;
    right =
        right &&
        symmcoll_hook_create(group, &steps.run.args, &hook) == SYMMCOLL_OK &&
        (reducer = make_reducer(group, &steps.run.reducer, hook)) != NULL;
    for (int step = 0; right && step < 4; step++) {
        bool fails = step == 2 && rank == 1;

        steps.ncalls = step == 2 ? 0 : 10;
        right = run_pass(reducer, &steps.run, rank, step) == !fails &&
                (!fails || steps.ncalls == 2) &&
                (!fails || model_error_says("step returned"));
        symmcoll_reducer_zero(reducer);
    }
    if (!right)
        print_error();
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    symmcoll_hook_free(other);
    return right;
}

/* ---- points: statistics ---- */

/* Returns the bytes of encoded gradients of each bucket, a multiple of 8. */
static size_t encoded_size(const char *name, size_t count)
{
    size_t channels = (count + 511) / 512, nbytes = 0;

    if (strcmp(name, "quantize_tensor") == 0)
        nbytes = 8 + count;
    if (strcmp(name, "quantize_channel") == 0)
        nbytes = 8 * channels + count;
    if (strcmp(name, "top_k") == 0)
        nbytes = 8 * (size_t)ceil(0.01 * (double)count);
    if (strcmp(name, "one_bit") == 0)
        nbytes = 4 * channels + (count + 7) / 8;
    return (nbytes + 7) / 8 * 8;
}

/* Returns the bytes that a rank sends in a pass. */
static size_t sent_size(
    const struct symmcoll_reducer *reducer, const char *name, size_t nbytes)
{
    size_t sum = 0;

    if (strcmp(name, "noop") == 0)
        return 0;
    if (strncmp(name, "fp16", 4) == 0 || strncmp(name, "bf16", 4) == 0)
        return nbytes / 2;
    /* A matrix of 30 x 40, of which 30 and 40 elements are sent, and others. */
    if (strcmp(name, "powersgd") == 0)
        return nbytes - 30 * 40 * 4 + (30 + 40) * 4;
    if (encoded_size(name, 1) == 0)
        return nbytes;
    for (int b = 0; b < symmcoll_reducer_bucket_count(reducer); b++) {
        struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;

        if (symmcoll_reducer_bucket(reducer, b, &bucket) == SYMMCOLL_OK)
            sum += encoded_size(name, bucket.count);
    }
    return sum;
}

/* Runs three passes, and checks the statistics of the last one. */
static int sends(struct symmcoll_group *group, int rank, const char *name)
{
    struct run run = make_run(name);
    struct steps steps = {.run = run, .size = symmcoll_group_size(group)};
    struct symmcoll_reducer_stats stats = SYMMCOLL_REDUCER_STATS_INIT;
    struct symmcoll_powersgd_args powersgd = SYMMCOLL_POWERSGD_ARGS_INIT;
    struct symmcoll_hook *hook = NULL;
    struct symmcoll_reducer *reducer = NULL;
    size_t expected = 0;
    int right;

    powersgd.start = 2;
    if (strcmp(name, "powersgd") == 0)
        run.args.powersgd = &powersgd;
    if (strcmp(name, "step") == 0) {
        run.args.step = note_step;
        run.args.step_arg = &steps;
    }
    right = symmcoll_hook_create(group, &run.args, &hook) == SYMMCOLL_OK &&
            (reducer = make_reducer(group, &run.reducer, hook)) != NULL;
    for (int step = 0; right && step < 3; step++)
        right = run_pass(reducer, &run, rank, step);
    right = right && symmcoll_reducer_get_stats(reducer, &stats) == SYMMCOLL_OK;
    if (right)
        expected = sent_size(reducer, name, stats.nbytes);
    if (stats.sent_nbytes != expected)
        diag("%s: expected %zu, found %zu of %zu bytes", name, expected,
            stats.sent_nbytes, stats.nbytes);
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    return right && stats.sent_nbytes == expected;
}

static int bytes_are_counted(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; right && symmcoll_hook_name(i) != NULL; i++)
        right = sends(group, rank, symmcoll_hook_name(i));
    return right;
}

/* ---- points: training ---- */

/* A rank's training of parameters towards the mean of all ranks' targets. */
struct training {
    float values[PARAMS][MOST];
    double rate;
    bool steps; /* the hook takes the steps */
};

static float target(int rank, int param, int i)
{
    return usual(rank, param, i, 63);
}

static symmcoll_status_t take_step(
    void *arg, int param, const struct symmcoll_tensor *grad)
{
    struct training *training = arg;
    const float *at = grad->data;

    for (int i = 0; i < counts[param]; i++)
        training->values[param][i] -= (float)training->rate * at[i];
    return SYMMCOLL_OK;
}

/* Runs one step. */
static int train_once(
    struct symmcoll_reducer *reducer, struct training *training, int rank)
{
    static _Thread_local float grad[MOST];
    int right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;

    for (int p = PARAMS - 1; right && p >= 0; p--) {
        for (int i = 0; i < counts[p]; i++)
            grad[i] = training->values[p][i] - target(rank, p, i);
        right = symmcoll_reducer_ready(reducer, p, grad) == SYMMCOLL_OK;
    }
    right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
    for (int p = 0; right && !training->steps && p < PARAMS; p++) {
        struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

        right = symmcoll_reducer_grad(reducer, p, &view) == SYMMCOLL_OK &&
                take_step(training, p, &view) == SYMMCOLL_OK;
    }
    symmcoll_reducer_zero(reducer);
    return right;
}

/* Returns the root of the mean square distance from the mean of the targets. */
static double distance(const struct training *training, int size)
{
    double sum = 0.0;
    int n = 0;

    for (int p = 0; p < PARAMS; p++)
        for (int i = 0; i < counts[p]; i++, n++) {
            double mean = 0.0;

            for (int r = 0; r < size; r++)
                mean += (double)target(r, p, i) / size;
            sum += pow((double)training->values[p][i] - mean, 2.0);
        }
    return sqrt(sum / n);
}

/* Runs 200 steps with a hook, within a wrapper unless that is NULL.  Without error the
 * parameters would be at the mean; what the last errors move them by is allowed. */
static int trains(struct symmcoll_group *group, int rank, const char *name,
    const char *wrapper)
{
    struct training *training = calloc(1, sizeof(*training));
    struct symmcoll_hook_args args = make_run(name).args,
                              outer = make_run(wrapper).args;
    struct symmcoll_hook_wrapped inner = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct symmcoll_powersgd_args powersgd = SYMMCOLL_POWERSGD_ARGS_INIT;
    struct run run = make_run(name);
    struct symmcoll_hook *hook = NULL, *other = NULL;
    struct symmcoll_reducer *reducer = NULL;
    int right = training != NULL;

    powersgd.start = 2;
    powersgd.rank = 4;
    if (strcmp(name, "powersgd") == 0)
        args.powersgd = &powersgd;
    if (strcmp(name, "top_k") == 0)
        args.ratio = 0.25;
    if (right && strcmp(name, "step") == 0) {
        args.step = take_step;
        args.step_arg = training;
        training->steps = true;
    }
    right = right && symmcoll_hook_create(group, &args, &hook) == SYMMCOLL_OK;
    inner.hook = symmcoll_hook_run;
    inner.hook_end = symmcoll_hook_end;
    inner.arg = hook;
    outer.inner = &inner;
    if (wrapper != NULL)
        right =
            right && symmcoll_hook_create(group, &outer, &other) == SYMMCOLL_OK;
    if (right)
        reducer =
            make_reducer(group, &run.reducer, wrapper != NULL ? other : hook);
    right = right && reducer != NULL;
    for (int step = 0; right && step < 200; step++) {
        training->rate = 0.2 / (1.0 + step / 10.0);
        right = train_once(reducer, training, rank);
    }
    right = right &&
            same_on_all(group, training->values, sizeof(training->values)) &&
            distance(training, symmcoll_group_size(group)) < 0.05;
    if (!right)
        diag("%s in %s: distance %g, %s", name,
            wrapper != NULL ? wrapper : "none",
            training != NULL ? distance(training, symmcoll_group_size(group))
                             : 0.0,
            symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(other);
    symmcoll_hook_free(hook);
    free(training);
    return right;
}

/* Returns whether a hook's parameters are the same on all ranks. */
static bool agrees(const char *name)
{
    return name != NULL && strcmp(name, "noop") != 0;
}

static int each_hook_trains(struct symmcoll_group *group, int rank)
{
    int right = 1;

    for (int i = 0; right && symmcoll_hook_name(i) != NULL; i++)
        right = !agrees(symmcoll_hook_name(i)) ||
                trains(group, rank, symmcoll_hook_name(i), NULL);
    return right;
}

static int each_hook_trains_wrapped(struct symmcoll_group *group, int rank)
{
    static const char *const wrappers[] = {"fp16_wrapper", "bf16_wrapper"};
    int right = 1;

    for (int i = 0; right && symmcoll_hook_name(i) != NULL; i++) {
        const char *name = symmcoll_hook_name(i);

        /* A bucket is packed once. */
        if (agrees(name) && strstr(name, "wrapper") == NULL &&
            strstr(name, "compress") == NULL)
            right = trains(group, rank, name, wrappers[i % 2]);
    }
    return right && trains(group, rank, "fp16_compress", "fp16_wrapper");
}

/* ---- points: what is refused ---- */

static int is_refused(struct symmcoll_group *group,
    const struct symmcoll_hook_args *args, symmcoll_status_t expected,
    const char *text)
{
    struct symmcoll_hook *hook = NULL;
    symmcoll_status_t status = symmcoll_hook_create(group, args, &hook);

    symmcoll_hook_free(hook);
    if (status != expected)
        diag("expected %d, found %d (%s)", expected, status, text);
    return status == expected && hook == NULL && model_error_says(text);
}

static int bad_options(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_args top = make_run("top_k").args;
    struct symmcoll_hook_args noop = make_run("noop").args;
    struct symmcoll_hook_args args;
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;

    (void)rank;
    args = make_run("topk").args;
    if (!is_refused(group, &args, SYMMCOLL_ERR_INVALID,
            "expected a name of noop, all_reduce, fp16_compress, "
            "bf16_compress, fp16_wrapper, bf16_wrapper, step, post_local_sgd, "
            "quantize_tensor, quantize_channel, top_k, one_bit, powersgd, "
            "found \"topk\""))
        return 0;
    args.name = NULL;
    if (!is_refused(group, &args, SYMMCOLL_ERR_INVALID, "found NULL"))
        return 0;
    noop.start = 1;
    if (!is_refused(group, &noop, SYMMCOLL_ERR_INVALID,
            "expected no start for noop, found one"))
        return 0;
    top.start = -1;
    if (!is_refused(group, &top, SYMMCOLL_ERR_INVALID,
            "expected a start of at least 0, found -1"))
        return 0;
    top.start = 0;
    top.ratio = 1.5;
    if (!is_refused(group, &top, SYMMCOLL_ERR_INVALID,
            "expected a ratio above 0 and up to 1, found 1.5"))
        return 0;
    args = make_run("step").args;
    if (!is_refused(group, &args, SYMMCOLL_ERR_INVALID,
            "expected a function step for step, found NULL"))
        return 0;
    args = make_run("bf16_wrapper").args;
    args.inner = &wrapped;
    return is_refused(group, &args, SYMMCOLL_ERR_INVALID,
               "expected a struct symmcoll_hook_wrapped with a hook") &&
           symmcoll_hook_name(-1) == NULL && symmcoll_hook_name(13) == NULL;
}

static int other_options(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_args args = make_run("top_k").args;

    args.ratio = rank == 2 ? 0.5 : 0.25;
    if (!is_refused(group, &args, SYMMCOLL_ERR_MISMATCH,
            "ratio differs: rank 0 has 0.25, rank 2 has 0.5"))
        return 0;
    args.ratio = 0;
    args.name = rank == 1 ? "one_bit" : "top_k";
    if (!is_refused(group, &args, SYMMCOLL_ERR_MISMATCH,
            "number of the hook in symmcoll_hook_name() differs: rank 0 has"))
        return 0;
    args.ratio = 0.25;
    return is_refused(group, &args, SYMMCOLL_ERR_INVALID,
        rank == 1 ? "expected no ratio for one_bit, found one"
                  : "found one on rank 1");
}

/* Runs a pass that is refused, of one parameter. */
static int pass_is_refused(struct symmcoll_group *group,
    const struct symmcoll_reducer_args *args, enum symmcoll_dtype dtype,
    symmcoll_status_t expected, const char *text)
{
    static _Thread_local double values[64], grads[64];
    struct symmcoll_tensor param = model_matrix(values, dtype, 8, 8);
    struct symmcoll_reducer *reducer = NULL;
    int right = symmcoll_reducer_create(group, &param, 1, args, &reducer) ==
                    SYMMCOLL_OK &&
                symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                symmcoll_reducer_ready(reducer, 0, grads) == expected &&
                model_error_says(text);

    symmcoll_reducer_free(reducer);
    return right;
}

static int bad_reducers(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_args args = make_run("quantize_tensor").args;
    struct symmcoll_reducer_args reducer = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_hook *hook = NULL;
    int right;

    (void)rank;
    reducer.hook = symmcoll_hook_run;
    right = symmcoll_hook_create(group, &args, &hook) == SYMMCOLL_OK;
    reducer.hook_arg = hook;
    right =
        right &&
        pass_is_refused(group, &reducer, SYMMCOLL_FLOAT32, SYMMCOLL_ERR_INVALID,
            "expected a reducer with hook_end symmcoll_hook_end for "
            "quantize_tensor, found none");
    reducer.hook_end = symmcoll_hook_end;
    right = right && pass_is_refused(group, &reducer, SYMMCOLL_FLOAT64,
                         SYMMCOLL_ERR_UNSUPPORTED,
                         "quantize_tensor: expected gradients of float32, "
                         "float16 or bfloat16, found float64");
    reducer.hook_arg = NULL;
    right = right && pass_is_refused(group, &reducer, SYMMCOLL_FLOAT32,
                         SYMMCOLL_ERR_INVALID,
                         "expected a hook of symmcoll_hook_create()");
    symmcoll_hook_free(hook);
    symmcoll_hook_free(NULL);
    return right;
}

/* Loads bytes that were cut at each length, and some of other hooks. */
static int bad_bytes(struct symmcoll_group *group, int rank)
{
    struct run run = make_largest();
    struct symmcoll_hook_args other_args = make_signs().args;
    struct symmcoll_hook *hook = NULL, *other = NULL;
    struct symmcoll_reducer *reducer = NULL;
    void *data = NULL;
    size_t nbytes = 0;
    int right =
        symmcoll_hook_create(group, &run.args, &hook) == SYMMCOLL_OK &&
        symmcoll_hook_create(group, &other_args, &other) == SYMMCOLL_OK &&
        (reducer = make_reducer(group, &run.reducer, hook)) != NULL;

    for (int step = 0; right && step < 3; step++)
        right = run_pass(reducer, &run, rank, step);
    right = right && symmcoll_hook_save(hook, &data, &nbytes) == SYMMCOLL_OK;
    for (size_t n = 0; right && n < nbytes; n += nbytes / 50)
        right =
            symmcoll_hook_load(hook, group, data, n) == SYMMCOLL_ERR_INVALID;
    right = right &&
            symmcoll_hook_load(other, group, data, nbytes) ==
                SYMMCOLL_ERR_INVALID &&
            model_error_says("of a hook one_bit, found those of top_k") &&
            symmcoll_hook_load(hook, group, NULL, 0) == SYMMCOLL_ERR_INVALID &&
            symmcoll_hook_load(hook, group, data, nbytes) == SYMMCOLL_OK &&
            symmcoll_hook_save(NULL, &data, &nbytes) == SYMMCOLL_ERR_INVALID;
    free(data);
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    symmcoll_hook_free(other);
    return right;
}

/* Rank 1 loads a hook of fewer passes. */
static int other_passes(struct symmcoll_group *group, int rank)
{
    struct run run = make_largest();
    struct symmcoll_hook *hook = NULL;
    struct symmcoll_reducer *reducer = NULL;
    void *data = NULL, *older = NULL;
    size_t nbytes = 0, nolder = 0;
    int right = symmcoll_hook_create(group, &run.args, &hook) == SYMMCOLL_OK &&
                symmcoll_hook_save(hook, &older, &nolder) == SYMMCOLL_OK &&
                (reducer = make_reducer(group, &run.reducer, hook)) != NULL &&
                run_pass(reducer, &run, rank, 0) &&
                symmcoll_hook_save(hook, &data, &nbytes) == SYMMCOLL_OK;

    right = right &&
            symmcoll_hook_load(hook, group, rank == 1 ? older : data,
                rank == 1 ? nolder : nbytes) == SYMMCOLL_ERR_MISMATCH &&
            model_error_says(
                "number of passes differs: rank 0 has 1, rank 1 has 0");
    free(data);
    free(older);
    symmcoll_reducer_free(reducer);
    symmcoll_hook_free(hook);
    return right;
}

/* Uses a hook for two reducers, and loads it within a pass: both are refused.
 * Between passes another reducer may have the hook, and it may be loaded. */
static int serves_one_reducer(struct symmcoll_group *group, const char *name)
{
    struct symmcoll_hook_args args = make_run(name).args;
    struct symmcoll_reducer_args options = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *first = NULL, *second = NULL;
    struct symmcoll_hook *hook = NULL;
    float values[64] = {0}, grads[64] = {1};
    struct symmcoll_tensor param = model_matrix(values, SYMMCOLL_FLOAT32, 8, 8);
    void *data = NULL;
    size_t nbytes = 0;
    int right;

    right = symmcoll_hook_create(group, &args, &hook) == SYMMCOLL_OK &&
            symmcoll_hook_save(hook, &data, &nbytes) == SYMMCOLL_OK;
    options.hook = symmcoll_hook_run;
    options.hook_end = symmcoll_hook_end;
    options.hook_arg = hook;
    right =
        right &&
        symmcoll_reducer_create(group, &param, 1, &options, &first) ==
            SYMMCOLL_OK &&
        symmcoll_reducer_create(group, &param, 1, &options, &second) ==
            SYMMCOLL_OK &&
        symmcoll_reducer_begin(first, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(first, 0, grads) == SYMMCOLL_OK &&
        symmcoll_reducer_begin(second, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(second, 0, grads) == SYMMCOLL_ERR_INVALID &&
        model_error_says(
            "in a pass of one reducer, found it called by a second") &&
        symmcoll_hook_load(hook, group, data, nbytes) == SYMMCOLL_ERR_INVALID &&
        model_error_says("expected a hook that is in no pass") &&
        symmcoll_reducer_finish(first) == SYMMCOLL_OK;
    symmcoll_reducer_free(first);
    symmcoll_reducer_free(second);
    second = NULL;
    right = right &&
            symmcoll_reducer_create(group, &param, 1, &options, &second) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(second, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready(second, 0, grads) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(second) == SYMMCOLL_OK &&
            symmcoll_hook_load(hook, group, data, nbytes) == SYMMCOLL_OK;
    symmcoll_reducer_free(second);
    symmcoll_hook_free(hook);
    free(data);
    return right;
}

static int one_reducer_at_a_time(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return serves_one_reducer(group, "top_k") &&
           serves_one_reducer(group, "quantize_channel") &&
           serves_one_reducer(group, "powersgd");
}

static const struct model_point points[] = {
    {levels_of_buckets, 3,
        "D71: 8-bit averages are within a step of each rank"},
    {levels_of_buckets, 2, "D71: so are they with two ranks"},
    {levels_of_channels, 4, "D72: so are they with a scale for each channel"},
    {levels_are_exact, 2, "D71: gradients that are levels have exact averages"},
    {signs, 3, "D74: averages of signs follow the transcription"},
    {signs, 4, "D74: so do those of four ranks"},
    {largest, 2,
        "D74: averages of the largest elements follow the transcription"},
    {largest, 3, "D74: so do those of three ranks"},
    {all_are_largest, 2, "D74: nothing is lost if all elements are sent"},
    {loaded_hooks_go_on, 3, "U15: a saved hook continues with its errors"},
    {infinity_is_seen_once, 2,
        "an infinite gradient is seen, and the next pass is finite"},
    {local_averages, 4,
        "D70: post-local SGD averages over the subgroup after its start"},
    {nothing_is_averaged, 2, "D74: the hook noop leaves gradients alone"},
    {steps_have_averages, 3, "D73: a step has each parameter's average"},
    {failed_step_is_one_ranks, 2,
        "D73: a step that fails is the error of its rank, and no rank waits"},
    {each_hook_trains, 2,
        "D64: parameters have the same bits after 200 steps of each hook"},
    {each_hook_trains, 3, "D64: so have they on three ranks"},
    {each_hook_trains_wrapped, 2, "D67: so have they within a wrapper"},
    {bytes_are_counted, 2, "D89: the bytes that each hook sends are counted"},
    {bad_options, 2, "bad options are refused with their values"},
    {other_options, 3, "options that differ name the ranks and both values"},
    {bad_reducers, 2, "reducers that a hook cannot serve are refused"},
    {bad_bytes, 2, "bytes that are no saved hook are refused"},
    {other_passes, 2, "hooks of different passes are not loaded"},
    {one_reducer_at_a_time, 2,
        "a hook is in a pass of one reducer, and is loaded in none"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
