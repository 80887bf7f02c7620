/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests monitored_barrier: all ranks get the ranks that are missing, and the
 * group remains usable; for dead ranks the error states how they died.
 */
#include "../attempts.h"
#include "../tap.h"
#include "../world/faults.h"
#include "data.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BRIEF 0.3 /* initial timeout of the others in seconds */

static double brief; /* what they wait */

/* The number of ranks that have got the error; memory shared by all ranks. */
static _Atomic int *told;

static bool said(struct symmcoll_group *group, symmcoll_status_t status,
    symmcoll_status_t expected, const char *text)
{
    bool good =
        status == expected && (expected == SYMMCOLL_OK ||
                                  strstr(symmcoll_last_error(), text) != NULL);

    if (!good)
        diag("rank %d: expected %s with \"%s\", found %s: %s",
            symmcoll_group_rank(group), symmcoll_status_name(expected), text,
            symmcoll_status_name(status), symmcoll_last_error());
    return good;
}

static bool works(struct symmcoll_group *group)
{
    int size = symmcoll_group_size(group);
    int32_t in = symmcoll_group_rank(group) + 1, out = 0;

    return symmcoll_all_reduce(group, &out, &in, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           out == size * (size + 1) / 2;
}

static bool is_even(int rank)
{
    return rank % 2 == 0;
}

/* Checks the list of odd ranks in an error, in the library's form, and the
 * numbers that it returns. */
static bool lists_the_odd(int size, const int *missing, int count)
{
    bool right = count == size / 2;

    for (int i = 0; right && i < count; i++)
        right = missing[i] == 2 * i + 1;
    return right;
}

/* ---- ranks that arrive ---- */

static int nobody_is_missing(struct symmcoll_group *group, int rank)
{
    int missing[16] = {0}, count = 7;
    bool right = true;

    (void)rank;
    for (int i = 0; right && i < 50; i++)
        right =
            said(group,
                symmcoll_monitored_barrier(group,
                    i % 2 == 0 ? 0 : SYMMCOLL_MONITORED_WAIT_ALL, NULL,
                    i % 3 == 0 ? NULL : missing, i % 5 == 0 ? NULL : &count),
                SYMMCOLL_OK, "") &&
            (i % 5 == 0 || count == 0) && works(group);
    return right && symmcoll_group_sequence(group) == 100;
}

/* ---- ranks that arrive late ---- */

/* Odd ranks arrive after the others have got the error. */
static int late_ranks_are_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(brief);
    int size = symmcoll_group_size(group), count = -1, missing[16];
    char text[128], within[64];
    bool right = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;

    while (!is_even(rank) && *told < (size + 1) / 2)
        usleep(1000);
    if (is_even(rank))
        snprintf(text, sizeof(text),
            "monitored_barrier seq 2 of group %s: rank%s 1",
            symmcoll_group_name(group), size > 3 ? "s" : "");
    else
        snprintf(text, sizeof(text),
            "this rank came after the others had given up: rank%s 1",
            size > 3 ? "s" : "");
    right = said(group,
                symmcoll_monitored_barrier(group, 0, &call, missing, &count),
                SYMMCOLL_ERR_TIMEOUT, text) &&
            right;
    right = right && lists_the_odd(size, missing, count);
    snprintf(within, sizeof(within), "did not come within %g s; rank 1 (pid ",
        brief);
    right = right &&
            (!is_even(rank) || strstr(symmcoll_last_error(), within) != NULL);
    right = right && (!is_even(rank) || strstr(symmcoll_last_error(),
                                            "is after barrier seq 1") != NULL);
    ++*told;
    right =
        right && works(group) &&
        symmcoll_monitored_barrier(group, 0, NULL, NULL, NULL) == SYMMCOLL_OK &&
        symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    *told = 0;
    return right && symmcoll_group_sequence(group) == 5;
}

/* The last rank has a long timeout, but ends soon after the first one. */
static int all_end_with_the_first(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(rank == 0 ? brief : 600);
    int size = symmcoll_group_size(group), count = -1;
    double began = faults_now();
    bool right = true;

    if (rank == size - 1) {
        while (*told < size - 1)
            usleep(1000);
    }
    right =
        said(group, symmcoll_monitored_barrier(group, 0, &call, NULL, &count),
            SYMMCOLL_ERR_TIMEOUT, "");
    right = right && count == 1 && faults_now() - began < 300;
    ++*told;
    right = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && right;
    *told = 0;
    return right && works(group);
}

struct late {
    int (*run)(int n, rank_fn body);
    int size;
    rank_fn body;
};

static bool come_late(double seconds, void *arg)
{
    const struct late *late = arg;

    brief = seconds;
    *told = 0;
    return late->run(late->size, late->body);
}

/* Runs with a timeout in which all but the late ranks arrive. */
static void both_late(int size, rank_fn body, const char *sentence)
{
    struct late late = {ranks_run, size, body};

    ok(attempts_hold(come_late, BRIEF, &late), "%s (%d processes)", sentence,
        size);
    late.run = threads_run;
    ok(attempts_hold(come_late, BRIEF, &late), "%s (%d threads)", sentence,
        size);
}

/* ---- ranks that skip it ---- */

#define LARGE 300000 /* elements that are staged */

enum next {
    SMALL_SUM,
    LARGE_SUM,
    QUEUED_SUMS,
    NEW_GROUP,
    NEXT_COUNT
};

/* Runs two works in flight at once, each with its own sum. */
static bool sums_queued(struct symmcoll_group *group, int rank, int expected)
{
    int32_t in[2] = {rank + 1, 10 * (rank + 1)}, out[2] = {0};
    struct symmcoll_work *works[2] = {NULL, NULL};
    bool right = true;

    for (int i = 0; i < 2; i++)
        right = said(group,
                    symmcoll_all_reduce(group, &out[i], &in[i], 1,
                        SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, &works[i]),
                    SYMMCOLL_OK, "") &&
                right;
    for (int i = 0; i < 2; i++) {
        right =
            said(group, symmcoll_work_wait(works[i], 600), SYMMCOLL_OK, "") &&
            right;
        symmcoll_work_free(works[i]);
    }
    return right && out[0] == expected && out[1] == 10 * expected;
}

static bool sums_large(struct symmcoll_group *group, int rank, int expected)
{
    int32_t *numbers = malloc(LARGE * sizeof(*numbers));
    bool right = numbers != NULL;

    for (int i = 0; right && i < LARGE; i++)
        numbers[i] = rank + 1;
    right = right && said(group,
                         symmcoll_all_reduce(group, numbers, numbers, LARGE,
                             SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL),
                         SYMMCOLL_OK, "");
    for (int i = 0; right && i < LARGE; i++)
        right = numbers[i] == expected;
    free(numbers);
    return right;
}

static bool makes_group(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *made = NULL;
    bool right = said(group, symmcoll_group_split(group, 0, -rank, NULL, &made),
        SYMMCOLL_OK, "");

    right = right && symmcoll_barrier(made, NULL, NULL) == SYMMCOLL_OK;
    return right && symmcoll_group_free(made) == SYMMCOLL_OK;
}

static bool go_on_with(struct symmcoll_group *group, int rank, enum next next)
{
    int size = symmcoll_group_size(group), expected = size * (size + 1) / 2;

    switch (next) {
    case LARGE_SUM:
        return sums_large(group, rank, expected);
    case QUEUED_SUMS:
        return sums_queued(group, rank, expected);
    case NEW_GROUP:
        return makes_group(group, rank);
    default:
        return works(group);
    }
}

/* Odd ranks continue with the operations after the barriers, when the others
 * have given these up. */
static int skipping_ranks_go_on(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(0.02);
    int size = symmcoll_group_size(group), even = (size + 1) / 2, given_up = 0;
    uint64_t numbers[2];
    bool right = true;

    for (enum next next = SMALL_SUM; next < NEXT_COUNT; next++) {
        for (int skipped = 0; skipped <= (int)next % 2; skipped++) {
            given_up += even;
            right = (!is_even(rank) || said(group,
                                           symmcoll_monitored_barrier(
                                               group, 0, &call, NULL, NULL),
                                           SYMMCOLL_ERR_TIMEOUT, "rank")) &&
                    right;
            *told += is_even(rank);
        }
        while (*told < given_up)
            usleep(1000);
        right = go_on_with(group, rank, next) && works(group) && right;
    }
    numbers[0] = symmcoll_group_sequence(group);
    right = symmcoll_all_reduce(group, &numbers[1], &numbers[0], 1,
                SYMMCOLL_UINT64, SYMMCOLL_MAX, NULL, NULL) == SYMMCOLL_OK &&
            numbers[0] == numbers[1] && right;
    if (numbers[0] != numbers[1])
        diag("rank %d: expected number %llu, found %llu", rank,
            (unsigned long long)numbers[1], (unsigned long long)numbers[0]);
    right =
        symmcoll_monitored_barrier(group, 0, NULL, NULL, NULL) == SYMMCOLL_OK &&
        right;
    *told = 0;
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && right;
}

/* Ranks that arrive at the moment of the timeout: some may pass and others
 * not, but no rank hangs, and all continue. */
static int late_in_that_moment(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(0.002);
    bool right = true;

    for (int i = 0; right && i < 100; i++) {
        symmcoll_status_t status;

        if (rank == i % symmcoll_group_size(group))
            nanosleep(&(struct timespec){.tv_nsec = 1900000 + i * 3000}, NULL);
        status = symmcoll_monitored_barrier(group, 0, &call, NULL, NULL);
        right = (status == SYMMCOLL_OK || status == SYMMCOLL_ERR_TIMEOUT) &&
                works(group);
    }
    return right;
}

/* ---- bad calls ---- */

static int bad_calls_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(-1);
    symmcoll_status_t status;
    bool right;

    call.timeout = NAN;
    right = said(group, symmcoll_monitored_barrier(group, 6, NULL, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "found 0x6") &&
            said(group, symmcoll_monitored_barrier(NULL, 0, NULL, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "expected a group, found NULL") &&
            said(group, symmcoll_monitored_barrier(group, 0, &call, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "timeout") &&
            symmcoll_group_sequence(group) == 0;
    for (int i = 0; right && i < 2; i++) {
        status = rank == 1
                     ? symmcoll_barrier(group, NULL, NULL)
                     : symmcoll_monitored_barrier(group, 0, NULL, NULL, NULL);
        right = said(group, status, SYMMCOLL_ERR_MISMATCH,
                    "operation differs: rank 1 called barrier, the other") &&
                symmcoll_monitored_barrier(group, 0, NULL, NULL, NULL) ==
                    SYMMCOLL_OK;
    }
    return right && works(group);
}

/* Only rank 0 calls it once, which is a mismatch and does not count. Then rank
 * 2 dies, and the others name only that rank. */
static int differ_before_a_death(struct faults_rank *self)
{
    struct symmcoll_call call = faults_timeout(60);
    int count = -1, missing[3] = {-1, -1, -1};
    symmcoll_status_t status;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 0)
        status = symmcoll_monitored_barrier(self->group, 0, NULL, NULL, NULL);
    else
        status = faults_barrier(self);
    faults_reach(self, 1);
    while (self->rank == 2)
        pause();
    faults_pass(self, 1);
    faults_note(self, status);
    faults_note(self, symmcoll_monitored_barrier(self->group,
                          SYMMCOLL_MONITORED_WAIT_ALL, &call, missing, &count));
    faults_reach(self, 2);
    return faults_finalize(self) + (count == 1 && missing[0] == 2 ? 0 : 2);
}

static void check_mismatch_before_a_death(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, 3, differ_before_a_death, NULL);
    right = faults_await_all(&job, 1);
    faults_signal(&job, 2, SIGKILL);
    faults_open(&job, 1);
    for (int r = 0; r < 2; r++)
        right = faults_await(&job, r, 2) &&
                faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_MISMATCH,
                    "operation differs", NULL) &&
                faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_PEER,
                    "rank 2", NULL) &&
                right;
    right = faults_finish(&job, 1u << 2) && right;
    ok(right,
        "a mismatch does not count: after it the dead are named, and no other");
}

/* ---- ranks that are stopped or die ---- */

#define SLOW 3 /* the last to arrive after a death is known, and in time */

static symmcoll_status_t note_barrier(
    struct faults_rank *self, uint32_t flags, double seconds, int *count)
{
    struct symmcoll_call call = faults_timeout(seconds);

    return faults_note(self,
        symmcoll_monitored_barrier(self->group, flags, &call, NULL, count));
}

static int wait_for_the_stopped(struct faults_rank *self)
{
    int count;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    note_barrier(self, 0, brief, &count);
    faults_reach(self, 2);
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

static bool name_the_stopped(double seconds, void *arg)
{
    struct faults_job job;
    bool right = true;

    (void)arg;
    brief = seconds;
    faults_start(&job, 4, wait_for_the_stopped, NULL);
    right = faults_await_all(&job, 1);
    faults_signal(&job, 2, SIGSTOP);
    faults_open(&job, 1);
    for (int r = 0; r < 4; r++)
        right = right && (r == 2 || faults_await(&job, r, 2));
    faults_signal(&job, 2, SIGCONT);
    for (int r = 0; r < 4; r++) {
        right = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                    "rank 2", "did not come", NULL) &&
                right;
        right =
            faults_said(faults_told(&job, r, 1), SYMMCOLL_OK, NULL) && right;
    }
    right = strstr(faults_told(&job, 2, 0)->detail, "this rank came") != NULL &&
            right;
    return faults_finish(&job, 0) && right;
}

static void check_stopped(void)
{
    ok(attempts_hold(name_the_stopped, BRIEF, NULL),
        "C80: a rank that is stopped is named, and joins the next operation");
}

#define PARTS 3
#define LATE 2

/* Rank LATE starts an operation of unequal parts and is stopped.  The others complete it
 * and give up the next barrier before that rank completes it. */
static int complete_late(struct faults_rank *self)
{
    struct symmcoll_call call = faults_timeout(0.02);
    int64_t in[PARTS] = {0}, found[PARTS][PARTS] = {{0}};
    void *outs[PARTS];
    size_t counts[PARTS];
    struct symmcoll_work *work = NULL;
    bool right;

    for (int r = 0; r < PARTS; r++) {
        outs[r] = found[r];
        counts[r] = (size_t)r + 1;
        in[r] = 10 * self->rank + r;
    }
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    if (self->rank != LATE)
        faults_pass(self, 1);
    right = symmcoll_all_gather_list(self->group, outs, counts, in,
                counts[self->rank], SYMMCOLL_INT64, NULL, &work) == SYMMCOLL_OK;
    faults_reach(self, 1);
    if (self->rank == LATE)
        faults_pass(self, 2);
    faults_note(self, symmcoll_work_wait(work, -1));
    symmcoll_work_free(work);
    for (int r = 0; r < PARTS; r++)
        for (int i = 0; i <= r; i++)
            right = right && found[r][i] == 10 * r + i;
    if (self->rank != LATE)
        right = symmcoll_monitored_barrier(self->group, 0, &call, NULL, NULL) ==
                    SYMMCOLL_ERR_TIMEOUT &&
                right;
    faults_reach(self, 2);
    faults_note(self, faults_barrier(self));
    return faults_finalize(self) | !right;
}

static void check_late_completion(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, PARTS, complete_late, NULL);
    right = faults_await(&job, LATE, 1);
    faults_signal(&job, LATE, SIGSTOP);
    faults_open(&job, 1);
    for (int r = 0; r < PARTS; r++)
        right = (r == LATE || faults_await(&job, r, 2)) && right;
    faults_open(&job, 2);
    faults_signal(&job, LATE, SIGCONT);
    for (int r = 0; r < PARTS; r++)
        right = faults_said(faults_told(&job, r, 0), SYMMCOLL_OK, NULL) &&
                faults_said(faults_told(&job, r, 1), SYMMCOLL_OK, NULL) &&
                right;
    ok(faults_finish(&job, 0) && right,
        "C80: an operation has its result although the others have given up the "
        "barrier after it");
}

/* Rank 1 is killed, ranks 2 and 3 arrive once that is known, and rank 4
 * arrives after the others have got the error. */
static int wait_for_the_dead(struct faults_rank *self)
{
    const uint32_t *flags = self->arg;
    int count = -1;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    while (self->rank == 1)
        pause();
    faults_pass(self, self->rank);
    note_barrier(self, *flags, 4 * brief, &count);
    faults_reach(self, 2);
    faults_pass(self, 5);
    note_barrier(self, *flags, 4 * brief, &count);
    return faults_finalize(self);
}

static struct faults_job job_of_the_dead(uint32_t flags, bool *right)
{
    struct faults_job job;

    faults_start(&job, 5, wait_for_the_dead, &flags);
    *right = faults_await_all(&job, 1);
    faults_open(&job, 0);
    *right = *right && faults_await_asleep(&job, 0, 1);
    faults_signal(&job, 1, SIGKILL);
    return job;
}

static bool end_by_death(double seconds, void *arg)
{
    bool right;
    struct faults_job job;
    char who[64], killed[96];

    (void)arg;
    brief = seconds;
    job = job_of_the_dead(0, &right);
    snprintf(killed, sizeof(killed), "%s killed by SIGKILL",
        faults_name(&job, 1, who));
    right = right && faults_await(&job, 0, 2);
    faults_open(&job, 5);
    right =
        faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_PEER, killed, NULL) &&
        right;
    right = right &&
            faults_told(&job, 0, 0)->at - job.killed_at < FAULTS_KNOWN &&
            faults_told(&job, 0, 1)->status == SYMMCOLL_ERR_ABORTED;
    return faults_finish(&job, 1u << 1) && right;
}

static void check_death(void)
{
    ok(attempts_hold(end_by_death, 4 * BRIEF, NULL),
        "C80: a death ends the barrier at once and fails the group");
}

static bool go_on_after_death(double seconds, void *arg)
{
    bool right, *again = arg;
    struct faults_job job;
    char who[64], killed[96], late[96], within[64];

    brief = seconds;
    job = job_of_the_dead(SYMMCOLL_MONITORED_WAIT_ALL, &right);
    snprintf(within, sizeof(within), "ranks 1 and 4 did not come within %g s",
        4 * brief);
    snprintf(killed, sizeof(killed), "%s killed by SIGKILL",
        faults_name(&job, 1, who));
    snprintf(late, sizeof(late), "%s is after barrier seq 1",
        faults_name(&job, 4, who));
    usleep((useconds_t)(brief * 1e6));
    right = right && job.board->lines[0].notes == 0;
    faults_open(&job, SLOW);
    right = right && faults_await(&job, 0, 2);
    faults_open(&job, 5);
    right = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_PEER, within,
                killed, late, NULL) &&
            right;
    *again = faults_said(faults_told(&job, SLOW, 1), SYMMCOLL_ERR_PEER,
        "rank 1 did not come", killed, NULL);
    return faults_finish(&job, 1u << 1) && right && *again;
}

static void check_roll(void)
{
    bool again = false;

    ok(attempts_hold(go_on_after_death, BRIEF, &again),
        "C80: asked to wait for all, it goes on after a death, and names the "
        "dead and the late");
    ok(again, "and again in the group that has failed");
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 16};

    told = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        skip_all("no shared memory");
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        both_run(sizes[i], nobody_is_missing, "C80: nobody is missing");
        if (sizes[i] == 1)
            continue;
        both_late(sizes[i], late_ranks_are_named,
            "C80: late ranks are named on all ranks, and the group is usable");
        both_run(sizes[i], skipping_ranks_go_on,
            "C80: ranks that skip a barrier which the others have given up go on "
            "with them");
        both_late(
            sizes[i], all_end_with_the_first, "C80: when one gives up all do");
    }
    both_run(3, late_in_that_moment, "a rank that comes in that moment");
    both_run(4, bad_calls_are_refused, "bad calls are refused");
    faults_begin();
    check_stopped();
    check_late_completion();
    check_death();
    check_roll();
    check_mismatch_before_a_death();
    faults_end();
    return done_testing();
}
