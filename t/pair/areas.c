/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging memory of large messages, of which a rank has enough for 8 at once:
 * more than 8 messages that fail halfway, and the messages after them.
 */
#include "../coll/data.h"
#include "pair.h"

#include "t/world/faults.h"

#include <stdlib.h>

#define SOME 2000000 /* numbers: many chunks */
#define RANKS 10

/* Rank 0 sends; rank 1 receives a part and aborts the group, possibly too
 * late. */
static bool fail_halfway(struct symmcoll_group *part)
{
    int rank = symmcoll_group_rank(part);
    int *buf = make(SOME, rank == 0 ? 0 : -1, 1);
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    if (rank == 0) {
        status =
            symmcoll_send(part, buf, SOME, SYMMCOLL_INT32, 1, 0, NULL, NULL);
    } else {
        status = symmcoll_recv(
            part, buf, SOME, SYMMCOLL_INT32, 0, 0, NULL, NULL, &work);
        while (status == SYMMCOLL_OK && ((volatile int *)buf)[0] == -1 &&
               symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS)
            ;
        symmcoll_group_abort(part, "enough");
        if (status == SYMMCOLL_OK)
            status = symmcoll_work_wait(work, -1);
        symmcoll_work_free(work);
    }
    free(buf);
    return say(status == SYMMCOLL_OK || status == SYMMCOLL_ERR_CANCELED,
        "sent or aborted");
}

static bool fail_with_each(struct symmcoll_world *world, int rank)
{
    bool right = true;

    for (int r = 1; right && r < RANKS; r++) {
        int ranks[] = {0, r};
        struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
        struct symmcoll_group *part;

        args.ranks = ranks;
        args.nranks = 2;
        right = say(symmcoll_group_create(world, &args, &part) >= 0,
                    "group_create") &&
                ((rank != 0 && rank != r) || fail_halfway(part)) &&
                say(symmcoll_group_free(part) == SYMMCOLL_OK, "group_free");
    }
    return right;
}

/* Sends from rank 0 to all others at once. */
static bool send_to_each(struct symmcoll_group *group, int rank)
{
    int *buf = make(SOME, rank == 0 ? 0 : -1, 2);
    struct symmcoll_work *works[RANKS] = {NULL};
    bool right = true;

    for (int r = 1; right && rank == 0 && r < RANKS; r++)
        right = say(symmcoll_send(group, buf, SOME, SYMMCOLL_INT32, r, 0, NULL,
                        &works[r]) == SYMMCOLL_OK,
            "send");
    for (int r = 1; right && rank == 0 && r < RANKS; r++)
        right = ends(works[r]);
    if (rank > 0)
        right = say(symmcoll_recv(group, buf, SOME, SYMMCOLL_INT32, 0, 0, NULL,
                        NULL, NULL) == SYMMCOLL_OK,
                    "recv") &&
                is_made(buf, SOME, 0, 2);
    free(buf);
    return right;
}

static int fail_and_go_on(struct faults_rank *self)
{
    if (!faults_init(self))
        return 1;
    if (!fail_with_each(self->world, self->rank) ||
        !send_to_each(self->group, self->rank))
        return 1;
    return faults_finalize(self);
}

int main(void)
{
    struct faults_job job;

    plan(1);
    faults_begin();
    faults_start(&job, RANKS, fail_and_go_on, NULL);
    ok(faults_finish(&job, 0),
        "messages that fail halfway leave memory for more than 8 others");
    faults_clear_dumps(RANKS);
    faults_end();
    return done_testing();
}
