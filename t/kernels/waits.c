/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks waiting kernels when a peer never arrives: all threads of all waiting
 * kernels end, at their deadline or when the host aborts; the first of them
 * records the missing peer; and later kernels end without a deadline of their
 * own. Deadlines here are counted in turns of all fibers.
 */
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <string.h>

void symc_barrier(const void *args);
void symc_one_shot_f32(const void *args);
void symc_two_shot_i64(const void *args);
void symc_reduce_scatter_u8(const void *args);
void symc_packets_bf16(const void *args);
void symc_multimem_two_shot_f32(const void *args);
void symc_pull(const void *args);
void symc_exchange(const void *args);
void symc_plan_run(const void *args);
void symc_put_signal(const void *args);
void symc_wait_signal(const void *args);
void symc_signal_barrier(const void *args);
void symc_wait32(const void *args);

#define COUNT 16
#define NUMBER 7 /* of the launch that times out */

/* Arguments of any waiting kernel: all begin with a group. */
union any_args {
    struct symc_device_group group;
    struct symc_reduce_args reduce;
    struct symc_move_args move;
    struct symc_exchange_args exchange;
    struct symc_plan_run_args run;
    struct symc_signal_args signal;
    struct symc_wait_args wait;
};

static void describe_barrier(
    union any_args *args, struct group *group, int rank)
{
    (void)args;
    (void)group;
    (void)rank;
}

static void describe_reduction(
    union any_args *args, struct group *group, int rank)
{
    args->reduce.data = group_data_of(group);
    args->reduce.in = group->in[rank];
    args->reduce.out = group->out[rank];
    args->reduce.count = COUNT;
    args->reduce.rows = 1;
    args->reduce.root = SYMC_KERNEL_ALL;
}

static void describe_move(union any_args *args, struct group *group, int rank)
{
    args->move.data = group_data_of(group);
    args->move.in = group->in[rank];
    args->move.out = group->out[rank];
    args->move.nbytes = COUNT;
    args->move.out_pitch = COUNT;
    args->move.slices = 1;
    args->move.sources = (uint32_t)group->size;
}

static void describe_exchange(
    union any_args *args, struct group *group, int rank)
{
    args->exchange.data = group_data_of(group);
    args->exchange.in = group->in[rank];
    args->exchange.out = group->out[rank];
    args->exchange.pitch = COUNT;
    args->exchange.send_nbytes[0] = COUNT;
}

static void describe_run(union any_args *args, struct group *group, int rank)
{
    args->run.data = group_data_of(group);
    args->run.wrong = (uint64_t *)(void *)group_data(group, rank); /* is 0 */
    args->run.out = group->out[rank];
}

static void describe_signal(union any_args *args, struct group *group, int rank)
{
    args->signal.pads = group_data_of(group);
    args->signal.peer = (uint32_t)(group->size - 1);
    (void)rank;
}

static void describe_wait(union any_args *args, struct group *group, int rank)
{
    args->wait.at = (uint32_t *)(void *)group_data(group, rank);
    args->wait.value = 1;
    args->wait.peer = (uint32_t)(group->size - 1);
}

static const struct waiting {
    const char *name;
    kernel_fn kernel;
    void (*describe)(union any_args *args, struct group *group, int rank);
    bool is_of_one_block;
} waits[] = {
    {"barrier", symc_barrier, describe_barrier, true},
    {"one-shot", symc_one_shot_f32, describe_reduction, false},
    {"two-shot", symc_two_shot_i64, describe_reduction, false},
    {"reduce-scatter", symc_reduce_scatter_u8, describe_reduction, false},
    {"packets", symc_packets_bf16, describe_reduction, false},
    {"multimem", symc_multimem_two_shot_f32, describe_reduction, false},
    {"pull", symc_pull, describe_move, false},
    {"exchange", symc_exchange, describe_exchange, false},
    {"plan, run", symc_plan_run, describe_run, false},
    {"wait_signal", symc_wait_signal, describe_signal, true},
    {"signal barrier", symc_signal_barrier, describe_signal, true},
    {"wait32", symc_wait32, describe_wait, true},
};
#define NWAITS (sizeof(waits) / sizeof(waits[0]))

/* ---- actions of the host ---- */

struct host {
    struct group *group;
    uint32_t seen_reason, seen_peer, seen_block, seen_number;
};

/* Reads the failure record while kernels run. */
static void watch(const void *args)
{
    struct host *host = (struct host *)(uintptr_t)args;
    const struct symc_device_failure *failure = &host->group->words->failure;

    while (__atomic_load_n(&failure->complete, __ATOMIC_ACQUIRE) == 0)
        engine_relax();
    host->seen_reason = __atomic_load_n(&failure->reason, __ATOMIC_RELAXED);
    host->seen_peer = failure->peer;
    host->seen_block = failure->block;
    host->seen_number = failure->number;
}

static void abort_all(const void *args)
{
    const struct host *host = args;

    for (int i = 0; i < 50; i++)
        engine_relax();
    __atomic_store_n(&host->group->words->aborted, 1, __ATOMIC_RELAXED);
}

#define BACK_NS UINT64_C(100000)

/* Sets the clock back; the waits let the others read the clock before and
 * after. */
static void set_clock_back(const void *args)
{
    (void)args;
    for (int i = 0; i < 300; i++) {
        engine_relax();
        if (i == 100)
            machine.add_to_clock(-BACK_NS);
    }
}

/* ---- checks ---- */

/* Checks a kernel when the last rank never arrives; that rank's stream is used
 * by the host. A kernel that a rank launches afterwards ends too, even without
 * a deadline. */
static bool check_one(
    const struct waiting *waiting, int size, bool aborts, uint32_t blocks)
{
    const struct sizes sizes = {.data = 1024, .in = 1024, .out = 1024};
    union any_args args[GROUP_RANKS], patient[GROUP_RANKS];
    struct host host = {0};
    struct group group;
    bool right;

    group_open(&group, size, &sizes);
    host.group = &group;
    memset(args, 0, sizeof(args));
    for (int r = 0; r < size - 1; r++) {
        memset(group_data(&group, r), 0, sizes.data);
        args[r].group = group_of(&group, r);
        args[r].group.number = NUMBER;
        args[r].group.timeout_ns = aborts ? UINT64_MAX : machine.short_ns;
        waiting->describe(&args[r], &group, r);
        patient[r] = args[r];
        patient[r].group.timeout_ns = UINT64_MAX;
        patient[r].group.number = NUMBER + 1;
        group_launch(
            &group, r, waiting->kernel, &args[r], blocks, (uint32_t)size + 1);
        group_launch(&group, r, waiting->kernel, &patient[r], blocks,
            (uint32_t)size + 1);
    }
    if (aborts)
        group_launch(&group, size - 1, abort_all, &host, 1, 1);
    group_launch(&group, size - 1, watch, &host, 1, 1);
    group_run_freely(&group);
    right = host.seen_reason ==
                (aborts ? SYMC_DEVICE_ABORTED : SYMC_DEVICE_TIMEOUT) &&
            host.seen_peer == (uint32_t)size - 1 && host.seen_block < blocks &&
            (aborts || host.seen_number == NUMBER);
    if (!right)
        diag("%s, %d ranks, %u blocks, %s: reason %u, peer %u, block %u, "
             "number %u",
            waiting->name, size, blocks, aborts ? "aborted" : "deadline",
            host.seen_reason, host.seen_peer, host.seen_block,
            host.seen_number);
    group_close(&group);
    return right;
}

static bool check_waits(int rounds, bool aborts)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const struct waiting *waiting = &waits[(size_t)i % NWAITS];

        right = check_one(waiting, 2 + (int)(group_draw() % 4), aborts,
            waiting->is_of_one_block ? 1 : 1 + group_draw() % 3);
    }
    return right;
}

static bool check_deadlines(int rounds)
{
    return check_waits(rounds, false);
}

static bool check_aborts(int rounds)
{
    return check_waits(rounds, true);
}

/* Checks a put that follows a signal that was not taken. */
static bool check_put(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const struct sizes sizes = {.data = 64};
        struct symc_signal_args args;
        struct group group;

        group_open(&group, 2, &sizes);
        for (int r = 0; r < 2; r++)
            memset(group_data(&group, r), 0, sizes.data);
        args = (struct symc_signal_args){.group = group_of(&group, 0),
            .pads = group_data_of(&group),
            .channel = group_draw() % 4,
            .peer = 1};
        args.group.timeout_ns = machine.short_ns;
        group_launch(&group, 0, symc_put_signal, &args, 1, 1);
        right = group_run(&group);
        group_launch(&group, 0, symc_put_signal, &args, 1, 1);
        group_run_freely(&group);
        right = right && group.words->failure.reason == SYMC_DEVICE_TIMEOUT &&
                group.words->failure.peer == 1 &&
                group.words->failure.complete == 1;
        group_close(&group);
    }
    return right;
}

/* Checks that the last rank may arrive after the clock has been set back. */
static bool check_clock(int rounds)
{
    bool right = true;

    for (int i = 0; right && machine.add_to_clock != NULL && i < rounds; i++) {
        const struct sizes sizes = {.data = 64};
        const int size = 2 + (int)(group_draw() % 4);
        struct symc_reduce_args args[GROUP_RANKS];
        struct group group;

        group_open(&group, size, &sizes);
        machine.add_to_clock(2 * BACK_NS); /* it begins at 0 */
        for (int r = 0; r < size; r++) {
            args[r] = (struct symc_reduce_args){.group = group_of(&group, r)};
            if (r == size - 1)
                group_launch(&group, r, set_clock_back, NULL, 1, 1);
            group_launch(
                &group, r, symc_barrier, &args[r], 1, (uint32_t)size + 1);
        }
        right = group_run(&group);
        group_close(&group);
    }
    return right;
}

const struct check checks_of_waits[] = {
    {"group.h",
        "a peer that does not come: all threads end at the deadline, which names it",
        check_deadlines, 110},
    {"group.h",
        "a peer that does not come: all threads end when the host says so",
        check_aborts, 110},
    {"group.h", "no wait ends because the clock is set back", check_clock, 50},
    {"signal.h", "a signal that is not taken: the put ends at the deadline",
        check_put, 50},
    {.file = NULL},
};
