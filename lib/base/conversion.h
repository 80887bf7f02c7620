/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversion of arrays between float32 and 16-bit floats, by symc_convert() and
 * by backends.
 */
#ifndef SYMC_BASE_CONVERSION_H
#define SYMC_BASE_CONVERSION_H

#include <symmcoll/types.h>

/* out[i] = factor * in[i], where one type is float32 and the other float16 or
 * bfloat16.  The arrays do not overlap. */
struct symc_conversion {
    enum symmcoll_dtype from, to;
    void *out;
    const void *in;
    size_t count;
    double factor; /* rounded to float */
};

#endif
