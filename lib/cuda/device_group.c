/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend for device memory: its table, and opening and closing it for a group.
 */
#include "cuda/device_group.h"
#include "cuda/access.h"
#include "cuda/calls.h"
#include "cuda/compute.h"
#include "cuda/find.h"
#include "cuda/joined.h"
#include "cuda/local.h"
#include "cuda/memory.h"
#include "cuda/nccl/nccl_run.h"
#include "cuda/nccl/nccl_window.h"
#include "cuda/transfer.h"
#include "cuda/words.h"

#include "backend/interface.h"

#include <stdatomic.h>
#include <stdlib.h>

#define CLOSE_NS SYMC_NS_PER_S /* for the other members to close, too */
#define ALIGNMENT 256          /* of the areas after the pad in a segment */

/* ---- closing ---- */

/* Frees all that the group has in its context, which must be current. */
static void free_parts(struct symc_cuda_group *group)
{
    symc_cuda_windows_close(group, CLOSE_NS);
    symc_cuda_comm_close(group->comm, CLOSE_NS);
    symc_cuda_retired_close(group);
    symc_cuda_order_close(group);
    symc_cuda_calls_close(group);
    symc_cuda_nans_close(group);
    symc_cuda_segment_close(group);
    symc_cuda_words_give(&group->context, &group->log, group->words);
}

/* Groups that were closed but are never released, until the process ends. */
static _Atomic(struct symc_cuda_group *) kept;

static void keep(struct symc_cuda_group *group)
{
    symc_cuda_forget_nccl(group);
    group->next_kept = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &group->next_kept, group)) {
    }
}

/* Keeps the group for ever if an operation could not be cancelled, or its end cannot be
 * detected: the device may still write to the group's memory. */
static void close_group(void *state)
{
    struct symc_cuda_group *group = state;
    struct symc_cuda_entered entered;

    if (group->order.running > 0 || group->order.lost) {
        keep(group);
        return;
    }
    if (group->context.cuda != NULL &&
        symc_cuda_enter(&group->context, &entered).result == CUDA_SUCCESS) {
        free_parts(group);
        symc_cuda_leave(&entered);
    }
    symc_cuda_context_close(&group->context);
    pthread_mutex_destroy(&group->lock);
    free(group);
}

/* ---- opening ---- */

static uint64_t round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

/* Lays out a segment: the pad that kernels synchronise with, packets, staging. */
static void lay_out(struct symc_cuda_group *group)
{
    group->packets = round_up(sizeof(struct symc_device_pad), ALIGNMENT);
    group->staging =
        round_up(group->packets + SYMC_PACKETS_NBYTES(group->size), ALIGNMENT);
}

static symmcoll_status_t take_words(struct symc_cuda_group *group)
{
    struct symc_cuda_called called;

    group->words =
        symc_cuda_words_take(&group->context, &group->device_words, &called);
    return group->words != NULL ? SYMMCOLL_OK
                                : symc_cuda_group_fail(group, called.result,
                                      "%s for words of kernels", called.name);
}

/* Opens the parts of a group.  An error before or between the collective calls reaches
 * the other members in their next one.  The context must be current. */
static symmcoll_status_t open_parts(struct symc_cuda_group *group)
{
    symmcoll_status_t status = symc_cuda_members_agree(group);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_order_open(group);
    if (status != SYMMCOLL_OK)
        return status;
    status = take_words(group);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_nans_open(group);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_kernels_load(
        group->cuda, group->core->fail, group->device, &group->kernels);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_cuda_use_first(group);
    if (status != SYMMCOLL_OK)
        return status;
    lay_out(group);
    return symc_cuda_segment_open(group);
}

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;

/* Returns the context of the buffers that the group is opened for.  The driver names none
 * for mapped memory: it is the one in which the memory was created.  NULL: unknown. */
static CUcontext find_wanted(
    const struct symc_cuda *cuda, const struct symc_peers *peers)
{
    const struct symc_cuda_memory *memory = peers->memory;
    CUcontext found =
        symc_cuda_context_find(cuda, peers->stream, peers->buffer);

    return found == NULL && memory != NULL && peers->owner == &symmcoll_backend
               ? memory->context.context
               : found;
}

/* Checks the number of ranks, and opens and enters the group's context. */
static symmcoll_status_t open_context(struct symc_cuda_group *group,
    const struct symc_peers *peers, struct symc_cuda_entered *entered)
{
    const struct symc_core *core = group->core;
    symmcoll_status_t status;

    if (peers->absent != NULL || peers->size > SYMC_KERNEL_RANKS)
        return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "expected 1 to %d ranks that are all there, found %d%s",
            SYMC_KERNEL_RANKS, peers->size,
            peers->absent != NULL ? ", of which others are simulated" : "");
    status = symc_cuda_load(core->fail, &group->cuda);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_context_open(group->cuda, core->fail, group->device,
            find_wanted(group->cuda, peers), &group->context);
    return status == SYMMCOLL_OK ? symc_cuda_group_enter(group, entered)
                                 : status;
}

static symmcoll_status_t open_group(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct symc_cuda_group *group = calloc(1, sizeof(*group));
    struct symc_cuda_entered entered = {.in = NULL};
    symmcoll_status_t status;

    if (group == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "no memory for a group");
    group->core = core;
    group->rank = peers->rank;
    group->size = peers->size;
    group->device = peers->device;
    group->threads = peers->threads;
    group->limits = symc_cuda_limits_get(core->settings);
    group->timed =
        core->settings->get_bool(core->settings->config, "trace.timing");
    pthread_mutex_init(&group->lock, NULL);
    status = open_context(group, peers, &entered);
    group->log = (struct symc_cuda_log){
        .cuda = group->cuda, .log = core->log, .of = core->group};
    if (status == SYMMCOLL_OK) {
        status = open_parts(group);
        symc_cuda_leave(&entered);
    }
    if (status != SYMMCOLL_OK) {
        close_group(group);
        return status;
    }
    *state = group;
    return SYMMCOLL_OK;
}

/* Always OK: open() reports what is missing, with a detail. */
static symmcoll_status_t probe(const struct symc_peers *peers)
{
    (void)peers;
    return SYMMCOLL_OK;
}

/* ---- the table ---- */

static const struct symc_device_ops device = {.serves = symc_cuda_serves,
    .searches = true,
    .start = symc_cuda_start,
    .test = symc_cuda_test,
    .watch = symc_cuda_watch,
    .expire = symc_cuda_expire,
    .cancel = symc_cuda_cancel,
    .abort = symc_cuda_abort,
    .look = symc_cuda_look,
    .check = symc_cuda_check,
    .reach = symc_cuda_reach,
    .inside = symc_cuda_inside,
    .needs = symc_cuda_needs,
    .prepare = symc_cuda_prepare,
    .forgo = symc_cuda_forgo,
    .describe = symc_cuda_name_algorithm,
    .mark = symc_cuda_mark,
    .unmark = symc_cuda_unmark,
    .follow = symc_cuda_follow};

static const struct symc_memory_ops mem = {
    .allocate = symc_cuda_memory_allocate,
    .import = symc_cuda_memory_import,
    .extent = symc_cuda_memory_extent,
    .free = symc_cuda_memory_free,
    .join = symc_cuda_join,
    .tabulate = symc_cuda_tabulate,
    .leave = symc_cuda_leave_joined,
    .access = symc_cuda_access};

static const struct symc_admin_ops admin = {.can_split = symc_cuda_can_split,
    .split = symc_cuda_split,
    .hand_on = symc_cuda_hand_on,
    .drop = symc_cuda_drop};

const struct symc_backend symmcoll_backend = {
    .interface = SYMC_BACKEND_INTERFACE,
    .name = "cuda",
    .priority = 50,
    .memory = SYMC_MEMORY_DEVICE,
    .find = symc_cuda_find,
    .refuse = symc_cuda_refuse,
    .is_present = symc_cuda_is_present,
    .is_one = symc_cuda_is_one,
    .find_whole = symc_cuda_find_whole,
    .is_captured = symc_cuda_stream_is_captured,
    .probe = probe,
    .open = open_group,
    .close = close_group,
    .device = &device,
    .mem = &mem,
    .local = &symc_cuda_local_ops,
    .compute = &symc_cuda_compute_ops,
    .transfer = &symc_cuda_transfer_ops,
    .admin = &admin};
