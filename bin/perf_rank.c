/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of symmcoll-perf from its first call of the library to its last: it
 * joins the others, checks and times each operation at each size, and rank 0
 * prints.
 */
#include "perf_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocates buffers for the largest size, or for one element per rank. */
static int allocate_buffers(struct perf_rank *rank)
{
    size_t elem = symmcoll_dtype_size(rank->options->dtype);
    size_t least = (size_t)rank->size * elem;
    size_t nbytes = rank->options->max_nbytes;

    if (nbytes < least)
        nbytes = least;
    rank->in = perf_allocate_buffer(rank, nbytes + 2 * PERF_MARGIN);
    rank->out = perf_allocate_buffer(rank, nbytes + 2 * PERF_MARGIN);
    rank->own = perf_allocate(rank, sizeof(*rank->own));
    rank->other = perf_allocate(rank, sizeof(*rank->other));
    rank->samples =
        perf_allocate(rank, PERF_SAMPLES_MAX * sizeof(*rank->samples));
    if (!rank->in || !rank->out || !rank->own || !rank->other || !rank->samples)
        return PERF_FAILED;
    return rank->device == NULL ||
                   perf_mirror_open(rank, nbytes + 2 * PERF_MARGIN)
               ? PERF_PASSED
               : PERF_FAILED;
}

static int allocate_buckets(struct perf_rank *rank)
{
    for (int i = 0; i < PERF_BUCKETS; i++) {
        rank->buckets[i] = perf_allocate_buffer(rank, PERF_BUCKET_NBYTES);
        if (!rank->buckets[i])
            return PERF_FAILED;
    }
    return PERF_PASSED;
}

static void free_buckets(struct perf_rank *rank)
{
    for (int i = 0; i < PERF_BUCKETS; i++) {
        perf_free_buffer(rank, rank->buckets[i]);
        rank->buckets[i] = NULL;
    }
}

static void free_buffers(struct perf_rank *rank)
{
    perf_mirror_close(rank);
    perf_free_buffer(rank, rank->in);
    perf_free_buffer(rank, rank->out);
    free(rank->own);
    free(rank->other);
    free(rank->samples);
}

/* Returns the elements of a call with a larger buffer of about nbytes. */
static size_t count_elements(const struct perf_case *it, size_t nbytes)
{
    const struct perf_op *op = it->choice->op;
    size_t count = nbytes / symmcoll_dtype_size(it->dtype);

    if (op->in == PERF_ONE_PER_RANK || op->out == PERF_ONE_PER_RANK)
        count /= (size_t)it->rank->size;
    return count > 0 ? count : 1;
}

/* Returns whether a verdict is good on all ranks. */
static int agree(const struct perf_rank *rank, int verdict)
{
    double worst = verdict;
    symmcoll_status_t status = perf_largest(rank, &worst, 1);

    if (status != SYMMCOLL_OK)
        return perf_report(rank, "agreeing on a result", status);
    return worst > PERF_PASSED ? PERF_FAILED : PERF_PASSED;
}

/* Checks one layout of a case.  *supported is false if the library returns
 * UNSUPPORTED, which it does on every rank. */
static int check_layout(struct perf_case *it, bool *supported)
{
    symmcoll_status_t status;
    int verdict = perf_case_check(it, &status);

    *supported = status != SYMMCOLL_ERR_UNSUPPORTED;
    if (status != SYMMCOLL_OK && *supported)
        return perf_report(it->rank, it->choice->name, status);
    if (!*supported && it->rank->options->named)
        return perf_report(it->rank, it->choice->name, status);
    if (!*supported && it->rank->rank == 0)
        fprintf(stderr, "symmcoll-perf: %s is left out: %s\n", it->choice->name,
            symmcoll_last_error());
    return *supported ? agree(it->rank, verdict) : PERF_PASSED;
}

/* Checks a case as it will be timed, and with an odd count off alignment. */
static int check_case(
    struct perf_case *it, size_t count, int *cases, bool *supported)
{
    size_t odd = count > 1 ? (count - 1) | 1 : 1;
    bool sized = it->choice->op->in != PERF_NO_BUFFER;

    if (sized)
        perf_case_lay_out(it, odd, 1);
    if (check_layout(it, supported) != PERF_PASSED)
        return PERF_FAILED;
    if (!*supported)
        return PERF_PASSED;
    ++*cases;
    if (!sized)
        return PERF_PASSED;
    perf_case_lay_out(it, count, 0);
    ++*cases;
    return check_layout(it, supported);
}

/* Stores a result of --thresholds: the number of ranks in each process, the
 * rest on rank 0. */
static void keep_result(
    const struct perf_case *it, const struct perf_figures *figures)
{
    const struct perf_rank *rank = it->rank;
    struct perf_results *results = rank->options->results;

    if (rank->rank != 0 && rank->threads)
        return;
    results->ranks = rank->size;
    if (rank->rank != 0 || results->count == PERF_RESULTS_MAX)
        return;
    results->of[results->count].nbytes = it->nbytes;
    results->of[results->count++].figures = *figures;
}

/* Checks and times an operation at one size. */
static int do_case(struct perf_rank *rank, const struct perf_choice *choice,
    size_t nbytes, int *cases, bool *supported)
{
    struct perf_case it = {
        .rank = rank,
        .choice = choice,
        .dtype = rank->options->dtype,
        .op = rank->dynamic,
    };
    struct perf_figures figures;
    symmcoll_status_t status;

    if (choice->op->buckets) {
        it.count = PERF_BUCKET_NBYTES / symmcoll_dtype_size(it.dtype);
        it.nbytes = PERF_BUCKETS * PERF_BUCKET_NBYTES;
    }
    if (check_case(&it, count_elements(&it, nbytes), cases, supported) !=
        PERF_PASSED)
        return PERF_FAILED;
    if (!*supported || rank->options->check_only)
        return PERF_PASSED;
    status = perf_measure(&it, &figures);
    if (status != SYMMCOLL_OK)
        return perf_report(rank, choice->name, status);
    if (rank->options->results != NULL)
        keep_result(&it, &figures);
    else if (rank->rank == 0)
        perf_print_figures(&it, &figures);
    return PERF_PASSED;
}

/* Returns the next size; the largest is always included; 0 at the end. */
static size_t next_size(const struct perf_options *options, size_t nbytes)
{
    if (nbytes >= options->max_nbytes)
        return 0;
    if (nbytes > options->max_nbytes / options->step)
        return options->max_nbytes;
    return nbytes * options->step;
}

static int do_sizes(
    struct perf_rank *rank, const struct perf_choice *choice, int *cases)
{
    size_t nbytes = rank->options->min_nbytes;
    bool supported = true;

    while (nbytes > 0 && supported) {
        if ((!choice->dirty || nbytes >= PERF_DIRTY_MIN) &&
            (choice->op->most == 0 || nbytes <= choice->op->most) &&
            do_case(rank, choice, nbytes, cases, &supported) != PERF_PASSED)
            return PERF_FAILED;
        nbytes = next_size(rank->options, nbytes);
    }
    return PERF_PASSED;
}

static int report_no_store(const struct perf_rank *rank)
{
    fprintf(stderr,
        "symmcoll-perf: rank %d of %d: store: expected a store of the world, "
        "found none: use --threads, or set SYMMCOLL_STORE_SERVE=on or "
        "SYMMCOLL_STORE_URL\n",
        rank->rank, rank->size);
    return PERF_FAILED;
}

static int do_choice(struct perf_rank *rank, const struct perf_choice *choice)
{
    bool supported;
    int cases = 0, result;

    if (choice->op->pair && rank->size != 2) {
        if (rank->rank == 0)
            fprintf(stderr,
                "symmcoll-perf: %s is left out: expected 2 ranks, found %d\n",
                choice->name, rank->size);
        return PERF_PASSED;
    }
    if (choice->op->store && symmcoll_world_store(rank->world) == NULL)
        return report_no_store(rank);
    if (choice->op->buckets) {
        result = allocate_buckets(rank);
        if (result == PERF_PASSED)
            result = do_case(rank, choice, 0, &cases, &supported);
        free_buckets(rank);
    } else if (choice->op->in == PERF_NO_BUFFER) {
        result = do_case(rank, choice, 0, &cases, &supported);
    } else {
        result = do_sizes(rank, choice, &cases);
    }
    if (result == PERF_PASSED && rank->rank == 0 && cases > 0)
        perf_print_checked(rank, choice, cases);
    return result;
}

/* Makes the op argument; PREMUL_SUM is created per world. */
static symmcoll_status_t make_op(struct perf_rank *rank)
{
    rank->dynamic = rank->options->reduce;
    if (rank->dynamic != SYMMCOLL_PREMUL_SUM)
        return SYMMCOLL_OK;
    return symmcoll_op_create_premul(
        rank->world, perf_premul_factor(rank->rank), &rank->dynamic);
}

/* Runs a first operation on the devices, which reports what is missing. */
static int use_device(const struct perf_rank *rank)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < rank->ngroups && status == SYMMCOLL_OK; i++)
        status = symmcoll_all_reduce(rank->groups[i], rank->out + PERF_MARGIN,
            rank->in + PERF_MARGIN, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, rank->call,
            NULL);
    if (status != SYMMCOLL_OK) {
        perf_report(rank, "memory of the device", status);
        if (rank->rank == 0)
            fputs("symmcoll-perf: symmcoll-info says what is missing for "
                  "operations on GPUs\n",
                stderr);
        return PERF_FAILED;
    }
    return perf_device_wait(rank->device) ? PERF_PASSED : PERF_FAILED;
}

static int do_choices(struct perf_rank *rank)
{
    const struct perf_options *options = rank->options;
    symmcoll_status_t status = make_op(rank);
    double barrier;

    if (status != SYMMCOLL_OK)
        return perf_report(rank, "making the operation", status);
    status = perf_probe(rank, &barrier);
    if (status != SYMMCOLL_OK)
        return perf_report(rank, "barrier", status);
    if (rank->device != NULL && use_device(rank) != PERF_PASSED)
        return PERF_FAILED;
    if (rank->rank == 0 && options->results == NULL)
        perf_print_head(rank, barrier);
    for (int i = 0; i < options->nchoices; i++)
        if (do_choice(rank, &options->choices[i]) != PERF_PASSED)
            return PERF_FAILED;
    return PERF_PASSED;
}

/* Opens this rank's device if operations are on devices. */
static int open_device(struct perf_rank *rank)
{
    if (!rank->options->device)
        return PERF_PASSED;
    rank->device = perf_device_open(rank->options, rank->rank);
    if (rank->device == NULL)
        return PERF_FAILED;
    rank->device_call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    rank->device_call.stream = perf_device_stream(rank->device);
    rank->call = &rank->device_call;
    return PERF_PASSED;
}

static int measure(struct perf_rank *rank)
{
    int result = open_device(rank);

    if (result == PERF_PASSED)
        result = perf_groups_make(rank);
    if (result == PERF_PASSED && rank->idle)
        return result;
    if (result == PERF_PASSED)
        result = allocate_buffers(rank);
    if (result == PERF_PASSED)
        result = perf_signals_join(rank);
    if (result != PERF_PASSED)
        return result;
    return rank->options->nshapes > 0 ? perf_fused(rank) : do_choices(rank);
}

int perf_rank_run(const struct perf_options *options,
    const struct symmcoll_init_args *args, bool threads)
{
    struct perf_rank rank = {.options = options, .threads = threads};
    symmcoll_status_t status = symmcoll_init(args, &rank.world);
    int result;

    if (status != SYMMCOLL_OK) {
        fprintf(stderr, "symmcoll-perf: symmcoll_init: %s: %s\n",
            symmcoll_status_name(status), symmcoll_last_error());
        return PERF_FAILED;
    }
    rank.all = rank.group = symmcoll_world_group(rank.world);
    rank.rank = symmcoll_world_rank(rank.world);
    rank.size = symmcoll_world_size(rank.world);
    result = measure(&rank);
    free_buffers(&rank);
    perf_groups_free(&rank);
    symmcoll_symm_release(rank.signals);
    status = symmcoll_finalize(rank.world);
    if (status != SYMMCOLL_OK && result == PERF_PASSED)
        result = perf_report(&rank, "symmcoll_finalize", status);
    perf_device_close(rank.device);
    return result;
}
