/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates the buckets, places each gradient in them, and describes a bucket
 * to hooks.
 */
#include "ddp/reducer.h"

#include "base/tensor.h"

#include <stdio.h>
#include <stdlib.h>

struct symc_bucket_item *symc_list_items(const struct symmcoll_reducer *reducer)
{
    struct symc_bucket_item *items =
        symc_alloc((size_t)reducer->nparams, sizeof(*items));

    for (int i = 0; items != NULL && i < reducer->nparams; i++)
        items[i] = (struct symc_bucket_item){reducer->params[i].grad_dtype,
            reducer->params[i].tensor.device, reducer->params[i].grad_nbytes};
    return items;
}

/* Counts the elements of a bucket, and its bytes (out). */
static symmcoll_status_t measure_bucket(const struct symmcoll_reducer *reducer,
    struct symc_ddp_bucket *bucket, size_t *nbytes)
{
    size_t elem = symmcoll_dtype_size(bucket->dtype);
    size_t size = (size_t)reducer->size, total = 0;
    bool fits = true;

    for (int i = 0; i < bucket->ngrads; i++)
        fits =
            fits && symc_add(total,
                        reducer->params[bucket->params[i]].grad_nbytes, &total);
    bucket->count = total / elem;
    if (reducer->shard) {
        bucket->part = bucket->count / size + (bucket->count % size != 0);
        fits = fits && symc_multiply(bucket->part, size * elem, &total);
    }
    *nbytes = total;
    return fits ? SYMMCOLL_OK
                : symc_fail(SYMMCOLL_ERR_NO_MEMORY,
                      "reducer: a bucket of %d gradients has no size",
                      bucket->ngrads);
}

/* Makes a bucket, in symmetric memory from *at on, which advances; NULL: in the
 * caller's memory, or in memory of its own. */
static symmcoll_status_t make_bucket(const struct symmcoll_reducer *reducer,
    struct symc_ddp_bucket *bucket, char **at)
{
    size_t nbytes;
    void *own = NULL;
    symmcoll_status_t status = measure_bucket(reducer, bucket, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->memory != NULL) {
        bucket->buffer = reducer->params[bucket->params[0]].home;
    } else if (*at != NULL) {
        bucket->buffer = symc_memory_next(at, nbytes);
    } else {
        /* An empty bucket also has an address of its own. */
        status = symc_site_alloc(
            "reducer: a bucket", reducer->site, nbytes, 1, &own);
        if (status != SYMMCOLL_OK)
            return status;
        bucket->buffer = own;
        status = symc_site_clear(reducer->site, own, nbytes);
    }
    return status == SYMMCOLL_OK && reducer->packs
               ? symc_packed_alloc(reducer, bucket)
               : status;
}

symmcoll_status_t symc_layout_make(const struct symmcoll_reducer *reducer,
    const struct symc_assignment *assignment, bool reversed,
    struct symc_bucket_memory *memory, struct symc_layout *layout)
{
    /* The memory is taken at the end. */
    struct symc_layout made = {
        .memory.at = memory->at, .nbuckets = assignment->nbuckets};
    char *at = memory->at;
    symmcoll_status_t status = SYMMCOLL_OK;

    made.buckets = symc_alloc((size_t)made.nbuckets, sizeof(*made.buckets));
    made.params = symc_alloc((size_t)reducer->nparams, sizeof(*made.params));
    made.numbers = symc_alloc((size_t)reducer->nparams, sizeof(*made.numbers));
    if (made.buckets == NULL || made.params == NULL || made.numbers == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; status == SYMMCOLL_OK && i < reducer->nparams; i++) {
        made.params[i] = assignment->params[i];
        made.numbers[i] = reducer->params[made.params[i]].number;
    }
    for (int b = 0; status == SYMMCOLL_OK && b < made.nbuckets; b++) {
        int from = reversed ? made.nbuckets - 1 - b : b;
        int first = assignment->first[from];
        struct symc_ddp_bucket *bucket = &made.buckets[b];

        bucket->params = made.params + first;
        bucket->numbers = made.numbers + first;
        bucket->ngrads = assignment->first[from + 1] - first;
        bucket->dtype = reducer->params[bucket->params[0]].grad_dtype;
        status = make_bucket(reducer, bucket, &at);
    }
    if (status != SYMMCOLL_OK) {
        symc_layout_free(reducer, &made);
        return status;
    }
    made.memory = *memory;
    *memory = (struct symc_bucket_memory){.at = NULL};
    *layout = made;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_layout_first(const struct symmcoll_reducer *reducer,
    struct symc_bucket_memory *memory, struct symc_layout *layout)
{
    const size_t none = SYMC_BUCKET_NO_LIMIT;
    bool stay = reducer->rebuild == SYMC_REBUILD_DONE;
    struct symc_bucket_item *items = symc_list_items(reducer);
    struct symc_assignment assignment = {0};
    symmcoll_status_t status;

    if (items == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_assign_buckets(items, reducer->nparams, NULL,
        stay ? reducer->limits : &none, stay ? 2 : 1, &assignment);
    if (status == SYMMCOLL_OK)
        status = symc_layout_make(reducer, &assignment, true, memory, layout);
    symc_assignment_free(&assignment);
    free(items);
    return status;
}

void symc_layout_free(
    const struct symmcoll_reducer *reducer, struct symc_layout *layout)
{
    bool own = layout->memory.at == NULL && reducer->memory == NULL;
    bool lost = false; /* memory that an operation may still use */

    for (int b = 0; layout->buckets != NULL && b < layout->nbuckets; b++) {
        lost = lost || layout->buckets[b].buffer == NULL;
        if (own)
            symc_site_release(reducer->site, layout->buckets[b].buffer);
        symc_site_release(reducer->site, layout->buckets[b].packed);
    }
    if (!lost)
        symc_memory_free(&layout->memory);
    free(layout->buckets);
    free(layout->params);
    free(layout->numbers);
    *layout = (struct symc_layout){0};
}

symmcoll_status_t symc_layout_fill(
    const struct symmcoll_reducer *reducer, const struct symc_layout *layout)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (reducer->memory != NULL) /* they are there */
        return SYMMCOLL_OK;
    for (int b = 0; b < layout->nbuckets && status == SYMMCOLL_OK; b++) {
        const struct symc_ddp_bucket *bucket = &layout->buckets[b];
        struct symc_local_pieces views = {
            .buffer = bucket->buffer, .pieces = reducer->pieces};
        size_t offset = 0;

        for (int i = 0; i < bucket->ngrads; i++) {
            const struct symc_param *param =
                &reducer->params[bucket->params[i]];

            if (param->view != NULL)
                reducer->pieces[views.n++] = (struct symc_local_piece){
                    param->view, offset, param->grad_nbytes};
            offset += param->grad_nbytes;
        }
        status = symc_site_move_pieces(reducer->site, &views);
    }
    return status;
}

void symc_layout_adopt(
    struct symmcoll_reducer *reducer, const struct symc_layout *layout)
{
    for (int b = 0; b < layout->nbuckets; b++) {
        const struct symc_ddp_bucket *bucket = &layout->buckets[b];
        char *view = bucket->buffer;

        for (int i = 0; i < bucket->ngrads; i++) {
            struct symc_param *param = &reducer->params[bucket->params[i]];

            param->bucket = b;
            param->view = view;
            view += param->grad_nbytes;
        }
    }
    symc_layout_free(reducer, &reducer->layout);
    reducer->layout = *layout;
}

symmcoll_status_t symc_layout_clear(const struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int b = 0; b < reducer->layout.nbuckets && status == SYMMCOLL_OK;
         b++) {
        const struct symc_ddp_bucket *bucket = &reducer->layout.buckets[b];
        size_t count = reducer->shard && reducer->memory == NULL
                           ? bucket->part * (size_t)reducer->size
                           : bucket->count;

        status = symc_site_clear(reducer->site, bucket->buffer,
            count * symmcoll_dtype_size(bucket->dtype));
    }
    return status;
}

const char *symc_bucket_text(int index, char *buffer)
{
    snprintf(buffer, SYMC_BUCKET_TEXT, "bucket %d", index);
    return buffer;
}

static const struct symmcoll_bucket default_bucket = SYMMCOLL_BUCKET_INIT;
const struct symc_sized symc_bucket_kind = {.name = "bucket",
    .macro = "SYMMCOLL_BUCKET_INIT",
    .defaults = &default_bucket,
    .nbytes = sizeof(default_bucket),
    .least = sizeof(default_bucket.size)};

struct symmcoll_bucket symc_describe_bucket(
    const struct symmcoll_reducer *reducer, int index)
{
    const struct symc_ddp_bucket *bucket = &reducer->layout.buckets[index];

    return (struct symmcoll_bucket){
        .size = sizeof(struct symmcoll_bucket),
        .index = index,
        .is_last = index == reducer->layout.nbuckets - 1,
        .buffer = bucket->buffer,
        .count = bucket->count,
        .dtype = bucket->dtype,
        .ngrads = bucket->ngrads,
        .params = bucket->numbers,
        .device = reducer->params[0].tensor.device,
        .device_index = reducer->params[0].tensor.device_index,
        .stream = symc_site_stream(reducer->site),
    };
}

/* Finds the parameter of gradient i in a hook's bucket (out), and the number of
 * elements before it.  Copies the bucket. */
static symmcoll_status_t find_member(const char *where,
    const struct symmcoll_bucket *given, int i, struct symmcoll_bucket *bucket,
    const struct symc_param **param, size_t *before)
{
    const struct symc_ddp_bucket *own;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (given == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a bucket and a tensor, found NULL", where);
    status = symc_sized_read(&symc_bucket_kind, where, given, bucket);
    if (status != SYMMCOLL_OK)
        return status;
    if (bucket->reducer == NULL || bucket->index < 0 ||
        bucket->index >= bucket->reducer->layout.nbuckets)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the bucket that a reducer calls a hook with, found "
            "another one",
            where);
    own = &bucket->reducer->layout.buckets[bucket->index];
    if (i < 0 || i >= own->ngrads)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a gradient from 0 to %d, found %d", where,
            own->ngrads - 1, i);
    *param = &bucket->reducer->params[own->params[i]];
    *before = (size_t)((*param)->view - own->buffer) /
              symmcoll_dtype_size(own->dtype);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_bucket_grad(
    const struct symmcoll_bucket *given, int i, struct symmcoll_tensor *grad)
{
    const struct symc_param *param = NULL;
    struct symmcoll_bucket bucket;
    struct symmcoll_tensor view;
    size_t before = 0;
    symmcoll_status_t status =
        find_member("bucket_grad", given, i, &bucket, &param, &before);

    if (status != SYMMCOLL_OK)
        return status;
    view = symc_param_view(param);
    view.data =
        (char *)bucket.buffer + before * symmcoll_dtype_size(bucket.dtype);
    view.dtype = bucket.dtype;
    return symc_sized_write(&symc_tensor_kind, "bucket_grad", &view, grad);
}

symmcoll_status_t symmcoll_bucket_param(
    const struct symmcoll_bucket *given, int i, struct symmcoll_tensor *tensor)
{
    const struct symc_param *param = NULL;
    struct symmcoll_bucket bucket;
    size_t before;
    symmcoll_status_t status =
        find_member("bucket_param", given, i, &bucket, &param, &before);

    return status == SYMMCOLL_OK ? symc_sized_write(&symc_tensor_kind,
                                       "bucket_param", &param->tensor, tensor)
                                 : status;
}
