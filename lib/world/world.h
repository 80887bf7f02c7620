/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a rank's world: settings, block, peers, recorder, and its
 * two monitoring threads.
 */
#ifndef SYMC_WORLD_WORLD_H
#define SYMC_WORLD_WORLD_H

#include "base/base.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/inbox.h"
#include "config/config.h"
#include "fake/fake.h"
#include "message/message.h"
#include "registry/registry.h"
#include "rendezvous/rendezvous.h"
#include "segment/doorbell.h"
#include "segment/liveness.h"
#include "segment/proposal.h"
#include "segment/segment.h"
#include "trace/trace.h"
#include "world/failure.h"

#include <symmcoll/trace.h>
#include <symmcoll/world.h>

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

/* The FIFO of trace.dump_pipe for dump requests. */
struct symc_dump_pipe {
    int fd; /* -1: none */
    int folder;
    bool requested;   /* a dump is requested, at next_ns at the earliest */
    int64_t next_ns;  /* 0 before the first */
    const char *name; /* name in folder; points into path */
    char path[PATH_MAX];
};

struct symc_ras_query;

/* The monitoring threads. */
struct symc_monitor {
    pthread_t thread;
    pthread_t heartbeat;
    /* the monitor has tried to acquire its liveness word */
    sem_t ready;
    struct symc_error error; /* result of that, or OK */
    struct symc_liveness liveness;
    _Atomic uint32_t alarm; /* futex: check now */
    _Atomic uint32_t stopping;
    _Atomic uint64_t beats;      /* rounds of the monitor */
    _Atomic uint32_t dumps_due;  /* failures raised */
    _Atomic uint32_t dumps_done; /* failures written */
    uint32_t dumps_seen;         /* failures the monitor has noticed */
    struct symc_ras_query *ras;  /* the running query; NULL: none */
    struct pollfd *polled;       /* room for all pidfds */
    /* each rank's failure count at the last check */
    uint32_t *failures;
    bool *dead; /* per world rank: known to be dead; needs the world's lock */
    bool orderly;
    struct symc_dump_pipe pipe;
};

/*
 * Layout of a group's part of each member's arena: failure records, doorbell,
 * the backend's channel, and, page-aligned, the staging.  All but the staging
 * is backed by memory at once.
 */
#define SYMC_GROUP_DOORBELL SYMC_FAILURE_ROOM
#define SYMC_GROUP_CHANNEL (SYMC_GROUP_DOORBELL + sizeof(struct symc_doorbell))
struct symc_group_part {
    size_t staging; /* offset of the staging */
    size_t nbytes;
};

/* The part of a world that its works read.  The layer above creates it, because
 * works may be queried and released after finalize. */
struct symc_origin {
    /* On its own cache lines: waiting threads read it.  1; 0 in a forked
     * child. */
    _Alignas(SYMC_FALSE_SHARING) const uint32_t *alive;
    bool blocking_wait; /* an expired wait fails the group */
    struct symc_waiting waiting;
    /* Returns whether all callbacks of works have ended, before a deadline.
     * Set by the layer above. */
    bool (*drain_callbacks)(struct symc_origin *origin, int64_t deadline_ns);
};

/* First member of a struct that a higher module keeps per world. */
struct symc_extension {
    struct symc_extension *next;
    const void *key; /* the address of a module's own variable */
    /* Releases the extension; called by finalize after all operations have
     * ended. */
    void (*end)(struct symc_extension *extension, struct symmcoll_world *world);
};

struct symmcoll_world {
    struct symc_config *config;
    struct symc_registry registry;
    bool inspects; /* calls check buffers: memory kind, or NaN */
    /* errors.nan_check: the warning on unsearched data was logged */
    atomic_bool warned_unsearched;
    struct symc_log log;
    struct symc_rendezvous rendezvous;
    char job[SYMC_RENDEZVOUS_JOB]; /* part of the names of dumps */
    char name[64];
    int rank;
    int size;
    bool threads;
    struct symc_fake *fake;       /* the other ranks are absent; NULL: real */
    struct symc_origin *origin;   /* outlives the world */
    const uint32_t *alive;        /* origin->alive: 1; 0 in a forked child */
    struct symc_block_view own;   /* this rank's block */
    int fd;                       /* memfd of the arena */
    struct symc_group_part first; /* part of the group of all ranks */
    /* left of host.staging_budget; may be negative */
    _Atomic int64_t staging_left;
    struct symc_segments segments;
    struct symc_pairs *pairs; /* sends and receives of all groups */
    struct symc_proposals proposals;
    struct symc_bootstrap_inbox inbox;
    int launcher;         /* pidfd of the launcher, -1: none or unknown */
    ino_t launcher_inode; /* inode of that pidfd */
    struct symc_peer *peers;
    struct symc_trace_writer trace;
    _Atomic int nccl_comms; /* NCCL communicators of this rank */
    struct symc_monitor monitor;

    pthread_mutex_t lock;            /* protects what follows */
    pthread_cond_t claimed;          /* a claim has ended */
    struct symc_group_claim *claims; /* groups being created by tag */
    struct symc_members *members;    /* all groups */
    struct symc_premul *premuls;     /* PREMUL_SUM operations, by number */
    size_t premul_count, premul_room;
    symmcoll_op_t premul_last; /* the latest number */
    /* owned by the layer above, like the next two */
    struct symmcoll_group *all;
    struct symmcoll_group *groups; /* all known groups, newest first */
    /* released groups with buffers still in use by a backend */
    struct symmcoll_group *left;
    uint32_t created; /* groups created until now */
    struct symc_extension *extensions;
};

/* Returns the part that this rank offers for a group of `size` ranks.  Its
 * staging is taken from host.staging_budget, at most `most` bytes (0:
 * unlimited) and no more than the group can use.  symc_world_return_staging()
 * returns some. */
struct symc_group_part symc_world_take_part(
    struct symmcoll_world *world, int size, size_t most);
void symc_world_return_staging(struct symmcoll_world *world, size_t nbytes);

/* First number of an operation of symmcoll_op_create_premul(). */
#define SYMC_PREMUL_FIRST 1024

/* Opens a world, from settings to peers: symmcoll_init() without its group.
 * fake is taken, also on failure; NULL: the other ranks are real.  origin is
 * borrowed, and its settings are filled in. */
symmcoll_status_t symc_world_open(const struct symmcoll_init_args *args,
    struct symc_fake *fake, struct symc_origin *origin,
    struct symmcoll_world **world);

/* Stops the rank's sends and receives and the monitor, and releases the world.
 * orderly: the rank has finalized; false: it gives up. */
void symc_world_close(struct symmcoll_world *world, bool orderly);

/* Returns whether this process created the world and is not a fork. */
static inline bool symc_world_is_mine(const struct symmcoll_world *world)
{
    return *world->alive == 1;
}

/* Add a group to those the monitor watches, and remove it. */
void symc_world_add(struct symmcoll_world *world, struct symc_members *members);
void symc_world_remove(
    struct symmcoll_world *world, struct symc_members *members);

/* Sets the function by which the monitor checks that a group's works have
 * ended, once the group has a queue. */
void symc_world_watch_works(struct symmcoll_world *world,
    struct symc_members *members, bool (*is_over)(struct symc_members *));

/* Returns the group after one in the list, NULL: the first; NULL at the end.
 * The lock is not held afterwards: the caller ensures that no group is being
 * released. */
struct symc_members *symc_world_next(
    struct symmcoll_world *world, const struct symc_members *after);

/* ---- extension.c ---- */

/* Returns a module's extension.  If there is none, creates it with make();
 * returns NULL without make() or memory. */
struct symc_extension *symc_world_extension(struct symmcoll_world *world,
    const void *key, struct symc_extension *(*make)(void));

/* Releases all extensions; for finalize, after all operations have ended. */
void symc_world_end_extensions(struct symmcoll_world *world);

/* ---- alarm.c ---- */

/* Sleep while a word of this process has this value, at most ns, and wake the
 * sleepers. */
void symc_word_sleep(_Atomic uint32_t *word, uint32_t value, int64_t ns);
void symc_word_wake(_Atomic uint32_t *word);

/* Has the monitor check at once. */
void symc_world_alarm(struct symmcoll_world *world);

/* Announces a failure: symc_world_await_dump() waits for its dump from now
 * on. */
void symc_world_expect_dump(struct symmcoll_world *world);

/* Waits until raised failures have been written, at most trace.dump_grace. */
void symc_world_await_dump(struct symmcoll_world *world);

/* ---- monitor.c ---- */

symmcoll_status_t symc_monitor_start(struct symmcoll_world *world);
void symc_monitor_stop(struct symmcoll_world *world, bool orderly);

/* Lets the monitor report the death of a member before a group fails because
 * members are missing.  Returns whether the group has failed, for that or an
 * earlier reason. */
bool symc_monitor_reports_death(struct symc_members *members);

/* Formats the end of a rank that has died or finalized, with the failure before
 * it: "exited with status 1 without finalize after ...". Waits a moment for its
 * exit status. */
#define SYMC_END_TEXT (SYMC_FAILURE_TEXT + 128)
void symc_monitor_describe_end(
    const struct symmcoll_world *world, int rank, char *buffer, size_t nbytes);

/* Fails a group that is being listed if a member is known to be dead.  Needs
 * the world's lock. */
void symc_monitor_enlist(
    struct symmcoll_world *world, struct symc_members *members);

/* ---- handling.c ---- */

/* Writes this rank's record if failures have been raised, then acts as the
 * settings say.  stuck_at (out): when to write the records of missing ranks. */
void symc_world_handle_failures(
    struct symmcoll_world *world, int64_t *stuck_at);

/* Write the records of dead ranks, and of missing ranks that do not write,
 * unless a launcher does. */
void symc_world_dump_dead(struct symmcoll_world *world);
void symc_world_dump_stuck(struct symmcoll_world *world);

/* ---- ras_query.c: monitor's thread only ---- */

/* Starts a thread that queries NCCL's RAS service and writes this rank's record
 * again with the answer, if this rank has an NCCL communicator.  reason must
 * stay valid. */
void symc_world_query_ras(
    struct symmcoll_world *world, uint32_t flags, const char *reason);

/* Returns whether that thread is still running.  wait: waits for its end. */
bool symc_world_queries_ras(struct symmcoll_world *world, bool wait);

/* ---- orphan.c ---- */

/* Remembers the inode of the launcher's pidfd, once the ranks have joined. */
void symc_world_watch_launcher(struct symmcoll_world *world);

/* Kills the process if the launcher that started this rank has died. */
void symc_world_end_orphan(const struct symmcoll_world *world);

/* ---- dump.c ---- */

/* Returns the recorder in a peer's block, or NULL if the peer is on another
 * machine. */
const struct symc_trace_ring *symc_world_ring(
    const struct symmcoll_world *world, int global_rank, size_t *nbytes);

/* Writes a rank's record to path, or to the path of the settings (NULL). */
symmcoll_status_t symc_world_dump(const struct symmcoll_world *world,
    int global_rank, const char *path, uint32_t flags, const char *reason,
    const struct symc_trace_ras *ras);

/* ---- pipe.c ---- */

/* open: creates this rank's FIFO if trace.dump_pipe is set, and logs a failure.
 * read: writes the record if something was written to the FIFO, at most once a
 * second.  close: removes the FIFO. */
void symc_world_open_pipe(struct symmcoll_world *world);
void symc_world_read_pipe(struct symmcoll_world *world);
void symc_world_close_pipe(struct symmcoll_world *world);

/* ---- premul.c ---- */

/* Returns the factor of a PREMUL_SUM operation; false if op is not one. */
bool symc_world_factor(
    struct symmcoll_world *world, symmcoll_op_t op, double *factor);

#endif
