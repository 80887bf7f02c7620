/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernel that writes each row to its own place against memcpy(): 1
 * to 9 ranks, odd sizes, misaligned rows, ranks without rows, and rows of
 * several chunks.
 */
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

void symc_push_rows(const void *args);
void symc_barrier(const void *args);

#define ROWS_MOST 12 /* of a rank */

struct point {
    int size;
    size_t nbytes, shift;
    size_t counts[GROUP_RANKS];
    /* Destination of each row of each rank: every rank has space for all
     * rows. */
    int to[GROUP_RANKS][ROWS_MOST];
    uint32_t blocks, threads;
};

struct step {
    struct symc_device_group barrier;
    struct symc_push_args args;
    struct copying take;
};

static size_t slots_of(const struct point *point)
{
    return (size_t)point->size * ROWS_MOST;
}

/* Returns the slot of a row, which no other row has. */
static size_t slot_of(const struct point *point, int rank, size_t i)
{
    return slots_of(point) - 1 - ((size_t)rank * ROWS_MOST + i);
}

static void draw_point(struct point *point)
{
    const uint32_t kind = group_draw() % 16;

    *point = (struct point){.size = 1 + (int)(group_draw() % GROUP_RANKS),
        .nbytes = group_draw() % 90,
        .shift = group_draw() % 2 == 0 ? 0 : group_draw() % 16,
        .blocks = machine_draw_blocks()};
    if (kind < 6)
        point->nbytes = point->nbytes / 16 * 16;
    if (kind == 6) {
        point->nbytes += 33000;
        point->size = 2;
    }
    point->threads = machine_draw_threads(point->size);
    for (int r = 0; r < point->size; r++) {
        point->counts[r] = group_draw() % (ROWS_MOST + 1);
        for (int i = 0; i < ROWS_MOST; i++)
            point->to[r][i] = (int)(group_draw() % (uint32_t)point->size);
    }
}

static void launch(
    const struct point *point, struct group *group, int rank, struct step *step)
{
    step->barrier = group_of(group, rank);
    step->args = (struct symc_push_args){.data = group_data_of(group),
        .in = group->in[rank],
        .row_nbytes = point->nbytes,
        .count = point->counts[rank]};
    for (size_t i = 0; i < point->counts[rank]; i++)
        step->args.to[i] =
            SYMC_PUSH_TO(point->to[rank][i], slot_of(point, rank, i));
    step->take = (struct copying){
        group->out[rank], group_data(group, rank), group->sizes.data};
    group_launch(group, rank, symc_barrier, &step->barrier, 1, point->threads);
    group_launch(group, rank, symc_push_rows, &step->args, point->blocks,
        point->threads);
    group_launch(group, rank, symc_barrier, &step->barrier, 1, point->threads);
    group_launch_copy(group, rank, &step->take);
}

static bool is_right(
    const struct point *point, const struct group *group, int rank)
{
    for (size_t i = 0; i < point->counts[rank]; i++) {
        const int to = point->to[rank][i];

        if (memcmp(group->out[to] + slot_of(point, rank, i) * point->nbytes,
                group->in[rank] + i * point->nbytes, point->nbytes) == 0)
            continue;
        diag("%d ranks, rows of %zu bytes shifted by %zu, %u blocks of %u: "
             "row %zu of rank %d to %d",
            point->size, point->nbytes, point->shift, point->blocks,
            point->threads, i, rank, to);
        return false;
    }
    return true;
}

/* Checks that rows without a source are unchanged. */
static bool is_untouched(const struct point *point, const struct group *group,
    const unsigned char *before, int to)
{
    for (int r = 0; r < point->size; r++)
        for (size_t i = 0; i < ROWS_MOST; i++) {
            const size_t at = slot_of(point, r, i) * point->nbytes;

            if ((i >= point->counts[r] || point->to[r][i] != to) &&
                memcmp(group->out[to] + at, before + at, point->nbytes) != 0)
                return false;
        }
    return true;
}

static bool check(const struct point *point)
{
    const size_t nbytes = slots_of(point) * point->nbytes;
    const struct sizes sizes = {.data = nbytes,
        .in = ROWS_MOST * point->nbytes,
        .out = nbytes,
        .shift = point->shift};
    struct step *steps = calloc((size_t)point->size, sizeof(*steps));
    unsigned char *before = malloc(nbytes * (size_t)point->size + 1);
    struct group group;
    bool right;

    if (steps == NULL || before == NULL)
        abort();
    group_open(&group, point->size, &sizes);
    for (int r = 0; r < point->size; r++) {
        memcpy(before + (size_t)r * nbytes, group_data(&group, r), nbytes);
        launch(point, &group, r, &steps[r]);
    }
    right = group_run(&group);
    for (int r = 0; right && r < point->size; r++)
        right = is_right(point, &group, r) &&
                is_untouched(point, &group, before + (size_t)r * nbytes, r);
    group_close(&group);
    free(before);
    free(steps);
    return right;
}

static bool check_pushes(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        struct point point;

        draw_point(&point);
        right = check(&point);
    }
    return right;
}

const struct check checks_of_pushes[] = {
    {"push_rows.h", "each row is where it is to be, and nothing else changes",
        check_pushes, 300},
    {.file = NULL},
};
