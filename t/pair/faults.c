/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests sends and receives with a peer that dies, is stopped, is late or
 * leaves; groups that are aborted during them; and the resources that remain
 * at the end.
 */
#include "../coll/data.h"
#include "pair.h"

#include "t/world/faults.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE 4000000 /* numbers: many chunks */

enum way {
    RECV_IT,    /* blocking, nothing comes */
    RECV_ANY,   /* blocking, from any source */
    SEND_LARGE, /* blocking, without a receiver */
    RECV_WORK,  /* a work with a waiter */
    RECV_LOOSE, /* a work without a waiter */
    HALF        /* in the middle of a large message */
};

struct plan {
    enum way way;
    double timeout; /* negative: the group's */
    int sig;        /* 0: an abort by rank 0 instead */
};

static symmcoll_status_t call_it(
    struct faults_rank *self, const struct plan *plan, int *buf)
{
    struct symmcoll_call call = faults_timeout(plan->timeout);
    struct symmcoll_work *work;
    symmcoll_status_t status;

    switch (plan->way) {
    case RECV_ANY:
        return symmcoll_recv(self->group, buf, LARGE, SYMMCOLL_INT32,
            SYMMCOLL_ANY_SOURCE, 1, NULL, &call, NULL);
    case SEND_LARGE:
    case HALF:
        return symmcoll_send(
            self->group, buf, LARGE, SYMMCOLL_INT32, 0, 1, &call, NULL);
    case RECV_IT:
        return symmcoll_recv(
            self->group, buf, LARGE, SYMMCOLL_INT32, 0, 1, NULL, &call, NULL);
    case RECV_WORK:
    case RECV_LOOSE:
        break;
    }
    status = symmcoll_recv(
        self->group, buf, LARGE, SYMMCOLL_INT32, 0, 1, NULL, &call, &work);
    if (status != SYMMCOLL_OK)
        return status;
    if (plan->way == RECV_LOOSE) {
        double until = faults_now() + FAULTS_WAIT_MAX;

        /* The work is released: only the library's thread ends it. */
        symmcoll_work_free(work);
        while (symmcoll_group_error(self->group) == SYMMCOLL_OK &&
               faults_now() < until)
            sched_yield();
        return symmcoll_group_error(self->group);
    }
    status = symmcoll_work_wait(work, -1);
    symmcoll_work_free(work);
    return status;
}

static int lose_a_peer(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    int *buf = make(LARGE, self->rank == 0 ? -1 : 1, 0);
    int value = 0;

    if (!faults_init(self))
        return 1;
    if (self->rank == 0) {
        if (plan->way == HALF) { /* it receives a part */
            struct symmcoll_work *work;

            if (symmcoll_recv(self->group, buf, LARGE, SYMMCOLL_INT32, 1, 1,
                    NULL, NULL, &work) != SYMMCOLL_OK)
                return 1;
            while (((volatile int *)buf)[LARGE / 8] == -1 &&
                   symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS)
                ;
            faults_reach(self, 1);
            kill(getpid(), plan->sig);
        }
        faults_reach(self, 1);
        faults_pass(self, 1);
        symmcoll_group_abort(self->group, "no more disk");
        faults_pass(self, 2);
    } else {
        if (plan->way != HALF)
            faults_reach(self, 1);
        faults_note(self, call_it(self, plan, buf));
        faults_note(self, symmcoll_send(self->group, &value, 1, SYMMCOLL_INT32,
                              0, 1, NULL, NULL));
        faults_reach(self, 2);
        faults_pass(self, 2);
    }
    free(buf);
    return faults_finalize(self);
}

static void lose(const struct plan *plan, symmcoll_status_t status,
    const char *text, const char *sentence)
{
    struct faults_job job;
    bool gone = plan->sig == SIGKILL, stopped = plan->sig == SIGSTOP;
    bool good;
    double began;

    faults_start(&job, 2, lose_a_peer, plan);
    good = faults_await(&job, 0, 1);
    if (plan->way != HALF && plan->way != RECV_LOOSE)
        good = faults_await_asleep(&job, 1, 1) && good;
    else if (plan->way == RECV_LOOSE)
        good = faults_await(&job, 1, 1) && good;
    began = faults_now();
    if (plan->sig != 0)
        faults_signal(&job, 0, plan->sig);
    else
        faults_open(&job, 1);
    good = faults_await(&job, 1, 2) && good;
    good = faults_said(faults_told(&job, 1, 0), status, text, NULL) && good;
    /* The order in which two threads see the failure is unspecified. */
    good = (plan->way == RECV_LOOSE || faults_said(faults_told(&job, 1, 1),
                                           SYMMCOLL_ERR_ABORTED, text, NULL)) &&
           good;
    good = faults_told(&job, 1, 0)->at - began < FAULTS_KNOWN + 1 && good;
    if (stopped)
        faults_signal(&job, 0, SIGKILL);
    faults_open(&job, 2);
    good = faults_finish(&job, gone || stopped ? 1 : 0) && good;
    ok(faults_clear_dumps(2) && good, "%s", sentence);
}

/* ---- a peer that leaves in order ---- */

static int leave_early(struct faults_rank *self)
{
    int value = 3;

    if (!faults_init(self))
        return 1;
    if (self->rank == 0) {
        faults_note(self, symmcoll_send(self->group, &value, 1, SYMMCOLL_INT32,
                              1, 4, NULL, NULL));
        return faults_finalize(self);
    }
    faults_pass(self, 1);
    faults_note(self, symmcoll_recv(self->group, &value, 1, SYMMCOLL_INT32, 0,
                          4, NULL, NULL, NULL));
    faults_note(self, symmcoll_recv(self->group, &value, 1, SYMMCOLL_INT32, 0,
                          5, NULL, NULL, NULL));
    faults_reach(self, 2);
    faults_pass(self, 2);
    return faults_finalize(self);
}

static void leaves(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 2, leave_early, NULL);
    faults_reap(&job, 0);
    faults_open(&job, 1);
    good = faults_await(&job, 1, 2);
    good = faults_said(faults_told(&job, 1, 0), SYMMCOLL_OK, NULL) && good;
    good = faults_said(faults_told(&job, 1, 1), SYMMCOLL_ERR_PEER, "rank 0",
               "has finalized", "recv seq 2", NULL) &&
           good;
    faults_open(&job, 2);
    good = faults_finish(&job, 0) && good;
    ok(faults_clear_dumps(2) && good,
        "what a rank has sent before it finalized is received, and no more");
}

/* ---- the end ---- */

static int end_unmatched(struct faults_rank *self)
{
    int values[3] = {1, 2, 3};

    if (!faults_init(self))
        return 1;
    if (self->rank == 0) {
        for (int i = 0; i < 2; i++)
            faults_note(self, symmcoll_send(self->group, values, 3,
                                  SYMMCOLL_INT32, 1, 8 + i, NULL, NULL));
        faults_barrier(self);
        return faults_finalize(self);
    }
    faults_barrier(self);
    faults_note(self, symmcoll_finalize(self->world));
    faults_reach(self, 2);
    faults_pass(self, 2);
    return 0;
}

static int end_waiting(struct faults_rank *self)
{
    struct symmcoll_work *work;
    static int value = 1;

    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "200ms", 1);
    if (!faults_init(self))
        return 1;
    if (self->rank == 0) {
        faults_pass(self, 1);
        return faults_finalize(self);
    }
    if (symmcoll_recv(self->group, &value, 1, SYMMCOLL_INT32, 0, 8, NULL, NULL,
            &work) != SYMMCOLL_OK)
        return 1;
    faults_note(self, symmcoll_finalize(self->world));
    faults_note(self, symmcoll_work_wait(work, -1));
    symmcoll_work_free(work);
    faults_reach(self, 1);
    return 0;
}

static void end_with_messages(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 2, end_unmatched, NULL);
    good = faults_await(&job, 1, 2);
    good = faults_said(faults_told(&job, 1, 0), SYMMCOLL_ERR_MISMATCH,
               "2 messages were not received",
               "from rank 0 with 3 elements of int32 and tag 8", NULL) &&
           good;
    faults_open(&job, 2);
    good = faults_finish(&job, 0) && good;
    ok(faults_clear_dumps(2) && good,
        "finalize names messages that were not received");
    faults_start(&job, 2, end_waiting, NULL);
    good = faults_await(&job, 1, 1);
    good = faults_said(faults_told(&job, 1, 0), SYMMCOLL_ERR_TIMEOUT,
               "finalize", "recv seq 1", NULL) &&
           good;
    good = faults_said(faults_told(&job, 1, 1), SYMMCOLL_ERR_CANCELED,
               "finalize", NULL) &&
           good;
    faults_open(&job, 1);
    good = faults_finish(&job, 0) && good;
    ok(faults_clear_dumps(2) && good,
        "finalize names receives to which nothing has come, and ends them");
}

int main(void)
{
    static const struct {
        struct plan plan;
        symmcoll_status_t status;
        const char *text, *sentence;
    } losses[] = {
        {{RECV_IT, -1, SIGKILL}, SYMMCOLL_ERR_PEER, "rank 0",
            "a receive ends at once when its peer dies"},
        {{RECV_ANY, -1, SIGKILL}, SYMMCOLL_ERR_PEER, "rank 0",
            "so does a receive from any source"},
        {{SEND_LARGE, -1, SIGKILL}, SYMMCOLL_ERR_PEER, "rank 0",
            "so does a send that nobody has received"},
        {{RECV_WORK, -1, SIGKILL}, SYMMCOLL_ERR_PEER, "rank 0",
            "so does a work that is waited for"},
        {{RECV_LOOSE, -1, SIGKILL}, SYMMCOLL_ERR_PEER, "rank 0",
            "so does a work that has been released"},
        {{HALF, -1, SIGKILL}, SYMMCOLL_ERR_PEER, "rank 0",
            "so does a message of which half has been received"},
        {{RECV_IT, -1, 0}, SYMMCOLL_ERR_CANCELED, "no more disk",
            "an abort ends a receive"},
        {{SEND_LARGE, -1, 0}, SYMMCOLL_ERR_CANCELED, "no more disk",
            "an abort ends a send"},
        {{RECV_LOOSE, -1, 0}, SYMMCOLL_ERR_CANCELED, "no more disk",
            "an abort ends a work that has been released"},
        {{RECV_IT, 0.3, SIGSTOP}, SYMMCOLL_ERR_TIMEOUT, "rank 0 did not come",
            "a receive ends at its deadline, with the name of its peer"},
        {{RECV_LOOSE, 0.3, SIGSTOP}, SYMMCOLL_ERR_TIMEOUT,
            "rank 0 did not come", "so does a work that has been released"},
        {{HALF, 0.3, SIGSTOP}, SYMMCOLL_ERR_TIMEOUT, "rank 0 did not come",
            "so does a message of which half has been received"},
    };

    plan((int)LENGTH(losses) + 3);
    faults_begin();
    for (size_t i = 0; i < LENGTH(losses); i++)
        lose(&losses[i].plan, losses[i].status, losses[i].text,
            losses[i].sentence);
    leaves();
    end_with_messages();
    faults_end();
    return done_testing();
}
