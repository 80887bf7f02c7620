/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer's side of the table of groups. The used slots are marked in
 * private memory; the memory of the slots is reserved a page at a time.
 */
#include "segment/arena.h"
#include "segment/memory.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Stores a plain field that other threads or processes may be reading. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

struct symc_trace_table {
    pthread_mutex_t lock;
    int fd; /* borrowed; -1: all is backed */
    size_t offset;
    size_t nbytes;       /* bytes of the table that are backed by memory */
    unsigned int backed; /* slots in those bytes */
    unsigned int next;   /* first slot to try */
    uint32_t freed;      /* groups freed until now */
    bool used[SYMC_TRACE_GROUPS];
    uint32_t uses[SYMC_TRACE_GROUPS]; /* earlier uses: the next generation */
};

symmcoll_status_t symc_trace_open(struct symc_trace_ring *ring, int fd,
    size_t offset, struct symc_trace_writer *writer)
{
    struct symc_trace_table *table = symc_alloc(1, sizeof(*table));

    if (table == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *writer = (struct symc_trace_writer){.ring = ring,
        .birth = ring->birth,
        .ns_per_tick = ring->rate.ns_per_tick,
        .capacity = ring->capacity,
        .groups = symc_trace_groups(ring, ring->capacity),
        .table = table};
    pthread_mutex_init(&table->lock, NULL);
    table->fd = fd;
    table->offset = offset + (size_t)((char *)writer->groups - (char *)ring);
    table->backed = fd >= 0 ? 0 : SYMC_TRACE_GROUPS;
    return SYMMCOLL_OK;
}

void symc_trace_close(struct symc_trace_writer *writer)
{
    if (writer->table == NULL)
        return;
    pthread_mutex_destroy(&writer->table->lock);
    free(writer->table);
    writer->table = NULL;
}

/* Backs one more page of slots. Returns false if the table is full or no memory
 * is left. */
static bool back_more(struct symc_trace_table *table)
{
    if (table->backed == SYMC_TRACE_GROUPS ||
        symc_memory_reserve(table->fd, table->offset + table->nbytes, SYMC_PAGE,
            "flight recorder: groups") != SYMMCOLL_OK)
        return false;
    table->nbytes += SYMC_PAGE;
    table->backed =
        (unsigned int)(table->nbytes / sizeof(struct symc_trace_group));
    if (table->backed > SYMC_TRACE_GROUPS)
        table->backed = SYMC_TRACE_GROUPS;
    return true;
}

/* Takes the next unused slot, beginning after the last one taken, so that freed
 * groups stay described as long as possible. Backs more slots when all are
 * used. Returns false if there is none. */
static bool take_slot(struct symc_trace_table *table, unsigned int *slot)
{
    for (;;) {
        for (unsigned int i = 0; i < table->backed; i++) {
            unsigned int at = (table->next + i) % table->backed;

            if (table->used[at])
                continue;
            table->used[at] = true;
            table->next = at + 1;
            *slot = at;
            return true;
        }
        if (!back_more(table))
            return false;
    }
}

static void put_text(char *to, const char *from)
{
    for (size_t i = 0; i < SYMC_TRACE_NAME; i++) {
        PUT(to[i], i + 1 < SYMC_TRACE_NAME ? *from : '\0');
        from += *from != '\0';
    }
}

/* Checks that the ranks ascend at one constant distance. */
static bool has_stride(const int *global, int size)
{
    for (int r = 2; r < size; r++) {
        if (global[r] - global[r - 1] != global[1] - global[0])
            return false;
    }
    return global[1] > global[0];
}

static void put_ranks(
    struct symc_trace_group *group, const int *global, int size)
{
    uint16_t form = global == NULL              ? SYMC_TRACE_FIRST
                    : size <= SYMC_TRACE_LISTED ? SYMC_TRACE_LIST
                    : has_stride(global, size)  ? SYMC_TRACE_STRIDE
                                                : SYMC_TRACE_SOME;

    PUT(group->form, form);
    for (int r = 0; global != NULL && r < size && r < SYMC_TRACE_LISTED; r++)
        PUT(group->ranks[r], (uint16_t)global[r]);
}

static int64_t fill(struct symc_trace_writer *writer, unsigned int slot,
    const char *name, const char *desc, int rank, int size, const int *global)
{
    struct symc_trace_group *group = &writer->groups[slot];
    uint32_t generation = writer->table->uses[slot]++;

    /* First, so that no reader mixes fields of the old group with the new
     * one's. */
    atomic_store(&group->used, SYMC_TRACE_FILLING);
    PUT(group->generation, generation);
    PUT(group->size, (uint32_t)size);
    PUT(group->rank, rank);
    atomic_store(&group->enqueued, 0);
    atomic_store(&group->started, 0);
    atomic_store(&group->completed, 0);
    atomic_store(&group->p2p, 0);
    put_text(group->name, name);
    put_text(group->desc, desc);
    put_ranks(group, global, size);
    atomic_store_explicit(&group->used, SYMC_TRACE_VALID, memory_order_release);
    if (slot >= atomic_load(&writer->described)) {
        atomic_store(&writer->described, slot + 1);
        atomic_store_explicit(
            &writer->ring->groups, slot + 1, memory_order_release);
    }
    return (int64_t)generation * SYMC_TRACE_GROUPS + slot;
}

int64_t symc_trace_add_group(struct symc_trace_writer *writer, const char *name,
    const char *desc, int rank, int size, const int *global)
{
    struct symc_trace_table *table = writer->table;
    int64_t ref = SYMC_TRACE_NO_GROUP;
    unsigned int slot;

    if (table == NULL)
        return ref;
    pthread_mutex_lock(&table->lock);
    if (take_slot(table, &slot))
        ref = fill(writer, slot, name, desc, rank, size, global);
    pthread_mutex_unlock(&table->lock);
    return ref;
}

void symc_trace_remove_group(struct symc_trace_writer *writer, int64_t ref)
{
    struct symc_trace_table *table = writer->table;
    unsigned int slot = symc_trace_slot(ref);

    if (table == NULL || ref < 0)
        return;
    pthread_mutex_lock(&table->lock);
    atomic_store_explicit(&writer->groups[slot].used,
        SYMC_TRACE_FREED + table->freed, memory_order_release);
    if (SYMC_TRACE_FREED + table->freed < UINT32_MAX)
        table->freed++;
    table->used[slot] = false;
    pthread_mutex_unlock(&table->lock);
}
