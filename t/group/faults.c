/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups and ranks that fail: members of the group get the error, and no
 * other rank does.
 */
#include "t/world/faults.h"
#include "t/attempts.h"
#include "t/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4
#define VICTIM 3

static bool create(struct faults_rank *self, const int *ranks, int nranks,
    struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.ranks = ranks;
    args.nranks = nranks;
    return symmcoll_group_create(self->world, &args, group) == SYMMCOLL_OK;
}

static bool sums(struct symmcoll_group *group, int wanted)
{
    int x = 1;

    return symmcoll_all_reduce(group, &x, &x, 1, SYMMCOLL_INT32, SYMMCOLL_SUM,
               NULL, NULL) == SYMMCOLL_OK &&
           x == wanted;
}

/* Waits until all ranks have ended, except the victim if it is dead: their
 * notes can then be read. */
static void reap(struct faults_job *job, int count)
{
    for (int r = 0; r < count; r++)
        faults_reap(job, r);
}

/* ---- a death ---- */

/* Uses two groups with the victim, one without it, and one of the others that
 * was released before. */
static int outlive_a_member(struct faults_rank *self)
{
    static const int with[] = {1, 2, 3}, without[] = {0, 1, 2}, pair[] = {0, 3};
    struct symmcoll_group *hit, *spared, *other;

    if (!faults_init(self) || !create(self, with, 3, &hit) ||
        !create(self, without, 3, &spared) || !create(self, pair, 2, &other))
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        pause();
    if (self->rank == 0)
        faults_note(self, symmcoll_barrier(other, NULL, NULL));
    else
        faults_note(self, symmcoll_barrier(hit, NULL, NULL));
    for (int i = 0; i < 100; i++) {
        if (!sums(spared, 3))
            return 1;
    }
    if (symmcoll_group_error(spared) != SYMMCOLL_OK)
        return 1;
    /* One group may get the error slightly before the other. */
    while (symmcoll_group_error(self->group) == SYMMCOLL_OK)
        faults_rest();
    faults_note(self, symmcoll_group_error(self->group));
    return faults_finalize(self);
}

static void a_death_fails_the_groups_of_the_dead(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, outlive_a_member, NULL);
    right = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    reap(&job, VICTIM);
    for (int r = 0; r < VICTIM; r++)
        right = right &&
                faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                    "rank 3", "killed by SIGKILL", NULL) &&
                faults_said(
                    faults_told(&job, r, 1), SYMMCOLL_ERR_PEER, "rank 3", NULL);
    right = faults_finish(&job, 1u << VICTIM) && right;
    ok(right, "a death fails every group that the dead was in, and no other");
}

/* The victim never calls the creation. */
static int create_without_the_victim(struct faults_rank *self)
{
    static const int pair[] = {0, 1};
    struct symmcoll_group *group, *before;

    if (!faults_init(self) || !create(self, pair, 2, &before))
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        pause();
    faults_note(self, symmcoll_group_create(self->world, NULL, &group));
    faults_note(self, symmcoll_group_create(self->world, NULL, &group));
    if (self->rank < 2 && !sums(before, 2))
        return 1;
    return faults_finalize(self);
}

/* The victim never calls the creation of a local group, which only its members
 * create. */
static int create_local_without_the_victim(struct faults_rank *self)
{
    static const int members[] = {1, 2, VICTIM};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group;

    args.ranks = members;
    args.nranks = 3;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    if (!faults_init(self))
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        pause();
    if (self->rank > 0)
        faults_note(self, symmcoll_group_create(self->world, &args, &group));
    return faults_finalize(self);
}

static void a_death_ends_a_local_creation(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, create_local_without_the_victim, NULL);
    right = faults_await(&job, VICTIM, 1);
    for (int r = 1; r < VICTIM; r++)
        right = faults_await(&job, r, 1) && right;
    faults_signal(&job, VICTIM, SIGKILL);
    reap(&job, VICTIM);
    for (int r = 1; r < VICTIM; r++)
        right = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                    "group_create: rank 3", "killed by SIGKILL", "needs it",
                    NULL) &&
                right;
    right = faults_finish(&job, 1u << VICTIM) && right;
    ok(right, "the cause of a death is in the error of a creation by members");
}

static void a_death_ends_a_creation(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, create_without_the_victim, NULL);
    right = faults_await(&job, VICTIM, 1);
    for (int r = 0; r < VICTIM; r++)
        right = faults_await_asleep(&job, r, 1) && right;
    faults_signal(&job, VICTIM, SIGKILL);
    reap(&job, VICTIM);
    for (int r = 0; r < VICTIM; r++)
        right = right &&
                faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                    "group_create", "rank 3", "killed by SIGKILL", NULL) &&
                faults_told(&job, r, 0)->at - job.killed_at < FAULTS_KNOWN &&
                faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_ABORTED,
                    "killed by SIGKILL", NULL);
    right = faults_finish(&job, 1u << VICTIM) && right;
    ok(right, "a death ends a creation at once; groups without the dead go on");
}

/* ---- a late rank ---- */

static int create_before_the_late(struct faults_rank *self)
{
    struct symmcoll_group *group;

    if (!faults_init(self) || symmcoll_group_set_timeout(self->group,
                                  *(const double *)self->arg) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 1);
    faults_note(self, symmcoll_group_create(self->world, NULL, &group));
    faults_reach(self, 2);
    return faults_finalize(self);
}

static bool name_who_does_not_create(double seconds, void *arg)
{
    struct faults_job job;
    bool right = true;
    char text[64];

    (void)arg;
    snprintf(text, sizeof(text), "timed out after %g s: rank 3 did not come",
        seconds);
    faults_start(&job, SIZE, create_before_the_late, &seconds);
    for (int r = 0; r < VICTIM; r++)
        right = faults_await(&job, r, 2) && right;
    faults_open(&job, 1);
    reap(&job, SIZE);
    for (int r = 0; r < VICTIM; r++)
        right =
            right && faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                         "group_create of group ", text, NULL);
    right = right && faults_said(faults_told(&job, VICTIM, 0),
                         SYMMCOLL_ERR_ABORTED, "rank", NULL);
    return faults_finish(&job, 0) && right;
}

static void who_does_not_create_is_named(void)
{
    ok(attempts_hold(name_who_does_not_create, 0.3, NULL),
        "who does not come to a creation is named");
}

/* ---- no memory ---- */

/* Ranks 1 and 3 create the group; rank 3 first has no memory for it. */
static int create_without_memory(struct faults_rank *self)
{
    static const int pair[] = {1, 3};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group;

    if (!faults_init(self))
        return 1;
    args.ranks = pair;
    args.nranks = 2;
    if (self->rank == VICTIM)
        setenv("ENOSPC_ABOVE", "0", 1);
    faults_note(self, symmcoll_group_create(self->world, &args, &group));
    unsetenv("ENOSPC_ABOVE");
    if (symmcoll_group_create(self->world, &args, &group) != SYMMCOLL_OK)
        return 1;
    if (self->rank % 2 == 1 && !sums(group, 2))
        return 1;
    return symmcoll_group_free(group) == SYMMCOLL_OK ? faults_finalize(self)
                                                     : 1;
}

static void no_memory_is_everybodys_error(void)
{
    struct faults_job job;
    bool right = true;

    faults_start(&job, SIZE, create_without_memory, NULL);
    reap(&job, SIZE);
    for (int r = 0; r < SIZE; r++)
        right = right &&
                faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_NO_MEMORY,
                    "group_create: rank 3: segment", NULL);
    right = faults_finish(&job, 0) && right;
    ok(right, "memory that one rank lacks is the error of all, and no more");
}

/* ---- an abort ---- */

static int abort_one_of_two(struct faults_rank *self)
{
    struct symmcoll_group *doomed, *spared;

    if (!faults_init(self) || !create(self, NULL, 0, &doomed) ||
        !create(self, NULL, 0, &spared))
        return 1;
    if (self->rank == 0)
        symmcoll_group_abort(doomed, "enough");
    else
        faults_note(self, symmcoll_barrier(doomed, NULL, NULL));
    if (!sums(spared, SIZE) || !sums(self->group, SIZE) ||
        symmcoll_group_error(doomed) != SYMMCOLL_ERR_CANCELED ||
        symmcoll_group_error(spared) != SYMMCOLL_OK ||
        symmcoll_group_free(doomed) != SYMMCOLL_OK || !sums(spared, SIZE))
        return 1;
    return faults_finalize(self);
}

static void an_abort_leaves_other_groups_alone(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, abort_one_of_two, NULL);
    right = faults_finish(&job, 0);
    ok(right, "a group that is aborted leaves the others alone (G38)");
}

int main(void)
{
    faults_begin();
    plan(6);
    a_death_fails_the_groups_of_the_dead();
    a_death_ends_a_creation();
    a_death_ends_a_local_creation();
    who_does_not_create_is_named();
    no_memory_is_everybodys_error();
    an_abort_leaves_other_groups_alone();
    faults_end();
    return done_testing();
}
