/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmcoll_group_shrink(): the remaining members of a failed group form
 * a group that works, whichever ranks die during the call.
 */
#include "t/attempts.h"
#include "t/group/groups.h"
#include "t/published.h"
#include "t/world/faults.h"

#include "group/group.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DONE 7 /* collectives before the failure */
#define ROUNDS 25

static struct symmcoll_shrink_args within(double seconds)
{
    struct symmcoll_shrink_args args = SYMMCOLL_SHRINK_ARGS_INIT;

    args.timeout = seconds;
    return args;
}

/* Checks that a group works and consists of the ranks in the bit mask. */
static bool works(struct symmcoll_group *group, int rank, unsigned members)
{
    int expected = 0, count = 0, sum;

    for (int r = 0; r < FAULTS_RANKS; r++) {
        if ((members >> r & 1) == 0)
            continue;
        if (symmcoll_group_global_rank(group, count) != r) {
            diag("rank %d: member %d is not rank %d", rank, count, r);
            return false;
        }
        expected += r;
        count++;
    }
    sum = groups_sum(group, rank);
    if (symmcoll_group_size(group) != count || sum != expected)
        diag("rank %d: expected %d ranks and %d, found %d and %d", rank, count,
            expected, symmcoll_group_size(group), sum);
    return symmcoll_group_size(group) == count && sum == expected;
}

/* ---- deaths ---- */

struct deaths {
    unsigned before; /* ranks that die before */
};

/* The n-th survivor has completed n operations more than DONE. */
static int lose_some(struct faults_rank *self)
{
    const struct deaths *deaths = self->arg;
    unsigned all = (1u << self->size) - 1;
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *left = NULL, *again = NULL;
    uint64_t last = 99;
    bool right = true;

    if (!faults_init(self))
        return 1;
    for (int i = 0; i < DONE; i++)
        right = right && faults_barrier(self) == SYMMCOLL_OK;
    faults_reach(self, 1);
    if ((deaths->before >> self->rank & 1) != 0)
        faults_pass(self, 9);
    right = right && faults_barrier(self) == SYMMCOLL_ERR_PEER &&
            made(self->rank,
                symmcoll_group_shrink(self->group, &args, &left, &last)) &&
            last == DONE && works(left, self->rank, all & ~deaths->before) &&
            symmcoll_group_error(self->group) == SYMMCOLL_ERR_PEER &&
            symmcoll_group_error(left) == SYMMCOLL_OK;
    /* one more operation, of the remaining group, after all are done with it */
    atomic_fetch_add(&self->board->any, 1);
    while (right && atomic_load(&self->board->any) <
                        self->size - __builtin_popcount(deaths->before))
        sched_yield();
    right =
        right &&
        made(self->rank, symmcoll_group_shrink(left, &args, &again, &last)) &&
        last == 1 && works(again, self->rank, all & ~deaths->before) &&
        symmcoll_group_error(left) == SYMMCOLL_ERR_CANCELED &&
        symmcoll_group_free(left) == SYMMCOLL_OK &&
        symmcoll_group_free(again) == SYMMCOLL_OK;
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static void survivors(int size, unsigned dead, const char *sentence)
{
    struct deaths deaths = {dead};
    struct faults_job job;

    faults_start(&job, size, lose_some, &deaths);
    faults_await_all(&job, 1);
    for (int r = 0; r < size; r++)
        if ((dead >> r & 1) != 0)
            faults_signal(&job, r, SIGKILL);
    ok(faults_finish(&job, dead), "%s", sentence);
    faults_clear_dumps(size);
}

/* ---- a death during the call ---- */

static int lose_another(struct faults_rank *self)
{
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *left = NULL;
    uint64_t last = 99;
    symmcoll_status_t status;
    bool right;

    if (!faults_init(self))
        return 1;
    right = faults_barrier(self) == SYMMCOLL_OK;
    faults_reach(self, 1);
    if (self->rank == 4)
        faults_pass(self, 9);
    right = right && faults_barrier(self) == SYMMCOLL_ERR_PEER;
    faults_reach(self, 2);
    faults_pass(self, 2);
    /* A death after all have agreed fails the new group: it is shrunk again. */
    for (int i = 0; right; i++) {
        struct symmcoll_group *of = left != NULL ? left : self->group;

        right = i < 3 && made(self->rank,
                             symmcoll_group_shrink(of, &args, &left, &last));
        if (of != self->group)
            symmcoll_group_free(of);
        status = right ? symmcoll_barrier(left, NULL, NULL) : SYMMCOLL_OK;
        right = right && (status == SYMMCOLL_OK || status == SYMMCOLL_ERR_PEER);
        if (right && status == SYMMCOLL_OK && symmcoll_group_size(left) == 3)
            break;
        if (right && status == SYMMCOLL_OK) {
            /* the victim was in time: it dies now */
            faults_reach(self, 3);
            while (symmcoll_group_error(left) == SYMMCOLL_OK)
                sched_yield();
        }
    }
    right = right && works(left, self->rank, 1u | 2u | 8u) &&
            symmcoll_group_free(left) == SYMMCOLL_OK;
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static void deaths_meanwhile(void)
{
    bool right = true;

    srand(7);
    for (int i = 0; i < ROUNDS && right; i++) {
        struct timespec pause = {.tv_nsec = rand() % 1500 * 1000};
        struct faults_job job;

        faults_start(&job, 5, lose_another, NULL);
        faults_await_all(&job, 1);
        faults_signal(&job, 4, SIGKILL);
        for (int r = 0; r < 4; r++)
            faults_await(&job, r, 2);
        faults_open(&job, 2);
        nanosleep(&pause, NULL);
        faults_signal(&job, 2, SIGKILL);
        right = faults_finish(&job, 1u << 4 | 1u << 2);
        faults_clear_dumps(5);
        if (!right)
            diag("round %d, after %ld us", i, pause.tv_nsec / 1000);
    }
    ok(right, "ranks that die while the others agree are left out");
}

/* ---- living ranks ---- */

/* Returns whether a rank has begun to shrink the group. */
static bool has_shrunk(const struct symmcoll_group *group, int rank)
{
    const char *part = (const char *)group->runner.members.failures[rank];

    return __atomic_load_n(
               (const uint64_t *)(const void *)(part + SYMC_SHRUNK_AT),
               __ATOMIC_ACQUIRE) != 0;
}

/* Seconds for which the others wait for the late rank. */
static double short_time;

/* Rank 1 does not call: one of the others excludes it. */
static int lose_the_late(struct symmcoll_group *all, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_shrink_args args = within(short_time);
    struct symmcoll_group *left = NULL;
    uint64_t last = 99;
    static const int late[1] = {1};
    bool right = symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;

    call.timeout = short_time;
    if (rank == 1) {
        /* until the others have continued */
        for (int r = 0; r < 4; r++) {
            while (r != 1 && !has_shrunk(all, r))
                sched_yield();
        }
        args.timeout = 60;
        return groups_said(rank,
                   symmcoll_group_shrink(all, &args, &left, &last),
                   SYMMCOLL_ERR_ABORTED, "shrunk it without this rank") &&
               left == NULL && last == 99;
    }
    right = right &&
            symmcoll_barrier(all, &call, NULL) == SYMMCOLL_ERR_TIMEOUT &&
            groups_said(rank, symmcoll_group_shrink(all, &args, &left, &last),
                SYMMCOLL_ERR_TIMEOUT, "rank 1") &&
            left == NULL;
    args.timeout = 60;
    if (rank == 0) {
        args.exclude = late;
        args.nexclude = 1;
    }
    return right &&
           made(rank, symmcoll_group_shrink(all, &args, &left, &last)) &&
           last == 1 && works(left, rank, 1u | 4u | 8u) &&
           symmcoll_group_free(left) == SYMMCOLL_OK;
}

/* Shrinks an aborted group without losing a rank. */
static int go_on_after_abort(struct symmcoll_group *all, int rank)
{
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *left = NULL;
    uint64_t last = 99;
    float x[3] = {0};
    bool right = symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;

    /* The others have left the barrier, which the abort would end, too. */
    if (rank == 2) {
        right = await_published(all, 0, all->runner.wire + 1) &&
                await_published(all, 1, all->runner.wire + 1) && right;
        symmcoll_group_abort(all, "enough");
    } else {
        right = right && symmcoll_all_reduce(all, x, x, 3, SYMMCOLL_FLOAT32,
                             SYMMCOLL_SUM, NULL, NULL) != SYMMCOLL_OK;
    }
    return right &&
           made(rank, symmcoll_group_shrink(all, &args, &left, &last)) &&
           last == 1 && works(left, rank, 1u | 2u | 4u) &&
           symmcoll_group_free(left) == SYMMCOLL_OK;
}

#define SHRUNK 100 /* consecutive groups, each made from the one before */

/* The rank that returns first from an operation that all have begun shrinks
 * the group at once, while the others are still in it. */
static int end_what_all_have_begun(struct symmcoll_group *all, int rank)
{
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *group = all, *left = NULL;
    bool right = true;

    for (int i = 0; right && i < SHRUNK; i++) {
        uint64_t last = 99;

        right = made(rank, symmcoll_barrier(group, NULL, NULL)) &&
                works(group, rank, 1u | 2u | 4u);
        right = made(rank, symmcoll_group_shrink(group, &args, &left, &last)) &&
                right && last == 2 &&
                symmcoll_group_error(group) == SYMMCOLL_ERR_CANCELED &&
                (group == all || symmcoll_group_free(group) == SYMMCOLL_OK);
        group = left;
    }
    return right && symmcoll_group_free(group) == SYMMCOLL_OK;
}

/* Rank 1 is stopped in what all have begun, and the others do not wait for it. */
static int lose_the_stopped(struct faults_rank *self)
{
    struct symmcoll_shrink_args args = within(600);
    struct symmcoll_group *left = NULL;
    struct symmcoll_work *work = NULL;
    static const int stopped[1] = {1};
    bool right = faults_init(self);

    if (right && self->rank == 1) {
        right = made(1, symmcoll_barrier(self->group, NULL, &work));
        faults_reach(self, 1);
        faults_pass(self, 2);
        symmcoll_work_free(work);
        return faults_finalize(self) == 0 && right ? 0 : 1;
    }
    faults_reach(self, 1);
    faults_pass(self, 1);
    right = right && made(self->rank, faults_barrier(self));
    if (self->rank == 0) {
        args.exclude = stopped;
        args.nexclude = 1;
    }
    faults_note(self, symmcoll_group_shrink(self->group, &args, &left, NULL));
    right = right && left != NULL && works(left, self->rank, 1u | 4u) &&
            symmcoll_group_free(left) == SYMMCOLL_OK;
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static void a_stopped_rank(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, 3, lose_the_stopped, NULL);
    right = faults_await_all(&job, 1);
    faults_signal(&job, 1, SIGSTOP);
    faults_open(&job, 1);
    right = faults_said(faults_told(&job, 0, 0), SYMMCOLL_OK, NULL) && right;
    right = faults_said(faults_told(&job, 2, 0), SYMMCOLL_OK, NULL) && right;
    faults_signal(&job, 1, SIGCONT);
    faults_open(&job, 2);
    ok(faults_finish(&job, 0) && right,
        "a member that is stopped in an operation is left out at once");
    faults_clear_dumps(3);
}

/* Rank 0 has begun an operation that no other rank begins: it is canceled. */
static int cancel_what_one_has_begun(struct symmcoll_group *all, int rank)
{
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *left = NULL;
    struct symmcoll_work *work = NULL;
    float in = 1, out = 0;
    uint64_t last = 99;
    bool right = symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;

    if (rank == 0)
        right = made(rank, symmcoll_all_reduce(all, &out, &in, 1,
                               SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, &work)) &&
                right;
    right = await_published(all, 0, all->runner.wire + (rank == 0 ? 0 : 1)) &&
            right;
    right = made(rank, symmcoll_group_shrink(all, &args, &left, &last)) &&
            right && last == 1 && works(left, rank, 1u | 2u | 4u);
    if (rank == 0)
        right = groups_said(rank, symmcoll_work_wait(work, 60),
                    SYMMCOLL_ERR_CANCELED, "shrinks group") &&
                right;
    symmcoll_work_free(work);
    return right && symmcoll_group_free(left) == SYMMCOLL_OK;
}

static int alone(struct symmcoll_group *all, int rank)
{
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *left = NULL;
    int other = 1;

    if (rank == 1) {
        while (symmcoll_group_error(all) == SYMMCOLL_OK)
            sched_yield();
        return 1;
    }
    args.exclude = &other;
    args.nexclude = 1;
    return made(rank, symmcoll_group_shrink(all, &args, &left, NULL)) &&
           works(left, rank, 1u) && symmcoll_group_free(left) == SYMMCOLL_OK;
}

static int wrong_use(struct symmcoll_group *all, int rank)
{
    struct symmcoll_shrink_args args = within(60);
    struct symmcoll_group *left = NULL;
    int listed[1] = {rank};
    bool right;

    right =
        symmcoll_group_shrink(NULL, NULL, &left, NULL) ==
            SYMMCOLL_ERR_INVALID &&
        symmcoll_group_shrink(all, NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID;
    args.exclude = listed;
    args.nexclude = 1;
    right = right &&
            groups_said(rank, symmcoll_group_shrink(all, &args, &left, NULL),
                SYMMCOLL_ERR_INVALID, "this rank");
    listed[0] = 5;
    right = right &&
            groups_said(rank, symmcoll_group_shrink(all, &args, &left, NULL),
                SYMMCOLL_ERR_INVALID, "found 5");
    args.exclude = NULL;
    right = right &&
            groups_said(rank, symmcoll_group_shrink(all, &args, &left, NULL),
                SYMMCOLL_ERR_INVALID, "NULL");
    /* None of this has changed the group. */
    return right && symmcoll_group_error(all) == SYMMCOLL_OK &&
           symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
}

struct late {
    int (*run)(int n, rank_fn body);
};

static bool lose_within(double seconds, void *arg)
{
    const struct late *late = arg;

    short_time = seconds;
    return late->run(4, lose_the_late);
}

static void who_is_late(int (*run)(int n, rank_fn body), const char *kind)
{
    struct late late = {run};

    ok(attempts_hold(lose_within, 0.3, &late),
        "%s: a rank that lives is left out where one of the others says so, "
        "and is told",
        kind);
}

int main(void)
{
    plan(17);
    faults_begin();
    survivors(4, 1u << 2, "three of four go on, and once more");
    survivors(5, 1u << 1 | 1u << 3, "so do three of five");
    survivors(5, 1u | 1u << 4, "and those without the first and the last");
    deaths_meanwhile();
    who_is_late(ranks_run, "processes");
    who_is_late(threads_run, "threads");
    groups_both(3, go_on_after_abort, "all go on after an abort");
    a_stopped_rank();
    groups_both(3, end_what_all_have_begun,
        "what all have begun ends with success on all, though one has left it");
    groups_both(3, cancel_what_one_has_begun,
        "what one rank alone has begun is canceled");
    groups_both(2, alone, "one rank goes on alone");
    groups_both(2, wrong_use, "wrong arguments are refused and change nothing");
    faults_end();
    return done_testing();
}
