/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements of a kernel's body: the position of its thread, the synchronisation of
 * a block's threads, and loads and stores in the memory orders that ranks need.  A
 * body is C and C++ at once: nvcc compiles it for devices, and a C compiler for
 * the engine of the tests, which runs the threads of all blocks as fibers
 * (t/kernels/engine.h).
 *
 * Orders are at system scope: the other side may be another device or the host.
 */
#ifndef SYMC_KERNELS_DEVICE_H
#define SYMC_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <symmcoll/types.h>

/* 16 bytes, aligned to them: the widest load and store of a thread. */
struct symc_vector {
    uint32_t word[4];
};

#define SYMC_VECTOR sizeof(struct symc_vector)

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DEVICE static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("unroll 1")

/* Memory of a block: NAME points to a TYPE that its threads share. */
#define SHARED(TYPE, NAME)            \
    __shared__ TYPE shared_of_##NAME; \
    TYPE *const NAME = &shared_of_##NAME

/* Whether the tests have taken this place out, to see that it is missed. */
#define TAKEN_OUT(WHAT) false

/* The kernel NAME calls body() with its arguments, of a type, which lie in
 * constant memory. */
#define KERNEL(NAME, type, body)                                         \
    extern "C" __global__ void __launch_bounds__(SYMC_KERNEL_THREADS, 1) \
        NAME(const __grid_constant__ type args)                          \
    {                                                                    \
        body(&args);                                                     \
    }

/* ---- where this thread is ---- */

DEVICE uint32_t thread_index(void)
{
    return threadIdx.x;
}

DEVICE uint32_t thread_count(void)
{
    return blockDim.x;
}

DEVICE uint32_t block_index(void)
{
    return blockIdx.x;
}

DEVICE uint32_t block_count(void)
{
    return gridDim.x;
}

/* ---- the threads of a block ---- */

/* All of them arrive; what each wrote before, the others see afterwards. */
DEVICE void block_barrier(void)
{
    __syncthreads();
}

/* The same; returns whether any of them passed true. */
DEVICE bool block_any(bool value)
{
    return __syncthreads_or(value) != 0;
}

/* ---- memory ---- */

DEVICE struct symc_vector load_vector(const void *from)
{
    const uint4 v = *(const uint4 *)from;
    const struct symc_vector vector = {{v.x, v.y, v.z, v.w}};

    return vector;
}

DEVICE void store_vector(void *to, struct symc_vector vector)
{
    *(uint4 *)to = make_uint4(
        vector.word[0], vector.word[1], vector.word[2], vector.word[3]);
}

/* A pointer of a table that does not change, or the other where there is no table:
 * without a branch, for which loops would be compiled twice. */
DEVICE unsigned char *entry_of(
    unsigned char *const *table, uint32_t index, unsigned char *other)
{
    unsigned char *entry;

    asm("{\n"
        " .reg .pred has_table;\n"
        " setp.ne.u64 has_table, %1, 0;\n"
        " mov.u64 %0, %3;\n"
        " @has_table ld.global.u64 %0, [%2];\n"
        "}"
        : "=&l"(entry)
        : "l"(table), "l"(table + index), "l"(other));
    return entry;
}

DEVICE uint32_t load_acquire(const uint32_t *word)
{
    uint32_t value;

    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(word)
                 : "memory");
    return value;
}

DEVICE void store_release(uint32_t *word, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value)
                 : "memory");
}

DEVICE uint32_t load_relaxed(const uint32_t *word)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(word)
                 : "memory");
    return value;
}

/* Orders all memory operations of this thread before later stores by
 * store_fenced(); returns the argument `fenced` of these. */
DEVICE bool fence_release(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    return true;
}

DEVICE void store_fenced(uint32_t *word, uint32_t value, bool fenced)
{
    (void)fenced;
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value)
                 : "memory");
}

/* Stores as store_fenced() to four words, aligned to 16 bytes. */
DEVICE void store_fenced_four(uint32_t *words, uint32_t value, bool fenced)
{
    (void)fenced;
    asm volatile(
        "st.relaxed.sys.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(words),
        "r"(value)
        : "memory");
}

/* A word of data with the number that says whether it is there: neither is seen
 * without the other. */
DEVICE void store_packet(uint64_t *packet, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(packet), "l"(value)
                 : "memory");
}

DEVICE uint64_t load_packet(const uint64_t *packet)
{
    uint64_t value;

    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(packet)
                 : "memory");
    return value;
}

/* Store value where 0 is; whether this thread did. */
DEVICE bool claim_word(uint32_t *word, uint32_t value)
{
    return atomicCAS_system(word, 0, value) == 0;
}

DEVICE void add_to(uint64_t *sum, uint64_t value)
{
    (void)atomicAdd((unsigned long long *)sum, (unsigned long long)value);
}

DEVICE void keep_least(uint64_t *least, uint64_t value)
{
    (void)atomicMin((unsigned long long *)least, (unsigned long long)value);
}

/* Between accesses to the same memory by two addresses. */
DEVICE void fence_aliases(void)
{
    asm volatile("fence.proxy.alias;" ::: "memory");
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define HAS_MULTIMEM 1

/* Whether these instructions reach all ranks there. */
DEVICE bool is_multicast(const void *at)
{
    return at != NULL;
}

/* 16 bytes at a multicast address: the sum of all ranks' elements. */
DEVICE struct symc_vector multicast_sum(
    const void *at, const enum symmcoll_dtype type)
{
    struct symc_vector v;

    if (type == SYMMCOLL_FLOAT16)
        asm volatile(
            "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4."
            "f16x2 {%0, %1, %2, %3}, [%4];"
            : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
            : "l"(at)
            : "memory");
    else if (type == SYMMCOLL_BFLOAT16)
        asm volatile(
            "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4."
            "bf16x2 {%0, %1, %2, %3}, [%4];"
            : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
            : "l"(at)
            : "memory");
    else
        asm volatile(
            "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 "
            "{%0, %1, %2, %3}, [%4];"
            : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
            : "l"(at)
            : "memory");
    return v;
}

/* To all ranks. */
DEVICE void multicast_store(void *at, struct symc_vector v)
{
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], "
                 "{%1, %2, %3, %4};" ::"l"(at),
                 "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
                 : "memory");
}

#else
#define HAS_MULTIMEM 0
#endif

/* ---- time ---- */

/* Nanoseconds, the same clock for all devices of a machine. */
DEVICE uint64_t clock_ns(void)
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* In a loop that waits for another thread. */
DEVICE void relax(void)
{
}

/* ---- floats: one rounding an operation, never a multiplication and an addition
 * together ---- */

DEVICE float multiply_floats(float a, float b)
{
    return __fmul_rn(a, b);
}

DEVICE double multiply_doubles(double a, double b)
{
    return __dmul_rn(a, b);
}

/* ---- 16-bit floats, as their bits; a NaN's are not defined ---- */

DEVICE float half_to_float(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

DEVICE uint16_t float_to_half(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}

DEVICE float bfloat16_to_float(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

DEVICE uint16_t float_to_bfloat16(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

#else
#include "t/kernels/device_host.h"
#endif

#endif
