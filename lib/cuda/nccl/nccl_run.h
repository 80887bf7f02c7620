/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on devices that NCCL serves: exchanges of parts of different sizes, and
 * large operations.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_RUN_H
#define SYMC_CUDA_NCCL_NCCL_RUN_H

#include "cuda/device_group.h"
#include "cuda/nccl/nccl_comm.h"

/* ---- nccl_choice.c ---- */

/* Returns whether NCCL serves an operation of a group of `size` ranks with a device each,
 * and the operation's elements in NCCL's terms (out). */
bool symc_cuda_nccl_need(const struct symc_cuda_limits *limits, int size,
    const struct symc_kind_info *info, const struct symc_op *op,
    struct symc_cuda_elements *elements);

/* ---- nccl_config.c ---- */

/* Sets a communicator's config (out) from the settings.
 * Errors: UNSUPPORTED (this NCCL is too old for one), CONFIG (more blocks at least than
 * at most, a variable of NCCL that overrides the config). */
symmcoll_status_t symc_cuda_nccl_configure(const struct symc_core *core,
    const struct symc_nccl *nccl, struct symc_nccl_config *config);

/* Returns the deadline, from now on, for members to make the objects of NCCL that an
 * operation needs: timeouts.init, as for opening a backend, or the operation's timeout if
 * it is longer. */
struct symc_cuda_until symc_cuda_making_until(
    const struct symc_core *core, const struct symc_op *op);

/* ---- nccl_where.c ---- */

/* Returns the context in which a communicator of the group is ended (out), with its own
 * use that outlives the group; for symc_cuda_comm_open(). */
symmcoll_status_t symc_cuda_find_where(
    const struct symc_cuda_group *group, struct symc_cuda_where *where);

/* ---- nccl_split.c ---- */

/* can_split(), split() and drop() of struct symc_admin_ops, for the group's
 * communicator.
 * Errors: UNSUPPORTED (NCCL cannot), INVALID (the thread is in a group of calls), those
 * of symc_cuda_nccl_configure() and symc_cuda_comm_open(). */
bool symc_cuda_can_split(void *state);
symmcoll_status_t symc_cuda_split(
    void *state, const struct symc_heir *heir, void **made);
void symc_cuda_drop(void *made);

/* Drops what the group has inherited but cannot use.  core->inherit must be allowed. */
void symc_cuda_drop_inherited(const struct symc_cuda_group *group);

/* Collective, in symc_cuda_prepare(): takes the communicator (out) that was split for
 * this group, or shrinks the inherited one, if all members can; otherwise returns none,
 * and at least half of the time is left to make one.  Errors: those of core->gather. */
symmcoll_status_t symc_cuda_comm_adopt(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl_config *config,
    struct symc_cuda_comm **comm);

/* Frees former communicators, of which only memory is left. */
void symc_cuda_retired_close(struct symc_cuda_group *group);

/* ---- nccl_shrink.c ---- */

/* hand_on() of struct symc_admin_ops: stops the group's communicator and hands it on. */
void *symc_cuda_hand_on(void *state, const int *excluded, int count);

/* ---- nccl_run.c ---- */

/* needs(), prepare() and forgo() of struct symc_device_ops, for a communicator.
 * Errors: UNSUPPORTED (a member is not in the primary context of its device, no NCCL),
 * INVALID (the thread is in a group of calls), those of symc_cuda_nccl_configure() and
 * symc_cuda_comm_open(). */
bool symc_cuda_needs(
    void *state, const struct symc_op *op, const struct symc_agreed *agreed);
symmcoll_status_t symc_cuda_prepare(
    void *state, const struct symc_op *op, const struct symc_agreed *agreed);
void symc_cuda_forgo(void *state);

/* Checks that the calling thread is not in a group of NCCL's calls by the program, for an
 * operation that NCCL serves.  Errors: INVALID. */
symmcoll_status_t symc_cuda_check_grouped(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* Returns whether NCCL serves an operation that is being started, alike on all members.
 * An operation that a member captures it does not. */
bool symc_cuda_is_by_nccl(
    const struct symc_cuda_group *group, const struct symc_op *op);

/* inside() of struct symc_device_ops. */
const char *symc_cuda_inside(void *state);

/* Enqueues an operation with NCCL.  The context must be current.  Errors: INVALID (the
 * thread is in a group of calls), those of symc_cuda_comm_exchange(). */
symmcoll_status_t symc_cuda_enqueue_nccl(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream);

/* symc_cuda_comm_watch() for an operation that NCCL has enqueued. */
symmcoll_status_t symc_cuda_watch_nccl(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token);

/* Checks an operation of NCCL that has ended: it ends early if its communicator is
 * aborted. */
symmcoll_status_t symc_cuda_judge_nccl(
    const struct symc_cuda_group *group, const struct symc_cuda_token *token);

/* Stops counting the communicators of a group that was closed but keeps them, with work
 * that may still run. */
void symc_cuda_forget_nccl(const struct symc_cuda_group *group);

/* Aborts all communicators of the group.  Any thread may call it at any time. */
void symc_cuda_abort_nccl(const struct symc_cuda_group *group);

/* symc_cuda_comm_try_abort() for all communicators of the group. */
void symc_cuda_try_abort_nccl(const struct symc_cuda_group *group);

#endif
