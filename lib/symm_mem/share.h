/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares: allocations in groups.  Private to this directory, as what handles are
 * made of.
 */
#ifndef SYMC_SYMM_MEM_SHARE_H
#define SYMC_SYMM_MEM_SHARE_H

#include "symm_mem/symm_mem.h"

/* ---- share_left.c: what is let go of under the lock ---- */

/* Have symc_symm_unlock() release what is a backend's: memory that has been joined,
 * or memory that it has allocated.  NULL: nothing. */
void symc_left_joined(struct symc_symm *symm, const struct symc_memory_ops *mem,
    struct symc_joined *joined);
void symc_left_memory(
    struct symc_symm *symm, const struct symc_memory_ops *mem, void *memory);

/* ---- share.c; all under the lock ---- */

/* The backend's memory of it and its pads, once they have been joined; then the
 * share's. */
void symc_share_join(struct symc_share *share, struct symc_joined *joined,
    struct symc_joined *pads);

/* That of a group; NULL: it has not joined it since that was made, or
 * used once more. */
struct symc_share *symc_share_find(struct symc_symm *symm,
    const struct symmcoll_group *group,
    const struct symc_allocation *allocation);

/* That of a group from before an allocation of a pool was used once more; NULL:
 * there is none. */
struct symc_share *symc_share_find_former(struct symc_symm *symm,
    const struct symmcoll_group *group,
    const struct symc_allocation *allocation);

/* All members have the same former one: it is that of the allocation again. */
void symc_share_renew(struct symc_share *share);

/* Not all have: operations find it no more, and the allocation leaves it. */
void symc_share_retire(struct symc_share *share);

/* Whether this rank has a handle of an allocation, under the lock. */
bool symc_shares_have_handle(
    const struct symc_symm *symm, const struct symc_allocation *allocation);

/* One without its members' addresses; the allocation has a user more.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_share_create(struct symc_symm *symm,
    struct symmcoll_group *group, struct symc_allocation *allocation,
    struct symc_share **share);

/* Throw one away that has not been listed. */
void symc_share_discard(struct symc_share *share);

/* List one, with the allocation as its user, where that has not been freed. */
void symc_share_enlist(struct symc_share *share);

/* The handle for an offset in the allocation, made where there is none; NULL:
 * no memory. */
struct symmcoll_symm *symc_share_handle(
    struct symc_share *share, size_t offset, bool make);

/* So many users fewer; the last one leaves its memory: at once where nothing on a
 * device can use it, else in a later symc_shares_reap(), with its group, or at the
 * world's end.  awaited: of these users nothing runs that the share does not tell as
 * ended. */
void symc_share_drop(struct symc_share *share, uint32_t users, bool awaited);

/* Leave the memory of all that have no users any more, and that nothing on a device
 * can use; whether some of that are left, which something may use. */
bool symc_shares_reap(struct symc_symm *symm);

/* Whether something on a device may still use an allocation that no handle is on, or
 * its group is being released. */
bool symc_allocation_is_busy(
    const struct symc_symm *symm, const struct symc_allocation *allocation);

/* The allocation is freed: operations do not find it any more.  One with an id
 * is allocated once more: they do. */
void symc_shares_free(struct symc_symm *symm,
    const struct symc_allocation *allocation, bool awaited);
void symc_shares_revive(
    struct symc_symm *symm, const struct symc_allocation *allocation);

/* Forget those of a group that are gone, under its ticket, and make room for one
 * more in its table. */
symmcoll_status_t symc_shares_sweep(
    struct symc_symm *symm, struct symmcoll_group *group);

/* A group is being released: nobody enters it by its shares any more, and who has
 * leaves it.  Once what runs on a device has ended: they have no group. */
void symc_shares_cut(struct symc_symm *symm, struct symmcoll_group *group);
void symc_shares_leave_group(
    struct symc_symm *symm, struct symmcoll_group *group);

/* The world is being finalized: let go of all memory. */
void symc_shares_end(struct symc_symm *symm);

/* ---- share_await.c: before memory of a device is left; under the lock ---- */

/*
 * Wait until nothing that this rank has enqueued so far in a share's group can use
 * its memory: by then what has a deadline has ended, or been ended, and what has
 * none has had the timeout of its call.  The lock is released meanwhile, and the
 * share has a user more.
 * Errors: TIMEOUT (what still runs, on which stream), DEVICE (the group was released
 * before a device had let go of the memory); nothing has changed then.
 */
symmcoll_status_t symc_share_await(
    struct symc_symm *symm, struct symc_share *share, const char *where);

/* The same of all shares of an allocation, in calls with the same number, which is
 * one more than symm->awaits was.  IN_PROGRESS: the lock was released, and the
 * allocation may be gone: look anew, and call again. */
symmcoll_status_t symc_allocation_await(struct symc_symm *symm,
    const struct symc_allocation *allocation, uint64_t number,
    const char *where);

#endif
