/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a group: its name and tag, its place among the world's groups,
 * and what runs its operations.
 */
#ifndef SYMC_GROUP_GROUP_H
#define SYMC_GROUP_GROUP_H

#include "group/inherit.h"
#include "run/queue.h"
#include "world/world.h"

#include <symmcoll/group.h>

#define SYMC_GROUP_OUTSIDE 2u
#define SYMC_GROUP_NAME 64 /* bytes of a name chosen by the program */
#define SYMC_GROUP_DESC 64
#define SYMC_GROUP_ID 32  /* bytes of a group's number as text */
#define SYMC_GROUP_TAG 48 /* bytes of a tag chosen by the program */
#define SYMC_GROUP_TAG_FULL (SYMC_TRACE_NAME + 8) /* with "user:" or "ptd:" */

/* The description of a group to be opened, equal on all members except
 * `rank`. */
struct symc_group_plan {
    const int *global; /* world ranks of the members; copied */
    int size;
    int rank; /* this rank's rank in the group */
    char id[SYMC_GROUP_ID];
    char name[SYMC_TRACE_NAME]; /* displayed name, with the world's */
    char desc[SYMC_TRACE_NAME];
    char tag[SYMC_GROUP_TAG_FULL];
    int64_t timeout_ns;   /* default timeout of operations */
    const int64_t *trace; /* its reference in the recorder; NULL: none yet */
};

struct symc_region;

/* First member of a struct that a higher module keeps per group. */
struct symc_group_extension {
    struct symc_group_extension *next;
    const void *key; /* the address of a module's own variable */
    /* Optional: called when the group is being released.  Afterwards no call
     * uses the extension without the group's ticket; calls that do have left
     * when cut() returns.  What they enqueued on a device ends later, before
     * end(). */
    void (*cut)(
        struct symc_group_extension *extension, struct symmcoll_group *group);
    /* Releases the extension when the group is being released and has no
     * operation in flight. */
    void (*end)(
        struct symc_group_extension *extension, struct symmcoll_group *group);
};

struct symmcoll_group {
    /* First, so that both have one address on the path of small operations. */
    struct symc_runner runner;
    struct symmcoll_world *world;
    /* The world's word: 1, 0 in a forked child.  Or SYMC_GROUP_OUTSIDE on a
     * rank that is not a member: its group only has names, size and global, but
     * no segment, queue or backend. */
    const uint32_t *alive;
    _Atomic(struct symc_region *) region; /* the open region, or NULL */
    struct symmcoll_group *next;          /* in the world's list */
    uint32_t uid;            /* groups created in the world before it */
    uint32_t children;       /* groups made of it until now */
    _Atomic uint32_t splits; /* calls that made groups of it */
    /* references: calls of symmcoll_group_free() needed */
    uint32_t users;
    /* holders of the struct's memory: 1 until its release */
    _Atomic uint32_t holders;
    _Atomic uint64_t refused;   /* kinds that a non-member was warned of */
    char id[SYMC_GROUP_ID];     /* its number within its world */
    char name[SYMC_TRACE_NAME]; /* displayed name, with the world's */
    char desc[SYMC_TRACE_NAME];
    char tag[SYMC_GROUP_TAG_FULL]; /* "user:TAG", or "ptd:NAME" without a tag */
    struct symc_pair_group pairs;  /* in the world's sends and receives */
    _Atomic uint32_t calls;        /* see symc_group_enter() */
    /* thread in a call that calls the program; 0: none */
    _Atomic pthread_t caller;
    struct symc_region *regions; /* all; needs the world's lock */
    int64_t first_timeout_ns;    /* timeout of operations at creation */
    struct symc_group_extension *extensions; /* needs the world's lock */
};

/* Sets the name of a planned group: its number among those made of its parent,
 * and the displayed name.  parent NULL: the group of all ranks; name NULL: the
 * number. */
void symc_group_plan_name(const struct symmcoll_world *world,
    const struct symmcoll_group *parent, struct symc_group_plan *plan,
    unsigned int number, const char *name);

/*
 * Opens a group on this rank from the offers of all members.  Local.
 *
 * part    what this rank has taken for it, with symc_world_take_part()
 * offers  of all members, in the order of the group; nbytes 0: not on this
 *         machine
 *
 * The group takes the part and this rank's offer; on failure both have been
 * returned.  Errors: NO_MEMORY, UNSUPPORTED, INVALID (an offer), SYSTEM.
 */
symmcoll_status_t symc_group_open(struct symmcoll_world *world,
    const struct symc_group_plan *plan, const struct symc_group_part *part,
    const struct symc_offer *offers, struct symmcoll_group **group);

/* Opens a group on a rank that is not a member.  Errors: NO_MEMORY. */
symmcoll_status_t symc_group_open_outside(struct symmcoll_world *world,
    const struct symc_group_plan *plan, struct symmcoll_group **group);

/* ---- init.c ---- */

/* Opens a world and the group of all its ranks; fake as in
 * symc_world_open(). */
symmcoll_status_t symc_group_init(const struct symmcoll_init_args *args,
    struct symc_fake *fake, struct symmcoll_world **world);

/* Returns a module's extension.  If there is none, creates it with make();
 * returns NULL without make() or memory. */
struct symc_group_extension *symc_group_extension(struct symmcoll_group *group,
    const void *key, struct symc_group_extension *(*make)(void));

/* Calls cut() of the group's extensions before the group is stopped.  A second
 * call has no effect. */
void symc_group_cut(struct symmcoll_group *group);

/* Releases a stopped group.  Errors: those of symc_slots_reclaim(). */
symmcoll_status_t symc_group_close(struct symmcoll_group *group);

/* Returns the group of a failure state. */
static inline struct symmcoll_group *symc_group_of(struct symc_members *members)
{
    return (void *)((char *)symc_runner_of(members) -
                    offsetof(struct symmcoll_group, runner));
}

/* Returns whether this rank is a member. */
static inline bool symc_group_is_member(const struct symmcoll_group *group)
{
    return group->runner.rank >= 0;
}

/* Returns the error of a call on a group with *alive other than 1: NOT_MEMBER,
 * logged once per kind, or INVALID after a fork. */
symmcoll_status_t symc_group_refuse(
    struct symmcoll_group *group, enum symc_kind kind);

/* ---- known.c: the groups of a world known to this rank ---- */

/* Add a group to the list, and remove it. */
void symc_group_enlist(struct symmcoll_group *group);
void symc_group_delist(struct symmcoll_group *group);

/* Returns the group with that displayed name, or NULL. */
struct symmcoll_group *symc_group_find_name(
    struct symmcoll_world *world, const char *name);

/*
 * Returns the oldest group with a tag and these members in any order, or NULL.
 * tag is as in symmcoll_group_find(). `use` adds a reference.
 */
struct symmcoll_group *symc_group_find_tag(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, bool use);

/* A claim to create a group by tag.  Other threads of the rank that want the
 * same group wait for the claiming thread, because the other ranks create only
 * one. */
struct symc_group_claim {
    struct symc_group_claim *next;
    const char *tag;  /* without "user:" */
    const int *ranks; /* ascending */
    int nranks;
};

/* Returns the claim's group with a reference added, or NULL if the calling
 * thread must create it and then end its claim. */
struct symmcoll_group *symc_group_find_or_claim(
    struct symmcoll_world *world, struct symc_group_claim *claim);
void symc_group_end_claim(
    struct symmcoll_world *world, struct symc_group_claim *claim);

/* Drop a reference and return how many are left; add one. */
uint32_t symc_group_drop_user(struct symmcoll_group *group);
void symc_group_add_user(struct symmcoll_group *group);

/* ---- making.c ---- */

/* Formats "ranks 0, 2-3", or for a program's own order "ranks 3, 0, 2 in this
 * order". */
const char *symc_group_format_ranks(
    const int *ranks, int nranks, bool unsorted, char *buffer, size_t nbytes);

/* ---- agree.c ---- */

/* Groups created together, by one operation of all members of a parent.  A rank
 * is in at most one of them. */
struct symc_partition {
    int count;        /* number of groups */
    const int *sizes; /* size of each group */
    /* world ranks of the members, group after group, each in its order */
    const int *ranks;
};

/* Options common to all groups of a partition. */
struct symc_group_options {
    enum symc_kind kind; /* kind of the call */
    const char *where;   /* its name, for messages */
    const char *name;    /* NULL: a number */
    const char *desc;    /* NULL: derived from the parent's */
    int64_t timeout_ns;
    size_t staging;  /* most bytes per member; 0: no limit */
    bool outside;    /* also creates groups without this rank */
    const char *tag; /* NULL: none */
    /* OK, or why this rank cannot; local calls only */
    symmcoll_status_t refused;
    /* with one group: returns an existing one with the tag and members if all
     * ranks have it */
    bool reuse;
    bool unsorted; /* members are in the partition's order: for messages */
};

/*
 * Creates groups: on all members of the parent or on none.  groups (out) has
 * room for all; without `outside`, groups without this rank are NULL. Errors:
 * see symmcoll_group_create().
 */
symmcoll_status_t symc_groups_create(struct symmcoll_group *parent,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symmcoll_group **groups);

/* Replaces symc_groups_create() or symc_groups_gather() on a rank without
 * memory for the call, so that the other members learn why.  Errors: own, and
 * those of collectives. */
symmcoll_status_t symc_groups_refuse(struct symmcoll_group *parent,
    const struct symc_group_options *options, symmcoll_status_t own);

/* A member's choice: members of one color form a group, in the order of their
 * keys. */
struct symc_color {
    int32_t color; /* negative: no group */
    int32_t key;
};

/* Exchanges the choices of all members of the parent.  Errors: those of
 * collectives. */
symmcoll_status_t symc_groups_gather(struct symmcoll_group *parent,
    const struct symc_group_options *options, struct symc_color mine,
    struct symc_color *all);

/* ---- create.c ---- */

/* Reads the arguments of a call that creates groups of a parent, except the
 * ranks.  copy (out) owns the strings that options refers to. */
symmcoll_status_t symc_group_args_read(enum symc_kind kind,
    struct symmcoll_group *parent, const struct symmcoll_group_args *args,
    struct symmcoll_group_args *copy, struct symc_group_options *options);

/* Creates the one group of a partition by a call of its members alone, by its
 * tag if it has one, within args->timeout or timeouts.init.  made (out): NULL
 * on failure.  Errors: see symmcoll_group_create(). */
symmcoll_status_t symc_group_create_by_members(struct symmcoll_world *world,
    const struct symmcoll_group_args *args,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symmcoll_group **made);

/* Checks a number of ranks: at least 1 and at most the world's. */
symmcoll_status_t symc_group_check_count(
    const char *where, const struct symmcoll_world *world, int count);

/* Checks the length of one of several lists of ranks of a group of `size`, and
 * adds it to *sum, the lengths before it. */
symmcoll_status_t symc_group_check_length(
    const char *where, const int *sizes, int list, int *sum, int size);

/* Checks that nranks ranks are in 0 to size - 1, each at most once. */
symmcoll_status_t symc_group_check_ranks(
    const char *where, const int *ranks, int nranks, int size);

/* ---- local.c ---- */

/* Creates the one group of a partition by a call of its members alone, within
 * wait_ns.  Errors: see symmcoll_group_create(). */
symmcoll_status_t symc_group_create_local(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group);

/* Returns this rank's group with the tag in options, or creates it, by one
 * thread.  The partition's ranks are ascending. */
symmcoll_status_t symc_group_find_or_create_local(struct symmcoll_world *world,
    const struct symc_partition *partition,
    const struct symc_group_options *options, int64_t wait_ns,
    struct symmcoll_group **group);

/* ---- free.c ---- */

/* Stops a group without operations in flight, removes it from its world and
 * releases it.  Errors: those of symc_slots_reclaim(). */
symmcoll_status_t symc_group_end(struct symmcoll_group *group);

/* ---- record.c ---- */

/* The recorder's view of a call that creates groups. */
struct symc_group_call {
    enum symc_kind kind;
    int64_t trace;    /* group of the record: the parent, or the one created */
    uint64_t seq;     /* the parent's latest collective */
    const char *name; /* the new group's name; NULL: a number */
    uint64_t issued;  /* symc_ticks() of the call */
    size_t nbytes;    /* bytes that each member sends first */
    int64_t timeout_ns;
};

/* Records the begin of a call.  Returns NULL if it is not recorded. */
struct symc_trace_entry *symc_group_record(
    struct symmcoll_world *world, const struct symc_group_call *call);

/* Records the end of a call; entry may be NULL. After a MISMATCH it gets the
 * sequence number that a round has taken.  An error that has not failed the
 * group becomes the note of this rank.  Needs the ticket. */
void symc_group_record_end(struct symmcoll_group *parent, enum symc_kind kind,
    struct symc_trace_entry *entry, symmcoll_status_t status);

/* ---- inside.c ---- */

/* Mark the begin and end of a call that uses the group without its ticket or
 * after passing it on.  The group is not released before the end. */
void symc_group_enter(struct symmcoll_group *group);
void symc_group_leave(struct symmcoll_group *group);

/* set_caller() marks that such a call, one at a time, may call functions of the
 * program, or no longer does.  is_caller() returns whether the calling thread
 * is in such a function. */
void symc_group_set_caller(struct symmcoll_group *group, bool calls);
bool symc_group_is_caller(struct symmcoll_group *group);

/* Returns the world's group for which the calling thread is in such a function,
 * or NULL. */
struct symmcoll_group *symc_group_find_caller(struct symmcoll_world *world);

/* Waits until no such call is left.  Returns false if the deadline has
 * passed. */
bool symc_group_drain_calls(struct symmcoll_group *group, int64_t deadline_ns);

/* ---- for the modules above, which read no members of the struct ---- */

static inline struct symmcoll_world *symc_group_world(
    const struct symmcoll_group *group)
{
    return group->world;
}

/* Returns the settings of the group's world. */
static inline const struct symc_config *symc_group_config(
    const struct symmcoll_group *group)
{
    return group->world->config;
}

static inline const char *symc_group_name(const struct symmcoll_group *group)
{
    return group->name;
}

static inline int symc_group_rank(const struct symmcoll_group *group)
{
    return group->runner.rank;
}

static inline int symc_group_size(const struct symmcoll_group *group)
{
    return group->runner.size;
}

/* Returns the world rank of each member. */
static inline const int *symc_group_global(const struct symmcoll_group *group)
{
    return group->runner.global;
}

/* Returns the members, for messages. */
static inline const struct symc_ranks *symc_group_ranks(
    const struct symmcoll_group *group)
{
    return &group->runner.members.ranks;
}

static inline struct symc_members *symc_group_members(
    struct symmcoll_group *group)
{
    return &group->runner.members;
}

/* Returns whether this process may use the group: it is a member's, and not a
 * fork of it. */
static inline bool symc_group_is_usable(const struct symmcoll_group *group)
{
    return *group->alive == 1;
}

/* Returns whether the group is known to have failed.  symc_members_failed()
 * also reads the records of other members. */
static inline bool symc_group_has_stopped(const struct symmcoll_group *group)
{
    return symc_run_has_failed(&group->runner);
}

/* Returns the timeout of operations without one. */
static inline int64_t symc_group_timeout(const struct symmcoll_group *group)
{
    return atomic_load_explicit(
        &group->runner.timeout_ns, memory_order_relaxed);
}

/* Returns the device of all calls on device memory; -1: none yet. */
static inline int symc_group_device(const struct symmcoll_group *group)
{
    return (int)atomic_load(&group->runner.device) - 1;
}

/* Returns what runs the group's operations. */
static inline struct symc_runner *symc_group_runner(
    struct symmcoll_group *group)
{
    return &group->runner;
}

static inline struct symc_queue *symc_group_queue(
    const struct symmcoll_group *group)
{
    return group->runner.queue;
}

static inline const struct symc_core *symc_group_core(
    const struct symmcoll_group *group)
{
    return &group->runner.core;
}

/* Returns the open region, or NULL. */
static inline struct symc_region *symc_region_current(
    const struct symmcoll_group *group)
{
    return atomic_load_explicit(&group->region, memory_order_acquire);
}

static inline struct symc_shared_table *symc_group_shared(
    struct symmcoll_group *group)
{
    return &group->runner.shared;
}

/* Returns room for what all members send in a round, sizeof(struct
 * symc_verdict) bytes each.  Needs the ticket. */
static inline struct symc_verdict *symc_group_verdicts(
    const struct symmcoll_group *group)
{
    return group->runner.verdicts;
}

/* Returns the group's reference in the recorder, or SYMC_TRACE_NO_GROUP. */
static inline int64_t symc_group_trace(const struct symmcoll_group *group)
{
    return group->runner.trace;
}

/* ---- sends and receives ---- */

/* Returns the group's key in the world's sends and receives. */
static inline uint64_t symc_group_pair_key(const struct symmcoll_group *group)
{
    return group->pairs.key;
}

#endif
