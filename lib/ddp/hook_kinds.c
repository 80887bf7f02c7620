/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of built-in hooks, and the two functions by which a reducer calls any
 * of them.
 */
#include "ddp/hook_state.h"

/* ---- hooks without communication, or over a part of the ranks ---- */

static symmcoll_status_t run_noop(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)group;
    (void)bucket;
    (void)arg;
    *work = NULL;
    return SYMMCOLL_OK;
}

/* Averages over the subgroup, after the passes that average over all ranks. */
static symmcoll_status_t run_local(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    const struct symmcoll_hook *hook = arg;

    if (hook->args.no_local_average)
        return run_noop(group, bucket, arg, work);
    return symmcoll_hook_all_reduce(
        hook->args.subgroup != NULL ? hook->args.subgroup : group, bucket, NULL,
        work);
}

/* ---- hooks around another one ---- */

static symmcoll_status_t run_fp16_wrapper(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;

    return symmcoll_hook_fp16_wrapper(group, bucket, &hook->inner, work);
}

static symmcoll_status_t run_bf16_wrapper(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;

    return symmcoll_hook_bf16_wrapper(group, bucket, &hook->inner, work);
}

static symmcoll_status_t end_inner(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    const struct symmcoll_hook *hook = arg;

    return hook->inner.hook_end != NULL
               ? hook->inner.hook_end(group, bucket, hook->inner.arg, work)
               : SYMMCOLL_OK;
}

static symmcoll_status_t run_step(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;

    if (bucket->index == 0) {
        hook->nended = 0;
        hook->failure.status = SYMMCOLL_OK;
    }
    return hook->inner.hook(group, bucket, hook->inner.arg, work);
}

/* Passes an average to the program's step, unless it is not one: no rank has a
 * gradient, or only others have inputs. */
static symmcoll_status_t step_param(
    struct symmcoll_hook *hook, const struct symmcoll_bucket *bucket, int i)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = bucket->reducer;
    int number = bucket->params[i];
    uint64_t errors = symc_error_count();
    symmcoll_status_t status = symmcoll_bucket_grad(bucket, i, &grad);

    if (status != SYMMCOLL_OK || reducer->shadows ||
        symc_used_nowhere(reducer, symc_number_param(reducer, number)))
        return status;
    status = hook->args.step(hook->args.step_arg, number, &grad);
    return symc_hook_status(status, errors, "step");
}

/* Calls step for each gradient.  An error is returned for the last bucket: this rank
 * runs the same operations as the others. */
static symmcoll_status_t end_step(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;
    symmcoll_status_t status = end_inner(group, bucket, arg, work);

    if (status != SYMMCOLL_OK || *work != NULL)
        return status;
    for (int i = 0; i < bucket->ngrads; i++) {
        if (hook->failure.status == SYMMCOLL_OK)
            status = step_param(hook, bucket, i);
        if (status != SYMMCOLL_OK && hook->failure.status == SYMMCOLL_OK)
            symc_error_keep(&hook->failure, status);
    }
    hook->nended++;
    return hook->nended < bucket->reducer->layout.nbuckets
               ? SYMMCOLL_OK
               : symc_error_return(&hook->failure);
}

/* ---- PowerSGD ---- */

static symmcoll_status_t run_powersgd(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;

    return symmcoll_hook_powersgd(group, bucket, hook->powersgd, work);
}

static symmcoll_status_t end_powersgd(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;

    return symmcoll_hook_powersgd_end(group, bucket, hook->powersgd, work);
}

/* ---- the table ---- */

#define TAKES(option) (1U << SYMC_HOOK_##option)

const struct symc_hook_kind symc_hook_kinds[] = {
    {.name = "noop", .run = run_noop},
    {.name = "all_reduce", .run = symmcoll_hook_all_reduce},
    {.name = "fp16_compress",
        .packs = true,
        .run = symmcoll_hook_fp16_compress},
    {.name = "bf16_compress",
        .packs = true,
        .run = symmcoll_hook_bf16_compress},
    {.name = "fp16_wrapper",
        .options = TAKES(INNER),
        .packs = true,
        .run = run_fp16_wrapper,
        .end = end_inner},
    {.name = "bf16_wrapper",
        .options = TAKES(INNER),
        .packs = true,
        .run = run_bf16_wrapper,
        .end = end_inner},
    {.name = "step",
        .options = TAKES(INNER) | TAKES(STEP),
        .run = run_step,
        .end = end_step},
    {.name = "post_local_sgd",
        .options = TAKES(START) | TAKES(SUBGROUP) | TAKES(NO_LOCAL_AVERAGE),
        .start = 1000,
        .run = run_local},
    {.name = "quantize_tensor",
        .run = symc_encoded_run,
        .end = symc_encoded_end,
        .codec = &symc_codec_quantize_tensor},
    {.name = "quantize_channel",
        .run = symc_encoded_run,
        .end = symc_encoded_end,
        .codec = &symc_codec_quantize_channel},
    {.name = "top_k",
        .options = TAKES(START) | TAKES(RATIO),
        .start = 1,
        .run = symc_encoded_run,
        .end = symc_encoded_end,
        .codec = &symc_codec_top_k},
    {.name = "one_bit",
        .options = TAKES(START),
        .start = 1,
        .run = symc_encoded_run,
        .end = symc_encoded_end,
        .codec = &symc_codec_one_bit},
    {.name = "powersgd",
        .options = TAKES(POWERSGD),
        .run = run_powersgd,
        .end = end_powersgd},
    {.name = NULL},
};

const char *symmcoll_hook_name(int i)
{
    int n = (int)(sizeof(symc_hook_kinds) / sizeof(*symc_hook_kinds)) - 1;

    return i >= 0 && i < n ? symc_hook_kinds[i].name : NULL;
}

bool symc_hook_packs(symmcoll_bucket_fn hook, const void *arg)
{
    const struct symmcoll_hook *state = arg;

    if (hook == symmcoll_hook_run)
        return state != NULL &&
               (state->kind->packs ||
                   symc_hook_packs(state->inner.hook, state->inner.arg));
    return hook == symmcoll_hook_fp16_compress ||
           hook == symmcoll_hook_bf16_compress ||
           hook == symmcoll_hook_fp16_wrapper ||
           hook == symmcoll_hook_bf16_wrapper;
}

/* ---- calls of a reducer ---- */

/* Reads the arguments of a call: the bucket (out) of a reducer, and the hook. */
static symmcoll_status_t read_call(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_bucket *given,
    const struct symmcoll_hook *hook, struct symmcoll_work *const *work,
    struct symmcoll_bucket *bucket)
{
    symmcoll_status_t status =
        symc_hook_read_call(where, group, given, work, bucket);

    if (status != SYMMCOLL_OK)
        return status;
    if (hook == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a hook of symmcoll_hook_create() as argument, found "
            "NULL",
            where);
    if (hook->kind->end != NULL && bucket->reducer->hook_end == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a reducer with hook_end symmcoll_hook_end for %s, "
            "found none",
            where, hook->kind->name);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_hook_run(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;
    struct symmcoll_bucket bucket;
    symmcoll_status_t status =
        read_call("hook_run", group, given, hook, work, &bucket);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_hook_enter("hook_run", &hook->pass, bucket.reducer);
    if (status != SYMMCOLL_OK)
        return status;
    /* All buckets of a pass have the same number, whichever of them fails. */
    if (bucket.index == 0)
        hook->passes++;
    if (hook->passes <= (uint64_t)hook->args.start)
        return symmcoll_hook_all_reduce(group, &bucket, NULL, work);
    return hook->kind->run(group, &bucket, hook, work);
}

symmcoll_status_t symmcoll_hook_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;
    struct symmcoll_bucket bucket;
    symmcoll_status_t status =
        read_call("hook_end", group, given, hook, work, &bucket);

    if (status != SYMMCOLL_OK || hook->kind->end == NULL)
        return status;
    return hook->kind->end(group, &bucket, hook, work);
}
