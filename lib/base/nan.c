/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts elements that are NaN.  In most formats a NaN is a number whose bits
 * below the sign, as an integer, are greater than those of infinity; formats
 * without infinity or sign have other patterns.
 */
#include "base/nan.h"

#include <string.h>

/* A part is NaN if ((part ^ flipped) & mask) > limit. */
struct pattern {
    uint8_t bits;  /* per part; 0: the type has no NaN */
    uint8_t parts; /* per element: two for complex types */
    uint8_t flipped;
    uint64_t mask;
    uint64_t limit;
};

static const struct pattern patterns[SYMMCOLL_DTYPE_COUNT] = {
    [SYMMCOLL_FLOAT16] = {16, 1, 0, 0x7fff, 0x7c00},
    [SYMMCOLL_BFLOAT16] = {16, 1, 0, 0x7fff, 0x7f80},
    [SYMMCOLL_FLOAT32] = {32, 1, 0, 0x7fffffff, 0x7f800000},
    [SYMMCOLL_FLOAT64] = {64, 1, 0, INT64_MAX, UINT64_C(0x7ff) << 52},
    [SYMMCOLL_COMPLEX64] = {32, 2, 0, 0x7fffffff, 0x7f800000},
    [SYMMCOLL_COMPLEX128] = {64, 2, 0, INT64_MAX, UINT64_C(0x7ff) << 52},
    /* NaN is all ones (no infinity); negative zero, 0x80; all ones,
     * unsigned. */
    [SYMMCOLL_FLOAT8_E4M3FN] = {8, 1, 0, 0x7f, 0x7e},
    [SYMMCOLL_FLOAT8_E5M2] = {8, 1, 0, 0x7f, 0x7c},
    [SYMMCOLL_FLOAT8_E4M3FNUZ] = {8, 1, 0x7f, 0xff, 0xfe},
    [SYMMCOLL_FLOAT8_E5M2FNUZ] = {8, 1, 0x7f, 0xff, 0xfe},
    [SYMMCOLL_FLOAT8_E8M0FNU] = {8, 1, 0, 0xff, 0xfe},
};

/* Count the NaNs in n parts.  One loop per size, which the compiler
 * vectorises. */
static size_t count_8(const char *at, size_t n, const struct pattern *pattern)
{
    uint8_t flipped = pattern->flipped, mask = (uint8_t)pattern->mask;
    uint8_t limit = (uint8_t)pattern->limit;
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        found += (((uint8_t)at[i] ^ flipped) & mask) > limit;
    return found;
}

static size_t count_16(const char *at, size_t n, const struct pattern *pattern)
{
    uint16_t mask = (uint16_t)pattern->mask, limit = (uint16_t)pattern->limit;
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        uint16_t part;

        memcpy(&part, at + i * sizeof(part), sizeof(part));
        found += (part & mask) > limit;
    }
    return found;
}

static size_t count_32(const char *at, size_t n, const struct pattern *pattern)
{
    uint32_t mask = (uint32_t)pattern->mask, limit = (uint32_t)pattern->limit;
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t part;

        memcpy(&part, at + i * sizeof(part), sizeof(part));
        found += (part & mask) > limit;
    }
    return found;
}

static size_t count_64(const char *at, size_t n, const struct pattern *pattern)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t part;

        memcpy(&part, at + i * sizeof(part), sizeof(part));
        found += (part & pattern->mask) > pattern->limit;
    }
    return found;
}

static size_t count_parts(
    const char *at, size_t n, const struct pattern *pattern)
{
    switch (pattern->bits) {
    case 8:
        return count_8(at, n, pattern);
    case 16:
        return count_16(at, n, pattern);
    case 32:
        return count_32(at, n, pattern);
    default:
        return count_64(at, n, pattern);
    }
}

size_t symc_nan_count(
    const void *data, size_t count, enum symmcoll_dtype dtype, size_t *first)
{
    const struct pattern *pattern = &patterns[dtype];
    size_t elem = (size_t)pattern->bits / 8 * pattern->parts;
    const char *at = data;
    size_t found = 0;

    if (pattern->bits == 0 ||
        count_parts(at, count * pattern->parts, pattern) == 0)
        return 0;
    /* There is a NaN, which is rare: count by element. */
    for (size_t i = count; i-- > 0;) {
        if (count_parts(at + i * elem, pattern->parts, pattern) == 0)
            continue;
        found++;
        *first = i;
    }
    return found;
}
