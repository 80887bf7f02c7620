/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the attendant looks at now and then: whether a kernel gave up that no token
 * stands for, since it is in a graph; and whether a member has left for which
 * kernels may wait.
 *
 * What a member did before it left has arrived: kernels that wait for it are told
 * to end, and those that find its signal there end as they should.
 */
#include "cuda/calls.h"

/* Before that: its last kernel may have ended a moment before ours. */
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
        return SYMMCOLL_IN_PROGRESS; /* its token is tested */
    *op = *known.op;
    return symc_cuda_explain(group, known.op);
}
