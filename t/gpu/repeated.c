/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a few kernels alternately, a thousand times, by 2, 4 and 8 ranks
 * without waiting for their streams in between: every result of every
 * repetition is checked.
 */
#include "t/gpu/repeated.h"

#include "base/reduce.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

void symc_packets_f32(const void *args);
void symc_one_shot_f32(const void *args);
void symc_two_shot_f32(const void *args);
void symc_pull(const void *args);
void symc_barrier(const void *args);

#define COUNT 97 /* odd */
#define NBYTES (COUNT * sizeof(float))
#define PITCH 400 /* bytes from one input to the next one */
#define INPUTS 16 /* in turn */
#define BLOCKS 2
#define THREADS 64

enum form {
    PACKETS,
    ONE_SHOT,
    TWO_SHOT,
    PULL,
    FORMS
};

static const kernel_fn kernels[] = {
    symc_packets_f32, symc_one_shot_f32, symc_two_shot_f32, symc_pull};

/* The launches of one rank: FORMS and a barrier for each repetition. */
struct row {
    struct engine_launch *launches;
    struct symc_reduce_args *reductions; /* three for each repetition */
    struct symc_move_args *moves;
    struct symc_device_group barrier;
};

static void *allocate(size_t n, size_t nbytes)
{
    void *memory = calloc(n, nbytes);

    if (memory == NULL)
        abort();
    return memory;
}

static unsigned char *in_of(const struct group *group, int rank, int number)
{
    return group->in[rank] + (size_t)(number % INPUTS) * PITCH;
}

static size_t out_pitch(const struct group *group)
{
    return (size_t)group->size * PITCH;
}

static unsigned char *out_of(
    const struct group *group, int rank, int number, enum form form)
{
    return group->out[rank] +
           ((size_t)number * FORMS + (size_t)form) * out_pitch(group);
}

static void describe_reduction(struct group *group, int rank, int number,
    enum form form, struct symc_reduce_args *args)
{
    *args = (struct symc_reduce_args){.group = group_of(group, rank),
        .data = group_data_of(group),
        .in = in_of(group, rank, number),
        .out = out_of(group, rank, number, form),
        .count = COUNT,
        .rows = 1,
        .data_pitch = PITCH,
        .in_pitch = PITCH,
        .root = SYMC_KERNEL_ALL,
        .op = SYMMCOLL_SUM};
}

static void describe_move(
    struct group *group, int rank, int number, struct symc_move_args *args)
{
    *args = (struct symc_move_args){.group = group_of(group, rank),
        .data = group_data_of(group),
        .in = in_of(group, rank, number),
        .out = out_of(group, rank, number, PULL),
        .nbytes = NBYTES,
        .in_pitch = PITCH,
        .data_pitch = PITCH,
        .out_pitch = PITCH,
        .slices = 1,
        .sources = (uint32_t)group->size};
}

static void describe(
    struct group *group, int rank, int repetitions, struct row *row)
{
    const size_t n = (size_t)repetitions;
    struct engine_launch *next;

    *row = (struct row){
        .launches = allocate(n * (FORMS + 1), sizeof(*row->launches)),
        .reductions = allocate(n * PULL, sizeof(*row->reductions)),
        .moves = allocate(n, sizeof(*row->moves)),
        .barrier = group_of(group, rank)};
    next = row->launches;
    for (int i = 0; i < repetitions; i++) {
        for (int form = 0; form < PULL; form++) {
            struct symc_reduce_args *args = &row->reductions[i * PULL + form];

            describe_reduction(group, rank, i, (enum form)form, args);
            *next++ =
                (struct engine_launch){kernels[form], args, BLOCKS, THREADS};
        }
        describe_move(group, rank, i, &row->moves[i]);
        *next++ = (struct engine_launch){
            kernels[PULL], &row->moves[i], BLOCKS, THREADS};
        *next++ =
            (struct engine_launch){symc_barrier, &row->barrier, 1, THREADS};
    }
}

static void release(struct row *row)
{
    free(row->launches);
    free(row->reductions);
    free(row->moves);
}

/* ---- expected values ---- */

static void expect_sum(const struct group *group, int number, float *sum)
{
    const struct symc_reduction reduction = {
        .dtype = SYMMCOLL_FLOAT32, .op = SYMMCOLL_SUM, .block = group->size};
    const void *sources[GROUP_RANKS];

    for (int r = 0; r < group->size; r++)
        sources[r] = in_of(group, r, number);
    symc_reduce(&reduction, sum, NULL, sources, group->size, COUNT, false);
}

static bool is_right(const struct group *group, int rank, int number)
{
    float sum[COUNT];
    bool right = true;
    int form = 0;

    expect_sum(group, number, sum);
    for (; right && form < PULL; form++)
        right = group_is_same(sum, out_of(group, rank, number, (enum form)form),
            COUNT, SYMMCOLL_FLOAT32);
    for (int r = 0; right && r < group->size; r++)
        right = memcmp(out_of(group, rank, number, PULL) + (size_t)r * PITCH,
                    in_of(group, r, number), NBYTES) == 0;
    if (!right)
        diag("%d ranks: repetition %d of rank %d, kernel %d", group->size,
            number, rank, form);
    return right;
}

static void fill(struct group *group)
{
    for (int r = 0; r < group->size; r++) {
        float *at = (float *)(void *)group->in[r];

        for (size_t i = 0; i < group->sizes.in / sizeof(*at); i++)
            at[i] = ((float)(group_draw() % 4001) - 2000) / 64;
    }
}

static bool repeat(int size, int repetitions)
{
    const struct sizes sizes = {.data = PITCH,
        .in = (size_t)INPUTS * PITCH,
        .out = (size_t)repetitions * FORMS * (size_t)size * PITCH,
        .shift = sizeof(float)};
    struct row rows[GROUP_RANKS];
    struct group group;
    bool right;

    group_open(&group, size, &sizes);
    fill(&group);
    for (int r = 0; r < size; r++) {
        describe(&group, r, repetitions, &rows[r]);
        group.streams[r] =
            (struct engine_stream){rows[r].launches, repetitions * (FORMS + 1)};
    }
    right = group_run(&group);
    for (int r = 0; r < size; r++) {
        for (int i = 0; right && i < repetitions; i++)
            right = is_right(&group, r, i);
        release(&rows[r]);
    }
    group_close(&group);
    return right;
}

static bool check_repetitions(int rounds)
{
    return repeat(2, rounds) && repeat(4, rounds) && repeat(8, rounds);
}

const struct check checks_of_repetitions[] = {
    {"all", "a few in turn, again and again, of 2, 4 and 8 ranks",
        check_repetitions, 1000},
    {.file = NULL},
};
