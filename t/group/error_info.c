/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmcoll_error_info(): a program that must go on reads which ranks a
 * failure concerns, and shrinks the group with them.
 */
#include "t/attempts.h"
#include "t/group/groups.h"
#include "t/published.h"
#include "t/world/faults.h"

#include "group/group.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* The calling thread's error, with room for the ranks of any test. */
struct found {
    struct symmcoll_error_info info;
    int ranks[FAULTS_RANKS];
    int world_ranks[FAULTS_RANKS];
};

static const struct symmcoll_error_info *look(struct found *found)
{
    found->info = (struct symmcoll_error_info)SYMMCOLL_ERROR_INFO_INIT;
    found->info.ranks = found->ranks;
    found->info.world_ranks = found->world_ranks;
    found->info.max_ranks = FAULTS_RANKS;
    if (symmcoll_error_info(&found->info) != SYMMCOLL_OK)
        diag("error_info: %s", symmcoll_last_error());
    return &found->info;
}

/* Returns the set of an array's ranks. */
static unsigned set_of(const int *ranks, int count)
{
    unsigned set = 0;

    for (int i = 0; i < count; i++)
        set |= 1u << ranks[i];
    return set;
}

/* A call gets no number if the group has failed before it begins. */
#define ANY UINT64_MAX

/* The expected error of an operation. */
struct expected {
    symmcoll_status_t status, cause;
    unsigned
        ranks; /* set of group ranks, each `shift` less than in the world */
    int shift;
    const char *operation;
    uint64_t sequence;
};

static bool fits(
    const struct symmcoll_group *group, const struct expected *expected)
{
    struct found found;
    const struct symmcoll_error_info *info = look(&found);
    unsigned ranks = set_of(found.ranks, info->nranks);
    unsigned world = set_of(found.world_ranks, info->nranks);
    bool right =
        info->status == expected->status && info->cause == expected->cause &&
        info->category == symmcoll_status_category(info->status) &&
        ranks == expected->ranks &&
        world == expected->ranks << expected->shift &&
        (expected->sequence == ANY || info->sequence == expected->sequence) &&
        strcmp(info->operation, expected->operation) == 0 &&
        (info->kind == 0) == (expected->operation[0] == '\0') &&
        strcmp(info->group, symmcoll_group_name(group)) == 0;

    if (!right)
        diag("rank %d: expected %s of %s, ranks %#x, %s seq %d of group %s, "
             "found %s of %s, ranks %#x, %#x in the world, %s (%d) seq %d of "
             "group '%s': %s",
            symmcoll_group_rank(group), symmcoll_status_name(expected->status),
            symmcoll_status_name(expected->cause), expected->ranks,
            expected->operation, (int)expected->sequence,
            symmcoll_group_name(group), symmcoll_status_name(info->status),
            symmcoll_status_name(info->cause), ranks, world, info->operation,
            (int)info->kind, (int)info->sequence, info->group,
            symmcoll_last_error());
    return right;
}

/* Reduces one number, blocking or through a work, and returns its error. */
static symmcoll_status_t reduce(struct symmcoll_group *group,
    const struct symmcoll_call *call, size_t count, bool by_work)
{
    static float x[2][FAULTS_RANKS][8];
    float *own = x[by_work][symmcoll_group_rank(group)];
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    status = symmcoll_all_reduce(group, own, own, count, SYMMCOLL_FLOAT32,
        SYMMCOLL_SUM, call, by_work ? &work : NULL);
    if (work == NULL)
        return status;
    status = symmcoll_work_wait(work, -1);
    symmcoll_work_free(work);
    return status;
}

/* Shrinks a group by the ranks of the calling thread's error.  Returns whether
 * the others remain and can reduce. */
static bool go_on(struct symmcoll_group *group, int nleft)
{
    struct symmcoll_shrink_args args = SYMMCOLL_SHRINK_ARGS_INIT;
    struct symmcoll_group *left = NULL;
    struct found found;
    bool right;

    (void)look(&found);
    args.timeout = 60;
    args.exclude = found.info.ranks;
    args.nexclude = found.info.nranks;
    right = made(symmcoll_group_rank(group),
                symmcoll_group_shrink(group, &args, &left, NULL)) &&
            symmcoll_group_size(left) == nleft &&
            reduce(left, NULL, 1, false) == SYMMCOLL_OK;
    symmcoll_group_free(left);
    return right;
}

/* ---- a dead rank ---- */

static int lose_one(struct faults_rank *self)
{
    const bool *by_work = self->arg;
    const struct expected first = {
        SYMMCOLL_ERR_PEER, SYMMCOLL_ERR_PEER, 1u << 2, 0, "all_reduce", ANY};
    const struct expected later = {
        SYMMCOLL_ERR_ABORTED, SYMMCOLL_ERR_PEER, 1u << 2, 0, "barrier", 0};
    bool right;

    if (!faults_init(self))
        return 1;
    right = faults_barrier(self) == SYMMCOLL_OK;
    faults_reach(self, 1);
    if (self->rank == 2)
        faults_pass(self, 9);
    right = right &&
            reduce(self->group, NULL, 1, *by_work) == SYMMCOLL_ERR_PEER &&
            fits(self->group, &first) &&
            symmcoll_barrier(self->group, NULL, NULL) == SYMMCOLL_ERR_ABORTED &&
            fits(self->group, &later) && go_on(self->group, 3);
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static void death(bool by_work)
{
    struct faults_job job;

    faults_start(&job, 4, lose_one, &by_work);
    faults_await_all(&job, 1);
    faults_signal(&job, 2, SIGKILL);
    ok(faults_finish(&job, 1u << 2),
        "a rank that dies is named, and left out (%s)",
        by_work ? "work" : "blocking");
    faults_clear_dumps(4);
}

/* ---- late ranks ---- */

static double short_time;
static bool works;

/* Returns whether a rank has begun to shrink the group. */
static bool has_shrunk(const struct symmcoll_group *group, int rank)
{
    const char *part = (const char *)group->runner.members.failures[rank];

    return __atomic_load_n(
               (const uint64_t *)(const void *)(part + SYMC_SHRUNK_AT),
               __ATOMIC_ACQUIRE) != 0;
}

/* In a group without rank 0 of the world, ranks 1 and 3 come too late. */
static int lose_the_late(struct symmcoll_group *all, int rank)
{
    static const int members[] = {1, 2, 3, 4, 5};
    const struct expected first = {SYMMCOLL_ERR_TIMEOUT, SYMMCOLL_ERR_TIMEOUT,
        1u << 1 | 1u << 3, 1, "all_reduce", 1};
    const struct expected late = {SYMMCOLL_ERR_ABORTED, SYMMCOLL_ERR_TIMEOUT,
        1u << 1 | 1u << 3, 1, "all_reduce", ANY};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_group *group = NULL;
    bool right;

    if (!made(rank, groups_create(all, members, 5, &group)) && rank != 0)
        return 0;
    if (rank == 0)
        return symmcoll_group_free(group) == SYMMCOLL_OK;
    call.timeout = short_time;
    if (rank == 2 || rank == 4) {
        for (int r = 0; r < 5; r += 2) {
            while (!has_shrunk(group, r))
                sched_yield();
        }
        call.timeout = 60;
        right = reduce(group, &call, 1, works) == SYMMCOLL_ERR_ABORTED &&
                fits(group, &late);
    } else {
        right = reduce(group, &call, 1, works) == SYMMCOLL_ERR_TIMEOUT &&
                fits(group, &first) && go_on(group, 3);
    }
    return symmcoll_group_free(group) == SYMMCOLL_OK && right;
}

struct late {
    int (*run)(int n, rank_fn body);
};

static bool lose_within(double seconds, void *arg)
{
    const struct late *late = arg;

    short_time = seconds;
    return late->run(6, lose_the_late);
}

static void lateness(int (*run)(int n, rank_fn body), const char *kind)
{
    struct late late = {run};

    for (int i = 0; i < 2; i++) {
        works = i != 0;
        ok(attempts_hold(lose_within, 0.3, &late),
            "two late ranks are named, and left out (%s, %s)", kind,
            works ? "work" : "blocking");
    }
}

/* ---- differing ranks ---- */

/* Rank 1 passes another count; the group remains usable. */
static int differ_in_one(struct symmcoll_group *all, int rank)
{
    struct expected expected = {SYMMCOLL_ERR_MISMATCH, SYMMCOLL_ERR_MISMATCH,
        1u << 1, 0, "all_reduce", 1};
    bool right = true;

    for (int i = 0; i < 2; i++, expected.sequence += 2) {
        right = right &&
                reduce(all, NULL, rank == 1 ? 3 : 4, i != 0) ==
                    SYMMCOLL_ERR_MISMATCH &&
                fits(all, &expected) &&
                reduce(all, NULL, 4, i != 0) == SYMMCOLL_OK;
    }
    return right;
}

/* No count has a majority: all ranks are concerned. */
static int differ_in_two(struct symmcoll_group *all, int rank)
{
    const struct expected expected = {
        SYMMCOLL_ERR_MISMATCH, SYMMCOLL_ERR_MISMATCH, 15, 0, "all_reduce", 1};

    return reduce(all, NULL, rank < 2 ? 3 : 4, false) ==
               SYMMCOLL_ERR_MISMATCH &&
           fits(all, &expected);
}

/* Rank 0 receives another count than rank 1 has sent. */
static int differ_in_a_pair(struct symmcoll_group *all, int rank)
{
    struct expected expected = {
        SYMMCOLL_ERR_MISMATCH, SYMMCOLL_ERR_MISMATCH, 1u << 1, 0, "recv", 1};
    float x[4] = {0};

    return rank == 0 ? symmcoll_recv(all, x, 3, SYMMCOLL_FLOAT32, 1, 0, NULL,
                           NULL, NULL) == SYMMCOLL_ERR_MISMATCH &&
                           fits(all, &expected)
                     : symmcoll_send(all, x, 4, SYMMCOLL_FLOAT32, 0, 0, NULL,
                           NULL) != SYMMCOLL_ERR_INVALID;
}

/* Rank 2 asks for another group than the others. */
static int differ_in_a_group(struct symmcoll_group *all, int rank)
{
    const struct expected expected = {SYMMCOLL_ERR_MISMATCH,
        SYMMCOLL_ERR_MISMATCH, 1u << 2, 0, "group_create", 0};
    static const int members[] = {0, 1, 2, 3};
    struct symmcoll_group *group = NULL;

    return groups_create(all, members, rank == 2 ? 3 : 4, &group) ==
               SYMMCOLL_ERR_MISMATCH &&
           fits(all, &expected);
}

/* ---- ranks that leave, and that abort ---- */

/* Rank 3 finalizes without the operation. */
static int leave_one(struct symmcoll_group *all, int rank)
{
    const struct expected expected = {
        SYMMCOLL_ERR_PEER, SYMMCOLL_ERR_PEER, 1u << 3, 0, "all_reduce", ANY};

    return rank == 3 || (reduce(all, NULL, 1, false) == SYMMCOLL_ERR_PEER &&
                            fits(all, &expected) && go_on(all, 3));
}

/* Rank 1 aborts: all get its number, from the group as well. */
static int abort_by_one(struct symmcoll_group *all, int rank)
{
    const struct expected operation = {SYMMCOLL_ERR_CANCELED,
        SYMMCOLL_ERR_CANCELED, 1u << 1, 0, "all_reduce", 1};
    const struct expected group = {
        SYMMCOLL_ERR_CANCELED, SYMMCOLL_ERR_CANCELED, 1u << 1, 0, "", 0};
    bool right = true;

    if (rank == 1) {
        right = await_published(all, 0, all->runner.wire + 1) &&
                await_published(all, 2, all->runner.wire + 1);
        symmcoll_group_abort(all, "enough");
    } else {
        right = reduce(all, NULL, 1, true) == SYMMCOLL_ERR_CANCELED &&
                fits(all, &operation);
    }
    return symmcoll_group_error(all) == SYMMCOLL_ERR_CANCELED &&
           fits(all, &group) && right;
}

/* ---- callbacks ---- */

struct seen {
    const struct symmcoll_group *group;
    _Atomic int fitting; /* callbacks that have found what is expected */
    _Atomic int called;
};

static const struct expected of_work = {
    SYMMCOLL_ERR_MISMATCH, SYMMCOLL_ERR_MISMATCH, 1u << 2, 0, "all_reduce", 1};

static void see_work(symmcoll_status_t status, void *arg)
{
    struct seen *seen = arg;

    (void)status;
    seen->fitting += fits(seen->group, &of_work);
    seen->called++;
}

static void see_operation(const struct symmcoll_operation *operation, void *arg)
{
    see_work(operation->status, arg);
}

static int read_in_callbacks(struct symmcoll_group *all, int rank)
{
    struct seen seen = {.group = all};
    struct symmcoll_work *work = NULL;
    float x[4] = {0};
    bool right;

    right = made(rank, symmcoll_group_notify(all, see_operation, &seen)) &&
            made(rank, symmcoll_all_reduce(all, x, x, rank == 2 ? 3 : 4,
                           SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, &work)) &&
            made(rank, symmcoll_work_then(work, see_work, &seen)) &&
            symmcoll_work_wait(work, -1) == SYMMCOLL_ERR_MISMATCH;
    while (right && seen.called < 2)
        sched_yield();
    symmcoll_work_free(work);
    return right && seen.fitting == 2;
}

/* ---- the call itself ---- */

static int unknown_is_empty(void)
{
    const struct symmcoll_error_info *info;
    struct found found;
    bool right;

    info = look(&found);
    right = info->status == SYMMCOLL_OK && info->nranks == 0 &&
            info->category == SYMMCOLL_CATEGORY_NONE;
    right = right && symmcoll_barrier(NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID;
    info = look(&found);
    return right && info->status == SYMMCOLL_ERR_INVALID &&
           info->cause == SYMMCOLL_ERR_INVALID &&
           info->category == SYMMCOLL_CATEGORY_VALUE && info->nranks == 0 &&
           info->kind == 0 && info->sequence == 0 &&
           info->operation[0] == '\0' && info->group[0] == '\0';
}

static symmcoll_status_t fail_odd(struct symmcoll_world *world, void *arg)
{
    (void)arg;
    return symmcoll_world_rank(world) % 2 != 0 ? SYMMCOLL_ERR_INVALID
                                               : SYMMCOLL_OK;
}

static int run_names_ranks(void)
{
    symmcoll_status_t status = symmcoll_threads_run(4, fail_odd, NULL, NULL);
    struct found found = {0};

    return status < 0 && look(&found)->status == status &&
           set_of(found.world_ranks, found.info.nranks) == (1u << 1 | 1u << 3);
}

/* An error without known ranks follows one with ranks. */
static int nothing_is_left(struct symmcoll_group *all, int rank)
{
    struct found found;

    return reduce(all, NULL, rank == 1 ? 3 : 4, false) ==
               SYMMCOLL_ERR_MISMATCH &&
           look(&found)->nranks == 1 &&
           symmcoll_barrier(NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
           look(&found)->nranks == 0 && found.info.sequence == 0 &&
           found.info.group[0] == '\0';
}

static int room_is_kept(struct symmcoll_group *all, int rank)
{
    struct symmcoll_error_info info = SYMMCOLL_ERROR_INFO_INIT;
    int ranks[2] = {-1, -1};
    bool right =
        reduce(all, NULL, rank < 2 ? 3 : 4, false) == SYMMCOLL_ERR_MISMATCH &&
        symmcoll_error_info(&info) == SYMMCOLL_OK && info.nranks == 4;

    info.ranks = ranks;
    info.max_ranks = 1;
    return right && symmcoll_error_info(&info) == SYMMCOLL_OK &&
           info.nranks == 4 && ranks[0] == 0 && ranks[1] == -1;
}

static int refuses(void)
{
    struct symmcoll_error_info info = SYMMCOLL_ERROR_INFO_INIT;

    info.size = 4;
    return groups_said(0, symmcoll_error_info(NULL), SYMMCOLL_ERR_INVALID,
               "error_info: expected an info") &&
           groups_said(0, symmcoll_error_info(&info), SYMMCOLL_ERR_INVALID,
               "SYMMCOLL_ERROR_INFO_INIT");
}

int main(void)
{
    plan(25);
    ok(process_run(unknown_is_empty), "what is unknown is empty");
    ok(process_run(refuses), "an info without its size is refused");
    death(false);
    death(true);
    lateness(ranks_run, "processes");
    lateness(threads_run, "threads");
    groups_both(4, differ_in_one, "the rank that differs is named");
    groups_both(4, differ_in_two, "without a majority all are named");
    groups_both(2, differ_in_a_pair, "a receive names the sender");
    groups_both(4, differ_in_a_group, "a member that differs is named");
    groups_both(4, leave_one, "a rank that finalizes is named, and left out");
    groups_both(3, abort_by_one, "the rank that aborts is named");
    groups_both(4, read_in_callbacks, "callbacks read the same");
    ok(threads_run(4, nothing_is_left), "a later error has nothing of it");
    ok(threads_run(4, room_is_kept),
        "no more ranks are written than have room");
    ok(process_run(run_names_ranks),
        "a run of threads names those that failed");
    return done_testing();
}
