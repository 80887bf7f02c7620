/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernels of reductions against symc_reduce(): 1 to 9 ranks, odd
 * counts, misaligned elements, in place and not, copied and not, and several
 * in a row with different elements, so that one overwrites the input of
 * another. Sums by a switch are checked against their bound.
 */
#include "base/reduce.h"
#include "t/kernels/bound.h"
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

#define IN_A_ROW 3

enum form {
    ONE_SHOT,
    TWO_SHOT,
    REDUCE_SCATTER,
    PACKETS,
    MULTIMEM_ONE_SHOT,
    MULTIMEM_TWO_SHOT,
    FORMS
};

#define DECLARE(name)                              \
    void symc_one_shot_##name(const void *);       \
    void symc_two_shot_##name(const void *);       \
    void symc_reduce_scatter_##name(const void *); \
    void symc_packets_##name(const void *);
#define DECLARE_MULTIMEM(name)                        \
    void symc_multimem_one_shot_##name(const void *); \
    void symc_multimem_two_shot_##name(const void *);
#define KERNELS(name)                                                       \
    symc_one_shot_##name, symc_two_shot_##name, symc_reduce_scatter_##name, \
        symc_packets_##name
#define MULTIMEM(name) \
    symc_multimem_one_shot_##name, symc_multimem_two_shot_##name

DECLARE(u8)
DECLARE(i8)
DECLARE(i16)
DECLARE(i32)
DECLARE(i64)
DECLARE(f16)
DECLARE(bf16)
DECLARE(f32)
DECLARE(f64)
DECLARE(bool)
DECLARE(u16)
DECLARE(u32)
DECLARE(u64)
DECLARE_MULTIMEM(f16)
DECLARE_MULTIMEM(bf16)
DECLARE_MULTIMEM(f32)

static const struct kernels {
    enum symmcoll_dtype dtype;
    kernel_fn of[FORMS];
} table[] = {
    {SYMMCOLL_FLOAT16, {KERNELS(f16), MULTIMEM(f16)}},
    {SYMMCOLL_BFLOAT16, {KERNELS(bf16), MULTIMEM(bf16)}},
    {SYMMCOLL_FLOAT32, {KERNELS(f32), MULTIMEM(f32)}},
    {SYMMCOLL_UINT8, {KERNELS(u8)}},
    {SYMMCOLL_INT8, {KERNELS(i8)}},
    {SYMMCOLL_INT16, {KERNELS(i16)}},
    {SYMMCOLL_INT32, {KERNELS(i32)}},
    {SYMMCOLL_INT64, {KERNELS(i64)}},
    {SYMMCOLL_FLOAT64, {KERNELS(f64)}},
    {SYMMCOLL_BOOL, {KERNELS(bool)}},
    {SYMMCOLL_UINT16, {KERNELS(u16)}},
    {SYMMCOLL_UINT32, {KERNELS(u32)}},
    {SYMMCOLL_UINT64, {KERNELS(u64)}},
};
#define NTYPES ((int)(sizeof(table) / sizeof(table[0])))

/* An operation to check. */
struct point {
    const struct kernels *kernels;
    symmcoll_op_t op;
    enum form form;
    int size, root;            /* root: -1: all ranks have the result */
    size_t count, rows, shift; /* shift in elements */
    size_t nbytes, pitch; /* of a result, or a slice; from one to the next */
    bool in_place, copied, by_switch;
    uint32_t blocks, threads;
};

/* A reduction of one rank, and the work around it on its stream. */
struct step {
    struct copying put, take;
    struct symc_reduce_args args;
};

/* ---- drawing ---- */

static size_t draw_count(const struct point *point)
{
    const size_t element = symmcoll_dtype_size(point->kernels->dtype);
    const uint32_t kind = group_draw() % 16;

    if (point->form == PACKETS)
        return group_draw() % (256 / element);
    if (kind < 6)
        return group_draw() % 6;
    return group_draw() % (kind < 15 ? 60 : machine.elements_max);
}

static uint32_t divide(size_t nbytes, size_t by)
{
    return (uint32_t)((nbytes + by - 1) / by);
}

static struct point draw_point(enum form form, int round)
{
    struct point point = {.kernels = &table[round % NTYPES],
        .op = (symmcoll_op_t)(round / NTYPES % (SYMMCOLL_PREMUL_SUM + 1)),
        .form = form,
        .size = 1 + (int)(group_draw() % GROUP_RANKS),
        .root = -1,
        .rows = 1,
        .shift = group_draw() % 3 == 0 ? group_draw() % 5 : 0,
        .copied = form == PACKETS || group_draw() % 2 == 0,
        .blocks = machine_draw_blocks()};
    const size_t element = symmcoll_dtype_size(point.kernels->dtype);

    if (form >= MULTIMEM_ONE_SHOT)
        point.op = SYMMCOLL_SUM;
    if (group_draw() % 4 == 0)
        point.size = 2 << group_draw() % 3;
    point.count = draw_count(&point);
    point.threads = machine_draw_threads(point.size);
    if (point.threads < 2)
        point.threads = 2; /* in place the blocks would be too many */
    if ((form == PACKETS || form == ONE_SHOT || form == MULTIMEM_ONE_SHOT) &&
        group_draw() % 4 == 0)
        point.root = (int)(group_draw() % (uint32_t)point.size);
    if (form == ONE_SHOT || form == TWO_SHOT || form == MULTIMEM_TWO_SHOT)
        point.in_place = group_draw() % 2 == 0;
    if (form == REDUCE_SCATTER && !point.copied)
        point.rows = 1 + group_draw() % 3;
    if (form == ONE_SHOT && point.in_place) {
        point.count %= 100;
        point.blocks += divide(point.count * element, 16 * point.threads);
    }
    if (form == PACKETS)
        point.blocks += divide(point.count * element, 8 * point.threads);
    if (form >= MULTIMEM_ONE_SHOT)
        point.by_switch = group_draw() % 2 == 0;
    point.nbytes = point.count * element;
    point.pitch = (point.nbytes * point.rows + 15) / 16 * 16;
    return point;
}

/* Fills with random bits, or for floats with similar numbers; their sums are
 * exact in float32, except on a switch. */
static void fill(const struct point *point, void *at, size_t nbytes)
{
    const enum symmcoll_dtype dtype = point->kernels->dtype;
    const size_t n = nbytes / symmcoll_dtype_size(dtype);

    group_fill(at, nbytes);
    if (group_draw() % 2 == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const uint32_t drawn = group_draw();
        const double value = point->by_switch
                                 ? ((double)drawn - 0x1p31) * 0x1p-26
                                 : ((double)(drawn % 4001) - 2000) / 64;
        const float single = (float)value;
        uint16_t half = symc_float_to_half(single);

        if (dtype == SYMMCOLL_BFLOAT16)
            half = symc_float_to_bfloat16(single);
        if (dtype == SYMMCOLL_FLOAT64)
            memcpy((char *)at + i * sizeof(value), &value, sizeof(value));
        else if (dtype == SYMMCOLL_FLOAT32)
            memcpy((char *)at + i * sizeof(single), &single, sizeof(single));
        else if (dtype == SYMMCOLL_FLOAT16 || dtype == SYMMCOLL_BFLOAT16)
            memcpy((char *)at + i * sizeof(half), &half, sizeof(half));
    }
}

/* ---- running ---- */

static double factor_of(int rank)
{
    return 0.3 + rank;
}

static size_t slices_of(const struct point *point)
{
    return point->form == REDUCE_SCATTER ? (size_t)point->size : 1;
}

static bool receives(const struct point *point, int rank)
{
    return point->root < 0 || point->root == rank;
}

static void describe(const struct point *point, struct group *group, int rank,
    int number, struct step *step)
{
    const size_t whole = slices_of(point) * point->pitch;
    unsigned char *in = group->in[rank] + (size_t)number * whole,
                  *out = group->out[rank] + (size_t)number * point->pitch,
                  *data = group_data(group, rank);

    step->put = (struct copying){data, in, whole};
    step->take = (struct copying){out, data, point->nbytes};
    step->args = (struct symc_reduce_args){.group = group_of(group, rank),
        .data = group_data_of(group),
        .in = point->copied ? in : NULL,
        .out = point->in_place ? NULL : out,
        .count = point->count,
        .rows = point->rows,
        /* Rows of the slices of all ranks, one after another. */
        .row_pitch = point->nbytes * (size_t)point->size,
        .data_pitch = point->rows > 1 ? point->nbytes : point->pitch,
        .in_pitch = point->pitch,
        .root = point->root < 0 ? SYMC_KERNEL_ALL : (uint32_t)point->root,
        .op = (uint32_t)point->op};
    for (int r = 0; r < point->size; r++)
        step->args.factors[r] = factor_of(r);
}

static void launch(const struct point *point, struct group *group, int rank,
    const struct step *step)
{
    if (!point->copied)
        group_launch_copy(group, rank, &step->put);
    group_launch(group, rank, point->kernels->of[point->form], &step->args,
        point->blocks, point->threads);
    if (point->in_place && receives(point, rank))
        group_launch_copy(group, rank, &step->take);
}

static void reduce_row(const struct point *point, const struct group *group,
    size_t at, unsigned char *expected)
{
    const void *sources[GROUP_RANKS];
    double factors[GROUP_RANKS];
    const struct symc_reduction reduction = {.dtype = point->kernels->dtype,
        .op = point->op,
        .block = point->size,
        .factors = factors};

    for (int r = 0; r < point->size; r++) {
        sources[r] = group->in[r] + at;
        factors[r] = factor_of(r);
    }
    symc_reduce(
        &reduction, expected, NULL, sources, point->size, point->count, false);
}

/* Returns an element as double, of a type that a switch adds. */
static double number_at(const void *at, enum symmcoll_dtype dtype)
{
    uint16_t half;
    float single;

    memcpy(&half, at, sizeof(half));
    if (dtype == SYMMCOLL_FLOAT16)
        return (double)symc_half_to_float(half);
    if (dtype == SYMMCOLL_BFLOAT16)
        return (double)symc_bfloat16_to_float(half);
    memcpy(&single, at, sizeof(single));
    return (double)single;
}

/* Checks the bound of sums that begin at an offset in each rank's input. */
static bool is_bounded(const struct point *point, const struct group *group,
    size_t at, const unsigned char *found)
{
    const enum symmcoll_dtype dtype = point->kernels->dtype;
    const size_t element = symmcoll_dtype_size(dtype);
    double numbers[GROUP_RANKS];

    for (size_t i = 0; i < point->count; i++) {
        for (int r = 0; r < point->size; r++)
            numbers[r] = number_at(group->in[r] + at + i * element, dtype);
        if (!bound_allows(
                found + i * element, dtype, numbers, point->size, 1)) {
            diag("sum %zu exceeds the bound", i);
            return false;
        }
    }
    return true;
}

/* Checks that all ranks have the same sum in two shots, since each element is
 * computed by one rank. */
static bool is_same_on_all(
    const struct point *point, const struct group *group, size_t at)
{
    for (int r = 1; point->form == MULTIMEM_TWO_SHOT && r < point->size; r++)
        if (memcmp(group->out[r] + at, group->out[0] + at, point->nbytes) != 0)
            return false;
    return true;
}

static bool is_right(
    const struct point *point, const struct group *group, int rank, int number)
{
    const unsigned char *found =
        group->out[rank] + (size_t)number * point->pitch;
    const size_t begin = (size_t)number * slices_of(point) * point->pitch;
    unsigned char *expected = malloc(point->nbytes + 1);
    bool right = true;

    if (expected == NULL)
        abort();
    for (size_t row = 0; right && row < point->rows; row++) {
        size_t at = begin;

        if (point->rows > 1)
            at += (row * (size_t)point->size + (size_t)rank) * point->nbytes;
        else if (point->form == REDUCE_SCATTER)
            at += (size_t)rank * point->pitch;
        reduce_row(point, group, at, expected);
        if (group->multicast != NULL)
            right = is_bounded(point, group, at, found) &&
                    is_same_on_all(point, group, (size_t)number * point->pitch);
        else
            right = group_is_same(expected, found + row * point->nbytes,
                point->count, point->kernels->dtype);
        if (right)
            continue;
        diag("%s, %s, %d ranks, root %d, %zu elements shifted by %zu, %u "
             "blocks of %u, %s, %s, %s: number %d of rank %d",
            symmcoll_dtype_name(point->kernels->dtype),
            symmcoll_op_name(point->op), point->size, point->root, point->count,
            point->shift, point->blocks, point->threads,
            point->in_place ? "in place" : "to out",
            point->copied ? "copied" : "there",
            group->multicast != NULL ? "by a switch" : "one by one", number,
            rank);
    }
    free(expected);
    return right;
}

static bool check(const struct point *point)
{
    const size_t whole = slices_of(point) * point->pitch;
    const struct sizes sizes = {.data = whole,
        .in = IN_A_ROW * whole,
        .out = IN_A_ROW * point->pitch,
        .shift = point->shift * symmcoll_dtype_size(point->kernels->dtype)};
    struct step(*steps)[IN_A_ROW] = calloc((size_t)point->size, sizeof(*steps));
    struct group group;
    bool right;

    if (steps == NULL)
        abort();
    group_open(&group, point->size, &sizes);
    if (point->by_switch)
        group_open_multicast(&group);
    for (int r = 0; r < point->size; r++) {
        fill(point, group.in[r], sizes.in);
        for (int i = 0; i < IN_A_ROW; i++) {
            describe(point, &group, r, i, &steps[r][i]);
            launch(point, &group, r, &steps[r][i]);
        }
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

static bool check_form(enum form form, int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const struct point point = draw_point(form, i);

        if (point.kernels->of[form] != NULL &&
            symc_reduce_find(point.kernels->dtype, point.op) != NULL)
            right = check(&point);
    }
    return right;
}

static bool check_one_shot(int rounds)
{
    return check_form(ONE_SHOT, rounds);
}

static bool check_two_shot(int rounds)
{
    return check_form(TWO_SHOT, rounds);
}

static bool check_reduce_scatter(int rounds)
{
    return check_form(REDUCE_SCATTER, rounds);
}

static bool check_packets(int rounds)
{
    return check_form(PACKETS, rounds);
}

static bool check_multimem_one_shot(int rounds)
{
    return check_form(MULTIMEM_ONE_SHOT, rounds);
}

static bool check_multimem_two_shot(int rounds)
{
    return check_form(MULTIMEM_TWO_SHOT, rounds);
}

const struct check checks_of_reductions[] = {
    {"one_shot.h", "each rank, or the root, has the bits of symc_reduce()",
        check_one_shot, 1200},
    {"two_shot.h", "each rank has the bits of symc_reduce()", check_two_shot,
        1200},
    {"reduce_scatter.h", "each rank has its slice of the bits of symc_reduce()",
        check_reduce_scatter, 1200},
    {"packets.h", "each rank, or the root, has the bits of symc_reduce()",
        check_packets, 1200},
    {"multimem.h",
        "one-shot: the bits of symc_reduce() where ranks are read one by one, "
        "by a switch sums within their bound",
        check_multimem_one_shot, 1200},
    {"multimem.h",
        "two-shot: the bits of symc_reduce() where ranks are read one by one, "
        "by a switch sums within their bound, the same on all",
        check_multimem_two_shot, 1200},
    {.file = NULL},
};
