/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rendezvous of symmetric memory under way.  Private to this directory.
 */
#ifndef SYMC_SYMM_MEM_SYMM_RENDEZVOUS_H
#define SYMC_SYMM_MEM_SYMM_RENDEZVOUS_H

#include "symm_mem/symm_mem.h"

/* What a member tells in the first round. */
struct symc_symm_told {
    int32_t status;
    uint32_t memfd;       /* 1: data_at is there, not in the arena */
    int32_t device;       /* enum symmcoll_device */
    int32_t device_index; /* which of its kind: may differ */
    uint64_t nbytes;
    uint64_t pad_nbytes;
    uint64_t offset; /* of the handle */
    uint64_t data_at;
    uint64_t pad_at;
    uint64_t mapped; /* of the memfd */
    uint64_t
        former; /* number of a former rendezvous, without `words`; 0: none */
    struct symc_offer words;
};
_Static_assert(sizeof(struct symc_symm_told) <= sizeof(struct symc_verdict),
    "what all tell fits the group's verdicts");

/* A rendezvous under way. */
struct symc_symm_rendezvous {
    struct symmcoll_group *group;
    const struct symc_symm_offer *offer;
    struct symc_symm *symm;
    struct symc_symm_told mine;
    const struct symc_symm_told
        *all;     /* in the group's verdicts, until the next round */
    bool offered; /* the segment; the buffer has a user more for it */
    struct symc_share *share;
    struct symc_share *former; /* it has a user more; NULL: none */
    symmcoll_status_t own;     /* why this rank cannot, with its detail */
    char detail[SYMC_DETAIL_MAX];
};

/* What a round may take, so that the whole ends in time. */
static inline int64_t symc_symm_time_left(int64_t deadline_ns)
{
    int64_t left;

    if (deadline_ns == SYMC_NEVER)
        return SYMC_NEVER;
    left = deadline_ns - symc_now_ns();
    return left > 0 ? left : 0;
}

/* Begin the flight recorder's entry of a call whose members tell so many bytes;
 * symc_group_record_end() ends it. */
struct symc_trace_entry *symc_symm_record(struct symmcoll_group *group,
    enum symc_kind kind, size_t nbytes, int64_t deadline_ns);

/* Map everything that the members have told.  Errors: NO_MEMORY, SYSTEM, INVALID
 * (what a member has told cannot be), and those of an exchange. */
symmcoll_status_t symc_symm_open(struct symc_symm_rendezvous *rendezvous);

/* ---- symm_join.c: in the memory of devices ---- */

/* Whether this rank's allocation can be joined in the group.  Errors: INVALID
 * (the group is on another device). */
symmcoll_status_t symc_symm_check_device(
    const struct symc_symm_rendezvous *rendezvous);

/* Whether all members are in the same kind of memory.  Errors: MISMATCH (which
 * each has), the same on all. */
symmcoll_status_t symc_symm_compare_places(
    const struct symc_symm_rendezvous *rendezvous);

/* Map what all members have.  Where the group has no backend of devices yet, that
 * is opened first, for which symc_slot_open() has a deadline of its own.  Errors:
 * the same on all. */
symmcoll_status_t symc_symm_join(struct symc_symm_rendezvous *rendezvous);

#endif
