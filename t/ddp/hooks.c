/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests communication hooks of the gradient reducer. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hooks ---- */

struct seen {
    int calls;
    int in_order;
};

/* Writes 2 to every gradient, and communicates nothing. */
static symmcoll_status_t put_two(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct seen *seen = arg;

    (void)group;
    for (size_t i = 0; i < bucket->count; i++)
        ((float *)bucket->buffer)[i] = 2.0f;
    if (bucket->index == 0)
        seen->calls = 0;
    seen->in_order = seen->in_order && bucket->index == seen->calls;
    seen->calls++;
    *work = NULL;
    return SYMMCOLL_OK;
}

static int what_a_hook_leaves_is_the_gradient(
    struct symmcoll_group *group, int rank)
{
    struct seen seen = {0, 1};
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right;

    model_make(&model, rank);
    args.hook = put_two;
    args.hook_arg = &seen;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        right = symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK;
        /* In an order other than that of the buckets. */
        for (int i = 0; right && i < MODEL_PARAMS; i++) {
            int p = (i * 3 + step) % MODEL_PARAMS;

            right = symmcoll_reducer_ready(reducer, p, model.grads[p]) ==
                    SYMMCOLL_OK;
        }
        right = right && symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
                seen.calls == symmcoll_reducer_bucket_count(reducer) &&
                seen.in_order && model_view_is(reducer, 0, 31, 2.0f) &&
                model_view_is(reducer, 3, 0, 2.0f);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

static int the_all_reduce_hook_averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct model model;

    model_make(&model, rank);
    args.hook = symmcoll_hook_all_reduce;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        model_fill(&model, rank, size, step);
        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
                model_views_hold(reducer, &model, size, step, step);
        symmcoll_reducer_zero(reducer);
    }
    symmcoll_reducer_free(reducer);
    return right;
}

/* Sums, multiplies by 10 and then divides by 2. */
static symmcoll_status_t sum_then_scale(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    float *x = bucket->buffer;
    symmcoll_status_t status = symmcoll_all_reduce(
        group, x, x, bucket->count, bucket->dtype, SYMMCOLL_SUM, NULL, NULL);

    (void)arg;
    for (size_t i = 0; i < bucket->count; i++)
        x[i] *= 10;
    for (size_t i = 0; i < bucket->count; i++)
        x[i] /= 2;
    *work = NULL;
    return status;
}

static int a_hook_may_change_its_sum(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int size = symmcoll_group_size(group), right;
    struct model model;

    model_make(&model, rank);
    args.hook = sum_then_scale;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    model_fill(&model, rank, size, 0);
    right = right && model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int i = 0; right && i < (int)model_count(&model.params[p]); i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += (float)size * model_term(r, p, i, 0);
            right = model_view_is(reducer, p, i, 5 * sum);
        }
    symmcoll_reducer_free(reducer);
    return right;
}

static symmcoll_status_t ask_for_the_impossible(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)arg;
    return symmcoll_all_reduce(group, bucket->buffer, NULL, bucket->count,
        bucket->dtype, SYMMCOLL_SUM, NULL, work);
}

/* Sums a bucket; once *arg is set ranks pass different arguments in each
 * sum. */
static symmcoll_status_t differ_when_told(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    const int *differs = arg;
    size_t less = *differs && symmcoll_group_rank(group) == 0;

    return symmcoll_all_reduce(group, bucket->buffer, bucket->buffer,
        bucket->count - less, bucket->dtype, SYMMCOLL_SUM, NULL, work);
}

static int the_first_of_failed_buckets_is_named(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    int differs = 0, buckets = 0, right;
    struct model model;
    char first[40];

    model_make(&model, rank);
    args.hook = differ_when_told;
    args.hook_arg = &differs;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK;
    for (int step = 0; right && step < 3; step++) {
        model_fill(&model, rank, symmcoll_group_size(group), step);
        right = model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
        buckets = symmcoll_reducer_bucket_count(reducer);
    }
    differs = 1;
    snprintf(first, sizeof(first), "reducer: bucket 0 of %d: ", buckets);
    right = right && buckets > 1 &&
            model_run_backward(reducer, &model, 1) == SYMMCOLL_ERR_MISMATCH &&
            model_error_says(first) && model_error_says("count differs");
    symmcoll_reducer_free(reducer);
    return right;
}

static int a_failing_hook_ends_the_backward(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right;

    model_make(&model, rank);
    args.hook = ask_for_the_impossible;
    right = symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            model_run_backward(reducer, &model, 1) == SYMMCOLL_ERR_INVALID &&
            model_error_says("reducer: bucket 0 of 1: ") &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_ERR_INVALID &&
            symmcoll_reducer_begin(reducer, 0) == SYMMCOLL_OK;
    symmcoll_reducer_free(reducer);
    return right;
}

/* Returns an error of its own. */
static symmcoll_status_t fail_by_itself(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)group, (void)bucket, (void)arg, (void)work;
    return SYMMCOLL_ERR_UNSUPPORTED;
}

static int the_error_of_a_hook_is_its_own(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_error_info info = SYMMCOLL_ERROR_INFO_INIT;
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right;

    model_make(&model, rank);
    args.hook = fail_by_itself;
    right =
        symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
            &reducer) == SYMMCOLL_OK &&
        symmcoll_broadcast(group, &model, sizeof(model), SYMMCOLL_UINT8, -1,
            NULL, NULL) == SYMMCOLL_ERR_INVALID &&
        model_run_backward(reducer, &model, 1) == SYMMCOLL_ERR_UNSUPPORTED &&
        model_error_says("bucket 0 of 1: the program's hook returned "
                         "UNSUPPORTED") &&
        symmcoll_error_info(&info) == SYMMCOLL_OK &&
        info.status == SYMMCOLL_ERR_UNSUPPORTED && info.kind == 0;
    symmcoll_reducer_free(reducer);
    return right;
}

/* ---- recorded labels ---- */

#define MOST 32

/* Labels of reductions, in the order in which they ended. The callback thread
 * writes them, and the thread that released the group reads them. */
struct labels {
    int count;
    char texts[MOST][32];
};

static void note_label(const struct symmcoll_operation *operation, void *arg)
{
    struct labels *labels = arg;

    if (strcmp(operation->name, "all_reduce") == 0 &&
        strncmp(operation->label, "bucket ", 7) == 0 && labels->count < MOST)
        strcpy(labels->texts[labels->count++], operation->label);
}

/* Runs two backwards, with one bucket and with several. */
static int labels_with(
    struct symmcoll_group *all, int rank, symmcoll_bucket_fn hook)
{
    struct symmcoll_group_args options = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_reducer_args args = model_args(64);
    struct symmcoll_reducer *reducer = NULL;
    struct symmcoll_group *group = NULL;
    struct labels labels = {.count = 0};
    struct model model;
    int ranks[2] = {0, 1}, count = 0, right;

    model_make(&model, rank);
    model_fill(&model, rank, 2, 0);
    options.ranks = ranks;
    options.nranks = 2;
    args.hook = hook;
    right = symmcoll_group_create(
                symmcoll_group_world(all), &options, &group) == SYMMCOLL_OK &&
            symmcoll_group_notify(group, note_label, &labels) == SYMMCOLL_OK &&
            symmcoll_reducer_create(group, model.params, MODEL_PARAMS, &args,
                &reducer) == SYMMCOLL_OK &&
            model_run_backward(reducer, &model, 1) == SYMMCOLL_OK &&
            model_run_backward(reducer, &model, 1) == SYMMCOLL_OK;
    if (right)
        count = symmcoll_reducer_bucket_count(reducer);
    symmcoll_reducer_free(reducer);
    right = symmcoll_group_free(group) == SYMMCOLL_OK && right && count > 1 &&
            labels.count == 1 + count;
    for (int i = 0; right && i < labels.count; i++) {
        char expected[32];

        snprintf(expected, sizeof(expected), "bucket %d", i > 0 ? i - 1 : 0);
        right = strcmp(labels.texts[i], expected) == 0;
    }
    if (!right)
        diag("%d labels of %d buckets", labels.count, count);
    return right;
}

static int buckets_have_labels(struct symmcoll_group *group, int rank)
{
    return labels_with(group, rank, NULL) &&
           labels_with(group, rank, symmcoll_hook_all_reduce) &&
           labels_with(group, rank, symmcoll_hook_bf16_compress);
}

static const struct model_point points[] = {
    {what_a_hook_leaves_is_the_gradient, 2,
        "what a hook leaves in a bucket is the gradient"},
    {the_all_reduce_hook_averages, 4, "the all_reduce hook averages"},
    {a_hook_may_change_its_sum, 2,
        "a hook may change the sum before it is the gradient"},
    {the_first_of_failed_buckets_is_named, 2,
        "of several buckets that have failed the first is named"},
    {the_error_of_a_hook_is_its_own, 2,
        "an error that a hook returns has nothing of an earlier one"},
    {a_failing_hook_ends_the_backward, 2,
        "a hook's failure is the backward's, and another may begin"},
    {buckets_have_labels, 2, "each bucket's operation has its own label"},
};

int main(void)
{
    return model_run_points(points, sizeof(points) / sizeof(points[0]));
}
