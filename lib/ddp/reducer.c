/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates and frees a reducer, and implements the calls between backwards.
 * step.c implements the backward.
 */
#include "ddp/reducer.h"
#include "base/tensor.h"

#include "config/config.h"
#include "group/group.h"

#include <symmcoll/group.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

static const struct symmcoll_reducer_args default_args =
    SYMMCOLL_REDUCER_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_REDUCER_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

/* Sets the size limits of buckets.  The first bucket is small by default, so
 * that communication begins early; if the caller sets only bucket_cap, it
 * applies to all. */
static void set_limits(struct symmcoll_reducer *reducer,
    const struct symmcoll_reducer_args *args, const struct symc_config *config)
{
    size_t cap = args->bucket_cap, first = args->first_bucket_cap;

    if (first == 0)
        first = cap != 0 ? cap : config->ddp_first_bucket_cap;
    reducer->limits[0] = first;
    reducer->limits[1] = cap != 0 ? cap : config->ddp_bucket_cap;
}

/* Makes the parts of the reducer that need no communication. */
static symmcoll_status_t prepare(struct symmcoll_reducer *reducer,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *args)
{
    struct symc_bucket_memory none = {.at = NULL};
    struct symc_layout layout;
    symmcoll_status_t status;

    if (args->gradient_as_bucket_view && args->write_back)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected gradient_as_bucket_view or write_back, found "
            "both");
    if (args->hook_end != NULL && args->hook == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected hook_end with a hook, found it without");
    status = symc_shard_check_args(args);
    if (status != SYMMCOLL_OK)
        return status;
    set_limits(reducer, args, symc_group_config(reducer->group));
    reducer->timing = symc_alloc(1, sizeof(*reducer->timing));
    if (reducer->timing == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_times_open(reducer, args->stats_rate);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_check_ignored(args, nparams);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_numbers_take(reducer, params, nparams, args);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_open_site(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_buffers_take(
        reducer, args, symc_group_config(reducer->group)->ddp_bucket_cap);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_take_homes(reducer, args->grads);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_widen_open(reducer, args->reduce_dtype);
    if (status != SYMMCOLL_OK)
        return status;
    if (args->find_unused || args->static_graph)
        status = symc_used_open(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_memory_take(reducer, args);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_layout_first(reducer, &none, &layout);
    if (status != SYMMCOLL_OK)
        return status;
    symc_layout_adopt(reducer, &layout);
    return symc_shard_list(reducer);
}

/* Checks that there are parameters and a place for the result, and allocates
 * an empty reducer (out). */
static symmcoll_status_t allocate(const struct symmcoll_tensor *params,
    int nparams, struct symmcoll_reducer *const *reducer,
    struct symmcoll_reducer **made)
{
    if (params == NULL || reducer == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected parameters and a reducer, found NULL");
    if (nparams < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected at least one parameter, found %d", nparams);
    *made = symc_alloc(1, sizeof(**made));
    return *made != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

static void take_options(
    struct symmcoll_reducer *reducer, const struct symmcoll_reducer_args *args)
{
    reducer->views = args->gradient_as_bucket_view != 0 || args->memory != NULL;
    reducer->write_back = args->write_back != 0;
    reducer->alone = args->no_init_sync != 0;
    symc_hook_use(reducer, args->hook, args->hook_end, args->hook_arg);
    reducer->find_unused = args->find_unused != 0;
    reducer->graph = args->static_graph ? SYMC_GRAPH_FIRST : SYMC_GRAPH_DYNAMIC;
    reducer->shard = args->shard != 0;
    reducer->memory = args->memory; /* placed by symc_memory_take() */
    if (!symc_rebuild_is_wanted(reducer))
        reducer->rebuild = SYMC_REBUILD_DONE;
}

symmcoll_status_t symmcoll_reducer_create(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, int nparams,
    const struct symmcoll_reducer_args *given,
    struct symmcoll_reducer **reducer)
{
    struct symmcoll_reducer_args args;
    struct symmcoll_reducer *made = NULL;
    struct symmcoll_reducer empty = {.group = group};
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "reducer: expected a group, found NULL");
    empty.size = symmcoll_group_size(group);
    status = symc_sized_read(&args_kind, "reducer", given, &args);
    if (status == SYMMCOLL_OK)
        status = allocate(params, nparams, reducer, &made);
    /* If args cannot be read it has the defaults, and the other ranks wait in
     * symc_share_failure(). */
    if (status != SYMMCOLL_OK)
        return args.no_init_sync ? status : symc_share_failure(&empty, status);
    *made = empty;
    pthread_mutex_init(&made->lock, NULL);
    take_options(made, &args);
    status = prepare(made, params, nparams, &args);
    if (!args.no_init_sync)
        status = symc_synchronise_params(
            made, symc_group_config(group)->ddp_bucket_cap, status);
    if (status == SYMMCOLL_OK)
        status = symc_rebuild_shared(made);
    if (status != SYMMCOLL_OK) {
        symmcoll_reducer_free(made);
        return status;
    }
    *reducer = made;
    return SYMMCOLL_OK;
}

void symmcoll_reducer_free(struct symmcoll_reducer *reducer)
{
    if (reducer == NULL)
        return;
    /* An operation in flight uses its bucket until it has ended, even with an
     * error. */
    symc_abandon_buckets(reducer);
    symc_hooks_leave(reducer);
    symc_used_close(reducer);
    symc_widen_close(reducer);
    symc_buffers_free(reducer);
    symc_layout_free(reducer, &reducer->layout);
    if (reducer->timing != NULL)
        symc_times_drop(reducer);
    free(reducer->timing);
    symc_site_close(reducer->site);
    symc_numbers_free(reducer);
    free(reducer->slices);
    free(reducer->slice_pieces);
    free(reducer->parts.at);
    free(reducer->parts.counts);
    pthread_mutex_destroy(&reducer->lock);
    free(reducer);
}

/* ---- queries and zeroing ---- */

symmcoll_status_t symmcoll_reducer_grad(
    struct symmcoll_reducer *reducer, int number, struct symmcoll_tensor *grad)
{
    const struct symc_param *param;
    struct symmcoll_tensor view;
    symmcoll_status_t status;

    if (reducer == NULL || grad == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_grad: expected a reducer and a tensor, found NULL");
    status = symc_number_check(reducer, "reducer_grad", number);
    if (status == SYMMCOLL_OK)
        status =
            symc_bucket_memory_check(&reducer->layout.memory, "reducer_grad");
    if (status != SYMMCOLL_OK)
        return status;
    param = symc_number_param(reducer, number);
    view = symc_param_view(param);
    return symc_sized_write(&symc_tensor_kind, "reducer_grad", &view, grad);
}

void symc_drop_gradients(struct symmcoll_reducer *reducer)
{
    for (int i = 0; i < reducer->nparams; i++) {
        reducer->params[i].has_accumulated = false;
        reducer->params[i].origin = NULL;
        reducer->params[i].used = false;
    }
    reducer->averaged = false;
}

void symmcoll_reducer_zero(struct symmcoll_reducer *reducer)
{
    symmcoll_status_t status;

    if (reducer == NULL || reducer->backward != SYMC_BACKWARD_NONE)
        return;
    status = symc_take_stream(reducer, "reducer_zero");
    /* Buckets with parameters are cleared by begin. */
    if (status == SYMMCOLL_OK && !reducer->gathered)
        status = symc_layout_clear(reducer);
    symc_drop_gradients(reducer);
    symc_error_keep(&reducer->zeroing, status);
}

int symmcoll_reducer_bucket_count(const struct symmcoll_reducer *reducer)
{
    return reducer != NULL ? reducer->layout.nbuckets : 0;
}

symmcoll_status_t symmcoll_reducer_bucket(
    const struct symmcoll_reducer *reducer, int index,
    struct symmcoll_bucket *bucket)
{
    struct symmcoll_bucket described;
    symmcoll_status_t status;

    if (reducer == NULL || bucket == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_bucket: expected a reducer and a bucket, found NULL");
    if (index < 0 || index >= reducer->layout.nbuckets)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_bucket: expected a bucket from 0 to %d, found %d",
            reducer->layout.nbuckets - 1, index);
    status =
        symc_bucket_memory_check(&reducer->layout.memory, "reducer_bucket");
    if (status != SYMMCOLL_OK)
        return status;
    described = symc_describe_bucket(reducer, index);
    return symc_sized_write(
        &symc_bucket_kind, "reducer_bucket", &described, bucket);
}

static const struct symmcoll_reducer_times default_times =
    SYMMCOLL_REDUCER_TIMES_INIT;
static const struct symc_sized times_kind = {.name = "times",
    .macro = "SYMMCOLL_REDUCER_TIMES_INIT",
    .defaults = &default_times,
    .nbytes = sizeof(default_times),
    .least = sizeof(default_times.size)};

symmcoll_status_t symmcoll_reducer_get_times(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_times *times)
{
    if (reducer == NULL || times == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_get_times: expected a reducer and times, found NULL");
    symc_times_take(reducer);
    return symc_sized_write(
        &times_kind, "reducer_get_times", &reducer->timing->times, times);
}
