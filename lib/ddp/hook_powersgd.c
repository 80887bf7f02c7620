/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PowerSGD hook (Vogels, Karimireddy and Jaggi, 2019): sends two thin
 * factors P and Q instead of each gradient matrix M.  The hook starts the sum of
 * P = M Q over the ranks; at its end symmcoll_hook_powersgd_end() makes P
 * orthogonal and starts the sum of Q = M^T P, and at the end of that it writes
 * P Q^T to the bucket.  So no call waits.
 */
#include "ddp/element.h"
#include "ddp/hook_state.h"
#include "ddp/powersgd.h"

#include <symmcoll/group.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- elements ---- */

/* Returns the largest value that may be added over the ranks without an
 * overflow. */
static double largest_term(
    enum symmcoll_dtype dtype, const struct symmcoll_group *group)
{
    return 0.99 * symc_element_largest(dtype) / symmcoll_group_size(group);
}

/* ---- the matrices of a bucket ---- */

/* Describes the whole bucket as one square matrix, padded with zeros. */
static void describe_square(const struct symmcoll_powersgd *state,
    const struct symmcoll_bucket *bucket, struct symc_psgd_matrix *matrix)
{
    uint64_t side = (uint64_t)sqrt((double)bucket->count);

    while (side * side < bucket->count)
        side++;
    *matrix = (struct symc_psgd_matrix){.rows = side, .columns = side};
    matrix->rank = (uint64_t)state->args.rank;
    if (matrix->rank > side)
        matrix->rank = side;
}

/* Describes a gradient: rows along the outermost dimension in memory. */
static symmcoll_status_t describe_gradient(
    const struct symmcoll_powersgd *state, const struct symmcoll_bucket *bucket,
    int i, struct symc_psgd_matrix *matrix)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    symmcoll_status_t status = symmcoll_bucket_grad(bucket, i, &grad);
    uint64_t count = 1, least, rank = (uint64_t)state->args.rank;
    int outer = 0;

    if (status != SYMMCOLL_OK)
        return status;
    for (int d = 0; d < grad.ndim; d++) {
        count *= (uint64_t)grad.shape[d];
        if (grad.strides[d] > grad.strides[outer])
            outer = d;
    }
    *matrix = (struct symc_psgd_matrix){.rows = 1, .columns = count};
    matrix->offset =
        (uint64_t)((const char *)grad.data - (const char *)bucket->buffer) /
        symmcoll_dtype_size(bucket->dtype);
    if (grad.ndim > 0 && grad.shape[outer] > 0) {
        matrix->rows = (uint64_t)grad.shape[outer];
        matrix->columns = count / matrix->rows;
    }
    least = matrix->rows < matrix->columns ? matrix->rows : matrix->columns;
    if (rank > least)
        rank = least;
    if ((double)(matrix->rows + matrix->columns) * (double)rank *
            state->args.min_rate <
        (double)count)
        matrix->rank = rank;
    return SYMMCOLL_OK;
}

/* Describes all matrices of a bucket, in memory for them, and counts the
 * elements of its arrays.  Those without compression precede all P. */
static symmcoll_status_t describe(const struct symmcoll_powersgd *state,
    const struct symmcoll_bucket *bucket, struct symc_psgd_bucket *made)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    made->ncopy = bucket->count;
    if (state->args.batched) {
        describe_square(state, bucket, &made->matrices[0]);
        made->ncopy = made->matrices[0].rows * made->matrices[0].columns;
    }
    for (uint64_t i = 0; !state->args.batched && i < made->nmatrices; i++) {
        status = describe_gradient(state, bucket, (int)i, &made->matrices[i]);
        if (status != SYMMCOLL_OK)
            return status;
    }
    for (uint64_t i = 0; i < made->nmatrices; i++) {
        struct symc_psgd_matrix *matrix = &made->matrices[i];

        if (matrix->rank > 0)
            continue;
        matrix->p = made->nfirst;
        made->nfirst += matrix->rows * matrix->columns;
    }
    for (uint64_t i = 0; i < made->nmatrices; i++) {
        struct symc_psgd_matrix *matrix = &made->matrices[i];

        if (matrix->rank == 0)
            continue;
        matrix->p = made->nfirst;
        matrix->q = made->nq;
        made->nfirst += matrix->rows * matrix->rank;
        made->nq += matrix->columns * matrix->rank;
    }
    return SYMMCOLL_OK;
}

static bool is_same(
    const struct symc_psgd_bucket *a, const struct symc_psgd_bucket *b)
{
    return a->ncopy == b->ncopy && a->nfirst == b->nfirst && a->nq == b->nq &&
           memcmp(a->matrices, b->matrices,
               a->nmatrices * sizeof(*a->matrices)) == 0;
}

/* Makes the state of a bucket anew if its gradients are not those of the pass
 * before, as after the buckets were rebuilt. */
static symmcoll_status_t update(const struct symmcoll_powersgd *state,
    const struct symmcoll_bucket *bucket, struct symc_psgd_bucket *held)
{
    struct symc_psgd_bucket made = {0};
    symmcoll_status_t status;

    made.nmatrices = state->args.batched ? 1 : (uint64_t)bucket->ngrads;
    made.matrices =
        held->nmatrices == made.nmatrices
            ? held->spare
            : symc_alloc(2 * made.nmatrices, sizeof(*made.matrices));
    if (made.matrices == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    memset(made.matrices, 0, made.nmatrices * sizeof(*made.matrices));
    status = describe(state, bucket, &made);
    if (made.matrices == held->spare) {
        if (status != SYMMCOLL_OK || is_same(held, &made))
            return status;
        made.matrices = held->matrices;
        memcpy(made.matrices, held->spare,
            made.nmatrices * sizeof(*made.matrices));
        held->matrices = NULL;
    }
    made.spare = made.matrices + made.nmatrices;
    if (status == SYMMCOLL_OK)
        status = symc_psgd_bucket_alloc(&made);
    symc_psgd_bucket_end(held);
    if (status != SYMMCOLL_OK)
        symc_psgd_bucket_end(&made);
    *held = made;
    return status;
}

/* ---- sums over the ranks ---- */

/* Allocates the array in 16 bits if the bucket's type needs it. */
static symmcoll_status_t choose_wire(
    struct symc_psgd_bucket *held, enum symmcoll_dtype dtype)
{
    uint64_t count = held->nfirst > held->nq ? held->nfirst : held->nq;

    held->wire_dtype = dtype;
    if (dtype == SYMMCOLL_FLOAT32 || held->wire != NULL)
        return SYMMCOLL_OK;
    held->wire = symc_alloc(count + 1, sizeof(*held->wire));
    return held->wire != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

/* Starts the sum of an array of floats over the ranks. */
static symmcoll_status_t start_sum(struct symc_psgd_bucket *held,
    struct symmcoll_group *group, const struct symmcoll_bucket *bucket,
    float *array, uint64_t count, struct symmcoll_work **work)
{
    struct symmcoll_bucket sent = *bucket;

    sent.buffer = array;
    sent.count = count;
    sent.dtype = held->wire_dtype;
    if (held->wire_dtype != SYMMCOLL_FLOAT32) {
        sent.buffer = held->wire;
        for (uint64_t i = 0; i < count; i++)
            symc_element_store(held->wire, i, held->wire_dtype, array[i]);
    }
    return symc_hook_sum(group, &sent, false, work);
}

static void end_sum(
    const struct symc_psgd_bucket *held, float *array, uint64_t count)
{
    if (held->wire_dtype != SYMMCOLL_FLOAT32)
        for (uint64_t i = 0; i < count; i++)
            array[i] = symc_element_load(held->wire, i, held->wire_dtype);
}

/* ---- the hook ---- */

/* Adds the gradients to the errors of the pass before.  An infinite element of
 * a compressed matrix becomes a NaN, which spreads over the matrix: a limited
 * sum would hide it from the caller. */
static void add_errors(struct symc_psgd_bucket *held,
    const struct symmcoll_bucket *bucket, bool feedback)
{
    for (uint64_t i = 0; i < bucket->count; i++) {
        float grad = symc_element_load(bucket->buffer, i, bucket->dtype);

        if (!isfinite(grad))
            held->copy[i] = grad;
        else
            held->copy[i] = (float)symc_element_limit(
                (double)grad + (feedback ? (double)held->copy[i] : 0.0),
                FLT_MAX);
    }
    for (uint64_t m = 0; m < held->nmatrices; m++) {
        const struct symc_psgd_matrix *matrix = &held->matrices[m];
        float *copy = held->copy + matrix->offset;

        for (uint64_t i = 0;
             matrix->rank > 0 && i < matrix->rows * matrix->columns; i++)
            if (isinf(copy[i]))
                copy[i] = NAN;
    }
}

/* Draws what Q lacks, and computes P. */
static void compress(const struct symmcoll_powersgd *state,
    struct symc_psgd_bucket *held, const struct symmcoll_group *group,
    int index)
{
    double limit = largest_term(held->wire_dtype, group);
    double share = 1.0 / symmcoll_group_size(group);

    if (!held->has_q)
        memset(held->q, 0, held->nq * sizeof(*held->q));
    for (uint64_t i = 0; i < held->nmatrices; i++) {
        const struct symc_psgd_matrix *matrix = &held->matrices[i];
        const float *copy = held->copy + matrix->offset;
        float *q = held->q + matrix->q, *p = held->first + matrix->p;
        uint64_t key = state->args.seed;

        for (uint64_t e = 0;
             matrix->rank == 0 && e < matrix->rows * matrix->columns; e++)
            p[e] = (float)(copy[e] * share);
        if (matrix->rank == 0)
            continue;
        key = symc_psgd_mix(key) ^ state->iteration;
        key = symc_psgd_mix(key) ^ (uint64_t)index;
        key = symc_psgd_mix(symc_psgd_mix(key) ^ i);
        symc_psgd_draw(q, matrix->columns, matrix->rank, key);
        symc_psgd_orthogonalise(
            q, matrix->columns, matrix->rank, state->args.epsilon);
        symc_psgd_project(p, copy, q, matrix, limit, held->sums);
    }
}

static symmcoll_status_t start_first(const struct symmcoll_powersgd *state,
    struct symc_psgd_bucket *held, struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, struct symmcoll_work **work)
{
    symmcoll_status_t status = update(state, bucket, held);

    if (status == SYMMCOLL_OK)
        status = choose_wire(held, bucket->dtype);
    if (status != SYMMCOLL_OK)
        return status;
    add_errors(held, bucket, !state->args.no_error_feedback);
    compress(state, held, group, bucket->index);
    held->phase = SYMC_PSGD_FIRST;
    return start_sum(held, group, bucket, held->first, held->nfirst, work);
}

/* Reads the state of a hook's bucket (out).  Errors: INVALID, NO_MEMORY. */
static symmcoll_status_t find_state(const char *where,
    struct symmcoll_powersgd *state, const struct symmcoll_bucket *bucket,
    struct symc_psgd_bucket **held)
{
    if (state == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the state of symmcoll_powersgd_create() as argument, "
            "found NULL",
            where);
    *held = symc_psgd_bucket_at(state, bucket->index);
    return *held != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

/* Checks that the hook can reduce a bucket. */
static symmcoll_status_t check(
    const struct symmcoll_bucket *bucket, const struct symc_psgd_bucket *held)
{
    symmcoll_status_t status = symc_hook_check_floats("hook_powersgd", bucket);

    if (status != SYMMCOLL_OK)
        return status;
    if (bucket->reducer->hook_end == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_powersgd: expected a reducer with hook_end "
            "symmcoll_hook_powersgd_end, found none");
    if (held->phase != SYMC_PSGD_IDLE && held->phase != SYMC_PSGD_PLAIN)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_powersgd: expected a state whose passes have all ended, "
            "found a failed one: load a saved state");
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_hook_powersgd(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_powersgd *state = arg;
    struct symc_psgd_bucket *held = NULL;
    struct symmcoll_bucket bucket;
    symmcoll_status_t status =
        symc_hook_read_call("hook_powersgd", group, given, work, &bucket);

    if (status == SYMMCOLL_OK)
        status = find_state("hook_powersgd", state, &bucket, &held);
    if (status != SYMMCOLL_OK)
        return status;
    status = check(&bucket, held);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_hook_enter("hook_powersgd", &state->pass, bucket.reducer);
    if (status != SYMMCOLL_OK)
        return status;
    if (state->iteration < (uint64_t)state->args.start) {
        held->phase = SYMC_PSGD_PLAIN;
        status = symmcoll_hook_all_reduce(group, &bucket, NULL, work);
    } else {
        status = start_first(state, held, group, &bucket, work);
    }
    if (bucket.is_last && status == SYMMCOLL_OK)
        state->iteration++;
    return status;
}

/* ---- the end of its works ---- */

/* Writes the elements without compression, and starts the sum of Q. */
static symmcoll_status_t end_first(const struct symmcoll_powersgd *state,
    struct symc_psgd_bucket *held, struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, struct symmcoll_work **work)
{
    double limit = largest_term(held->wire_dtype, group);
    double share = 1.0 / symmcoll_group_size(group);

    end_sum(held, held->first, held->nfirst);
    for (uint64_t i = 0; i < held->nmatrices; i++) {
        const struct symc_psgd_matrix *matrix = &held->matrices[i];
        float *copy = held->copy + matrix->offset;
        float *p = held->first + matrix->p;

        for (uint64_t e = 0;
             matrix->rank == 0 && e < matrix->rows * matrix->columns; e++) {
            symc_element_store(
                bucket->buffer, matrix->offset + e, bucket->dtype, p[e]);
            copy[e] = 0.0f;
        }
        if (matrix->rank == 0)
            continue;
        symc_psgd_orthogonalise(
            p, matrix->rows, matrix->rank, state->args.epsilon);
        symc_psgd_project_back(
            held->q + matrix->q, copy, p, matrix, share, limit, held->sums);
    }
    held->phase = held->nq > 0 ? SYMC_PSGD_SECOND : SYMC_PSGD_IDLE;
    return held->nq > 0
               ? start_sum(held, group, bucket, held->q, held->nq, work)
               : SYMMCOLL_OK;
}

/* Writes a row of an approximation to the bucket, and its errors. */
static void end_row(const struct symc_psgd_bucket *held,
    const struct symmcoll_bucket *bucket, const struct symc_psgd_matrix *matrix,
    uint64_t row, float *values)
{
    uint64_t first = matrix->offset + row * matrix->columns;

    symc_psgd_expand_row(values, held->first + matrix->p, held->q + matrix->q,
        matrix, row, symc_element_largest(bucket->dtype));
    for (uint64_t c = 0; c < matrix->columns; c++) {
        double error = (double)held->copy[first + c] - values[c];

        /* After an overflow of the loss the next pass begins without errors. */
        held->copy[first + c] =
            isfinite(error) ? (float)symc_element_limit(error, FLT_MAX) : 0.0f;
        if (first + c < bucket->count)
            symc_element_store(
                bucket->buffer, first + c, bucket->dtype, values[c]);
        else
            held->copy[first + c] = 0.0f;
    }
}

static void end_second(const struct symmcoll_powersgd *state,
    struct symc_psgd_bucket *held, const struct symmcoll_bucket *bucket)
{
    end_sum(held, held->q, held->nq);
    for (uint64_t i = 0; i < held->nmatrices; i++) {
        const struct symc_psgd_matrix *matrix = &held->matrices[i];

        for (uint64_t row = 0; matrix->rank > 0 && row < matrix->rows; row++)
            end_row(held, bucket, matrix, row, (void *)held->sums);
    }
    held->has_q = !state->args.no_warm_start;
    held->phase = SYMC_PSGD_IDLE;
}

symmcoll_status_t symmcoll_hook_powersgd_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *given, void *arg, struct symmcoll_work **work)
{
    struct symmcoll_powersgd *state = arg;
    struct symc_psgd_bucket *held = NULL;
    struct symmcoll_bucket bucket;
    symmcoll_status_t status =
        symc_hook_read_call("hook_powersgd_end", group, given, work, &bucket);

    if (status == SYMMCOLL_OK)
        status = find_state("hook_powersgd_end", state, &bucket, &held);
    if (status != SYMMCOLL_OK)
        return status;
    if (held->phase == SYMC_PSGD_FIRST)
        return end_first(state, held, group, &bucket, work);
    if (held->phase == SYMC_PSGD_SECOND)
        end_second(state, held, &bucket);
    else
        held->phase = SYMC_PSGD_IDLE;
    return SYMMCOLL_OK;
}
