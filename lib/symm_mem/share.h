/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares: an allocation together with a group that has joined it. Private to
 * this directory; handles refer to shares.
 */
#ifndef SYMC_SYMM_MEM_SHARE_H
#define SYMC_SYMM_MEM_SHARE_H

#include "symm_mem/symm_mem.h"

/* ---- share_left.c: deferred release of device memory ---- */

/* Queue memory for release by symc_symm_unlock(): memory that was joined, or
 * memory that a backend allocated. NULL is ignored. */
void symc_left_joined(struct symc_symm *symm, const struct symc_memory_ops *mem,
    struct symc_joined *joined);
void symc_left_memory(
    struct symc_symm *symm, const struct symc_memory_ops *mem, void *memory);

/* ---- share.c; every function under the lock ---- */

/* Stores the joined data and pads of the backend in the share, which owns them
 * from then on. */
void symc_share_join(struct symc_share *share, struct symc_joined *joined,
    struct symc_joined *pads);

/* Returns the share of an allocation in a group. NULL: the group has not joined
 * the allocation since it was made or reused. */
struct symc_share *symc_share_find(struct symc_symm *symm,
    const struct symmcoll_group *group,
    const struct symc_allocation *allocation);

/* Returns a share that dates from before an allocation of a pool was reused;
 * NULL: none. */
struct symc_share *symc_share_find_former(struct symc_symm *symm,
    const struct symmcoll_group *group,
    const struct symc_allocation *allocation);

/* Makes a former share valid again, once every member has found the same
 * one. */
void symc_share_renew(struct symc_share *share);

/* Retires a former share that not every member has: the allocation drops its
 * reference. */
void symc_share_retire(struct symc_share *share);

/* Returns whether this rank holds a handle on an allocation. */
bool symc_shares_have_handle(
    const struct symc_symm *symm, const struct symc_allocation *allocation);

/* Creates a share without the members' addresses. It holds a reference to the
 * allocation. Errors: NO_MEMORY. */
symmcoll_status_t symc_share_create(struct symc_symm *symm,
    struct symmcoll_group *group, struct symc_allocation *allocation,
    struct symc_share **share);

/* Frees a share that has not been listed. */
void symc_share_discard(struct symc_share *share);

/* Lists a share. The allocation holds a reference to it unless it has been
 * freed. */
void symc_share_enlist(struct symc_share *share);

/* Returns the handle for an offset in the allocation, made on request; NULL:
 * not made or out of memory. */
struct symmcoll_symm *symc_share_handle(
    struct symc_share *share, size_t offset, bool make);

/* Drops references. The last one leaves the memory: at once if no device can
 * use it, else in a later symc_shares_reap(), with its group, or when the world
 * ends. awaited: the caller has waited for the device operations of these
 * references, and share->ended covers them. */
void symc_share_drop(struct symc_share *share, uint32_t users, bool awaited);

/* Leaves the memory of every share without references that no device can use.
 * Returns whether a device may still use some of them. */
bool symc_shares_reap(struct symc_symm *symm);

/* Returns whether a device may still use an allocation that no handle refers
 * to, or a group that joined it is being released. */
bool symc_allocation_is_busy(
    const struct symc_symm *symm, const struct symc_allocation *allocation);

/* Marks the shares of a freed allocation, so that operations do not find them.
 * symc_shares_revive() undoes it when an allocation with an id is allocated
 * again. */
void symc_shares_free(struct symc_symm *symm,
    const struct symc_allocation *allocation, bool awaited);
void symc_shares_revive(
    struct symc_symm *symm, const struct symc_allocation *allocation);

/* Frees the closed shares of a group, under its ticket, and makes room for one
 * more in its table. Errors: NO_MEMORY. */
symmcoll_status_t symc_shares_sweep(
    struct symc_symm *symm, struct symmcoll_group *group);

/* Called when a group is released: no thread enters the group by its shares any
 * more, and this call returns when every thread inside has left. */
void symc_shares_cut(struct symc_symm *symm, struct symmcoll_group *group);
/* Called when the device operations of a released group have ended: detaches
 * its shares from it. */
void symc_shares_leave_group(
    struct symc_symm *symm, struct symmcoll_group *group);

/* Leaves all memory when the world is finalized. */
void symc_shares_end(struct symc_symm *symm);

/* ---- share_await.c: waiting for device operations; under the lock ---- */

/*
 * Waits until no operation that this rank has already enqueued in the share's
 * group can use its memory. By then an operation with a deadline has ended or
 * has been aborted; one without has had the timeout of its call. The lock is
 * released during the wait, and the share holds one more reference.
 * Errors: TIMEOUT (the operations that still run, with their stream), DEVICE
 * (the group was released while a device still used the memory). Nothing has
 * changed then.
 */
symmcoll_status_t symc_share_await(
    struct symc_symm *symm, struct symc_share *share, const char *where);

/* Waits like symc_share_await() for every share of an allocation, one per call.
 * number is the same in each, and one more than symm->awaits was before.
 * IN_PROGRESS: the lock was released and the allocation may be gone; the caller
 * looks it up and calls again. */
symmcoll_status_t symc_allocation_await(struct symc_symm *symm,
    const struct symc_allocation *allocation, uint64_t number,
    const char *where);

#endif
