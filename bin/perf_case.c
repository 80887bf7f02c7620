/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a case: their layout, and rewriting the input before a sample.
 */
#include "perf.h"

size_t perf_case_elements(const struct perf_case *it, enum perf_extent extent)
{
    switch (extent) {
    case PERF_ONE:
        return it->count;
    case PERF_ONE_PER_RANK:
        return it->count * (size_t)it->rank->size;
    default:
        return 0;
    }
}

size_t perf_case_own_offset(const struct perf_case *it)
{
    return (size_t)it->rank->rank * it->count;
}

/* Returns whether a rank has one buffer, which it sends or receives. */
static bool has_one_buffer(const struct perf_op *op)
{
    return op->rooted && !op->reduces && op->in == PERF_ONE &&
           op->out == PERF_ONE;
}

void perf_case_lay_out(struct perf_case *it, size_t count, size_t shift)
{
    const struct perf_op *op = it->choice->op;
    struct perf_rank *rank = it->rank;
    size_t elem = symmcoll_dtype_size(it->dtype);
    size_t in_elements, out_elements;

    it->count = count;
    in_elements = perf_case_elements(it, op->in);
    out_elements = perf_case_elements(it, op->out);
    it->nbytes =
        (in_elements > out_elements ? in_elements : out_elements) * elem;
    it->in = rank->in + PERF_MARGIN + shift * elem;
    it->out = rank->out + PERF_MARGIN + shift * elem;
    /* Symmetric memory is used in place if all ranks pass the same buffer. */
    if (has_one_buffer(op) && rank->rank == 0) {
        it->in = rank->out + PERF_MARGIN + shift * elem;
        it->out = rank->in + PERF_MARGIN + shift * elem;
    }
    if (it->choice->in_place) {
        if (op->in == op->out)
            it->out = it->in;
        else if (op->in == PERF_ONE)
            it->in = (char *)it->out + perf_case_own_offset(it) * elem;
        else
            it->out = (char *)it->in + perf_case_own_offset(it) * elem;
    }
}

void perf_case_rewrite(const struct perf_case *it)
{
    perf_pattern_fill(
        it->rank->own, 0, it->in, perf_case_elements(it, it->choice->op->in));
    /* Keeps the stores, although nothing here reads them. */
    __asm__ volatile("" ::: "memory");
}

bool perf_rewrites(const struct perf_case *it)
{
    return it->choice->dirty ||
           (it->choice->in_place && it->nbytes >= PERF_DIRTY_MIN);
}
