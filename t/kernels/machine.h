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
    /* Add to the clock of kernels that run; NULL: it cannot be set. */
    void (*add_to_clock)(uint64_t ns);
};
extern struct machine machine;

/* Before all checks. */
void machine_begin(void);

/* Returns the number of rounds of a check to run, of those needed for
 * certainty. */
int machine_rounds(int rounds);

/* Draw the number of blocks, and of threads, of a kernel; threads are at least
 * `least`. */
uint32_t machine_draw_blocks(void);
uint32_t machine_draw_threads(int least);

/* Memory that kernels use: the arguments of a launch name addresses in it, and
 * the host reads and writes it while nothing runs.  Freed by machine_free(). */
void *machine_alloc(size_t alignment, size_t nbytes);
void machine_free(void *memory);

/* Memory that kernels and the host use at once. */
void *machine_alloc_words(size_t nbytes);
void machine_free_words(void *words);

/* A multicast address for nbytes from each of n places on; NULL: there is none.
 * One at a time; closed by machine_close_multicast(). */
unsigned char *machine_open_multicast(
    unsigned char *const *places, int n, size_t nbytes);
void machine_close_multicast(void);

/* A word of that memory is an address of it: said anew before each run. */
void machine_note_address(void *word);

/* As engine_run(); a kernel that is none of the library's is called on the host,
 * in the order of its stream. */
void machine_run(const struct engine_stream *streams, int n, uint64_t seed);

/* ---- what a stream can do beside kernels: for group_launch() ---- */

/* memcpy() of such memory. */
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
