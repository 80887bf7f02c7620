/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rendezvous of symmetric memory in progress. Private to this directory.
 */
#ifndef SYMC_SYMM_MEM_SYMM_RENDEZVOUS_H
#define SYMC_SYMM_MEM_SYMM_RENDEZVOUS_H

#include "symm_mem/symm_mem.h"

/* The data that a member publishes in the first round. */
struct symc_symm_published {
    int32_t status;
    uint32_t memfd; /* 1: data_at is an offset in a memfd, not in the arena */
    int32_t device; /* enum symmcoll_device */
    int32_t device_index; /* index among the devices of its kind; may differ */
    uint64_t nbytes;
    uint64_t pad_nbytes;
    uint64_t offset; /* offset of the handle */
    uint64_t data_at;
    uint64_t pad_at;
    uint64_t mapped; /* bytes of the memfd */
    /* number of a former rendezvous, sent without words; 0: none */
    uint64_t former;
    struct symc_offer words;
};
_Static_assert(
    sizeof(struct symc_symm_published) <= sizeof(struct symc_verdict),
    "what a member publishes fits the group's verdicts");

/* A rendezvous in progress. */
struct symc_symm_rendezvous {
    struct symmcoll_group *group;
    const struct symc_symm_offer *offer;
    struct symc_symm *symm;
    struct symc_symm_published mine;
    /* in the verdicts of the group, until the next round */
    const struct symc_symm_published *all;
    /* the segment is offered; the buffer has one more reference */
    bool offered;
    struct symc_share *share;
    struct symc_share *former; /* holds a reference; NULL: none */
    struct symc_error own;     /* this rank's error, or OK */
};

/* Returns the time left for a round, so that the whole rendezvous ends by its
 * deadline. */
static inline int64_t symc_symm_time_left(int64_t deadline_ns)
{
    int64_t left;

    if (deadline_ns == SYMC_NEVER)
        return SYMC_NEVER;
    left = deadline_ns - symc_now_ns();
    return left > 0 ? left : 0;
}

/* Starts the flight recorder entry of a call in which each member publishes
 * nbytes. symc_group_record_end() ends the entry. */
struct symc_trace_entry *symc_symm_record(struct symmcoll_group *group,
    enum symc_kind kind, size_t nbytes, int64_t deadline_ns);

/* Maps the memory that the members have published. Errors: NO_MEMORY, SYSTEM,
 * INVALID (invalid data of a member), and those of an exchange. */
symmcoll_status_t symc_symm_open(struct symc_symm_rendezvous *rendezvous);

/* ---- symm_join.c: device memory ---- */

/* Checks that this rank can join its allocation in the group. Errors: INVALID
 * (the group is on another device). */
symmcoll_status_t symc_symm_check_device(
    const struct symc_symm_rendezvous *rendezvous);

/* Checks that all members passed the same kind of memory. Errors: MISMATCH (the
 * kinds that two members passed), the same on all ranks. */
symmcoll_status_t symc_symm_compare_places(
    const struct symc_symm_rendezvous *rendezvous);

/* Maps the device memory of all members. Opens the backend of the group first
 * if it has none; symc_slot_open() has its own deadline for that. Errors: the
 * same on all ranks. */
symmcoll_status_t symc_symm_join(struct symc_symm_rendezvous *rendezvous);

#endif
