/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on devices that NCCL serves: exchanges of unlike parts, and large ones.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_RUN_H
#define SYMC_CUDA_NCCL_NCCL_RUN_H

#include "cuda/device_group.h"
#include "cuda/nccl/nccl_comm.h"

/* ---- nccl_choice.c ---- */

/* Whether NCCL does an operation of a group of so many, each on a device of its own;
 * and what its elements are to NCCL (out). */
bool symc_cuda_nccl_need(const struct symc_cuda_limits *limits, int size,
    const struct symc_kind_info *info, const struct symc_op *op,
    struct symc_cuda_elements *elements);

/* ---- nccl_config.c ---- */

/* Fill in a communicator's config (out) as the settings have it.
 * Errors: UNSUPPORTED (this NCCL is too old for one), CONFIG (more blocks at least
 * than at most, variables of NCCL that do not leave it so). */
symmcoll_status_t symc_cuda_nccl_configure(const struct symc_core *core,
    const struct symc_nccl *nccl, struct symc_nccl_config *config);

/* Until when members wait for each other from now on, while they make all of NCCL's
 * that an operation needs: as for a backend that it opens, which may take longer than
 * it does itself. */
struct symc_cuda_until symc_cuda_making_until(
    const struct symc_core *core, const struct symc_op *op);

/* ---- nccl_where.c ---- */

/* Where a communicator of the group is ended (out), with a use of the context that
 * outlives the group; for symc_cuda_comm_open(). */
symmcoll_status_t symc_cuda_find_where(
    const struct symc_cuda_group *group, struct symc_cuda_where *where);

/* ---- nccl_split.c ---- */

/* See struct symc_admin_ops: the group's communicator.
 * Errors: UNSUPPORTED (NCCL cannot), those of symc_cuda_comm_open(). */
bool symc_cuda_can_split(void *state);
symmcoll_status_t symc_cuda_split(
    void *state, const struct symc_heir *heir, void **made);
void symc_cuda_drop(void *made);

/* What was split for this group, or handed to it: it has no use for that.  Where
 * core->inherit may be called. */
void symc_cuda_drop_inherited(const struct symc_cuda_group *group);

/* Collective, as symc_cuda_prepare(): take (out) what was split for this group, or
 * shrink what it was handed, where all members have it; else there is none, and at
 * least half of the time is left to make one.  Errors: those of core->gather. */
symmcoll_status_t symc_cuda_comm_adopt(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl_config *config,
    struct symc_cuda_comm **comm);

/* Those of which nothing but their memory is left. */
void symc_cuda_retired_close(struct symc_cuda_group *group);

/* ---- nccl_shrink.c ---- */

/* See struct symc_admin_ops: the group's communicator, which is stopped. */
void *symc_cuda_hand_on(void *state, const int *excluded, int count);

/* ---- nccl_run.c ---- */

/* See struct symc_coll_ops: a communicator.
 * Errors: UNSUPPORTED (a member is not in the primary context of its device, there is
 * no NCCL), those of symc_cuda_comm_open(). */
bool symc_cuda_needs(void *state, const struct symc_op *op);
symmcoll_status_t symc_cuda_prepare(void *state, const struct symc_op *op);
void symc_cuda_forgo(void *state);

/* What this rank alone can see to be wrong: INVALID (the thread is in a group of calls
 * of the program's). */
symmcoll_status_t symc_cuda_check_grouped(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* When it is started: whether an operation is NCCL's, alike on all members.  One
 * that a member captures is not. */
bool symc_cuda_is_by_nccl(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* See struct symc_coll_ops. */
const char *symc_cuda_inside(void *state);

/* In the context.  Errors: those of symc_cuda_comm_exchange(). */
symmcoll_status_t symc_cuda_enqueue_nccl(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* Of what NCCL has enqueued: see symc_cuda_comm_watch(). */
symmcoll_status_t symc_cuda_watch_nccl(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token);

/* It is over: whether it has ended as it should, for it ends early where its
 * communicator is aborted. */
symmcoll_status_t symc_cuda_judge_nccl(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token);

/* The group is closed and its communicators stay, with what may still run: they are
 * not counted any more. */
void symc_cuda_forget_nccl(const struct symc_cuda_group *group);

/* Stop all that NCCL has in progress.  Any thread may call it at any time. */
void symc_cuda_abort_nccl(const struct symc_cuda_group *group);

/* The same as symc_cuda_comm_try_abort(). */
void symc_cuda_try_abort_nccl(const struct symc_cuda_group *group);

#endif
