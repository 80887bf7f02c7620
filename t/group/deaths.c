/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a member that dies at each step of a call that creates or releases a
 * group: the linker wraps the functions through which all such calls pass, and
 * the victim dies before or after one of them. Every other rank then has the
 * group, or an error that names the dead rank, at once, and no memory of the
 * group remains.
 */
#include "group/agreement.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4
#define VICTIM 2

enum call {
    CREATE,
    SPLIT,
    LOCAL,
    SHRINK,
    FREE
};

enum step {
    ROUND,     /* of the parent */
    AGREEMENT, /* a round of members only */
    OPEN,
    PUT, /* a proposal */
    FINISH,
    END, /* of a group */
    STEPS
};

struct plan {
    enum call call;
    enum step step;
    int number; /* number of the step */
    bool after;
    enum step known; /* STEPS; OPEN, AGREEMENT: after that, before the second
                      * of these the others see the death */
};

static const struct plan *armed;    /* in the victim */
static const struct plan *followed; /* in the others */
static struct faults_rank *rank;
static int passed[STEPS];

/* Waits for the death at the step where the other ranks must have seen it. */
static void await_death(enum step step, bool after)
{
    const struct symc_peer *victim = &rank->world->peers[VICTIM];
    bool here = step == OPEN ? after : passed[step] == 2 && !after;

    if (followed->known != step || !here)
        return;
    while (symc_liveness_state(victim) == SYMC_LIVENESS_ALIVE)
        usleep(1000);
}

static void pass(enum step step, bool after)
{
    passed[step] += after ? 0 : 1;
    if (followed != NULL)
        await_death(step, after);
    if (armed == NULL || armed->step != step)
        return;
    if (passed[step] != armed->number || armed->after != after)
        return;
    /* The other ranks must reach the round before they can see the death. */
    if (armed->known == AGREEMENT)
        usleep(100000);
    atomic_store(&rank->board->any, 1);
    kill(getpid(), SIGKILL);
}

/* ---- wrapped ---- */

symmcoll_status_t __real_symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns);
symmcoll_status_t __wrap_symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns);
symmcoll_status_t __real_symc_agreement_round(struct symc_agreement *agreement);
symmcoll_status_t __wrap_symc_agreement_round(struct symc_agreement *agreement);
symmcoll_status_t __real_symc_group_open(struct symmcoll_world *world,
    const struct symc_group_plan *plan, const struct symc_group_part *part,
    const struct symc_offer *offers, struct symmcoll_group **made);
symmcoll_status_t __wrap_symc_group_open(struct symmcoll_world *world,
    const struct symc_group_plan *plan, const struct symc_group_part *part,
    const struct symc_offer *offers, struct symmcoll_group **made);
void __real_symc_proposal_put(struct symc_proposals *proposals, int slot,
    const struct symc_proposal *content);
void __wrap_symc_proposal_put(struct symc_proposals *proposals, int slot,
    const struct symc_proposal *content);
void __real_symc_proposal_finish(
    struct symc_proposals *proposals, int slot, bool read);
void __wrap_symc_proposal_finish(
    struct symc_proposals *proposals, int slot, bool read);
symmcoll_status_t __real_symc_group_close(struct symmcoll_group *group);
symmcoll_status_t __wrap_symc_group_close(struct symmcoll_group *group);

symmcoll_status_t __wrap_symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns)
{
    symmcoll_status_t status;

    pass(ROUND, false);
    status = __real_symc_run_round(runner, kind, mine, all, nbytes, timeout_ns);
    pass(ROUND, true);
    return status;
}

symmcoll_status_t __wrap_symc_agreement_round(struct symc_agreement *agreement)
{
    symmcoll_status_t status;

    pass(AGREEMENT, false);
    status = __real_symc_agreement_round(agreement);
    pass(AGREEMENT, true);
    return status;
}

symmcoll_status_t __wrap_symc_group_open(struct symmcoll_world *world,
    const struct symc_group_plan *plan, const struct symc_group_part *part,
    const struct symc_offer *offers, struct symmcoll_group **made)
{
    symmcoll_status_t status;

    pass(OPEN, false);
    status = __real_symc_group_open(world, plan, part, offers, made);
    pass(OPEN, true);
    return status;
}

void __wrap_symc_proposal_put(struct symc_proposals *proposals, int slot,
    const struct symc_proposal *content)
{
    pass(PUT, false);
    __real_symc_proposal_put(proposals, slot, content);
    pass(PUT, true);
}

void __wrap_symc_proposal_finish(
    struct symc_proposals *proposals, int slot, bool read)
{
    pass(FINISH, false);
    __real_symc_proposal_finish(proposals, slot, read);
    pass(FINISH, true);
}

symmcoll_status_t __wrap_symc_group_close(struct symmcoll_group *group)
{
    symmcoll_status_t status;

    pass(END, false);
    status = __real_symc_group_close(group);
    pass(END, true);
    return status;
}

/* ---- a rank ---- */

static symmcoll_status_t call(struct faults_rank *self, enum call which,
    struct symmcoll_group **group, uint64_t *last)
{
    static const int ranks[SIZE] = {0, 1, 2, 3};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_shrink_args shrink = SYMMCOLL_SHRINK_ARGS_INIT;

    switch (which) {
    case CREATE:
        return symmcoll_group_create(self->world, NULL, group);
    case SPLIT:
        /* The victim is not in the group of ranks 0 and 1. */
        return symmcoll_group_split(
            self->group, self->rank / 2, 0, NULL, group);
    case LOCAL:
        args.ranks = ranks;
        args.nranks = SIZE;
        args.flags = SYMMCOLL_GROUP_LOCAL;
        args.timeout = FAULTS_WAIT_MAX;
        return symmcoll_group_create(self->world, &args, group);
    case SHRINK:
        shrink.timeout = FAULTS_WAIT_MAX;
        return symmcoll_group_shrink(self->group, &shrink, group, last);
    case FREE:
        break;
    }
    return SYMMCOLL_ERR_INTERNAL;
}

/* Checks that a group without the victim works, and that one with it fails. */
static bool has_or_loses(
    struct symmcoll_group *group, symmcoll_status_t *status)
{
    bool with = symmcoll_group_rank_of(group, VICTIM) >= 0;
    int ones = 1;

    *status = symmcoll_all_reduce(
        group, &ones, &ones, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);
    return with ? *status == SYMMCOLL_ERR_PEER
                : *status == SYMMCOLL_OK && ones == symmcoll_group_size(group);
}

/* Records the result of the call, and if it is a group the result of the next
 * operation. */
static int make(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_group *group = NULL;
    symmcoll_status_t status;
    uint64_t last = 1;
    int64_t staging;
    bool right = true;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    staging = atomic_load(&self->world->staging_left);
    faults_reach(self, 1);
    faults_pass(self, 1);
    rank = self;
    memset(passed, 0, sizeof(passed));
    armed = self->rank == VICTIM ? plan : NULL;
    followed = self->rank != VICTIM ? plan : NULL;
    /* As if others had completed operations that rank 0 has not. */
    self->group->runner.completed += (uint64_t)self->rank;
    status = faults_note(self, call(self, plan->call, &group, &last));
    if (self->rank == VICTIM)
        kill(getpid(), SIGKILL);
    if (status == SYMMCOLL_OK && group != NULL) {
        right =
            has_or_loses(group, &status) &&
            (plan->known == STEPS || symmcoll_group_rank_of(group, VICTIM) < 0);
        if (!right)
            diag("rank %d: in the new group: %s: %s", self->rank,
                symmcoll_status_name(status), symmcoll_last_error());
        faults_note(self, status);
        status = symmcoll_group_free(group);
        if (status != SYMMCOLL_OK)
            diag("rank %d: group_free: %s: %s", self->rank,
                symmcoll_status_name(status), symmcoll_last_error());
        right = status == SYMMCOLL_OK && right;
    } else if (status == SYMMCOLL_OK || group != NULL) {
        diag("rank %d: neither a group nor an error", self->rank);
        right = false;
    }
    if (atomic_load(&self->world->staging_left) != staging) {
        diag("rank %d: staging of a group was not returned", self->rank);
        right = false;
    }
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

/* Each member releases a group; the others may still use it. */
static int release(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_group *group = NULL;
    int64_t staging;
    bool right = true;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    staging = atomic_load(&self->world->staging_left);
    if (call(self, CREATE, &group, NULL) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    rank = self;
    memset(passed, 0, sizeof(passed));
    armed = self->rank == VICTIM ? plan : NULL;
    followed = self->rank != VICTIM ? plan : NULL;
    if (self->rank == 0)
        faults_note(self, symmcoll_barrier(group, NULL, NULL));
    right = symmcoll_group_free(group) == SYMMCOLL_OK;
    if (self->rank == VICTIM)
        kill(getpid(), SIGKILL);
    if (self->rank != 0)
        faults_note(self, faults_barrier(self));
    right = right && atomic_load(&self->world->staging_left) == staging;
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

/* ---- the test ---- */

/* Checks a rank's first result: a group, or an error that names the dead
 * rank. */
static bool judge(const struct faults_job *job, const struct plan *plan, int r)
{
    const struct faults_note *note = faults_told(job, r, 0);
    double until = job->killed_at + FAULTS_KNOWN;
    char pid[32];

    snprintf(pid, sizeof(pid), "pid %d", (int)job->pids[VICTIM]);
    if (note->at > until) {
        diag("rank %d was told after %.1f s", r, note->at - job->killed_at);
        return false;
    }
    if (note->status == SYMMCOLL_OK && plan->call != FREE)
        return true;
    if (plan->call == SHRINK) {
        diag("rank %d: expected a group, found %s: %s", r,
            symmcoll_status_name(note->status), note->detail);
        return false;
    }
    /* A member may first learn that others have left the group. */
    return faults_said(
        note, SYMMCOLL_ERR_PEER, "rank", plan->call == FREE ? "" : pid, NULL);
}

static bool try(const struct plan *plan)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, plan->call == FREE ? release : make, plan);
    right = faults_await_all(&job, 1);
    job.killed_at = faults_now();
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++)
        if (r != VICTIM)
            faults_reap(&job, r);
    for (int r = 0; r < SIZE; r++)
        right = right && (r == VICTIM || judge(&job, plan, r));
    if (atomic_load(&job.board->any) != 1) {
        diag("the victim did not come to this step");
        right = false;
    }
    right = faults_finish(&job, 1u << VICTIM) && right;
    faults_clear_dumps(SIZE);
    if (!right)
        diag("victim dies %s step %d, number %d",
            plan->after ? "after" : "before", plan->step, plan->number);
    return right;
}

static void at_each(
    enum call call, enum step step, int numbers, const char *sentence)
{
    bool right = true;

    for (int i = 0; i < 2 * numbers; i++) {
        struct plan plan = {call, step, i / 2 + 1, i % 2 == 1, STEPS};

        right = try(&plan) && right;
    }
    ok(right, "a death %s", sentence);
}

/* All ranks detect the death at the same time, after they have opened the
 * group. */
static void known_to_all(void)
{
    static const struct plan before = {SHRINK, AGREEMENT, 2, false, OPEN};
    static const struct plan during = {SHRINK, AGREEMENT, 2, false, AGREEMENT};

    ok(try(&before), "who has died before the last round is not in the group");
    ok(try(&during), "nor is one whom all miss in that round");
}

int main(void)
{
    faults_begin();
    plan(12);
    at_each(CREATE, ROUND, 2, "around each round of a creation");
    at_each(CREATE, OPEN, 1, "around the opening of a group");
    at_each(SPLIT, ROUND, 3, "around each round of a split");
    at_each(LOCAL, AGREEMENT, 2, "around each round of a local creation");
    at_each(LOCAL, PUT, 2, "around each proposal of a local creation");
    at_each(LOCAL, FINISH, 2, "around the end of a local creation");
    at_each(SHRINK, AGREEMENT, 2, "around each round of a shrink");
    at_each(SHRINK, PUT, 2, "around each proposal of a shrink");
    at_each(SHRINK, FINISH, 2, "around the end of a shrink");
    known_to_all();
    at_each(FREE, END, 1, "around the end of a group");
    faults_end();
    return done_testing();
}
