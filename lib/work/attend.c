/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Issued works: who ends them.  Whoever holds the turn may; a waiter takes it
 * for a moment at a time, so that other threads of its rank can issue in
 * between.  A work that nobody waits for is the progress thread's: while works
 * are issued it looks every few milliseconds whether the oldest one is still
 * the same, and only then stays with it.
 */
#include "work/lane.h"
#include "work/work.h"

#include <time.h>

#define TICK_NS (INT64_C(5) * 1000 * 1000) /* between two looks */
#define QUIET_TICKS 200                    /* before it sleeps for good */
#define LONGEST_NS (INT64_C(100) * 1000 * 1000)

/* Whether an operation reads what an issued one is still to write: then it has
 * to wait for that, for issuing reads. */
static bool depends(const struct symc_lane *lane, const struct symc_op *op)
{
    uintptr_t in = (uintptr_t)op->in;
    uintptr_t in_end = in + symc_op_in_nbytes(op, lane->ops.size);

    for (const struct symmcoll_work *at = lane->issued; at != NULL;
         at = at->next) {
        uintptr_t out = (uintptr_t)at->op.out;

        if (in < out + symc_op_out_nbytes(&at->op, lane->ops.size) &&
            out < in_end)
            return true;
    }
    return false;
}

/* Under the turn. */
static bool issue(struct symc_lane *lane, struct symmcoll_work *work)
{
    if (lane->issued == NULL)
        return lane->ops.issue(lane->ops.group, &work->op);
    if (!depends(lane, &work->op) &&
        lane->ops.issue(lane->ops.group, &work->op))
        return true;
    symc_lane_advance(lane, SYMC_ADVANCE_PEEK);
    return !depends(lane, &work->op) &&
           lane->ops.issue(lane->ops.group, &work->op);
}

/* Under the turn, in a group that has failed: the work has its status before
 * its owner has the work, so that who goes on calling fills no queue. */
static void end_at_once(struct symc_lane *lane, struct symmcoll_work *work)
{
    symc_lane_settle(lane);
    symc_work_end(work, lane->ops.run(lane->ops.group, &work->op));
    symc_work_release(work);
}

bool symc_lane_issue(struct symc_lane *lane, struct symmcoll_work *work)
{
    uint64_t ticket;

    if (lane->ops.issue == NULL || lane->stopping || !lane->running ||
        !symc_lane_try(lane, &ticket))
        return false;
    work->issued = issue(lane, work);
    if (!work->issued && lane->ops.has_failed(lane->ops.group)) {
        end_at_once(lane, work);
        symc_lane_leave(lane, ticket);
        return true;
    }
    if (work->issued) {
        if (lane->issued != NULL)
            lane->issued_tail->next = work;
        else
            lane->issued = work;
        lane->issued_tail = work;
    }
    symc_lane_leave(lane, ticket);
    /* The thread clears the flag with the turn, where nothing is issued. */
    if (work->issued && !lane->attended)
        symc_lane_ask(lane);
    return work->issued;
}

/* The end of an operation's time, which begins with the first close look. */
static int64_t find_deadline(struct symmcoll_work *work, int64_t now)
{
    int64_t timeout = work->op.timeout_ns;

    if (work->deadline_ns == 0)
        work->deadline_ns =
            timeout > SYMC_NEVER - now ? SYMC_NEVER : now + timeout;
    return work->deadline_ns;
}

int64_t symc_lane_advance(struct symc_lane *lane, enum symc_advance how)
{
    int64_t now = how == SYMC_ADVANCE_PEEK ? 0 : symc_now_ns();

    while (lane->issued != NULL) {
        struct symmcoll_work *work = lane->issued;
        bool expired =
            how != SYMC_ADVANCE_PEEK && find_deadline(work, now) <= now;
        symmcoll_status_t status = lane->ops.advance(
            lane->ops.group, &work->op, expired ? SYMC_ADVANCE_EXPIRED : how);

        if (status == SYMMCOLL_IN_PROGRESS)
            return work->deadline_ns;
        lane->issued = work->next;
        symc_work_end(work, status);
        symc_work_release(work);
    }
    return SYMC_NEVER;
}

void symc_lane_settle(struct symc_lane *lane)
{
    if (lane->issued != NULL)
        symc_lane_advance(lane, SYMC_ADVANCE_PEEK);
    while (lane->issued != NULL) {
        int64_t until = symc_lane_advance(lane, SYMC_ADVANCE_LOOK);

        if (lane->issued != NULL)
            lane->ops.doze(lane->ops.group, &lane->issued->op, until);
    }
}

void symc_lane_ask(struct symc_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->attended = true;
    lane->asked = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

/* Look at the oldest issued work; gives true where it stays with it, and then
 * the operation and until when to wait for it. */
static bool look_after(
    struct symc_lane *lane, bool asked, struct symc_op *op, int64_t *until)
{
    uint64_t ticket;
    bool stays = false;

    if (!symc_lane_try(lane, &ticket))
        return false; /* who has the turn looks after it */
    if (lane->issued == NULL) {
        lane->stalled = 0;
        if (++lane->quiet >= QUIET_TICKS)
            lane->attended = false;
    } else {
        stays = asked || lane->issued->op.seq == lane->stalled;
        if (stays)
            *until = symc_lane_advance(lane, SYMC_ADVANCE_LOOK);
        lane->stalled = lane->issued != NULL ? lane->issued->op.seq : 0;
        lane->quiet = 0;
        stays = stays && lane->issued != NULL;
        if (stays)
            *op = lane->issued->op;
    }
    symc_lane_leave(lane, ticket);
    return stays;
}

static void sleep_for_a_tick(struct symc_lane *lane)
{
    int64_t until = symc_now_ns() + TICK_NS;
    struct timespec time = {
        .tv_sec = until / SYMC_NS_PER_S, .tv_nsec = until % SYMC_NS_PER_S};

    pthread_cond_timedwait(&lane->changed, &lane->lock, &time);
}

void symc_lane_attend(struct symc_lane *lane)
{
    bool asked = lane->asked;
    struct symc_op op;
    int64_t until;

    if (!lane->attended) {
        pthread_cond_wait(&lane->changed, &lane->lock);
        return;
    }
    if (!asked) {
        sleep_for_a_tick(lane);
        if (lane->head != NULL || lane->stopping)
            return; /* what is queued settles what is issued */
        asked = lane->asked;
    }
    lane->asked = false;
    if (asked)
        lane->quiet = 0;
    pthread_mutex_unlock(&lane->lock);
    if (look_after(lane, asked, &op, &until)) {
        int64_t longest = symc_now_ns() + LONGEST_NS;

        lane->ops.doze(lane->ops.group, &op, until < longest ? until : longest);
        asked = true;
    } else {
        asked = false;
    }
    pthread_mutex_lock(&lane->lock);
    lane->asked = lane->asked || asked;
}
