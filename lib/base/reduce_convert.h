/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversions between float32 and 16-bit floats at one SIMD level, made of the
 * steps of reduce_steps.h; included by reduce_table.h.  As in reductions, every
 * element goes through the same operations, in a whole vector or a part of one.
 */

#define LANES_F32 (VECTOR / sizeof(float))

#define CONVERT_SIGNATURE void *out, const void *in, size_t count, float factor

/* A vector of floats corresponds to half a vector of elements of type T. */
#define CONVERSIONS(T)                                                       \
    static void narrow_to_##T(CONVERT_SIGNATURE)                             \
    {                                                                        \
        const unsigned char *from = in;                                      \
        unsigned char *to = out;                                             \
                                                                             \
        for (; count >= LANES_F32; count -= LANES_F32) {                     \
            vec x = premultiply_f32(load(from), (double)factor);             \
                                                                             \
            store_half(to, narrow_##T(x));                                   \
            from += VECTOR;                                                  \
            to += VECTOR / 2;                                                \
        }                                                                    \
        if (count > 0) {                                                     \
            vec x = premultiply_f32(                                         \
                load_part(from, count * sizeof(float)), (double)factor);     \
                                                                             \
            store_part(to, narrow_##T(x), count * 2);                        \
        }                                                                    \
    }                                                                        \
    static void widen_from_##T(CONVERT_SIGNATURE)                            \
    {                                                                        \
        const unsigned char *from = in;                                      \
        unsigned char *to = out;                                             \
                                                                             \
        for (; count >= LANES_F32; count -= LANES_F32) {                     \
            vec x =                                                          \
                premultiply_f32(widen_##T(load_half(from)), (double)factor); \
                                                                             \
            store(to, finish_f32(x, 1));                                     \
            from += VECTOR / 2;                                              \
            to += VECTOR;                                                    \
        }                                                                    \
        if (count > 0) {                                                     \
            vec x = premultiply_f32(                                         \
                widen_##T(load_part(from, count * 2)), (double)factor);      \
                                                                             \
            store_part(to, finish_f32(x, 1), count * sizeof(float));         \
        }                                                                    \
    }

CONVERSIONS(f16)
CONVERSIONS(bf16)
