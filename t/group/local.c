/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests groups that only their members create (G24, G25). */
#include "t/group/groups.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4
#define PASS 40 /* more calls than a rank can have in flight */

static symmcoll_status_t create(struct symmcoll_world *world, const int *ranks,
    int nranks, const char *name, double timeout, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.ranks = ranks;
    args.nranks = nranks;
    args.name = name;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    args.timeout = timeout;
    return symmcoll_group_create(world, &args, group);
}

static bool sums(struct symmcoll_group *group, int rank, int expected)
{
    int sum = groups_sum(group, rank);

    if (sum != expected)
        diag("rank %d: expected %d, found %d", rank, expected, sum);
    return sum == expected;
}

/* Creates groups as the PyTorch test does: each rank and the one two after it,
 * so that two groups are created at once (L3). */
static int members_alone_call(struct symmcoll_group *all, int rank)
{
    int ranks[2] = {rank, (rank + 2) % SIZE};
    struct symmcoll_group *group;

    if (!made(rank,
            create(symmcoll_group_world(all), ranks, 2, NULL, -1, &group)))
        return 0;
    return symmcoll_group_size(group) == 2 &&
           symmcoll_group_rank(group) == (rank < 2 ? 0 : 1) &&
           symmcoll_group_global_rank(group, 1) == rank % 2 + 2 &&
           sums(group, rank, 2 * (rank % 2) + 2) &&
           symmcoll_group_sequence(all) == 0 &&
           symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int others_are_refused(struct symmcoll_group *all, int rank)
{
    static const int ranks[2] = {1, 3};
    struct symmcoll_group *group = all;
    symmcoll_status_t status =
        create(symmcoll_group_world(all), ranks, 2, NULL, -1, &group);

    if (rank % 2 == 1)
        return made(rank, status) && sums(group, rank, 4) &&
               symmcoll_group_free(group) == SYMMCOLL_OK;
    return groups_said(rank, status, SYMMCOLL_NOT_MEMBER, "ranks 1 and 3") &&
           group == NULL;
}

static int the_same_twice(struct symmcoll_group *all, int rank)
{
    static const int ranks[3] = {2, 0, 1};
    struct symmcoll_group *groups[2] = {NULL, NULL};
    bool right = true;

    for (int i = 0; rank < 3 && i < 2; i++)
        right = right && made(rank, create(symmcoll_group_world(all), ranks, 3,
                                        NULL, -1, &groups[i]));
    if (rank == 3 || !right)
        return right;
    return groups[0] != groups[1] &&
           strcmp(symmcoll_group_name(groups[0]),
               symmcoll_group_name(groups[1])) != 0 &&
           sums(groups[1], rank, 3) && sums(groups[0], rank, 3) &&
           sums(groups[1], rank, 3) &&
           symmcoll_group_sequence(groups[0]) == 1 &&
           symmcoll_group_sequence(groups[1]) == 2 &&
           symmcoll_group_free(groups[0]) == SYMMCOLL_OK &&
           sums(groups[1], rank, 3) &&
           symmcoll_group_free(groups[1]) == SYMMCOLL_OK;
}

static int names_are_new(struct symmcoll_group *all, int rank)
{
    static const int ranks[2] = {0, 1};
    struct symmcoll_group *group, *second;
    bool right;

    if (rank > 1)
        return 1;
    right = made(rank, create(symmcoll_group_world(all), ranks, 2, "pair", -1,
                           &group)) &&
            strcmp(symmcoll_group_name(group), groups_named(all, "pair")) == 0;
    return right &&
           groups_said(rank,
               create(symmcoll_group_world(all), ranks, 2, "pair", -1, &second),
               SYMMCOLL_ERR_INVALID, "expected a new name") &&
           sums(group, rank, 1) && symmcoll_group_free(group) == SYMMCOLL_OK;
}

/* ---- names, and the order of creation ---- */

static int names_have_63_bytes(struct symmcoll_group *all, int rank)
{
    static const int ranks[2] = {0, 1};
    struct symmcoll_world *world = symmcoll_group_world(all);
    const char *names[] = {
        "a123456789b123456789c123456789d123456789e123456789f123456789g12", "17",
        "3.1"};
    struct symmcoll_group *groups[3] = {NULL}, *none;
    char longer[65];
    bool right = true;

    snprintf(longer, sizeof(longer), "%sX", names[0]);
    right = groups_said(rank, create(world, NULL, 0, longer, -1, &none),
                SYMMCOLL_ERR_INVALID, "1 to 63 bytes, found 64") &&
            groups_said(rank, create(world, NULL, 0, "", -1, &none),
                SYMMCOLL_ERR_INVALID, "1 to 63 bytes, found 0");
    for (int i = 0; rank < 2 && i < 3; i++)
        right = made(rank, create(world, ranks, 2, names[i], -1, &groups[i])) &&
                strcmp(symmcoll_group_name(groups[i]),
                    groups_named(all, names[i])) == 0 &&
                sums(groups[i], rank, 1) && right;
    for (int i = 0; i < 3; i++)
        right = symmcoll_group_free(groups[i]) == SYMMCOLL_OK && right;
    return right;
}

/* Gives groups of all ranks names that are numbers of operations. */
static int numbers_may_be_names(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *named, *second = NULL, *third = NULL, *none;
    bool right;

    args.name = "2";
    right = made(rank, symmcoll_group_create(world, &args, &named)) &&
            made(rank, symmcoll_group_create(world, NULL, &second)) &&
            made(rank, symmcoll_group_create(world, NULL, &third)) &&
            strcmp(symmcoll_group_name(named), groups_named(all, "2")) == 0 &&
            strcmp(symmcoll_group_name(third), groups_named(all, "3")) == 0 &&
            groups_said(rank, symmcoll_group_create(world, &args, &none),
                SYMMCOLL_ERR_INVALID, "expected a new name");
    args.name = "0";
    right = groups_said(rank, symmcoll_group_create(world, &args, &none),
                SYMMCOLL_ERR_INVALID, "expected a new name") &&
            right;
    return right && sums(named, rank, 6) && sums(second, rank, 6) &&
           sums(third, rank, 6);
}

static int orders_are_kept(struct symmcoll_group *all, int rank)
{
    static const int ranks[3] = {3, 0, 2}, twisted[3] = {0, 3, 2};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *groups[2] = {NULL, NULL}, *none;
    bool right = true;

    args.ranks = ranks;
    args.nranks = 3;
    for (int i = 0; i < 2; i++) {
        args.flags =
            SYMMCOLL_GROUP_UNSORTED | (i == 0 ? SYMMCOLL_GROUP_LOCAL : 0);
        if (i == 0 && rank == 1)
            continue;
        right = made(rank, symmcoll_group_create(world, &args, &groups[i])) &&
                right;
        for (int m = 0; right && m < 3; m++)
            right = symmcoll_group_global_rank(groups[i], m) == ranks[m];
        right = right && (rank == 1 || sums(groups[i], rank, 5));
    }
    args.ranks = rank == 0 ? twisted : ranks;
    args.flags = SYMMCOLL_GROUP_UNSORTED;
    right = groups_said(rank, symmcoll_group_create(world, &args, &none),
                SYMMCOLL_ERR_MISMATCH, "ranks 0, 3, 2 in this order") &&
            right;
    args.tag = "tag";
    return groups_said(rank, symmcoll_group_create(world, &args, &none),
               SYMMCOLL_ERR_INVALID, "expected no tag") &&
           right;
}

/* ---- splits ---- */

/* Splits without rank 3, with lists of different lengths. */
static int members_alone_split(struct symmcoll_group *all, int rank)
{
    static const int ranks[3] = {2, 0, 1}, sizes[2] = {2, 1};
    const struct symmcoll_lists lists = {ranks, sizes, 2};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *own = all, *every[2];
    bool right;

    if (rank == 1)
        return 1;
    args.flags = SYMMCOLL_GROUP_LOCAL | SYMMCOLL_GROUP_UNSORTED;
    args.name = "part";
    if (rank == 3)
        return groups_said(rank,
                   symmcoll_group_split_lists(all, &lists, &args, &own, NULL),
                   SYMMCOLL_NOT_MEMBER, "in no list") &&
               own == NULL;
    right =
        groups_said(rank,
            symmcoll_group_split_lists(all, &lists, &args, &own, every),
            SYMMCOLL_ERR_INVALID, "expected all to be NULL") &&
        groups_said(rank, symmcoll_group_split(all, 0, 0, &args, &own),
            SYMMCOLL_ERR_UNSUPPORTED, "colors") &&
        made(rank, symmcoll_group_split_lists(all, &lists, &args, &own, NULL));
    return right && symmcoll_group_size(own) == 2 &&
           symmcoll_group_global_rank(own, 0) == 2 &&
           strcmp(symmcoll_group_name(own), groups_named(all, "part.0")) == 0 &&
           sums(own, rank, 2) && symmcoll_group_sequence(all) == 0 &&
           symmcoll_group_free(own) == SYMMCOLL_OK;
}

static int runs_split_alone(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *own = NULL;

    if (rank < 2)
        return 1;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    return made(rank, symmcoll_group_split_runs(all, 2, &args, &own, NULL)) &&
           symmcoll_group_global_rank(own, 0) == 2 && sums(own, rank, 5) &&
           symmcoll_group_free(own) == SYMMCOLL_OK;
}

/* Only one rank has a group of that name: the other does not wait for it. */
static int a_failure_is_told(struct symmcoll_group *all, int rank)
{
    static const int ranks[2] = {0, 1};
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *own = NULL, *group = NULL;
    bool right = true;

    if (rank > 1)
        return 1;
    if (rank == 0)
        right = made(rank, create(world, ranks, 1, "own", -1, &own));
    return right &&
           groups_said(rank, create(world, ranks, 2, "own", 60, &group),
               SYMMCOLL_ERR_INVALID,
               rank == 0 ? "expected a new name" : "rank 0") &&
           group == NULL && symmcoll_group_free(own) == SYMMCOLL_OK;
}

/* Each rank continues before the others have read its contribution. */
static int many_pass(struct symmcoll_group *all, int rank)
{
    bool right = true;

    for (int i = 0; i < PASS && right; i++) {
        int other = (rank ^ (1 + i % 3)), ranks[2] = {rank, other};
        struct symmcoll_group *group;

        right = made(rank, create(symmcoll_group_world(all), ranks, 2, NULL, -1,
                               &group)) &&
                sums(group, rank, rank + other) &&
                symmcoll_group_free(group) == SYMMCOLL_OK;
    }
    return right;
}

/* ---- different orders ---- */

static int orders_are_told(struct symmcoll_group *all, int rank)
{
    static const int pairs[3][2] = {{0, 1}, {1, 2}, {0, 2}};
    static const int after[3] = {1, 2, 0};
    struct symmcoll_group *group = NULL;
    char who[32], what[64];
    symmcoll_status_t status;
    bool right;

    if (rank == 3)
        return symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    status =
        create(symmcoll_group_world(all), pairs[rank], 2, NULL, 0.5, &group);
    snprintf(who, sizeof(who), "rank %d", after[rank]);
    /* The first rank to time out reports the ranks that it waits for; the
     * others may get its report. */
    snprintf(what, sizeof(what), "members of the group of ranks ");
    right = status == SYMMCOLL_ERR_TIMEOUT &&
            (strstr(symmcoll_last_error(), what) != NULL ||
                groups_said(rank, status, SYMMCOLL_ERR_TIMEOUT, who));
    return symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK && right;
}

struct half {
    struct symmcoll_world *world;
    const int *ranks;
    struct symmcoll_group *group;
    symmcoll_status_t status;
};

static void *make_half(void *arg)
{
    struct half *half = arg;

    half->status = create(half->world, half->ranks, 2, NULL, -1, &half->group);
    return NULL;
}

/* With one thread for each group the order is irrelevant. */
static int threads_make_them_at_once(struct symmcoll_group *all, int rank)
{
    static const int pairs[3][2] = {{0, 1}, {1, 2}, {0, 2}};
    struct half halves[2];
    pthread_t thread;
    bool right;

    if (rank == 3)
        return 1;
    for (int i = 0; i < 2; i++)
        halves[i] = (struct half){symmcoll_group_world(all),
            pairs[(rank + (i == 0 ? 0 : 2)) % 3], NULL, SYMMCOLL_OK};
    if (pthread_create(&thread, NULL, make_half, &halves[1]) != 0)
        return 0;
    make_half(&halves[0]);
    pthread_join(thread, NULL);
    right = halves[0].status == SYMMCOLL_OK && halves[1].status == SYMMCOLL_OK;
    for (int i = 0; i < 2; i++)
        right = right && symmcoll_group_free(halves[i].group) == SYMMCOLL_OK;
    return right;
}

/* ---- dead ranks ---- */

static const int first_two[2] = {0, 1};

static int make_after_death(struct faults_rank *self)
{
    struct symmcoll_group *group;

    if (!faults_init(self))
        return 1;
    faults_reach(self, 1);
    if (self->rank == 2)
        faults_pass(self, 9);
    while (symmcoll_group_error(self->group) == SYMMCOLL_OK)
        sched_yield();
    if (!made(
            self->rank, create(self->world, first_two, 2, NULL, 20, &group)) ||
        !sums(group, self->rank, 1) ||
        symmcoll_group_free(group) != SYMMCOLL_OK)
        return 1;
    return faults_finalize(self);
}

static void a_world_of_dead(void)
{
    struct faults_job job;

    faults_start(&job, 3, make_after_death, NULL);
    faults_await_all(&job, 1);
    faults_signal(&job, 2, SIGKILL);
    ok(faults_finish(&job, 1u << 2),
        "a group is made in a world where a rank that is no member has died");
    faults_clear_dumps(3);
}

static int make_with_victim(struct faults_rank *self)
{
    static const int all[3] = {0, 1, 2};
    struct symmcoll_group *group;

    if (!faults_init(self))
        return 1;
    faults_reach(self, 1);
    if (self->rank == 2)
        faults_pass(self, 9);
    faults_note(self, create(self->world, all, 3, NULL, 60, &group));
    return faults_finalize(self);
}

static void a_member_dies(void)
{
    struct faults_job job;
    char name[64];
    bool right = true;

    faults_start(&job, 3, make_with_victim, NULL);
    /* The ranks are not asleep in the call: they poll. */
    faults_await_all(&job, 1);
    usleep(100000);
    faults_signal(&job, 2, SIGKILL);
    for (int r = 0; r < 2; r++) {
        const struct faults_note *note = faults_told(&job, r, 0);

        right = right && note->at - job.killed_at < FAULTS_KNOWN &&
                faults_said(
                    note, SYMMCOLL_ERR_PEER, faults_name(&job, 2, name), NULL);
    }
    ok(right, "a member that dies ends it at once, on all that wait");
    ok(faults_finish(&job, 1u << 2), "and nothing is left of that");
    faults_clear_dumps(3);
}

int main(void)
{
    plan(29);
    faults_begin();
    groups_both(SIZE, members_alone_call, "members alone make a group (G24)");
    groups_both(
        SIZE, others_are_refused, "who is no member gets no group (G24)");
    groups_both(SIZE, the_same_twice,
        "the same ranks make another group each time (G24)");
    groups_both(SIZE, names_are_new, "a name that is in use is refused");
    groups_both(SIZE, names_have_63_bytes,
        "a name has 1 to 63 bytes, also digits alone");
    groups_both(SIZE, numbers_may_be_names,
        "a group without a name is made whatever groups are called");
    groups_both(SIZE, orders_are_kept,
        "members have the order of the program's, if it wants that");
    groups_both(SIZE, members_alone_split,
        "the members of one list alone make its group");
    groups_both(
        SIZE, runs_split_alone, "the members of one run alone make its group");
    groups_both(SIZE, a_failure_is_told,
        "a member that fails before it has offered anything tells the others");
    groups_both(SIZE, many_pass, "groups are made one after another");
    groups_both(SIZE, orders_are_told,
        "different orders end with who waits for whom (G25)");
    groups_both(SIZE, threads_make_them_at_once,
        "threads of a rank make several at once (G25)");
    a_world_of_dead();
    a_member_dies();
    faults_end();
    return done_testing();
}
