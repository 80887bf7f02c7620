/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds whether two parameters share memory.  The elements of one may lie in
 * the gaps of the other, like two columns of a matrix, so elements are compared
 * and not extents.
 */
#include "base/tensor.h"
#include "ddp/reducer.h"

/* A dimension that is not part of a run. */
struct dim {
    int64_t step;  /* bytes from one index to the next */
    int64_t count; /* indices */
    int64_t inner; /* bytes from the first element at an index to the end of the
                  last */
};

/* The memory of a parameter's elements: runs of bytes, at all the indices of
 * the dimensions, which are in the order of their steps and do not overlap. */
struct area {
    int64_t run;
    int ndims;
    struct dim dims[SYMMCOLL_MAX_DIMS];
};

static void describe_area(const struct symc_param *param, struct area *area)
{
    const struct symmcoll_tensor *tensor = &param->tensor;
    int64_t elem = (int64_t)symmcoll_dtype_size(tensor->dtype);
    int64_t span = elem;
    int order[SYMMCOLL_MAX_DIMS], count = symc_tensor_order(tensor, order);

    *area = (struct area){.run = elem};
    for (int n = 0; n < count; n++) {
        struct dim dim = {
            tensor->strides[order[n]] * elem, tensor->shape[order[n]], span};

        span += dim.step * (dim.count - 1);
        if (area->ndims == 0 && dim.step == area->run)
            area->run = span;
        else
            area->dims[area->ndims++] = dim;
    }
}

/* Returns whether an element has one of the bytes from first up to last
 * (exclusive), both counted from the area's start.  Only the first ndims
 * dimensions count. */
static bool touches(
    const struct area *area, int ndims, int64_t first, int64_t last)
{
    const struct dim *dim;
    int64_t from, to;

    if (ndims == 0)
        return first < area->run && last > 0;
    dim = &area->dims[ndims - 1];
    if (last <= 0)
        return false;
    from = first < dim->inner ? 0 : (first - dim->inner) / dim->step + 1;
    to = (last - 1) / dim->step;
    if (to > dim->count - 1)
        to = dim->count - 1;
    if (to - from >= 2) /* the index between is inside */
        return true;
    for (; from <= to; from++)
        if (touches(area, ndims - 1, first - from * dim->step,
                last - from * dim->step))
            return true;
    return false;
}

bool symc_params_overlap(const struct symc_param *a, const struct symc_param *b)
{
    int64_t at[SYMMCOLL_MAX_DIMS] = {0}, offset;
    uintptr_t start = (uintptr_t)a->tensor.data;
    uintptr_t other_start = (uintptr_t)b->tensor.data;
    struct area walked, other;
    int d;

    if (a->count == 0 || b->count == 0 || start >= other_start + b->extent ||
        other_start >= start + a->extent)
        return false;
    describe_area(a, &walked);
    describe_area(b, &other);
    if (walked.ndims > 0 && other.ndims == 0)
        return symc_params_overlap(b, a); /* walks one run */
    offset = (int64_t)(start - other_start);
    for (;;) {
        if (touches(&other, other.ndims, offset, offset + walked.run))
            return true;
        for (d = 0; d < walked.ndims; d++) {
            offset += walked.dims[d].step;
            if (++at[d] < walked.dims[d].count)
                break;
            offset -= walked.dims[d].step * walked.dims[d].count;
            at[d] = 0;
        }
        if (d == walked.ndims)
            return false;
    }
}
