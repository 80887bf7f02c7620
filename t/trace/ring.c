/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the ring: which entries are kept, which are overwritten, and what a
 * reader sees of a writer that is alive, dead or writing garbage.
 */
#include "t/tap.h"
#include "t/trace/ring_util.h"
#include "trace/view.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITES 200000

/* Counts the valid entries, and returns the lowest and highest of their
 * records. */
static int count_entries(const struct symc_trace_ring *ring, int64_t entries,
    uint64_t *least, uint64_t *most)
{
    struct symc_trace_view view;
    struct symc_trace_copy copy;
    int count = 0;

    *least = UINT64_MAX;
    *most = 0;
    if (symc_trace_view_open(&view, ring, symc_trace_nbytes(entries)) !=
        SYMMCOLL_OK)
        return -1;
    for (uint32_t slot = 0; slot < view.capacity; slot++) {
        if (!symc_trace_view_entry(&view, slot, &copy))
            continue;
        count++;
        *least = copy.record_id < *least ? copy.record_id : *least;
        *most = copy.record_id > *most ? copy.record_id : *most;
    }
    return count;
}

static int latest_replace_oldest(void)
{
    struct symc_trace_ring *ring = make_ring(8);
    uint64_t least;
    uint64_t most;
    int good;

    record(ring, 0, 1, 5);
    good =
        count_entries(ring, 8, &least, &most) == 5 && least == 0 && most == 4;
    record(ring, 0, 6, 21);
    good = good && count_entries(ring, 8, &least, &most) == 8 && least == 13 &&
           most == 20;
    free(ring);
    return good;
}

/* A stray store has changed the kind of an operation in flight. */
static int unknown_kinds_end(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_op op = make_op(1, 12);
    int good = 1;

    for (unsigned int kind = SYMC_KIND_COUNT; kind <= UINT8_MAX; kind++) {
        struct symc_trace_entry *entry = symc_trace_start(WRITER(ring), 0, &op);

        entry->kind = (uint8_t)kind;
        symc_trace_end(WRITER(ring), entry, true);
        good = good && atomic_load(&WRITER(ring)->groups[0].completed) == 0 &&
               atomic_load(&entry->state) == SYMC_TRACE_COMPLETED;
    }
    free(ring);
    return good;
}

static int fields_come_back(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_op op = make_op(7, 1000);
    struct symc_trace_view view;
    struct symc_trace_copy copy;
    uint64_t before = symc_ticks();
    int good;

    op.kind = SYMC_BROADCAST;
    op.dtype = SYMMCOLL_INT16;
    op.root = 3;
    op.issued = before;
    strcpy(op.label, "gradients of layer 3");
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
    good = symc_trace_view_open(&view, ring, symc_trace_nbytes(4)) ==
               SYMMCOLL_OK &&
           symc_trace_view_entry(&view, 0, &copy) && copy.record_id == 0 &&
           copy.seq == 7 && copy.count == 1000 && copy.kind == SYMC_BROADCAST &&
           copy.dtype == SYMMCOLL_INT16 && copy.root == 3 && copy.group == 0 &&
           copy.timeout_ns == 600 * SYMC_NS_PER_S &&
           strcmp(copy.label, "gradients of layer 3") == 0 &&
           copy.created == before && copy.started >= before &&
           copy.completed >= copy.started &&
           copy.state == SYMC_TRACE_COMPLETED &&
           copy.thread_id == (uint64_t)gettid();
    free(ring);
    return good;
}

static int stuck_entry_stays(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_op op = make_op(1, 99);
    struct symc_trace_entry *stuck;
    struct symc_trace_view view;
    struct symc_trace_copy copy;
    int64_t other = symc_trace_add_group(WRITER(ring), "1", "", 2, 4, NULL);
    int good;

    stuck = symc_trace_start(WRITER(ring), 0, &op);
    record(ring, other, 1, 100);
    good = symc_trace_view_open(&view, ring, symc_trace_nbytes(4)) ==
               SYMMCOLL_OK &&
           symc_trace_view_entry(&view, 0, &copy) && copy.count == 99 &&
           copy.state == SYMC_TRACE_STARTED;
    symc_trace_end(WRITER(ring), stuck, false);
    good = good && symc_trace_view_entry(&view, 0, &copy) &&
           copy.state == SYMC_TRACE_FAILED;
    record(ring, other, 101, 104);
    good = good && symc_trace_view_entry(&view, 0, &copy) && copy.count == 12;
    free(ring);
    return good;
}

static int full_of_active_refuses(void)
{
    struct symc_trace_ring *ring = make_ring(1);
    struct symc_op op = make_op(1, 1);
    struct symc_trace_entry *first = symc_trace_start(WRITER(ring), 0, &op);
    struct symc_trace_entry *second = symc_trace_start(WRITER(ring), 0, &op);
    int good;

    symc_trace_end(WRITER(ring), second, true); /* NULL: no harm */
    good = first != NULL && second == NULL;
    symc_trace_end(WRITER(ring), first, true);
    good = good && symc_trace_start(WRITER(ring), 0, &op) != NULL;
    free(ring);
    return good;
}

static int off_records_nothing(void)
{
    struct symc_trace_ring *ring = make_ring(0);
    struct symc_op op = make_op(1, 1);
    int good = symc_trace_start(WRITER(ring), 0, &op) == NULL &&
               symc_trace_start(NULL, 0, &op) == NULL;

    symc_trace_end(WRITER(ring), NULL, true);
    symc_trace_end(NULL, NULL, true);
    free(ring);
    return good;
}

static int torn_entry_is_left_out(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    uint64_t least;
    uint64_t most;
    int good;

    record(ring, 0, 1, 4);
    /* like a writer that is killed inside */
    atomic_store(&ring->entries[1].lock, 2 * 5 + 1);
    good = count_entries(ring, 4, &least, &most) == 3;
    /* a later writer of the same process skips it */
    record(ring, 0, 5, 12);
    good = good && count_entries(ring, 4, &least, &most) == 3;
    free(ring);
    return good;
}

static int nonsense_is_left_out(void)
{
    struct symc_trace_ring *ring = make_ring(8);
    uint64_t least;
    uint64_t most;
    int good;

    record(ring, 0, 1, 8);
    ring->entries[0].record_id = 77;
    ring->entries[1].kind = 0;
    ring->entries[2].kind = SYMC_KIND_COUNT;
    ring->entries[3].dtype = SYMMCOLL_DTYPE_COUNT;
    ring->entries[4].group = SYMC_TRACE_GROUPS;
    atomic_store(&ring->entries[5].state, SYMC_TRACE_CAPTURED + 1);
    atomic_store(&ring->entries[6].lock, 2 * 5 + 2);
    good = count_entries(ring, 8, &least, &most) == 1 && least == 7;
    free(ring);
    return good;
}

static int heads_are_checked(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    size_t nbytes = symc_trace_nbytes(4);
    struct symc_trace_view view;
    int good =
        symc_trace_view_open(&view, ring, nbytes - 1) == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "4 entries, found") != NULL &&
        symc_trace_view_open(&view, ring, 16) == SYMMCOLL_ERR_INVALID &&
        symc_trace_view_open(&view, NULL, nbytes) == SYMMCOLL_ERR_INVALID;

    ring->capacity = 3;
    good = good &&
           symc_trace_view_open(&view, ring, nbytes) == SYMMCOLL_ERR_INVALID;
    ring->capacity = 1u << 31;
    good = good &&
           symc_trace_view_open(&view, ring, nbytes) == SYMMCOLL_ERR_INVALID;
    ring->capacity = 4;
    ring->magic++;
    good = good &&
           symc_trace_view_open(&view, ring, nbytes) == SYMMCOLL_ERR_INVALID;
    free(ring);
    return good;
}

static int group_table_ends(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_op op = make_op(1, 1);
    int64_t index = 0;
    int good;

    for (int i = 1; i < SYMC_TRACE_GROUPS; i++)
        index = symc_trace_add_group(WRITER(ring), "x", "", 0, 2, NULL);
    good = index == SYMC_TRACE_GROUPS - 1 &&
           symc_trace_add_group(WRITER(ring), "y", "", 0, 2, NULL) == -1 &&
           symc_trace_start(WRITER(ring), -1, &op) == NULL;
    free(ring);
    return good;
}

static int group_counts_follow(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_op op = make_op(10, 1);
    struct symc_trace_group *group = &WRITER(ring)->groups[0];
    struct symc_trace_entry *entry;
    int good;

    record(ring, 0, 1, 9);
    entry = symc_trace_start(WRITER(ring), 0, &op);
    good =
        group->started == 10 && group->enqueued == 10 && group->completed == 9;
    symc_trace_end(WRITER(ring), entry, false);
    good = good && group->completed == 9;
    free(ring);
    return good;
}

static void *name_and_record(void *arg)
{
    pthread_setname_np(pthread_self(), "recorded");
    record(arg, 0, 1, 3);
    return (void *)(intptr_t)gettid();
}

static int threads_are_named(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_view view;
    char name[SYMC_TRACE_THREAD_NAME + 1];
    pthread_t thread;
    void *id = NULL;
    int good;

    good = pthread_create(&thread, NULL, name_and_record, ring) == 0 &&
           pthread_join(thread, &id) == 0 &&
           symc_trace_view_open(&view, ring, symc_trace_nbytes(4)) ==
               SYMMCOLL_OK &&
           strcmp(symc_trace_view_thread(&view, (uint64_t)(intptr_t)id, name),
               "recorded") == 0 &&
           strcmp(symc_trace_view_thread(&view, 1, name), "") == 0;
    free(ring);
    return good;
}

/* Checks the number, which is cached per thread, in a forked child. */
static int child_has_its_own_number(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    int status = -1;
    pid_t child;

    record(ring, 0, 1, 1);
    child = fork();
    if (child == 0) {
        struct symc_trace_ring *own = make_ring(4);

        record(own, 0, 1, 1);
        _exit(own->entries[0].thread_id == (uint64_t)gettid() ? 0 : 1);
    }
    free(ring);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

struct writer {
    struct symc_trace_ring *ring;
    int64_t group;
    _Atomic bool done;
};

/* Writes entries in which every field follows from the sequence number. */
static void *write_much(void *arg)
{
    struct writer *writer = arg;

    for (uint64_t seq = 1; seq <= WRITES; seq++) {
        struct symc_op op = make_op(seq, seq * 3);

        op.timeout_ns = (int64_t)seq * 5;
        op.root = (int)(seq % 100);
        op.dtype = (enum symmcoll_dtype)(seq % 2);
        snprintf(op.label, sizeof(op.label), "%llu", (unsigned long long)seq);
        symc_trace_end(WRITER(writer->ring),
            symc_trace_start(WRITER(writer->ring), writer->group, &op),
            seq % 2 == 0);
    }
    atomic_store(&writer->done, true);
    return NULL;
}

static int is_whole(const struct symc_trace_copy *copy)
{
    return copy->count == copy->seq * 3 &&
           copy->timeout_ns == (int64_t)copy->seq * 5 &&
           copy->root == (int)(copy->seq % 100) &&
           copy->dtype == copy->seq % 2 &&
           strtoull(copy->label, NULL, 10) == copy->seq &&
           (copy->state == SYMC_TRACE_STARTED ||
               copy->completed >= copy->started);
}

/* Two writers share a ring of few slots, and a reader reads it at the same
 * time. */
static int readers_see_whole_entries(int nwriters)
{
    struct symc_trace_ring *ring = make_ring(8);
    struct writer writers[2] = {{ring, 0, false}, {ring, 0, false}};
    struct symc_trace_view view;
    pthread_t threads[2];
    int good = 1;
    long seen = 0;
    bool done = false;

    writers[1].group = symc_trace_add_group(WRITER(ring), "1", "", 2, 4, NULL);
    if (symc_trace_view_open(&view, ring, symc_trace_nbytes(8)) != SYMMCOLL_OK)
        return 0;
    for (int i = 0; i < nwriters; i++)
        if (pthread_create(&threads[i], NULL, write_much, &writers[i]) != 0)
            abort();
    while (!done) {
        struct symc_trace_copy copy;

        done = true;
        for (int i = 0; i < nwriters; i++)
            done = done && atomic_load(&writers[i].done);
        for (uint32_t slot = 0; slot < view.capacity; slot++)
            if (symc_trace_view_entry(&view, slot, &copy)) {
                seen++;
                good = good && is_whole(&copy);
            }
    }
    for (int i = 0; i < nwriters; i++)
        pthread_join(threads[i], NULL);
    free(ring);
    return good && seen > 0;
}

/* Checks that such entries take at most half of the ring, and change no
 * number. */
static int beside_leaves_room(void)
{
    struct symc_trace_ring *ring = make_ring(8);
    struct symc_trace_writer *writer = WRITER(ring);
    const struct symc_op op = {.kind = SYMC_SYMM_PUT_DATA, .seq = 3};
    struct symc_trace_entry *made[4];
    int good = 1;

    for (int i = 0; i < 4; i++)
        good =
            (made[i] = symc_trace_start_beside(writer, 0, &op)) != NULL && good;
    good = good && symc_trace_start_beside(writer, 0, &op) == NULL &&
           atomic_load(&writer->groups[0].enqueued) == 0;
    record(ring, 0, 1, 9);
    for (int i = 0; i < 4 && good; i++)
        symc_trace_end_beside(writer, made[i],
            i == 0 ? SYMC_TRACE_CAPTURED : SYMC_TRACE_COMPLETED);
    good = good && atomic_load(&writer->groups[0].completed) == 9 &&
           symc_trace_start_beside(writer, 0, &op) != NULL &&
           atomic_load(&writer->groups[0].enqueued) == 9;
    free(ring);
    return good;
}

int main(void)
{
    plan(16);
    ok(latest_replace_oldest(), "the latest entries replace the oldest");
    ok(fields_come_back(), "an entry comes back as it was recorded");
    ok(stuck_entry_stays(), "an operation under way is never overwritten");
    ok(full_of_active_refuses(), "a ring full of running operations is full");
    ok(beside_leaves_room(),
        "what is recorded beside operations leaves them half of the ring");
    ok(off_records_nothing(), "capacity 0 records nothing");
    ok(torn_entry_is_left_out(), "a torn entry is left out");
    ok(nonsense_is_left_out(), "entries that make no sense are left out");
    ok(unknown_kinds_end(), "one of no kind ends, and counts nowhere");
    ok(heads_are_checked(), "a corrupt head is refused");
    ok(group_table_ends(), "a full table of groups returns -1");
    ok(group_counts_follow(), "a group's latest sequence numbers are kept");
    ok(threads_are_named(), "threads are recorded with their names");
    ok(child_has_its_own_number(), "a forked child records its own number");
    ok(readers_see_whole_entries(1),
        "a reader beside a writer sees no mixture");
    ok(readers_see_whole_entries(2), "nor beside two writers of two groups");
    return done_testing();
}
