/* SPDX-License-Identifier: BSD-3-Clause */
/* Floating-point modes in which programs may call the library. */
#ifndef T_FLOATING_H
#define T_FLOATING_H

#include "base/floating.h"

#if defined(__x86_64__)

/* Modes in which subnormal results, inputs or both are zero; rounding down, up
 * and towards zero; all exceptions but the inexact one trap. */
static const uint64_t floating_modes[] = {
    0x9f80, 0x1fc0, 0x9fc0, 0x3f80, 0x5f80, 0x7fc0, 0x1000};

#elif defined(__aarch64__)

/* Modes in which subnormal numbers are zero, also of 16 bits; a single NaN;
 * rounding up, down and towards zero; 16-bit floats without infinities. */
static const uint64_t floating_modes[] = {1u << 24, 1u << 24 | 1u << 19,
    1u << 25, 1u << 22, 2u << 22, 3u << 22, 1u << 26};

#else

static const uint64_t floating_modes[] = {SYMC_FLOATING_DEFAULT};

#endif

#define FLOATING_MODES (sizeof(floating_modes) / sizeof(floating_modes[0]))

/* Returns whether this thread is in that mode. Exception flags are ignored. */
static inline int floating_is(uint64_t mode)
{
    return ((symc_floating_get() ^ mode) & ~SYMC_FLOATING_FLAGS) == 0;
}

#endif
