/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that all_reduce produces the bits of the plain reference on every
 * rank: every type with every operation, in and out of place, around the sizes
 * at which the algorithm changes.
 */
#include "../tap.h"
#include "data.h"

#include "base/dtype.h"

#include <sched.h>
#include <stdio.h>

/* Checks one call of every rank, in and out of place, against the reference. */
static bool is_right(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count, size_t shift)
{
    static _Thread_local unsigned seed; /* the same on all ranks */
    int size = symmcoll_group_size(group);
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    symmcoll_op_t wanted = data_op(group, op, rank);
    struct guarded in = guarded_open(nbytes, shift);
    struct guarded out = guarded_open(nbytes, 2 * shift);
    struct guarded expected = guarded_open(nbytes, 0);
    char what[96];

    seed++;
    snprintf(what, sizeof(what), "rank %d: %s of %zu %s", rank,
        symmcoll_op_name(op), count, symmcoll_dtype_name(dtype));
    data_fill(in.at, dtype, 0, count, rank, seed);
    data_reduce(expected.at, dtype, op, 0, count, size, 16, seed);
    bool right = symmcoll_all_reduce(group, out.at, in.at, count, dtype, wanted,
                     NULL, NULL) == SYMMCOLL_OK &&
                 data_is_same(what, out.at, expected.at, nbytes) &&
                 guarded_is_intact(&out);
    /* The input is unchanged: the result in place is the same. */
    right = right &&
            symmcoll_all_reduce(group, in.at, in.at, count, dtype, wanted, NULL,
                NULL) == SYMMCOLL_OK &&
            data_is_same(what, in.at, expected.at, nbytes) &&
            guarded_is_intact(&in);
    guarded_close(&in);
    guarded_close(&out);
    guarded_close(&expected);
    if (!right)
        diag("%s: not right", what);
    return right;
}

static int every_pair_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        const struct symc_dtype *type = symc_dtype_find((enum symmcoll_dtype)d);
        size_t counts[DATA_COUNTS];

        if (data_leaves_out((enum symmcoll_dtype)d))
            continue;
        data_counts(type->size, counts);
        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            /* Only some types use the long counts, which take long with many
             * ranks. */
            size_t last = (d + op) % 4 == 0 ? DATA_COUNTS : DATA_COUNTS - 2;

            for (size_t i = 0;
                 right && symc_dtype_reduces(type, op) && i < last; i++)
                right = is_right(group, rank, (enum symmcoll_dtype)d, op,
                    counts[i], i % 2 == 0 ? 0 : type->size);
        }
    }
    return right;
}

/* Types and operations of the large messages. */
static const struct {
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
} pairs[] = {{SYMMCOLL_FLOAT32, SYMMCOLL_SUM},
    {SYMMCOLL_BFLOAT16, SYMMCOLL_AVG}, {SYMMCOLL_UINT8, SYMMCOLL_BXOR},
    {SYMMCOLL_COMPLEX128, SYMMCOLL_SUM},
    {SYMMCOLL_FLOAT64, SYMMCOLL_PREMUL_SUM}, {SYMMCOLL_FLOAT16, SYMMCOLL_MAX},
    {SYMMCOLL_INT64, SYMMCOLL_PRODUCT}};

static int chunk_limits_are_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (size_t p = 0; right && p < LENGTH(pairs); p++) {
        size_t elem = symmcoll_dtype_size(pairs[p].dtype);
        const size_t counts[] = {
            CHUNK / elem - 1, CHUNK / elem, CHUNK / elem + 1, CHUNK / 3 / elem};

        right = is_right(group, rank, pairs[p].dtype, pairs[p].op,
            counts[p % LENGTH(counts)], 0);
    }
    return right && is_right(group, rank, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
                        6 * CHUNK / 4 + 7, 4);
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
               STREAM_MIN / 4 + 101, 0) &&
           is_right(
               group, rank, SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, STREAM_MIN / 2, 2);
}

/* Adds the numbers of the PyTorch test. */
static int numbers_are_added(struct symmcoll_group *group, int rank)
{
    float x[9];
    bool right;

    for (int i = 0; i < 9; i++)
        x[i] = (float)rank;
    right = symmcoll_all_reduce(group, x, x, 9, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
                NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 9; i++)
        right = right && x[i] == 6;
    return right;
}

/* Checks the results for the integers 1, 3, 5 and 7. */
static int integers_are_reduced(struct symmcoll_group *group, int rank)
{
    static const struct {
        symmcoll_op_t op;
        int64_t result;
    } all[] = {{SYMMCOLL_SUM, 16}, {SYMMCOLL_AVG, 4}, {SYMMCOLL_PRODUCT, 105},
        {SYMMCOLL_MIN, 1}, {SYMMCOLL_MAX, 7}, {SYMMCOLL_BAND, 1},
        {SYMMCOLL_BOR, 7}, {SYMMCOLL_BXOR, 0}};
    bool right = true;

    for (size_t i = 0; i < LENGTH(all); i++) {
        int64_t in = 2 * rank + 1, out = -1;

        if (symmcoll_all_reduce(group, &out, &in, 1, SYMMCOLL_INT64, all[i].op,
                NULL, NULL) == SYMMCOLL_OK &&
            out == all[i].result)
            continue;
        diag("rank %d: %s: expected %lld, found %lld", rank,
            symmcoll_op_name(all[i].op), (long long)all[i].result,
            (long long)out);
        right = false;
    }
    return right;
}

/* Checks that a sum of many halves is rounded once: 2048 and several ones. */
static int halves_are_rounded_once(struct symmcoll_group *group, int rank)
{
    /* 1 is less than half a unit of 2048 in half precision, 3 times 1 is
     * not. */
    const uint16_t in = rank == 0 ? 0x6800 : 0x3c00;
    uint16_t out = 0;

    return symmcoll_all_reduce(group, &out, &in, 1, SYMMCOLL_FLOAT16,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           out == 0x6802; /* 2048 + 3 = 2051, to even: 2052 */
}

static int a_nan_wins(struct symmcoll_group *group, int rank)
{
    static const symmcoll_op_t ops[] = {SYMMCOLL_MIN, SYMMCOLL_MAX,
        SYMMCOLL_SUM, SYMMCOLL_PRODUCT, SYMMCOLL_AVG};
    uint32_t in[2] = {0x3f800000, 0x3f800000}, out[2];
    bool right = true;

    if (rank == 1)
        in[0] = 0xffc12345; /* a NaN with sign and payload */
    for (size_t i = 0; i < LENGTH(ops); i++)
        right = symmcoll_all_reduce(group, out, in, 2, SYMMCOLL_FLOAT32, ops[i],
                    NULL, NULL) == SYMMCOLL_OK &&
                out[0] == 0x7fc00000 && out[1] != 0x7fc00000 && right;
    return right;
}

/* Ranks call at very different times; every call has its own data. */
static int many_in_a_row_are_right(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (int i = 0; right && i < 3000; i++) {
        int64_t in[3] = {i, (int64_t)rank * i, rank}, out[3];

        if ((i * 7 + rank * 13) % 97 == 0)
            sched_yield();
        right = symmcoll_all_reduce(group, out, in, 3, SYMMCOLL_INT64,
                    SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
                out[0] == (int64_t)i * size &&
                out[1] == (int64_t)i * size * (size - 1) / 2 &&
                out[2] == (int64_t)size * (size - 1) / 2;
    }
    return right;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 16, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_pair_is_right,
            "every type and operation has the reference's bits");
    for (size_t i = 0; i < 5; i++)
        both_run(sizes[i], chunk_limits_are_right,
            "sizes around a staging chunk have the reference's bits");
    both_run(
        2, megabytes_are_right, "several megabytes have the reference's bits");
    both_run(
        3, megabytes_are_right, "several megabytes have the reference's bits");
    both_run(4, numbers_are_added,
        "four ranks that pass their numbers have the sum 6 (C28)");
    both_run(4, integers_are_reduced,
        "every operation on 64-bit integers has its number (T16, L6)");
    both_run(4, halves_are_rounded_once,
        "half precision is added in float and rounded once");
    both_run(3, a_nan_wins, "a NaN of any rank is a quiet NaN on all");
    both_run(2, many_in_a_row_are_right, "calls in a row do not mix");
    both_run(5, many_in_a_row_are_right, "calls in a row do not mix");
    return done_testing();
}
