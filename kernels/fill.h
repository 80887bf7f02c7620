/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words that become a value: memset32, and a flag that is written after all that
 * its stream did before.
 *
 * Grid        fill32: any; write32: one thread
 * Alignment   4 bytes
 * Bytes       4 count written
 * Order       release, each word at once: who acquires the value sees what its
 *             stream wrote before
 * Reference   a loop
 */
#ifndef SYMC_KERNELS_FILL_H
#define SYMC_KERNELS_FILL_H

#include "kernels/args.h"
#include "kernels/parts.h"

DEVICE void fill_words(const struct symc_fill_args *args)
{
    KEEP_LOOP
    for (uint64_t i = first_part(); i < args->count; i = next_part(i))
        store_release(args->at + i, args->value);
}

DEVICE void write_word(const struct symc_fill_args *args)
{
    if (first_part() == 0)
        store_release(args->at, args->value);
}

KERNEL(symc_fill32, struct symc_fill_args, fill_words)
KERNEL(symc_write32, struct symc_fill_args, write_word)

#endif
