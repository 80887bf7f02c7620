/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernel that exchanges parts of unlike sizes against memcpy(): 1
 * to 9 ranks, several consecutive launches like those of a large exchange,
 * each with its own sizes.
 */
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

void symc_exchange(const void *args);

#define IN_A_ROW 3
#define MOST 300 /* bytes from one rank to another one */

struct point {
    int size;
    size_t shift, pitch; /* of slots */
    uint32_t blocks, threads;
    size_t nbytes[IN_A_ROW][GROUP_RANKS][GROUP_RANKS]; /* from, to */
};

struct step {
    struct copying overwrite;
    struct symc_exchange_args args;
};

static void draw_point(struct point *point)
{
    *point = (struct point){.size = 1 + (int)(group_draw() % GROUP_RANKS),
        .shift = group_draw() % 2 == 0 ? 0 : group_draw() % 16,
        .blocks = machine_draw_blocks()};
    point->pitch = MOST + group_draw() % 2 * (304 - MOST);
    point->threads = machine_draw_threads(point->size);
    for (int i = 0; i < IN_A_ROW; i++)
        for (int from = 0; from < point->size; from++)
            for (int to = 0; to < point->size; to++)
                point->nbytes[i][from][to] =
                    group_draw() % 4 == 0 ? 0 : group_draw() % (MOST + 1);
}

/* Returns the offset of a part, both in `in` of its sender and in `out` of its
 * receiver. Parts are separated by gaps, and the part for the last rank comes
 * first. */
static size_t place_of(const struct point *point, int number, int peer)
{
    return ((size_t)number * (size_t)point->size +
               (size_t)(point->size - 1 - peer)) *
           (MOST + 4);
}

static void describe(const struct point *point, struct group *group, int rank,
    int number, struct step *step)
{
    step->overwrite = (struct copying){
        group_data(group, rank), group->in[rank], group->sizes.data};
    step->args = (struct symc_exchange_args){.group = group_of(group, rank),
        .data = group_data_of(group),
        .in = group->in[rank],
        .out = group->out[rank],
        .pitch = point->pitch};
    for (int r = 0; r < point->size; r++) {
        step->args.send_at[r] = place_of(point, number, r);
        step->args.receive_at[r] = place_of(point, number, r);
        step->args.send_nbytes[r] = point->nbytes[number][rank][r];
        step->args.receive_nbytes[r] = point->nbytes[number][r][rank];
    }
}

static bool is_right(
    const struct point *point, const struct group *group, int rank, int number)
{
    for (int from = 0; from < point->size; from++) {
        if (memcmp(group->out[rank] + place_of(point, number, from),
                group->in[from] + place_of(point, number, rank),
                point->nbytes[number][from][rank]) == 0)
            continue;
        diag("exchange, %d ranks, shifted by %zu, %u blocks of %u: number %d "
             "of rank %d, %zu bytes from %d",
            point->size, point->shift, point->blocks, point->threads, number,
            rank, point->nbytes[number][from][rank], from);
        return false;
    }
    return true;
}

static bool check(const struct point *point)
{
    const size_t n = (size_t)point->size, whole = IN_A_ROW * n * (MOST + 4);
    const struct sizes sizes = {.data = n * point->pitch,
        .in = whole,
        .out = whole,
        .shift = point->shift};
    struct step(*steps)[IN_A_ROW] = calloc(n, sizeof(*steps));
    struct group group;
    bool right;

    if (steps == NULL)
        abort();
    group_open(&group, point->size, &sizes);
    for (int r = 0; r < point->size; r++) {
        for (int i = 0; i < IN_A_ROW; i++) {
            describe(point, &group, r, i, &steps[r][i]);
            group_launch(&group, r, symc_exchange, &steps[r][i].args,
                point->blocks, point->threads);
        }
        group_launch_copy(&group, r, &steps[r][0].overwrite);
    }
    right = group_run(&group);
    for (int r = 0; right && r < point->size; r++)
        for (int i = 0; right && i < IN_A_ROW; i++)
            right = is_right(point, &group, r, i);
    group_close(&group);
    free(steps);
    return right;
}

static bool check_exchange(int rounds)
{
    struct point point;
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        draw_point(&point);
        right = check(&point);
    }
    return right;
}

const struct check checks_of_exchanges[] = {
    {"exchange.h", "each rank has what it is sent, of unlike sizes",
        check_exchange, 500},
    {.file = NULL},
};
