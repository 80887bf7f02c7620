/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checking of results: every element that an operation wrote, the bytes around
 * it, and the buffers of ranks that should receive nothing.
 */
#include "perf_device.h"

#include <stdio.h>
#include <string.h>

#define UNTOUCHED 0xa5 /* content of buffers before the operation */
#define GUARD 64       /* bytes checked before and after a result */

static struct perf_data describe_data(const struct perf_case *it)
{
    const struct perf_op *op = it->choice->op;
    symmcoll_op_t reduce = it->rank->options->reduce;

    if (op->buckets)
        reduce = SYMMCOLL_AVG;
    return (struct perf_data){
        it->dtype, op->reduces ? reduce : SYMMCOLL_SUM, it->rank->size};
}

static int report_difference(const struct perf_case *it, const char *where,
    size_t element, const void *got, const void *want)
{
    char got_text[PERF_NAME_MAX], want_text[PERF_NAME_MAX];

    fprintf(stderr,
        "symmcoll-perf: rank %d of %d: %s, %zu elements of %s, %s: "
        "element %zu: got %s, want %s\n",
        it->rank->rank, it->rank->size, it->choice->name, it->count,
        symmcoll_dtype_name(it->dtype), where, element,
        perf_format_element(it->dtype, got, got_text),
        perf_format_element(it->dtype, want, want_text));
    return PERF_FAILED;
}

/* Compares count elements at `found` with the pattern from element `first`
 * on. */
static int compare(const struct perf_case *it, const char *where,
    const struct perf_pattern *pattern, size_t first, const void *found,
    size_t count)
{
    size_t bad = perf_pattern_compare(pattern, first, found, count);

    if (bad == count)
        return PERF_PASSED;
    return report_difference(it, where, bad,
        (const char *)found + bad * symmcoll_dtype_size(it->dtype),
        perf_pattern_at(pattern, first + bad));
}

/* Checks that these bytes were not written. */
static int compare_untouched(const struct perf_case *it, const char *where,
    const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (bytes[i] == UNTOUCHED)
            continue;
        fprintf(stderr,
            "symmcoll-perf: rank %d of %d: %s, %zu elements of %s: byte %zu "
            "%s: got %#x, want %#x\n",
            it->rank->rank, it->rank->size, it->choice->name, it->count,
            symmcoll_dtype_name(it->dtype), i, where, bytes[i], UNTOUCHED);
        return PERF_FAILED;
    }
    return PERF_PASSED;
}

/* Compares a result that this rank should receive. */
static int compare_received(const struct perf_case *it)
{
    const struct perf_op *op = it->choice->op;
    struct perf_pattern *want = it->rank->other;
    struct perf_data data = describe_data(it);
    size_t block = it->count * symmcoll_dtype_size(it->dtype);
    size_t first = op->in == PERF_ONE_PER_RANK ? perf_case_own_offset(it) : 0;

    if (op->reduces) {
        perf_pattern_result(want, &data);
        return compare(it, "result", want, first, it->out, it->count);
    }
    if (op->pair) {
        perf_pattern_input(want, &data, 1 - it->rank->rank);
        return compare(
            it, "data of the other rank", want, first, it->out, it->count);
    }
    if (op->store) {
        perf_pattern_input(want, &data, it->rank->rank);
        return compare(it, "value", want, first, it->out, it->count);
    }
    if (op->out == PERF_ONE) {
        perf_pattern_input(want, &data, 0);
        return compare(it, "data of rank 0", want, first, it->out, it->count);
    }
    for (int from = 0; from < it->rank->size; from++) {
        char where[PERF_NAME_MAX];

        snprintf(where, sizeof(where), "block of rank %d", from);
        perf_pattern_input(want, &data, from);
        if (compare(it, where, want, first,
                (const char *)it->out + (size_t)from * block,
                it->count) != PERF_PASSED)
            return PERF_FAILED;
    }
    return PERF_PASSED;
}

/* Returns whether the result goes to this rank's `out`. */
static bool receives(const struct perf_case *it)
{
    const struct perf_op *op = it->choice->op;

    if (!op->rooted || (op->in == PERF_ONE_PER_RANK && !op->reduces))
        return true;
    /* The root of a broadcast keeps its data; other roots receive. */
    return (it->rank->rank == 0) == (op->reduces || op->out != PERF_ONE);
}

static int check_buffers(const struct perf_case *it)
{
    const struct perf_op *op = it->choice->op;
    const unsigned char *out = it->out;
    size_t elem = symmcoll_dtype_size(it->dtype);
    size_t out_nbytes = perf_case_elements(it, op->out) * elem;
    int bad = PERF_PASSED;

    if (receives(it))
        bad = compare_received(it);
    else if (!it->choice->in_place)
        bad = compare_untouched(it, "of the unused output", out, out_nbytes);
    if (bad == PERF_PASSED && !(it->choice->in_place && receives(it)))
        bad = compare(it, "input, which was to stay", it->rank->own, 0, it->in,
            perf_case_elements(it, op->in));
    /* In place, only the ends of the whole buffer border on untouched bytes. */
    if (it->choice->in_place && op->in == PERF_ONE_PER_RANK) {
        out = it->in;
        out_nbytes = perf_case_elements(it, op->in) * elem;
    }
    if (bad == PERF_PASSED)
        bad = compare_untouched(it, "before the buffer", out - GUARD, GUARD);
    if (bad == PERF_PASSED)
        bad =
            compare_untouched(it, "after the buffer", out + out_nbytes, GUARD);
    return bad;
}

static int check_buckets(struct perf_case *it, symmcoll_status_t *status)
{
    struct perf_data data = describe_data(it);
    int bad = PERF_PASSED;

    perf_pattern_input(it->rank->own, &data, it->rank->rank);
    perf_pattern_result(it->rank->other, &data);
    for (int i = 0; i < PERF_BUCKETS; i++)
        perf_pattern_fill(
            it->rank->own, (size_t)i, it->rank->buckets[i], it->count);
    perf_next_group(it->rank);
    *status = it->choice->op->run(it);
    for (int i = 0; i < PERF_BUCKETS && bad == PERF_PASSED; i++) {
        char where[PERF_NAME_MAX];

        if (*status != SYMMCOLL_OK)
            break;
        snprintf(where, sizeof(where), "bucket %d", i);
        bad = compare(it, where, it->rank->other, (size_t)i,
            it->rank->buckets[i], it->count);
    }
    return bad;
}

/*
 * Checks that no rank leaves a barrier before the last has entered it.  Ranks
 * enter one after another and read the clock that all processes of a machine
 * share.
 */
static int check_barrier(struct perf_case *it, symmcoll_status_t *status)
{
    double came, left, last;

    came = perf_now();
    while (perf_now() - came < 20e-6 * it->rank->rank)
        ;
    last = perf_now();
    perf_next_group(it->rank);
    *status = it->choice->op->run(it);
    left = perf_now();
    if (*status == SYMMCOLL_OK)
        *status = perf_largest(it->rank, &last, 1);
    if (*status != SYMMCOLL_OK || left >= last)
        return PERF_PASSED;
    fprintf(stderr,
        "symmcoll-perf: rank %d of %d: barrier: left %.3f us before the last "
        "rank had come\n",
        it->rank->rank, it->rank->size, (last - left) * 1e6);
    return PERF_FAILED;
}

int perf_case_check(struct perf_case *it, symmcoll_status_t *status)
{
    struct perf_data data = describe_data(it);

    if (it->choice->op->buckets)
        return check_buckets(it, status);
    if (it->choice->op->in == PERF_NO_BUFFER)
        return check_barrier(it, status);
    if (it->rank->device != NULL)
        return perf_mirror_check(it, status);
    memset(it->rank->in, UNTOUCHED, it->nbytes + 2 * PERF_MARGIN);
    memset(it->rank->out, UNTOUCHED, it->nbytes + 2 * PERF_MARGIN);
    perf_pattern_input(it->rank->own, &data, it->rank->rank);
    perf_case_rewrite(it);
    perf_next_group(it->rank);
    *status = it->choice->op->run(it);
    return *status == SYMMCOLL_OK ? check_buffers(it) : PERF_PASSED;
}
