/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a group: its members, its operation queue, its backend, and
 * the core that the backend is given.
 */
#ifndef SYMC_GROUP_GROUP_H
#define SYMC_GROUP_GROUP_H

#include "backend/backend.h"
#include "group/inherit.h"
#include "group/slot.h"
#include "segment/shared.h"
#include "work/queue.h"
#include "world/world.h"

#include <symmcoll/group.h>

/* What the group knows of an operation while it is under way. */
struct symc_flight {
    struct symc_trace_entry *entry; /* NULL: not recorded, or not yet */
    void *token;                    /* the backend's, once it has begun */
};

/* What a member says when a slot is opened, or groups are made: OK, or why
 * not. */
struct symc_verdict {
    int32_t status;
    uint32_t round;  /* of opening: the last one where it has opened it */
    uint32_t nbytes; /* that it tells next; 0: it sends a descriptor */
    char backend[24];
    char text[220];
};

#define SYMC_GROUP_OUTSIDE 2u
#define SYMC_GROUP_NAME 64 /* bytes of a name that a program chooses */
#define SYMC_GROUP_DESC 64
#define SYMC_GROUP_ID 32  /* bytes of a group's number as text */
#define SYMC_GROUP_TAG 48 /* of a tag that a program chooses */
#define SYMC_GROUP_TAG_FULL (SYMC_TRACE_NAME + 8) /* "user:" or "ptd:" first */

/* What a group is opened from.  The same on all members, but for `rank`. */
struct symc_group_plan {
    const int *global; /* ranks of the members in the world; copied */
    int size;
    int rank; /* this rank's, among them */
    char id[SYMC_GROUP_ID];
    char name[SYMC_TRACE_NAME]; /* for people: with the world's */
    char desc[SYMC_TRACE_NAME];
    char tag[SYMC_GROUP_TAG_FULL];
    int64_t timeout_ns;   /* of operations, as long as no other is set */
    const int64_t *trace; /* its place in the recorder; NULL: it has none yet */
};

struct symc_region;
struct symc_listeners;

/* What there is to do when an operation ends, beside recording it. */
enum symc_at_end {
    SYMC_AT_END_NOTED = 1, /* none has succeeded since one that was noted */
    SYMC_AT_END_TELL = 2   /* functions of the program are to be called */
};

/* What a module above keeps for a group: its first member. */
struct symc_group_extension {
    struct symc_group_extension *next;
    const void *key; /* the module's: an address of its own */
    /* Optional: the group is being released; from now on no call uses it without
     * its ticket.  Those that do have left when this returns.  What they have
     * enqueued on a device ends after that; then comes end(). */
    void (*cut)(
        struct symc_group_extension *extension, struct symmcoll_group *group);
    /* The group is being released and has no operation under way: release it. */
    void (*end)(
        struct symc_group_extension *extension, struct symmcoll_group *group);
};

struct symmcoll_group {
    struct symmcoll_world *world;
    /* The world's mark: 1.  Of a rank that is no member, whose group has nothing
     * of what is below but id, name, size, global: SYMC_GROUP_OUTSIDE. */
    const uint32_t *alive;
    struct symmcoll_group *next; /* of its world's groups */
    uint32_t uid;                /* how many of them were made before it */
    uint32_t children;           /* groups made of it, so far */
    _Atomic uint32_t splits;     /* how often some were made */
    uint32_t users;              /* how often it has to be released */
    _Atomic uint64_t refused; /* kinds that a rank outside has been warned of */
    char id[SYMC_GROUP_ID];   /* its number, within its world */
    char name[SYMC_TRACE_NAME]; /* for people: with the world's */
    char desc[SYMC_TRACE_NAME];
    char tag[SYMC_GROUP_TAG_FULL]; /* "user:TAG", or "ptd:NAME" without one */
    int rank;
    int size;
    int *global; /* global_rank of each member */
    struct symc_members members;
    struct symc_queue *queue;
    _Atomic uint64_t seq[SYMC_COUNTERS]; /* of the latest operations */
    uint64_t wire;                       /* of the latest of all members */
    struct symc_pair_group pairs;        /* among the world's pairs */
    _Atomic uint32_t paired;    /* works of sends and receives, not ended */
    _Atomic uint32_t holders;   /* of the struct alone: 1 until its release */
    _Atomic uint64_t completed; /* the latest collective that has succeeded
                                   here */
    _Atomic uint32_t at_end;    /* of enum symc_at_end: 0 is the usual case */
    _Atomic uint32_t calls;     /* see symc_group_enter() */
    _Atomic pthread_t caller;   /* in one that calls the program; 0: none */
    _Atomic(struct symc_listeners *) listeners; /* NULL: it has had none */
    _Atomic int64_t timeout_ns;
    _Atomic(struct symc_region *) region; /* the open one, or NULL */
    struct symc_region *regions;          /* all; under the world's lock */
    int64_t first_timeout_ns;             /* what that was at first */
    int64_t trace; /* its place in the recorder, or SYMC_TRACE_NO_GROUP */
    struct symc_segment *segment;
    size_t staging_at;     /* in each member's part of it */
    size_t staging_nbytes; /* of each: what the members have agreed on */
    bool reserved;         /* this rank's staging is backed by memory */
    uint32_t exchanges;    /* of descriptors, so far */
    struct symc_shared_table shared;         /* symmetric memory; see there */
    struct symc_group_extension *extensions; /* under the world's lock */
    struct symc_flight flights[SYMC_FLIGHTS + 1];
    struct symc_slot slots[SYMC_MEMORY_KINDS]; /* the host's is always open */
    struct symc_verdict *verdicts;             /* of all, while one is opened */
    const struct symc_backend *opened;         /* what is being opened */
    enum symc_kind opening;   /* of the rounds of that, in messages */
    uint32_t rounds;          /* of opening: 0: none is being opened */
    bool decided;             /* nothing more is said about it */
    symmcoll_status_t agreed; /* then: what all have read */
    int64_t opening_until_ns; /* by when the others have to come, to all */
    struct symc_settings settings;
    struct symc_core core;
    struct symc_peers peers;
    struct symc_doorbell **doorbells;
    void **channels;
    void **staging;

    /* Of calls on device memory. */
    _Atomic uint64_t lost;  /* the first collective that was started and has
                               failed; 0: none */
    _Atomic int32_t device; /* 1 + that of all calls; 0: there was none */
    _Atomic(void *) stream; /* of calls without one; NULL: the default one */
    struct symc_inherited inherited;
};

/* Name a planned group: its number among those made of its parent, and what
 * people see.  parent NULL: the world's group; name NULL: the number. */
void symc_group_plan_name(const struct symmcoll_world *world,
    const struct symmcoll_group *parent, struct symc_group_plan *plan,
    unsigned int number, const char *name);

/*
 * Open a group on this rank, from what all members have offered.  Local.
 *
 * part    what this rank has taken for it, with symc_world_take_part()
 * offers  of all members, in the order of the group; nbytes 0: not on this
 *         machine
 *
 * Part and own offer are the group's afterwards; where this fails they have
 * been returned, and the offer is left.  Errors: NO_MEMORY, UNSUPPORTED,
 * INVALID (an offer), SYSTEM.
 */
symmcoll_status_t symc_group_open(struct symmcoll_world *world,
    const struct symc_group_plan *plan, const struct symc_group_part *part,
    const struct symc_offer *offers, struct symmcoll_group **group);

/* The same on a rank that is no member.  Errors: NO_MEMORY. */
symmcoll_status_t symc_group_open_outside(struct symmcoll_world *world,
    const struct symc_group_plan *plan, struct symmcoll_group **group);

/* ---- init.c ---- */

/* Open a world and the group of all its ranks; fake as of symc_world_open(). */
symmcoll_status_t symc_group_init(const struct symmcoll_init_args *args,
    struct symc_fake *fake, struct symmcoll_world **world);

/* A module's extension, made by make() where there is none; NULL: without make,
 * or without memory. */
struct symc_group_extension *symc_group_extension(struct symmcoll_group *group,
    const void *key, struct symc_group_extension *(*make)(void));

/* Before a group is stopped: cut off what modules above keep for it.  A second time
 * does nothing. */
void symc_group_cut(struct symmcoll_group *group);

/* Release one that has been stopped.  Errors: as symc_slots_reclaim(); see there. */
symmcoll_status_t symc_group_close(struct symmcoll_group *group);

/* Whether this rank is a member. */
static inline bool symc_group_is_member(const struct symmcoll_group *group)
{
    return group->rank >= 0;
}

/* Why a group whose mark is not 1 cannot be used: NOT_MEMBER, which is logged
 * once for each operation, or INVALID after a fork. */
symmcoll_status_t symc_group_refuse(
    struct symmcoll_group *group, enum symc_kind kind);

/* ---- known.c: the groups of a world that this rank knows ---- */

/* Enter one, and take it out. */
void symc_group_enlist(struct symmcoll_group *group);
void symc_group_delist(struct symmcoll_group *group);

/* The group of that name, as people see it; NULL: none. */
struct symmcoll_group *symc_group_find_name(
    struct symmcoll_world *world, const char *name);

/*
 * The group with a tag and these members, in any order, that was made first;
 * NULL: none.  tag is as of symmcoll_group_find().  It has a user more where
 * `use` is set.
 */
struct symmcoll_group *symc_group_find_tag(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, bool use);

/* A thread that makes a group by its tag: others of its rank that want the same
 * wait for that, for the other ranks make one only. */
struct symc_group_claim {
    struct symc_group_claim *next;
    const char *tag;  /* without "user:" */
    const int *ranks; /* ascending */
    int nranks;
};

/* The same group, with a user more; NULL: the calling thread is to make it, and
 * then to end its claim. */
struct symmcoll_group *symc_group_find_or_claim(
    struct symmcoll_world *world, struct symc_group_claim *claim);
void symc_group_end_claim(
    struct symmcoll_world *world, struct symc_group_claim *claim);

/* A user less, how many are left; and more. */
uint32_t symc_group_drop_user(struct symmcoll_group *group);
void symc_group_add_user(struct symmcoll_group *group);

/* ---- making.c ---- */

/* "ranks 0, 2-3", or those of an order of the program's "ranks 3, 0, 2 in this
 * order". */
const char *symc_group_format_ranks(
    const int *ranks, int nranks, bool unsorted, char *buffer, size_t nbytes);

/* ---- agree.c ---- */

/* Groups that are made together, by one operation of all members of a parent.
 * No rank is in two of them. */
struct symc_partition {
    int count;        /* of groups */
    const int *sizes; /* of each */
    const int *ranks; /* their members in the world, group after group, in the
                         order of each group */
};

/* What is the same of all of them. */
struct symc_group_options {
    enum symc_kind kind; /* the call */
    const char *where;   /* its name, for messages */
    const char *name;    /* NULL: a number */
    const char *desc;    /* NULL: of the parent's */
    int64_t timeout_ns;
    size_t staging;  /* bytes of each member at most; 0: no such limit */
    bool outside;    /* groups that this rank is not in are wanted, too */
    const char *tag; /* NULL: none */
    symmcoll_status_t refused; /* OK, or why this rank cannot; local only */
    bool reuse;    /* of one group: one with the tag and these members will
                        do, if all ranks have it */
    bool unsorted; /* members have the order of the partition: for messages */
};

/*
 * Make them: on all members of the parent or on none.  groups (out) has room
 * for all; those that this rank is not in are NULL where they are not wanted.
 * Errors: see symmcoll_group_create().
 */
symmcoll_status_t symc_groups_create(struct symmcoll_group *parent,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symmcoll_group **groups);

/* In place of the calls above and below, on a rank that has no memory for one:
 * the others, who are in it, learn why.  Errors: own, and those of collectives. */
symmcoll_status_t symc_groups_refuse(struct symmcoll_group *parent,
    const struct symc_group_options *options, symmcoll_status_t own);

/* What a member of the parent chooses: members of the same color make a group,
 * in the order of their keys. */
struct symc_color {
    int32_t color; /* negative: it is in none */
    int32_t key;
};

/* Tell all members of the parent this rank's, and read those of all.  Errors:
 * of collectives. */
symmcoll_status_t symc_groups_gather(struct symmcoll_group *parent,
    const struct symc_group_options *options, struct symc_color mine,
    struct symc_color *all);

/* ---- create.c ---- */

/* Read the arguments of a call (its kind) that makes groups of a parent, except
 * for ranks.
 * copy (out) has the strings that options refers to. */
symmcoll_status_t symc_group_args_read(enum symc_kind kind,
    struct symmcoll_group *parent, const struct symmcoll_group_args *args,
    struct symmcoll_group_args *copy, struct symc_group_options *options);

/* Make the one group of a partition by a call of its members alone, by its tag
 * where it has one, within args->timeout or timeouts.init.  made (out): NULL where
 * there is none.  Errors: see symmcoll_group_create(). */
symmcoll_status_t symc_group_create_by_members(struct symmcoll_world *world,
    const struct symmcoll_group_args *args,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symmcoll_group **made);

/* Whether a call passes ranks at all, and no more than the world has. */
symmcoll_status_t symc_group_check_count(
    const char *where, const struct symmcoll_world *world, int count);

/* The same of one of several lists, whose lengths before add up to *sum: out of
 * a group of so many.  Adds its length. */
symmcoll_status_t symc_group_check_length(
    const char *where, const int *sizes, int list, int *sum, int size);

/* Whether so many ranks are each one of a group of so many, and none twice. */
symmcoll_status_t symc_group_check_ranks(
    const char *where, const int *ranks, int nranks, int size);

/* ---- local.c ---- */

/* Make the one group of a partition, by a call of its members alone, within some
 * time.  Errors: see symmcoll_group_create(). */
symmcoll_status_t symc_group_create_local(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group);

/* The same where options has a tag and this rank has no such group yet; one thread
 * makes it.  The partition's ranks are ascending. */
symmcoll_status_t symc_group_find_or_create_local(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group);

/* ---- free.c ---- */

/* Stop a group that has no operation under way, take it out of its world's, and
 * release it.  Errors: as symc_slots_reclaim(). */
symmcoll_status_t symc_group_end(struct symmcoll_group *group);

/* ---- run.c ---- */

/* Run one operation, whose ticket is served, to its end; or to IN_PROGRESS,
 * where it is one that can be issued and waits for a peer. */
symmcoll_status_t symc_group_run(
    struct symmcoll_group *group, struct symc_op *op);

/* What the queue may ask of a group. */
struct symc_queue_ops symc_group_queue_ops(struct symmcoll_group *group);

/* Where an operation of a pair is: one at a time. */
#define SYMC_FLIGHT_PAIR SYMC_FLIGHTS

/* Under the ticket: an operation has ended, of what is recorded in its flight. */
void symc_group_finish(struct symmcoll_group *group, const struct symc_op *op,
    symmcoll_status_t status);

/* Under the ticket: a running operation has been started, so this rank has gone
 * on since an error that others are to understand. */
void symc_group_go_on(struct symmcoll_group *group);

static inline struct symc_flight *symc_group_flight(
    struct symmcoll_group *group, const struct symc_op *op)
{
    return &group->flights[op->flight];
}

/* ---- round.c ---- */

/*
 * Hold a round, under the group's ticket: every member tells all others so many
 * bytes, and reads what all have told (all: as many times so many).
 * Errors: as of an operation; MISMATCH (others call something else, whose number it
 * takes). */
symmcoll_status_t symc_group_round(struct symmcoll_group *group,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns);

/* ---- record.c ---- */

/* A call that makes groups, as it is recorded. */
struct symc_group_call {
    enum symc_kind kind;
    int64_t trace;    /* the group in whose name: the parent, or the one made */
    uint64_t seq;     /* of the parent's latest collective */
    const char *name; /* the new group's; NULL: a number */
    uint64_t issued;  /* symc_ticks() of the call */
    size_t nbytes;    /* of what each member tells the others first */
    int64_t timeout_ns;
};

/* It begins; NULL where it is not recorded. */
struct symc_trace_entry *symc_group_record(
    struct symmcoll_world *world, const struct symc_group_call *call);

/* It has ended; entry may be NULL, and has the number that a round has taken.  Under
 * the ticket: an error that has not failed the group is noted, for who ends by it. */
void symc_group_record_end(struct symmcoll_group *parent, enum symc_kind kind,
    struct symc_trace_entry *entry, symmcoll_status_t status);

/* ---- ended.c ---- */

/* An operation has ended, with that entry in the recorder or none: queue a call
 * of each function of the program that the group has. */
void symc_group_tell(struct symmcoll_group *group, const struct symc_op *op,
    const struct symc_trace_entry *entry, symmcoll_status_t status);

/* The group is being released. */
void symc_group_free_listeners(struct symmcoll_group *group);

/* ---- pair_end.c ---- */

/* Wait until no work of sends and receives is left; false when the time has
 * passed. */
bool symc_group_drain_pairs(struct symmcoll_group *group, int64_t deadline_ns);

/* ---- inside.c ---- */

/* A call begins or ends that uses the group without its ticket, or after it: the
 * group is not released before it has ended. */
void symc_group_enter(struct symmcoll_group *group);
void symc_group_leave(struct symmcoll_group *group);

/* Such a call, one at a time, may call functions of the program from now on, or
 * does not any more; and whether the calling thread is in such a function. */
void symc_group_set_caller(struct symmcoll_group *group, bool calls);
bool symc_group_is_caller(struct symmcoll_group *group);

/* The group of which it is in one, of all that a world has; NULL: none. */
struct symmcoll_group *symc_group_find_caller(struct symmcoll_world *world);

/* Wait until there are none; false when the time has passed. */
bool symc_group_drain_calls(struct symmcoll_group *group, int64_t deadline_ns);

/* Drop messages that nobody has received.  Errors: MISMATCH (whose, and what
 * the first was). */
symmcoll_status_t symc_group_drop_messages(struct symmcoll_group *group);

/* For the queue, see struct symc_queue_ops. */
void symc_group_await_pairs(
    void *group, const _Atomic uint64_t *word, int64_t until_ns);
void symc_group_ask_pairs(void *group);

/* The settings of the group's world. */
const struct symc_config *symc_group_config(const struct symmcoll_group *group);

/* ---- exchange.c ---- */

/* As of struct symc_core. */
symmcoll_status_t symc_group_exchange(void *group, int fd, int *fds);

/* The same until a deadline of the caller's. */
symmcoll_status_t symc_group_exchange_until(
    struct symmcoll_group *group, int fd, int64_t deadline_ns, int *fds);

/* ---- core.c ---- */

/* Fill in what the backend may ask for. */
void symc_group_make_core(struct symmcoll_group *group);

/* Whether a member will take part in nothing more: it has released the group,
 * as finalize does with all. */
bool symc_group_has_left(const struct symmcoll_group *group, int member);

/* As of struct symc_core, for anything that a member writes: until ready(arg) is
 * true. */
enum symc_wait_end symc_group_wait_until(struct symmcoll_group *group,
    int member, bool (*ready)(void *arg), void *arg,
    struct symc_wait_budget *budget);

#endif
