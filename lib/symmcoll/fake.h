/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fake worlds: one rank of many, without the others, for programs that are to be
 * tried at sizes that no machine at hand has.  Manual: symmcoll_fake_world(3).
 */
#ifndef SYMMCOLL_FAKE_H
#define SYMMCOLL_FAKE_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_world;

/* The world, and what messages cost on its virtual clock. */
struct symmcoll_fake_args {
    size_t size;      /* sizeof(struct symmcoll_fake_args) */
    int rank;         /* this rank */
    int world_size;   /* 1 to 4096 */
    double latency;   /* seconds of a message; 0: none */
    double bandwidth; /* bytes per second of a link; 0: bytes take no time */
    const char *name; /* as of struct symmcoll_init_args */
};
#define SYMMCOLL_FAKE_ARGS_INIT                             \
    {                                                       \
        sizeof(struct symmcoll_fake_args), 0, 1, 0, 0, NULL \
    }

/*
 * Make a world of one rank that is there.  Operations of its groups check their
 * arguments, are recorded and end at once.  all_gather and its other forms store
 * this rank's elements for every rank; other results are not touched.  Ranks of
 * a group that are not there never differ.
 *
 * world  out: release with symmcoll_finalize()
 *
 * Errors: INVALID, and those of symmcoll_init().
 * Source: torch.testing._internal.distributed.fake_pg.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fake_world(
    const struct symmcoll_fake_args *args, struct symmcoll_world **world);

/*
 * Seconds that the operations so far would have taken, one after another: of
 * each message the latency and its bytes, in a ring for all_reduce,
 * reduce_scatter and all_gather, in a tree for broadcast, reduce and barriers,
 * from each rank to each for all_to_all; gather and scatter at the root.  The
 * difference of two calls is an estimate of what is between them.  NaN in a world
 * that is not fake.
 */
SYMMCOLL_API
double symmcoll_fake_clock(const struct symmcoll_world *world);

/* Let time pass on that clock, as a computation would.  Errors: INVALID (a
 * world that is not fake, no time). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fake_advance(
    struct symmcoll_world *world, double seconds);

/* Have operations from now on end with an error, or OK: with none.  Their groups
 * remain usable.  Errors: INVALID (a world that is not fake, no error). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fake_set_error(
    struct symmcoll_world *world, symmcoll_status_t error);

SYMMCOLL_END_DECLS

#endif
