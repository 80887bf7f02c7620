/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests invalid arguments: a clear error before anything happens. No sequence
 * number is consumed, no byte is written, and the group remains usable.
 */
#include "../tap.h"
#include "data.h"

#include "base/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define F32 SYMMCOLL_FLOAT32
#define SUM SYMMCOLL_SUM

/* The group of the running body, and whether all checks have passed. */
struct bench {
    struct symmcoll_group *group;
    int rank;
    int size;
    bool right;
    float buf[64];
};

/* Checks the status of one refused call, and a word of the detail. */
static void refuses(struct bench *bench, const char *what,
    symmcoll_status_t found, symmcoll_status_t expected, const char *word)
{
    if (found == expected && strstr(symmcoll_last_error(), word) != NULL)
        return;
    diag("rank %d: %s: expected %s and '%s', found %s: %s", bench->rank, what,
        symmcoll_status_name(expected), word, symmcoll_status_name(found),
        symmcoll_last_error());
    bench->right = false;
}

#define INVALID(call, word) \
    refuses(bench, #call, call, SYMMCOLL_ERR_INVALID, word)
#define UNSUPPORTED(call, word) \
    refuses(bench, #call, call, SYMMCOLL_ERR_UNSUPPORTED, word)

static void refuse_missing(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    float *b = bench->buf;

    INVALID(symmcoll_all_reduce(NULL, b, b, 1, F32, SUM, NULL, NULL), "group");
    INVALID(symmcoll_barrier(NULL, NULL, NULL), "group");
    INVALID(symmcoll_all_reduce(g, NULL, b, 4, F32, SUM, NULL, NULL),
        "out of 16 bytes, found NULL");
    INVALID(symmcoll_all_reduce(g, b, NULL, 4, F32, SUM, NULL, NULL),
        "in of 16 bytes, found NULL");
    INVALID(symmcoll_broadcast(g, NULL, 4, F32, 0, NULL, NULL), "NULL");
    INVALID(symmcoll_all_gather(g, NULL, b, 1, F32, NULL, NULL), "out of");
    INVALID(symmcoll_all_gather(g, b, NULL, 1, F32, NULL, NULL), "in of");
    INVALID(
        symmcoll_reduce_scatter(g, NULL, b, 1, F32, SUM, NULL, NULL), "out of");
    INVALID(
        symmcoll_reduce_scatter(g, b, NULL, 1, F32, SUM, NULL, NULL), "in of");
    INVALID(symmcoll_gather(g, b, NULL, 1, F32, 0, NULL, NULL), "in of");
    INVALID(symmcoll_scatter(g, b, NULL, 1, F32, bench->rank, NULL, NULL),
        "in of 12 bytes");
    INVALID(symmcoll_scatter(g, NULL, b, 1, F32, 0, NULL, NULL), "out of");
    INVALID(symmcoll_all_to_all(g, b, NULL, 1, F32, NULL, NULL), "in of 12");
    INVALID(symmcoll_all_to_all(g, NULL, b, 1, F32, NULL, NULL), "out of 12");
    INVALID(
        symmcoll_gather(g, NULL, b, 1, F32, bench->rank, NULL, NULL), "out of");
    INVALID(symmcoll_reduce(g, NULL, b, 1, F32, SUM, bench->rank, NULL, NULL),
        "out of");
    INVALID(symmcoll_reduce(g, b, NULL, 1, F32, SUM, 0, NULL, NULL), "in of");
}

/* t/coll/all_gather and the tests beside it test buffers in place (C36). */
static void refuse_overlaps(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    float *b = bench->buf;
    size_t mine = (size_t)bench->rank;

    INVALID(
        symmcoll_all_reduce(g, b + 1, b, 4, F32, SUM, NULL, NULL), "overlap");
    INVALID(
        symmcoll_all_reduce(g, b, b + 3, 4, F32, SUM, NULL, NULL), "overlap");
    INVALID(symmcoll_reduce(g, b + 1, b, 4, F32, SUM, bench->rank, NULL, NULL),
        "overlap");
    /* In place, but at the place of another rank. */
    INVALID(
        symmcoll_all_gather(g, b, b + 4 * ((mine + 1) % 3), 4, F32, NULL, NULL),
        "overlap");
    INVALID(symmcoll_reduce_scatter(
                g, b + 4 * ((mine + 1) % 3), b, 4, F32, SUM, NULL, NULL),
        "overlap");
    INVALID(symmcoll_scatter(g, b + 4 * ((mine + 1) % 3), b, 4, F32,
                bench->rank, NULL, NULL),
        "overlap");
    INVALID(symmcoll_all_to_all(g, b, b, 4, F32, NULL, NULL),
        "(48 bytes each) overlap: expected them apart, found out at byte 0");
    INVALID(symmcoll_all_to_all(g, b + 11, b, 4, F32, NULL, NULL),
        "found out at byte 44 of in");
    INVALID(symmcoll_gather(
                g, b, b + 4 * mine + 1, 4, F32, bench->rank, NULL, NULL),
        "overlap");
}

static void refuse_numbers(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    float *b = bench->buf;
    enum symmcoll_dtype none = (enum symmcoll_dtype)SYMMCOLL_DTYPE_COUNT;

    INVALID(symmcoll_all_reduce(g, b, b, 1, none, SUM, NULL, NULL), "found 20");
    INVALID(symmcoll_broadcast(g, b, 1, none, 0, NULL, NULL), "found 20");
    INVALID(symmcoll_all_reduce(g, b, b, 1, F32, -1, NULL, NULL), "found -1");
    INVALID(symmcoll_all_reduce(g, b, b, 1, F32, SYMMCOLL_OP_COUNT, NULL, NULL),
        "found 9");
    INVALID(symmcoll_all_reduce(g, b, b, 1, F32, 5000, NULL, NULL), "5000");
    INVALID(
        symmcoll_all_reduce(g, b, b, 1, F32, SYMMCOLL_PREMUL_SUM, NULL, NULL),
        "symmcoll_op_create_premul");
    INVALID(symmcoll_broadcast(g, b, 1, F32, -1, NULL, NULL), "found -1");
    INVALID(symmcoll_broadcast(g, b, 1, F32, bench->size, NULL, NULL), "root");
    INVALID(symmcoll_reduce(g, b, b, 1, F32, SUM, 99, NULL, NULL), "found 99");
    INVALID(symmcoll_gather(g, b, b, 1, F32, 99, NULL, NULL), "found 99");
    INVALID(symmcoll_scatter(g, b, b, 1, F32, -1, NULL, NULL), "found -1");
    INVALID(symmcoll_all_to_all(g, b, b, 1, none, NULL, NULL), "found 20");
    INVALID(symmcoll_all_to_all(g, b, b, SIZE_MAX / 4, F32, NULL, NULL),
        "more bytes");
    INVALID(symmcoll_all_reduce(g, b, b, SIZE_MAX / 2, F32, SUM, NULL, NULL),
        "more bytes");
    INVALID(symmcoll_all_gather(g, b, b, SIZE_MAX / 4, F32, NULL, NULL),
        "more bytes");
    INVALID(symmcoll_broadcast(g, b, SIZE_MAX, SYMMCOLL_UINT8, 0, NULL, NULL),
        "more bytes");
}

static void refuse_options(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    struct symmcoll_work *work = NULL;
    float *b = bench->buf;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.size = 4;
    INVALID(symmcoll_all_reduce(g, b, b, 1, F32, SUM, &call, NULL), "found 4");
    call.size = sizeof(call) + 4;
    INVALID(symmcoll_barrier(g, &call, NULL), "SYMMCOLL_CALL_INIT");
    call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    call.timeout = (double)NAN;
    INVALID(symmcoll_all_reduce(g, b, b, 1, F32, SUM, &call, &work), "NaN");
    call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    call.flags = 4;
    INVALID(symmcoll_broadcast(g, b, 1, F32, 0, &call, NULL), "0x4");
    call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    call.stream = b;
    UNSUPPORTED(symmcoll_barrier(g, &call, NULL), "stream");
    INVALID(symmcoll_group_set_timeout(g, (double)NAN), "NaN");
    INVALID(symmcoll_group_set_timeout(NULL, 1), "group");
    INVALID(symmcoll_group_error(NULL), "group");
    if (work != NULL) {
        diag("a refused call made a work");
        bench->right = false;
    }
}

static void refuse_splits(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    float *b = bench->buf, *c = b + 32;
    static const size_t two[] = {2, 2, 2}, one[] = {1, 1, 2};
    static const size_t huge[] = {SIZE_MAX, 2, 3};
    size_t other[] = {2, 2, 2};

    other[bench->rank] = 3;
    INVALID(symmcoll_all_to_all_v(NULL, b, 6, two, c, 6, two, F32, NULL, NULL),
        "group");
    INVALID(symmcoll_all_to_all_v(g, b, 6, two, c, 6, one, F32, NULL, NULL),
        "in_splits with a sum of 6, found 4");
    INVALID(symmcoll_all_to_all_v(g, b, 5, two, c, 6, two, F32, NULL, NULL),
        "out_splits with a sum of 5, found 6");
    INVALID(symmcoll_all_to_all_v(g, b, 7, NULL, c, 6, two, F32, NULL, NULL),
        "that 3 ranks divide, found NULL and 7");
    INVALID(symmcoll_all_to_all_v(g, b, 6, NULL, c, 4, NULL, F32, NULL, NULL),
        "that 3 ranks divide, found NULL and 4");
    INVALID(symmcoll_all_to_all_v(g, b, 6, two, c, 4, huge, F32, NULL, NULL),
        "more bytes");
    INVALID(symmcoll_all_to_all_v(g, b, 7, other, c, 6, two, F32, NULL, NULL),
        "of this rank's part for itself, found 3 in out and 2 in in");
    INVALID(symmcoll_all_to_all_v(g, NULL, 6, two, c, 6, two, F32, NULL, NULL),
        "out of 24 bytes, found NULL");
    INVALID(symmcoll_all_to_all_v(g, b, 6, two, NULL, 6, two, F32, NULL, NULL),
        "in of 24 bytes, found NULL");
    INVALID(symmcoll_all_to_all_v(g, b, 6, two, b, 6, two, F32, NULL, NULL),
        "out and in apart, found");
    INVALID(symmcoll_all_to_all_v(g, b, 6, two, b + 5, 6, two, F32, NULL, NULL),
        "out and in apart, found");
    INVALID(symmcoll_all_to_all_v(g, b, 6, two, c, 6, two,
                (enum symmcoll_dtype)SYMMCOLL_DTYPE_COUNT, NULL, NULL),
        "found 20");
}

static void refuse_lists(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    float *b = bench->buf;
    void *outs[] = {b, b + 2, b + 4}, *holes[] = {b, NULL, b + 4};
    void *twice[] = {b, b + 4, b + 1}, *beside[] = {b + 4, b + 1, b};
    const void *ins[] = {b + 8, b + 10, b + 12};
    const void *gaps[] = {b + 8, NULL, b + 12};
    static const size_t two[] = {2, 2, 2}, huge[] = {SIZE_MAX / 4, 2, 2};
    int me = bench->rank, other = (me + 1) % bench->size;

    INVALID(symmcoll_all_to_all_list(g, NULL, two, ins, two, F32, NULL, NULL),
        "expected outs, a list of 3 buffers, found NULL");
    INVALID(symmcoll_all_to_all_list(g, outs, two, NULL, two, F32, NULL, NULL),
        "expected ins, a list of 3 buffers, found NULL");
    INVALID(symmcoll_all_to_all_list(g, outs, NULL, ins, two, F32, NULL, NULL),
        "out_counts");
    INVALID(symmcoll_all_to_all_list(g, holes, two, ins, two, F32, NULL, NULL),
        "outs[1] of 8 bytes, found NULL");
    INVALID(symmcoll_all_to_all_list(g, outs, two, gaps, two, F32, NULL, NULL),
        "ins[1] of 8 bytes, found NULL");
    INVALID(symmcoll_all_to_all_list(g, twice, two, ins, two, F32, NULL, NULL),
        "found outs[0] and outs[2] overlapping");
    INVALID(symmcoll_all_to_all_list(g, beside, two, ins, two, F32, NULL, NULL),
        "found outs[1] and outs[2] overlapping");
    INVALID(symmcoll_all_to_all_list(
                g, outs, two, (const void *const *)outs, two, F32, NULL, NULL),
        "out and in apart, found out 0 and in 0");
    INVALID(symmcoll_all_to_all_list(g, outs, huge, ins, two, F32, NULL, NULL),
        "more bytes");
    INVALID(symmcoll_all_gather_list(g, NULL, two, b, 2, F32, NULL, NULL),
        "a list of 3 buffers");
    INVALID(symmcoll_all_gather_list(g, outs, two, b + 9, 3, F32, NULL, NULL),
        "itself, found 2 in out and 3 in in");
    INVALID(
        symmcoll_all_gather_list(g, outs, two, outs[other], 2, F32, NULL, NULL),
        "or equal where they are this rank's part");
    INVALID(
        symmcoll_reduce_scatter_list(g, b, 2, NULL, two, F32, SUM, NULL, NULL),
        "a list of 3 buffers");
    INVALID(symmcoll_reduce_scatter_list(
                g, b + 2, 2, ins, two, F32, SYMMCOLL_OP_COUNT, NULL, NULL),
        "found 9");
    INVALID(symmcoll_reduce_scatter_list(
                g, b + 9, 2, ins, two, F32, SUM, NULL, NULL),
        "apart");
    INVALID(symmcoll_gather_list(g, NULL, b, 2, F32, me, NULL, NULL), "out of");
    INVALID(symmcoll_gather_list(g, holes, b + 8, 2, F32, me, NULL, NULL),
        "outs[1] of 8 bytes, found NULL");
    INVALID(symmcoll_gather_list(g, outs, b + 8, 2, F32, other, NULL, NULL),
        "the root, alone, found one on rank");
    INVALID(
        symmcoll_gather_list(g, outs, b + 1, 2, F32, me, NULL, NULL), "apart");
    INVALID(symmcoll_scatter_list(g, b, NULL, 2, F32, me, NULL, NULL), "in of");
    INVALID(symmcoll_scatter_list(g, b, gaps, 2, F32, me, NULL, NULL),
        "ins[1] of 8 bytes, found NULL");
    INVALID(symmcoll_scatter_list(g, b, ins, 2, F32, other, NULL, NULL),
        "the root, alone, found one on rank");
    INVALID(
        symmcoll_scatter_list(g, b + 11, ins, 2, F32, me, NULL, NULL), "apart");
}

/* Checks that every operation which a type lacks is refused. */
static void refuse_undefined(struct bench *bench)
{
    struct symmcoll_group *g = bench->group;
    float *b = bench->buf;

    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++) {
        enum symmcoll_dtype dtype = (enum symmcoll_dtype)d;

        for (symmcoll_op_t op = 0; op < SYMMCOLL_OP_COUNT; op++) {
            symmcoll_op_t wanted = data_op(g, op, bench->rank);
            const char *name = symmcoll_dtype_name(dtype);

            if (symc_dtype_reduces(symc_dtype_find(dtype), op))
                continue;
            UNSUPPORTED(
                symmcoll_all_reduce(g, b, b, 1, dtype, wanted, NULL, NULL),
                name);
            UNSUPPORTED(
                symmcoll_reduce(g, b, b, 1, dtype, wanted, 0, NULL, NULL),
                name);
            UNSUPPORTED(symmcoll_reduce_scatter(
                            g, b, b + 32, 1, dtype, wanted, NULL, NULL),
                name);
        }
    }
}

/* Checks, after refusals, that nothing was written and that the group works. */
static int goes_on(struct bench *bench)
{
    float in = (float)bench->rank, out = 0;
    bool untouched = true;

    for (size_t i = 0; i < LENGTH(bench->buf); i++)
        untouched = untouched && bench->buf[i] == 0;
    return bench->right && untouched &&
           symmcoll_group_sequence(bench->group) == 0 &&
           symmcoll_all_reduce(bench->group, &out, &in, 1, F32, SUM, NULL,
               NULL) == SYMMCOLL_OK &&
           out == (float)(bench->size * (bench->size - 1) / 2) &&
           symmcoll_group_sequence(bench->group) == 1;
}

typedef void (*refusal_fn)(struct bench *bench);

static int run_refusals(
    struct symmcoll_group *group, int rank, refusal_fn refusal)
{
    struct bench bench = {.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .right = true};

    /* Only one rank fails: its errors must not shift its sequence. */
    if (rank == bench.size - 1)
        refusal(&bench);
    return goes_on(&bench);
}

static int missing(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_missing);
}

static int overlaps(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_overlaps);
}

static int numbers(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_numbers);
}

static int options(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_options);
}

static int splits(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_splits);
}

static int lists(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_lists);
}

static int undefined(struct symmcoll_group *group, int rank)
{
    return run_refusals(group, rank, refuse_undefined);
}

int main(void)
{
    both_run(3, missing, "a missing group or buffer is INVALID");
    both_run(3, overlaps,
        "buffers that overlap otherwise than in place are "
        "INVALID");
    both_run(3, numbers,
        "a number that is no type, operation, root or count is "
        "INVALID");
    both_run(
        3, splits, "splits that do not fit their buffers are INVALID (C32)");
    both_run(
        3, lists, "lists that are missing, elsewhere or overlap are INVALID");
    both_run(3, options, "options of the wrong size or with a NaN are INVALID");
    both_run(2, undefined,
        "an operation not defined for the type is "
        "UNSUPPORTED");
    both_run(1, numbers, "one rank alone is told the same");
    return done_testing();
}
