/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading of rings: see view.h.
 */
#include "trace/view.h"

#include <string.h>

#define SIZE_LIMIT 65536 /* a larger size is corrupt */

#define GET(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

/* Copies a string that its writer may be changing; the copy is valid only if
 * the slot's lock or generation is unchanged afterwards. */
static void copy_text(char *to, const char *from, size_t nbytes)
{
    size_t i = 0;

    for (; i < nbytes && (to[i] = GET(from[i])) != '\0'; i++)
        ;
    to[i] = '\0';
}

symmcoll_status_t symc_trace_view_open(struct symc_trace_view *view,
    const struct symc_trace_ring *ring, size_t nbytes)
{
    uint64_t magic;
    size_t needed;

    if (ring == NULL || nbytes < sizeof(*ring))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "flight recorder: expected at least %zu bytes, found %zu",
            sizeof(*ring), ring == NULL ? (size_t)0 : nbytes);
    magic = GET(ring->magic);
    if (magic != SYMC_TRACE_MAGIC)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "flight recorder: expected the mark %#llx, found %#llx",
            (unsigned long long)SYMC_TRACE_MAGIC, (unsigned long long)magic);
    view->ring = ring;
    view->capacity = GET(ring->capacity);
    view->keep = GET(ring->keep);
    if ((view->capacity & (view->capacity - 1)) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "flight recorder: expected a power of two of entries, found %u",
            view->capacity);
    needed = symc_trace_capacity_nbytes(view->capacity);
    if (needed > nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "flight recorder: expected %zu bytes for %u entries, found %zu",
            needed, view->capacity, nbytes);
    view->table = symc_trace_groups(ring, view->capacity);
    view->groups = atomic_load_explicit(&ring->groups, memory_order_acquire);
    if (view->groups > SYMC_TRACE_GROUPS)
        view->groups = SYMC_TRACE_GROUPS;
    view->rank = GET(ring->rank);
    view->world_size = GET(ring->world_size);
    view->pid = GET(ring->pid);
    memcpy(&view->rate, &ring->rate, sizeof(view->rate));
    copy_text(view->host, ring->host, sizeof(ring->host));
    return SYMMCOLL_OK;
}

static void copy_fields(
    const struct symc_trace_entry *entry, struct symc_trace_copy *copy)
{
    copy->record_id = GET(entry->record_id);
    copy->seq = GET(entry->seq);
    copy->other = GET(entry->other);
    copy->created = GET(entry->created);
    copy->started = GET(entry->started);
    copy->count = GET(entry->count);
    copy->out_count = GET(entry->out_count);
    copy->timeout_ns = GET(entry->timeout_ns);
    copy->thread_id = GET(entry->thread_id);
    copy->kind = GET(entry->kind);
    copy->dtype = GET(entry->dtype);
    copy->group = GET(entry->group);
    copy->generation = GET(entry->generation);
    copy->root = GET(entry->root);
    copy->shapes = GET(entry->shapes);
    copy->label[SYMC_LABEL_MAX] = '\0';
    for (size_t i = 0; i < SYMC_LABEL_MAX; i++) {
        copy->label[i] = GET(entry->label[i]);
        if (copy->label[i] == '\0')
            break;
    }
    /* The state before the completion time: the reverse of the writer's
     * order. */
    copy->state = atomic_load_explicit(&entry->state, memory_order_acquire);
    copy->completed =
        atomic_load_explicit(&entry->completed, memory_order_acquire);
}

bool symc_trace_view_entry(const struct symc_trace_view *view, uint32_t slot,
    struct symc_trace_copy *copy)
{
    const struct symc_trace_entry *entry = &view->ring->entries[slot];

    /* A live writer holds the lock for nanoseconds, a killed one for ever. */
    for (int tries = 0; tries < 100; tries++) {
        uint64_t before =
            atomic_load_explicit(&entry->lock, memory_order_acquire);

        if (before == 0)
            return false;
        if (before % 2 == 1)
            continue;
        copy_fields(entry, copy);
        if (atomic_load_explicit(&entry->lock, memory_order_acquire) != before)
            continue;
        return copy->record_id == before / 2 - 1 &&
               (copy->record_id & (view->capacity - 1)) == slot &&
               symc_kind_is_known(copy->kind) &&
               copy->dtype < SYMMCOLL_DTYPE_COUNT &&
               copy->state <= SYMC_TRACE_CAPTURED &&
               copy->group < SYMC_TRACE_GROUPS;
    }
    return false;
}

bool symc_trace_view_counts(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry, uint64_t *counts)
{
    const struct symc_trace_shapes *shapes =
        &view->ring->shapes[entry->shapes % SYMC_TRACE_SHAPES];

    if (entry->shapes == 0 || atomic_load_explicit(&shapes->number,
                                  memory_order_acquire) != entry->shapes)
        return false;
    for (int i = 0; i < SYMC_TRACE_COUNTS; i++)
        counts[i] = GET(shapes->counts[i]);
    return atomic_load_explicit(&shapes->number, memory_order_acquire) ==
           entry->shapes;
}

static bool is_described(uint32_t used)
{
    return used == SYMC_TRACE_VALID || used >= SYMC_TRACE_FREED;
}

/* Copies a group's slot. Returns false if it is unused or was reused during the
 * copy. */
static bool copy_group(
    const struct symc_trace_group *group, struct symc_trace_group_copy *copy)
{
    uint32_t used = atomic_load_explicit(&group->used, memory_order_acquire);

    copy->generation = GET(group->generation);
    copy->size = GET(group->size);
    copy->rank = GET(group->rank);
    copy_text(copy->name, group->name, sizeof(group->name));
    copy_text(copy->desc, group->desc, sizeof(group->desc));
    copy->form = GET(group->form);
    copy->freed = used >= SYMC_TRACE_FREED ? used : 0;
    for (int r = 0; r < SYMC_TRACE_LISTED; r++)
        copy->ranks[r] = GET(group->ranks[r]);
    copy->enqueued =
        atomic_load_explicit(&group->enqueued, memory_order_acquire);
    copy->started = atomic_load_explicit(&group->started, memory_order_acquire);
    copy->completed =
        atomic_load_explicit(&group->completed, memory_order_acquire);
    return is_described(used) &&
           is_described(
               atomic_load_explicit(&group->used, memory_order_acquire)) &&
           GET(group->generation) == copy->generation;
}

bool symc_trace_view_group(const struct symc_trace_view *view,
    unsigned int index, struct symc_trace_group_copy *copy)
{
    return index < view->groups && copy_group(&view->table[index], copy) &&
           copy->size > 0 && copy->size <= SIZE_LIMIT &&
           copy->form <= SYMC_TRACE_SOME;
}

bool symc_trace_view_group_of(const struct symc_trace_view *view,
    const struct symc_trace_copy *entry, struct symc_trace_group_copy *copy)
{
    if (symc_trace_view_group(view, entry->group, copy) &&
        copy->generation == entry->generation)
        return true;
    memset(copy, 0, sizeof(*copy));
    strcpy(copy->name, SYMC_TRACE_FREED_NAME);
    return false;
}

int64_t symc_trace_view_rank(
    const struct symc_trace_group_copy *group, uint32_t member)
{
    if (group->form == SYMC_TRACE_FIRST)
        return member;
    if (member < SYMC_TRACE_LISTED)
        return group->ranks[member];
    if (group->form == SYMC_TRACE_STRIDE)
        return group->ranks[0] +
               (int64_t)member * (group->ranks[1] - group->ranks[0]);
    return -1;
}

const char *symc_trace_view_thread(
    const struct symc_trace_view *view, uint64_t id, char *name)
{
    name[0] = '\0';
    for (int i = 0; i < SYMC_TRACE_THREADS; i++) {
        const struct symc_trace_thread *thread = &view->ring->threads[i];

        if (atomic_load_explicit(&thread->used, memory_order_acquire) == 2 &&
            GET(thread->id) == id) {
            copy_text(name, thread->name, sizeof(thread->name));
            break;
        }
    }
    return name;
}

int64_t symc_trace_view_wall_ns(
    const struct symc_trace_view *view, uint64_t ticks)
{
    int64_t wall_ns = ticks > 0 ? symc_tick_wall_ns(&view->rate, ticks) : 0;

    return wall_ns > 0 ? wall_ns : 0;
}
