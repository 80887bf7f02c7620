/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.nan_check on devices.  A kernel on the operation's stream searches the input
 * before the operation's kernels read it.  The result is read when the operation has
 * ended, before its end is reported: the data has been sent by then.
 *
 * Kernels write results to a fixed number of entries in host memory: allocating such
 * memory while kernels run might wait for them.
 */
#include "cuda/device_launch.h"

#include <stdio.h>
#include <stdlib.h>

/* Indices among the values of errors.nan_check. */
#define OFF 0
#define ERROR 2

#define NONE (-1)

/* A stretch of a buffer that is searched; its result is in words->nans at the same
 * index. */
struct symc_cuda_nan {
    uint64_t count; /* elements */
    int part;       /* index in a list, or of several buffers; NONE: neither */
    int next;       /* of the same operation, or in the list of unused ones */
};

static int64_t setting_of(const struct symc_cuda_group *group)
{
    const struct symc_settings *settings = group->core->settings;

    return settings->get_int(settings->config, "errors.nan_check");
}

symmcoll_status_t symc_cuda_nans_open(struct symc_cuda_group *group)
{
    if (setting_of(group) == OFF)
        return SYMMCOLL_OK;
    group->nans = calloc(SYMC_CUDA_NANS, sizeof(*group->nans));
    if (group->nans == NULL)
        return group->core->fail(SYMMCOLL_ERR_NO_MEMORY,
            "no memory for what errors.nan_check finds");
    for (int i = 0; i < SYMC_CUDA_NANS; i++)
        group->nans[i].next = i + 1 < SYMC_CUDA_NANS ? i + 1 : NONE;
    group->unused_nan = 0;
    return SYMMCOLL_OK;
}

void symc_cuda_nans_close(struct symc_cuda_group *group)
{
    free(group->nans);
    group->nans = NULL;
}

/* ---- searching ---- */

static bool has_nans(enum symmcoll_dtype dtype)
{
    switch (dtype) {
    case SYMMCOLL_UINT8:
    case SYMMCOLL_INT8:
    case SYMMCOLL_INT16:
    case SYMMCOLL_INT32:
    case SYMMCOLL_INT64:
    case SYMMCOLL_BOOL:
    case SYMMCOLL_UINT16:
    case SYMMCOLL_UINT32:
    case SYMMCOLL_UINT64:
        return false;
    default:
        return true;
    }
}

/* Warns, the first time, that something is not searched. */
static void warn_unsearched(struct symc_cuda_group *group,
    const struct symc_op *op, bool *warned, const char *why)
{
    const struct symc_core *core = group->core;

    if (*warned)
        return;
    *warned = true;
    core->log(core->group, SYMC_LOG_WARN,
        "%s of group %s: rank %d: errors.nan_check: %s, now and later",
        core->kinds[op->kind].name, core->name,
        symc_cuda_world_rank(group, group->rank), why);
}

static symmcoll_status_t search(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, const void *in, uint64_t count,
    int part)
{
    int at = group->unused_nan;
    struct symc_nan_args args = {
        .in = in, .count = count, .type = (uint32_t)op->dtype};

    if (count == 0)
        return SYMMCOLL_OK;
    if (at == NONE) {
        warn_unsearched(group, op, &group->warned_full,
            "too many operations run at once to search what they send");
        return SYMMCOLL_OK;
    }
    group->unused_nan = group->nans[at].next;
    group->nans[at] = (struct symc_cuda_nan){
        .count = count, .part = part, .next = group->launching.nan};
    group->launching.nan = at;
    group->words->nans[at] = (struct symc_device_nan){.first = UINT64_MAX};
    args.found = &group->device_words->nans[at];
    return symc_kernel_launch(&group->kernels, SYMC_KERNEL_NAN_SCAN, op->dtype,
        symc_cuda_grid(&group->limits, SYMC_KERNEL_NAN_SCAN, group->size,
            count * op->elem),
        stream, &args);
}

static symmcoll_status_t search_buffers(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    const size_t parts =
        symc_parts_count(group->core->kinds[op->kind].in_parts, group->size);
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < op->buffers && status == SYMMCOLL_OK; i++) {
        struct symc_op one = symc_op_of_listed(op, i);

        status = search(group, op, stream, one.in, one.count * parts, i);
    }
    return status;
}

symmcoll_status_t symc_cuda_nans_search(struct symc_cuda_group *group,
    const struct symc_op *op, CUstream stream, bool captured)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    bool sends =
        op->root == group->rank || (info->traits & SYMC_FROM_ROOT) == 0;
    const struct symc_lists *lists = op->listed ? op->lists : NULL;
    symmcoll_status_t status = SYMMCOLL_OK;

    group->launching.nan = NONE;
    if (group->nans == NULL || !sends || info->in_parts == SYMC_NO_PART ||
        (info->traits & SYMC_MOVES) != 0 || !has_nans(op->dtype))
        return SYMMCOLL_OK;
    if (captured) {
        warn_unsearched(group, op, &group->warned_captured,
            "what is captured in a graph is not searched");
        return SYMMCOLL_OK;
    }
    if ((info->traits & SYMC_COALESCED) != 0)
        return search_buffers(group, op, stream);
    if (lists == NULL)
        return search(group, op, stream, op->in,
            op->count * symc_parts_count(info->in_parts, group->size), NONE);
    if (lists->ins == NULL)
        return search(group, op, stream, op->in, lists->in_total, NONE);
    for (int r = 0; r < group->size && status == SYMMCOLL_OK; r++)
        status = search(
            group, op, stream, lists->ins[r], symc_op_in_count(op, r), r);
    return status;
}

/* ---- results ---- */

static symmcoll_status_t report(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_nan *nan,
    const struct symc_device_nan *found)
{
    const struct symc_core *core = group->core;
    const char *plural = found->count == 1 ? " is" : "s are";
    int rank = symc_cuda_world_rank(group, group->rank);
    char which[32] = "in";

    if (nan->part != NONE)
        (void)snprintf(which, sizeof(which), "ins[%d]", nan->part);
    if (setting_of(group) == ERROR) {
        (void)core->fail(SYMMCOLL_ERR_INVALID,
            "rank %d: expected numbers, found element %llu of %s NaN (%llu "
            "element%s, of %llu)",
            rank, (unsigned long long)found->first, which,
            (unsigned long long)found->count, plural,
            (unsigned long long)nan->count);
        return core->raise(core->group, op, SYMMCOLL_ERR_INVALID);
    }
    core->log(core->group, SYMC_LOG_WARN,
        "%s seq %llu of group %s: rank %d: element %llu of %s is NaN (%llu "
        "element%s, of %llu)",
        core->kinds[op->kind].name, (unsigned long long)op->seq, core->name,
        rank, (unsigned long long)found->first, which,
        (unsigned long long)found->count, plural,
        (unsigned long long)nan->count);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cuda_nans_judge(
    struct symc_cuda_group *group, const struct symc_cuda_token *token)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (group->nans == NULL)
        return SYMMCOLL_OK;
    for (int at = token->call.nan; at != NONE && status == SYMMCOLL_OK;
         at = group->nans[at].next) {
        const struct symc_device_nan found = group->words->nans[at];

        if (found.count != 0)
            status = report(group, &token->op, &group->nans[at], &found);
    }
    return status;
}

void symc_cuda_nans_end(
    struct symc_cuda_group *group, struct symc_cuda_token *token)
{
    int at = token->call.nan;

    while (group->nans != NULL && at != NONE) {
        int next = group->nans[at].next;

        group->nans[at].next = group->unused_nan;
        group->unused_nan = at;
        at = next;
    }
    token->call.nan = NONE;
}
