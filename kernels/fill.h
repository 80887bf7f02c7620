/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores of a value to words: memset32, and a flag that is written after all earlier
 * operations of its stream.
 *
 * Grid        fill32: any; write32: one thread
 * Alignment   4 bytes
 * Bytes       4 count written, four words at a time where they are aligned
 * Order       release: a thread that acquires any word with the value sees all
 *             earlier writes of the stream.  fill32 has one fence for all words of
 *             a thread, since one for each would take longer than the stores
 * Reference   a loop
 */
#ifndef SYMC_KERNELS_FILL_H
#define SYMC_KERNELS_FILL_H

#include "kernels/args.h"
#include "kernels/parts.h"

DEVICE void fill_words(const struct symc_fill_args *args)
{
    const uint64_t ahead = (SYMC_VECTOR - (uintptr_t)args->at % SYMC_VECTOR) %
                           SYMC_VECTOR / sizeof(*args->at);
    const uint64_t first = ahead < args->count ? ahead : args->count;
    const uint64_t fours = (args->count - first) / 4;
    const uint64_t rest = args->count - fours * 4; /* before and after them */
    const bool fenced = fence_release();

    KEEP_LOOP
    for (uint64_t i = first_part(); i < fours; i = next_part(i))
        store_fenced_four(args->at + first + i * 4, args->value, fenced);
    KEEP_LOOP
    for (uint64_t i = first_part(); i < rest; i = next_part(i))
        store_fenced(
            args->at + (i < first ? i : i + fours * 4), args->value, fenced);
}

DEVICE void write_word(const struct symc_fill_args *args)
{
    if (first_part() == 0)
        store_release(args->at, args->value);
}

KERNEL(symc_fill32, struct symc_fill_args, fill_words)
KERNEL(symc_write32, struct symc_fill_args, write_word)

#endif
