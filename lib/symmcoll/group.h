/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group is an ordered set of ranks that run collectives together.  Its
 * operations run one after another, in the order in which they were called.
 * Manual: symmcoll_group_rank(3).
 */
#ifndef SYMMCOLL_GROUP_H
#define SYMMCOLL_GROUP_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;

/* This rank's number within the group. */
SYMMCOLL_API
int symmcoll_group_rank(const struct symmcoll_group *group);

/* How many ranks the group has. */
SYMMCOLL_API
int symmcoll_group_size(const struct symmcoll_group *group);

/* The group's name, "0" for the group of all ranks; in a world with a name of
 * its own after that: "train/0".  Borrowed. */
SYMMCOLL_API
const char *symmcoll_group_name(const struct symmcoll_group *group);

/* The group's number of a rank of the world; -1 where it is no member. */
SYMMCOLL_API
int symmcoll_group_rank_of(const struct symmcoll_group *group, int global_rank);

/* The world's number of a rank of the group; -1 where there is none such. */
SYMMCOLL_API
int symmcoll_group_global_rank(const struct symmcoll_group *group, int rank);

/*
 * How many collectives have begun, which is the sequence number of the latest.
 * Every call of a collective takes one, in the order of the calls and on every
 * rank, also one that ends with MISMATCH; those of the library itself, as for a
 * reducer, do too.  A call that is refused by its arguments (INVALID,
 * UNSUPPORTED) takes none, nor does one in a group that has failed (ABORTED).
 */
SYMMCOLL_API
uint64_t symmcoll_group_sequence(const struct symmcoll_group *group);

/*
 * Set the timeout of operations called from now on: seconds that they may wait
 * for other ranks; negative: what it was at first.
 * Errors: INVALID (NULL, NaN).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_set_timeout(
    struct symmcoll_group *group, double timeout);

/*
 * Fail the group on every rank, from any thread and without waiting: operations
 * that run end with CANCELED, later calls with ABORTED and the reason.
 *
 * reason  one line for the message, copied; NULL: none given
 *
 * Source: torch.distributed.ProcessGroup.abort.
 */
SYMMCOLL_API
void symmcoll_group_abort(struct symmcoll_group *group, const char *reason);

/*
 * Whether the group is usable: OK, or the status of what failed it, with the
 * first reason as symmcoll_last_error().  Never blocks.
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_group_error(struct symmcoll_group *group);

SYMMCOLL_END_DECLS

#endif
