/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words that become a value: memset32, and a flag that is written after all that
 * its stream did before.
 *
 * Grid        fill32: any; write32: one thread
 * Alignment   4 bytes; 16 make it fast
 * Bytes       4 count written
 * Order       fill32: none.  write32: release, so that who acquires the value
 *             sees what was written before
 * Reference   a loop
 */
#ifndef SYMC_KERNELS_FILL_H
#define SYMC_KERNELS_FILL_H

#include "kernels/args.h"
#include "kernels/parts.h"

DEVICE void fill_words(const struct symc_fill_args *args)
{
    const struct symc_vector vector = {
        {args->value, args->value, args->value, args->value}};
    const struct bytes to = bytes_at(args->at, args->count * 4);
    const uint64_t parts = count_parts(to.nbytes);

    for (uint64_t part = first_part(); part < parts; part = next_part(part))
        store_part(&to, part, vector, 4);
}

DEVICE void write_word(const struct symc_fill_args *args)
{
    if (first_part() == 0)
        store_release(args->at, args->value);
}

KERNEL(symc_fill32, struct symc_fill_args, fill_words)
KERNEL(symc_write32, struct symc_fill_args, write_word)

#endif
