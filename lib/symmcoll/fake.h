/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fake worlds: one rank without its peers, to try a program at sizes for which
 * no machine is available.  Manual: symmcoll_fake_world(3).
 */
#ifndef SYMMCOLL_FAKE_H
#define SYMMCOLL_FAKE_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_world;

/* The world, and the cost of messages on its virtual clock. */
struct symmcoll_fake_args {
    size_t size;      /* sizeof(struct symmcoll_fake_args) */
    int rank;         /* this rank */
    int world_size;   /* 1 to 4096 */
    double latency;   /* seconds for each message; 0: none */
    double bandwidth; /* bytes per second of a link; 0: unlimited */
    const char *name; /* as in struct symmcoll_init_args */
};
#define SYMMCOLL_FAKE_ARGS_INIT                             \
    {                                                       \
        sizeof(struct symmcoll_fake_args), 0, 1, 0, 0, NULL \
    }

/*
 * Creates a world of which only this rank exists.  Operations of its groups
 * check their arguments, are recorded and end at once.  all_gather and its
 * variants store this rank's elements as those of every rank; the outputs of
 * other operations are not written.  Arguments never differ between ranks.
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
 * Returns the time, in seconds, that all operations up to now would have taken
 * one after another.  Each message costs the latency and its bytes: in a ring
 * for all_reduce, reduce_scatter and all_gather, in a tree for broadcast,
 * reduce and barriers, from each rank to each for all_to_all, at the root for
 * gather and scatter.  The difference between two calls estimates the
 * operations between them.  NaN in a world that is not fake.
 */
SYMMCOLL_API
double symmcoll_fake_clock(const struct symmcoll_world *world);

/* Advances the virtual clock, as a computation would.  Errors: INVALID (a world
 * that is not fake; negative seconds). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fake_advance(
    struct symmcoll_world *world, double seconds);

/* Sets the error with which later operations end, or OK for none.  Their groups
 * remain usable.  Errors: INVALID (a world that is not fake; a status that is
 * no error). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_fake_set_error(
    struct symmcoll_world *world, symmcoll_status_t error);

SYMMCOLL_END_DECLS

#endif
