/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves a reducer to another group, after a rank has died or when ranks are
 * added.  The new group has what it would have had at creation: all that passes
 * have found, and all memory, is made again, so that moved and new reducers make
 * the same operations.
 */
#include "config/config.h"
#include "ddp/reducer.h"
#include "group/group.h"

#include <symmcoll/group.h>

/* Checks a call, before anything is changed. */
static symmcoll_status_t check_move(
    struct symmcoll_reducer *reducer, uint32_t flags)
{
    if ((flags & ~(uint32_t)SYMMCOLL_MOVE_KEEP) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_move: expected flags of enum symmcoll_move_flags, found "
            "%#x",
            (unsigned)flags);
    if (reducer->join != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_move: expected a reducer in no join, found it in one");
    /* On a device a bucket may have failed after finish. */
    if ((flags & SYMMCOLL_MOVE_KEEP) != 0 &&
        symc_settle_buckets(reducer, "reducer_move") != SYMMCOLL_OK)
        reducer->mixed = true;
    if ((flags & SYMMCOLL_MOVE_KEEP) != 0 && reducer->averaged)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_move: expected gradients that are to be kept, found averages "
            "of which this rank has its slices only");
    if ((flags & SYMMCOLL_MOVE_KEEP) != 0 && reducer->mixed)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_move: expected gradients that are to be kept, found that a "
            "pass with sync has begun and not ended well");
    return SYMMCOLL_OK;
}

/* Ends what is in flight, and a pass that has begun. */
static void end_pass(struct symmcoll_reducer *reducer)
{
    symc_abandon_buckets(reducer);
    symc_times_drop(reducer);
    symc_hooks_leave(reducer);
    reducer->backward = SYMC_BACKWARD_NONE;
    reducer->failure.status = reducer->refusal.status =
        reducer->zeroing.status = SYMMCOLL_OK;
    reducer->launched = reducer->done = reducer->narrived = 0;
    reducer->buffers.skips = false;
}

static void drop_gradients(struct symmcoll_reducer *reducer)
{
    symc_drop_gradients(reducer);
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].view = NULL;
}

/* Allocates what the reducer has in memory on its site, except for its buckets,
 * of which it makes the first (out). */
static symmcoll_status_t allocate(
    struct symmcoll_reducer *reducer, bool searches, struct symc_layout *layout)
{
    struct symc_bucket_memory none = {.at = NULL};
    symmcoll_status_t status = symc_open_site(reducer);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_buffers_stage(
        reducer, symc_group_config(reducer->group)->ddp_bucket_cap);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_widen_open(reducer, reducer->reduce_dtype);
    if (status != SYMMCOLL_OK)
        return status;
    if (searches)
        status = symc_used_open(reducer);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_layout_first(reducer, &none, layout);
    return status == SYMMCOLL_OK ? symc_layout_fill(reducer, layout) : status;
}

/* Makes the reducer's memory again, on the new group's site.  After an error
 * there are no buckets. */
static symmcoll_status_t renew(struct symmcoll_reducer *reducer)
{
    struct symc_site *site = reducer->site, *made;
    struct symc_layout before = reducer->layout, layout = {0};
    bool searches =
        reducer->find_unused || reducer->graph != SYMC_GRAPH_DYNAMIC;
    symmcoll_status_t status;

    symc_used_close(reducer);
    symc_widen_close(reducer);
    symc_ddp_staging_close(site, &reducer->buffers.staging);
    reducer->layout = layout;
    reducer->nslices = 0;
    reducer->site = NULL;
    status = allocate(reducer, searches, &layout);
    if (status == SYMMCOLL_OK)
        symc_layout_adopt(reducer, &layout);
    else
        symc_layout_free(reducer, &layout);
    if (status == SYMMCOLL_OK)
        status = symc_shard_list(reducer);
    made = reducer->site;
    reducer->site = site;
    symc_layout_free(reducer, &before);
    symc_site_close(site);
    reducer->site = made;
    return status;
}

/* Moves the reducer on this rank. */
static symmcoll_status_t move(struct symmcoll_reducer *reducer,
    struct symmcoll_group *group, uint32_t flags)
{
    symmcoll_status_t status;

    end_pass(reducer);
    reducer->group = group;
    reducer->size = symmcoll_group_size(group);
    reducer->factor = symc_hook_factor(reducer, reducer->size);
    symc_graph_reset(reducer);
    if ((flags & SYMMCOLL_MOVE_KEEP) == 0)
        drop_gradients(reducer);
    status = symc_take_stream(reducer, "reducer_move");
    if (status != SYMMCOLL_OK)
        return status;
    status = renew(reducer);
    if (status != SYMMCOLL_OK) {
        drop_gradients(reducer);
        reducer->mixed = true;
        return status;
    }
    reducer->mixed = false;
    /* The caller's memory is not new. */
    return reducer->memory != NULL && (flags & SYMMCOLL_MOVE_KEEP) == 0
               ? symc_layout_clear(reducer)
               : SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_reducer_move(struct symmcoll_reducer *reducer,
    struct symmcoll_group *group, uint32_t flags)
{
    struct symmcoll_reducer empty = {.group = group};
    symmcoll_status_t status;

    if (reducer == NULL || group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_move: expected a reducer and a group, found NULL");
    empty.size = symmcoll_group_size(group);
    /* After a refusal, too: other ranks may have moved. */
    reducer->unmoved = true;
    status = check_move(reducer, flags);
    if (status != SYMMCOLL_OK)
        return reducer->alone ? status : symc_share_failure(&empty, status);
    status = move(reducer, group, flags);
    if (!reducer->alone)
        status = symc_synchronise_params(
            reducer, symc_group_config(group)->ddp_bucket_cap, status);
    if (status == SYMMCOLL_OK)
        status = symc_rebuild_shared(reducer);
    reducer->unmoved = status != SYMMCOLL_OK;
    return status;
}
