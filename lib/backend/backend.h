/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a backend is, and the core it is given.
 *
 * A backend moves the data of one group.  It is a const table of const tables;
 * NULL where it lacks something, and the core asks before it calls.  A module
 * links with nothing but the C library: `symc_core` is its only way back up.
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

/* The members of a group, by group rank.  What is of a member on another
 * machine is NULL. */
struct symc_peers {
    int rank;
    int size;
    bool threads; /* all of one process: pointers are good everywhere */
    /* Of the memory that the backend is opened for, which this member's
     * operations are on; 0 of the host. */
    int16_t device;
    /* Of a device: the stream and a buffer of the operation it is opened for, or
     * NULL. */
    void *stream;
    const void *buffer;
    /* The same: what allocate() or import() of a backend has returned, which is to be
     * joined; or NULL. */
    const struct symc_backend *owner;
    const void *memory;
    struct symc_doorbell *const *doorbells;
    void *const *channels; /* zeroed, and on a multiple of SYMC_FALSE_SHARING */
    void *const *staging;  /* address space, see core->reserve */
    size_t staging_nbytes; /* of each: what the members have agreed on */
    struct symc_fake *absent; /* the others are not there; NULL: they are */
};

/* The settings, each by its key: "host.chunk".  The key is of the table of
 * settings and the type is its own, or the value is 0 or ""; a word is an int, its place
 * in the range. */
struct symc_settings {
    const struct symc_config *config;
    bool (*get_bool)(const struct symc_config *config, const char *key);
    int64_t (*get_int)(const struct symc_config *config, const char *key);
    size_t (*get_size)(const struct symc_config *config, const char *key);
    int64_t (*get_time)(const struct symc_config *config, const char *key);
    const char *(*get_text)(const struct symc_config *config, const char *key);
    /* A variable of the environment that another library reads; NULL: it is not
     * set. */
    const char *(*get_variable)(const char *name);
};

/* Where the buffers of an operation are in the group's symmetric memory: which one,
 * by its number (0: in none), and from which byte of the parts on.  See
 * placement.h. */
struct symc_placement {
    uint64_t in, in_at;
    uint64_t out, out_at;
};

/* What is known of that. */
enum symc_placed {
    SYMC_PLACED_UNKNOWN, /* it has not been compared, or is not */
    SYMC_PLACED_UNLIKE,  /* it is not the same on all members */
    SYMC_PLACED_ALIKE
};

/* What a backend may ask of the library.  `group` goes into every call. */
struct symc_core {
    void *group;
    const char *name;                   /* the group's */
    const struct symc_ranks *ranks;     /* its members, in messages */
    const struct symc_kind_info *kinds; /* by enum symc_kind */
    const struct symc_settings *settings;
    /* The group's symmetric memory, to be read while an operation is started,
     * issued or advanced. */
    const struct symc_shared_table *shared;
    struct symc_waiting *waiting;
    const _Atomic uint32_t *stopped; /* not 0: the group has failed */

    /* Keep the detail of an error, as symc_fail(). */
    symmcoll_status_t (*fail)(symmcoll_status_t status, const char *format, ...)
        SYMC_PRINTF(2, 3);
    void (*log)(void *group, enum symc_log_level level, const char *format, ...)
        SYMC_PRINTF(3, 4);

    /* Collective: send every member a descriptor, receive everybody's (out, an
     * array of size, owned by the caller). fd is borrowed; -1 sends none. */
    symmcoll_status_t (*exchange)(void *group, int fd, int *fds);
    /* Collective, while a backend of a device is opened: tell every member so
     * many bytes (the same everywhere, SYMC_GATHER_MOST at most), and read what
     * all have told, by group rank. */
    symmcoll_status_t (*gather)(
        void *group, const void *mine, void *all, size_t nbytes);
    /* While an operation with PREMUL_SUM is started: the factors of all members,
     * by group rank. */
    const double *(*factors)(void *group);
    /* While an operation is prepared or started: whether any member captures it in
     * a graph.  All find the same. */
    bool (*captured)(void *group);
    /* While an operation in which each pair of ranks has a count of its own is
     * started: elements of the largest part of all pairs.  All find the same. */
    uint64_t (*largest)(void *group);
    /* Whether the buffers of an operation are at the same place on all members, and
     * where (out).  From the comparison of the operation on all find the same, while
     * it is prepared and started; before, it is not known. */
    enum symc_placed (*placed)(void *group, const struct symc_op *op,
        struct symc_placement *placement);
    /* While an operation is prepared: what the group that this one was made of has
     * made for it, the backend's from now on; NULL: nothing, or it was taken. */
    void *(*inherit)(void *group);
    /* Back this rank's staging with memory; the first call does the work. */
    symmcoll_status_t (*reserve)(void *group);

    /* Note in the recorder that an operation has begun, when the time for that
     * costs least; a second time does nothing.  Its end is the group's. */
    void (*record)(void *group, const struct symc_op *op);

    /* While an operation without a number is started, and others call one that
     * has a number in its place: it takes that, too, so that the next one has the
     * same on all members.  Returns it. */
    uint64_t (*take_number)(void *group);

    /* The rank has a communicator of NCCL more (1) or less (-1): while there are
     * any, dumps of failures ask NCCL what it knows. */
    void (*count_nccl)(void *group, int change);

    /* Fail the group with the detail that fail() has kept, in the name of an
     * operation; return its status. */
    symmcoll_status_t (*raise)(
        void *group, const struct symc_op *op, symmcoll_status_t status);

    /* Whether waiting for a member (-1: for none in particular) is in vain: the
     * group has failed on any rank, or the member has left. */
    bool (*failed)(void *group, int member);
    /* After failed(), with the same member: the status for this operation, with
     * its detail. */
    symmcoll_status_t (*failure)(
        void *group, const struct symc_op *op, int member);
    /* An operation's deadline has passed before these members started it: fail
     * the group, and return the status. */
    symmcoll_status_t (*expire)(
        void *group, const struct symc_op *op, const bool *missing);
    /* The same of a receive to which only messages came that do not match it:
     * which these are. */
    symmcoll_status_t (*unmatched)(void *group, const struct symc_op *op,
        const bool *missing, const char *found);
    int64_t (*now)(void); /* monotonic ns */
    /* Whether a member has died or finalized. */
    bool (*gone)(void *group, int member);
    /* The status, with its detail, of an operation to which these members did
     * not come in time; the group does not fail of it. */
    symmcoll_status_t (*absent)(
        void *group, const struct symc_op *op, const bool *missing);

    /* Wait for a word that a member writes, as symc_wait_long(): it has at
     * least that value, failed() of that member, or the time has passed. */
    enum symc_wait_end (*wait)(void *group, const _Atomic uint64_t *word,
        uint64_t target, int member, struct symc_wait_budget *budget);
    /* A word has been written, or an operation got further: wake a member's
     * threads that wait; -1: all members'.  Any thread may call it. */
    void (*wake)(void *group, int member);
};

#define SYMC_GATHER_MOST 4096 /* bytes of a member, see core->gather */

/* Operations that may have been issued and are not compared yet; a power of
 * two. */
#define SYMC_FLIGHTS 16

/* How closely an issued operation is looked at. */
enum symc_advance {
    SYMC_ADVANCE_PEEK,   /* at what has been written, and nothing that costs */
    SYMC_ADVANCE_LOOK,   /* at failures and deaths, too */
    SYMC_ADVANCE_EXPIRED /* the last time: its deadline has passed */
};

/*
 * Operations.  The group calls start(), issue() and advance() in the order of
 * calls, and one at a time; what it has started it tests, until that has a
 * final status or is cancelled.
 *
 * A backend of host memory compares what the members pass before it moves
 * anything, and it alone: an operation of another memory it compares in the
 * same way and does nothing else.  Then all members start it in the backend of
 * that memory, in the same order.
 *
 * One of a kind with SYMC_MOVES has a struct symc_mover at op->out, which is there
 * until start() has returned: a device enqueues what that says.
 *
 * An operation of a device runs from its start() on, beside those that are
 * started after it: any number of them run, and end in any order.  The group
 * makes one call at a time of all those that a device has here, but for mark()
 * and abort().
 *
 * An error of start() is one that all members have alike, for it follows from
 * the operation; any other error, and each of test() and follow(), fails the
 * group.
 */
struct symc_coll_ops {
    /* Which kinds it serves; NULL: all operations of all members. */
    bool (*serves)(const struct symc_kind_info *info);
    /* Of a device: it searches what is sent for NaN, as errors.nan_check says. */
    bool searches;
    /* Do it, and return the final status; or begin, and return IN_PROGRESS and
     * a token (not NULL) for test(), or where the backend has advance(), for
     * that.  A device enqueues it, and returns OK without a token where it has
     * been captured: then each replay of the graph enqueues it.  mark is what
     * mark() returned, and the backend's from now on; NULL: nothing was
     * marked.  An error with a token: a part of it has been enqueued, and is to
     * be cancelled. */
    symmcoll_status_t (*start)(
        void *state, const struct symc_op *op, void *mark, void **token);
    /* IN_PROGRESS or the final status, after which the token is the backend's.
     * What it calls core->wake() for may have got further. */
    symmcoll_status_t (*test)(void *state, void *token);
    /* Optional, of a device: of what test() has just returned IN_PROGRESS for: OK,
     * or why it will not end as it should.  Then it is cancelled. */
    symmcoll_status_t (*watch)(void *state, void *token);
    /* Optional, of a device: for how many ns what test() has just returned OK
     * for was on it; 0: that was not measured. */
    int64_t (*took)(void *state);
    /* Optional, of a device: its time is over.  Ask those of its kernels that run
     * for whom they wait, and tell it by core->expire(); the status of that, or OK:
     * none has said so.  The group fails then, and all that runs is cancelled. */
    symmcoll_status_t (*expire)(void *state, void *token);
    /* Stop.  IN_PROGRESS: bytes of the caller may still change, ask again; any
     * other: none will, and the token is the backend's. */
    symmcoll_status_t (*cancel)(void *state, void *token);

    /* Optional, of a device: what this rank alone can see to be wrong, at the
     * call, before the operation has a number: INVALID.  As mark() it may be
     * called at any time; not before the backend is open: start() then fails
     * the group. */
    symmcoll_status_t (*check)(void *state, const struct symc_op *op);
    /* Optional, of a device: whether what is enqueued there reaches an address of its
     * memory, which another part of the program may have for itself.  where, what: of the
     * message, "send" and "the buffer".  As check().  Errors: INVALID. */
    symmcoll_status_t (*reach)(
        void *state, const char *where, const char *what, const void *at);
    /* Optional, of a device: the name of the library, other than the driver, in which
     * a call that enqueues is now; NULL: in the driver.  Any thread may call it at
     * any time, beside any other call. */
    const char *(*inside)(void *state);
    /* Optional, both or none, of a device: whether an operation has a use for something
     * that the members first have to make together, alike on all of them, and making it:
     * collective, before start() of that operation.  prepare() may call
     * core->gather, as open(); so it may last, and test(), cancel(), mark() and
     * abort() are called beside it.  Its error is told to all members, and kept: they go
     * on without, and it is not called again, but some times after INVALID. */
    bool (*needs)(void *state, const struct symc_op *op);
    symmcoll_status_t (*prepare)(void *state, const struct symc_op *op);
    /* Optional: it has failed on a member, as all know, and none is to use what it
     * has made on this one. */
    void (*forgo)(void *state);
    /* Optional, both or none, of a device: note how far op->stream is at the
     * call, for start().  On the caller's thread, before the members are
     * compared; any thread may call it at any time.  Not called for an
     * operation that is `direct`, nor before the backend is open: start() then
     * takes the stream as it is.  NULL: it cannot, and start() does that. */
    void *(*mark)(void *state, const struct symc_op *op);
    /* What was marked will not be started; any thread may call it at any time. */
    void (*unmark)(void *state, void *mark);
    /* Optional, of a device: how it would do an operation of a group of so many
     * ranks, a device each, with these settings.  No group is open for it. */
    struct symc_algorithm_name (*describe)(const struct symc_settings *settings,
        int size, const struct symc_kind_info *info, const struct symc_op *op);
    /* Optional, of a device: have what is enqueued on a stream of the caller's
     * (NULL: the device's default one) from now on run after what the token
     * stands for has completed, without waiting.  Without it a wait for the
     * work waits until it has, as where it returns IN_PROGRESS: not on that
     * stream.  INVALID: that stream cannot be used now; any other error fails the
     * group. */
    symmcoll_status_t (*follow)(void *state, void *token, void *stream);

    /* Optional, of a device: have all that runs, and all that is started from
     * now on, wait for nobody any more.  The group has failed.  Any thread may
     * call it at any time, beside any other call. */
    void (*abort)(void *state);
    /* Optional, of a device: look at kernels that no token stands for, since they
     * are started without a call.  IN_PROGRESS: there may be some, now or later;
     * OK: there are none.  An error is that of a call, op (out); it fails the
     * group. */
    symmcoll_status_t (*look)(void *state, struct symc_op *op);

    /* Of host memory: the factors of all members, of the operation with
     * PREMUL_SUM on other memory that it has compared last. */
    const double *(*factors)(void *state);
    /* The same: whether any member captures what it has compared last. */
    bool (*captured)(void *state);
    /* The same: see core->largest. */
    uint64_t (*largest)(void *state);
    /* Optional: see core->placed. */
    enum symc_placed (*placed)(void *state, const struct symc_op *op,
        struct symc_placement *placement);

    /* Optional, all or none: operations that are begun and end later, in the
     * order of issue.  issue() begins one without waiting, or returns false
     * where it cannot; then nothing has happened. */
    bool (*issue)(void *state, const struct symc_op *op);
    /* End the oldest one, if it can: IN_PROGRESS or its status. */
    symmcoll_status_t (*advance)(
        void *state, const struct symc_op *op, enum symc_advance how);
    /* In a group that has failed, before the next advance(): one that was issued
     * ends with that, and without the caller's memory. */
    void (*give_up)(void *state, const struct symc_op *op);
    /* Wait until advance() may get further, or the budget is spent.  Any thread
     * may call it at any time. */
    void (*doze)(
        void *state, const struct symc_op *op, struct symc_wait_budget *budget);
};

/* What serves an operation. */
struct symc_algorithm_name {
    const char *name;
    const char *help; /* a line */
};

/* Bytes of a member's part of a group's segment. */
struct symc_backend_layout {
    size_t channel;
    size_t staging;       /* what serves best; more has no use */
    size_t staging_least; /* what it cannot do without */
};

/* What is asked of a backend, before any group is open. */
struct symc_memory_request {
    const struct symc_settings *settings;
    symmcoll_status_t (*fail)(symmcoll_status_t status, const char *format, ...)
        SYMC_PRINTF(2, 3);
    int device;
    bool threads;  /* all ranks are of one process: no other maps it */
    bool words;    /* it is for words, and needs no multicast address */
    bool sums;     /* of one rank: add(), convert(), move() have kernels */
    size_t nbytes; /* 1 or more */
    /* Where that is, whatever thread asks; NULL: nobody knows.  A stream and a buffer
     * that are of it, and, of the backend's, the state of a group there, and memory that
     * allocate() or import() has returned. */
    void *stream;
    const void *buffer;
    void *state;
    const void *memory;
    /* Optional, of memory: for what free() and leave() cannot release, with `of`. */
    void (*log)(void *of, enum symc_log_level level, const char *format, ...)
        SYMC_PRINTF(3, 4);
    void *of;
};

#define SYMC_NO_DEVICE (-1)
#define SYMC_UNKNOWN_DEVICE (-2)

struct symc_backend {
    /* Of a module: SYMC_BACKEND_INTERFACE, which the loader compares with its
     * own; first, whatever else changes. */
    uint64_t interface;
    const char *name;
    uint32_t priority;       /* larger is tried first, of one kind of memory */
    enum symc_memory memory; /* whose operations it serves */

    /* Whether an address is in that memory, and on which device; SYMC_NO_DEVICE
     * where it was, and nobody can read there any more; SYMC_UNKNOWN_DEVICE where
     * it cannot be asked.  NULL: memory is the host's, or nobody asks.  Any thread
     * may call it at any time. */
    bool (*find)(const void *data, int16_t *device);
    /* Where that may be: fail with the reason why it could not be asked the last
     * time; where begins the detail.  Any thread may call it at any time. */
    symmcoll_status_t (*refuse)(
        symmcoll_status_t (*fail)(
            symmcoll_status_t status, const char *format, ...),
        const char *where, const void *data);
    /* Optional: whether there may be any such memory in the process by now.
     * Asked once in a call, before find() of its buffers, and as often. */
    bool (*is_present)(void);
    /* Optional: whether both bytes, of which find() knows the first, are of one
     * allocation, or of addresses that were reserved at once.  Any thread may call
     * it at any time. */
    bool (*is_one)(const void *first, const void *last);
    /* Optional: find() of the first byte.  whole (out): memory that is one has all
     * bytes from that to the last, so that find() of the last and is_one() have no more
     * to tell; false: that is not known.  Any thread may call it at any time. */
    bool (*find_whole)(
        const void *first, const void *last, int16_t *device, bool *whole);
    /* Optional: whether a stream of a caller's is being captured in a graph; no
     * group is open for it.  Any thread may call it at any time. */
    bool (*is_captured)(void *stream);

    /* What a backend of host memory wants of every member's part of a group's
     * segment, for a group of so many; NULL: nothing. */
    void (*layout)(const struct symc_settings *settings, int size,
        struct symc_backend_layout *layout);
    /* OK where this backend can serve such a group, else the reason. */
    symmcoll_status_t (*probe)(const struct symc_peers *peers);
    /* core and peers are borrowed until close().  All members call it, and use
     * the backend if it returns OK to all of them.  A backend of other memory
     * than the host's finds no channels and no staging. */
    symmcoll_status_t (*open)(const struct symc_core *core,
        const struct symc_peers *peers, void **state);
    /* Where a cancel() has not ended it keeps what is still in use, but calls
     * the core no more. */
    void (*close)(void *state);
    const struct symc_coll_ops *coll;
    const struct symc_memory_ops *mem;  /* NULL: it has no memory of its own */
    const struct symc_local_ops *local; /* the same */
    const struct symc_compute_ops *compute;   /* NULL: it multiplies nothing */
    const struct symc_transfer_ops *transfer; /* NULL: it copies no messages */
    const struct symc_admin_ops *admin;       /* NULL: it hands nothing on */
};

#endif
