/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank that passes a different argument: MISMATCH on all ranks, which
 * names the rank and both values; buffers are unchanged, and the group remains
 * usable.
 */
#include "../tap.h"
#include "data.h"

#include <stdio.h>
#include <string.h>

#define LARGE ((size_t)20000)
#define SMALL ((size_t)3)

/* The call that a rank makes. */
struct request {
    enum {
        ALL_REDUCE,
        BROADCAST,
        REDUCE,
        ALL_GATHER,
        GATHER,
        REDUCE_SCATTER,
        SCATTER,
        ALL_TO_ALL,
        BARRIER
    } kind;
    size_t count;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
    int root;
};

/* One disagreement: the usual request, the odd one, and the text for each. */
struct difference {
    struct request usual;
    struct request odd;
    const char *field;
    const char *usual_value;
    const char *odd_value;
};

#define F32 SYMMCOLL_FLOAT32
#define SUM SYMMCOLL_SUM

static const struct difference differences[] = {
    {{ALL_REDUCE, SMALL, F32, SUM, 0}, {ALL_REDUCE, SMALL + 1, F32, SUM, 0},
        "count differs", "3", "4"},
    {{ALL_REDUCE, LARGE, F32, SUM, 0}, {ALL_REDUCE, SMALL, F32, SUM, 0},
        "count differs", "20000", "3"},
    {{ALL_REDUCE, SMALL, F32, SUM, 0}, {ALL_REDUCE, LARGE, F32, SUM, 0},
        "count differs", "3", "20000"},
    {{ALL_REDUCE, LARGE, F32, SUM, 0}, {ALL_REDUCE, LARGE - 1, F32, SUM, 0},
        "count differs", "20000", "19999"},
    {{ALL_REDUCE, 0, F32, SUM, 0}, {ALL_REDUCE, LARGE, F32, SUM, 0},
        "count differs", "0", "20000"},
    {{ALL_REDUCE, SMALL, F32, SUM, 0},
        {ALL_REDUCE, SMALL, SYMMCOLL_INT64, SUM, 0}, "dtype differs", "float32",
        "int64"},
    {{ALL_REDUCE, LARGE, F32, SUM, 0},
        {ALL_REDUCE, LARGE, SYMMCOLL_UINT8, SUM, 0}, "dtype differs", "float32",
        "uint8"},
    {{ALL_REDUCE, SMALL, F32, SUM, 0},
        {ALL_REDUCE, SMALL, F32, SYMMCOLL_MAX, 0}, "op differs", "sum", "max"},
    {{REDUCE, LARGE, F32, SYMMCOLL_MIN, 0},
        {REDUCE, LARGE, F32, SYMMCOLL_PREMUL_SUM, 0}, "op differs", "min",
        "premul_sum"},
    {{BROADCAST, SMALL, F32, SUM, 0}, {BROADCAST, SMALL, F32, SUM, 1},
        "root differs", "0", "1"},
    {{BROADCAST, LARGE, F32, SUM, 1}, {BROADCAST, LARGE, F32, SUM, 0},
        "root differs", "1", "0"},
    {{REDUCE, LARGE, F32, SUM, 1}, {REDUCE, LARGE, F32, SUM, 0}, "root differs",
        "1", "0"},
    {{ALL_REDUCE, SMALL, F32, SUM, 0}, {BROADCAST, SMALL, F32, SUM, 0},
        "operation differs", "all_reduce", "broadcast"},
    {{ALL_GATHER, LARGE, F32, SUM, 0}, {REDUCE_SCATTER, LARGE, F32, SUM, 0},
        "operation differs", "all_gather", "reduce_scatter"},
    {{ALL_REDUCE, LARGE, F32, SUM, 0}, {BARRIER, 0, F32, SUM, 0},
        "operation differs", "all_reduce", "barrier"},
    {{BARRIER, 0, F32, SUM, 0}, {ALL_GATHER, LARGE, F32, SUM, 0},
        "operation differs", "barrier", "all_gather"},
    {{SCATTER, LARGE, F32, SUM, 1}, {SCATTER, LARGE, F32, SUM, 0},
        "root differs", "1", "0"},
    {{SCATTER, SMALL, F32, SUM, 0}, {SCATTER, LARGE, F32, SUM, 0},
        "count differs", "3", "20000"},
    {{ALL_TO_ALL, LARGE, F32, SUM, 0}, {ALL_TO_ALL, SMALL, F32, SUM, 0},
        "count differs", "20000", "3"},
    {{ALL_TO_ALL, SMALL, F32, SUM, 0},
        {ALL_TO_ALL, SMALL, SYMMCOLL_INT64, SUM, 0}, "dtype differs", "float32",
        "int64"},
    {{BROADCAST, SMALL, F32, SUM, 0},
        {BROADCAST, SMALL, SYMMCOLL_INT32, SUM, 0}, "dtype differs", "float32",
        "int32"},
    {{REDUCE, LARGE, F32, SUM, 0}, {REDUCE, LARGE, SYMMCOLL_FLOAT64, SUM, 0},
        "dtype differs", "float32", "float64"},
    {{ALL_GATHER, SMALL, F32, SUM, 0},
        {ALL_GATHER, SMALL, SYMMCOLL_FLOAT16, SUM, 0}, "dtype differs",
        "float32", "float16"},
    {{GATHER, LARGE, F32, SUM, 1}, {GATHER, LARGE, SYMMCOLL_INT8, SUM, 1},
        "dtype differs", "float32", "int8"},
    {{REDUCE_SCATTER, LARGE, F32, SUM, 0},
        {REDUCE_SCATTER, LARGE, SYMMCOLL_BFLOAT16, SUM, 0}, "dtype differs",
        "float32", "bfloat16"},
    {{SCATTER, SMALL, F32, SUM, 0}, {SCATTER, SMALL, SYMMCOLL_UINT8, SUM, 0},
        "dtype differs", "float32", "uint8"},
    {{ALL_TO_ALL, LARGE, F32, SUM, 0}, {SCATTER, LARGE, F32, SUM, 0},
        "operation differs", "all_to_all", "scatter"},
};

static symmcoll_status_t issue(struct symmcoll_group *group, int rank,
    const struct request *request, void *out, const void *in)
{
    symmcoll_op_t op = data_op(group, request->op, rank);

    switch (request->kind) {
    case ALL_REDUCE:
        return symmcoll_all_reduce(
            group, out, in, request->count, request->dtype, op, NULL, NULL);
    case BROADCAST:
        return symmcoll_broadcast(group, out, request->count, request->dtype,
            request->root, NULL, NULL);
    case REDUCE:
        return symmcoll_reduce(group, out, in, request->count, request->dtype,
            op, request->root, NULL, NULL);
    case ALL_GATHER:
        return symmcoll_all_gather(
            group, out, in, request->count, request->dtype, NULL, NULL);
    case GATHER:
        return symmcoll_gather(group, out, in, request->count, request->dtype,
            request->root, NULL, NULL);
    case REDUCE_SCATTER:
        return symmcoll_reduce_scatter(
            group, out, in, request->count, request->dtype, op, NULL, NULL);
    case SCATTER:
        return symmcoll_scatter(group, out, in, request->count, request->dtype,
            request->root, NULL, NULL);
    case ALL_TO_ALL:
        return symmcoll_all_to_all(
            group, out, in, request->count, request->dtype, NULL, NULL);
    default:
        return symmcoll_barrier(group, NULL, NULL);
    }
}

/* Checks that the detail names the values passed by the odd rank and by the
 * rest, or by each of two ranks. */
static bool names_both(
    struct symmcoll_group *group, const struct difference *difference, int odd)
{
    const char *verb =
        strncmp(difference->field, "operation", 9) == 0 ? "called" : "passed";
    int size = symmcoll_group_size(group);
    char text[256];

    if (size > 2)
        snprintf(text, sizeof(text), "%s: rank %d %s %s, the other %d %s %s",
            difference->field, odd, verb, difference->odd_value, size - 1, verb,
            difference->usual_value);
    else
        snprintf(text, sizeof(text), "%s: rank 0 %s %s, rank 1 %s %s",
            difference->field, verb,
            odd == 0 ? difference->odd_value : difference->usual_value, verb,
            odd == 1 ? difference->odd_value : difference->usual_value);
    snprintf(text + strlen(text), sizeof(text) - strlen(text),
        " (group %s, seq %llu)", symmcoll_group_name(group),
        (unsigned long long)symmcoll_group_sequence(group));
    return strstr(symmcoll_last_error(), text) != NULL;
}

static bool works(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    int32_t in = rank + 1, out = 0;

    return symmcoll_all_reduce(group, &out, &in, 1, SYMMCOLL_INT32, SUM, NULL,
               NULL) == SYMMCOLL_OK &&
           out == size * (size + 1) / 2;
}

static bool is_told(struct symmcoll_group *group, int rank,
    const struct difference *difference, int odd)
{
    int size = symmcoll_group_size(group);
    uint64_t before = symmcoll_group_sequence(group);
    size_t nbytes = LARGE * 8 * (size_t)size;
    struct guarded in = guarded_open(nbytes, 0), out = guarded_open(nbytes, 0);
    symmcoll_status_t status = issue(group, rank,
        rank == odd ? &difference->odd : &difference->usual, out.at, in.at);
    bool right = status == SYMMCOLL_ERR_MISMATCH &&
                 names_both(group, difference, odd) && guarded_is_clear(&in) &&
                 guarded_is_clear(&out) &&
                 symmcoll_group_sequence(group) == before + 1;

    if (!right)
        diag("rank %d, odd rank %d: expected %s with rank %d passed %s and %s: "
             "%s: %s",
            rank, odd, difference->field, odd, difference->odd_value,
            difference->usual_value, symmcoll_status_name(status),
            symmcoll_last_error());
    guarded_close(&in);
    guarded_close(&out);
    return right && works(group, rank) &&
           symmcoll_group_error(group) == SYMMCOLL_OK;
}

/* Each rank passes the odd request in turn. */
static int all_are_told(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (size_t d = 0; right && d < LENGTH(differences); d++) {
        for (int odd = 0; right && odd < size; odd++)
            right = is_told(group, rank, &differences[d], odd);
    }
    return right;
}

/* Passes counts that differ in several ways, and checks the error. */
static int passes(struct symmcoll_group *group, int rank, const size_t *counts,
    const char *label, const char *expected)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float buf[16] = {0};
    char text[256];
    symmcoll_status_t status;

    call.label = label;
    status = symmcoll_all_reduce(
        group, buf, buf, counts[rank], F32, SUM, &call, NULL);
    snprintf(text, sizeof(text), "all_reduce: count differs: %s (group %s, %s",
        expected, symmcoll_group_name(group),
        label == NULL ? "seq 1)" : "seq 1, label 'loss')");
    if (status == SYMMCOLL_ERR_MISMATCH &&
        strcmp(symmcoll_last_error(), text) == 0)
        return works(group, rank);
    diag("rank %d: expected %s, found %s", rank, text, symmcoll_last_error());
    return 0;
}

static int no_majority(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {4, 4, 8, 8};

    return passes(group, rank, counts, NULL,
        "ranks 0 and 1 passed 4, ranks 2 and 3 passed 8");
}

static int several_odd_ones(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {8, 4, 8, 5, 8, 8, 5};

    return passes(group, rank, counts, NULL,
        "rank 1 passed 4, ranks 3 and 6 passed 5, the other 4 passed 8");
}

static int a_label_is_said(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {4, 8, 8, 8};

    return passes(
        group, rank, counts, "loss", "rank 0 passed 4, the other 3 passed 8");
}

/* Passes too many different values for the error: the text is truncated, and
 * still has the expected part. */
static int many_values(struct symmcoll_group *group, int rank)
{
    float buf[24] = {0};
    symmcoll_status_t status = symmcoll_all_reduce(
        group, buf, buf, (size_t)rank + 1, F32, SUM, NULL, NULL);
    bool right =
        status == SYMMCOLL_ERR_MISMATCH &&
        strstr(symmcoll_last_error(),
            "rank 0 passed 1, rank 1 passed 2, rank 2 passed 3") != NULL &&
        strstr(symmcoll_last_error(), ", ... (group ") != NULL &&
        strstr(symmcoll_last_error(), ", seq 1)") != NULL;

    if (!right)
        diag("rank %d: %s", rank, symmcoll_last_error());
    return right && works(group, rank);
}

/* Checks that an asynchronous operation ends with the error, and keeps the
 * detail. */
static int a_work_keeps_the_detail(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;
    float buf[2] = {1, 2};
    bool right = symmcoll_all_reduce(group, buf, buf, rank == 1 ? 1 : 2, F32,
                     SUM, NULL, &work) == SYMMCOLL_OK;

    if (!right)
        return 0;
    right = symmcoll_work_wait(work, 60) == SYMMCOLL_ERR_MISMATCH &&
            strstr(symmcoll_work_error(work), "rank 1 passed 1") != NULL &&
            symmcoll_work_sequence(work) == 1 && buf[0] == 1 && buf[1] == 2;
    symmcoll_work_free(work);
    return right && works(group, rank);
}

int main(void)
{
    static const int sizes[] = {2, 3, 5};

    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], all_are_told,
            "a rank that passes something else is named on all ranks (T9)");
    both_run(4, no_majority,
        "where no value has a majority each is said with its ranks");
    both_run(7, several_odd_ones, "each odd value is said with its ranks");
    both_run(4, a_label_is_said, "the label of the call is said");
    both_run(24, many_values, "many values are cut");
    both_run(3, a_work_keeps_the_detail, "a work keeps the detail");
    return done_testing();
}
