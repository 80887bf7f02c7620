/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks that encode gradients in fewer bytes.  The hook starts an all_gather of each
 * rank's encoded gradients, and its end decodes and averages them.  So no call waits,
 * and all ranks have the same bits: they decode the same bytes in the same order.
 */
#include "ddp/element.h"
#include "ddp/hook_state.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- the state of a bucket ---- */

void symc_encoded_free(struct symc_encoded *encoded)
{
    free(encoded->params);
    free(encoded->errors);
    free(encoded->sums);
    free(encoded->encoded);
    *encoded = (struct symc_encoded){0};
}

symmcoll_status_t symc_encoded_alloc(
    struct symc_encoded *encoded, bool feedback)
{
    size_t count = encoded->coding.count + 1;

    encoded->params = symc_alloc(encoded->ngrads + 1, sizeof(int));
    encoded->sums = symc_alloc(count, sizeof(float));
    encoded->errors = feedback ? symc_alloc(count, sizeof(float)) : NULL;
    return encoded->params != NULL && encoded->sums != NULL &&
                   (encoded->errors != NULL || !feedback)
               ? SYMMCOLL_OK
               : SYMMCOLL_ERR_NO_MEMORY;
}

struct symc_encoded *symc_hook_bucket(struct symmcoll_hook *hook, int index)
{
    struct symc_encoded *buckets =
        symc_hook_grow(hook->buckets, &hook->nbuckets, sizeof(*buckets), index);

    if (buckets == NULL)
        return NULL;
    hook->buckets = buckets;
    return &buckets[index];
}

/* Returns whether the state is that of a bucket's gradients. */
static bool is_same(
    const struct symc_encoded *encoded, const struct symmcoll_bucket *bucket)
{
    return encoded->sums != NULL && encoded->coding.count == bucket->count &&
           encoded->ngrads == (uint64_t)bucket->ngrads &&
           memcmp(encoded->params, bucket->params,
               encoded->ngrads * sizeof(int)) == 0;
}

/* Makes the state anew for other gradients. */
static symmcoll_status_t renew(const struct symmcoll_bucket *bucket,
    bool feedback, struct symc_encoded *encoded)
{
    symc_encoded_free(encoded);
    encoded->ngrads = (uint64_t)bucket->ngrads;
    encoded->coding.count = bucket->count;
    if (symc_encoded_alloc(encoded, feedback) != SYMMCOLL_OK) {
        symc_encoded_free(encoded);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    memcpy(encoded->params, bucket->params, encoded->ngrads * sizeof(int));
    return SYMMCOLL_OK;
}

/* Makes the state that of a bucket, without errors if the gradients are not those of
 * the pass before, as after the buckets were rebuilt. */
static symmcoll_status_t update_gradients(const struct symmcoll_hook *hook,
    const struct symmcoll_bucket *bucket, struct symc_encoded *encoded)
{
    const struct symc_codec *codec = hook->kind->codec;
    struct symc_coding *coding = &encoded->coding;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!is_same(encoded, bucket))
        status = renew(bucket, codec->feedback, encoded);
    coding->channel = codec->channel > 0 ? codec->channel : bucket->count + 1;
    coding->kept = (uint64_t)ceil(hook->args.ratio * (double)bucket->count);
    return status;
}

/* Allocates memory for the encoded gradients of all ranks. */
static symmcoll_status_t update_ranks(
    const struct symmcoll_hook *hook, struct symc_encoded *encoded, int nranks)
{
    if (encoded->nranks == nranks)
        return SYMMCOLL_OK;
    free(encoded->encoded);
    encoded->nranks = 0;
    encoded->nbytes = (hook->kind->codec->nbytes(&encoded->coding) + 7) / 8 * 8;
    encoded->encoded = symc_alloc((size_t)nranks, encoded->nbytes + 8);
    if (encoded->encoded == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    encoded->nranks = nranks;
    return SYMMCOLL_OK;
}

/* ---- the hook ---- */

/* Loads the gradients (values), added to what was lost in the pass before.  One that
 * is not finite is NAN, which no limit hides. */
static void load(const struct symc_encoded *encoded,
    const struct symmcoll_bucket *bucket, float *values)
{
    bool adds = encoded->errors != NULL && !encoded->in_flight;

    for (uint64_t i = 0; i < bucket->count; i++) {
        double value =
            (double)symc_element_load(bucket->buffer, i, bucket->dtype);

        if (adds)
            value += (double)encoded->errors[i];
        values[i] =
            isfinite(value) ? (float)symc_element_limit(value, FLT_MAX) : NAN;
    }
}

/* Starts the all_gather of the encoded gradients, of which this rank's are there. */
static symmcoll_status_t start_gather(const struct symc_encoded *encoded,
    struct symmcoll_group *group, const struct symmcoll_bucket *bucket,
    const char *own, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    char label[SYMC_BUCKET_TEXT];

    call.label = symc_bucket_text(bucket->index, label);
    bucket->reducer->sent_nbytes += encoded->nbytes;
    return symmcoll_all_gather(group, encoded->encoded, own, encoded->nbytes,
        SYMMCOLL_UINT8, &call, work);
}

symmcoll_status_t symc_encoded_run(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;
    struct symc_encoded *encoded;
    symmcoll_status_t status = symc_hook_check_floats(hook->kind->name, bucket);
    float *values;
    char *own;

    if (status != SYMMCOLL_OK)
        return status;
    if (bucket->count > UINT32_MAX)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a bucket of at most 4294967295 elements, found %zu",
            hook->kind->name, bucket->count);
    encoded = symc_hook_bucket(hook, bucket->index);
    if (encoded == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = update_gradients(hook, bucket, encoded);
    if (status == SYMMCOLL_OK)
        status = update_ranks(hook, encoded, symmcoll_group_size(group));
    if (status != SYMMCOLL_OK)
        return status;
    values = encoded->errors != NULL ? encoded->errors : encoded->sums;
    own = encoded->encoded +
          encoded->nbytes * (uint64_t)symmcoll_group_rank(group);
    load(encoded, bucket, values);
    encoded->in_flight = true;
    hook->kind->codec->encode(&encoded->coding, values, own);
    return start_gather(encoded, group, bucket, own, work);
}

/* Subtracts what this rank has sent from what it had to send. */
static void keep_errors(const struct symc_codec *codec,
    const struct symc_encoded *encoded, const char *own)
{
    if (encoded->errors == NULL)
        return;
    codec->add(&encoded->coding, own, -1.0, encoded->errors);
    /* After an overflow of the loss the next pass begins without errors. */
    for (uint64_t i = 0; i < encoded->coding.count; i++)
        if (!isfinite(encoded->errors[i]))
            encoded->errors[i] = 0.0f;
}

symmcoll_status_t symc_encoded_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook *hook = arg;
    const struct symc_codec *codec = hook->kind->codec;
    struct symc_encoded *encoded = symc_hook_bucket(hook, bucket->index);
    int size = symmcoll_group_size(group);

    (void)work;
    if (encoded == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    /* The average of a pass before args.start is in the bucket. */
    if (!encoded->in_flight)
        return SYMMCOLL_OK;
    memset(encoded->sums, 0, bucket->count * sizeof(float));
    for (int r = 0; r < size; r++)
        codec->add(&encoded->coding,
            encoded->encoded + (uint64_t)r * encoded->nbytes, 1.0 / size,
            encoded->sums);
    for (uint64_t i = 0; i < bucket->count; i++)
        symc_element_store(bucket->buffer, i, bucket->dtype,
            (float)symc_element_limit(
                (double)encoded->sums[i], symc_element_largest(bucket->dtype)));
    keep_errors(codec, encoded,
        encoded->encoded +
            (uint64_t)symmcoll_group_rank(group) * encoded->nbytes);
    encoded->in_flight = false;
    return SYMMCOLL_OK;
}
