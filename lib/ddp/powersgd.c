/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the PowerSGD hook: created, freed, saved and loaded.
 */
#include "ddp/powersgd.h"
#include "ddp/hook_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct symmcoll_powersgd_args default_args =
    SYMMCOLL_POWERSGD_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_POWERSGD_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(size_t)};

/* ---- buckets ---- */

struct symc_psgd_bucket *symc_psgd_bucket_at(
    struct symmcoll_powersgd *state, int index)
{
    struct symc_psgd_bucket *buckets = symc_hook_grow(
        state->buckets, &state->nbuckets, sizeof(*buckets), index);

    if (buckets == NULL)
        return NULL;
    state->buckets = buckets;
    return &buckets[index];
}

/* Returns the number of elements of the largest Q. */
static uint64_t largest_q(const struct symc_psgd_bucket *bucket)
{
    uint64_t most = 1;

    for (uint64_t i = 0; i < bucket->nmatrices; i++)
        if (bucket->matrices[i].columns * bucket->matrices[i].rank > most)
            most = bucket->matrices[i].columns * bucket->matrices[i].rank;
    return most;
}

symmcoll_status_t symc_psgd_bucket_alloc(struct symc_psgd_bucket *bucket)
{
    bucket->memory = symc_alloc(
        bucket->ncopy + bucket->nfirst + bucket->nq + 1, sizeof(float));
    bucket->sums = symc_alloc(largest_q(bucket), sizeof(*bucket->sums));
    if (bucket->memory == NULL || bucket->sums == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    bucket->copy = bucket->memory;
    bucket->first = bucket->copy + bucket->ncopy;
    bucket->q = bucket->first + bucket->nfirst;
    return SYMMCOLL_OK;
}

void symc_psgd_bucket_end(struct symc_psgd_bucket *bucket)
{
    free(bucket->matrices);
    free(bucket->memory);
    free(bucket->sums);
    free(bucket->wire);
    *bucket = (struct symc_psgd_bucket){0};
}

void symmcoll_powersgd_free(struct symmcoll_powersgd *state)
{
    if (state == NULL)
        return;
    for (int b = 0; b < state->nbuckets; b++)
        symc_psgd_bucket_end(&state->buckets[b]);
    free(state->buckets);
    free(state);
}

/* ---- options ---- */

#define OPTIONS 7 /* the first terms */
#define TERMS 10

static const char *const term_names[TERMS] = {"rank", "start", "min_rate",
    "epsilon", "seed (low half)", "seed (high half)", "flags",
    "number of passes", "factors (low half)", "factors (high half)"};

static double low_half(uint64_t value)
{
    return (double)(value & UINT32_MAX);
}

static double high_half(uint64_t value)
{
    return (double)(value >> 32);
}

/* Returns a hash of the factors and matrices of all buckets. */
static uint64_t digest(const struct symmcoll_powersgd *state)
{
    uint64_t hash = 0;

    for (int b = 0; b < state->nbuckets; b++) {
        const struct symc_psgd_bucket *bucket = &state->buckets[b];

        hash = symc_psgd_mix(hash ^ bucket->ncopy);
        for (uint64_t i = 0; bucket->has_q && i < bucket->nq; i++) {
            uint32_t bits;

            memcpy(&bits, &bucket->q[i], sizeof(bits));
            hash = symc_psgd_mix(hash ^ bits);
        }
    }
    return hash;
}

/* Fills in the values that all ranks compare. */
static void fill_terms(const struct symmcoll_powersgd *state, double *values)
{
    const struct symmcoll_powersgd_args *args = &state->args;
    uint64_t hash = digest(state);

    values[0] = args->rank;
    values[1] = args->start;
    values[2] = args->min_rate;
    values[3] = args->epsilon;
    values[4] = low_half(args->seed);
    values[5] = high_half(args->seed);
    values[6] = (args->no_error_feedback != 0) +
                2 * (args->no_warm_start != 0) + 4 * (args->batched != 0);
    values[7] = (double)state->iteration;
    values[8] = low_half(hash);
    values[9] = high_half(hash);
}

/* Compares a state over the ranks; own: the status of this rank, with which
 * state may be NULL.  Collective. */
static symmcoll_status_t agree(const char *where, struct symmcoll_group *group,
    const struct symmcoll_powersgd *state, symmcoll_status_t own)
{
    double values[TERMS] = {0};

    if (own == SYMMCOLL_OK)
        fill_terms(state, values);
    return symc_hook_agree(where, group, term_names, values, TERMS, own);
}

static symmcoll_status_t refuse(
    const char *name, const char *expected, double found)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "powersgd_create: expected %s %s, found %g", name, expected, found);
}

/* Fills in defaults and checks the values. */
static symmcoll_status_t check_args(struct symmcoll_powersgd_args *args)
{
    bool keeps = !args->no_error_feedback || !args->no_warm_start;

    if (args->rank == 0)
        args->rank = 1;
    if (args->start == 0)
        args->start = 1000;
    if (args->min_rate == 0.0)
        args->min_rate = 2.0;
    if (args->rank < 0)
        return refuse("a rank", "of at least 1", args->rank);
    if (args->start < (keeps ? 2 : 1))
        return refuse("a start",
            keeps ? "of at least 2, with error feedback or warm start"
                  : "of at least 1",
            args->start);
    if (!(args->min_rate > 0.0 && isfinite(args->min_rate)))
        return refuse("a min_rate", "above 0", args->min_rate);
    if (!(args->epsilon >= 0.0 && isfinite(args->epsilon)))
        return refuse("an epsilon", "of at least 0", args->epsilon);
    return SYMMCOLL_OK;
}

/* Makes an empty state (out) with the caller's options. */
static symmcoll_status_t make_state(const struct symmcoll_powersgd_args *args,
    struct symmcoll_powersgd *const *place, struct symmcoll_powersgd **made)
{
    symmcoll_status_t status;

    if (place == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "powersgd_create: expected a place for the state, found NULL");
    *made = symc_alloc(1, sizeof(**made));
    if (*made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status =
        symc_sized_read(&args_kind, "powersgd_create", args, &(*made)->args);
    return status == SYMMCOLL_OK ? check_args(&(*made)->args) : status;
}

symmcoll_status_t symmcoll_powersgd_create(struct symmcoll_group *group,
    const struct symmcoll_powersgd_args *args, struct symmcoll_powersgd **state)
{
    struct symmcoll_powersgd *made = NULL;
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "powersgd_create: expected a group, found NULL");
    status = make_state(args, state, &made);
    status = agree("powersgd_create", group, made, status);
    if (status != SYMMCOLL_OK) {
        symmcoll_powersgd_free(made);
        return status;
    }
    *state = made;
    return SYMMCOLL_OK;
}

/* ---- saving ---- */

/* The beginning of a saved state; its buckets follow.  All fields have the same
 * size, so that no byte is padding. */
struct file {
    uint64_t magic;
    uint64_t nbytes;
    double options[OPTIONS];
    uint64_t iteration;
    uint64_t nbuckets;
};

/* The beginning of a saved bucket; its matrices follow, the errors, and q. */
struct file_bucket {
    uint64_t nmatrices;
    uint64_t ncopy, nfirst, nq;
    uint64_t has_q;
};

#define MAGIC UINT64_C(0x31444753505f4353)

static size_t saved_size(const struct symc_psgd_bucket *bucket)
{
    return sizeof(struct file_bucket) +
           bucket->nmatrices * sizeof(struct symc_psgd_matrix) +
           (bucket->ncopy + bucket->nq) * sizeof(float);
}

static char *put_bucket(char *at, const struct symc_psgd_bucket *bucket)
{
    struct file_bucket head = {bucket->nmatrices, bucket->ncopy, bucket->nfirst,
        bucket->nq, bucket->has_q};

    at = symc_saved_put(at, &head, sizeof(head));
    at = symc_saved_put(
        at, bucket->matrices, bucket->nmatrices * sizeof(*bucket->matrices));
    at = symc_saved_put(at, bucket->copy, bucket->ncopy * sizeof(float));
    return symc_saved_put(at, bucket->q, bucket->nq * sizeof(float));
}

symmcoll_status_t symmcoll_powersgd_save(
    const struct symmcoll_powersgd *state, void **data, size_t *nbytes)
{
    struct file head = {.magic = MAGIC, .nbytes = sizeof(head)};
    double values[TERMS];
    char *at;

    if (state == NULL || data == NULL || nbytes == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "powersgd_save: expected a state and places for its bytes, found "
            "NULL");
    for (int b = 0; b < state->nbuckets; b++) {
        if (state->buckets[b].phase != SYMC_PSGD_IDLE)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "powersgd_save: expected a state whose passes have all ended, "
                "found one that has not, or has failed");
        head.nbytes += saved_size(&state->buckets[b]);
    }
    fill_terms(state, values);
    memcpy(head.options, values, sizeof(head.options));
    head.iteration = state->iteration;
    head.nbuckets = (uint64_t)state->nbuckets;
    *data = symc_alloc(1, head.nbytes);
    if (*data == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *nbytes = head.nbytes;
    at = symc_saved_put(*data, &head, sizeof(head));
    for (int b = 0; b < state->nbuckets; b++)
        at = put_bucket(at, &state->buckets[b]);
    return SYMMCOLL_OK;
}

/* ---- loading ---- */

static symmcoll_status_t refuse_bytes(const char *found)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "powersgd_load: expected the bytes of symmcoll_powersgd_save(), found "
        "%s",
        found);
}

/* Checks that the matrices lie in the arrays. */
static bool matrices_fit(const struct symc_psgd_bucket *bucket)
{
    for (uint64_t i = 0; i < bucket->nmatrices; i++) {
        const struct symc_psgd_matrix *matrix = &bucket->matrices[i];

        if (matrix->rank > 0 && (matrix->columns > bucket->nq / matrix->rank ||
                                    matrix->columns == 0))
            return false;
    }
    return true;
}

static symmcoll_status_t take_bucket(
    struct symc_saved *rest, struct symc_psgd_bucket *bucket)
{
    struct file_bucket head;
    size_t matrix = sizeof(*bucket->matrices);

    if (!symc_saved_take(rest, &head, 1, sizeof(head)) ||
        head.nmatrices > rest->nbytes / matrix ||
        head.ncopy > rest->nbytes / sizeof(float) ||
        head.nq > rest->nbytes / sizeof(float) || head.nfirst > head.ncopy)
        return refuse_bytes("a part of a bucket");
    if (head.nmatrices == 0)
        return SYMMCOLL_OK;
    bucket->nmatrices = head.nmatrices;
    bucket->ncopy = head.ncopy;
    bucket->nfirst = head.nfirst;
    bucket->nq = head.nq;
    bucket->has_q = head.has_q != 0;
    bucket->matrices = symc_alloc(2 * head.nmatrices, matrix);
    if (bucket->matrices == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    bucket->spare = bucket->matrices + head.nmatrices;
    if (!symc_saved_take(rest, bucket->matrices, head.nmatrices, matrix) ||
        !matrices_fit(bucket))
        return refuse_bytes("other matrices");
    if (symc_psgd_bucket_alloc(bucket) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_NO_MEMORY;
    return symc_saved_take(rest, bucket->copy, head.ncopy, sizeof(float)) &&
                   symc_saved_take(rest, bucket->q, head.nq, sizeof(float))
               ? SYMMCOLL_OK
               : refuse_bytes("a part of a bucket");
}

/* Reads a saved state into an empty one with the same options. */
static symmcoll_status_t read_state(
    struct symmcoll_powersgd *made, const void *data, size_t nbytes)
{
    struct symc_saved rest = {data, nbytes};
    double values[TERMS];
    struct file head;

    if (!symc_saved_take(&rest, &head, 1, sizeof(head)) || head.magic != MAGIC)
        return refuse_bytes("others");
    if (head.nbytes != nbytes ||
        head.nbuckets > nbytes / sizeof(struct file_bucket))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "powersgd_load: expected %llu bytes, found %zu",
            (unsigned long long)head.nbytes, nbytes);
    fill_terms(made, values);
    for (int t = 0; t < OPTIONS; t++)
        if (head.options[t] != values[t])
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "powersgd_load: expected a state with the %s %.17g, found "
                "%.17g",
                term_names[t], values[t], head.options[t]);
    made->iteration = head.iteration;
    for (uint64_t b = 0; b < head.nbuckets; b++) {
        struct symc_psgd_bucket *bucket = symc_psgd_bucket_at(made, (int)b);
        symmcoll_status_t status = bucket != NULL ? take_bucket(&rest, bucket)
                                                  : SYMMCOLL_ERR_NO_MEMORY;

        if (status != SYMMCOLL_OK)
            return status;
    }
    return rest.nbytes == 0 ? SYMMCOLL_OK : refuse_bytes("more");
}

/* Makes a state (out) with the options of another one from saved bytes. */
static symmcoll_status_t make_loaded(const struct symmcoll_powersgd *state,
    const void *data, size_t nbytes, struct symmcoll_powersgd **made)
{
    if (state == NULL || data == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "powersgd_load: expected a state and its bytes, found NULL");
    if (state->pass.reducer != NULL)
        return symc_hook_refuse_load("powersgd_load");
    *made = symc_alloc(1, sizeof(**made));
    if (*made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    (*made)->args = state->args;
    return read_state(*made, data, nbytes);
}

symmcoll_status_t symmcoll_powersgd_load(struct symmcoll_powersgd *state,
    struct symmcoll_group *group, const void *data, size_t nbytes)
{
    struct symmcoll_powersgd *made = NULL, old;
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "powersgd_load: expected a group, found NULL");
    status = make_loaded(state, data, nbytes, &made);
    status = agree("powersgd_load", group, made, status);
    if (status == SYMMCOLL_OK && made != NULL) {
        old = *state;
        *state = *made;
        *made = old;
    }
    symmcoll_powersgd_free(made);
    return status;
}
