/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests several buffers in one operation: the same bits as an operation on
 * each, one sequence number, and an error that names the buffer on which ranks
 * disagree.
 */
#include "../sanitized.h"
#include "../tap.h"
#include "data.h"

#include <symmcoll/pair.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 200 /* buffers */

enum form {
    REDUCE,
    GATHER,
    SCATTER,
    FORMS
};

/* The buffers of one call, and the results of an operation on each. */
struct lists {
    enum form form;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
    size_t n;
    size_t counts[MOST];
    struct guarded out[MOST], in[MOST], want[MOST];
    void *outs[MOST];
    const void *ins[MOST];
};

static size_t in_count(const struct lists *lists, size_t i, int size)
{
    return lists->counts[i] * (lists->form == SCATTER ? (size_t)size : 1);
}

static size_t out_count(const struct lists *lists, size_t i, int size)
{
    return lists->counts[i] * (lists->form == GATHER ? (size_t)size : 1);
}

static symmcoll_status_t call_one(struct symmcoll_group *group,
    const struct lists *lists, size_t i, void *out, const void *in)
{
    size_t count = lists->counts[i];

    if (lists->form == REDUCE)
        return symmcoll_all_reduce(
            group, out, in, count, lists->dtype, lists->op, NULL, NULL);
    if (lists->form == GATHER)
        return symmcoll_all_gather(
            group, out, in, count, lists->dtype, NULL, NULL);
    return symmcoll_reduce_scatter(
        group, out, in, count, lists->dtype, lists->op, NULL, NULL);
}

static symmcoll_status_t call_all(struct symmcoll_group *group,
    const struct lists *lists, const struct symmcoll_call *call,
    struct symmcoll_work **work)
{
    if (lists->form == REDUCE)
        return symmcoll_all_reduce_coalesced(group, lists->outs, lists->ins,
            lists->counts, lists->n, lists->dtype, lists->op, call, work);
    if (lists->form == GATHER)
        return symmcoll_all_gather_coalesced(group, lists->outs, lists->ins,
            lists->counts, lists->n, lists->dtype, call, work);
    return symmcoll_reduce_scatter_coalesced(group, lists->outs, lists->ins,
        lists->counts, lists->n, lists->dtype, lists->op, call, work);
}

/* Fills the inputs. In place: the inputs are in the outputs, or the outputs in
 * the inputs. */
static void open_lists(
    struct lists *lists, int size, int rank, bool in_place, unsigned seed)
{
    size_t elem = symmcoll_dtype_size(lists->dtype);

    for (size_t i = 0; i < lists->n; i++) {
        size_t in = in_count(lists, i, size) * elem;
        size_t out = out_count(lists, i, size) * elem;
        size_t own = (size_t)rank * lists->counts[i] * elem;

        lists->in[i] = guarded_open(in, i % 3 * elem);
        lists->out[i] = guarded_open(out, i % 2 * elem);
        lists->want[i] = guarded_open(out, 0);
        lists->ins[i] = lists->in[i].at;
        lists->outs[i] = lists->out[i].at;
        data_fill(lists->in[i].at, lists->dtype, 0, in_count(lists, i, size),
            rank, seed + (unsigned)i);
        if (!in_place)
            continue;
        if (lists->form == SCATTER) {
            lists->outs[i] = lists->in[i].at + own;
        } else {
            unsigned char *at =
                lists->out[i].at + (lists->form == GATHER ? own : 0);

            memcpy(at, lists->in[i].at, in);
            lists->ins[i] = at;
        }
    }
}

static bool close_lists(struct lists *lists)
{
    bool intact = true;

    for (size_t i = 0; i < lists->n; i++) {
        intact = intact && guarded_is_intact(&lists->in[i]) &&
                 guarded_is_intact(&lists->out[i]);
        guarded_close(&lists->in[i]);
        guarded_close(&lists->out[i]);
        guarded_close(&lists->want[i]);
    }
    return intact;
}

static bool same_as_singles(struct symmcoll_group *group, struct lists *lists,
    bool in_place, bool async, unsigned seed)
{
    int size = symmcoll_group_size(group), rank = symmcoll_group_rank(group);
    size_t elem = symmcoll_dtype_size(lists->dtype);
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;
    uint64_t before;
    bool right = true;

    open_lists(lists, size, rank, in_place, seed);
    for (size_t i = 0; i < lists->n; i++)
        right = call_one(group, lists, i, lists->want[i].at, lists->in[i].at) ==
                    SYMMCOLL_OK &&
                right;
    before = symmcoll_group_sequence(group);
    status = call_all(group, lists, NULL, async ? &work : NULL);
    if (status == SYMMCOLL_OK && async) {
        status = symmcoll_work_wait(work, -1);
        symmcoll_work_free(work);
    }
    if (status != SYMMCOLL_OK)
        diag("rank %d: %s", rank, symmcoll_last_error());
    right = right && status == SYMMCOLL_OK &&
            symmcoll_group_sequence(group) == before + 1;
    for (size_t i = 0; right && i < lists->n; i++)
        right = data_is_same("coalesced", lists->outs[i], lists->want[i].at,
            out_count(lists, i, size) * elem);
    return close_lists(lists) && right;
}

/* Makes different kinds of lists: one buffer, some empty ones, many tiny ones,
 * some larger than a chunk. */
static void make_counts(struct lists *lists, int which)
{
    static const size_t odd[] = {3, 0, 1, 17, 0, 5, 64, 2, 9};

    lists->n = which == 0   ? 1
               : which == 1 ? LENGTH(odd)
               : which == 2 ? MOST
               : which == 3 ? 7
                            : 4;
    for (size_t i = 0; i < lists->n; i++)
        lists->counts[i] = which == 0   ? 4
                           : which == 1 ? odd[i]
                           : which == 2 ? i % 4
                           : which == 3 ? i * 3001
                                        : (i % 2 == 0 ? 70001 : 3);
}

static int has_the_same_bits(struct symmcoll_group *group, int rank)
{
    static const struct {
        enum symmcoll_dtype dtype;
        symmcoll_op_t op;
    } types[] = {{SYMMCOLL_FLOAT32, SYMMCOLL_SUM},
        {SYMMCOLL_BFLOAT16, SYMMCOLL_AVG}, {SYMMCOLL_INT8, SYMMCOLL_MAX},
        {SYMMCOLL_FLOAT64, SYMMCOLL_PREMUL_SUM},
        {SYMMCOLL_COMPLEX128, SYMMCOLL_SUM}};
    struct lists *lists = malloc(sizeof(*lists));
    bool right = lists != NULL;

    /* ThreadSanitizer sees the same accesses for each type. */
    for (size_t t = 0; right && t < (THREADS_CHECKED ? 2 : LENGTH(types));
         t++) {
        symmcoll_op_t op = data_op(group, types[t].op, rank);

        for (int i = 0; right && i < FORMS * 5 * 4; i++) {
            lists->form = (enum form)(i % FORMS);
            lists->dtype = types[t].dtype;
            lists->op = op;
            make_counts(lists, i / FORMS % 5);
            right = same_as_singles(group, lists, i / FORMS / 5 % 2 == 1,
                i / FORMS / 5 / 2 == 1, (unsigned)i);
            if (!right)
                diag("type %zu, case %d", t, i);
        }
    }
    free(lists);
    return right;
}

/* Has many calls in flight at once, each with its own arrays. */
static int follow_each_other(struct symmcoll_group *group, int rank)
{
    enum {
        CALLS = 40,
        BUFFERS = 3
    };
    int32_t x[CALLS][BUFFERS];
    void *outs[CALLS][BUFFERS];
    const void *ins[CALLS][BUFFERS];
    static const size_t counts[BUFFERS] = {1, 1, 1};
    struct symmcoll_work *works[CALLS];
    int size = symmcoll_group_size(group);
    bool right = true;

    for (int i = 0; i < CALLS; i++) {
        for (int b = 0; b < BUFFERS; b++) {
            x[i][b] = rank + i * b;
            /* Sometimes the input is the output of the previous call. */
            outs[i][b] = &x[i][b];
            ins[i][b] = i % 5 == 4 ? &x[i - 1][b] : &x[i][b];
        }
        right = symmcoll_all_reduce_coalesced(group, outs[i], ins[i], counts,
                    BUFFERS, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL,
                    &works[i]) == SYMMCOLL_OK &&
                right;
    }
    for (int i = 0; i < CALLS; i++) {
        right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK && right;
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        for (int b = 0; b < BUFFERS; b++) {
            int32_t sum = size * (size - 1) / 2;
            int32_t want = i % 5 == 4 ? (sum + (i - 1) * b * size) * size
                                      : sum + i * b * size;

            if (x[i][b] != want)
                diag("call %d, buffer %d: %d, not %d", i, b, x[i][b], want);
            right = right && x[i][b] == want;
        }
    }
    return right;
}

/* Rank 1 starts a third operation after rank 0 has ended two, and has itself
 * ended none: its own contribution to the first is still in the place of the
 * third's. */
static int own_parts_are_kept(struct symmcoll_group *group, int rank)
{
    enum {
        ROUNDS = 200,
        CALLS = 3
    };
    static const size_t counts[2] = {1, 1};
    bool right = true;
    char byte = 0;

    for (int round = 0; right && round < ROUNDS; round++) {
        int32_t x[CALLS][2];
        void *outs[CALLS][2];
        const void *ins[CALLS][2];
        struct symmcoll_work *works[CALLS];

        for (int i = 0; right && i < CALLS; i++) {
            for (int b = 0; b < 2; b++) {
                x[i][b] = 10 * i + rank;
                outs[i][b] = &x[i][b];
                ins[i][b] = &x[i][b];
            }
            if (i == 2 && rank == 0)
                right = symmcoll_work_wait(works[0], -1) == SYMMCOLL_OK &&
                        symmcoll_work_wait(works[1], -1) == SYMMCOLL_OK &&
                        symmcoll_send(group, &byte, 1, SYMMCOLL_UINT8, 1, 0,
                            NULL, NULL) == SYMMCOLL_OK;
            if (i == 2 && rank == 1)
                right = symmcoll_recv(group, &byte, 1, SYMMCOLL_UINT8, 0, 0,
                            NULL, NULL, NULL) == SYMMCOLL_OK;
            right = symmcoll_all_reduce_coalesced(group, outs[i], ins[i],
                        counts, 2, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL,
                        &works[i]) == SYMMCOLL_OK &&
                    right;
        }
        for (int i = 0; right && i < CALLS; i++) {
            right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                    x[i][0] == 20 * i + 1 && x[i][1] == 20 * i + 1;
            symmcoll_work_free(works[i]);
        }
    }
    return right;
}

/* ---- ranks that disagree ---- */

static bool told(struct symmcoll_group *group, symmcoll_status_t status,
    symmcoll_status_t expected, const char *text)
{
    if (status == expected && strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("rank %d: expected %s with \"%s\", found %s: %s",
        symmcoll_group_rank(group), symmcoll_status_name(expected), text,
        symmcoll_status_name(status), symmcoll_last_error());
    return false;
}

static int differences_are_named(struct symmcoll_group *group, int rank)
{
    static const struct {
        size_t n, odd_n;
        size_t at, count;
        const char *text;
        size_t also, also_count; /* 0: nothing */
    } cases[] = {
        {4, 4, 2, 7,
            "count of buffer 2 differs: rank 1 passed 7, the other 3 "
            "passed 5",
            0, 0},
        {4, 4, 0, 70000, "count of buffer 0 differs: rank 1 passed 70000", 0,
            0},
        {4, 3, 0, 5,
            "number of buffers differs: rank 1 passed 3, the other 3 "
            "passed 4",
            0, 0},
        {20, 20, 19, 6, "digest of all counts differs: rank 1 passed 0x", 0, 0},
        {4, 4, 1, 0, "count of buffer 1 differs: rank 1 passed 0,", 0, 0},
        /* All ranks pass the same number of elements in total. */
        {4, 4, 2, 7, "count of buffer 2 differs: rank 1 passed 7", 3, 3},
    };
    struct lists *lists = malloc(sizeof(*lists));
    int32_t one = 1, sum = 0;
    bool right = lists != NULL;

    for (size_t i = 0; right && i < LENGTH(cases) * FORMS; i++) {
        size_t c = i / FORMS;

        lists->form = (enum form)(i % FORMS);
        lists->dtype = SYMMCOLL_FLOAT32;
        lists->op = SYMMCOLL_SUM;
        lists->n = rank == 1 ? cases[c].odd_n : cases[c].n;
        for (size_t b = 0; b < lists->n; b++)
            lists->counts[b] = 5;
        if (rank == 1)
            lists->counts[cases[c].at] = cases[c].count;
        if (rank == 1 && cases[c].also_count > 0)
            lists->counts[cases[c].also] = cases[c].also_count;
        open_lists(lists, 4, rank, false, 1);
        right = told(group, call_all(group, lists, NULL, NULL),
            SYMMCOLL_ERR_MISMATCH, cases[c].text);
        for (size_t b = 0; b < lists->n; b++)
            right = guarded_is_clear(&lists->out[b]) && right;
        right = close_lists(lists) && right;
    }
    free(lists);
    return right &&
           told(group,
               symmcoll_all_reduce_coalesced(group, (void *[]){&sum},
                   (const void *[]){&one}, (size_t[]){1}, 1,
                   rank == 1 ? SYMMCOLL_UINT32 : SYMMCOLL_INT32, SYMMCOLL_SUM,
                   NULL, NULL),
               SYMMCOLL_ERR_MISMATCH, "dtype differs: rank 1 passed uint32") &&
           symmcoll_all_reduce(group, &sum, &one, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           sum == 4;
}

/* ---- bad calls ---- */

static int bad_calls_are_refused(struct symmcoll_group *group, int rank)
{
    float a[64] = {0}, b[64] = {0};
    void *outs[] = {a, a + 8}, *crossed[] = {a, a + 3};
    void *none[] = {a, NULL};
    const void *ins[] = {b, b + 8}, *in_place[] = {a, a + 8};
    const void *swapped[] = {a + 8, a};
    static const size_t counts[] = {4, 4},
                        huge[] = {SIZE_MAX / 8, SIZE_MAX / 8};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    bool right;

    (void)rank;
    call.flags = 4;
#define REFUSED(outs, ins, counts, n, dtype, op, status, text)   \
    told(group,                                                  \
        symmcoll_all_reduce_coalesced(                           \
            group, outs, ins, counts, n, dtype, op, NULL, NULL), \
        status, text)
#define F32 SYMMCOLL_FLOAT32
#define SUM SYMMCOLL_SUM
#define BAD SYMMCOLL_ERR_INVALID
    right = REFUSED(NULL, ins, counts, 2, F32, SUM, BAD, "an array that is") &&
            REFUSED(outs, NULL, counts, 2, F32, SUM, BAD, "an array that is") &&
            REFUSED(outs, ins, NULL, 2, F32, SUM, BAD, "an array that is") &&
            REFUSED(outs, ins, counts, 0, F32, SUM, BAD, "found 0") &&
            REFUSED(outs, ins, counts, 40000, F32, SUM, BAD, "found 40000") &&
            REFUSED(none, ins, counts, 2, F32, SUM, BAD,
                "found NULL (buffer 1 of 2)") &&
            REFUSED(crossed, ins, counts, 2, F32, SUM, BAD,
                "found out of buffer 0 of 2 in out of buffer 1") &&
            REFUSED(outs, swapped, counts, 2, F32, SUM, BAD,
                "found out of buffer 0 of 2 in in of buffer 1") &&
            REFUSED(outs, ins, huge, 2, F32, SUM, BAD, "memory has") &&
            REFUSED(outs, ins, counts, 2, (enum symmcoll_dtype)99, SUM, BAD,
                "element type") &&
            REFUSED(outs, ins, counts, 2, SYMMCOLL_FLOAT8_E4M3FN, SUM,
                SYMMCOLL_ERR_UNSUPPORTED, "sum is not defined for float8") &&
            REFUSED(outs, ins, counts, 2, SYMMCOLL_FLOAT8_E5M2, SYMMCOLL_MAX,
                SYMMCOLL_ERR_UNSUPPORTED, "not defined") &&
            REFUSED(outs, ins, counts, 2, F32, SYMMCOLL_PREMUL_SUM, BAD,
                "factor") &&
            told(group,
                symmcoll_reduce_scatter_coalesced(group, outs, ins, counts, 2,
                    SYMMCOLL_FLOAT8_E4M3FN, SUM, NULL, NULL),
                SYMMCOLL_ERR_UNSUPPORTED, "sum is not defined for float8") &&
            told(group,
                symmcoll_all_gather_coalesced(
                    NULL, outs, ins, counts, 2, F32, NULL, NULL),
                BAD, "expected a group, found NULL") &&
            told(group,
                symmcoll_all_reduce_coalesced(
                    group, outs, ins, counts, 2, F32, SUM, &call, NULL),
                BAD, "flags");
    return right && symmcoll_group_sequence(group) == 0 &&
           symmcoll_all_reduce_coalesced(group, outs, in_place, counts, 2, F32,
               SUM, NULL, NULL) == SYMMCOLL_OK;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5};

    for (size_t i = 0; i < LENGTH(sizes); i++) {
        both_run(sizes[i], has_the_same_bits,
            "C12 C16 C21: the bits of single operations, under one number");
        both_run(sizes[i], follow_each_other, "many follow each other");
    }
    both_run(2, own_parts_are_kept,
        "what a rank has started is not overwritten before it has ended");
    both_run(4, differences_are_named,
        "C57: lists that differ are a mismatch that says where");
    both_run(2, bad_calls_are_refused,
        "T5: bad calls and reductions of eight-bit floats are refused");
    return done_testing();
}
