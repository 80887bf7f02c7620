/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements converted between float32 and float16 or bfloat16, and multiplied by a
 * factor: for hooks that compress gradients, and for products.
 *
 * Grid        any
 * Alignment   that of the elements; 16 bytes make it fast
 * Bytes       N read and M written
 * Order       none: one rank's memory
 * Reference   symc_convert()
 */
#ifndef SYMC_KERNELS_CONVERT_H
#define SYMC_KERNELS_CONVERT_H

#include "kernels/elements.h"
#include "kernels/parts.h"

#define CONVERT_UNIT 8 /* elements that a thread has at a time */

/* Element i of a unit from the parts it was loaded into. */
DEVICE float element_of(
    const struct symc_vector *parts, uint32_t i, const enum symmcoll_dtype type)
{
    if (nbytes_of(type) == 4)
        return to_float(parts[i / 4].word[i % 4], type);
    return to_float(parts[0].word[i / 2] >> i % 2 * 16 & 0xffff, type);
}

DEVICE void set_element(struct symc_vector *parts, uint32_t i, float value,
    const enum symmcoll_dtype type)
{
    const uint32_t bits = from_float(value, type);

    if (nbytes_of(type) == 4)
        parts[i / 4].word[i % 4] = bits;
    else
        parts[0].word[i / 2] |= bits << i % 2 * 16;
}

DEVICE void convert_from_to(const struct symc_convert_args *args,
    const enum symmcoll_dtype from, const enum symmcoll_dtype to)
{
    const uint32_t in_parts = nbytes_of(from) / 2,
                   out_parts = nbytes_of(to) / 2;
    const struct bytes in = bytes_at(args->in, args->count * nbytes_of(from)),
                       out = bytes_at(args->out, args->count * nbytes_of(to));
    const uint64_t units = (args->count + CONVERT_UNIT - 1) / CONVERT_UNIT;

    for (uint64_t unit = first_part(); unit < units; unit = next_part(unit)) {
        struct symc_vector loaded[2] = {{{0}}, {{0}}},
                           result[2] = {{{0}}, {{0}}};

        UNROLL
        for (uint32_t i = 0; i < in_parts; i++)
            if (unit * in_parts + i < count_parts(in.nbytes))
                loaded[i] =
                    load_part(&in, unit * in_parts + i, nbytes_of(from));
        UNROLL
        for (uint32_t i = 0; i < CONVERT_UNIT; i++)
            set_element(result, i,
                multiply_floats(element_of(loaded, i, from), args->factor), to);
        UNROLL
        for (uint32_t i = 0; i < out_parts; i++)
            if (unit * out_parts + i < count_parts(out.nbytes))
                store_part(
                    &out, unit * out_parts + i, result[i], nbytes_of(to));
    }
}

#define CONVERSION(name, from, to)                                   \
    DEVICE void convert_##name(const struct symc_convert_args *args) \
    {                                                                \
        convert_from_to(args, from, to);                             \
    }                                                                \
    KERNEL(symc_convert_##name, struct symc_convert_args, convert_##name)

CONVERSION(f32_f16, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16)
CONVERSION(f32_bf16, SYMMCOLL_FLOAT32, SYMMCOLL_BFLOAT16)
CONVERSION(f16_f32, SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT32)
CONVERSION(bf16_f32, SYMMCOLL_BFLOAT16, SYMMCOLL_FLOAT32)

#endif
