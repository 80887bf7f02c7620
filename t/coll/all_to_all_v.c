/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests all_to_all with a count for each pair of ranks: random counts against
 * a reference, for every element type and around every size at which the
 * algorithm changes; and counts on which two ranks disagree.
 */
#include "../tap.h"
#include "data.h"

#include <stdio.h>
#include <string.h>

#define MOST 40 /* ranks */

/* Returns the number of elements that rank i sends to rank j; about every
 * fourth is 0. */
static size_t split(unsigned seed, int i, int j, size_t most)
{
    uint64_t x = ((uint64_t)seed << 32 | (uint64_t)i << 16 | (uint64_t)j) *
                 UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    if (x % 4 == 0)
        return 0;
    return x % 4 == 1 ? most : (size_t)(x >> 8) % (most + 1);
}

struct exchange {
    size_t in_splits[MOST];
    size_t out_splits[MOST];
    size_t in_count;
    size_t out_count;
    size_t elem;
    struct guarded in;
    struct guarded out;
    struct guarded expected;
};

static void open_exchange(struct exchange *exchange, int rank, int size,
    enum symmcoll_dtype dtype, unsigned seed, size_t most)
{
    memset(exchange, 0, sizeof(*exchange));
    exchange->elem = symmcoll_dtype_size(dtype);
    for (int r = 0; r < size; r++) {
        exchange->in_splits[r] = split(seed, rank, r, most);
        exchange->out_splits[r] = split(seed, r, rank, most);
        exchange->in_count += exchange->in_splits[r];
        exchange->out_count += exchange->out_splits[r];
    }
    exchange->in = guarded_open(exchange->in_count * exchange->elem, 1);
    exchange->out = guarded_open(exchange->out_count * exchange->elem, 7);
    exchange->expected = guarded_open(exchange->out_count * exchange->elem, 0);
    data_fill(exchange->in.at, dtype, 0, exchange->in_count, rank, seed);
    for (int r = 0, at = 0; r < size; r++) {
        size_t first = 0;

        for (int to = 0; to < rank; to++)
            first += split(seed, r, to, most);
        data_fill(exchange->expected.at + (size_t)at * exchange->elem, dtype,
            first, exchange->out_splits[r], r, seed);
        at += (int)exchange->out_splits[r];
    }
}

static bool close_exchange(struct exchange *exchange)
{
    bool right = guarded_is_intact(&exchange->in) &&
                 guarded_is_intact(&exchange->out) &&
                 data_is_same("out", exchange->out.at, exchange->expected.at,
                     exchange->out_count * exchange->elem);

    guarded_close(&exchange->in);
    guarded_close(&exchange->out);
    guarded_close(&exchange->expected);
    return right;
}

static bool is_right(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, unsigned seed, size_t most)
{
    struct exchange at;
    bool right;

    open_exchange(&at, rank, symmcoll_group_size(group), dtype, seed, most);
    right = symmcoll_all_to_all_v(group, at.out.at, at.out_count, at.out_splits,
                at.in.at, at.in_count, at.in_splits, dtype, NULL,
                NULL) == SYMMCOLL_OK;
    right = close_exchange(&at) && right;
    if (!right)
        diag("rank %d: seed %u, up to %zu %s: %s", rank, seed, most,
            symmcoll_dtype_name(dtype), symmcoll_last_error());
    return right;
}

static int every_type_is_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int d = 0; right && d < SYMMCOLL_DTYPE_COUNT; d++) {
        enum symmcoll_dtype dtype = (enum symmcoll_dtype)d;
        size_t elem = symmcoll_dtype_size(dtype);
        unsigned seed = (unsigned)(10 * d);

        if (data_leaves_out(dtype))
            continue;
        right = is_right(group, rank, dtype, seed, 3) &&
                is_right(group, rank, dtype, seed + 1, 100) &&
                is_right(group, rank, dtype, seed + 2, 40000 / elem);
    }
    return right;
}

/* Uses sizes around the capacity of one rank's area, and of a piece of a
 * chunk. */
static int thresholds_are_right(struct symmcoll_group *group, int rank)
{
    size_t size = (size_t)symmcoll_group_size(group);
    size_t room = (SMALL_MAX - 16 * size) / 4, piece = CHUNK / size / 4;
    bool right = true;

    for (unsigned seed = 0; right && seed < 6; seed++) {
        right = is_right(group, rank, SYMMCOLL_INT32, seed, room - 1) &&
                is_right(group, rank, SYMMCOLL_INT32, seed, room) &&
                is_right(group, rank, SYMMCOLL_INT32, seed, room + 1) &&
                is_right(group, rank, SYMMCOLL_INT32, seed, room / size) &&
                is_right(group, rank, SYMMCOLL_INT32, seed, piece) &&
                is_right(group, rank, SYMMCOLL_INT32, seed, piece + 1) &&
                is_right(group, rank, SYMMCOLL_INT32, seed, 7 * piece - 1);
    }
    return right;
}

static int megabytes_are_right(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, SYMMCOLL_FLOAT32, 1, STREAM_MIN / 4 + 1);
}

/* Runs many random splits, while consecutive operations reuse lines, areas and
 * slots. */
static int random_splits_are_right(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (unsigned seed = 0; right && seed < 300; seed++)
        right = is_right(group, rank, SYMMCOLL_INT16, seed,
            seed % 7 == 0   ? 30000
            : seed % 5 == 0 ? 2000
                            : seed % 60);
    return right;
}

/* Exchanges rows as the PyTorch test does: with splits of equal size, and with
 * none. */
static int rows_are_exchanged(struct symmcoll_group *group, int rank)
{
    static const size_t ones[4] = {2, 2, 2, 2};
    int64_t send[4][2], out[4][2] = {{0}};
    bool right;

    for (int i = 0; i < 4; i++)
        send[i][0] = send[i][1] = rank;
    right = symmcoll_all_to_all_v(group, out, 8, ones, send, 8, ones,
                SYMMCOLL_INT64, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 4; i++)
        right = right && out[i][0] == i && out[i][1] == i;
    memset(out, 0, sizeof(out));
    right = right && symmcoll_all_to_all_v(group, out, 8, NULL, send, 8, ones,
                         SYMMCOLL_INT64, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 4; i++)
        right = right && out[i][0] == i && out[i][1] == i;
    return right;
}

/* All ranks send to one, which sends nothing. */
static int one_receives_all(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    size_t in_splits[MOST] = {0}, out_splits[MOST] = {0};
    int32_t in[5] = {rank, rank, rank, rank, rank}, out[5 * MOST] = {0};
    bool right = true;

    in_splits[1] = 5;
    for (int r = 0; r < size && rank == 1; r++)
        out_splits[r] = 5;
    right = symmcoll_all_to_all_v(group, rank == 1 ? out : NULL,
                rank == 1 ? (size_t)size * 5 : 0, out_splits, in, 5, in_splits,
                SYMMCOLL_INT32, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < 5 * size && rank == 1; i++)
        right = right && out[i] == i / 5;
    memset(in_splits, 0, sizeof(in_splits));
    memset(out_splits, 0, sizeof(out_splits));
    return right && symmcoll_all_to_all_v(group, NULL, 0, NULL, NULL, 0,
                        in_splits, SYMMCOLL_INT32, NULL, NULL) == SYMMCOLL_OK;
}

static int works_end_in_order(struct symmcoll_group *group, int rank)
{
    enum {
        WORKS = 9
    };
    static const size_t most[] = {3, 300, 40000};
    struct symmcoll_work *works[WORKS];
    struct exchange at[WORKS];
    int started = 0;
    bool right = true;

    for (int i = 0; i < WORKS; i++)
        open_exchange(&at[i], rank, symmcoll_group_size(group),
            SYMMCOLL_FLOAT32, (unsigned)i, most[i % 3]);
    for (int i = 0; i < WORKS && right; i++, started++)
        right =
            symmcoll_all_to_all_v(group, at[i].out.at, at[i].out_count,
                at[i].out_splits, at[i].in.at, at[i].in_count, at[i].in_splits,
                SYMMCOLL_FLOAT32, NULL, &works[i]) == SYMMCOLL_OK;
    for (int i = 0; i < started; i++) {
        right = symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK && right;
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < WORKS; i++)
        right = close_exchange(&at[i]) && right;
    return right;
}

/* ---- ranks that disagree ---- */

static bool works(struct symmcoll_group *group, int rank)
{
    return is_right(group, rank, SYMMCOLL_INT8, 5, 50) &&
           symmcoll_group_error(group) == SYMMCOLL_OK;
}

/* Rank `to` expects one element more from rank `from` than it passes. */
static bool is_told(
    struct symmcoll_group *group, int rank, int from, int to, size_t count)
{
    int size = symmcoll_group_size(group);
    size_t in_splits[MOST] = {0}, out_splits[MOST] = {0};
    size_t whole = count * (size_t)size;
    struct guarded in = guarded_open(whole * 4, 0);
    struct guarded out = guarded_open((whole + 1) * 4, 0);
    symmcoll_status_t status;
    char text[160];
    bool right;

    for (int r = 0; r < size; r++)
        in_splits[r] = out_splits[r] = count;
    out_splits[from] += rank == to;
    status = symmcoll_all_to_all_v(group, out.at, whole + (rank == to),
        out_splits, in.at, whole, in_splits, SYMMCOLL_INT32, NULL, NULL);
    snprintf(text, sizeof(text),
        "all_to_all_v: counts differ: rank %d passed %zu elements for rank %d, "
        "which expected %zu (group ",
        from, count, to, count + 1);
    right = status == SYMMCOLL_ERR_MISMATCH &&
            strstr(symmcoll_last_error(), text) != NULL &&
            guarded_is_clear(&in) && guarded_is_clear(&out);
    if (!right)
        diag("rank %d: expected %s, found %s: %s", rank, text,
            symmcoll_status_name(status), symmcoll_last_error());
    guarded_close(&in);
    guarded_close(&out);
    return right && works(group, rank);
}

static int all_are_told(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (int from = 0; right && from < size; from++) {
        for (int to = 0; right && to < size; to++)
            right = from == to || (is_told(group, rank, from, to, 0) &&
                                      is_told(group, rank, from, to, 3) &&
                                      is_told(group, rank, from, to, 20000));
    }
    return right;
}

static int other_arguments_are_compared(struct symmcoll_group *group, int rank)
{
    float in[8] = {0}, out[8] = {0};
    size_t size = (size_t)symmcoll_group_size(group);
    enum symmcoll_dtype dtype = rank == 1 ? SYMMCOLL_INT32 : SYMMCOLL_FLOAT32;
    bool right = symmcoll_all_to_all_v(group, out, size, NULL, in, size, NULL,
                     dtype, NULL, NULL) == SYMMCOLL_ERR_MISMATCH &&
                 strstr(symmcoll_last_error(), "dtype differs") != NULL;

    right = right &&
            (rank == 1 ? symmcoll_all_to_all(
                             group, out, in, 1, SYMMCOLL_FLOAT32, NULL, NULL)
                       : symmcoll_all_to_all_v(group, out, size, NULL, in, size,
                             NULL, SYMMCOLL_FLOAT32, NULL, NULL)) ==
                SYMMCOLL_ERR_MISMATCH &&
            strstr(symmcoll_last_error(), "all_to_all_v") != NULL;
    return right && works(group, rank);
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], every_type_is_right,
            "parts of every type and count are exchanged");
    for (int n = 2; n <= 5; n++)
        both_run(n, thresholds_are_right,
            "parts around the limits of areas and chunks are exchanged");
    both_run(40, thresholds_are_right, "counts of many ranks have room");
    both_run(4, random_splits_are_right, "random counts, in a row, are right");
    both_run(3, megabytes_are_right, "several megabytes are exchanged");
    both_run(
        4, rows_are_exchanged, "rows are exchanged with splits or none (C32)");
    both_run(3, one_receives_all, "a count may be zero (C32)");
    both_run(3, works_end_in_order, "works of all sizes end");
    both_run(2, all_are_told, "counts that two ranks do not agree on are said");
    both_run(4, all_are_told, "counts that two ranks do not agree on are said");
    both_run(3, other_arguments_are_compared, "all else is compared as usual");
    return done_testing();
}
