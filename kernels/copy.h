/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying bytes of any alignment by all threads of a grid, or of a block.
 */
#ifndef SYMC_KERNELS_COPY_H
#define SYMC_KERNELS_COPY_H

#include "kernels/parts.h"

/* Parts from `first` on, every `every`-th one. */
DEVICE void copy_in_steps(const struct bytes *to, const struct bytes *from,
    uint64_t first, uint64_t every, const uint32_t step)
{
    const uint64_t parts = count_parts(to->nbytes);

    KEEP_LOOP
    for (uint64_t part = first; part < parts; part += every)
        store_part(to, part, load_part(from, part, step), step);
}

DEVICE void copy_parts_of(unsigned char *to, const unsigned char *from,
    uint64_t nbytes, uint64_t first, uint64_t every)
{
    const struct bytes out = bytes_at(to, nbytes), in = bytes_at(from, nbytes);

    first = copy_many_parts(&out, &in, first, every);
    switch (step_of(to, from, nbytes)) {
    case 8:
        copy_in_steps(&out, &in, first, every, 8);
        break;
    case 4:
        copy_in_steps(&out, &in, first, every, 4);
        break;
    case 2:
        copy_in_steps(&out, &in, first, every, 2);
        break;
    default:
        copy_in_steps(&out, &in, first, every, 1);
    }
}

/* By all threads of the grid, each part by the same thread in all ranks. */
DEVICE void copy(unsigned char *to, const unsigned char *from, uint64_t nbytes)
{
    copy_parts_of(to, from, nbytes, first_part(), next_part(0));
}

/* By the threads of a block. */
DEVICE void copy_by_block(
    unsigned char *to, const unsigned char *from, uint64_t nbytes)
{
    copy_parts_of(to, from, nbytes, thread_index(), thread_count());
}

#endif
