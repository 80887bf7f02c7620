/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading of a ring that may be torn, corrupt, or being written by another
 * process. These functions return only copied and checked values.
 */
#ifndef SYMC_TRACE_VIEW_H
#define SYMC_TRACE_VIEW_H

#include "trace/trace.h"

/* A ring's header, copied once because the original may change. */
struct symc_trace_view {
    const struct symc_trace_ring *ring;
    const struct symc_trace_group *table;
    uint32_t groups; /* slots ever used */
    uint32_t capacity;
    uint32_t keep;
    uint32_t rank;
    uint32_t world_size;
    uint32_t pid;
    struct symc_tick_rate rate;
    char host[65];
};

/* One entry, copied under its sequence lock. */
struct symc_trace_copy {
    uint64_t record_id;
    uint64_t seq;
    uint64_t other;
    uint64_t created;
    uint64_t started;
    uint64_t completed;
    uint64_t count;
    uint64_t out_count;
    int64_t timeout_ns;
    uint64_t thread_id;
    unsigned int kind;   /* enum symc_kind */
    unsigned int dtype;  /* enum symmcoll_dtype */
    unsigned int state;  /* enum symc_trace_state */
    unsigned int group;  /* below SYMC_TRACE_GROUPS */
    uint32_t generation; /* generation of that slot */
    int root;
    uint64_t shapes;
    char label[SYMC_LABEL_MAX + 1];
};

struct symc_trace_group_copy {
    uint32_t generation;
    uint32_t size;
    int rank;       /* the recording rank's rank in the group */
    uint32_t freed; /* 0: in use; larger: freed later */
    char name[SYMC_TRACE_NAME + 1];
    char desc[SYMC_TRACE_NAME + 1];
    uint64_t enqueued;
    uint64_t started;
    uint64_t completed;
    unsigned int form; /* enum symc_trace_ranks */
    uint16_t ranks[SYMC_TRACE_LISTED];
};

#define SYMC_TRACE_FREED_NAME "(freed)" /* name of a group with a reused slot */

/* Checks and copies a ring's header. Errors: INVALID (expected and found). */
symmcoll_status_t symc_trace_view_open(struct symc_trace_view *view,
    const struct symc_trace_ring *ring, size_t nbytes);

/* Copies the entry in a slot. Returns false if it is empty, torn or invalid. */
bool symc_trace_view_entry(const struct symc_trace_view *view, uint32_t slot,
    struct symc_trace_copy *copy);

/* Copies the SYMC_TRACE_COUNTS first counts of an operation on several buffers.
 * Returns false if they have been overwritten. */
bool symc_trace_view_counts(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry, uint64_t *counts);

/* Copies a group. Returns false if the slot is unused. A freed group is found
 * until its slot is reused. */
bool symc_trace_view_group(const struct symc_trace_view *view,
    unsigned int index, struct symc_trace_group_copy *copy);

/* Copies the group of an entry. Returns false if its slot was reused; the copy
 * then has no members and the name SYMC_TRACE_FREED_NAME. */
bool symc_trace_view_group_of(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry, struct symc_trace_group_copy *copy);

/* ---- names.c ---- */

/* Marks in shadowed[SYMC_TRACE_GROUPS] the slots of groups that must not be
 * described because another group has the name: a live one, or one freed later.
 * Errors: NO_MEMORY. */
symmcoll_status_t symc_trace_find_shadowed(
    const struct symc_trace_view *view, bool *shadowed);

/* ---- view.c ---- */

/* Returns the world rank of a member of a group, or -1 if it is not
 * recorded. */
int64_t symc_trace_view_rank(
    const struct symc_trace_group_copy *group, uint32_t member);

/* Copies a thread's name into SYMC_TRACE_THREAD_NAME + 1 bytes; "" if
 * unknown. */
const char *symc_trace_view_thread(
    const struct symc_trace_view *view, uint64_t id, char *name);

/* Returns the wall-clock time of ticks, or 0 for 0 ticks and impossible
 * times. */
int64_t symc_trace_view_wall_ns(
    const struct symc_trace_view *view, uint64_t ticks);

#endif
