/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Macros that define the reduction kernels of one SIMD level from the steps and
 * loops of reduce_kernels.h; included after it by the files with tables of
 * kernels.
 */

#define SIGNATURE                                                    \
    const struct symc_reduction *reduction, void *out, void *mirror, \
        const void *const *src, int nsrc, size_t count, bool streaming

#define DEFINE(name, ...)                                                  \
    static void name(SIGNATURE)                                            \
    {                                                                      \
        static const struct kernel kernel = {__VA_ARGS__};                 \
                                                                           \
        run_kernel(                                                        \
            &kernel, reduction, out, mirror, src, nsrc, count, streaming); \
    }

/* The steps on vectors, for any element type. */
#define STEPS(do_prepare, do_combine, do_finish) \
    .prepare = do_prepare, .combine = do_combine, .finish = do_finish

/* A kernel that computes elements in their own type. */
#define KERNEL(name, nbytes, prepare, combine, finish)                      \
    DEFINE(name, .element = nbytes, .step = VECTOR, .widen = widen_nothing, \
        STEPS(prepare, combine, finish), .narrow = widen_nothing)

/* A kernel that computes elements of type T, two bytes each, as float. */
#define HALF_KERNEL(name, T, prepare, combine, finish)                 \
    DEFINE(name, .element = 2, .step = VECTOR / 2, .widen = widen_##T, \
        STEPS(prepare, combine, finish), .narrow = narrow_##T, APART_##T)

#define APART_f16 .join = NULL
#define APART_bf16                                              \
    .widen_even = widen_even_bf16, .widen_odd = widen_odd_bf16, \
    .join = join_bf16

/* A kernel with elements of `multiple` elements of another kernel each. */
#define MULTIPLE(name, kernel, multiple)                                       \
    static void name(SIGNATURE)                                                \
    {                                                                          \
        kernel(reduction, out, mirror, src, nsrc, count *multiple, streaming); \
    }

#define HALF_KERNELS(T)                                                        \
    HALF_KERNEL(sum_##T, T, prepare_nothing, add_f32, finish_nothing)          \
    HALF_KERNEL(avg_##T, T, prepare_nothing, add_f32, divide_f32)              \
    HALF_KERNEL(product_##T, T, prepare_nothing, multiply_f32, finish_nothing) \
    HALF_KERNEL(premul_##T, T, premultiply_f32, add_f32, finish_nothing)       \
    KERNEL(min_of_##T, 2, prepare_min_##T, min_i16, finish_order_##T)          \
    KERNEL(max_of_##T, 2, prepare_max_##T, max_i16, finish_order_##T)

#define FLOAT_ROW(T)                                                     \
    {                                                                    \
        [SYMMCOLL_SUM] = sum_##T, [SYMMCOLL_AVG] = avg_##T,              \
        [SYMMCOLL_PRODUCT] = product_##T, [SYMMCOLL_MIN] = min_of_##T,   \
        [SYMMCOLL_MAX] = max_of_##T, [SYMMCOLL_PREMUL_SUM] = premul_##T, \
    }
