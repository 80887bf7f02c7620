/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the ranks when a reducer is created, and copies rank 0's parameters
 * and buffers to all.  First the numbers of both and the options, then the type,
 * shape and strides of each tensor are compared with rank 0's; every rank has
 * the result before any tensor is written.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdlib.h>
#include <string.h>

/* Options that decide which collectives run, and must be equal. */
enum option {
    OPTION_FIND_UNUSED,
    OPTION_STATIC_GRAPH,
    OPTION_REDUCE_DTYPE,
    OPTION_HOOK_END,
    OPTION_SHARD,
    OPTION_MEMORY,
    OPTION_PRIVATE_MOST,
    OPTION_FIRST_BUCKET_CAP,
    OPTION_BUCKET_CAP,
    OPTIONS
};

static const char *const option_names[OPTIONS] = {"find_unused", "static_graph",
    "reduce_dtype", "hook_end", "shard", "memory",
    "bytes in private memory (host.symmetric, host.small_max)",
    "first_bucket_cap", "bucket_cap"};

/* The properties that are compared first. */
struct summary {
    int64_t nparams;
    int64_t nbuffers;
    int64_t has_hook;
    int64_t device; /* enum symmcoll_device */
    int64_t options[OPTIONS];
};

/* A parameter under one of its numbers, or a buffer, as it is broadcast. */
struct record {
    int64_t number; /* the lowest number of the parameter; -1: ignored */
    int64_t dtype;
    int64_t ndim;
    int64_t shape[SYMMCOLL_MAX_DIMS];
    int64_t strides[SYMMCOLL_MAX_DIMS];
};

/* The first number at which a rank differs from rank 0; the count of records: it
 * does not.  Buffers follow the parameters. */
struct difference {
    int64_t number;
    struct record record;
};

#define WORDS(type) (sizeof(type) / sizeof(int64_t))

/* Makes an open coalescing region of the thread refuse the first collective.
 * The region would otherwise run it at its end, when the buffers here have been
 * released. */
static const struct symmcoll_call outside = SYMMCOLL_CALL_INIT;

/* The memory for the exchange, which all ranks have before the first
 * comparison. */
struct exchange {
    struct summary *summaries; /* of all ranks */
    struct record *wanted;     /* rank 0's parameters */
    struct difference *all;    /* of all ranks */
    struct symc_ddp_staging staging;
};

static int count_records(const struct symmcoll_reducer *reducer)
{
    return reducer->nnumbers + reducer->buffers.n;
}

static struct record make_record(
    const struct symmcoll_reducer *reducer, int number)
{
    static const struct symc_param ignored = {.number = -1};
    const struct symc_param *param;
    const struct symmcoll_tensor *tensor;
    struct record record;

    if (number >= reducer->nnumbers)
        param = &reducer->buffers.tensors[number - reducer->nnumbers];
    else if (symc_number_is_ignored(reducer, number))
        param = &ignored;
    else
        param = symc_number_param(reducer, number);
    tensor = &param->tensor;
    record =
        (struct record){param->number, tensor->dtype, tensor->ndim, {0}, {0}};

    for (int d = 0; d < tensor->ndim; d++) {
        record.shape[d] = tensor->shape[d];
        record.strides[d] = tensor->strides[d];
    }
    return record;
}

static const char *name_memory(int64_t device)
{
    return device == SYMMCOLL_CUDA ? "a device" : "the host";
}

/* Returns the properties of this rank's reducer.  Size limits count only if
 * buckets are never rebuilt, since rebuilt buckets follow rank 0. */
static struct summary make_summary(const struct symmcoll_reducer *reducer)
{
    bool stay = reducer->rebuild == SYMC_REBUILD_DONE;

    return (struct summary){.nparams = reducer->nnumbers,
        .nbuffers = reducer->buffers.n,
        .has_hook = reducer->hook != NULL,
        .device = reducer->params[0].tensor.device,
        .options = {
            [OPTION_FIND_UNUSED] = reducer->find_unused,
            [OPTION_STATIC_GRAPH] = reducer->graph != SYMC_GRAPH_DYNAMIC,
            [OPTION_REDUCE_DTYPE] = reducer->reduce_dtype,
            [OPTION_HOOK_END] = reducer->hook_end != NULL,
            [OPTION_SHARD] = reducer->shard,
            [OPTION_MEMORY] = reducer->memory != NULL,
            [OPTION_PRIVATE_MOST] = symc_memory_private_most(reducer),
            [OPTION_FIRST_BUCKET_CAP] = stay ? (int64_t)reducer->limits[0] : 0,
            [OPTION_BUCKET_CAP] = stay ? (int64_t)reducer->limits[1] : 0,
        }};
}

/* Fails with the first option in which a rank differs from rank 0. */
static symmcoll_status_t compare_options(
    int rank, const struct summary *other, const struct summary *zero)
{
    for (int o = 0; o < OPTIONS; o++)
        if (other->options[o] != zero->options[o])
            return symc_fail(SYMMCOLL_ERR_MISMATCH,
                "reducer: %s: rank %d has %lld, rank 0 has %lld",
                option_names[o], rank, (long long)other->options[o],
                (long long)zero->options[o]);
    return SYMMCOLL_OK;
}

static symmcoll_status_t compare_summaries(
    const struct symmcoll_reducer *reducer, struct summary *all)
{
    struct summary own = make_summary(reducer);
    symmcoll_status_t status = symmcoll_all_gather(reducer->group, all, &own,
        WORDS(struct summary), SYMMCOLL_INT64, &outside, NULL);
    for (int r = 1; status == SYMMCOLL_OK && r < reducer->size; r++) {
        if (all[r].nparams != all[0].nparams)
            status = symc_fail(SYMMCOLL_ERR_MISMATCH,
                "reducer: number of parameters: rank %d has %lld, rank 0 has "
                "%lld",
                r, (long long)all[r].nparams, (long long)all[0].nparams);
        else if (all[r].nbuffers != all[0].nbuffers)
            status = symc_fail(SYMMCOLL_ERR_MISMATCH,
                "reducer: number of buffers: rank %d has %lld, rank 0 has %lld",
                r, (long long)all[r].nbuffers, (long long)all[0].nbuffers);
        else if (all[r].has_hook != all[0].has_hook)
            status = symc_fail(SYMMCOLL_ERR_MISMATCH,
                "reducer: hook: rank %d has %s, rank 0 has %s", r,
                all[r].has_hook ? "one" : "none",
                all[0].has_hook ? "one" : "none");
        else if (all[r].device != all[0].device)
            status = symc_fail(SYMMCOLL_ERR_MISMATCH,
                "reducer: memory of parameters: rank %d has that of %s, rank 0 "
                "that of %s",
                r, name_memory(all[r].device), name_memory(all[0].device));
        else
            status = compare_options(r, &all[r], &all[0]);
    }
    return status;
}

/* Formats the parameter that a number stands for, into a buffer. */
static const char *name_shared(const struct symmcoll_reducer *reducer,
    const struct record *record, int number, char *buffer)
{
    if (record->number == number)
        return "one of its own";
    return symc_number_text(reducer, (int)record->number, buffer);
}

static symmcoll_status_t report_sharing(const struct symmcoll_reducer *reducer,
    int rank, const struct difference *found, const struct record *wanted)
{
    char text[SYMC_PARAM_TEXT], own[SYMC_PARAM_TEXT], zero[SYMC_PARAM_TEXT];
    int number = (int)found->number;

    return symc_fail(SYMMCOLL_ERR_MISMATCH,
        "reducer: %s: on rank %d it is %s, on rank 0 %s",
        symc_number_text(reducer, number, text), rank,
        name_shared(reducer, &found->record, number, own),
        name_shared(reducer, wanted, number, zero));
}

/* Formats a parameter or a buffer by its record's index, into a buffer of
 * SYMC_PARAM_TEXT. */
static const char *name_record(
    const struct symmcoll_reducer *reducer, int number, char *buffer)
{
    return number < reducer->nnumbers
               ? symc_number_text(reducer, number, buffer)
               : symc_buffer_text(reducer, number - reducer->nnumbers, buffer);
}

/* Fails with the difference between a rank's tensor and rank 0's. */
static symmcoll_status_t report_difference(
    const struct symmcoll_reducer *reducer, int rank,
    const struct difference *found, const struct record *wanted)
{
    const struct record *record = &found->record;
    char text[SYMC_PARAM_TEXT], own[SYMC_SHAPE_TEXT], zero[SYMC_SHAPE_TEXT];
    int number = (int)found->number;
    bool same_shape =
        record->ndim == wanted->ndim &&
        memcmp(record->shape, wanted->shape, sizeof(record->shape)) == 0;

    name_record(reducer, number, text);
    if (record->number < 0 || wanted->number < 0)
        return symc_fail(SYMMCOLL_ERR_MISMATCH,
            "reducer: %s: it is in args.ignored of rank %d, not in that of rank "
            "%d",
            text, record->number < 0 ? rank : 0, record->number < 0 ? 0 : rank);
    if (record->number != wanted->number)
        return report_sharing(reducer, rank, found, wanted);
    if (record->dtype != wanted->dtype)
        return symc_fail(SYMMCOLL_ERR_MISMATCH,
            "reducer: %s: rank %d has element type %s, rank 0 has %s", text,
            rank, symmcoll_dtype_name((enum symmcoll_dtype)record->dtype),
            symmcoll_dtype_name((enum symmcoll_dtype)wanted->dtype));
    if (!same_shape)
        return symc_fail(SYMMCOLL_ERR_MISMATCH,
            "reducer: %s: rank %d has shape %s, rank 0 has %s", text, rank,
            symc_format_dims(record->shape, (int)record->ndim, own),
            symc_format_dims(wanted->shape, (int)wanted->ndim, zero));
    return symc_fail(SYMMCOLL_ERR_MISMATCH,
        "reducer: %s: rank %d has strides %s, rank 0 has %s", text, rank,
        symc_format_dims(record->strides, (int)record->ndim, own),
        symc_format_dims(wanted->strides, (int)wanted->ndim, zero));
}

/* Exchanges the first difference of each rank.  Every rank reports the same
 * one: the lowest number's, and of the ranks that differ there the lowest. */
static symmcoll_status_t exchange_differences(
    const struct symmcoll_reducer *reducer, const struct difference *own,
    const struct record *wanted, struct difference *all)
{
    int odd = 0;
    symmcoll_status_t status = symmcoll_all_gather(reducer->group, all, own,
        WORDS(struct difference), SYMMCOLL_INT64, &outside, NULL);

    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 1; r < reducer->size; r++)
        if (all[r].number < all[odd].number)
            odd = r;
    if (all[odd].number == count_records(reducer))
        return SYMMCOLL_OK;
    return report_difference(reducer, odd, &all[odd], &wanted[all[odd].number]);
}

static symmcoll_status_t compare_records(const struct symmcoll_reducer *reducer,
    struct record *wanted, struct difference *all)
{
    int nrecords = count_records(reducer);
    struct difference own = {.number = nrecords};
    symmcoll_status_t status;

    for (int i = 0; i < nrecords; i++)
        wanted[i] = make_record(reducer, i);
    status = symmcoll_broadcast(reducer->group, wanted,
        (size_t)nrecords * WORDS(struct record), SYMMCOLL_INT64, 0, NULL, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < nrecords; i++) {
        struct record record = make_record(reducer, i);

        if (memcmp(&record, &wanted[i], sizeof(record)) != 0) {
            own = (struct difference){i, record};
            break;
        }
    }
    return exchange_differences(reducer, &own, wanted, all);
}

/* Allocates the memory for the exchange.  The parameters are copied through
 * nbytes, or through the size of the largest that is copied if that is more. */
static symmcoll_status_t open_exchange(const struct symmcoll_reducer *reducer,
    size_t nbytes, struct exchange *exchange)
{
    size_t size = (size_t)reducer->size;

    exchange->summaries = symc_alloc(size, sizeof(*exchange->summaries));
    exchange->all = symc_alloc(size, sizeof(*exchange->all));
    exchange->wanted =
        symc_alloc((size_t)count_records(reducer), sizeof(*exchange->wanted));
    if (exchange->summaries == NULL || exchange->all == NULL ||
        exchange->wanted == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    return symc_ddp_staging_open("reducer: a copy of parameters", reducer->site,
        reducer->params, reducer->nparams, nbytes, &exchange->staging);
}

/* Compares the parameters of all ranks, which have the memory for it, and
 * copies them. */
static symmcoll_status_t compare_and_copy(
    const struct symmcoll_reducer *reducer, struct exchange *exchange)
{
    symmcoll_status_t status = compare_summaries(reducer, exchange->summaries);

    if (status != SYMMCOLL_OK)
        return status;
    status = compare_records(reducer, exchange->wanted, exchange->all);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_broadcast_tensors(
        reducer, reducer->params, reducer->nparams, 0, &exchange->staging);
    return status == SYMMCOLL_OK ? symc_buffers_send(reducer, 0) : status;
}

symmcoll_status_t symc_compare_options(
    const struct symmcoll_reducer *reducer, symmcoll_status_t own)
{
    struct summary *all = NULL;
    symmcoll_status_t status;

    if (own == SYMMCOLL_OK) {
        all = symc_alloc((size_t)reducer->size, sizeof(*all));
        own = all != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
    }
    status = symc_share_failure(reducer, own);
    if (own == SYMMCOLL_OK && status == SYMMCOLL_OK)
        status = compare_summaries(reducer, all);
    free(all);
    return status;
}

symmcoll_status_t symc_synchronise_params(
    const struct symmcoll_reducer *reducer, size_t nbytes,
    symmcoll_status_t own)
{
    struct exchange exchange = {.summaries = NULL};
    symmcoll_status_t status;

    if (own == SYMMCOLL_OK)
        own = open_exchange(reducer, nbytes, &exchange);
    status = symc_share_failure(reducer, own);
    if (own == SYMMCOLL_OK && status == SYMMCOLL_OK)
        status = compare_and_copy(reducer, &exchange);
    free(exchange.summaries);
    free(exchange.wanted);
    free(exchange.all);
    symc_ddp_staging_close(reducer->site, &exchange.staging);
    return status;
}
