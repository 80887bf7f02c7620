/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Count of the elements that are NaN, and the index of the first.
 *
 * Grid        any
 * Alignment   that of the elements; 16 bytes make it fast
 * Bytes       N read; 16 written by each thread that found one
 * Order       none: relaxed atomic operations on the result, which is complete
 *             when the kernel has ended
 * Reference   symc_nan_count()
 */
#ifndef SYMC_KERNELS_NAN_H
#define SYMC_KERNELS_NAN_H

#include "kernels/elements.h"
#include "kernels/parts.h"

/* A number is NaN where ((bits ^ flipped) & mask) > limit; see lib/base/nan.c. */
struct nan_pattern {
    uint64_t flipped, mask, limit;
};

DEVICE struct nan_pattern pattern_of(uint32_t type)
{
    struct nan_pattern pattern = {0, 0, 0};

    switch (type) {
    case SYMMCOLL_FLOAT16:
        pattern.mask = 0x7fff;
        pattern.limit = 0x7c00;
        break;
    case SYMMCOLL_BFLOAT16:
        pattern.mask = 0x7fff;
        pattern.limit = 0x7f80;
        break;
    case SYMMCOLL_FLOAT32:
    case SYMMCOLL_COMPLEX64:
        pattern.mask = 0x7fffffff;
        pattern.limit = 0x7f800000;
        break;
    case SYMMCOLL_FLOAT64:
    case SYMMCOLL_COMPLEX128:
        pattern.mask = INT64_MAX;
        pattern.limit = UINT64_C(0x7ff) << 52;
        break;
    case SYMMCOLL_FLOAT8_E4M3FN:
        pattern.mask = 0x7f;
        pattern.limit = 0x7e;
        break;
    case SYMMCOLL_FLOAT8_E5M2:
        pattern.mask = 0x7f;
        pattern.limit = 0x7c;
        break;
    case SYMMCOLL_FLOAT8_E4M3FNUZ:
    case SYMMCOLL_FLOAT8_E5M2FNUZ:
        pattern.flipped = 0x7f;
        pattern.mask = 0xff;
        pattern.limit = 0xfe;
        break;
    case SYMMCOLL_FLOAT8_E8M0FNU:
        pattern.mask = 0xff;
        pattern.limit = 0xfe;
        break;
    default:
        break;
    }
    return pattern;
}

/* Returns number i of a part that consists of numbers of nbytes bytes. */
DEVICE uint64_t number_of(
    struct symc_vector part, uint32_t i, const uint32_t nbytes)
{
    if (nbytes == 8)
        return (uint64_t)part.word[2 * i + 1] << 32 | part.word[2 * i];
    if (nbytes == 4)
        return part.word[i];
    return part.word[i * nbytes / 4] >> i * nbytes % 4 * 8 &
           ((1u << 8 * nbytes) - 1);
}

/* Counts NaN in elements of `numbers` numbers of nbytes bytes each.  Parts past the
 * end read as 0, which is NaN in no type, also not in those with flipped bits. */
DEVICE void scan(const struct symc_nan_args *args, const uint32_t nbytes,
    const uint32_t numbers)
{
    const struct nan_pattern pattern = pattern_of(args->type);
    const struct bytes in = bytes_at(args->in, args->count * nbytes * numbers);
    const uint64_t parts = count_parts(in.nbytes);
    uint64_t first = UINT64_MAX, count = 0;

    for (uint64_t p = first_part(); p < parts; p = next_part(p)) {
        const struct symc_vector part = load_part(&in, p, nbytes);

        UNROLL
        for (uint32_t i = 0; i < SYMC_VECTOR / nbytes / numbers; i++) {
            bool is_nan = false;

            UNROLL
            for (uint32_t k = 0; k < numbers; k++)
                is_nan |= ((number_of(part, i * numbers + k, nbytes) ^
                               pattern.flipped) &
                              pattern.mask) > pattern.limit;
            if (!is_nan)
                continue;
            count++;
            if (first == UINT64_MAX)
                first = p * (SYMC_VECTOR / nbytes / numbers) + i;
        }
    }
    if (count == 0)
        return;
    add_to(&args->found->count, count);
    keep_least(&args->found->first, first);
}

DEVICE void scan_for_nan(const struct symc_nan_args *args)
{
    switch (args->type) {
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
        scan(args, 2, 1);
        break;
    case SYMMCOLL_FLOAT32:
        scan(args, 4, 1);
        break;
    case SYMMCOLL_FLOAT64:
        scan(args, 8, 1);
        break;
    case SYMMCOLL_COMPLEX64:
        scan(args, 4, 2);
        break;
    case SYMMCOLL_COMPLEX128:
        scan(args, 8, 2);
        break;
    case SYMMCOLL_FLOAT8_E4M3FN:
    case SYMMCOLL_FLOAT8_E5M2:
    case SYMMCOLL_FLOAT8_E4M3FNUZ:
    case SYMMCOLL_FLOAT8_E5M2FNUZ:
    case SYMMCOLL_FLOAT8_E8M0FNU:
        scan(args, 1, 1);
        break;
    default: /* the others have none */
        break;
    }
}

KERNEL(symc_nan_scan, struct symc_nan_args, scan_for_nan)

#endif
