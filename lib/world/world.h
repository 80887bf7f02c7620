/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a rank's context: settings, block, peers, recorder, and its
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
#include "work/origin.h"
#include "work/queue.h"
#include "world/failure.h"

#include <symmcoll/trace.h>
#include <symmcoll/world.h>

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

/* A FIFO to ask for dumps, of trace.dump_pipe. */
struct symc_dump_pipe {
    int fd; /* -1: there is none */
    int folder;
    bool asked;       /* a dump is to be written, at next_ns at the earliest */
    int64_t next_ns;  /* 0 before the first */
    const char *name; /* in that, within path */
    char path[PATH_MAX];
};

struct symc_ras_question;

/* The monitoring threads. */
struct symc_monitor {
    pthread_t thread;
    pthread_t heartbeat;
    sem_t ready;              /* the monitor has acquired its liveness word */
    symmcoll_status_t status; /* of that */
    char detail[SYMC_DETAIL_MAX];
    struct symc_liveness liveness;
    _Atomic uint32_t alarm; /* futex: look now */
    _Atomic uint32_t stopping;
    _Atomic uint64_t beats;        /* rounds of the monitor */
    _Atomic uint32_t dumps_due;    /* failures raised */
    _Atomic uint32_t dumps_done;   /* of them, written */
    uint32_t dumps_seen;           /* of them, by the monitor */
    struct symc_ras_question *ras; /* is being asked; NULL: nothing is */
    struct pollfd *polled;         /* room for all pidfds */
    uint32_t *failures;            /* of each rank's block, when last read */
    bool *dead; /* of each global rank: known to be; under the world's lock */
    bool orderly;
    struct symc_dump_pipe pipe;
};

/*
 * Where things are in a group's part of every member's arena: the failure
 * record, the doorbell, the backend's channel, and on a page, the staging.  All
 * but the staging is backed by memory at once.
 */
#define SYMC_GROUP_DOORBELL SYMC_FAILURE_ROOM
#define SYMC_GROUP_CHANNEL (SYMC_GROUP_DOORBELL + sizeof(struct symc_doorbell))
struct symc_group_part {
    size_t staging; /* where it begins */
    size_t nbytes;
};

/* The first member of what a module above keeps for a world. */
struct symc_extension {
    struct symc_extension *next;
    const void *key; /* the module's: an address of its own */
    /* The world is being finalized and its operations have ended: release it. */
    void (*end)(struct symc_extension *extension, struct symmcoll_world *world);
};

struct symmcoll_world {
    struct symc_config *config;
    struct symc_registry registry;
    bool inspects; /* operations: their memory, or what they send */
    atomic_bool told_unsearched; /* errors.nan_check: what it does not search */
    struct symc_log log;
    struct symc_rendezvous rendezvous;
    char job[SYMC_RENDEZVOUS_JOB]; /* in names of dumps */
    char name[64];
    int rank;
    int size;
    bool threads;
    struct symc_fake *fake;       /* the others are not there; NULL: they are */
    struct symc_origin *origin;   /* what works may keep after finalize */
    const uint32_t *alive;        /* its mark: 1; 0 in a forked child */
    struct symc_block_view own;   /* this rank's block */
    int fd;                       /* of its arena */
    struct symc_group_part first; /* as offered for the group of all ranks */
    _Atomic int64_t staging_left; /* of host.staging_budget; may be overdrawn */
    struct symc_segments segments;
    struct symc_pairs *pairs; /* sends and receives, of all groups */
    struct symc_proposals proposals;
    struct symc_bootstrap_inbox inbox;
    int launcher;         /* pidfd of the launcher, -1: none or unknown */
    ino_t launcher_inode; /* of that descriptor */
    struct symc_peer *peers;
    struct symc_trace_writer trace;
    _Atomic int nccl_comms; /* communicators of NCCL that the rank has */
    struct symc_monitor monitor;

    pthread_mutex_t lock;   /* of what follows */
    pthread_cond_t claimed; /* a claim has ended */
    struct symc_group_claim
        *claims;                  /* groups that threads make by their tags */
    struct symc_members *members; /* all groups */
    struct symc_premul *premuls;  /* PREMUL_SUM operations, by number */
    size_t premul_count, premul_room;
    symmcoll_op_t premul_last;  /* the latest number made */
    struct symmcoll_group *all; /* owned by the layer above, as are the next */
    struct symmcoll_group *groups; /* all groups that are known, newest first */
    struct symmcoll_group *left;   /* that have been released, but for a backend
                                      that uses buffers of theirs */
    uint32_t created;              /* groups, so far */
    struct symc_extension *extensions;
};

/* The part that this rank can offer for a group of so many, the staging taken
 * out of host.staging_budget, most bytes (0: no such limit) as far as the group
 * can do with them; giving some of that back. */
struct symc_group_part symc_world_take_part(
    struct symmcoll_world *world, int size, size_t most);
void symc_world_return_staging(struct symmcoll_world *world, size_t nbytes);

/* Numbers of operations made by symmcoll_op_create_premul() begin here. */
#define SYMC_PREMUL_FIRST 1024

/* Settings to peers; symmcoll_init() without its group.  fake is taken, also
 * where it fails; NULL: the other ranks are there. */
symmcoll_status_t symc_world_open(const struct symmcoll_init_args *args,
    struct symc_fake *fake, struct symmcoll_world **world);

/* orderly: the rank has finalized; otherwise it gives up. */
void symc_world_close(struct symmcoll_world *world, bool orderly);

/* Whether this is the process that made the world, not a fork of it. */
static inline bool symc_world_is_mine(const struct symmcoll_world *world)
{
    return *world->alive == 1;
}

/* Add a group to those the monitor watches, and remove it. */
void symc_world_add(struct symmcoll_world *world, struct symc_members *members);
void symc_world_remove(
    struct symmcoll_world *world, struct symc_members *members);

/* The group has its queue now: how the monitor asks whether all has ended. */
void symc_world_watch_works(struct symmcoll_world *world,
    struct symc_members *members, bool (*is_over)(struct symmcoll_group *));

/* The group after one in the list, NULL: the first; NULL at the end.  Nothing is
 * locked afterwards: who goes through the list knows that no group is being
 * released. */
struct symc_members *symc_world_next(
    struct symmcoll_world *world, const struct symc_members *after);

/* ---- extension.c ---- */

/* A module's extension, made by make() where there is none; NULL: without make,
 * or without memory. */
struct symc_extension *symc_world_extension(struct symmcoll_world *world,
    const void *key, struct symc_extension *(*make)(void));

/* For finalize, when all operations have ended. */
void symc_world_end_extensions(struct symmcoll_world *world);

/* ---- alarm.c ---- */

/* Sleep on a word of this process while it has this value, and wake who does. */
void symc_word_sleep(_Atomic uint32_t *word, uint32_t value, int64_t ns);
void symc_word_wake(_Atomic uint32_t *word);

/* Have the monitor look now. */
void symc_world_alarm(struct symmcoll_world *world);

/* A failure is about to be seen: symc_world_await_dump() waits from now on. */
void symc_world_expect_dump(struct symmcoll_world *world);

/* Wait, within trace.dump_grace, until raised failures have been written out.
 */
void symc_world_await_dump(struct symmcoll_world *world);

/* ---- monitor.c ---- */

symmcoll_status_t symc_monitor_start(struct symmcoll_world *world);
void symc_monitor_stop(struct symmcoll_world *world, bool orderly);

/* A group is about to fail because members are missing: where one has died, let
 * the monitor tell.  True where the group has failed, of that or before. */
bool symc_monitor_tells_death(struct symc_members *members);

/* Describes how a rank that has died or finalized has ended, and after which
 * failure of its groups: "exited with status 1 without finalize after ...".
 * Waits a moment for its exit status. */
#define SYMC_END_TEXT (SYMC_FAILURE_TEXT + 128)
void symc_monitor_describe_end(
    const struct symmcoll_world *world, int rank, char *buffer, size_t nbytes);

/* A group is being listed, under the world's lock: fail it where a member is
 * known to be dead. */
void symc_monitor_enlist(
    struct symmcoll_world *world, struct symc_members *members);

/* ---- handling.c ---- */

/* Failures may have been raised: write the record out, then act as the settings
 * say.  stuck_at (out) is when to write those of ranks that do not come. */
void symc_world_handle_failures(
    struct symmcoll_world *world, int64_t *stuck_at);

/* Write the records of the dead, and of ranks that did not come and do not
 * write, unless a launcher does. */
void symc_world_dump_dead(struct symmcoll_world *world);
void symc_world_dump_stuck(struct symmcoll_world *world);

/* ---- ask_ras.c: on the monitor's thread ---- */

/* Have a thread ask NCCL's RAS service, where this rank has a communicator of NCCL,
 * and write this rank's record again, with what it has said.  reason lives on. */
void symc_world_ask_ras(
    struct symmcoll_world *world, uint32_t flags, const char *reason);

/* Whether that is still going on; wait: until it is over. */
bool symc_world_asks_ras(struct symmcoll_world *world, bool wait);

/* ---- orphan.c ---- */

/* Remember which pidfd is the launcher's, once the ranks have joined. */
void symc_world_watch_launcher(struct symmcoll_world *world);

/* Where the launcher that started this rank has died, end the process. */
void symc_world_end_orphan(const struct symmcoll_world *world);

/* ---- dump.c ---- */

/* The recorder's part of a peer's block; NULL where the peer is on another
 * machine. */
const struct symc_trace_ring *symc_world_ring(
    const struct symmcoll_world *world, int global_rank, size_t *nbytes);

/* Write a rank's record where the settings say, or to path. */
symmcoll_status_t symc_world_dump(const struct symmcoll_world *world,
    int global_rank, const char *path, uint32_t flags, const char *reason,
    const struct symc_trace_ras *ras);

/* ---- pipe.c ---- */

/* Make this rank's FIFO, where trace.dump_pipe asks for one; a line says why
 * where that fails.  Read some of it: the record is written out if anything was
 * written there, once a second at most.  Remove it. */
void symc_world_open_pipe(struct symmcoll_world *world);
void symc_world_read_pipe(struct symmcoll_world *world);
void symc_world_close_pipe(struct symmcoll_world *world);

/* ---- premul.c ---- */

/* The factor of a PREMUL_SUM operation; false where op is none. */
bool symc_world_factor(
    struct symmcoll_world *world, symmcoll_op_t op, double *factor);

#endif
