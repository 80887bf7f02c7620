/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits of a communicator of the stand-in for NCCL. As with NCCL the parent
 * is in progress until all of its ranks have called, the new communicator is
 * returned when the parent's call has ended or was aborted, and an error stays
 * with the parent.
 */
#include "t/nccl/comms.h"

#include <stdatomic.h>
#include <stddef.h>

/* Returns the number of the next split of a communicator. */
static int take_number(struct symc_nccl_comm *comm)
{
    if (comm->splits >= FAKE_SPLITS)
        fake_nccl_die("there are too many splits");
    return comm->splits++;
}

API int ncclCommSplit(struct symc_nccl_comm *comm, int color, int key,
    struct symc_nccl_comm **made, struct symc_nccl_config *config);

int ncclCommSplit(struct symc_nccl_comm *comm, int color, int key,
    struct symc_nccl_comm **made, struct symc_nccl_config *config)
{
    int number;

    fake_group_leave_out();
    fake_nccl_enter(comm);
    *made = NULL;
    if (config->blocking != 0 || config->split_share != 0)
        fake_nccl_die("a config of a split is wrong");
    if (comm->phase != FAKE_READY || comm->pending != NULL ||
        atomic_load(&comm->running) != 0)
        fake_nccl_die("a communicator is split that is not quiet");
    if (atomic_load(&fake_nccl.split_result) != 0)
        return fake_nccl_leave(comm, atomic_load(&fake_nccl.split_result));
    number = take_number(comm);
    if (color == SYMC_NCCL_NO_COLOR)
        atomic_fetch_add(&fake_nccl.left_out, 1);
    else
        comm->child = fake_comm_add();
    comm->child_at = made;
    comm->before = comm->phase;
    comm->phase = FAKE_SPLITTING;
    comm->awaited = atomic_load(&comm->clique->size);
    comm->questions = atomic_load(&fake_nccl.slow);
    comm->clique->splits[number].colors[comm->rank] = color;
    comm->clique->splits[number].keys[comm->rank] = key;
    atomic_fetch_add(&comm->clique->splits[number].told, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS); /* still in progress */
}

/* Finds the new clique; NULL: not created yet. */
static struct fake_clique *find_clique(
    struct symc_nccl_comm *comm, int size, int *members, int *rank)
{
    struct fake_clique *clique = comm->clique;
    int number = comm->splits - 1, first = -1;
    const int *colors = clique->splits[number].colors;
    const int *keys = clique->splits[number].keys;

    *members = *rank = 0;
    for (int r = 0; r < size; r++) {
        if (colors[r] != colors[comm->rank])
            continue;
        first = first < 0 ? r : first;
        *members += 1;
        *rank += keys[r] < keys[comm->rank] ||
                 (r < comm->rank && keys[r] == keys[comm->rank]);
    }
    if (first == comm->rank && !clique->splits[number].drawn[first]) {
        if (fake_clique_draw(&clique->splits[number].ids[first]) != 0)
            fake_nccl_die("there is no id");
        atomic_store(&clique->splits[number].drawn[first], 1);
    }
    return atomic_load(&clique->splits[number].drawn[first])
               ? fake_clique_find(&clique->splits[number].ids[first])
               : NULL;
}

int fake_split_ask(struct symc_nccl_comm *comm)
{
    struct symc_nccl_comm *child = comm->child;
    int size = atomic_load(&comm->clique->size), members, rank;
    struct fake_clique *clique;

    if (atomic_load(&fake_nccl.split_error) != 0)
        return comm->broken = atomic_load(&fake_nccl.split_error);
    if (atomic_load(&fake_nccl.split_hangs))
        return SYMC_NCCL_IN_PROGRESS;
    if (atomic_load(&comm->clique->splits[comm->splits - 1].told) <
            comm->awaited ||
        comm->questions-- > 0)
        return SYMC_NCCL_IN_PROGRESS;
    comm->questions = 0;
    if (child != NULL && child->clique == NULL) {
        clique = find_clique(comm, size, &members, &rank);
        if (clique == NULL)
            return SYMC_NCCL_IN_PROGRESS;
        fake_comm_join(child, clique, members, rank);
    }
    if (child != NULL &&
        atomic_load(&child->clique->joined) < atomic_load(&child->clique->size))
        return SYMC_NCCL_IN_PROGRESS;
    if (child != NULL) {
        child->phase = FAKE_READY;
        child->questions = 0;
        *comm->child_at = child;
        atomic_fetch_add(
            comm->excluded != 0 ? &fake_nccl.shrunk : &fake_nccl.split, 1);
    } else {
        *comm->child_at = NULL; /* the rank has no new communicator */
    }
    comm->child = NULL;
    comm->phase = comm->before;
    return SYMC_NCCL_SUCCESS;
}

/* ---- since 2.27 ---- */

#ifndef NCCL_FEW

API int ncclCommShrink(struct symc_nccl_comm *comm, int *excluded, int count,
    struct symc_nccl_comm **made, struct symc_nccl_config *config, int flags);

/* Shrinks like a split into the remaining members, which alone call it. */
int ncclCommShrink(struct symc_nccl_comm *comm, int *excluded, int count,
    struct symc_nccl_comm **made, struct symc_nccl_config *config, int flags)
{
    int size = atomic_load(&comm->clique->size), number, mask = 0;

    fake_group_leave_out();
    fake_nccl_enter(comm);
    *made = NULL;
    for (int i = 0; i < count; i++)
        mask |= 1 << excluded[i];
    if (config->blocking != 0 || count < 1 || flags != SYMC_NCCL_SHRINK_ABORT ||
        mask >> size != 0 || (mask >> comm->rank & 1) != 0)
        fake_nccl_die("a communicator is shrunk without ranks, or the caller");
    if ((comm->phase != FAKE_REVOKED || !comm->quiet) &&
        comm->phase != FAKE_READY)
        fake_nccl_die("a communicator is shrunk that is not quiet");
    if (atomic_load(&fake_nccl.shrink_result) != 0)
        return fake_nccl_leave(comm, atomic_load(&fake_nccl.shrink_result));
    number = take_number(comm);
    comm->child = fake_comm_add();
    comm->child_at = made;
    comm->before = comm->phase;
    comm->phase = FAKE_SPLITTING;
    comm->excluded = mask;
    comm->awaited = size - count;
    comm->questions = atomic_load(&fake_nccl.slow);
    comm->clique->splits[number].colors[comm->rank] = 1 + mask;
    comm->clique->splits[number].keys[comm->rank] = comm->rank;
    atomic_fetch_add(&comm->clique->splits[number].told, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

#endif
