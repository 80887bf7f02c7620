/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests calls that stop waiting for a thread that is blocked in a backend: the
 * resources that it may still use.
 */
#include "run/device.h"
#include "running.h"

/* Returns whether a call of that kind is given up while the ticket's holder is
 * in a backend for such an operation. */
static bool is_given_up(struct symmcoll_group *group,
    struct symmcoll_work *work, enum symc_kind kind,
    const struct symc_op *inside)
{
    struct symc_slot *slot = &group->runner.slots[SYMC_MEMORY_DEVICE];
    bool given_up;

    *work = (struct symmcoll_work){
        .op = {.kind = kind, .memory = SYMC_MEMORY_DEVICE}};
    pthread_mutex_lock(&slot->noted);
    slot->inside = inside;
    slot->has_ticket = true;
    slot->entered_ns = symc_now_ns();
    pthread_mutex_unlock(&slot->noted);
    given_up = symc_device_give_up(&group->runner, work);
    pthread_mutex_lock(&slot->noted);
    slot->inside = NULL;
    pthread_mutex_unlock(&slot->noted);
    return given_up && work->given_up;
}

/* Checks that operations which move data from the stack frame of their call
 * are not given up while another thread starts them. */
static int given_up(struct symmcoll_group *group, int rank)
{
    static struct symmcoll_work works[FAKE_RANKS];
    struct symmcoll_work *work = &works[rank];
    const struct symc_op other = {.kind = SYMC_ALL_REDUCE};
    enum symc_kind moves = SYMC_ALL_REDUCE;

    while (!symc_kind_has(moves, SYMC_MOVES))
        moves++;
    return opened(group, rank) &&
           say(is_given_up(group, work, SYMC_ALL_REDUCE, &work->op) &&
                   work->owned,
               "it is the backend's") &&
           say(is_given_up(group, work, SYMC_ALL_REDUCE, &other) &&
                   !work->owned,
               "not started") &&
           say(!is_given_up(group, work, SYMC_ALL_REDUCE, NULL), "nobody") &&
           say(is_given_up(group, work, moves, &other) && !work->owned,
               "a mover that is not started") &&
           say(!is_given_up(group, work, moves, &work->op) && !work->given_up,
               "a mover that is being started") &&
           say(sum_host(group, rank) == SYMMCOLL_OK, "after it");
}

int main(void)
{
    use_modules_of_tests();
    on_both(2, given_up,
        "a call waits while what is in its frame is being enqueued");
    return done_testing();
}
