/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processor's floating-point mode: rounding, treatment of subnormal numbers
 * and enabled traps.  Each thread has its own, which the program may set.
 * Reductions and conversions run in the default mode, so that their bits do not
 * depend on the thread that computes.
 */
#ifndef SYMC_BASE_FLOATING_H
#define SYMC_BASE_FLOATING_H

#include <stdint.h>

#if defined(__x86_64__)

#include <xmmintrin.h>

#define SYMC_FLOATING_DEFAULT UINT64_C(0x1f80) /* to nearest, no traps */
#define SYMC_FLOATING_FLAGS UINT64_C(0x3f)     /* sticky exception flags */

static inline uint64_t symc_floating_get(void)
{
    return _mm_getcsr();
}

static inline void symc_floating_put(uint64_t mode)
{
    _mm_setcsr((unsigned int)mode);
}

#elif defined(__aarch64__)

#define SYMC_FLOATING_DEFAULT UINT64_C(0)
#define SYMC_FLOATING_FLAGS UINT64_C(0) /* in another register */

static inline uint64_t symc_floating_get(void)
{
    uint64_t mode;

    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void symc_floating_put(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

#else

#define SYMC_FLOATING_DEFAULT UINT64_C(0)
#define SYMC_FLOATING_FLAGS UINT64_C(0)

static inline uint64_t symc_floating_get(void)
{
    return SYMC_FLOATING_DEFAULT;
}

static inline void symc_floating_put(uint64_t mode)
{
    (void)mode;
}

#endif

static inline int symc_floating_is_default(uint64_t mode)
{
    return (mode & ~SYMC_FLOATING_FLAGS) == SYMC_FLOATING_DEFAULT;
}

/*
 * Sets the default mode and returns the previous one for
 * symc_floating_restore().  The register is written only if the modes differ.
 * Both functions are compiler barriers, so that arithmetic on memory stays
 * between them.
 */
static inline uint64_t symc_floating_set_default(void)
{
    uint64_t before = symc_floating_get();

    if (__builtin_expect(!symc_floating_is_default(before), 0))
        symc_floating_put(SYMC_FLOATING_DEFAULT);
    __asm__ volatile("" : : : "memory");
    return before;
}

static inline void symc_floating_restore(uint64_t before)
{
    __asm__ volatile("" : : : "memory");
    if (__builtin_expect(!symc_floating_is_default(before), 0))
        symc_floating_put(before);
}

#endif
