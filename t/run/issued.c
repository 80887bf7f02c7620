/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations that are issued and end later: no rank waits for one that
 * only computes, the data of all is complete however far a rank is ahead, and
 * each work ends, whether it is waited for, tested, released or left to a
 * callback.
 */
#include "../coll/data.h"
#include "../published.h"
#include "../tap.h"

#include <symmcoll.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS_MAX 5
#define AHEAD 20       /* operations that a rank may have in flight */
#define WORDS_MAX 2000 /* more than fit into a small message */

/* State shared by ranks that are processes or threads. */
static struct {
    _Atomic int reached[RANKS_MAX];
} * shared;

static void reach(int rank, int value)
{
    atomic_store(&shared->reached[rank], value);
}

/* Wait for that without a call of the library. */
static void await(int rank, int value)
{
    while (atomic_load(&shared->reached[rank]) < value)
        sched_yield();
}

static symmcoll_status_t sum(struct symmcoll_group *group, int64_t *out,
    const int64_t *in, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        group, out, in, 1, SYMMCOLL_INT64, SYMMCOLL_SUM, NULL, work);
}

/* Runs one work, which starts the thread; later works are issued. */
static bool begin(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;
    bool right = symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
                 symmcoll_work_wait(work, -1) == SYMMCOLL_OK;

    reach(rank, 0);
    symmcoll_work_free(work);
    return right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

/* ---- a rank that computes delays no other ---- */

static int computing_holds_nobody_up(struct symmcoll_group *group, int rank)
{
    int64_t in = rank + 1, out = 0;
    int size = symmcoll_group_size(group);
    struct symmcoll_work *work = NULL;
    bool right = begin(group, rank);

    if (rank != 0) {
        right = right && sum(group, &out, &in, NULL) == SYMMCOLL_OK;
        reach(rank, 1);
    } else {
        right = right && sum(group, &out, &in, &work) == SYMMCOLL_OK;
        for (int r = 1; r < size; r++)
            await(r, 1);
        right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
        symmcoll_work_free(work);
    }
    return right && out == size * (size + 1) / 2;
}

/* ---- complete data in every mixture ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One operation in flight, with its buffers. */
struct flight {
    struct symmcoll_work *work; /* NULL: none */
    uint64_t number;
    size_t words;
    uint64_t *in;
    uint64_t *out;
};

static uint64_t stamp(uint64_t number, int rank, size_t i)
{
    return number << 32 | (uint64_t)rank << 24 | (uint64_t)i;
}

static symmcoll_status_t start(
    struct symmcoll_group *group, int rank, struct flight *flight, bool blocks)
{
    for (size_t i = 0; i < flight->words; i++)
        flight->in[i] = stamp(flight->number, rank, i);
    return symmcoll_all_gather(group, flight->out, flight->in, flight->words,
        SYMMCOLL_UINT64, NULL, blocks ? NULL : &flight->work);
}

static bool is_whole(const struct flight *flight, int rank, int size)
{
    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < flight->words; i++) {
            uint64_t found = flight->out[(size_t)r * flight->words + i];

            if (found == stamp(flight->number, r, i))
                continue;
            diag("rank %d, operation %llu: word %zu of %zu of rank %d is "
                 "0x%llx",
                rank, (unsigned long long)flight->number, i, flight->words, r,
                (unsigned long long)found);
            return false;
        }
    }
    return true;
}

/* Waits for a work, or tests it until it has ended. */
static bool end(struct flight *flight, int rank, int size, bool asks)
{
    symmcoll_status_t status = SYMMCOLL_IN_PROGRESS;

    if (flight->work == NULL)
        return true;
    while (asks && status == SYMMCOLL_IN_PROGRESS) {
        status = symmcoll_work_test(flight->work);
        sched_yield();
    }
    if (!asks)
        status = symmcoll_work_wait(flight->work, -1);
    symmcoll_work_free(flight->work);
    flight->work = NULL;
    if (status != SYMMCOLL_OK)
        diag("rank %d: %s", rank, symmcoll_last_error());
    return status == SYMMCOLL_OK && is_whole(flight, rank, size);
}

static int rounds;

/* The kinds of operations are the same on all ranks; the form of each call is
 * each rank's choice. */
static int mixtures_are_whole(struct symmcoll_group *group, int rank)
{
    static const size_t words[] = {1, 2, 5, 6, 40, 1000, WORDS_MAX};
    struct flight flights[AHEAD] = {{0}};
    int size = symmcoll_group_size(group);
    uint64_t common = 5, own = (uint64_t)rank * 77 + 3;
    bool right = true;

    for (int i = 0; i < AHEAD; i++) {
        flights[i].in = malloc(WORDS_MAX * sizeof(uint64_t));
        flights[i].out = malloc(WORDS_MAX * sizeof(uint64_t) * (size_t)size);
    }
    for (int i = 1; right && i <= rounds; i++) {
        struct flight *flight = &flights[next_random(&own) % AHEAD];
        uint64_t way = next_random(&own);

        right = end(flight, rank, size, way % 5 == 0);
        flight->number = (uint64_t)i;
        /* Mostly operations that fit a line, which run furthest ahead. */
        flight->words = next_random(&common) % 4 != 0
                            ? words[next_random(&common) % 3]
                            : words[next_random(&common) % LENGTH(words)];
        right = right &&
                start(group, rank, flight, way % 7 == 1) == SYMMCOLL_OK &&
                (flight->work != NULL || is_whole(flight, rank, size));
        for (volatile uint64_t pause = way % 16 == 2 ? way % 9000 : 0;
             pause > 0; pause--)
            ;
    }
    for (int i = 0; i < AHEAD; i++) {
        right = end(&flights[i], rank, size, i % 2 == 0) && right;
        free(flights[i].in);
        free(flights[i].out);
    }
    return right;
}

/* In turn, one rank reads its peers' lines only after these have issued the
 * next three: it must still find their data. */
static int three_late_is_whole(struct symmcoll_group *group, int rank)
{
    static const size_t words[] = {40, 5, 40}; /* beside the line, and in it */
    struct flight flights[3] = {{0}};
    uint64_t in[3][40], *out = malloc(3 * 40 * RANKS_MAX * sizeof(*out));
    int size = symmcoll_group_size(group), turns = rounds / 10;
    bool right = begin(group, rank);

    for (int k = 0; k < 3; k++)
        flights[k] = (struct flight){
            .words = words[k], .in = in[k], .out = out + k * 40 * RANKS_MAX};
    for (int turn = 1; right && turn <= turns; turn++) {
        for (int k = 0; right && k < 3; k++) {
            flights[k].number = 3 * (uint64_t)turn + (uint64_t)k;
            right = start(group, rank, &flights[k], false) == SYMMCOLL_OK;
        }
        reach(rank, turn);
        for (int r = 0; r < size; r++)
            if (rank == turn % size && r != rank && turn < turns)
                await(r, turn + 1);
        for (int k = 2; k >= 0; k--)
            right = end(&flights[k], rank, size, k == 1) && right;
    }
    reach(rank, turns + 1); /* after a failure no rank waits for this one */
    free(out);
    return right;
}

/* ---- far ahead ---- */

/* Issues more operations than there are lines, before any peer calls. */
static int far_ahead_is_fine(struct symmcoll_group *group, int rank)
{
    enum {
        COUNT = 100
    };
    struct symmcoll_work *works[COUNT];
    int64_t in[COUNT], out[COUNT];
    int size = symmcoll_group_size(group);
    bool right = begin(group, rank);

    if (rank != 0)
        await(0, 1);
    for (int i = 0; i < COUNT; i++) {
        in[i] = i;
        right = right && sum(group, &out[i], &in[i], &works[i]) == SYMMCOLL_OK;
    }
    reach(rank, 1);
    for (int i = COUNT - 1; i >= 0; i--) {
        right = right && symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                out[i] == (int64_t)i * size &&
                symmcoll_work_sequence(works[i]) == (uint64_t)i + 3;
        symmcoll_work_free(works[i]);
    }
    return right;
}

/* ---- works without a waiter ---- */

static void count_call(symmcoll_status_t status, void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, status == SYMMCOLL_OK ? 1 : 1000);
}

/* The last rank calls after all others have issued and released their works. */
static int callbacks_alone_end_works(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    _Atomic int calls = 0;
    bool right = begin(group, rank);

    for (int r = 0; rank == size - 1 && r < size - 1; r++)
        await(r, 1);
    for (int i = 0; right && i < 3; i++) {
        struct symmcoll_work *work = NULL;

        right = symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
                symmcoll_work_then(work, count_call, &calls) == SYMMCOLL_OK;
        symmcoll_work_free(work);
    }
    reach(rank, 1);
    while (right && atomic_load(&calls) < 3)
        sched_yield();
    return right && atomic_load(&calls) == 3;
}

/* No thread waits for or tests the work, and the peer does not call. */
static int a_forgotten_work_expires(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    bool right = begin(group, rank);

    call.timeout = 0.05;
    if (rank == 1) {
        reach(rank, 1);
        await(0, 1);
        return right;
    }
    await(1, 1); /* in its last barrier it would fail with this one */
    right = right && symmcoll_barrier(group, &call, &work) == SYMMCOLL_OK;
    while (right && symmcoll_group_error(group) == SYMMCOLL_OK)
        sched_yield();
    reach(rank, 1);
    right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_ERR_TIMEOUT &&
            strstr(symmcoll_work_error(work), "rank 1 did not come") != NULL;
    symmcoll_work_free(work);
    return right;
}

/* Checks that calls in a failed group do not fill a queue: their works have ended,
 * but for a few that are queued while a thread of the library holds the ticket. An
 * abort may end a peer's last barrier, too, so all have left it before. */
static int a_failed_group_ends_works_at_once(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int size = symmcoll_group_size(group), ended = 0;
    bool right = begin(group, rank);

    reach(rank, 1);
    for (int r = 0; rank == 0 && r < size; r++)
        await(r, 1);
    if (rank == 0)
        symmcoll_group_abort(group, "enough");
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        sched_yield();
    for (int i = 0; right && i < 100; i++) {
        right = symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK;
        ended += symmcoll_work_test(work) == SYMMCOLL_ERR_ABORTED;
        right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_ERR_ABORTED;
        symmcoll_work_free(work);
    }
    right = right && ended > 50;
    reach(rank, 2);
    for (int r = 0; r < size; r++)
        await(r, 2);
    return right;
}

/* ---- waiting does not block issuing ---- */

struct waiter {
    struct symmcoll_work *work;
    symmcoll_status_t status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = symmcoll_work_wait(waiter->work, -1);
    return NULL;
}

/* Rank 0 waits in one thread and issues in another; the others join the first
 * operation after the second was issued. */
static int waiting_leaves_the_way_free(struct symmcoll_group *group, int rank)
{
    int64_t in = 1, first = 0, second = 0;
    int size = symmcoll_group_size(group);
    struct symmcoll_work *work = NULL;
    struct waiter waiter;
    pthread_t thread;
    bool right = begin(group, rank);

    if (rank != 0) {
        await(0, 1);
        return right && sum(group, &first, &in, NULL) == SYMMCOLL_OK &&
               sum(group, &second, &in, NULL) == SYMMCOLL_OK && first == size &&
               second == size;
    }
    right = right && sum(group, &first, &in, &waiter.work) == SYMMCOLL_OK &&
            pthread_create(&thread, NULL, wait_for_it, &waiter) == 0;
    for (int i = 0; i < 1000; i++)
        sched_yield(); /* lets it begin, but does not require it */
    right = right && sum(group, &second, &in, &work) == SYMMCOLL_OK;
    reach(0, 1);
    right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
    pthread_join(thread, NULL);
    symmcoll_work_free(work);
    symmcoll_work_free(waiter.work);
    return right && waiter.status == SYMMCOLL_OK && first == size &&
           second == size;
}

/* ---- a thread in a blocking call delays no other thread ---- */

struct caller {
    struct symmcoll_group *group;
    int64_t out;
    symmcoll_status_t status;
};

static void *block(void *arg)
{
    struct caller *caller = arg;
    int64_t in = 1;

    caller->status = sum(caller->group, &caller->out, &in, NULL);
    return NULL;
}

/* Rank 0 blocks in one thread, and issues in another; the others join the
 * first operation after they have seen the line of the last. */
static int blocking_leaves_the_way_free(struct symmcoll_group *group, int rank)
{
    struct caller caller = {.group = group};
    struct symmcoll_work *works[2] = {NULL};
    int64_t in = 1, out[3] = {0};
    int size = symmcoll_group_size(group);
    bool right = begin(group, rank);
    uint64_t number = group->runner.wire;
    pthread_t thread;

    if (rank != 0) {
        right = right && await_published(group, 0, number + 3);
        for (int i = 0; i < 3; i++)
            right = sum(group, &out[i], &in, NULL) == SYMMCOLL_OK &&
                    out[i] == size && right;
        return right;
    }
    right = pthread_create(&thread, NULL, block, &caller) == 0 && right;
    right = await_published(group, 0, number + 1) && right;
    for (int i = 0; i < 2; i++)
        right = sum(group, &out[i], &in, &works[i]) == SYMMCOLL_OK && right;
    for (int i = 0; i < 2; i++) {
        right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                out[i] == size && right;
        symmcoll_work_free(works[i]);
    }
    pthread_join(thread, NULL);
    return right && caller.status == SYMMCOLL_OK && caller.out == size;
}

int main(void)
{
    const char *sanitizer = getenv("T_SANITIZER");

    shared = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        skip_all("no shared memory");
    rounds = sanitizer != NULL && sanitizer[0] == 't' ? 1500 : 15000;
    both_run(2, computing_holds_nobody_up,
        "a rank that has issued and computes holds nobody up");
    both_run(4, computing_holds_nobody_up,
        "a rank that has issued and computes holds nobody up");
    both_run(2, mixtures_are_whole, "issued and blocking operations mixed");
    both_run(3, mixtures_are_whole, "issued and blocking operations mixed");
    both_run(
        RANKS_MAX, mixtures_are_whole, "issued and blocking operations mixed");
    both_run(2, three_late_is_whole, "a rank may be three issued ones late");
    both_run(3, three_late_is_whole, "a rank may be three issued ones late");
    both_run(3, far_ahead_is_fine, "a rank may issue far more than peers read");
    both_run(3, callbacks_alone_end_works,
        "works that are let go end by themselves");
    ok(ranks_run(2, a_forgotten_work_expires),
        "a work that nobody asks for expires all the same");
    both_run(2, a_failed_group_ends_works_at_once,
        "a work of a group that has failed has ended at once");
    both_run(2, waiting_leaves_the_way_free,
        "a thread that waits leaves the way free for others");
    both_run(2, blocking_leaves_the_way_free,
        "a thread that blocks leaves the way free for others");
    both_run(3, blocking_leaves_the_way_free,
        "a thread that blocks leaves the way free for others");
    return done_testing();
}
