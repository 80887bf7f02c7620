/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group of ranks for kernels on the host: segments, inputs and outputs with
 * random bytes and guarded ends, and a stream for each rank.
 */
#ifndef T_KERNELS_GROUP_H
#define T_KERNELS_GROUP_H

#include "kernels/args.h"
#include "t/kernels/machine.h"

#include <symmcoll.h>

#include <stddef.h>

#define GROUP_RANKS 9
#define GROUP_LAUNCHES 32

/* The sizes of buffers in bytes, and their misalignment. */
struct sizes {
    size_t data, in, out, shift;
};

/* Words that kernels and the host use concurrently. */
struct group_words {
    uint32_t aborted;
    struct symc_device_failure failure;
};

struct group {
    int size;
    struct sizes sizes;
    size_t stride, offset; /* of the data, in a segment */
    unsigned char *segments;
    unsigned char **places;   /* from where data of each rank begin at offset */
    bool has_table;           /* the table holds these, possibly in another
                               * order */
    unsigned char *multicast; /* address of all segments as one, or NULL */
    unsigned char *in[GROUP_RANKS], *out[GROUP_RANKS];
    struct group_words *words;
    uint32_t expected; /* reason of the expected failure; 0: none */
    struct engine_launch launches[GROUP_RANKS][GROUP_LAUNCHES];
    struct engine_stream streams[GROUP_RANKS];
};

void group_open(struct group *group, int size, const struct sizes *sizes);
void group_close(struct group *group);

/* Opens a multicast address, if the machine supports it. */
void group_open_multicast(struct group *group);

/* Return the group and the data as in the arguments of a rank's kernel. */
struct symc_device_group group_of(struct group *group, int rank);
struct symc_device_data group_data_of(const struct group *group);

/* Returns the data in a rank's segment. */
unsigned char *group_data(const struct group *group, int rank);

/* Launches a kernel on a rank's stream; args must stay valid until group_run()
 * returns. */
void group_launch(struct group *group, int rank, kernel_fn kernel,
    const void *args, uint32_t blocks, uint32_t threads);

/* Enqueues a memcpy() on a rank's stream. */
void group_launch_copy(
    struct group *group, int rank, const struct copying *copying);

/* Runs the launches, in a drawn order of fibers. Returns false, with a line in
 * the log, if a kernel timed out unexpectedly, or did not when expected, or if
 * bytes beside data or outputs changed. */
bool group_run(struct group *group);

/* Runs the launches as group_run() does, but checks nothing. */
void group_run_freely(struct group *group);

/* Returns whether elements have the expected bits. For a NaN any NaN bits are
 * accepted if the machine produces others. */
bool group_is_same(const void *expected, const void *found, size_t count,
    enum symmcoll_dtype dtype);

/* Draw random numbers, the same in each run. */
uint32_t group_draw(void);
void group_fill(void *at, size_t nbytes);

#endif
