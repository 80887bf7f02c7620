/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests all_to_all: each rank receives the part of every rank for it, in the
 * order of ranks, for every element type and at every size at which the
 * algorithm changes.
 */
#include "../tap.h"
#include "data.h"

#include <string.h>

/* Fills in the expected output of a rank. */
static void expect(unsigned char *to, int rank, int size,
    enum symmcoll_dtype dtype, size_t count)
{
    size_t nbytes = count * symmcoll_dtype_size(dtype);

    for (int r = 0; r < size; r++)
        data_fill(to + nbytes * (size_t)r, dtype, count * (size_t)rank, count,
            r, (unsigned)count);
}

static bool is_right(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t whole = count * (size_t)size * symmcoll_dtype_size(dtype);
    struct guarded in = guarded_open(whole, 1), out = guarded_open(whole, 7);
    struct guarded expected = guarded_open(whole, 0);
    bool right;

    data_fill(in.at, dtype, 0, count * (size_t)size, rank, (unsigned)count);
    expect(expected.at, rank, size, dtype, count);
    right = symmcoll_all_to_all(group, out.at, in.at, count, dtype, NULL,
                NULL) == SYMMCOLL_OK &&
            data_is_same("out", out.at, expected.at, whole);
    data_fill(
        expected.at, dtype, 0, count * (size_t)size, rank, (unsigned)count);
    right = right && guarded_is_intact(&out) && guarded_is_intact(&in) &&
            data_is_same("in", in.at, expected.at, whole);
    if (!right)
        diag("rank %d: %zu %s: %s", rank, count, symmcoll_dtype_name(dtype),
            symmcoll_last_error());
    guarded_close(&in);
    guarded_close(&out);
    guarded_close(&expected);
    return right;
}

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    struct data_case at = {0};
    bool right = true;

    while (right && data_next_case(&at, symmcoll_group_size(group)))
        right = is_right(group, rank, at.dtype, at.count);
    return right;
}

static int chunks_are_right(struct symmcoll_group *group, int rank)
{
    size_t piece = CHUNK / (size_t)symmcoll_group_size(group);

    return is_right(group, rank, SYMMCOLL_INT64, piece / 8) &&
           is_right(group, rank, SYMMCOLL_INT32, piece / 4 - 1) &&
           is_right(group, rank, SYMMCOLL_COMPLEX128, piece / 16 + 1) &&
           is_right(group, rank, SYMMCOLL_FLOAT8_E5M2, 9 * piece + 1);
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, SYMMCOLL_FLOAT32, STREAM_MIN / 4 + 1);
}

/* Exchanges rows as the PyTorch test does: row r is for rank r, and all
 * elements are the rank. */
static int rows_are_exchanged(struct symmcoll_group *group, int rank)
{
    int64_t send[4][2], out[4][2] = {{0}};
    bool right;

    for (int i = 0; i < 4; i++)
        send[i][0] = send[i][1] = rank;
    right = symmcoll_all_to_all(
                group, out, send, 2, SYMMCOLL_INT64, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 4; i++)
        right = right && out[i][0] == i && out[i][1] == i;
    return right;
}

/* Starts works without waiting in between; small ones are issued at once. */
static int works_end_in_order(struct symmcoll_group *group, int rank)
{
    enum {
        WORKS = 12
    };
    static const size_t counts[] = {1, 300, 40000};
    struct symmcoll_work *works[WORKS];
    int size = symmcoll_group_size(group), started = 0;
    size_t most = counts[2] * (size_t)size * 4;
    struct guarded in[3], out = guarded_open(WORKS * most, 0);
    struct guarded expected = guarded_open(most, 0);
    bool right = true;

    for (int i = 0; i < 3; i++) {
        in[i] = guarded_open(most, 0);
        data_fill(in[i].at, SYMMCOLL_INT32, 0, counts[i] * (size_t)size, rank,
            (unsigned)counts[i]);
    }
    for (int i = 0; i < WORKS && right; i++, started++)
        right =
            symmcoll_all_to_all(group, out.at + (size_t)i * most, in[i % 3].at,
                counts[i % 3], SYMMCOLL_INT32, NULL, &works[i]) == SYMMCOLL_OK;
    for (int i = 0; i < started; i++) {
        expect(expected.at, rank, size, SYMMCOLL_INT32, counts[i % 3]);
        right = symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK && right &&
                data_is_same("work", out.at + (size_t)i * most, expected.at,
                    counts[i % 3] * (size_t)size * 4);
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < 3; i++)
        guarded_close(&in[i]);
    guarded_close(&out);
    guarded_close(&expected);
    return right;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(
            sizes[i], every_type_is_right, "parts of every type are exchanged");
    for (int n = 2; n <= 5; n++)
        both_run(n, chunks_are_right, "parts of several chunks are exchanged");
    both_run(4, rows_are_exchanged, "equal rows are exchanged");
    both_run(3, megabytes_are_right, "several megabytes are exchanged");
    both_run(3, works_end_in_order, "works of all sizes end");
    return done_testing();
}
