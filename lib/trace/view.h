/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a ring that may be torn, corrupt, or written to at this moment by
 * another process.  Whatever these functions return has been copied and
 * checked.
 */
#ifndef SYMC_TRACE_VIEW_H
#define SYMC_TRACE_VIEW_H

#include "trace/trace.h"

/* A ring's head, copied once: the original may change under the reader. */
struct symc_trace_view {
    const struct symc_trace_ring *ring;
    const struct symc_trace_group *table;
    uint32_t groups; /* slots that may have been used */
    uint32_t capacity;
    uint32_t keep;
    uint32_t rank;
    uint32_t world_size;
    uint32_t pid;
    struct symc_tick_rate rate;
    char host[65];
};

/* One entry, copied whole under its sequence lock. */
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
    unsigned int kind;   /* an enum symc_kind */
    unsigned int dtype;  /* an enum symmcoll_dtype */
    unsigned int state;  /* an enum symc_trace_state */
    unsigned int group;  /* below SYMC_TRACE_GROUPS */
    uint32_t generation; /* of that slot */
    int root;
    uint64_t shapes;
    char label[SYMC_LABEL_MAX + 1];
};

struct symc_trace_group_copy {
    uint32_t generation;
    uint32_t size;
    int rank;       /* the writer's number in it */
    uint32_t freed; /* 0: not yet; later ones are greater */
    char name[SYMC_TRACE_NAME + 1];
    char desc[SYMC_TRACE_NAME + 1];
    uint64_t enqueued;
    uint64_t started;
    uint64_t completed;
    unsigned int form; /* an enum symc_trace_ranks */
    uint16_t ranks[SYMC_TRACE_LISTED];
};

#define SYMC_TRACE_FREED_NAME "(freed)" /* of a group whose slot is another's */

/* Check a ring's head.  Errors: INVALID (expected and found). */
symmcoll_status_t symc_trace_view_open(struct symc_trace_view *view,
    const struct symc_trace_ring *ring, size_t nbytes);

/* Copy a slot's entry; false where it is empty, torn or invalid. */
bool symc_trace_view_entry(const struct symc_trace_view *view, uint32_t slot,
    struct symc_trace_copy *copy);

/* The counts of an operation on several buffers: SYMC_TRACE_COUNTS of them, or
 * as many as it has.  False where they are not kept any more. */
bool symc_trace_view_counts(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry, uint64_t *counts);

/* Copy a group; false where there is none of that index.  One that has been
 * freed is there until its slot is used again. */
bool symc_trace_view_group(const struct symc_trace_view *view,
    unsigned int index, struct symc_trace_group_copy *copy);

/* Copy the group of an entry.  False where its slot is another's by now: then it
 * has no members, and is called SYMC_TRACE_FREED_NAME. */
bool symc_trace_view_group_of(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry, struct symc_trace_group_copy *copy);

/* ---- names.c ---- */

/* Slots (out, SYMC_TRACE_GROUPS of them) whose group is not to be described,
 * because another one has its name: a living one, or one that was freed later.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_trace_find_shadowed(
    const struct symc_trace_view *view, bool *shadowed);

/* ---- view.c ---- */

/* The rank in the world of a member of a group, -1: not known. */
int64_t symc_trace_view_rank(
    const struct symc_trace_group_copy *group, uint32_t member);

/* A thread's name into SYMC_TRACE_THREAD_NAME + 1 bytes; "" where unknown. */
const char *symc_trace_view_thread(
    const struct symc_trace_view *view, uint64_t id, char *name);

/* Wall time of ticks, 0 for none and for what no clock can have shown. */
int64_t symc_trace_view_wall_ns(
    const struct symc_trace_view *view, uint64_t ticks);

#endif
