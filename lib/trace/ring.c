/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing entries into the ring. Reading is in view.c.
 *
 * A writer claims a slot with one atomic exchange of its lock word, from the
 * old record to "record N is being written". Release stores of the fields
 * follow, which cost nothing on x86-64 and order them after the lock word for
 * every reader without a fence.
 */
#include "segment/arena.h"
#include "trace/trace.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MAX (INT64_C(1) << 26)
/* slots tried before giving up: operations in flight hold theirs */
#define TRIES_MAX 4096

/* Stores a plain field of an entry, which other threads or processes may be
 * reading. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

/* The thread's ID and the ring that it is registered in, cached to skip the
 * search. */
struct thread_memory {
    uint64_t birth;
    uint32_t id;
};

static _Thread_local struct thread_memory memory;

static uint32_t capacity_for(int64_t entries)
{
    uint32_t capacity = 1;

    if (entries <= 0)
        return 0;
    if (entries > ENTRIES_MAX)
        entries = ENTRIES_MAX;
    while (capacity < entries)
        capacity *= 2;
    return capacity;
}

/* Returns the page-aligned offset of the table of groups. */
static size_t groups_offset(uint32_t capacity)
{
    size_t entries = (size_t)capacity * sizeof(struct symc_trace_entry);

    return symc_round_to_page(sizeof(struct symc_trace_ring) + entries);
}

size_t symc_trace_capacity_nbytes(uint32_t capacity)
{
    return groups_offset(capacity) +
           SYMC_TRACE_GROUPS * sizeof(struct symc_trace_group);
}

size_t symc_trace_nbytes(int64_t entries)
{
    return symc_trace_capacity_nbytes(capacity_for(entries));
}

size_t symc_trace_backed(int64_t entries)
{
    return groups_offset(capacity_for(entries));
}

struct symc_trace_group *symc_trace_groups(
    const struct symc_trace_ring *ring, uint32_t capacity)
{
    return (void *)((char *)(uintptr_t)ring + groups_offset(capacity));
}

void symc_trace_init(
    struct symc_trace_ring *ring, int64_t entries, int rank, int world_size)
{
    ring->capacity = capacity_for(entries);
    ring->keep = entries > ENTRIES_MAX ? (uint32_t)ENTRIES_MAX
                 : entries > 0         ? (uint32_t)entries
                                       : 0;
    ring->rank = (uint32_t)rank;
    ring->world_size = (uint32_t)world_size;
    ring->pid = (uint32_t)getpid();
    symc_tick_rate_measure(&ring->rate);
    ring->birth = symc_ticks();
    if (gethostname(ring->host, sizeof(ring->host) - 1) != 0)
        strcpy(ring->host, "unknown");
    /* Last: a reader that finds the mark finds a complete ring. */
    PUT(ring->magic, SYMC_TRACE_MAGIC);
}

/* Claims a free slot of the thread table. Returns false if it is taken. */
static bool take(_Atomic uint32_t *used)
{
    uint32_t is_free = 0;

    return atomic_compare_exchange_strong(used, &is_free, 1);
}

/* Fills a claimed slot with the calling thread's ID and name. */
static void fill_thread(struct symc_trace_thread *thread, uint32_t id)
{
    char name[SYMC_TRACE_THREAD_NAME] = "";

    if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0)
        name[0] = '\0';
    PUT(thread->id, id);
    for (size_t i = 0; i < sizeof(name); i++)
        PUT(thread->name[i], name[i]);
    atomic_store_explicit(&thread->used, 2, memory_order_release);
}

/* Replaces the thread in a slot of a full table: most registered threads have
 * ended. */
static void replace_thread(struct symc_trace_thread *thread, uint32_t id)
{
    uint32_t valid = 2;

    if (atomic_compare_exchange_strong(&thread->used, &valid, 1))
        fill_thread(thread, id);
}

/* Registers the calling thread's ID and name in the ring and caches the ID. */
static uint32_t register_thread(const struct symc_trace_writer *writer)
{
    struct symc_trace_ring *ring = writer->ring;
    /* Read again for each ring: after fork() the cached ID is another
     * thread's. */
    uint32_t id = (uint32_t)gettid();

    memory.birth = writer->birth;
    memory.id = id;
    for (int i = 0; i < SYMC_TRACE_THREADS; i++) {
        struct symc_trace_thread *thread = &ring->threads[i];

        if (atomic_load_explicit(&thread->used, memory_order_acquire) == 2 &&
            thread->id == id)
            /* registered earlier, before the thread used another ring */
            return id;
        if (!take(&thread->used))
            continue;
        fill_thread(thread, id);
        return id;
    }
    replace_thread(&ring->threads[id % SYMC_TRACE_THREADS], id);
    return id;
}

/* Returns whether a newer record may replace the one in a slot. */
static bool is_over(struct symc_trace_entry *entry, uint64_t lock)
{
    unsigned int state;

    if (lock == 0)
        return true;
    if (lock % 2 == 1)
        return false;
    state = atomic_load_explicit(&entry->state, memory_order_acquire);
    return state >= SYMC_TRACE_COMPLETED && state <= SYMC_TRACE_CAPTURED;
}

/*
 * Finds the next slot with an ended record and locks it. Usually the first slot
 * is free; only operations in flight, a few per group, are skipped. Returns
 * NULL after TRIES_MAX slots in use.
 */
static struct symc_trace_entry *claim(
    const struct symc_trace_writer *writer, uint64_t *record_id)
{
    struct symc_trace_ring *ring = writer->ring;
    uint64_t id = atomic_load_explicit(&ring->next, memory_order_relaxed);

    for (uint32_t tries = 0; tries < TRIES_MAX; tries++, id++) {
        struct symc_trace_entry *entry =
            &ring->entries[id & (writer->capacity - 1)];
        uint64_t lock =
            atomic_load_explicit(&entry->lock, memory_order_acquire);

        if (lock > 2 * id || !is_over(entry, lock))
            continue;
        if (atomic_compare_exchange_strong_explicit(&entry->lock, &lock,
                2 * id + 1, memory_order_acquire, memory_order_relaxed)) {
            *record_id = id;
            return entry;
        }
    }
    return NULL;
}

static void put_totals(
    struct symc_trace_entry *entry, const struct symc_lists *lists)
{
    PUT(entry->count,
        lists->in_total | (lists->in_unlike ? SYMC_TRACE_UNLIKE : 0));
    PUT(entry->out_count,
        lists->out_total | (lists->out_unlike ? SYMC_TRACE_UNLIKE : 0));
}

/* Stores the counts of several buffers and returns the number they are found
 * by. */
static __attribute__((noinline)) uint64_t put_shapes(
    struct symc_trace_ring *ring, const struct symc_op *op)
{
    uint64_t number =
        atomic_fetch_add_explicit(&ring->shaped, 1, memory_order_relaxed) + 1;
    struct symc_trace_shapes *shapes =
        &ring->shapes[number % SYMC_TRACE_SHAPES];
    const size_t *counts = symc_op_counts(op);

    atomic_exchange_explicit(&shapes->number, 0, memory_order_acquire);
    for (int i = 0; i < op->buffers && i < SYMC_TRACE_COUNTS; i++)
        PUT(shapes->counts[i], counts[i]);
    atomic_store_explicit(&shapes->number, number, memory_order_release);
    return number;
}

static inline __attribute__((always_inline)) struct symc_trace_entry *start(
    const struct symc_trace_writer *writer, int64_t group,
    const struct symc_op *op, bool beside)
{
    struct symc_trace_ring *ring;
    struct symc_trace_group *status;
    struct symc_trace_entry *entry;
    uint64_t id;
    uint64_t now;
    bool p2p, coalesced;

    if (writer == NULL || writer->capacity == 0 || group < 0)
        return NULL;
    ring = writer->ring;
    status = &writer->groups[symc_trace_slot(group)];
    p2p = symc_kinds[op->kind].counter == SYMC_COUNT_P2P;
    coalesced = symc_kind_has(op->kind, SYMC_COALESCED);
    entry = claim(writer, &id);
    if (entry == NULL)
        return NULL;
    now = symc_ticks();
    PUT(entry->record_id, id);
    PUT(entry->seq, op->seq);
    PUT(entry->created, op->issued != 0 ? op->issued : now);
    PUT(entry->started, now);
    PUT(entry->count, op->count);
    if (__builtin_expect(symc_kind_has(op->kind, SYMC_UNEVEN), 0))
        put_totals(entry, op->lists);
    PUT(entry->kind, (uint8_t)op->kind);
    PUT(entry->dtype, (uint8_t)op->dtype);
    PUT(entry->op, (uint8_t)op->op);
    PUT(entry->root, (int16_t)op->root);
    PUT(entry->group, (uint16_t)symc_trace_slot(group));
    PUT(entry->generation, symc_trace_generation(group));
    PUT(entry->other,
        atomic_load_explicit(
            p2p ? &status->enqueued : &status->p2p, memory_order_relaxed));
    if (__builtin_expect(coalesced, 0))
        PUT(entry->shapes, put_shapes(ring, op));
    PUT(entry->timeout_ns, op->timeout_ns);
    PUT(entry->thread_id,
        memory.birth == writer->birth ? memory.id : register_thread(writer));
    for (size_t i = 0; i < SYMC_LABEL_MAX; i++) {
        PUT(entry->label[i], op->label[i]);
        if (op->label[i] == '\0')
            break;
    }
    atomic_store_explicit(&entry->completed, 0, memory_order_release);
    atomic_store_explicit(
        &entry->state, SYMC_TRACE_STARTED, memory_order_release);
    atomic_store_explicit(&entry->lock, 2 * id + 2, memory_order_release);
    atomic_store_explicit(&ring->next, id + 1, memory_order_relaxed);

    if (beside)
        return entry;
    if (p2p) {
        atomic_store_explicit(&status->p2p, op->seq, memory_order_relaxed);
        return entry;
    }
    atomic_store_explicit(&status->enqueued, op->seq, memory_order_relaxed);
    atomic_store_explicit(&status->started, op->seq, memory_order_relaxed);
    return entry;
}

struct symc_trace_entry *symc_trace_start(
    const struct symc_trace_writer *writer, int64_t group,
    const struct symc_op *op)
{
    return start(writer, group, op, false);
}

struct symc_trace_entry *symc_trace_start_beside(
    struct symc_trace_writer *writer, int64_t group, const struct symc_op *op)
{
    struct symc_trace_entry *entry = NULL;

    if (atomic_fetch_add(&writer->beside, 1) < writer->capacity / 2)
        entry = start(writer, group, op, true);
    if (entry == NULL)
        atomic_fetch_sub(&writer->beside, 1);
    return entry;
}

void symc_trace_set_peer(struct symc_trace_entry *entry, int peer)
{
    PUT(entry->root, (int16_t)peer);
}

void symc_trace_set_number(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, uint64_t seq)
{
    unsigned int group;

    if (writer == NULL || entry == NULL)
        return;
    PUT(entry->seq, seq);
    /* A stray store may have changed the index. */
    group = __atomic_load_n(&entry->group, __ATOMIC_RELAXED);
    if (group >= atomic_load_explicit(&writer->described, memory_order_relaxed))
        return;
    atomic_store_explicit(
        &writer->groups[group].enqueued, seq, memory_order_relaxed);
    atomic_store_explicit(
        &writer->groups[group].started, seq, memory_order_relaxed);
}

void symc_trace_set_duration(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, int64_t ns)
{
    uint64_t now = symc_ticks();
    uint64_t created = __atomic_load_n(&entry->created, __ATOMIC_RELAXED);
    double ticks = (double)ns / writer->ns_per_tick;

    /* The operation cannot have started before its call, whatever the device's
     * clock says. */
    if (ticks > (double)(int64_t)(now - created))
        return;
    PUT(entry->started, now - (uint64_t)ticks);
    atomic_store_explicit(&entry->completed, now, memory_order_relaxed);
}

/* Sets the number of the group's latest completed collective. overtaken: a
 * collective with a higher number may have ended before. */
static inline void advance_completed(
    struct symc_trace_group *group, uint64_t seq, bool overtaken)
{
    uint64_t found;

    if (!overtaken) {
        atomic_store_explicit(&group->completed, seq, memory_order_relaxed);
        return;
    }
    found = atomic_load(&group->completed);
    while (found < seq &&
           !atomic_compare_exchange_weak(&group->completed, &found, seq))
        ;
}

static inline void end(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, enum symc_trace_state state, bool overtaken)
{
    unsigned int group, kind;

    if (writer == NULL || entry == NULL)
        return;
    /* A stray store may have changed the group and the kind. */
    group = __atomic_load_n(&entry->group, __ATOMIC_RELAXED);
    kind = __atomic_load_n(&entry->kind, __ATOMIC_RELAXED);
    if (!overtaken ||
        atomic_load_explicit(&entry->completed, memory_order_relaxed) == 0)
        atomic_store_explicit(
            &entry->completed, symc_ticks(), memory_order_relaxed);
    if (state != SYMC_TRACE_FAILED &&
        group <
            atomic_load_explicit(&writer->described, memory_order_relaxed) &&
        kind < SYMC_KIND_COUNT &&
        symc_kinds[kind].counter == SYMC_COUNT_COLLECTIVE)
        advance_completed(&writer->groups[group], entry->seq, overtaken);
    /* From here on another operation may claim the slot. */
    atomic_store_explicit(&entry->state, (uint8_t)state, memory_order_release);
}

void symc_trace_end(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, bool completed)
{
    end(writer, entry, completed ? SYMC_TRACE_COMPLETED : SYMC_TRACE_FAILED,
        false);
}

void symc_trace_end_running(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, bool completed)
{
    end(writer, entry, completed ? SYMC_TRACE_COMPLETED : SYMC_TRACE_FAILED,
        true);
}

void symc_trace_capture(
    const struct symc_trace_writer *writer, struct symc_trace_entry *entry)
{
    end(writer, entry, SYMC_TRACE_CAPTURED, true);
}

void symc_trace_end_beside(struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, enum symc_trace_state state)
{
    if (entry == NULL)
        return;
    end(writer, entry, state, true);
    atomic_fetch_sub(&writer->beside, 1);
}
