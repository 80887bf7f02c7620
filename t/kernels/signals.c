/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks signals between kernels: bytes that a rank writes before a put are
 * visible to the destination after the wait, and bytes that a rank has read
 * may be overwritten once its signal was taken. Also checks a flag, which is
 * written after all earlier work of its stream.
 */
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

void symc_put_signal(const void *args);
void symc_wait_signal(const void *args);
void symc_signal_barrier(const void *args);
void symc_write32(const void *args);
void symc_fill32(const void *args);
void symc_wait32(const void *args);

#define TIMES 6
#define SLOTS \
    3 /* of messages, used in turn: a put waits for the signal before
                 * the last */
#define CHANNELS 3
#define MESSAGE 24
#define FLAGS 11

struct pads {
    uint32_t slots[CHANNELS][GROUP_RANKS];
    unsigned char messages[SLOTS][MESSAGE]; /* from the previous rank */
    uint32_t flag, arrivals;
    uint32_t flags[FLAGS]; /* any of which may be the flag */
};

static struct pads *pads_of(const struct group *group, int rank)
{
    return (struct pads *)(void *)group_data(group, rank);
}

static void open_pads(struct group *group, int size)
{
    const struct sizes sizes = {.data = sizeof(struct pads),
        .in = TIMES * MESSAGE,
        .out = TIMES * MESSAGE};

    group_open(group, size, &sizes);
    for (int r = 0; r < size; r++)
        memset(pads_of(group, r), 0, sizeof(struct pads));
}

static struct symc_signal_args signal_of(
    struct group *group, int rank, int peer, uint32_t channel)
{
    return (struct symc_signal_args){.group = group_of(group, rank),
        .pads = group_data_of(group),
        .channel = channel,
        .peer = (uint32_t)peer};
}

/* ---- put and wait, around a ring ---- */

struct ring {
    struct symc_signal_args put, wait;
    struct copying send[TIMES], receive[TIMES];
};

static bool is_idle(const struct group *group)
{
    static const struct pads idle;

    for (int r = 0; r < group->size; r++)
        if (memcmp(pads_of(group, r)->slots, idle.slots, sizeof(idle.slots)) !=
            0)
            return false;
    return true;
}

static bool check_ring_of(int size, uint32_t channel)
{
    struct ring *rings = calloc((size_t)size, sizeof(*rings));
    struct group group;
    bool right;

    if (rings == NULL)
        abort();
    open_pads(&group, size);
    for (int r = 0; r < size; r++) {
        const int next = (r + 1) % size, before = (r + size - 1) % size;

        rings[r].put = signal_of(&group, r, next, channel);
        rings[r].wait = signal_of(&group, r, before, channel);
        for (int i = 0; i < TIMES; i++) {
            rings[r].send[i] =
                (struct copying){pads_of(&group, next)->messages[i % SLOTS],
                    group.in[r] + i * MESSAGE, MESSAGE};
            rings[r].receive[i] = (struct copying){group.out[r] + i * MESSAGE,
                pads_of(&group, r)->messages[i % SLOTS], MESSAGE};
            group_launch_copy(&group, r, &rings[r].send[i]);
            group_launch(&group, r, symc_put_signal, &rings[r].put, 1, 1);
            group_launch(&group, r, symc_wait_signal, &rings[r].wait, 1, 1);
            group_launch_copy(&group, r, &rings[r].receive[i]);
        }
    }
    right = group_run(&group) && is_idle(&group);
    for (int r = 0; r < size; r++)
        right = right && memcmp(group.out[r], group.in[(r + size - 1) % size],
                             TIMES * MESSAGE) == 0;
    group_close(&group);
    free(rings);
    return right;
}

/* Sends in one direction only: the order comes from the put alone. */
static bool check_stream_of_puts(uint32_t channel)
{
    struct ring ring;
    struct group group;
    bool right;

    open_pads(&group, 2);
    ring.put = signal_of(&group, 0, 1, channel);
    ring.wait = signal_of(&group, 1, 0, channel);
    for (int i = 0; i < TIMES; i++) {
        ring.send[i] = (struct copying){pads_of(&group, 1)->messages[i % SLOTS],
            group.in[0] + i * MESSAGE, MESSAGE};
        ring.receive[i] = (struct copying){group.out[1] + i * MESSAGE,
            pads_of(&group, 1)->messages[i % SLOTS], MESSAGE};
        group_launch_copy(&group, 0, &ring.send[i]);
        group_launch(&group, 0, symc_put_signal, &ring.put, 1, 1);
        group_launch(&group, 1, symc_wait_signal, &ring.wait, 1, 1);
        group_launch_copy(&group, 1, &ring.receive[i]);
    }
    right = group_run(&group) && is_idle(&group) &&
            memcmp(group.out[1], group.in[0], TIMES * MESSAGE) == 0;
    group_close(&group);
    return right;
}

/* ---- the barrier of a channel ---- */

struct arrival {
    struct group *group;
    int rank;
    bool right;
};

static void arrive(const void *args)
{
    const struct arrival *arrival = args;

    pads_of(arrival->group, arrival->rank)->arrivals++;
}

static void look(const void *args)
{
    struct arrival *arrival = (struct arrival *)(uintptr_t)args;

    for (int r = 0; r < arrival->group->size; r++)
        if (pads_of(arrival->group, r)->arrivals !=
            pads_of(arrival->group, arrival->rank)->arrivals)
            arrival->right = false;
}

static bool check_barrier_of(int size, uint32_t channel)
{
    struct symc_signal_args args[GROUP_RANKS];
    struct arrival arrivals[GROUP_RANKS];
    struct group group;
    bool right;

    open_pads(&group, size);
    for (int r = 0; r < size; r++) {
        args[r] = signal_of(&group, r, 0, channel);
        arrivals[r] = (struct arrival){&group, r, true};
        for (int i = 0; i < 3; i++) {
            group_launch(&group, r, arrive, &arrivals[r], 1, 1);
            group_launch(&group, r, symc_signal_barrier, &args[r], 1,
                (uint32_t)size + 1);
            group_launch(&group, r, look, &arrivals[r], 1, 1);
            group_launch(&group, r, symc_signal_barrier, &args[r], 1,
                (uint32_t)size + 1);
        }
    }
    right = group_run(&group) && is_idle(&group);
    for (int r = 0; r < size; r++)
        right = right && arrivals[r].right;
    group_close(&group);
    return right;
}

static bool check_signals(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const uint32_t channel = group_draw() % CHANNELS;

        right = check_ring_of(2 + i % (GROUP_RANKS - 1), channel) &&
                check_stream_of_puts(channel) &&
                check_barrier_of(1 + i % GROUP_RANKS, channel);
        if (!right)
            diag("signals of channel %u, round %d", channel, i);
    }
    return right;
}

/* ---- a flag ---- */

/* Returns a single word, or one of many that are filled at once. */
static uint32_t *choose_flag(
    struct pads *pads, bool many, struct symc_fill_args *fill)
{
    const uint32_t first = group_draw() % 4;

    fill->at = many ? pads->flags + first : &pads->flag;
    fill->count = many ? FLAGS - first : 1;
    return fill->at + group_draw() % fill->count;
}

static bool check_flag(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        struct symc_fill_args fill = {.value = 1 + group_draw() % 9};
        struct copying write;
        struct reading reader;
        struct group group;
        uint32_t *flag;

        open_pads(&group, 2);
        flag = choose_flag(pads_of(&group, 1), i % 2 != 0, &fill);
        write = (struct copying){
            pads_of(&group, 1)->messages[0], group.in[0], MESSAGE};
        reader = (struct reading){
            flag, {group.out[1], pads_of(&group, 1)->messages[0], MESSAGE}};
        group_launch_copy(&group, 0, &write);
        group_launch(&group, 0, i % 2 == 0 ? symc_write32 : symc_fill32, &fill,
            1, 1 + i % 2);
        group_launch(&group, 1, machine_read_after_flag, &reader, 1, 1);
        right = group_run(&group) &&
                memcmp(group.out[1], group.in[0], MESSAGE) == 0 &&
                *flag == fill.value;
        group_close(&group);
    }
    return right;
}

/* Checks a kernel that waits for a word, which first has another value. */
static bool check_word(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        struct symc_fill_args first = {.value = 1 + group_draw() % 9}, last;
        struct symc_wait_args wait;
        struct copying write, receive;
        struct group group;

        open_pads(&group, 2);
        first.at = &pads_of(&group, 1)->flag;
        last = first;
        last.value += 1 + group_draw() % 9;
        wait = (struct symc_wait_args){
            .group = group_of(&group, 1), .at = last.at, .value = last.value};
        write = (struct copying){
            pads_of(&group, 1)->messages[0], group.in[0], MESSAGE};
        receive = (struct copying){
            group.out[1], pads_of(&group, 1)->messages[0], MESSAGE};
        group_launch(&group, 0, symc_write32, &first, 1, 1);
        group_launch_copy(&group, 0, &write);
        group_launch(&group, 0, symc_write32, &last, 1, 1);
        group_launch(&group, 1, symc_wait32, &wait, 1, 1);
        group_launch_copy(&group, 1, &receive);
        right = group_run(&group) &&
                memcmp(group.out[1], group.in[0], MESSAGE) == 0;
        group_close(&group);
    }
    return right;
}

const struct check checks_of_signals[] = {
    {"signal.h", "what was written before a put is there after its wait",
        check_signals, 200},
    {"fill.h", "what was written before a flag is there after it", check_flag,
        200},
    {"signal.h", "and after a wait for its value", check_word, 200},
    {.file = NULL},
};
