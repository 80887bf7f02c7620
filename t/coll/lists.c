/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests collectives with lists of buffers: parts of random counts against a
 * reference, also in place, around every size at which the algorithm changes;
 * and counts on which two ranks disagree.
 */
#include "../tap.h"
#include "data.h"

#include <string.h>

#define MOST 17 /* ranks */

/* A list of the parts of a rank, each in its own guarded buffer. */
struct list {
    struct guarded buffers[MOST];
    void *at[MOST];
    size_t counts[MOST];
    size_t elem;
    int size;
};

/* Returns the number of elements in a rank's part. */
static size_t part_of(unsigned seed, int rank, size_t most)
{
    return (seed * 31 + (unsigned)rank * 17) % 4 == 0
               ? 0
               : most - (size_t)rank * 7 % (most / 2 + 1);
}

static size_t pair_of(unsigned seed, int i, int j, size_t most)
{
    return part_of(seed + (unsigned)i, j, most);
}

static void open_list(struct list *list, int size, enum symmcoll_dtype dtype,
    const size_t *counts)
{
    list->size = size;
    list->elem = symmcoll_dtype_size(dtype);
    for (int r = 0; r < size; r++) {
        list->counts[r] = counts[r];
        list->buffers[r] =
            guarded_open(counts[r] * list->elem, (size_t)r % 3 * list->elem);
        list->at[r] = list->buffers[r].at;
    }
}

static bool close_list(struct list *list)
{
    bool intact = true;

    for (int r = 0; r < list->size; r++) {
        intact = intact && guarded_is_intact(&list->buffers[r]);
        guarded_close(&list->buffers[r]);
    }
    return intact;
}

/* Returns whether a buffer holds elements [first, first + count) of a rank. */
static bool holds(const void *at, enum symmcoll_dtype dtype, size_t first,
    size_t count, int rank, unsigned seed)
{
    struct guarded expected =
        guarded_open(count * symmcoll_dtype_size(dtype), 0);
    bool same;

    data_fill(expected.at, dtype, first, count, rank, seed);
    same = data_is_same("part", at, expected.at, expected.nbytes);
    guarded_close(&expected);
    return same;
}

static bool report(bool right, const char *what, int rank, size_t count)
{
    if (!right)
        diag("rank %d: %s of up to %zu: %s", rank, what, count,
            symmcoll_last_error());
    return right;
}

/* ---- all_gather ---- */

static bool gathers_all(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, unsigned seed, size_t most)
{
    int size = symmcoll_group_size(group);
    size_t counts[MOST] = {0};
    struct list outs;
    bool right;

    for (int r = 0; r < size; r++)
        counts[r] = seed == 0 ? most : part_of(seed, r, most);
    open_list(&outs, size, dtype, counts);
    data_fill(outs.at[rank], dtype, 0, counts[rank], rank, seed);

    struct guarded in = guarded_open(counts[rank] * outs.elem, 3);
    memcpy(in.at, outs.at[rank], in.nbytes);
    /* In place in some cases; equal counts may be omitted. */
    right = symmcoll_all_gather_list(group, outs.at, seed == 0 ? NULL : counts,
                most % 2 == 0 ? outs.at[rank] : in.at, counts[rank], dtype,
                NULL, NULL) == SYMMCOLL_OK;
    for (int r = 0; r < size; r++)
        right = right && holds(outs.at[r], dtype, 0, counts[r], r, seed);
    right = guarded_is_intact(&in) && right;
    guarded_close(&in);
    return report(close_list(&outs) && right, "all_gather_list", rank, most);
}

/* ---- reduce_scatter ---- */

static bool reduces_parts(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, symmcoll_op_t op, unsigned seed, size_t most)
{
    int size = symmcoll_group_size(group);
    size_t counts[MOST], first = 0, mine = 0;
    struct list ins;
    bool right;

    for (int r = 0; r < size; r++)
        counts[r] = seed == 0 ? most : part_of(seed, r, most);
    open_list(&ins, size, dtype, counts);
    for (int r = 0; r < size; r++) {
        data_fill(ins.at[r], dtype, first, counts[r], rank, seed);
        mine = r == rank ? first : mine;
        first += counts[r];
    }
    struct guarded out = guarded_open(counts[rank] * ins.elem, 3);
    struct guarded expected = guarded_open(out.nbytes, 0);
    void *to = most % 2 == 0 ? ins.at[rank] : out.at;

    data_reduce(expected.at, dtype, op, mine, counts[rank], size, 16, seed);
    right = symmcoll_reduce_scatter_list(group, to, counts[rank],
                (const void *const *)ins.at, seed == 0 ? NULL : counts, dtype,
                data_op(group, op, rank), NULL, NULL) == SYMMCOLL_OK &&
            data_is_same("sum", to, expected.at, out.nbytes);
    right = guarded_is_intact(&out) && right;
    guarded_close(&out);
    guarded_close(&expected);
    return report(close_list(&ins) && right, "reduce_scatter_list", rank, most);
}

/* ---- all_to_all ---- */

static bool exchanges(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, unsigned seed, size_t most)
{
    int size = symmcoll_group_size(group);
    size_t in_counts[MOST], out_counts[MOST];
    struct list ins, outs;
    bool right;

    for (int r = 0; r < size; r++) {
        in_counts[r] = pair_of(seed, rank, r, most);
        out_counts[r] = pair_of(seed, r, rank, most);
    }
    open_list(&ins, size, dtype, in_counts);
    open_list(&outs, size, dtype, out_counts);
    for (int r = 0; r < size; r++)
        data_fill(ins.at[r], dtype, (size_t)r * most, in_counts[r], rank, seed);
    right = symmcoll_all_to_all_list(group, outs.at, out_counts,
                (const void *const *)ins.at, in_counts, dtype, NULL,
                NULL) == SYMMCOLL_OK;
    for (int r = 0; r < size; r++)
        right = right && holds(outs.at[r], dtype, (size_t)rank * most,
                             out_counts[r], r, seed);
    right = close_list(&ins) && right;
    return report(close_list(&outs) && right, "all_to_all_list", rank, most);
}

/* ---- gather and scatter ---- */

static bool gathers(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t counts[MOST] = {0};
    struct list outs;
    bool right;

    for (int r = 0; r < size; r++)
        counts[r] = count;
    open_list(&outs, size, dtype, counts);
    data_fill(outs.at[rank], dtype, 0, count, rank, 1);
    right = symmcoll_gather_list(group, rank == root ? outs.at : NULL,
                outs.at[rank], count, dtype, root, NULL, NULL) == SYMMCOLL_OK;
    for (int r = 0; r < size; r++)
        right =
            right &&
            (rank == root ? holds(outs.at[r], dtype, 0, count, r, 1)
                          : r == rank || guarded_is_clear(&outs.buffers[r]));
    return report(close_list(&outs) && right, "gather_list", rank, count);
}

static bool scatters(struct symmcoll_group *group, int rank, int root,
    enum symmcoll_dtype dtype, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t counts[MOST] = {0};
    struct list ins;
    struct guarded out;
    void *to;
    bool right;

    for (int r = 0; r < size; r++)
        counts[r] = count;
    open_list(&ins, size, dtype, counts);
    for (int r = 0; r < size; r++)
        data_fill(ins.at[r], dtype, (size_t)r * count, count, rank, 1);
    out = guarded_open(count * ins.elem, 5);
    to = rank == root && count % 2 == 0 ? ins.at[rank] : out.at;
    /* Some of the other ranks call the form with one buffer, which they
     * omit. */
    right = (rank != root && rank % 2 == 1
                    ? symmcoll_scatter(
                          group, to, NULL, count, dtype, root, NULL, NULL)
                    : symmcoll_scatter_list(group, to,
                          rank == root ? (const void *const *)ins.at : NULL,
                          count, dtype, root, NULL, NULL)) == SYMMCOLL_OK &&
            holds(to, dtype, (size_t)rank * count, count, root, 1);
    right = guarded_is_intact(&out) && right;
    guarded_close(&out);
    return report(close_list(&ins) && right, "scatter_list", rank, count);
}

/* ---- all of them ---- */

static bool all_are_right(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, unsigned seed, size_t count)
{
    int root = (int)count % symmcoll_group_size(group);

    return gathers(group, rank, root, dtype, count) &&
           scatters(group, rank, root, dtype, count) &&
           gathers_all(group, rank, dtype, 0, count) &&
           gathers_all(group, rank, dtype, seed, count) &&
           exchanges(group, rank, dtype, seed, count);
}

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    size_t size = (size_t)symmcoll_group_size(group);
    bool right = true;

    for (int d = 0; right && d < SYMMCOLL_DTYPE_COUNT; d++) {
        enum symmcoll_dtype dtype = (enum symmcoll_dtype)d;
        size_t elem = symmcoll_dtype_size(dtype);
        size_t counts[] = {0, 1, 2, 40 / elem / size, 300,
            SMALL_MAX / size / elem, SMALL_MAX / elem + 1, 50000 / elem};

        if (data_leaves_out(dtype))
            continue;
        for (size_t i = (size_t)d % 2; right && i < LENGTH(counts); i += 2)
            right =
                all_are_right(group, rank, dtype, (unsigned)d + 1, counts[i]);
    }
    return right;
}

static int every_operation_is_right(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype dtypes[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT64, SYMMCOLL_COMPLEX64};
    static const symmcoll_op_t ops[] = {
        SYMMCOLL_SUM, SYMMCOLL_AVG, SYMMCOLL_PREMUL_SUM};
    size_t size = (size_t)symmcoll_group_size(group);
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(dtypes) * LENGTH(ops); i++) {
        enum symmcoll_dtype dtype = dtypes[i / LENGTH(ops)];
        symmcoll_op_t op = ops[i % LENGTH(ops)];
        size_t small = SMALL_MAX / symmcoll_dtype_size(dtype) / size;

        for (unsigned seed = 0; right && seed < 3; seed++)
            right = reduces_parts(group, rank, dtype, op, seed, 3) &&
                    reduces_parts(group, rank, dtype, op, seed, small) &&
                    reduces_parts(group, rank, dtype, op, seed, small + 1) &&
                    reduces_parts(group, rank, dtype, op, seed, 40000);
    }
    return right;
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    size_t count = STREAM_MIN / 4 + 1;

    return all_are_right(group, rank, SYMMCOLL_FLOAT32, 3, count) &&
           reduces_parts(group, rank, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, 3, count);
}

/* ---- the numbers of the PyTorch test ---- */

static bool is_all(const float *at, float value)
{
    for (int i = 0; i < 9; i++) {
        if (at[i] != value)
            return false;
    }
    return true;
}

static int parts_are_numbered(struct symmcoll_group *group, int rank)
{
    static const size_t nine[4] = {9, 9, 9, 9};
    float in[4][9], out[4][9];
    void *ins[4], *outs[4];
    bool right;

    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 9; i++)
            in[r][i] = (float)(rank * 4 + r);
        ins[r] = in[r];
        outs[r] = out[r];
    }
    right =
        symmcoll_all_to_all_list(group, outs, nine, (const void *const *)ins,
            nine, SYMMCOLL_FLOAT32, NULL, NULL) == SYMMCOLL_OK;
    for (int r = 0; r < 4; r++)
        right = right && is_all(out[r], (float)(r * 4 + rank));
    return right;
}

static int numbers_are_gathered(struct symmcoll_group *group, int rank)
{
    float in[9], out[4][9];
    void *outs[4] = {out[0], out[1], out[2], out[3]};
    bool right;

    for (int i = 0; i < 9; i++)
        in[i] = (float)rank;
    right = symmcoll_gather_list(group, rank == 0 ? outs : NULL, in, 9,
                SYMMCOLL_FLOAT32, 0, NULL, NULL) == SYMMCOLL_OK;
    for (int r = 0; r < 4 && rank == 0; r++)
        right = right && is_all(out[r], (float)r);
    memset(out, 0, sizeof(out));
    right = right && symmcoll_all_gather_list(group, outs, NULL, in, 9,
                         SYMMCOLL_FLOAT32, NULL, NULL) == SYMMCOLL_OK;
    for (int r = 0; r < 4; r++)
        right = right && is_all(out[r], (float)r);
    return right;
}

static int numbers_are_reduced(struct symmcoll_group *group, int rank)
{
    float in[4][9], out[9];
    const void *ins[4];
    bool right;

    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 9; i++)
            in[r][i] = (float)r;
        ins[r] = in[r];
    }
    right = symmcoll_reduce_scatter_list(group, out, 9, ins, NULL,
                SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
            is_all(out, (float)(rank * 4));
    return right &&
           symmcoll_reduce_scatter_list(group, out, 9, ins, NULL,
               SYMMCOLL_FLOAT32, SYMMCOLL_AVG, NULL, NULL) == SYMMCOLL_OK &&
           is_all(out, (float)rank);
}

/* ---- works, and ranks that disagree ---- */

static int works_end(struct symmcoll_group *group, int rank)
{
    size_t counts[MOST] = {70000, 3, 0}, mine = counts[rank];
    struct symmcoll_work *works[2] = {NULL, NULL};
    struct list outs[2];
    struct guarded in;
    bool right = true;

    in = guarded_open(mine * 4, 0);
    data_fill(in.at, SYMMCOLL_INT32, 0, mine, rank, 1);
    for (int i = 0; i < 2; i++) {
        open_list(&outs[i], 3, SYMMCOLL_INT32, counts);
        right =
            right && symmcoll_all_gather_list(group, outs[i].at, counts, in.at,
                         mine, SYMMCOLL_INT32, NULL, &works[i]) == SYMMCOLL_OK;
    }
    for (int i = 0; i < 2; i++) {
        right = right && symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK;
        for (int r = 0; r < 3; r++)
            right = right &&
                    holds(outs[i].at[r], SYMMCOLL_INT32, 0, counts[r], r, 1);
        symmcoll_work_free(works[i]);
        right = close_list(&outs[i]) && right;
    }
    guarded_close(&in);
    return right;
}

static bool is_told(symmcoll_status_t status, const char *text)
{
    if (status == SYMMCOLL_ERR_MISMATCH &&
        strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("expected MISMATCH and '%s', found %s: %s", text,
        symmcoll_status_name(status), symmcoll_last_error());
    return false;
}

/* Rank 2 expects more elements from rank 1, or passes more to it, than rank 1
 * does. */
static int all_are_told(struct symmcoll_group *group, int rank)
{
    float buffer[3][8] = {{0}}, own[8] = {0};
    void *outs[3] = {buffer[0], buffer[1], buffer[2]};
    size_t counts[3] = {2, rank == 2 ? 5 : 4, 3};
    static const size_t mine[3] = {2, 4, 3};
    bool right;

    right = is_told(symmcoll_all_gather_list(group, outs, counts, own,
                        mine[rank], SYMMCOLL_FLOAT32, NULL, NULL),
                "all_gather_list: counts differ: rank 1 passed 4 elements for "
                "rank 2, which expected 5 (group ") &&
            is_told(symmcoll_reduce_scatter_list(group, own, mine[rank],
                        (const void *const *)outs, counts, SYMMCOLL_FLOAT32,
                        SYMMCOLL_SUM, NULL, NULL),
                "reduce_scatter_list: counts differ: rank 2 passed 5 elements "
                "for rank 1, which expected 4 (group ") &&
            is_told(symmcoll_reduce_scatter_list(group, own, 2,
                        (const void *const *)outs, NULL, SYMMCOLL_FLOAT32,
                        rank == 0 ? SYMMCOLL_MAX : SYMMCOLL_SUM, NULL, NULL),
                "op differs: rank 0 passed max");
    return right && all_are_right(group, rank, SYMMCOLL_FLOAT32, 2, 100) &&
           symmcoll_group_error(group) == SYMMCOLL_OK;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(
            sizes[i], every_type_is_right, "lists of every type are moved");
    for (int n = 1; n <= 5; n++)
        both_run(n, every_operation_is_right,
            "lists of parts that are not alike are reduced");
    both_run(3, megabytes_are_right, "lists of megabytes are right");
    both_run(4, parts_are_numbered, "each part comes from its rank (C28)");
    both_run(4, numbers_are_gathered, "the numbers of all are gathered");
    both_run(4, numbers_are_reduced,
        "sums and averages are scattered (C28, T17, L6)");
    both_run(3, works_end, "works with lists end");
    both_run(3, all_are_told, "counts that two ranks do not agree on are said");
    return done_testing();
}
