/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs kernels on the host. The threads of all blocks of all launches are
 * fibers of the thread that calls engine_run(), which switches between them at
 * barriers, in loops that wait, and at randomly drawn loads and stores; the
 * order is the same for the same seed.
 *
 * Under ThreadSanitizer each fiber is a separate thread, ordered only by
 * barriers and by the memory orders of signals: any order that a kernel fails
 * to establish is a data race, whatever the order of fibers.
 *
 * Kernels reach the engine through kernels/device.h.
 */
#ifndef T_KERNELS_ENGINE_H
#define T_KERNELS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- for tests ---- */

struct engine_launch {
    void (*kernel)(const void *args);
    const void *args; /* until engine_run() returns */
    uint32_t blocks, threads;
};

/* Launches that run one after another; streams run concurrently. */
struct engine_stream {
    const struct engine_launch *launches;
    int n;
};

/* Runs all streams until they have ended. Several threads may call it at once,
 * and their kernels then wait for each other. seed: of the order of fibers.
 * Exits the program if there is no memory, or if some threads of a block wait
 * at a barrier after others have ended. */
void engine_run(const struct engine_stream *streams, int n, uint64_t seed);

/* Selects the clock of engine_clock_ns(): real time, or (counted) one
 * microsecond for each turn of all fibers, which makes deadlines independent
 * of the machine. */
void engine_count_time(bool counted);

/* Advances the clock. */
void engine_advance_clock(uint64_t ns);

/* Makes the clock run `factor` times as fast as real time: a kernel's deadline
 * passes long before the same deadline on the host, however loaded the machine
 * is. */
void engine_hurry_clock(uint64_t factor);

/* ---- places that a test removes from the kernels ---- */

/* A barrier, a memory order, or another operation without which kernels are
 * wrong. */
struct engine_place {
    const char *file;
    int line;
    const char *what;
    bool is_order; /* missed under ThreadSanitizer only */
};

/* Returns a compiled place by its number; NULL after the last one. */
const struct engine_place *engine_place(int number);

/* Removes a place from all kernels that run from now on; -1: none. */
void engine_take_out(int number);

/* ---- for kernels/device.h ---- */

#define ENGINE_PLACE(WHAT, IS_ORDER)                                  \
    __extension__({                                                   \
        static const struct engine_place place = {                    \
            __FILE__, __LINE__, WHAT, IS_ORDER};                      \
        static const struct engine_place *const entry                 \
            __attribute__((section("engine_places"), used)) = &place; \
        (void)entry;                                                  \
        &place;                                                       \
    })

bool engine_is_out(const struct engine_place *place);

uint32_t engine_thread_index(void);
uint32_t engine_thread_count(void);
uint32_t engine_block_index(void);
uint32_t engine_block_count(void);

/* Enters a barrier of the block. Returns whether any of its threads passed
 * true. */
bool engine_block_any(bool value);

/* Returns memory of the block, the same for all threads that pass the key. */
void *engine_shared(const void *key, size_t nbytes);

/* Lets other fibers run. Called in each loop that waits for one of them. */
void engine_relax(void);

/* Lets other fibers run at drawn times. */
void engine_perturb(void);

/* Returns a random number, the same for the same seed. */
uint32_t engine_draw(void);

uint64_t engine_clock_ns(void);

#endif
