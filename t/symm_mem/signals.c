/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests signals and barriers, and the memory order that they establish. */
#include "t/sanitized.h"
#include "t/symm_mem/symm.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* Sends between every pair, on the first and last channel; all slots are 0
 * afterwards. */
static int signals_reach_their_ranks(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    void *data;
    bool right = join(group, 0, &data, &handle) &&
                 OK(symmcoll_symm_get_info(handle, &info));

    for (int round = 0; right && round < 20; round++) {
        for (int r = 0; right && r < size; r++)
            right = OK(symmcoll_symm_put_signal(
                handle, r, round % 2 == 0 ? 0 : info.channels - 1, -1));
        for (int r = size - 1; right && r >= 0; r--)
            right = OK(symmcoll_symm_wait_signal(
                handle, r, round % 2 == 0 ? 0 : info.channels - 1, -1));
    }
    right = right && OK(symmcoll_symm_barrier(handle, info.channels - 1, -1));
    for (size_t i = 0; right && i < info.pad / 4; i++)
        right = HOLDS(info.pads[rank][i] == 0);
    return right && part(group, data, handle);
}

/* Checks that the slot is size * channel + source in the destination's pad,
 * and that a barrier of the same channel neither takes a signal nor leaves
 * one. */
static int a_signal_is_in_its_slot(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    void *data;
    bool right = join(group, 0, &data, &handle) &&
                 OK(symmcoll_symm_get_info(handle, &info));

    if (right && rank == 0)
        right = OK(symmcoll_symm_put_signal(handle, 1, 3, -1)) &&
                OK(symmcoll_symm_put_signal(handle, 1, 0, -1));
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1));
    for (size_t i = 0; right && i < info.pad / 4; i++) {
        bool signaled = i == 0 || i == (size_t)size * 3;

        right = HOLDS(info.pads[1][i] == (uint32_t)(signaled ? 1 : 0));
    }
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1));
    if (right && rank == 1)
        right = OK(symmcoll_symm_wait_signal(handle, 0, 3, 0)) &&
                OK(symmcoll_symm_wait_signal(handle, 0, 0, 0));
    return right && part(group, data, handle);
}

/* Checks that a second put waits until the first is taken, and that a wait
 * without a signal times out. */
static int timeouts_name_both(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    void *data;
    bool right = join(group, 0, &data, &handle);

    if (right && rank == 0)
        right =
            groups_said(rank, symmcoll_symm_wait_signal(handle, 1, 2, 0.05),
                SYMMCOLL_ERR_TIMEOUT,
                "rank 0 timed out after 0.05 s waiting for rank 1 on channel 2") &&
            groups_said(rank, symmcoll_symm_wait_signal(handle, 1, 2, 0),
                SYMMCOLL_ERR_TIMEOUT, "it has put no signal") &&
            OK(symmcoll_symm_put_signal(handle, 1, 2, 0)) &&
            groups_said(rank, symmcoll_symm_put_signal(handle, 1, 2, 0),
                SYMMCOLL_ERR_TIMEOUT, "rank 1 on channel 2") &&
            groups_said(rank, symmcoll_symm_put_signal(handle, 1, 2, 0.05),
                SYMMCOLL_ERR_TIMEOUT, "has not taken the signal before") &&
            groups_said(rank, symmcoll_symm_barrier(handle, 5, 0.05),
                SYMMCOLL_ERR_TIMEOUT, "rank 1 on channel 5");
    right = right && OK(symmcoll_barrier(group, NULL, NULL)) &&
            HOLDS(symmcoll_group_error(group) == SYMMCOLL_OK);
    if (right && rank == 1) /* rank 0 has already arrived */
        right = OK(symmcoll_symm_barrier(handle, 5, 0)) &&
                OK(symmcoll_symm_wait_signal(handle, 0, 2, 0));
    else
        right = right && OK(symmcoll_symm_barrier(handle, 5, -1));
    right = right && OK(symmcoll_symm_barrier(handle, 5, -1));
    return right && part(group, data, handle);
}

/* Repeats a barrier after a timeout, and then passes the next one, at which no
 * rank had arrived. */
static bool repeat(struct symmcoll_group *group, struct symmcoll_symm *handle,
    int rank, int channel)
{
    bool right = true;

    for (int i = 0; right && rank == 0 && i < 3; i++)
        right = groups_said(rank, symmcoll_symm_barrier(handle, channel, 0),
            SYMMCOLL_ERR_TIMEOUT, "did not arrive at the barrier");
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right &&
            OK(symmcoll_symm_barrier(handle, channel, -1));
    if (right && rank == 0)
        right = groups_said(rank, symmcoll_symm_barrier(handle, channel, 0),
            SYMMCOLL_ERR_TIMEOUT, "did not arrive at the barrier");
    return OK(symmcoll_barrier(group, NULL, NULL)) && right &&
           OK(symmcoll_symm_barrier(handle, channel, -1));
}

static int a_barrier_is_repeated(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    void *data;
    bool right = join(group, 0, &data, &handle) &&
                 OK(symmcoll_symm_get_info(handle, &info));

    for (int round = 0; right && round < 5; round++)
        right = repeat(group, handle, rank, 2) &&
                repeat(group, handle, rank, info.channels - 1);
    return right && part(group, data, handle);
}

/* A thread of a rank: signals in both directions, and barriers. */
struct user {
    struct symmcoll_symm *handle;
    int rank, channel;
    bool right;
};

static void *use_channel(void *arg)
{
    struct user *user = arg;
    int peer = 1 - user->rank, channel = user->channel;
    struct symmcoll_symm *handle = user->handle;

    user->right = true;
    for (int i = 0; user->right && i < 200; i++)
        user->right =
            OK(symmcoll_symm_put_signal(handle, peer, channel, -1)) &&
            OK(symmcoll_symm_wait_signal(handle, peer, channel, -1)) &&
            (i % 10 != 0 || OK(symmcoll_symm_barrier(handle, channel, -1)));
    return NULL;
}

static int threads_have_channels(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    struct user users[4];
    pthread_t threads[LENGTH(users)];
    void *data;
    bool right = join(group, 0, &data, &handle);

    if (!right)
        return false;
    for (size_t i = 0; i < LENGTH(users); i++) {
        users[i] = (struct user){handle, rank, (int)i * 3, false};
        pthread_create(&threads[i], NULL, use_channel, &users[i]);
    }
    for (size_t i = 0; i < LENGTH(users); i++) {
        pthread_join(threads[i], NULL);
        right = HOLDS(users[i].right) && right;
    }
    return part(group, data, handle) && right;
}

static int bad_arguments_are_refused(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_symm *handle;
    void *data;
    bool right = join(group, 64, &data, &handle);

    right = right &&
            groups_said(rank, symmcoll_symm_put_signal(handle, 1, 170, -1),
                SYMMCOLL_ERR_INVALID, "expected a channel of 0 to 169") &&
            groups_said(rank, symmcoll_symm_wait_signal(handle, 1, -1, -1),
                SYMMCOLL_ERR_INVALID, "found -1") &&
            groups_said(rank, symmcoll_symm_barrier(handle, 170, -1),
                SYMMCOLL_ERR_INVALID, "found 170") &&
            groups_said(rank, symmcoll_symm_put_signal(handle, size, 0, -1),
                SYMMCOLL_ERR_INVALID, "expected a rank of 0 to 2") &&
            groups_said(rank, symmcoll_symm_wait_signal(handle, -1, 0, -1),
                SYMMCOLL_ERR_INVALID, "found -1") &&
            groups_said(rank, symmcoll_symm_wait_signal(handle, 1, 0, NAN),
                SYMMCOLL_ERR_INVALID, "NaN") &&
            groups_said(rank, symmcoll_symm_barrier(handle, 0, NAN),
                SYMMCOLL_ERR_INVALID, "NaN") &&
            groups_said(rank, symmcoll_symm_put_signal(NULL, 0, 0, -1),
                SYMMCOLL_ERR_INVALID, "found NULL") &&
            groups_said(rank, symmcoll_symm_barrier(NULL, 0, -1),
                SYMMCOLL_ERR_INVALID, "found NULL") &&
            OK(symmcoll_symm_barrier(handle, 169, -1));
    return right && part(group, data, handle);
}

/* Uses the smallest pad, and larger ones. */
static int the_pad_decides_the_channels(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    void *data;
    static const size_t pads[] = {16, 128, 65536};
    bool right = true;

    (void)rank;
    for (size_t i = 0; right && i < LENGTH(pads); i++) {
        args.pad = pads[i];
        right = OK(symmcoll_symm_alloc(world, 10, &args, &data));
        if (i == 0) {
            right = right &&
                    groups_said(rank,
                        symmcoll_symm_rendezvous(group, data, NULL, &handle),
                        SYMMCOLL_ERR_INVALID,
                        "expected a signal pad of 20 bytes or more") &&
                    OK(symmcoll_symm_free(world, data));
            continue;
        }
        right = right &&
                OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
                OK(symmcoll_symm_get_info(handle, &info)) &&
                HOLDS(info.channels == (int)(pads[i] / 20)) &&
                OK(symmcoll_symm_barrier(handle, info.channels - 1, -1)) &&
                OK(symmcoll_symm_barrier(handle, info.channels / 2, -1)) &&
                part(group, data, handle);
    }
    return right;
}

/* Checks that no rank leaves before all have arrived, with two channels
 * alternately. */
static int nobody_leaves_early(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_symm *handle;
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    _Atomic int *mine;
    bool right = join(group, 4, (void **)&mine, &handle) &&
                 OK(symmcoll_symm_get_info(handle, &info));

    for (int round = 1; right && round <= 2000; round++) {
        atomic_store_explicit(mine, round, memory_order_relaxed);
        right = OK(symmcoll_symm_barrier(handle, round % 2, -1));
        for (int r = 0; right && r < size; r++) {
            _Atomic int *theirs = info.buffers[r];
            int found = atomic_load_explicit(theirs, memory_order_relaxed);

            right = HOLDS(found == round || found == round + 1);
        }
    }
    (void)rank;
    return right && part(group, (void *)mine, handle);
}

int main(void)
{
    plan(20);
    groups_both(2, signals_reach_their_ranks,
        "a signal reaches its rank, and leaves no mark (S24, S25)");
    groups_both(6, signals_reach_their_ranks, "and between six");
    groups_both(3, a_signal_is_in_its_slot,
        "a signal is in slot ranks * channel + source of the pad, and no barrier "
        "uses it (S22, S29)");
    groups_both(2, timeouts_name_both,
        "a timeout names both ranks and the channel, and fails nothing (S27)");
    groups_both(2, threads_have_channels,
        "threads of a rank use channels of their own (S28)");
    groups_both(3, a_barrier_is_repeated,
        "a barrier that has expired is the same one when it is called again");
    groups_both(3, bad_arguments_are_refused,
        "ranks and channels out of range are named with the range (S23)");
    groups_both(5, the_pad_decides_the_channels,
        "there are as many channels as the pad has room for");
    groups_both(2, nobody_leaves_early,
        "nobody leaves a barrier before all have arrived (S26)");
    groups_both(5, nobody_leaves_early, "nor do five");
    return done_testing();
}
