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
struct symmcoll_world;

enum symmcoll_group_flags {
    /* Of symmcoll_group_create(): the members alone call, and wait for each
     * other only, also in a world where others have died. */
    SYMMCOLL_GROUP_LOCAL = 1,
    /* The members have the order in which their ranks are passed, which is the same
     * on all ranks, instead of that of the world, or of the parent.  Not with a
     * tag. */
    SYMMCOLL_GROUP_UNSORTED = 2
};

/* What a group is to be.  Initialise it with SYMMCOLL_GROUP_ARGS_INIT and set
 * what differs. */
struct symmcoll_group_args {
    size_t size;      /* sizeof(struct symmcoll_group_args) */
    const int *ranks; /* the members' ranks in the world, in any order, which
                         SYMMCOLL_GROUP_UNSORTED keeps; NULL: all ranks */
    int nranks;       /* how many; not read where ranks is NULL */
    uint32_t flags;   /* of enum symmcoll_group_flags; the same on all ranks */
    const char *name; /* 1 to 63 bytes, digits alone too; the same on all ranks;
                         NULL: a number, which counts the groups that were
                         made, whatever groups are called so */
    const char *description; /* at most 63 bytes, for records; NULL:
                                "undefined" */
    double timeout;  /* of the group's operations; negative: the settings',
                       whatever the world's group has */
    size_t staging;  /* bytes of this rank's buffers for large operations, at
                       most; 0: what host.staging_budget leaves.  All members
                       use as much as the smallest has, and what the group
                       cannot do without in any case */
    const char *tag; /* 1 to 47 bytes, to find the group by; the same on all
                        ranks; NULL: none.  symmcoll_group_create() returns a
                        group with this tag and these members instead of a new
                        one, if all ranks have it (SYMMCOLL_GROUP_LOCAL: if
                        this rank has it): it has then to be released as often
                        as it was returned */
};
#define SYMMCOLL_GROUP_ARGS_INIT                                           \
    {                                                                      \
        sizeof(struct symmcoll_group_args), NULL, 0, 0, NULL, NULL, -1, 0, \
            NULL                                                           \
    }

/*
 * Make a group of some ranks of the world, in the order of their ranks there, or
 * with SYMMCOLL_GROUP_UNSORTED in that of args->ranks.
 * Collective: all ranks of the world call it, in the same order as their other
 * groups and collectives of the world's group, with the same ranks, name and
 * flags.  It may wait as long as an operation of the world's group.
 *
 * args   NULL: a further group of all ranks
 * group  out: release with symmcoll_group_free().  On a rank that is no member
 *        it is a group too, which knows its members: its rank is -1, and its
 *        operations do nothing and return NOT_MEMBER
 *
 * It makes the group on all ranks or on none, with the same error.
 *
 * Errors: INVALID (a rank outside of the world, or twice; a name; on all ranks:
 * the name is that of a group that one of them still has), MISMATCH (names the
 * ranks and what each passed), NO_MEMORY, UNSUPPORTED, and those of collectives
 * of the world's group, which remains usable as after those.
 * Source: torch.distributed.new_group.    Manual: symmcoll_group_create(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_create(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, struct symmcoll_group **group);

/*
 * With SYMMCOLL_GROUP_LOCAL the members alone call it, whatever others do, also
 * where other ranks have died.  They wait for each other as long as args->timeout
 * says (negative: timeouts.init).  Ranks that have several such groups in common
 * make them in the same order: else they wait for each other, and the error says
 * for whom and what those are making.  The same ranks make another group each
 * time.  Two threads of a rank may make different groups at once.
 *
 * Errors: NOT_MEMBER, which is positive (this rank is none of ranks: group is set
 * to NULL), PEER (a member has died or finalized), TIMEOUT (names who has not
 * come), and where another member fails, its error.
 */

/*
 * What is left of a group is to be a new one.  Initialise it with
 * SYMMCOLL_SHRINK_ARGS_INIT.
 */
struct symmcoll_shrink_args {
    size_t size;        /* sizeof(struct symmcoll_shrink_args) */
    const int *exclude; /* ranks in the group that live and are to be left out,
                           as those that an operation has waited for in vain */
    int nexclude;       /* how many */
    double timeout;     /* for the call: seconds to wait for ranks that live;
                           negative: timeouts.init */
};
#define SYMMCOLL_SHRINK_ARGS_INIT                          \
    {                                                      \
        sizeof(struct symmcoll_shrink_args), NULL, 0, -1.0 \
    }

/*
 * Make a group of the members that are left, in their order.  Every member that
 * lives and that no other excludes calls it; a rank that dies meanwhile is left
 * out.  A group that has not failed fails by it.  The old group stays failed, and
 * is to be freed, before or after the new one.
 *
 * args    NULL: leave out the dead, and those that have finalized
 * shrunk  out: release with symmcoll_group_free(); its members are the survivors
 * last    out: the sequence number of the last collective that every survivor
 *         has completed, 0: none.  All later ones have to be done again, some
 *         survivors may have completed more.  NULL: not wanted
 *
 * All survivors agree on both.  Whoever dies after that fails the new group.
 *
 * Errors: INVALID, NOT_MEMBER, TIMEOUT (names ranks that live and did not call,
 * which the next call of any may exclude), ABORTED (the others exclude this rank,
 * or have shrunk the group without it), NO_MEMORY, and the error of another
 * survivor.  After an error all may call again.
 * Source: torch.distributed.shrink_group, MPIX_Comm_shrink.
 * Manual: symmcoll_group_shrink(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_shrink(struct symmcoll_group *group,
    const struct symmcoll_shrink_args *args, struct symmcoll_group **shrunk,
    uint64_t *last);

/*
 * Split a group by colors: members that pass the same color are a group, in the
 * order of their keys and, where these are equal, of their ranks in the parent.
 * Collective: all members of the parent call it.
 *
 * color  negative: this rank is in none of the groups
 * args   without ranks; NULL for the defaults, which are the parent's timeout,
 *        and as a description the parent's with ":split:" and a count.  Of a
 *        name N the groups are called N.0, N.1, ... if they are several
 * group  out: this rank's, release with symmcoll_group_free(); NULL where it is
 *        in none
 *
 * Errors: as of symmcoll_group_create(), with the parent in place of the
 * world's group; NOT_MEMBER (of the parent).
 * Source: torch.distributed.split_group, MPI_Comm_split.
 * Manual: symmcoll_group_split(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_split(struct symmcoll_group *parent, int color,
    int key, const struct symmcoll_group_args *args,
    struct symmcoll_group **group);

/* Lists of ranks, one after another. */
struct symmcoll_lists {
    const int *ranks; /* of the first list, then of the second, ... */
    const int *sizes; /* how many ranks each list has, 1 or more */
    int count;        /* of lists */
};

/*
 * The same by lists of the parent's ranks, which are the same on all members; a
 * rank is in one of them at most.  Each group has the order of the parent, or with
 * SYMMCOLL_GROUP_UNSORTED that of its list.
 *
 * With SYMMCOLL_GROUP_LOCAL the ranks of one list make their group alone, as by
 * symmcoll_group_create(); all is NULL.  A rank in no list gets NOT_MEMBER.
 *
 * own  out: this rank's group; NULL where it is in none
 * all  out: lists->count groups, each to be released, those that this rank is
 *      not in too, as of symmcoll_group_create(); own is one of them.  NULL: not
 *      wanted
 *
 * Source: torch.distributed.split_group, new_subgroups_by_enumeration.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_split_lists(struct symmcoll_group *parent,
    const struct symmcoll_lists *lists, const struct symmcoll_group_args *args,
    struct symmcoll_group **own, struct symmcoll_group **all);

/*
 * The same by runs of so many ranks that follow one another: a divisor of the
 * parent's size.
 * Source: torch.distributed.new_subgroups.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_split_runs(struct symmcoll_group *parent,
    int nranks, const struct symmcoll_group_args *args,
    struct symmcoll_group **own, struct symmcoll_group **all);

/* What is known of a group.  Begins as SYMMCOLL_GROUP_INFO_INIT.  Texts are
 * borrowed from the group. */
struct symmcoll_group_info {
    size_t size; /* sizeof(struct symmcoll_group_info) */
    int rank;    /* this rank's number; -1: it is no member */
    int nranks;
    const char *name;
    const char *description; /* "default_pg" of the world's group */
    const char *backend;     /* of host memory: "host"; NULL: no member */
    double timeout;          /* seconds; of operations called now */
    size_t staging;          /* bytes of each member's buffers for large
                                operations, as the members have agreed */
    uint64_t uid;    /* groups of this world that this rank knew before */
    uint64_t splits; /* how often groups were made of it */
    const char *tag; /* "user:TAG", or "ptd:NAME" of a group without a tag */
};
#define SYMMCOLL_GROUP_INFO_INIT                                             \
    {                                                                        \
        sizeof(struct symmcoll_group_info), 0, 0, NULL, NULL, NULL, 0, 0, 0, \
            0, NULL                                                          \
    }

/* Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_get_info(
    const struct symmcoll_group *group, struct symmcoll_group_info *info);

/* The world's next group that this rank knows, in the order in which they were
 * made; after NULL: the world's own.  NULL after the last.  Borrowed. */
SYMMCOLL_API
struct symmcoll_group *symmcoll_group_next(
    struct symmcoll_world *world, const struct symmcoll_group *after);

/*
 * The group with a tag and with these members, in any order, that was made
 * first.  Local.
 *
 * tag    as it was passed, or as symmcoll_group_get_info() returns it; NULL or
 *        "": any group without a tag
 * ranks  of the world; NULL: all
 *
 * Returns NULL where this rank knows no such group.  Borrowed.
 * Source: torch.distributed.distributed_c10d._find_pg_by_ranks_and_tag.
 * Manual: symmcoll_group_find(3).
 */
SYMMCOLL_API
struct symmcoll_group *symmcoll_group_find(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks);

/*
 * The group of this rank among runs of nrun ranks each, found by its tag as
 * above; where this rank knows none it is made, with that tag, as with
 * SYMMCOLL_GROUP_LOCAL: by a call of the run's ranks alone, within timeouts.init.
 * Several threads may look for the same group, or for others, in any order; one
 * of them makes it.
 *
 * ranks  a multiple of nrun ranks of the world, with this rank; NULL: all
 * group  out: release with symmcoll_group_free(), as often as it was returned
 *
 * Errors: INVALID (ranks, nrun; no tag and no such group), and those of
 * symmcoll_group_create().
 * Source: torch.distributed.distributed_c10d._find_or_create_pg_by_ranks_and_tag.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_find_or_create(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, int nrun,
    struct symmcoll_group **group);

/* Ranks in a grid: of a mesh of 2 x 3 first the three of the first row. */
struct symmcoll_mesh {
    size_t size;      /* sizeof(struct symmcoll_mesh) */
    const int *ranks; /* of the world */
    const int *shape; /* ndim numbers, whose product is how many ranks there
                         are */
    int ndim;
};
#define SYMMCOLL_MESH_INIT                          \
    {                                               \
        sizeof(struct symmcoll_mesh), NULL, NULL, 0 \
    }

/* What may stand for a group: one of lists, group and mesh. */
struct symmcoll_designator {
    size_t size;                        /* sizeof(struct symmcoll_designator) */
    const struct symmcoll_lists *lists; /* of ranks of the world, all of one
                                           length */
    const struct symmcoll_group *group;
    const struct symmcoll_mesh *mesh;
    int dim;         /* of the mesh: the ranks that differ from this one in this
                        coordinate only; -1: the mesh has one dimension.  Of a
                        mesh of dp x tp ranks, in rows of tp, 0 is this rank's
                        column (its dp group) and 1 its row (its tp group) */
    const char *tag; /* NULL or "": the group's own, or none */
};
#define SYMMCOLL_DESIGNATOR_INIT                                       \
    {                                                                  \
        sizeof(struct symmcoll_designator), NULL, NULL, NULL, -1, NULL \
    }

/*
 * What it stands for: a tag, ranks of the world, and how many of them each group
 * has.  Local.
 *
 * tag     out: "" for none; borrowed from the designator or its group
 * ranks   out: room for all ranks of the world
 * nranks  out: how many there are
 * nrun    out: how many of them each group has
 *
 * Errors: INVALID (lists of several lengths, a mesh of several dimensions
 * without dim or without this rank, not one of the three).
 * Source: torch.distributed._functional_collectives._expand_group.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_designator_expand(struct symmcoll_world *world,
    const struct symmcoll_designator *designator, const char **tag, int *ranks,
    int *nranks, int *nrun);

/*
 * Release a group on this rank; NULL is fine.  Not collective: it waits for this
 * rank's operations that are queued or under way and for their callbacks (in a
 * callback of another group it runs these itself), within timeouts.finalize,
 * and for no other rank; several groups may be released in different order on
 * different ranks.  An operation of another member that needs this rank then
 * ends with PEER.  Works of the group may be asked and released afterwards.
 * symmcoll_finalize() releases what is left.
 *
 * Errors: TIMEOUT (operations have not ended: they have been canceled, and the
 * group is released; not where it says that a thread stands in a device's driver:
 * call again when it has returned), DEVICE (a backend still owns buffers; likewise); INVALID
 * (the world's group, in a callback of one of its works, in a function that a
 * call of the group has called, or in a child after fork(): nothing is touched).
 * Source: torch.distributed.destroy_process_group.
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_group_free(struct symmcoll_group *group);

/*
 * Wait until all operations of this rank in a group have ended and been reported:
 * blocking calls of other threads, works and what they have been told to call, sends
 * and receives, what has been enqueued on a device, and calls of functions of
 * symmcoll_group_notify(); with what callbacks start meanwhile.  Not collective, and
 * the group remains usable.  In a callback of another group it runs the group's
 * callbacks itself.
 *
 * timeout  seconds; negative: as long as the operations may take; 0: do not block
 *
 * Returns OK however they have ended.
 *
 * Errors: TIMEOUT (some have not: they go on), NOT_MEMBER, INVALID (NULL, NaN, in a
 * callback of the group, in a function that a call of the group has called, or in a
 * child after fork()).
 * Manual: symmcoll_group_drain(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_drain(
    struct symmcoll_group *group, double timeout);

/* An operation that has ended.  Times are seconds, of the wall clock where no other
 * clock is named; later releases may add members at the end. */
struct symmcoll_operation {
    const char *name;         /* "all_gather"; static */
    const char *label;        /* of the call, "" where it had none */
    uint64_t sequence;        /* its number in the group: of collectives, or of
                                 sends and receives */
    symmcoll_status_t status; /* with which it has ended */
    double created;           /* when it was called */
    double started;           /* when its turn came */
    double ended;
    double duration; /* from started to ended, more than 0 */
    enum symmcoll_kind kind;
    double created_monotonic; /* the same times by CLOCK_MONOTONIC */
    double started_monotonic;
    double ended_monotonic;
};

/* Called on the world's callback thread, where symmcoll_last_error() is the
 * detail of an operation that failed; it may do what any callback may, see
 * symmcoll_work_fn.  operation and its texts are borrowed for the call. */
typedef void (*symmcoll_operation_fn)(
    const struct symmcoll_operation *operation, void *arg);

/*
 * Call fn(operation, arg) for every operation of the group that ends from now
 * on, on this rank, in the order in which they end: collectives, sends and
 * receives, blocking or not.  arg is borrowed, until symmcoll_group_free()
 * has returned, which waits for the calls of what has ended by then, and in a
 * callback of another group makes them itself.  Several functions may be added,
 * and are called in that order.  A call that is refused before it takes a number
 * is not reported.
 *
 * Errors: INVALID (the same function with the same arg a second time; the recorder,
 * which has the times, is off: trace.buffer_size), NOT_MEMBER, ABORTED (the world is
 * being finalized), NO_MEMORY, SYSTEM.
 * Source: torch.distributed, ProcessGroup._register_on_completion_hook.
 * Manual: symmcoll_group_notify(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_notify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg);

/*
 * Remove a function that symmcoll_group_notify() has added with that arg.  It is not
 * called after this has returned, also for operations that have ended before; a call
 * of it that another thread is in ends first.  It may remove itself.
 *
 * Errors: INVALID (the group has no such function), NOT_MEMBER.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_unnotify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg);

/* This rank's number within the group; -1 where it is no member, or of NULL,
 * whose size and sequence number are 0 and whose name and world NULL. */
SYMMCOLL_API
int symmcoll_group_rank(const struct symmcoll_group *group);

/* How many ranks the group has. */
SYMMCOLL_API
int symmcoll_group_size(const struct symmcoll_group *group);

/* The group's name, "0" for the group of all ranks; in a world with a name of
 * its own after that: "train/0".  Borrowed. */
SYMMCOLL_API
const char *symmcoll_group_name(const struct symmcoll_group *group);

/* The world that it is a group of.  Borrowed; of a group that is not released:
 * never NULL. */
SYMMCOLL_API
struct symmcoll_world *symmcoll_group_world(const struct symmcoll_group *group);

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
 * What is called by all and is no collective, as making groups and rendezvous,
 * takes none either, but that of a collective which others call in its place.
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
 * Set the current stream of the group, on this rank: that of calls on device
 * memory from now on whose call.stream is NULL.
 *
 * stream  a CUstream or cudaStream_t, borrowed until all calls on it have ended;
 *         NULL, as it is at first: the default stream of the device; that of a
 *         thread is INVALID in calls, but in the group's first on device memory,
 *         whose stream and buffers are checked when all members have begun it: it
 *         fails the group with DEVICE
 *
 * A call without a work is enqueued on its stream and returns.  One with a work
 * runs on a stream of the library's, after what has been enqueued on the call's;
 * symmcoll_work_wait() without a timeout has the call's wait for it.
 *
 * Calls without a work may be captured in graphs.  A graph whose wait expires, or
 * that waits for a rank that has left, fails the group, which symmcoll_group_error()
 * tells; it is not started after symmcoll_symm_free() of what it uses, nor after
 * the release of its group.
 *
 * Errors: INVALID (NULL).
 * Source: torch.cuda.set_stream.          Manual: symmcoll_group_set_stream(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_set_stream(
    struct symmcoll_group *group, void *stream);

/* The current stream of the group; NULL: the default one, or of NULL. */
SYMMCOLL_API
void *symmcoll_group_stream(const struct symmcoll_group *group);

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
