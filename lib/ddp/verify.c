/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks exchange when a reducer is made.  First they check that they train
 * the same model: the number of parameters, then the type, shape and strides of
 * each, compared with rank 0; every rank knows the differences before any
 * parameter is written.  Then the values of rank 0 are copied to all ranks.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdlib.h>
#include <string.h>

/* What the ranks exchange first. */
struct summary {
    int64_t nparams;
    int64_t has_hook;
    int64_t device; /* enum symmcoll_device */
};

/* One parameter as it is broadcast. */
struct record {
    int64_t dtype;
    int64_t ndim;
    int64_t shape[SYMMCOLL_MAX_DIMS];
    int64_t strides[SYMMCOLL_MAX_DIMS];
};

/* A rank's first parameter that differs from rank 0's; nparams: none does. */
struct difference {
    int64_t number;
    struct record record;
};

#define WORDS(type) (sizeof(type) / sizeof(int64_t))

/* A call that a region of the thread refuses: what a region keeps runs when the
 * memory here has been released. */
static const struct symmcoll_call outside = SYMMCOLL_CALL_INIT;

static struct record make_record(const struct symmcoll_tensor *tensor)
{
    struct record record = {.dtype = tensor->dtype, .ndim = tensor->ndim};

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

static symmcoll_status_t compare_summaries(
    const struct symmcoll_reducer *reducer)
{
    struct summary own = {reducer->nparams, reducer->hook != NULL,
        reducer->params[0].tensor.device};
    struct summary *all = symc_alloc((size_t)reducer->size, sizeof(*all));
    symmcoll_status_t status;

    if (all == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symmcoll_all_gather(reducer->group, all, &own,
        WORDS(struct summary), SYMMCOLL_INT64, &outside, NULL);
    for (int r = 1; status == SYMMCOLL_OK && r < reducer->size; r++) {
        if (all[r].nparams != all[0].nparams)
            status = symc_fail(SYMMCOLL_ERR_MISMATCH,
                "reducer: number of parameters: rank %d has %lld, rank 0 has "
                "%lld",
                r, (long long)all[r].nparams, (long long)all[0].nparams);
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
    }
    free(all);
    return status;
}

/* Say how one rank's parameter differs from rank 0's. */
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

    symc_param_text(&reducer->params[number], number, text);
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

/* Send all ranks where each differs; every rank names the same difference, the
 * lowest rank's in the lowest parameter. */
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
    if (all[odd].number == reducer->nparams)
        return SYMMCOLL_OK;
    return report_difference(reducer, odd, &all[odd], &wanted[all[odd].number]);
}

static symmcoll_status_t compare_records(const struct symmcoll_reducer *reducer)
{
    size_t n = (size_t)reducer->nparams;
    struct record *wanted = symc_alloc(n, sizeof(*wanted));
    struct difference *all = symc_alloc((size_t)reducer->size, sizeof(*all));
    struct difference own = {.number = reducer->nparams};
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (wanted == NULL || all == NULL)
        goto free_records;
    for (size_t i = 0; i < n; i++)
        wanted[i] = make_record(&reducer->params[i].tensor);
    status = symmcoll_broadcast(reducer->group, wanted,
        n * WORDS(struct record), SYMMCOLL_INT64, 0, NULL, NULL);
    if (status != SYMMCOLL_OK)
        goto free_records;
    for (size_t i = 0; i < n; i++) {
        struct record record = make_record(&reducer->params[i].tensor);

        if (memcmp(&record, &wanted[i], sizeof(record)) != 0) {
            own = (struct difference){(int64_t)i, record};
            break;
        }
    }
    status = exchange_differences(reducer, &own, wanted, all);
free_records:
    free(wanted);
    free(all);
    return status;
}

symmcoll_status_t symc_verify_params(const struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status = compare_summaries(reducer);

    return status == SYMMCOLL_OK ? compare_records(reducer) : status;
}

/* Broadcast what the buffer holds of the parameters from first up to last. */
static symmcoll_status_t broadcast_run(
    const struct symmcoll_reducer *reducer, char *buffer, int first, int last)
{
    bool is_root = symmcoll_group_rank(reducer->group) == 0;
    symmcoll_status_t status = SYMMCOLL_OK;
    size_t used = 0;

    for (int i = first; i < last; i++) {
        if (is_root && status == SYMMCOLL_OK)
            status = symc_param_pack(
                reducer->site, &reducer->params[i], buffer + used);
        used += reducer->params[i].nbytes;
    }
    if (status == SYMMCOLL_OK)
        status = symmcoll_broadcast(
            reducer->group, buffer, used, SYMMCOLL_UINT8, 0, NULL, NULL);
    used = 0;
    for (int i = first; status == SYMMCOLL_OK && !is_root && i < last; i++) {
        status = symc_param_unpack(
            reducer->site, &reducer->params[i], buffer + used);
        used += reducer->params[i].nbytes;
    }
    return status;
}

symmcoll_status_t symc_broadcast_params(
    const struct symmcoll_reducer *reducer, size_t nbytes)
{
    size_t total = 0, largest = 0;
    void *buffer = NULL;
    symmcoll_status_t status;

    for (int i = 0; i < reducer->nparams; i++) {
        size_t own = reducer->params[i].nbytes;

        if (!symc_add(total, own, &total))
            total = SIZE_MAX;
        /* A large contiguous parameter is sent in place. */
        if (own > largest && !(own >= nbytes && reducer->params[i].dense))
            largest = own;
    }
    nbytes = nbytes > largest ? nbytes : largest;
    status = symc_site_alloc("reducer: a copy of parameters", reducer->site,
        total < nbytes ? total : nbytes, 1, &buffer);
    for (int i = 0; status == SYMMCOLL_OK && i < reducer->nparams;) {
        const struct symc_param *param = &reducer->params[i];
        size_t used = 0;
        int last = i;

        while (last < reducer->nparams &&
               reducer->params[last].nbytes <= nbytes - used)
            used += reducer->params[last++].nbytes;
        if (last > i) {
            status = broadcast_run(reducer, buffer, i, last);
            i = last;
        } else {
            status = symmcoll_broadcast(reducer->group, param->tensor.data,
                param->nbytes, SYMMCOLL_UINT8, 0, NULL, NULL);
            i++;
        }
    }
    symc_site_release(reducer->site, buffer);
    return status;
}
