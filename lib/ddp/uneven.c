/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training with uneven inputs.  A rank that has no more inputs makes the forwards
 * and passes of the other ranks with gradients of zero, until none has inputs;
 * then all get the parameters and buffers of a rank that had inputs last.
 */
#include "base/tensor.h"
#include "config/config.h"
#include "ddp/reducer.h"
#include "group/group.h"

#include <symmcoll/collectives.h>
#include <symmcoll/group.h>

#include <stdlib.h>
#include <string.h>

#define SKEW 1000 /* passes of other ranks after which one warning is logged */

/* Makes an open coalescing region of the thread refuse the collective. */
static const struct symmcoll_call outside = SYMMCOLL_CALL_INIT;

/* ---- begin ---- */

static const struct symmcoll_join_args default_args = SYMMCOLL_JOIN_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_JOIN_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

/* The properties of a join that are compared. */
enum property {
    PROPERTY_REDUCERS,
    PROPERTY_ACTIVE,
    PROPERTY_STOP,
    PROPERTIES
};

static symmcoll_status_t compare_joins(
    const struct symmcoll_join *join, int64_t *all)
{
    static const char *const names[PROPERTIES] = {
        "number of reducers", "divide_by_active", "stop_early"};
    const int64_t own[PROPERTIES] = {
        join->nreducers, join->divides_by_active, join->stops_early};
    symmcoll_status_t status = symmcoll_all_gather(
        join->group, all, own, PROPERTIES, SYMMCOLL_INT64, &outside, NULL);

    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 1; r < symmcoll_group_size(join->group); r++)
        for (int p = 0; p < PROPERTIES; p++)
            if (all[r * PROPERTIES + p] != all[p])
                return symc_fail(SYMMCOLL_ERR_MISMATCH,
                    "join: %s: rank %d has %lld, rank 0 has %lld", names[p], r,
                    (long long)all[r * PROPERTIES + p], (long long)all[p]);
    return SYMMCOLL_OK;
}

/* Checks that a reducer, at an index of the caller's array, may be in the join. */
static symmcoll_status_t check_reducer(
    const struct symmcoll_join *join, int index)
{
    const struct symmcoll_reducer *reducer = join->reducers[index];

    if (reducer->group != join->group)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: reducer %d: expected group %s, as of reducer 0, found "
            "group %s",
            index, symc_group_name(join->group),
            symc_group_name(reducer->group));
    if (reducer->join != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: reducer %d: expected it in no join, found it in one",
            index);
    if (reducer->backward != SYMC_BACKWARD_NONE || reducer->unmoved)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: reducer %d: expected no pass, found that %s", index,
            reducer->unmoved ? "symmcoll_reducer_move() has failed"
                             : "one has begun");
    if (reducer->hook != NULL && join->divides_by_active)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: reducer %d: expected divide_by_active without a hook, "
            "which divides by all ranks, found a hook",
            index);
    if (reducer->shard)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: reducer %d: expected it without shard, for a rank without "
            "inputs updates no slices, found it with shard",
            index);
    if (symc_graph_is_counted(reducer))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: reducer %d: expected that its static graph is known "
            "from a pass with sync, found none has finished",
            index);
    return SYMMCOLL_OK;
}

static symmcoll_status_t open_staging(struct symmcoll_join *join, int index)
{
    struct symmcoll_reducer *reducer = join->reducers[index];

    return symc_ddp_staging_open("join: a copy of parameters", reducer->site,
        reducer->params, reducer->nparams,
        symc_group_config(join->group)->ddp_bucket_cap, &join->stagings[index]);
}

/* Makes the parts of a join that need no communication. */
static symmcoll_status_t prepare(struct symmcoll_join *join,
    struct symmcoll_reducer *const *reducers,
    const struct symmcoll_join_args *args)
{
    size_t n = (size_t)join->nreducers;
    size_t size = (size_t)symmcoll_group_size(join->group);

    join->divides_by_active = args->divide_by_active != 0;
    join->stops_early = args->stop_early != 0;
    join->source = (int)size - 1;
    join->reducers = symc_alloc(n, sizeof(struct symmcoll_reducer *));
    join->stagings = symc_alloc(n, sizeof(*join->stagings));
    join->calls = symc_alloc(size, sizeof(*join->calls));
    if (join->reducers == NULL || join->stagings == NULL || join->calls == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    memcpy(join->reducers, reducers, n * sizeof(struct symmcoll_reducer *));
    for (int i = 0; i < join->nreducers; i++) {
        symmcoll_status_t status = check_reducer(join, i);

        if (status == SYMMCOLL_OK)
            status = open_staging(join, i);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

static void free_join(struct symmcoll_join *join)
{
    for (int i = 0; join->stagings != NULL && join->reducers != NULL &&
                    i < join->nreducers;
         i++)
        symc_ddp_staging_close(join->reducers[i]->site, &join->stagings[i]);
    free(join->stagings);
    free(join->reducers);
    free(join->calls);
    free(join);
}

/* Begins a join (out) on this rank, whose status before is own, and compares
 * it with those of the other ranks. */
static symmcoll_status_t begin(struct symmcoll_reducer *const *reducers, int n,
    const struct symmcoll_join_args *args, symmcoll_status_t own,
    struct symmcoll_join **join)
{
    struct symmcoll_join *made = symc_alloc(1, sizeof(*made));
    size_t size = (size_t)reducers[0]->size;
    int64_t *all = symc_alloc(size * PROPERTIES, sizeof(*all));
    symmcoll_status_t status;

    if (made != NULL)
        *made =
            (struct symmcoll_join){.group = reducers[0]->group, .nreducers = n};
    if (own == SYMMCOLL_OK && (made == NULL || all == NULL))
        own = SYMMCOLL_ERR_NO_MEMORY;
    if (own == SYMMCOLL_OK)
        own = prepare(made, reducers, args);
    status = symc_share_failure(reducers[0], own);
    if (own == SYMMCOLL_OK && status == SYMMCOLL_OK)
        status = compare_joins(made, all);
    free(all);
    if (status == SYMMCOLL_OK)
        *join = made;
    else if (made != NULL)
        free_join(made);
    return status;
}

symmcoll_status_t symmcoll_join_begin(struct symmcoll_reducer *const *reducers,
    int n, const struct symmcoll_join_args *given, struct symmcoll_join **join)
{
    struct symmcoll_join_args args;
    struct symmcoll_join *made = NULL;
    symmcoll_status_t status;

    if (reducers == NULL || n < 1 || join == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "join_begin: expected reducers and a join, found NULL or %d "
            "reducers",
            n);
    for (int i = 0; i < n; i++)
        if (reducers[i] == NULL)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "join_begin: expected reducers, found that number %d is NULL",
                i);
    status = symc_sized_read(&args_kind, "join_begin", given, &args);
    status = begin(reducers, n, &args, status, &made);
    if (status != SYMMCOLL_OK)
        return status;
    for (int i = 0; i < n; i++) {
        reducers[i]->join = made;
        reducers[i]->failure.status =
            SYMMCOLL_OK; /* of a pass before the join */
    }
    *join = made;
    return SYMMCOLL_OK;
}

/* ---- end ---- */

static void drop_gradients(const struct symmcoll_join *join)
{
    for (int i = 0; i < join->nreducers; i++)
        symmcoll_reducer_zero(join->reducers[i]);
}

/* Makes a pass of the other ranks with gradients of zero.  The optimizer of this
 * rank does not apply the average, to which the next pass would be added. */
static symmcoll_status_t shadow_pass(struct symmcoll_reducer *reducer, int sync)
{
    symmcoll_status_t status;

    reducer->shadows = true;
    status = symc_begin(reducer, sync);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_finish(reducer);
    reducer->shadows = false;
    if (status == SYMMCOLL_OK)
        symmcoll_reducer_zero(reducer);
    return status;
}

static void warn_of_skew(struct symmcoll_join *join)
{
    join->nshadows++;
    if (join->nshadows == SKEW)
        symc_logf(&symc_group_world(join->group)->log, SYMC_LOG_WARN,
            "join of group %s: this rank has had no inputs for %d passes of "
            "other ranks, which wait for it: divide the inputs more evenly",
            symc_group_name(join->group), SKEW);
}

/* Makes the calls of the other ranks until none has inputs. */
static symmcoll_status_t shadow(struct symmcoll_join *join)
{
    const struct symc_join_call ended = {.state = SYMC_JOIN_ENDED};

    for (;;) {
        struct symc_join_call call = {0};
        struct symmcoll_reducer *reducer;
        symmcoll_status_t status = symc_join_exchange(join, &ended, &call);

        if (status != SYMMCOLL_OK || join->nactive == 0)
            return status;
        reducer = join->reducers[call.reducer];
        if (call.kind == SYMC_JOIN_FORWARD) {
            status = symc_forward(reducer, (int)call.sync);
        } else {
            reducer->factor = symc_hook_factor(reducer, join->nactive);
            if (join->nshadows == 0)
                drop_gradients(join);
            status = shadow_pass(reducer, (int)call.sync);
            warn_of_skew(join);
        }
        if (status != SYMMCOLL_OK)
            return status;
    }
}

/* Copies the parameters and buffers of a rank that had inputs last to all. */
static symmcoll_status_t synchronise(const struct symmcoll_join *join)
{
    for (int i = 0; i < join->nreducers; i++) {
        struct symmcoll_reducer *reducer = join->reducers[i];
        symmcoll_status_t status = symc_take_stream(reducer, "join_end");

        if (status != SYMMCOLL_OK)
            return status;
        status = symc_broadcast_tensors(reducer, reducer->params,
            reducer->nparams, join->source, &join->stagings[i]);
        if (status == SYMMCOLL_OK)
            status = symc_buffers_send(reducer, join->source);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* Returns the error of a reducer that is in a pass, whose latest pass has
 * failed, or that cannot make passes on the group's stream. */
static symmcoll_status_t find_failure(const struct symmcoll_join *join)
{
    for (int i = 0; i < join->nreducers; i++) {
        struct symmcoll_reducer *reducer = join->reducers[i];
        symmcoll_status_t status;

        if (reducer->backward != SYMC_BACKWARD_NONE)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "join_end: reducer %d: expected no pass, found that one has not "
                "finished",
                i);
        if (reducer->failure.status != SYMMCOLL_OK)
            return symc_repeat_failure(reducer);
        status = symc_join_check_stream(reducer, "join_end");
        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

/* Ends a join that has failed on this rank alone: sends that to the others. */
static symmcoll_status_t give_up(
    struct symmcoll_join *join, symmcoll_status_t own)
{
    const struct symc_join_call failed = {.state = SYMC_JOIN_FAILED};
    struct symc_join_call call;
    struct symc_error error;

    symc_error_keep(&error, own);
    (void)symc_join_exchange(join, &failed, &call);
    return symc_error_return(&error);
}

symmcoll_status_t symmcoll_join_end(struct symmcoll_join *join)
{
    symmcoll_status_t status;

    if (join == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "join_end: expected a join, found NULL");
    status = symc_error_return(&join->error);
    if (status != SYMMCOLL_OK)
        goto release;
    status = find_failure(join);
    if (status == SYMMCOLL_OK)
        status = shadow(join);
    if (status != SYMMCOLL_OK && join->error.status == SYMMCOLL_OK)
        status = give_up(join, status);
    if (status == SYMMCOLL_OK)
        status = synchronise(join);

release:
    for (int i = 0; i < join->nreducers; i++) {
        struct symmcoll_reducer *reducer = join->reducers[i];

        reducer->join = NULL;
        reducer->factor = symc_hook_factor(reducer, reducer->size);
    }
    free_join(join);
    return status;
}
