/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The periodic check by the attendant: whether a kernel in a graph, which has no token,
 * gave up; and whether a member has left that kernels may be waiting for.
 *
 * All that a member wrote before it left has arrived.  Kernels that wait for it get the
 * abort flag; a kernel whose signal is already there succeeds all the same.
 */
#include "cuda/calls.h"

/* The delay before kernels are aborted: the member's last kernel may have ended only just
 * before. */
#define LEFT_NS (SYMC_NS_PER_S / 10)

static void look_at_members(struct symc_cuda_group *group)
{
    const struct symc_core *core = group->core;
    int64_t now = core->now();

    for (int r = 0; r < group->size; r++) {
        if (r == group->rank || !core->failed(core->group, r))
            continue;
        if (group->left_ns[r] == 0)
            group->left_ns[r] = now;
        if (now - group->left_ns[r] < LEFT_NS)
            continue;
        __atomic_store_n(&group->words->left[r], 1, __ATOMIC_RELEASE);
        __atomic_store_n(&group->words->aborted, 1, __ATOMIC_RELEASE);
    }
}

symmcoll_status_t symc_cuda_look(void *state, struct symc_op *op)
{
    struct symc_cuda_group *group = state;
    const struct symc_core *core = group->core;
    const bool captured = group->captures.calls != NULL;
    struct symc_cuda_known known;

    if ((!captured && group->order.running == 0) ||
        core->failed(core->group, -1))
        return SYMMCOLL_OK;
    if (!symc_cuda_gave_up(group)) {
        look_at_members(group);
        return captured ? SYMMCOLL_IN_PROGRESS : SYMMCOLL_OK;
    }
    symc_cuda_abort(group);
    if (!symc_cuda_call_find(group, group->words->failure.number, &known) ||
        !known.captured)
        return SYMMCOLL_IN_PROGRESS; /* test() of its token reports it */
    *op = *known.op;
    return symc_cuda_explain(group, known.op);
}
