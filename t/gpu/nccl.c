/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests NCCL on a device: with one rank through the whole of a group's call
 * (level 3; a group of one makes few calls of NCCL, and nccl_one.c tests the
 * rest), and with two processes that share the device (level 4), which are
 * skipped with NCCL's reason if it refuses to connect them.
 */
#include "t/gpu/nccl_exchange.h"
#include "t/gpu/ranks.h"
#include "t/gpu/standing.h"
#include "t/world/others.h"

#include "group/group.h"

#include <pthread.h>
#include <time.h>

#define VICTIM 1

static int exchanges(struct symmcoll_group *group, int rank)
{
    struct exchange it;
    int right = 1;

    exchange_begin(&it, group, rank);
    for (int i = 0; i < gpu_choose(200, 20, 4) && right; i++)
        right = exchange_once(&it, i);
    return exchange_finish(&it, right);
}

/* Checks that each group has its own communicator, which ends with it. */
static int groups(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group = NULL;
    struct exchange it;
    int right = 1;

    exchange_begin(&it, all, rank);
    for (int i = 0; i < gpu_choose(3, 3, 2) && right; i++) {
        right =
            exchange_once(&it, 2 * i) &&
            say(symmcoll_group_create(all->world, &args, &group) == SYMMCOLL_OK,
                "a group");
        if (!right)
            break;
        exchange_enter(&it, group);
        right = exchange_once(&it, 2 * i + 1);
        exchange_enter(&it, all);
        right =
            say(symmcoll_group_free(group) == SYMMCOLL_OK, "its end") && right;
    }
    return exchange_finish(&it, right);
}

/* ---- an abort, while NCCL's kernel waits in a blocked stream ---- */

static void *resume_later(void *arg)
{
    const struct timespec pause = {.tv_sec = 1};

    nanosleep(&pause, NULL);
    gpu_resume(arg);
    return NULL;
}

static int aborted(struct symmcoll_group *group, int rank)
{
    const struct timespec moment = {.tv_nsec = 300000000};
    struct symmcoll_work *work = NULL;
    struct gpu_stall stall;
    struct exchange it;
    symmcoll_status_t status;
    pthread_t thread;
    int right;

    exchange_begin(&it, group, rank);
    right = exchange_once(&it, 1);
    exchange_prepare(&it, 1);
    gpu_stall(&stall, it.stream);
    if (!right ||
        !say(exchange_call(&it, &work) == SYMMCOLL_OK,
            "one that stands still") ||
        pthread_create(&thread, NULL, resume_later, &stall) != 0)
        return 0;
    nanosleep(&moment, NULL); /* NCCL has begun it by then, or does not begin
                               * it */
    symmcoll_group_abort(group, "enough");
    status = symmcoll_work_wait(work, 60);
    right = ended(status,
        status == SYMMCOLL_ERR_ABORTED ? status : SYMMCOLL_ERR_CANCELED,
        "enough");
    symmcoll_work_free(work);
    pthread_join(thread, NULL);
    standing_await();
    gpu_stall_free(&stall);
    return exchange_finish(&it, right);
}

/* ---- two ranks ---- */

/* Runs the collectives that move data or reduce integers, with several
 * sizes. */
static int collectives(struct symmcoll_group *group, int rank)
{
    static const enum symc_kind kinds[] = {SYMC_ALL_REDUCE, SYMC_REDUCE,
        SYMC_REDUCE_SCATTER, SYMC_ALL_GATHER, SYMC_GATHER, SYMC_SCATTER,
        SYMC_ALL_TO_ALL, SYMC_BROADCAST};
    const size_t counts[] = {2501, gpu_is_rehearsal() ? 5003 : 700001};
    int right = 1;

    exchange_settle(rank);
    device_use(rank);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && right; k++)
        for (size_t i = 0; i < 2 && right; i++) {
            const struct collective one = {.kind = kinds[k],
                .dtype = SYMMCOLL_INT32,
                .op = SUM,
                .count = counts[i],
                .root = 1};

            right = same_as_host(group, rank, &one);
        }
    return right;
}

static int lose_a_peer(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct gpu_stall stall;
    struct exchange it;

    if (!faults_init(self))
        return 1;
    exchange_begin(&it, self->group, self->rank);
    if (!exchange_once(&it, 1))
        return 1;
    exchange_prepare(&it, 1);
    if (self->rank == VICTIM)
        gpu_stall(&stall, it.stream);
    if (exchange_call(&it, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    faults_reach(self, 2);
    (void)exchange_finish(&it, 1);
    return faults_finalize(self);
}

static void test_death(void)
{
    faults_begin();
    ok(others_survive(2, VICTIM, lose_a_peer, NULL),
        "a process that is killed while NCCL waits for it: the other is told "
        "its name, and its stream ends");
    faults_end();
}

static void test_two(void)
{
    const char *refusal;
    bool right;

    exchange_share_device();
    right = exchange_is_connected(2, &refusal);
    if (refusal != NULL) {
        skip(5, "NCCL does not connect two ranks of a device: %s", refusal);
        return;
    }
    ok(right, "NCCL connects two processes that share the device");
    on_processes(2, exchanges, "exchanges of parts of all sizes");
    on_processes(2, groups, "groups have communicators of their own");
    on_processes(2, collectives, "large collectives have the host's bits");
    test_death();
}

int main(void)
{
    gpu_begin(200);
    exchange_find_nccl();
    on_processes(1, exchanges, "exchanges with itself");
    on_processes(1, groups, "communicators of groups, one after another");
    on_processes(1, aborted, "an abort ends what stands still");
    test_two();
    return done_testing();
}
