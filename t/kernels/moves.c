/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernels that move bytes against memcpy(): 1 to 9 ranks, odd
 * sizes, misaligned bytes, and several in a row with different bytes.
 */
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

void symc_pull(const void *args);
void symc_multimem_all_gather(const void *args);
void symc_barrier(const void *args);

#define IN_A_ROW 3

enum form {
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    SCATTER,
    GATHER,
    FORMS
};
static const char *const form_names[] = {
    "all-gather", "all-to-all", "broadcast", "scatter", "gather"};

struct point {
    enum form form;
    int size, root;
    size_t nbytes, shift;
    size_t in_pitch, pitch, out_pitch; /* pitch: of data */
    bool copied, multimem, by_switch;
    uint32_t blocks, threads;
};

struct step {
    struct copying put, take;
    struct symc_move_args args;
};

static bool has_slices(const struct point *point)
{
    return point->form == ALL_TO_ALL || point->form == SCATTER;
}

/* Returns whether a rank passes an input (passes) or receives an output. */
static bool passes(const struct point *point, int rank)
{
    return (point->form != BROADCAST && point->form != SCATTER) ||
           rank == point->root;
}

static bool receives(const struct point *point, int rank)
{
    return point->form != GATHER || rank == point->root;
}

static int sources_of(const struct point *point)
{
    return point->form == BROADCAST || point->form == SCATTER ? 1 : point->size;
}

static size_t in_nbytes(const struct point *point)
{
    return point->in_pitch * (has_slices(point) ? (size_t)point->size : 1);
}

static size_t out_nbytes(const struct point *point)
{
    return point->out_pitch * (size_t)sources_of(point);
}

/* Returns the size of a rank's data area, which is overwritten with as many
 * bytes as the input has. */
static size_t data_nbytes(const struct point *point)
{
    const size_t nbytes =
        point->pitch * (has_slices(point) ? (size_t)point->size : 1);
    const size_t more = in_nbytes(point) > out_nbytes(point)
                            ? in_nbytes(point)
                            : out_nbytes(point);

    return nbytes > more ? nbytes : more;
}

static size_t draw_pitch(size_t nbytes)
{
    return group_draw() % 2 == 0 ? (nbytes + 15) / 16 * 16
                                 : nbytes + group_draw() % 3 * 8;
}

static struct point draw_point(enum form form)
{
    struct point point = {.form = form,
        .size = 1 + (int)(group_draw() % GROUP_RANKS),
        .nbytes = group_draw() % (group_draw() % 2 == 0 ? 20 : 700),
        .shift = group_draw() % 3 != 0 ? 0 : group_draw() % 17,
        .copied = group_draw() % 2 == 0,
        .blocks = machine_draw_blocks()};

    if (group_draw() % 3 == 0)
        point.nbytes = point.nbytes / 4 * 4;
    point.pitch = draw_pitch(point.nbytes);
    /* Bytes that are already in place were written with the pitch of in. */
    point.in_pitch = point.copied ? draw_pitch(point.nbytes) : point.pitch;
    point.out_pitch = draw_pitch(point.nbytes);
    point.root = (int)(group_draw() % (uint32_t)point.size);
    point.threads = machine_draw_threads(point.size);
    return point;
}

static void describe(const struct point *point, struct group *group, int rank,
    int number, struct step *step)
{
    const uint32_t slices = has_slices(point) ? (uint32_t)point->size : 1;
    unsigned char *in = group->in[rank] + (size_t)number * in_nbytes(point),
                  *out = group->out[rank] + (size_t)number * out_nbytes(point);
    const bool roots = sources_of(point) == 1;

    step->put = (struct copying){group_data(group, rank), in, in_nbytes(point)};
    step->take =
        (struct copying){out, group_data(group, rank), out_nbytes(point)};
    step->args = (struct symc_move_args){.group = group_of(group, rank),
        .data = group_data_of(group),
        .in = point->copied && passes(point, rank) ? in : NULL,
        .out = out,
        .nbytes = point->nbytes,
        .in_pitch = point->in_pitch,
        .data_pitch = point->pitch,
        .out_pitch = point->out_pitch,
        .begin = has_slices(point) ? (size_t)rank * point->pitch : 0,
        .slices = passes(point, rank) ? slices : 0,
        .first = roots ? (uint32_t)point->root : 0,
        .sources = receives(point, rank) ? (uint32_t)sources_of(point) : 0};
}

static void launch(const struct point *point, struct group *group, int rank,
    const struct step *step)
{
    if (!point->copied)
        group_launch_copy(group, rank, &step->put);
    group_launch(group, rank,
        point->multimem ? symc_multimem_all_gather : symc_pull, &step->args,
        point->blocks, point->threads);
    if (point->multimem)
        group_launch_copy(group, rank, &step->take);
}

static bool is_right(
    const struct point *point, const struct group *group, int rank, int number)
{
    const unsigned char *out =
        group->out[rank] + (size_t)number * out_nbytes(point);

    for (int s = 0; s < sources_of(point); s++) {
        const unsigned char *from =
            group->in[sources_of(point) == 1 ? point->root : s] +
            (size_t)number * in_nbytes(point);

        if (has_slices(point))
            from += (size_t)rank * point->in_pitch;
        if (memcmp(out + (size_t)s * point->out_pitch, from, point->nbytes) ==
            0)
            continue;
        diag("%s, %d ranks, root %d, %zu bytes shifted by %zu, pitches %zu, "
             "%zu and %zu, %u blocks of %u, %s: number %d of rank %d, from %d",
            form_names[point->form], point->size, point->root, point->nbytes,
            point->shift, point->in_pitch, point->pitch, point->out_pitch,
            point->blocks, point->threads, point->copied ? "copied" : "there",
            number, rank, s);
        return false;
    }
    return true;
}

static bool check(const struct point *point)
{
    const struct sizes sizes = {.data = data_nbytes(point),
        .in = IN_A_ROW * in_nbytes(point),
        .out = IN_A_ROW * out_nbytes(point),
        .shift = point->shift};
    struct step(*steps)[IN_A_ROW] = calloc((size_t)point->size, sizeof(*steps));
    struct group group;
    bool right;

    if (steps == NULL)
        abort();
    group_open(&group, point->size, &sizes);
    if (point->by_switch)
        group_open_multicast(&group);
    for (int r = 0; r < point->size; r++) {
        for (int i = 0; i < IN_A_ROW; i++) {
            describe(point, &group, r, i, &steps[r][i]);
            launch(point, &group, r, &steps[r][i]);
        }
        if (!point->multimem)
            group_launch_copy(&group, r, &steps[r][0].put);
    }
    right = group_run(&group);
    for (int r = 0; right && r < point->size; r++)
        for (int i = 0; right && i < IN_A_ROW && receives(point, r); i++)
            right = is_right(point, &group, r, i);
    group_close(&group);
    free(steps);
    return right;
}

static bool check_pull(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const struct point point = draw_point((enum form)(i % FORMS));

        right = check(&point);
    }
    return right;
}

static bool check_multimem(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        struct point point = draw_point(ALL_GATHER);

        point.multimem = true;
        point.by_switch = group_draw() % 2 == 0;
        point.copied = true;
        point.out_pitch = point.pitch; /* out is copied from data */
        right = check(&point);
    }
    return right;
}

/* ---- the barrier ---- */

/* Each rank counts its arrivals, and after the barrier checks the counts of
 * the others: plain words, which the barrier orders. */
struct arrival {
    struct group *group;
    int rank;
    bool *right;
};

static int *arrivals_of(const struct group *group, int rank)
{
    return (int *)(void *)group_data(group, rank);
}

static void arrive(const void *args)
{
    const struct arrival *arrival = args;

    ++*arrivals_of(arrival->group, arrival->rank);
}

static void look(const void *args)
{
    const struct arrival *arrival = args;

    for (int r = 0; r < arrival->group->size; r++)
        if (*arrivals_of(arrival->group, r) !=
            *arrivals_of(arrival->group, arrival->rank))
            *arrival->right = false;
}

static bool check_barriers_of(int size)
{
    const struct sizes sizes = {.data = 16};
    struct symc_device_group args[GROUP_RANKS];
    struct arrival arrivals[GROUP_RANKS];
    bool right[GROUP_RANKS], all = true;
    struct group group;

    group_open(&group, size, &sizes);
    for (int r = 0; r < size; r++) {
        const uint32_t threads = machine_draw_threads(size);

        right[r] = true;
        *arrivals_of(&group, r) = 0;
        args[r] = group_of(&group, r);
        arrivals[r] = (struct arrival){&group, r, &right[r]};
        for (int i = 0; i < 4; i++) {
            group_launch(&group, r, arrive, &arrivals[r], 1, 1);
            group_launch(&group, r, symc_barrier, &args[r], 1, threads);
            group_launch(&group, r, look, &arrivals[r], 1, 1);
            group_launch(&group, r, symc_barrier, &args[r], 1, threads);
        }
    }
    all = group_run(&group);
    for (int r = 0; r < size; r++)
        all = all && right[r];
    group_close(&group);
    return all;
}

static bool check_barrier(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++)
        right = check_barriers_of(1 + i % GROUP_RANKS);
    return right;
}

const struct check checks_of_moves[] = {
    {"moves.h", "each rank has the slices that it is sent", check_pull, 1000},
    {"multimem.h", "all-gather: each rank has the bytes of all", check_multimem,
        500},
    {"barrier.h", "nobody's ends before everybody's has begun", check_barrier,
        500},
    {.file = NULL},
};
