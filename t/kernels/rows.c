/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernel by which one rank reduces rows of all ranks' elements,
 * between two barriers, against symc_reduce(): 1 to 9 ranks, odd counts,
 * misaligned elements, and several in a row with different elements, so that
 * one overwrites the input of another.
 */
#include "base/reduce.h"
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

#define IN_A_ROW 3

void symc_barrier(const void *args);

#define EACH(what)                                                       \
    what(u8) what(i8) what(i16) what(i32) what(i64) what(f16) what(bf16) \
        what(f32) what(f64) what(bool) what(u16) what(u32) what(u64)
#define DECLARE(name) void symc_reduce_rows_##name(const void *);
EACH(DECLARE)

static const struct kernel {
    enum symmcoll_dtype dtype;
    kernel_fn kernel;
} table[] = {
    {SYMMCOLL_FLOAT32, symc_reduce_rows_f32},
    {SYMMCOLL_BFLOAT16, symc_reduce_rows_bf16},
    {SYMMCOLL_FLOAT16, symc_reduce_rows_f16},
    {SYMMCOLL_FLOAT64, symc_reduce_rows_f64},
    {SYMMCOLL_UINT8, symc_reduce_rows_u8},
    {SYMMCOLL_INT8, symc_reduce_rows_i8},
    {SYMMCOLL_INT16, symc_reduce_rows_i16},
    {SYMMCOLL_INT32, symc_reduce_rows_i32},
    {SYMMCOLL_INT64, symc_reduce_rows_i64},
    {SYMMCOLL_BOOL, symc_reduce_rows_bool},
    {SYMMCOLL_UINT16, symc_reduce_rows_u16},
    {SYMMCOLL_UINT32, symc_reduce_rows_u32},
    {SYMMCOLL_UINT64, symc_reduce_rows_u64},
};
#define NTYPES ((int)(sizeof(table) / sizeof(table[0])))

/* A case to check. Each rank reduces its own block of rows. */
struct point {
    const struct kernel *kernel;
    symmcoll_op_t op;
    int size;
    size_t element, count, rows, shift;  /* shift in elements */
    size_t nbytes, row_pitch, out_pitch; /* of a row; to the next one */
    size_t block, out_nbytes;            /* of a rank's rows, in and out */
    uint32_t blocks, threads;
};

struct step {
    struct copying put;
    struct symc_device_group barrier;
    struct symc_reduce_args args;
};

static struct point draw_point(int round)
{
    const uint32_t kind = group_draw() % 16;
    struct point point = {.kernel = &table[round % NTYPES],
        .op = (symmcoll_op_t)(round / NTYPES % (SYMMCOLL_PREMUL_SUM + 1)),
        .size = 1 + (int)(group_draw() % GROUP_RANKS),
        .count = group_draw() % (kind < 6       ? 6
                                    : kind < 15 ? 60
                                                : machine.elements_max),
        .rows = 1 + group_draw() % 4,
        .shift = group_draw() % 3 == 0 ? group_draw() % 5 : 0,
        .blocks = machine_draw_blocks(),
        .threads = machine_draw_threads(1)};
    size_t gap = group_draw() % 3;

    if (group_draw() % 4 == 0)
        point.size = 2 << group_draw() % 3;
    point.element = symmcoll_dtype_size(point.kernel->dtype);
    point.nbytes = point.count * point.element;
    point.row_pitch = point.nbytes + gap * 16;
    point.out_pitch = point.nbytes + group_draw() % 3 * point.element;
    if (gap == 2)
        point.row_pitch = (point.nbytes + 15) / 16 * 16;
    point.block = point.rows * point.row_pitch;
    point.out_nbytes = point.rows * point.out_pitch;
    return point;
}

static double factor_of(int rank)
{
    return 0.7 - 0.2 * rank;
}

static size_t whole_of(const struct point *point)
{
    return (size_t)point->size * point->block;
}

static void describe(const struct point *point, struct group *group, int rank,
    int number, struct step *step)
{
    size_t whole = whole_of(point);
    unsigned char *data = group_data(group, rank),
                  *out = group->out[rank] + (size_t)number * point->out_nbytes;

    step->put =
        (struct copying){data, group->in[rank] + (size_t)number * whole, whole};
    step->barrier = group_of(group, rank);
    step->args = (struct symc_reduce_args){.group = step->barrier,
        .data = group_data_of(group),
        .out = out,
        .count = point->count,
        .rows = point->rows,
        .row_pitch = point->row_pitch,
        .out_pitch = point->out_pitch,
        .op = (uint32_t)point->op};
    step->args.data.offset += (size_t)rank * point->block;
    for (int r = 0; r < point->size; r++)
        step->args.factors[r] = factor_of(r);
}

static void launch(const struct point *point, struct group *group, int rank,
    const struct step *step)
{
    group_launch_copy(group, rank, &step->put);
    group_launch(
        group, rank, symc_barrier, &step->barrier, 1, (uint32_t)point->size);
    group_launch(group, rank, point->kernel->kernel, &step->args, point->blocks,
        point->threads);
    group_launch(
        group, rank, symc_barrier, &step->barrier, 1, (uint32_t)point->size);
}

/* Reduces a row of a block with the reference. */
static void reduce_row(const struct point *point, const struct group *group,
    size_t at, unsigned char *expected)
{
    const void *sources[GROUP_RANKS];
    double factors[GROUP_RANKS];
    const struct symc_reduction reduction = {.dtype = point->kernel->dtype,
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

/* Checks the rows in a rank's output, and that the bytes between them are
 * unchanged. */
static bool is_right(const struct point *point, const struct group *group,
    int rank, int number, const unsigned char *before)
{
    const size_t begin = (size_t)number * point->out_nbytes;
    const size_t from =
        (size_t)number * whole_of(point) + (size_t)rank * point->block;
    unsigned char *expected = malloc(point->nbytes + 1);
    bool right = true;

    if (expected == NULL)
        abort();
    for (size_t row = 0; right && row < point->rows; row++) {
        const size_t at = begin + row * point->out_pitch;
        const size_t end = at + point->nbytes;

        reduce_row(point, group, from + row * point->row_pitch, expected);
        right = group_is_same(expected, group->out[rank] + at, point->count,
                    point->kernel->dtype) &&
                memcmp(group->out[rank] + end, before + end,
                    point->out_pitch - point->nbytes) == 0;
        if (right)
            continue;
        diag("%s, %s, %d ranks, %zu rows of %zu elements shifted by %zu, %u "
             "blocks of %u: row %zu of number %d of rank %d",
            symmcoll_dtype_name(point->kernel->dtype),
            symmcoll_op_name(point->op), point->size, point->rows, point->count,
            point->shift, point->blocks, point->threads, row, number, rank);
    }
    free(expected);
    return right;
}

/* Fills with numbers if floats are reduced, because NaN has other bits. */
static void fill(void *at, size_t nbytes, enum symmcoll_dtype dtype)
{
    group_fill(at, nbytes);
    for (size_t i = 0; dtype == SYMMCOLL_FLOAT32 && i < nbytes / 4; i++) {
        const float value = ((float)(group_draw() % 4001) - 2000) / 64;

        memcpy((char *)at + 4 * i, &value, sizeof(value));
    }
}

static bool check(const struct point *point)
{
    const struct sizes sizes = {.data = whole_of(point),
        .in = IN_A_ROW * whole_of(point),
        .out = IN_A_ROW * point->out_nbytes,
        .shift = point->shift * point->element};
    struct step(*steps)[IN_A_ROW] = calloc((size_t)point->size, sizeof(*steps));
    unsigned char *before = malloc((size_t)point->size * sizes.out + 1);
    struct group group;
    bool right;

    if (steps == NULL || before == NULL)
        abort();
    group_open(&group, point->size, &sizes);
    for (int r = 0; r < point->size; r++) {
        fill(group.in[r], sizes.in, point->kernel->dtype);
        memcpy(before + (size_t)r * sizes.out, group.out[r], sizes.out);
        for (int i = 0; i < IN_A_ROW; i++) {
            describe(point, &group, r, i, &steps[r][i]);
            launch(point, &group, r, &steps[r][i]);
        }
    }
    right = group_run(&group);
    for (int r = 0; right && r < point->size; r++)
        for (int i = 0; right && i < IN_A_ROW; i++)
            right =
                is_right(point, &group, r, i, before + (size_t)r * sizes.out);
    group_close(&group);
    free(before);
    free(steps);
    return right;
}

static bool check_rows(int rounds)
{
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        const struct point point = draw_point(i);

        if (symc_reduce_find(point.kernel->dtype, point.op) != NULL)
            right = check(&point);
    }
    return right;
}

const struct check checks_of_rows[] = {
    {"reduce_rows.h", "each rank has its rows of the bits of symc_reduce()",
        check_rows, 1200},
    {.file = NULL},
};
