/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of float32 for the tests of functional calls. */
#ifndef T_FUNCTIONAL_MADE_H
#define T_FUNCTIONAL_MADE_H

#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include "group/group.h"

#define OK(call) succeeds((call), #call)

static inline int succeeds(symmcoll_status_t status, const char *call)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s: %s", call, symmcoll_status_name(status),
            symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

static inline int waits(
    struct symmcoll_group *group, const struct symmcoll_tensor *tensor)
{
    return OK(symmcoll_f_wait(group->world, tensor, -1));
}

static inline void release(
    struct symmcoll_group *group, struct symmcoll_tensor *tensor)
{
    symmcoll_f_free(group->world, tensor);
}

static inline int64_t count_of(const struct symmcoll_tensor *tensor)
{
    int64_t count = 1;

    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

static inline float at(const struct symmcoll_tensor *tensor, int64_t index)
{
    return ((const float *)tensor->data)[index];
}

static inline void fill(const struct symmcoll_tensor *tensor, float value)
{
    for (int64_t i = 0; i < count_of(tensor); i++)
        ((float *)tensor->data)[i] = value;
}

static inline int all_are(const struct symmcoll_tensor *tensor, float value)
{
    for (int64_t i = 0; i < count_of(tensor); i++) {
        if (at(tensor, i) != value) {
            diag("element %lld: expected %g, found %g", (long long)i,
                (double)value, (double)at(tensor, i));
            return 0;
        }
    }
    return 1;
}

/* Checks that a tensor has that shape, of up to three dimensions, in row-major
 * order. */
static inline int is_shape(const struct symmcoll_tensor *tensor, int ndim,
    int64_t a, int64_t b, int64_t c)
{
    const int64_t shape[3] = {a, b, c};
    int64_t stride = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        if (tensor->shape[d] != shape[d] || tensor->strides[d] != stride) {
            diag("dimension %d: expected %lld, found %lld", d,
                (long long)shape[d], (long long)tensor->shape[d]);
            return 0;
        }
        stride *= shape[d];
    }
    return tensor->ndim == ndim;
}

#endif
