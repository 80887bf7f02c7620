/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests parameters that share memory: every pair of small strided parameters
 * against a count of the bytes of both, and the reducer's error for such a
 * pair.
 */
#include "t/ranks.h"
#include "t/tap.h"

#include "ddp/reducer.h"

#include <symmcoll.h>

#include <stdlib.h>
#include <string.h>

#define ARENA 192 /* bytes */
#define PAIRS 200000

static uint64_t state = 88172645463325252u;

static int draw(int bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state % (unsigned)bound);
}

/* Marks the bytes of a tensor; false: one is outside of the arena or marked
 * twice. */
static bool mark_bytes(const struct symmcoll_tensor *tensor,
    const unsigned char *arena, unsigned char *marks)
{
    size_t elem = symmcoll_dtype_size(tensor->dtype);
    int64_t total = 1;

    for (int d = 0; d < tensor->ndim; d++)
        total *= tensor->shape[d];
    for (int64_t i = 0; i < total; i++) {
        int64_t at = (const unsigned char *)tensor->data - arena, rest = i;

        for (int d = tensor->ndim - 1; d >= 0; d--) {
            at += rest % tensor->shape[d] * tensor->strides[d] * (int64_t)elem;
            rest /= tensor->shape[d];
        }
        for (size_t b = 0; b < elem; b++) {
            if ((size_t)at + b >= ARENA || marks[(size_t)at + b] != 0)
                return false;
            marks[(size_t)at + b] = 1;
        }
    }
    return true;
}

/* Draws a parameter somewhere in the arena, and marks its bytes. */
static struct symc_param draw_param(unsigned char *arena, unsigned char *marks)
{
    static const enum symmcoll_dtype dtypes[] = {
        SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT64};
    struct symc_param param;

    for (;;) {
        struct symmcoll_tensor tensor = {
            .size = sizeof(tensor), .dtype = dtypes[draw(3)], .ndim = draw(4)};

        memset(marks, 0, ARENA);
        tensor.data = arena + 2 * draw(ARENA / 2);
        for (int d = 0; d < tensor.ndim; d++) {
            tensor.shape[d] = draw(12) == 0 ? 0 : 1 + draw(4);
            tensor.strides[d] = 1 + draw(20);
        }
        if (!mark_bytes(&tensor, arena, marks))
            continue;
        if (symc_param_init(&param, &tensor, 0, true, "parameter 0") ==
            SYMMCOLL_OK)
            return param;
    }
}

static bool pairs_are_told_apart(void)
{
    static unsigned char arena[ARENA];
    unsigned char marks[2][ARENA];
    int shared = 0;

    for (int i = 0; i < PAIRS; i++) {
        struct symc_param a = draw_param(arena, marks[0]);
        struct symc_param b = draw_param(arena, marks[1]);
        bool expected = false;

        for (int at = 0; at < ARENA; at++)
            expected = expected || (marks[0][at] != 0 && marks[1][at] != 0);
        shared += expected;
        if (symc_params_overlap(&a, &b) != expected ||
            symc_params_overlap(&b, &a) != expected) {
            diag("pair %d: expected %d", i, expected);
            return false;
        }
    }
    diag("%d of %d pairs share memory", shared, PAIRS);
    return shared > PAIRS / 20 && shared < PAIRS - PAIRS / 20;
}

static struct symmcoll_tensor columns(float *matrix, int64_t count)
{
    return (struct symmcoll_tensor){sizeof(struct symmcoll_tensor), matrix,
        SYMMCOLL_FLOAT32, SYMMCOLL_HOST, 0, 2, {4, count}, {6, 1}};
}

static const char *const names[] = {"embed", "head", "tail"};

static symmcoll_status_t create(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, int nparams)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    symmcoll_status_t status;

    args.names = names;
    status = symmcoll_reducer_create(group, params, nparams, &args, &reducer);
    symmcoll_reducer_free(reducer);
    return status;
}

static int overlaps_are_refused_by_name(struct symmcoll_group *group, int rank)
{
    float matrix[24] = {0};
    struct symmcoll_tensor params[3] = {
        {sizeof(struct symmcoll_tensor), &matrix[0], SYMMCOLL_FLOAT32,
            SYMMCOLL_HOST, 0, 1, {10}, {1}},
        {sizeof(struct symmcoll_tensor), &matrix[10], SYMMCOLL_FLOAT32,
            SYMMCOLL_HOST, 0, 1, {4}, {1}},
        {sizeof(struct symmcoll_tensor), &matrix[13], SYMMCOLL_FLOAT32,
            SYMMCOLL_HOST, 0, 1, {4}, {1}}};

    (void)rank;
    return create(group, params, 2) == SYMMCOLL_OK &&
           create(group, params, 3) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(),
               "parameter 2 (tail) shares memory with parameter 1 (head)") !=
               NULL;
}

static int columns_of_a_matrix_are_apart(struct symmcoll_group *group, int rank)
{
    float matrix[24] = {0};
    struct symmcoll_tensor params[2] = {
        columns(matrix, 2), columns(matrix + 2, 4)};

    (void)rank;
    if (create(group, params, 2) != SYMMCOLL_OK)
        return 0;
    params[0].shape[1] = 3;
    return create(group, params, 2) == SYMMCOLL_ERR_INVALID;
}

/* Passes strides that exceed the address space. */
static int impossible_strides_are_refused(
    struct symmcoll_group *group, int rank)
{
    float value = 0;
    struct symmcoll_tensor param = {sizeof(struct symmcoll_tensor), &value,
        SYMMCOLL_FLOAT32, SYMMCOLL_HOST, 0, 1, {2}, {INT64_MAX / 2}};

    (void)rank;
    return create(group, &param, 1) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "strides") != NULL;
}

int main(void)
{
    plan(4);
    ok(pairs_are_told_apart(),
        "a pair shares memory where a byte belongs to both");
    ok(ranks_run(1, overlaps_are_refused_by_name),
        "parameters that overlap are refused, and both are named");
    ok(ranks_run(1, columns_of_a_matrix_are_apart),
        "columns of one matrix are taken where no element belongs to two");
    ok(ranks_run(1, impossible_strides_are_refused),
        "strides that no memory has room for are refused");
    return done_testing();
}
