/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/engine.h"

#include "t/kernels/fiber.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHARED_MAX 4 /* memories of a block */
#define YIELDS 20    /* turns without progress before the thread sleeps */
#define SLEEP_NS 20000

struct block;

struct thread {
    struct fiber *fiber;
    struct block *block;
    uint32_t index;
    bool ended, waits;
    uint32_t barriers; /* passed */
};

struct block {
    struct stream *stream;
    uint32_t index;
    struct thread *threads;
    uint32_t waiting, ended;
    /* The current barrier and the one before it: a thread is at most one
     * barrier ahead of another. */
    bool any[2];
    char synchronised[2]; /* addresses for ThreadSanitizer */
    struct {
        const void *key;
        void *memory;
    } shared[SHARED_MAX];
};

struct stream {
    const struct engine_stream *is;
    int next;                           /* launch after the current one */
    const struct engine_launch *launch; /* the current one, or NULL */
    struct block *blocks;
    uint32_t ended;  /* blocks */
    uint32_t asleep; /* turns of the others before its next one */
    char order[2];   /* launch n is ordered after order[n % 2] */
};

struct run {
    struct stream *streams;
    int n;
    uint64_t random;
    struct fiber scheduler;
    struct thread *current;
    bool advanced; /* something other than waiting was done in this turn */
    int fruitless; /* turns since then */
};

static _Thread_local struct run *self;
static atomic_bool counted;
static atomic_uint_fast64_t turns, clock_added, clock_factor = 1;
static const struct engine_place *taken_out;

/* Returns the current run. A fiber may run on another host thread each time. */
static __attribute__((noinline)) NOT_CHECKED struct run *find_run(void)
{
    return self;
}

static void fail(const char *what)
{
    fprintf(stderr, "kernel engine: %s\n", what);
    exit(99);
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n > 0 ? n : 1, size);

    if (memory == NULL)
        fail("no memory");
    return memory;
}

NOT_CHECKED static uint32_t draw(struct run *run)
{
    run->random = run->random * UINT64_C(6364136223846793005) +
                  UINT64_C(1442695040888963407);
    return (uint32_t)(run->random >> 33);
}

/* ---- a thread of a kernel ---- */

NOT_CHECKED static void leave(struct run *run, struct thread *thread)
{
    fiber_switch(thread->fiber, &run->scheduler);
}

NOT_CHECKED static void enter(struct run *run, struct thread *thread)
{
    run->current = thread;
    fiber_switch(&run->scheduler, thread->fiber);
}

NOT_CHECKED static void run_thread(void *arg)
{
    struct thread *thread = arg;
    struct stream *stream = thread->block->stream;

    fiber_acquire(&stream->order[stream->next % 2]);
    stream->launch->kernel(stream->launch->args);
    fiber_release(&stream->order[(stream->next + 1) % 2]);
    thread->ended = true;
    leave(find_run(), thread);
}

/* ---- a block ---- */

static void open_block(
    struct block *block, struct stream *stream, uint32_t index)
{
    const uint32_t n = stream->launch->threads;

    *block = (struct block){.stream = stream, .index = index};
    block->threads = allocate(n, sizeof(*block->threads));
    for (uint32_t i = 0; i < n; i++) {
        block->threads[i] = (struct thread){.block = block, .index = i};
        block->threads[i].fiber = fiber_take(run_thread, &block->threads[i]);
        if (block->threads[i].fiber == NULL)
            fail("no memory");
    }
}

static void close_block(struct block *block)
{
    for (uint32_t i = 0; i < block->stream->launch->threads; i++)
        fiber_put_back(block->threads[i].fiber);
    for (int i = 0; i < SHARED_MAX; i++)
        free(block->shared[i].memory);
    free(block->threads);
}

/* Releases the threads at a barrier when all have arrived. */
NOT_CHECKED static void open_barrier(struct block *block, uint32_t n)
{
    const uint32_t next = block->threads[0].barriers + 1;

    for (uint32_t i = 0; i < n; i++) {
        block->threads[i].waits = false;
        block->threads[i].barriers = next;
    }
    block->waiting = 0;
    block->any[next % 2] = false;
}

/* Runs most of the threads that can continue, starting at a drawn one. */
NOT_CHECKED static void run_block(struct run *run, struct block *block)
{
    const uint32_t n = block->stream->launch->threads, first = draw(run) % n;

    if (block->ended == n)
        return;
    for (uint32_t i = 0; i < n; i++) {
        struct thread *thread = &block->threads[(first + i) % n];

        if (thread->ended || thread->waits || draw(run) % 8 == 0)
            continue;
        enter(run, thread);
        if (thread->ended || thread->waits)
            run->advanced = true;
        block->ended += thread->ended;
    }
    if (block->waiting == n)
        open_barrier(block, n);
    else if (block->waiting > 0 && block->ended > 0)
        fail("some threads of a block wait, others have ended");
    block->stream->ended += block->ended == n;
}

/* ---- a stream ---- */

/* Starts all blocks of a launch at once, as if each had a processor. */
static void start_launch(struct stream *stream)
{
    const struct engine_launch *launch = &stream->is->launches[stream->next];

    stream->launch = launch;
    stream->ended = 0;
    stream->blocks = allocate(launch->blocks, sizeof(*stream->blocks));
    for (uint32_t i = 0; i < launch->blocks; i++)
        open_block(&stream->blocks[i], stream, i);
}

static void end_launch(struct stream *stream)
{
    for (uint32_t i = 0; i < stream->launch->blocks; i++)
        close_block(&stream->blocks[i]);
    free(stream->blocks);
    stream->launch = NULL;
    stream->next++;
}

/* Advances a stream. Returns whether it has ended. */
NOT_CHECKED static bool run_stream(struct run *run, struct stream *stream)
{
    if (stream->launch == NULL && stream->next == stream->is->n)
        return true;
    if (stream->asleep > 0) {
        stream->asleep--;
        return false;
    }
    if (stream->launch == NULL)
        start_launch(stream);
    for (uint32_t i = 0, first = draw(run); i < stream->launch->blocks; i++)
        run_block(run, &stream->blocks[(first + i) % stream->launch->blocks]);
    if (stream->ended == stream->launch->blocks) {
        end_launch(stream);
        run->advanced = true;
    }
    /* Delays a rank now and then, so that others run far ahead. */
    if (draw(run) % 16 == 0)
        stream->asleep = draw(run) % 64;
    return false;
}

/* Yields or sleeps when all fibers wait: the event may depend on another host
 * thread or process, which may need this processor. */
NOT_CHECKED static void wait_for_others(struct run *run)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    if (run->fruitless++ < YIELDS)
        (void)sched_yield();
    else
        (void)nanosleep(&pause, NULL);
}

NOT_CHECKED static void run_all(struct run *run)
{
    for (int ended = 0; ended < run->n;) {
        const uint32_t first = draw(run);

        ended = 0;
        run->advanced = false;
        for (int i = 0; i < run->n; i++)
            ended += run_stream(
                run, &run->streams[(first + (uint32_t)i) % (uint32_t)run->n]);
        atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
        if (run->advanced)
            run->fruitless = 0;
        else if (!atomic_load(&counted))
            wait_for_others(run);
    }
}

/* Sets the thread's own variable, which may be left over from a thread that
 * has ended. */
static __attribute__((noinline)) NOT_CHECKED void set_run(struct run *run)
{
    self = run;
}

void engine_run(const struct engine_stream *streams, int n, uint64_t seed)
{
    struct run run = {.n = n, .random = seed};

    run.streams = allocate((size_t)n, sizeof(*run.streams));
    fiber_of_caller(&run.scheduler);
    for (int i = 0; i < n; i++) {
        run.streams[i].is = &streams[i];
        fiber_release(&run.streams[i].order[0]);
    }
    set_run(&run);
    run_all(&run);
    set_run(NULL);
    for (int i = 0; i < n; i++)
        fiber_acquire(&run.streams[i].order[streams[i].n % 2]);
    free(run.streams);
}

/* ---- time ---- */

void engine_count_time(bool count)
{
    atomic_store(&counted, count);
}

void engine_advance_clock(uint64_t ns)
{
    atomic_fetch_add_explicit(&clock_added, ns, memory_order_relaxed);
}

void engine_hurry_clock(uint64_t factor)
{
    atomic_store(&clock_factor, factor);
}

NOT_CHECKED uint64_t engine_clock_ns(void)
{
    uint64_t added = atomic_load_explicit(&clock_added, memory_order_relaxed);
    struct timespec now;

    if (atomic_load(&counted))
        return (atomic_load_explicit(&turns, memory_order_relaxed) + 1) * 1000 +
               added;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * UINT64_C(1000000000) +
               (uint64_t)now.tv_nsec) *
               atomic_load_explicit(&clock_factor, memory_order_relaxed) +
           added;
}

/* ---- places ---- */

/* The ends of the section, defined by the linker; without kernels there is
 * none. */
#define OF_LINKER __attribute__((weak, visibility("hidden")))
extern const struct engine_place *const __start_engine_places[] OF_LINKER;
extern const struct engine_place *const __stop_engine_places[] OF_LINKER;

const struct engine_place *engine_place(int number)
{
    const size_t n =
        ((uintptr_t)__stop_engine_places - (uintptr_t)__start_engine_places) /
        sizeof(__start_engine_places[0]);

    return number < 0 || (size_t)number >= n ? NULL
                                             : __start_engine_places[number];
}

void engine_take_out(int number)
{
    taken_out = engine_place(number);
}

NOT_CHECKED bool engine_is_out(const struct engine_place *place)
{
    return place == taken_out;
}

/* ---- for kernels/device.h ---- */

NOT_CHECKED uint32_t engine_thread_index(void)
{
    return find_run()->current->index;
}

NOT_CHECKED uint32_t engine_thread_count(void)
{
    return find_run()->current->block->stream->launch->threads;
}

NOT_CHECKED uint32_t engine_block_index(void)
{
    return find_run()->current->block->index;
}

NOT_CHECKED uint32_t engine_block_count(void)
{
    return find_run()->current->block->stream->launch->blocks;
}

NOT_CHECKED bool engine_block_any(bool value)
{
    struct run *run = find_run();
    struct thread *thread = run->current;
    struct block *block = thread->block;
    const uint32_t barrier = thread->barriers % 2;

    fiber_release(&block->synchronised[barrier]);
    block->any[barrier] |= value;
    thread->waits = true;
    block->waiting++;
    leave(run, thread);
    fiber_acquire(&block->synchronised[barrier]);
    return block->any[barrier];
}

NOT_CHECKED void *engine_shared(const void *key, size_t nbytes)
{
    struct block *block = find_run()->current->block;
    int i = 0;

    while (i < SHARED_MAX && block->shared[i].key != NULL &&
           block->shared[i].key != key)
        i++;
    if (i == SHARED_MAX)
        fail("too much shared memory");
    if (block->shared[i].key == NULL) {
        block->shared[i].key = key;
        block->shared[i].memory = allocate(1, nbytes);
    }
    return block->shared[i].memory;
}

NOT_CHECKED void engine_relax(void)
{
    struct run *run = find_run();

    leave(run, run->current);
}

NOT_CHECKED uint32_t engine_draw(void)
{
    return draw(find_run());
}

NOT_CHECKED void engine_perturb(void)
{
    struct run *run = find_run();

    if (draw(run) % 32 == 0)
        leave(run, run->current);
}
