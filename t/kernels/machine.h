/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the machine that runs the kernels of the checks: the engine
 * on the host (machine.c), or a device (t/gpu/machine.c). The checks are the
 * same on both: they launch kernels, and examine memory after all have ended.
 */
#ifndef T_KERNELS_MACHINE_H
#define T_KERNELS_MACHINE_H

#include "t/kernels/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*kernel_fn)(const void *args);

struct machine {
    uint64_t timeout_ns, short_ns; /* of kernels: never, and by the deadline */
    uint32_t elements_max;         /* of a reduction */
    bool keeps_nan;                /* the bits of a NaN are the reference's */
    unsigned int seconds;          /* of a check, at most */
    /* Advances the clock of running kernels; NULL: not possible. */
    void (*add_to_clock)(uint64_t ns);
};
extern struct machine machine;

/* Called before all checks. */
void machine_begin(void);

/* Returns the number of rounds of a check to run, of those needed for
 * certainty. */
int machine_rounds(int rounds);

/* Draw the number of blocks, and of threads, of a kernel; threads are at least
 * `least`. */
uint32_t machine_draw_blocks(void);
uint32_t machine_draw_threads(int least);

/* Allocates memory that kernels use: launch arguments contain addresses in it,
 * and the host accesses it while no kernel runs. Freed by machine_free(). */
void *machine_alloc(size_t alignment, size_t nbytes);
void machine_free(void *memory);

/* Allocates memory that kernels and the host use concurrently. */
void *machine_alloc_words(size_t nbytes);
void machine_free_words(void *words);

/* Opens a multicast address for nbytes bytes at each of n places; NULL:
 * unsupported. At most one at a time; closed by machine_close_multicast(). */
unsigned char *machine_open_multicast(
    unsigned char *const *places, int n, size_t nbytes);
void machine_close_multicast(void);

/* Declares a word of that memory to be an address in it. Repeated before each
 * run. */
void machine_note_address(void *word);

/* Runs streams as engine_run() does; a kernel that is not the library's is
 * called on the host, in stream order. */
void machine_run(const struct engine_stream *streams, int n, uint64_t seed);

/* ---- other work of a stream: for group_launch() ---- */

/* A memcpy() in that memory. */
struct copying {
    void *to;
    const void *from;
    size_t nbytes;
};
void machine_copy(const void *copying);

/* A copy that starts when the flag is no longer 0. */
struct reading {
    const uint32_t *flag;
    struct copying copying;
};
void machine_read_after_flag(const void *reading);

#endif
