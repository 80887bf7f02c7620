/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reducing elements of all ranks by one of them alone: kernels before and after
 * it synchronise the ranks.  The elements may be rows, such as those of a tile of
 * a matrix.
 *
 * Grid        any
 * Alignment   that of the element; 16 bytes make it fast, of each row
 * Bytes       N received: R N read from all ranks and N written
 * Order       none
 * Reference   symc_reduce(), one block of sources: the same bits
 */
#ifndef SYMC_KERNELS_REDUCE_ROWS_H
#define SYMC_KERNELS_REDUCE_ROWS_H

#include "kernels/reduce.h"

DEVICE void reduce_rows(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const uint32_t step = nbytes_of(type);
    const uint64_t nbytes = args->count * step, parts = count_parts(nbytes);

    KEEP_LOOP
    for (uint64_t i = first_part(); i < args->rows * parts; i = next_part(i)) {
        const uint64_t row = args->rows == 1 ? 0 : i / parts,
                       part = i - row * parts;
        const struct bytes out = bytes_at(
            (unsigned char *)args->out + row * args->out_pitch, nbytes);

        store_part(&out, part,
            reduce_part(args, row * args->row_pitch, nbytes, part, type), step);
    }
}

#define REDUCE_ROWS_OF(name, type)                                      \
    DEVICE void reduce_rows_##name(const struct symc_reduce_args *args) \
    {                                                                   \
        reduce_rows(args, type);                                        \
    }                                                                   \
    KERNEL(symc_reduce_rows_##name, struct symc_reduce_args, reduce_rows_##name)
EACH_TYPE(REDUCE_ROWS_OF)

#endif
