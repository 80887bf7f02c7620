/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a backend, and the core that a backend uses.
 *
 * A backend moves the data of one group.  It is a const table of const tables.
 * A NULL member is an operation that it lacks, and the core checks before it
 * calls.  A module links only with the C library: `symc_core` is its only
 * access to the library.
 */
#ifndef SYMC_BACKEND_BACKEND_H
#define SYMC_BACKEND_BACKEND_H

#include "backend/admin.h"
#include "backend/memory.h"
#include "backend/one_rank.h"
#include "base/base.h"
#include "base/moving.h"
#include "base/op.h"
#include "base/ranks.h"
#include "segment/block.h"
#include "segment/doorbell.h"
#include "segment/shared.h"

#define SYMC_BACKEND_SYMBOL "symmcoll_backend" /* exported by every module */

struct symc_config;
struct symc_fake;
struct symc_algorithm_name;
struct symc_settings;

/* The members of a group, by group rank.  Entries of members on other machines
 * are NULL. */
struct symc_peers {
    int rank;
    int size;
    bool threads; /* all ranks are threads of one process and share pointers */
    /* The device that this member's operations use, of the memory that the
     * backend is opened for; 0 for the host. */
    int16_t device;
    /* For a device: stream and a buffer of the operation that opens the
     * backend, or NULL. */
    void *stream;
    const void *buffer;
    /* For a device: the result of a backend's allocate() or import(), and that
     * backend, if joining it opens the backend; or NULL. */
    const struct symc_backend *owner;
    const void *memory;
    struct symc_doorbell *const *doorbells;
    void *const *channels;    /* zeroed; aligned to SYMC_FALSE_SHARING */
    void *const *staging;     /* address space, see core->reserve */
    size_t staging_nbytes;    /* of each; agreed by the members */
    struct symc_fake *absent; /* simulates the other ranks; NULL: they exist */
};

/* The settings, each read by its key, as "host.chunk".  The key must be in the
 * table of settings and have the function's type, otherwise the value is 0 or
 * "".  A choice is an int, the index of its word in the range. */
struct symc_settings {
    const struct symc_config *config;
    bool (*get_bool)(const struct symc_config *config, const char *key);
    int64_t (*get_int)(const struct symc_config *config, const char *key);
    size_t (*get_size)(const struct symc_config *config, const char *key);
    int64_t (*get_time)(const struct symc_config *config, const char *key);
    const char *(*get_text)(const struct symc_config *config, const char *key);
    /* Returns an environment variable that another library reads, or NULL. */
    const char *(*get_variable)(const char *name);
};

/* The placement of an operation's buffers in the group's symmetric memory: the
 * number of the allocation (0: none) and the offset in the parts.  See
 * placement.h. */
struct symc_placement {
    uint64_t in, in_at;
    uint64_t out, out_at;
};

/* The result of the comparison of placements. */
enum symc_placed {
    SYMC_PLACED_UNKNOWN, /* not compared, see symc_is_placed() */
    SYMC_PLACED_UNLIKE,  /* differs between members */
    SYMC_PLACED_ALIKE
};

/* What the comparison of an operation on device memory has found.  Equal on all
 * members, apart from the placement. */
struct symc_agreed {
    const double *factors; /* PREMUL_SUM: of all members, by group rank */
    /* With separate counts for each pair of ranks: the elements of the largest
     * part of all pairs. */
    uint64_t largest;
    bool captured; /* a member captures the operation in a graph */
    enum symc_placed placed;
    struct symc_placement placement; /* of this member; if ALIKE, of all */
};

/* The functions of the library that a backend may call.  `group` is the
 * argument of every call. */
struct symc_core {
    void *group;
    const char *name;                   /* of the group */
    const struct symc_ranks *ranks;     /* its members, for messages */
    const struct symc_kind_info *kinds; /* indexed by enum symc_kind */
    const struct symc_settings *settings;
    /* The group's symmetric memory; may be read while an operation is started,
     * issued or advanced. */
    const struct symc_shared_table *shared;
    /* Written by the backend of host memory when it has compared an operation on
     * device memory; valid until the next one is compared. */
    struct symc_agreed *agreed;
    struct symc_waiting *waiting;
    const _Atomic uint32_t *stopped; /* not 0: the group has failed */
    /* Number of this rank's communicators in a library that can report on them,
     * counted by the backend.  While it is not 0, dumps of failures include
     * such a report. */
    _Atomic int *communicators;

    /* Stores the detail of an error, as symc_fail(). */
    symmcoll_status_t (*fail)(symmcoll_status_t status, const char *format, ...)
        SYMC_PRINTF(2, 3);
    /* After fail(): adds members to the ranks that the error concerns, for
     * symmcoll_error_info(). */
    void (*add_ranks)(void *group, const bool *ranks);
    void (*log)(void *group, enum symc_log_level level, const char *format, ...)
        SYMC_PRINTF(3, 4);

    /* Collective: sends a descriptor to every member and receives one from each
     * (out, an array of size, owned by the caller). fd is borrowed; -1 sends
     * none. */
    symmcoll_status_t (*exchange)(void *group, int fd, int *fds);
    /* Collective, while a backend of a device is opened: sends nbytes bytes
     * (equal on all members, at most SYMC_GATHER_MOST) to every member, and
     * returns the bytes of all, by group rank. */
    symmcoll_status_t (*gather)(
        void *group, const void *mine, void *all, size_t nbytes);
    /* While an operation is prepared: returns what the group that this one was
     * made from has made for it, which the backend then owns; NULL: nothing, or
     * taken already. */
    void *(*inherit)(void *group);
    /* Backs this rank's staging with memory; only the first successful call
     * does it. */
    symmcoll_status_t (*reserve)(void *group);

    /* Records that an operation has begun.  Called when the time for that costs
     * least; a second call has no effect.  The group records the end. */
    void (*record)(void *group, const struct symc_op *op);

    /* While an operation without a number is started and other members call one
     * with a number in its place: takes that number as well, so that the next
     * operation has the same number on all members.  Returns the number. */
    uint64_t (*take_number)(void *group);

    /* Fails the group with the detail that fail() has stored, on behalf of an
     * operation.  Returns its status. */
    symmcoll_status_t (*raise)(
        void *group, const struct symc_op *op, symmcoll_status_t status);

    /* Returns whether waiting for a member (-1: no particular one) cannot
     * succeed: the group has failed on any rank, or the member has left. */
    bool (*failed)(void *group, int member);
    /* After failed() with the same member: returns the status of this
     * operation, with its detail. */
    symmcoll_status_t (*failure)(
        void *group, const struct symc_op *op, int member);
    /* Fails the group because an operation's deadline has passed before these
     * members started it.  found: a clause about what has come instead of them;
     * NULL: nothing.  Returns the status. */
    symmcoll_status_t (*expire)(void *group, const struct symc_op *op,
        const bool *missing, const char *found);
    int64_t (*now)(void); /* monotonic ns */
    /* Returns whether a member has died or finalized. */
    bool (*gone)(void *group, int member);
    /* Returns the status, with its detail, of an operation that these members
     * did not start in time.  Does not fail the group. */
    symmcoll_status_t (*absent)(
        void *group, const struct symc_op *op, const bool *missing);

    /* Waits for a word that a member writes, as symc_wait_long(): until it is
     * at least target, failed() of that member, or the timeout. */
    enum symc_wait_end (*wait)(void *group, const _Atomic uint64_t *word,
        uint64_t target, int member, struct symc_wait_budget *budget);
    /* Wakes a member's waiting threads, -1: all members', after a word has been
     * written or an operation has progressed.  Any thread may call it. */
    void (*wake)(void *group, int member);
};

#define SYMC_GATHER_MOST 4096 /* bytes per member, see core->gather */

/* The most operations that are issued and not yet compared; a power of two. */
#define SYMC_FLIGHTS 16

/* The extent of the checks of an issued operation. */
enum symc_advance {
    SYMC_ADVANCE_PEEK,   /* what has been written, at no cost */
    SYMC_ADVANCE_LOOK,   /* also failures and deaths */
    SYMC_ADVANCE_EXPIRED /* last check: the deadline has passed */
};

/* The status of start() of host memory for an operation that has the number of a
 * monitored barrier that other members have given up: the number is used up, and
 * the caller runs the operation again with the next one. */
#define SYMC_MISSED ((symmcoll_status_t)INT16_MAX)

/*
 * Operations of a backend of host memory.  It compares the members' arguments
 * before it moves any data.  It also compares operations on other memory, and
 * does nothing else for them: all members then start the operation in the
 * backend of that memory, in the same order.
 *
 * The group calls start(), issue() and advance() in the order of calls, one at
 * a time.  Members need not share memory; core->wait() is for those that do.
 */
struct symc_host_ops {
    /* Runs an operation and returns the final status, also SYMC_MISSED; or
     * begins it and returns IN_PROGRESS: advance() then ends it.  Nothing is
     * started meanwhile. */
    symmcoll_status_t (*start)(void *state, const struct symc_op *op);

    /* Optional, all or none: operations that are begun and end later, in the
     * order of issue. issue() begins one without waiting, or returns false if
     * it cannot, without any effect. */
    bool (*issue)(void *state, const struct symc_op *op);
    /* Ends the oldest operation if possible.  Returns IN_PROGRESS or its
     * status. */
    symmcoll_status_t (*advance)(
        void *state, const struct symc_op *op, enum symc_advance how);
    /* In a failed group, before the next advance(): makes an operation that has
     * begun end then, without access to the caller's memory. */
    void (*give_up)(void *state, const struct symc_op *op);
    /* Waits until advance() may progress, or the budget is spent.  Any thread
     * may call it at any time. */
    void (*await_progress)(
        void *state, const struct symc_op *op, struct symc_wait_budget *budget);

    /* Returns whether each living member has ended all operations that all
     * members have begun.  *until: the last operation to check; 0: set to
     * the last one that this rank has begun.  Any thread may call it at any
     * time. */
    bool (*settled)(void *state, uint64_t *until);
};

/*
 * Operations of a backend of devices, which the members have compared.  An
 * operation of a kind with SYMC_MOVES has a struct symc_mover at op->out, valid
 * until start() has returned: the device enqueues what it says.
 *
 * An operation runs from its start() on, concurrently with those that are
 * started later: any number of them run, and end in any order.  The group tests
 * what it has started until that has a final status or is cancelled.  It makes
 * one call at a time to all functions here, except mark(), abort() and those
 * that say so.
 *
 * An error of start() is equal on all members, because it follows from the
 * operation; any other error, and every error of test() and follow(), fails the
 * group.
 */
struct symc_device_ops {
    /* It checks data to be sent for NaN, see errors.nan_check. */
    bool searches;
    /* Returns whether it serves a kind. */
    bool (*serves)(const struct symc_kind_info *info);
    /*
     * Enqueues an operation, and returns IN_PROGRESS and a token (not NULL) for
     * test(); or OK without a token if it is captured: then each replay of the
     * graph enqueues it.  mark is the result of mark(), owned by the backend
     * from now on; NULL: none.  An error with a token means that a part has
     * been enqueued and must be cancelled.
     */
    symmcoll_status_t (*start)(void *state, const struct symc_op *op,
        const struct symc_agreed *agreed, void *mark, void **token);
    /* Returns IN_PROGRESS or the final status, after which the backend owns the
     * token.  It may progress after core->wake().  took_ns (out, if OK): how
     * long it was on the device; 0: not measured. */
    symmcoll_status_t (*test)(void *state, void *token, int64_t *took_ns);
    /* Checks an operation for which test() has just returned IN_PROGRESS.
     * Returns OK, or the reason why it cannot end normally; it is then
     * cancelled. */
    symmcoll_status_t (*watch)(void *state, void *token);
    /* The operation's time has passed.  Determines the members that its running
     * kernels wait for and passes them to core->expire().  Returns the status
     * of that, or OK if no kernel has reported any.  The group then fails, and
     * all operations are cancelled. */
    symmcoll_status_t (*expire)(void *state, void *token);
    /* Stops an operation.  IN_PROGRESS: the caller's bytes may still change,
     * call again; any other status: they do not, and the backend owns the
     * token. */
    symmcoll_status_t (*cancel)(void *state, void *token);

    /* Checks what this rank alone can find invalid, at the call, before the
     * operation has a number.  Returns INVALID.  May be called at any time,
     * as mark(), but not before the backend is open: start() then fails the
     * group. */
    symmcoll_status_t (*check)(void *state, const struct symc_op *op);
    /* Checks that enqueued operations can access an address of device memory,
     * which another part of the program may have made private. where and what
     * are for the message: "send" and "the buffer".  May be called as check().
     * Errors: INVALID. */
    symmcoll_status_t (*reach)(
        void *state, const char *where, const char *what, const void *at);
    /* Returns the name of the library, other than the driver, in which an
     * enqueuing call currently is; NULL: in the driver.  Any thread may call it
     * at any time, concurrently with any other call. */
    const char *(*inside)(void *state);
    /*
     * needs() returns whether an operation needs something that the members
     * have to make together first: equally on all members if it has been
     * compared; else agreed is NULL. prepare() makes it: collective, before
     * start() of that operation.  It may call core->gather, like open(), and
     * take long; test(), cancel(), mark() and abort() are called concurrently.
     * Its error is sent to all members and stored: they continue without it,
     * and it is not called again, except a limited number of times after
     * INVALID.
     */
    bool (*needs)(void *state, const struct symc_op *op,
        const struct symc_agreed *agreed);
    symmcoll_status_t (*prepare)(void *state, const struct symc_op *op,
        const struct symc_agreed *agreed);
    /* prepare() has failed on a member, as all members have learned, and this
     * member must not use what it has made. */
    void (*forgo)(void *state);
    /* Marks how far op->stream is at the call, for start().  Called on the
     * caller's thread before the members compare; any thread may call it at any
     * time.  Not called for an operation that is `direct`, nor before the
     * backend is open: start() then uses the stream's state.  Returns NULL if
     * it cannot, with the same effect. */
    void *(*mark)(void *state, const struct symc_op *op);
    /* Frees a mark that will not be started; any thread may call it at any
     * time. */
    void (*unmark)(void *state, void *mark);
    /* Optional: names the algorithm for an operation in a group of size ranks
     * with a device each, with these settings.  Needs no open group. */
    struct symc_algorithm_name (*describe)(const struct symc_settings *settings,
        int size, const struct symc_kind_info *info, const struct symc_op *op);
    /* Makes what is enqueued on a caller's stream (NULL: the device's default
     * one) from now on run after the operation of the token, without blocking.
     * IN_PROGRESS: not on that stream, so that a wait for the work blocks until
     * the operation has completed.  INVALID: that stream cannot be used now;
     * any other error fails the group. */
    symmcoll_status_t (*follow)(void *state, void *token, void *stream);

    /* Makes all operations, running and started later, stop waiting for other
     * members.  The group has failed.  Any thread may call it at any time,
     * concurrently with any other call. */
    void (*abort)(void *state);
    /* Checks kernels that have no token, because graphs start them without a
     * call.  IN_PROGRESS: there may be some, now or later; OK: there are none.
     * An error belongs to a call, op (out), and fails the group. */
    symmcoll_status_t (*look)(void *state, struct symc_op *op);
};

/* The algorithm that serves an operation. */
struct symc_algorithm_name {
    const char *name;
    const char *help; /* one line */
};

/* The bytes of a member's part of a group's segment. */
struct symc_backend_layout {
    size_t channel;
    size_t staging;       /* the optimum; more has no effect */
    size_t staging_least; /* the minimum */
};

/* The arguments of calls to a backend without an open group. */
struct symc_memory_request {
    const struct symc_settings *settings;
    symmcoll_status_t (*fail)(symmcoll_status_t status, const char *format, ...)
        SYMC_PRINTF(2, 3);
    int device;
    bool threads;  /* all ranks are in one process: no other process maps it */
    bool words;    /* for single words, without a multicast address */
    bool sums;     /* for one rank: add(), convert(), move() need kernels */
    size_t nbytes; /* 1 or more */
    /* The context of the device, as given by any of these; all NULL: unknown.
     * A stream and a buffer of the context; of the backend, the state of a
     * group there and memory that allocate() or import() has returned. */
    void *stream;
    const void *buffer;
    void *state;
    const void *memory;
    /* Optional, for memory: logs what free() and leave() cannot release, with
     * `of`. */
    void (*log)(void *of, enum symc_log_level level, const char *format, ...)
        SYMC_PRINTF(3, 4);
    void *of;
};

#define SYMC_NO_DEVICE (-1)
#define SYMC_UNKNOWN_DEVICE (-2)

struct symc_backend {
    /* Module: SYMC_BACKEND_INTERFACE, which the loader compares with its own.
     * Always the first member. */
    uint64_t interface;
    const char *name;
    uint32_t priority;       /* higher ones are tried first, for one kind of
                                memory */
    enum symc_memory memory; /* of the operations that it serves */

    /* Returns whether an address is in that memory, and on which device:
     * SYMC_NO_DEVICE if it was there and is no longer accessible,
     * SYMC_UNKNOWN_DEVICE if the driver cannot be queried.  NULL: host memory, or not to be queried.  Any
     * thread may call it at any time. */
    bool (*find)(const void *data, int16_t *device);
    /* Needed if find() may set SYMC_UNKNOWN_DEVICE: fails with the reason of
     * the last time; `where` begins the detail.  Any thread may call it at any
     * time. */
    symmcoll_status_t (*refuse)(
        symmcoll_status_t (*fail)(
            symmcoll_status_t status, const char *format, ...),
        const char *where, const void *data);
    /* Optional: returns whether the process may have such memory by now.
     * Called once per call, before find() of its buffers. */
    bool (*is_present)(void);
    /* Optional: returns whether two bytes, the first of which find() knows, are
     * in one allocation or in one reserved range of addresses.  Any thread may
     * call it at any time. */
    bool (*is_one)(const void *first, const void *last);
    /* Optional: find() of the first byte of a range. whole (out): all bytes up
     * to the last are in one such memory, so that find() of the last and
     * is_one() need not be called; false: unknown.  Any thread may call it at
     * any time. */
    bool (*find_whole)(
        const void *first, const void *last, int16_t *device, bool *whole);
    /* Optional: returns whether a caller's stream is being captured in a graph;
     * needs no open group.  Any thread may call it at any time. */
    bool (*is_captured)(void *stream);

    /* Host memory: sets what every member's part of a group's segment needs in
     * a group of size ranks; NULL: nothing. */
    void (*layout)(const struct symc_settings *settings, int size,
        struct symc_backend_layout *layout);
    /* Returns OK if this backend can serve such a group, otherwise the
     * reason. */
    symmcoll_status_t (*probe)(const struct symc_peers *peers);
    /* Opens the backend for a group. core and peers are borrowed until close().
     * All members call it, and use the backend if it returns OK on all of them.
     * A backend of other than host memory gets no channels and no staging. */
    symmcoll_status_t (*open)(const struct symc_core *core,
        const struct symc_peers *peers, void **state);
    /* Closes a group's state.  If a cancel() has not finished, the backend
     * keeps what is still in use, but does not call the core any more. */
    void (*close)(void *state);
    const struct symc_host_ops *host;         /* NULL: not of host memory */
    const struct symc_device_ops *device;     /* NULL: not of devices */
    const struct symc_memory_ops *mem;        /* NULL: it allocates no memory */
    const struct symc_local_ops *local;       /* NULL: no calls for one rank */
    const struct symc_compute_ops *compute;   /* NULL: no products */
    const struct symc_transfer_ops *transfer; /* NULL: no copies of messages */
    const struct symc_admin_ops *admin;       /* NULL: nothing to pass on */
};

#endif
