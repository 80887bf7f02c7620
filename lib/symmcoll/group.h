/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group is an ordered set of ranks that run collectives together.  Its
 * operations run one after another, in the order of the calls.
 * Manual: symmcoll_group_rank(3).
 */
#ifndef SYMMCOLL_GROUP_H
#define SYMMCOLL_GROUP_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_group;
struct symmcoll_world;

enum symmcoll_group_flags {
    /* Only the members call symmcoll_group_create(), and wait for no other
     * rank; works also in a world in which other ranks have died. */
    SYMMCOLL_GROUP_LOCAL = 1,
    /* The members are in the order in which their ranks are passed, the same on
     * all ranks, not in that of the world or of the parent.  Not with a tag. */
    SYMMCOLL_GROUP_UNSORTED = 2
};

/* The properties of a new group.  Initialise it with SYMMCOLL_GROUP_ARGS_INIT
 * and set the members that differ. */
struct symmcoll_group_args {
    size_t size;      /* sizeof(struct symmcoll_group_args) */
    const int *ranks; /* the members' ranks in the world, in any order, which
                         SYMMCOLL_GROUP_UNSORTED keeps; NULL: all ranks */
    int nranks;       /* number of ranks; not read if ranks is NULL */
    uint32_t flags;   /* of enum symmcoll_group_flags; the same on all ranks */
    const char *name; /* 1 to 63 bytes, which may be all digits; the same on
                         all ranks; NULL: a number, the count of groups that the
                         world has made, whatever their names */
    const char *description; /* at most 63 bytes, for records; NULL:
                                "undefined" */
    double timeout;  /* of the group's operations; negative: the timeout that
                       symmcoll_init() had, not a later one of the world's
                       group */
    size_t staging;  /* limit, in bytes, on this rank's buffers for large
                       operations; 0: the rest of host.staging_budget.  All
                       members use the smallest limit among them, but at least
                       the minimum that a group needs */
    const char *tag; /* 1 to 47 bytes, by which the group can be found; the same
                        on all ranks; NULL: none.  If all ranks have a group
                        with this tag and these members
                        (SYMMCOLL_GROUP_LOCAL: if this rank has one),
                        symmcoll_group_create() returns it and makes no new
                        one: release it as often as it was returned */
};
#define SYMMCOLL_GROUP_ARGS_INIT                                           \
    {                                                                      \
        sizeof(struct symmcoll_group_args), NULL, 0, 0, NULL, NULL, -1, 0, \
            NULL                                                           \
    }

/*
 * Makes a group of some ranks of the world, in the order of their ranks there
 * or, with SYMMCOLL_GROUP_UNSORTED, of args->ranks.  Collective: all ranks of
 * the world call it, with the same ranks, name and flags, in the same order as
 * their other groups and collectives of the world's group.  It has the timeout
 * of an operation of the world's group.
 *
 * args   NULL: another group of all ranks
 * group  out: release with symmcoll_group_free().  A rank that is not a member
 *        gets a group too, which holds the numbers of the members: its rank is
 *        -1, and its operations do nothing and return NOT_MEMBER
 *
 * The group is made on all ranks or on none, with the same error.
 *
 * Errors: INVALID (a rank outside of the world, or twice; a name; on all ranks:
 * one of them still has a group of that name), MISMATCH (the detail names the
 * ranks and their arguments), NO_MEMORY, UNSUPPORTED, and those of collectives
 * of the world's group, which remains usable as after those.
 *
 * With SYMMCOLL_GROUP_LOCAL only the members call it, also if other ranks have
 * died.  They wait for each other for args->timeout (negative: timeouts.init).
 * Ranks that have several such groups in common make them in the same order:
 * else they wait for each other until TIMEOUT, whose detail names the ranks and
 * the groups that those are making.  Another call with the same ranks makes
 * another group.  Two threads of a rank may make different groups at once.
 *
 * Its errors besides: NOT_MEMBER, which is positive (this rank is not among the
 * ranks: group is set to NULL), PEER (a member died or finalized), TIMEOUT (the
 * detail names the missing members), and the error of another member that
 * fails.
 * Source: torch.distributed.new_group.    Manual: symmcoll_group_create(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_create(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, struct symmcoll_group **group);

/* The options of symmcoll_group_shrink().  Initialise it with
 * SYMMCOLL_SHRINK_ARGS_INIT. */
struct symmcoll_shrink_args {
    size_t size;        /* sizeof(struct symmcoll_shrink_args) */
    const int *exclude; /* ranks in the group to be left out though they are
                           alive, such as those that an operation timed out on,
                           as symmcoll_error_info() returns them */
    int nexclude;       /* number of ranks */
    double timeout;     /* of the call: seconds to wait for live ranks;
                           negative: timeouts.init */
};
#define SYMMCOLL_SHRINK_ARGS_INIT                          \
    {                                                      \
        sizeof(struct symmcoll_shrink_args), NULL, 0, -1.0 \
    }

/*
 * Makes a group of the remaining members of a group, in their order.  Every
 * member that is alive and not excluded by another calls it; a rank that dies
 * during the call is left out.  The call fails the old group, if it has not
 * failed.  The old group remains failed; release it before or after the new
 * one.
 *
 * args    NULL: leave out only ranks that have died or finalized
 * shrunk  out: release with symmcoll_group_free(); its members are the
 *         survivors
 * last    out: the sequence number of the last collective that every survivor
 *         has completed, 0: none.  All later ones have to be repeated, although
 *         some survivors may have completed more.  NULL: not wanted
 *
 * All survivors agree on members and last.  A later death of a survivor fails
 * the new group.
 *
 * Errors: INVALID, NOT_MEMBER, TIMEOUT (the detail names the ranks that are
 * alive and did not call; the next call of any member may exclude them),
 * ABORTED (the others exclude this rank, or have shrunk the group without it),
 * NO_MEMORY, and the error of another survivor.  After an error all may call
 * again.
 * Source: torch.distributed.shrink_group, MPIX_Comm_shrink.
 * Manual: symmcoll_group_shrink(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_shrink(struct symmcoll_group *group,
    const struct symmcoll_shrink_args *args, struct symmcoll_group **shrunk,
    uint64_t *last);

/*
 * Splits a group by colors: members that pass the same color form a group, in
 * the order of their keys and, for equal keys, of their ranks in the parent.
 * Collective: all members of the parent call it.
 *
 * color  negative: this rank is in none of the groups
 * args   without ranks and flags; NULL for the defaults: the parent's timeout,
 *        and the parent's description with ":split:" and a count.  If there are
 *        several groups, a name N becomes N.0, N.1, ...
 * group  out: this rank's group, release with symmcoll_group_free(); NULL if
 *        the rank is in none
 *
 * Errors: those of symmcoll_group_create(), with the parent in place of the
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
    const int *ranks; /* those of the first list, then of the second, ... */
    const int *sizes; /* number of ranks of each list, 1 or more */
    int count;        /* number of lists */
};

/*
 * Splits a group by lists of the parent's ranks, the same on all members; a
 * rank is in at most one list.  Each group has the order of the parent or, with
 * SYMMCOLL_GROUP_UNSORTED, of its list.  Otherwise as symmcoll_group_split().
 *
 * With SYMMCOLL_GROUP_LOCAL only the ranks of one list make its group, as with
 * symmcoll_group_create(); all is NULL.  A rank in no list gets NOT_MEMBER.
 *
 * own  out: this rank's group; NULL if it is in none
 * all  out: lists->count groups, each to be released, including those that this
 *      rank is not in (see symmcoll_group_create()); own is one of them.  NULL:
 *      not wanted
 *
 * Source: torch.distributed.split_group, new_subgroups_by_enumeration.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_split_lists(struct symmcoll_group *parent,
    const struct symmcoll_lists *lists, const struct symmcoll_group_args *args,
    struct symmcoll_group **own, struct symmcoll_group **all);

/*
 * Splits a group into runs of consecutive ranks; otherwise as
 * symmcoll_group_split_lists().
 *
 * nranks  ranks of each run, a divisor of the parent's size
 *
 * Source: torch.distributed.new_subgroups.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_split_runs(struct symmcoll_group *parent,
    int nranks, const struct symmcoll_group_args *args,
    struct symmcoll_group **own, struct symmcoll_group **all);

/* The properties of a group.  Initialise it with SYMMCOLL_GROUP_INFO_INIT.
 * Texts are borrowed from the group. */
struct symmcoll_group_info {
    size_t size; /* sizeof(struct symmcoll_group_info) */
    int rank;    /* this rank's number; -1: not a member */
    int nranks;
    const char *name;
    const char *description; /* "default_pg" for the world's group */
    const char *backend;     /* of host memory: "host"; NULL: not a member */
    double timeout;          /* in seconds, of operations called now */
    size_t staging;          /* bytes of each member's buffers for large
                                operations, as agreed by the members */
    uint64_t uid;    /* number of groups that this rank had made before in
                        this world */
    uint64_t splits; /* number of times that groups were made of it */
    const char *tag; /* "user:TAG", or "ptd:NAME" for a group without a tag */
};
#define SYMMCOLL_GROUP_INFO_INIT                                             \
    {                                                                        \
        sizeof(struct symmcoll_group_info), 0, 0, NULL, NULL, NULL, 0, 0, 0, \
            0, NULL                                                          \
    }

/* Fills in the properties of a group.  Errors: INVALID. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_get_info(
    const struct symmcoll_group *group, struct symmcoll_group_info *info);

/* Returns the group of the world that was made next after another one, on this
 * rank; the world's own group if after is NULL; NULL after the last.
 * Borrowed. */
SYMMCOLL_API
struct symmcoll_group *symmcoll_group_next(
    struct symmcoll_world *world, const struct symmcoll_group *after);

/*
 * Finds the oldest group with a tag and with these members, in any order.
 * Local.
 *
 * tag    as passed to symmcoll_group_create(), or as symmcoll_group_get_info()
 *        returns it; NULL or "": any group without a tag
 * ranks  of the world; NULL: all
 *
 * Returns NULL if this rank has no such group.  Borrowed.
 * Source: torch.distributed.distributed_c10d._find_pg_by_ranks_and_tag.
 * Manual: symmcoll_group_find(3).
 */
SYMMCOLL_API
struct symmcoll_group *symmcoll_group_find(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks);

/*
 * Divides ranks into runs of nrun ranks, and finds the group of this rank's run
 * by its tag, as symmcoll_group_find() does.  If this rank has no such group,
 * the ranks of the run make it, with that tag and SYMMCOLL_GROUP_LOCAL, within
 * timeouts.init.  Several threads may search for the same group or for others,
 * in any order; one of them makes it.
 *
 * ranks  a multiple of nrun ranks of the world, including this rank; NULL: all
 * group  out: release with symmcoll_group_free(), as often as it was returned
 *
 * Errors: INVALID (ranks, nrun; no such group, and no tag to make it with), and
 * those of symmcoll_group_create().
 * Source:
 * torch.distributed.distributed_c10d._find_or_create_pg_by_ranks_and_tag.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_find_or_create(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, int nrun,
    struct symmcoll_group **group);

/* Ranks in a grid, in row-major order: for a 2 x 3 mesh, the three ranks of the
 * first row, then those of the second. */
struct symmcoll_mesh {
    size_t size;      /* sizeof(struct symmcoll_mesh) */
    const int *ranks; /* of the world */
    const int *shape; /* ndim lengths; their product is the number of
                         ranks */
    int ndim;
};
#define SYMMCOLL_MESH_INIT                          \
    {                                               \
        sizeof(struct symmcoll_mesh), NULL, NULL, 0 \
    }

/* A description of a group: exactly one of lists, group and mesh is set. */
struct symmcoll_designator {
    size_t size;                        /* sizeof(struct symmcoll_designator) */
    const struct symmcoll_lists *lists; /* of ranks of the world, all of
                                           one length */
    const struct symmcoll_group *group;
    const struct symmcoll_mesh *mesh;
    int dim;         /* of the mesh: the ranks that differ from this one in this
                        coordinate only; -1: the mesh has one dimension.  In a
                        mesh of dp x tp ranks, with rows of tp, 0 is this rank's
                        column (its dp group) and 1 its row (its tp group) */
    const char *tag; /* NULL or "": the tag of group, or none */
};
#define SYMMCOLL_DESIGNATOR_INIT                                       \
    {                                                                  \
        sizeof(struct symmcoll_designator), NULL, NULL, NULL, -1, NULL \
    }

/*
 * Expands a designator into the arguments of symmcoll_group_find_or_create().
 * Local.
 *
 * tag     out: "" for none; borrowed from the designator or its group
 * ranks   out: room for all ranks of the world
 * nranks  out: the number of ranks stored
 * nrun    out: the number of ranks of each group
 *
 * Errors: INVALID (lists of different lengths; a mesh of several dimensions
 * without dim, or without this rank; not exactly one of the three).
 * Source: torch.distributed._functional_collectives._expand_group.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_designator_expand(struct symmcoll_world *world,
    const struct symmcoll_designator *designator, const char **tag, int *ranks,
    int *nranks, int *nrun);

/*
 * Releases a group on this rank; NULL is valid.  Not collective: it waits,
 * within timeouts.finalize, for this rank's operations that are queued or under
 * way and for their callbacks (in a callback of another group it runs these
 * itself), and for no other rank.  Ranks may release several groups in
 * different orders.  An operation of another member that needs this rank then
 * ends with PEER.  Works of the group may be queried and released afterwards.
 * symmcoll_finalize() releases the remaining groups.
 *
 * Errors: TIMEOUT (operations had not ended: they are canceled, and the group
 * is released), DEVICE (a backend still owns buffers).  If the detail says that
 * a thread is in a device's driver, the group is not released: call again after
 * that thread has returned.  INVALID, without any effect: the world's group; in
 * a callback of one of the group's works; in a function that a call of the
 * group has called; in a child after fork().
 * Source: torch.distributed.destroy_process_group.
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_group_free(struct symmcoll_group *group);

/*
 * Waits until all operations of this rank in a group have ended and have been
 * reported: blocking calls of other threads, works and their callbacks, sends
 * and receives, operations enqueued on a device, and calls of functions of
 * symmcoll_group_notify(), including operations that callbacks start during the
 * wait.  Not collective; the group remains usable.  In a callback of another
 * group it runs the group's callbacks itself.
 *
 * timeout  seconds; negative: no limit but the operations' own; 0: does not
 *          block
 *
 * Returns OK whether the operations succeeded or failed.
 *
 * Errors: TIMEOUT (some operations have not ended: they continue), NOT_MEMBER,
 * INVALID (NULL; NaN; in a callback of the group; in a function that a call of
 * the group has called; in a child after fork()).
 * Manual: symmcoll_group_drain(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_drain(
    struct symmcoll_group *group, double timeout);

/* An operation that has ended.  Times are seconds of the wall clock, unless
 * another clock is named.  Later releases may add members at the end. */
struct symmcoll_operation {
    const char *name;         /* "all_gather"; static */
    const char *label;        /* of the call; "" if it had none */
    uint64_t sequence;        /* in the group: collectives have one sequence,
                                 sends and receives another */
    symmcoll_status_t status; /* the result of the operation */
    double created;           /* time of the call */
    double started;           /* time at which its execution began */
    double ended;
    double duration; /* from started to ended, more than 0; on device
                        memory, with trace.timing, the time on the device */
    enum symmcoll_kind kind;
    double created_monotonic; /* the same times on CLOCK_MONOTONIC */
    double started_monotonic;
    double ended_monotonic;
};

/* Called on the world's callback thread, where symmcoll_last_error() is the
 * detail of a failed operation.  It may do what symmcoll_work_fn may.
 * operation and its texts are borrowed for the call. */
typedef void (*symmcoll_operation_fn)(
    const struct symmcoll_operation *operation, void *arg);

/*
 * Registers fn(operation, arg), which is called for every operation of the
 * group that ends on this rank from now on, in the order in which they end:
 * collectives, sends and receives, blocking or not.  A call that is refused
 * before it takes a sequence number is not reported.  Several functions may be
 * added, and are called in that order.
 *
 * arg  borrowed until symmcoll_group_free() has returned.  That call waits
 *      until the functions have been called for all operations that have ended;
 *      in a callback of another group it calls them itself
 *
 * Errors: INVALID (the same function with the same arg a second time; the
 * flight recorder, which provides the times, is off: trace.buffer_size),
 * NOT_MEMBER, ABORTED (the world is being finalized), NO_MEMORY, SYSTEM.
 * Source: torch.distributed, ProcessGroup._register_on_completion_hook.
 * Manual: symmcoll_group_notify(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_notify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg);

/*
 * Removes a function that was added with this arg.  If another thread is in the
 * function, waits until it returns.  After that the function is not called
 * again, not even for operations that have ended before.  A function may remove
 * itself.
 *
 * Errors: INVALID (the group has no such function), NOT_MEMBER.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_unnotify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg);

/* Returns this rank's number within the group; -1 if it is not a member.  For a
 * NULL group the rank is -1, size and sequence number are 0, name and world are
 * NULL. */
SYMMCOLL_API
int symmcoll_group_rank(const struct symmcoll_group *group);

/* Returns the number of ranks of the group. */
SYMMCOLL_API
int symmcoll_group_size(const struct symmcoll_group *group);

/* Returns the group's name: "0" for the group of all ranks; in a world that has
 * a name, preceded by it: "train/0".  Borrowed. */
SYMMCOLL_API
const char *symmcoll_group_name(const struct symmcoll_group *group);

/* Returns the world of the group.  Borrowed; not NULL for a group that has not
 * been released. */
SYMMCOLL_API
struct symmcoll_world *symmcoll_group_world(const struct symmcoll_group *group);

/* Returns the group's number of a rank of the world; -1 if it is not a member.
 */
SYMMCOLL_API
int symmcoll_group_rank_of(const struct symmcoll_group *group, int global_rank);

/* Returns the world's number of a rank of the group; -1 if there is none. */
SYMMCOLL_API
int symmcoll_group_global_rank(const struct symmcoll_group *group, int rank);

/*
 * Returns the sequence number of the latest collective that has begun, which is
 * the number of collectives that have begun.  Every call of a collective takes
 * one number, in the order of the calls and on every rank, also if it ends with
 * MISMATCH; so do collectives of the library itself, such as those of a
 * reducer.  A call that is refused for its arguments (INVALID, UNSUPPORTED) or
 * in a group that has failed (ABORTED) takes none.  Calls of all ranks that are
 * not collectives, such as symmcoll_group_create() and
 * symmcoll_symm_rendezvous(), take none, except that such a call takes the
 * number of a collective that other ranks call in its place.
 */
SYMMCOLL_API
uint64_t symmcoll_group_sequence(const struct symmcoll_group *group);

/*
 * Sets the timeout of operations called from now on, in seconds that they may
 * wait for other ranks; negative: the group's initial timeout.
 * Errors: INVALID (NULL, NaN).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_set_timeout(
    struct symmcoll_group *group, double timeout);

/*
 * Sets this rank's current stream of the group, used by later calls on device
 * memory whose call.stream is NULL.
 *
 * stream  a CUstream or cudaStream_t, borrowed until all calls on it have
 *         ended.  NULL, the initial value, is the default stream of the device;
 *         a per-thread default stream is INVALID.  In the group's first call on
 *         device memory, stream and buffers are checked only when all members
 *         have begun it: a bad one fails the group with DEVICE
 *
 * A call without a work is enqueued on its stream and returns.  A call with a
 * work runs on a stream of the library, after the work that was enqueued on the
 * call's stream; symmcoll_work_wait() without a timeout makes the call's stream
 * wait for it.
 *
 * Calls without a work may be captured in graphs.  A wait in a graph that
 * expires, or that is for a rank that has left, fails the group:
 * symmcoll_group_error() returns that.  Do not launch a graph after
 * symmcoll_symm_free() of memory that it uses, or after the release of its
 * group.
 *
 * Errors: INVALID (NULL).
 * Source: torch.cuda.set_stream.          Manual: symmcoll_group_set_stream(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_group_set_stream(
    struct symmcoll_group *group, void *stream);

/* Returns the current stream of the group; NULL for the default stream and for
 * a NULL group. */
SYMMCOLL_API
void *symmcoll_group_stream(const struct symmcoll_group *group);

/*
 * Fails the group on every rank, from any thread and without waiting:
 * operations under way end with CANCELED, later calls return ABORTED with the
 * reason.  No effect on a group that has failed, that is NULL, or that this
 * rank is not in.
 *
 * reason  one line for the message, copied; NULL: none
 *
 * Source: torch.distributed.ProcessGroup.abort.
 */
SYMMCOLL_API
void symmcoll_group_abort(struct symmcoll_group *group, const char *reason);

/*
 * Returns OK if the group is usable, else the status that failed it, with the
 * first reason as symmcoll_last_error(); NOT_MEMBER if this rank is not in it.
 * Never blocks.
 */
SYMMCOLL_API
symmcoll_status_t symmcoll_group_error(struct symmcoll_group *group);

SYMMCOLL_END_DECLS

#endif
