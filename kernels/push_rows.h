/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of one rank, each to a place of its own in the data of any rank: kernels
 * before and after it synchronise the ranks.
 *
 * Grid        any: blocks take the chunks of a row in turn, and begin with another
 *             block for each row
 * Alignment   any; 16 bytes of rows make it fast
 * Bytes       N passed: N read and N written to ranks
 * Order       none
 * Reference   memcpy()
 */
#ifndef SYMC_KERNELS_PUSH_ROWS_H
#define SYMC_KERNELS_PUSH_ROWS_H

#include "kernels/copy.h"
#include "kernels/group.h"

#define PUSH_CHUNK 16384 /* bytes; a multiple of 16 */

DEVICE void push_row(const struct symc_push_args *args, uint64_t i)
{
    const uint64_t place = args->to[i], nbytes = args->row_nbytes,
                   row = place & ((UINT64_C(1) << 48) - 1);
    const unsigned char *from = args->in + i * nbytes;
    unsigned char *to =
        data_of(&args->data, (uint32_t)(place >> 48)) + row * nbytes;

    for (uint64_t at = (block_index() + i) % block_count() * PUSH_CHUNK;
         at < nbytes; at += (uint64_t)block_count() * PUSH_CHUNK)
        copy_by_block(to + at, from + at,
            nbytes - at < PUSH_CHUNK ? nbytes - at : PUSH_CHUNK);
}

DEVICE void push_rows(const struct symc_push_args *args)
{
    KEEP_LOOP
    for (uint64_t i = 0; i < args->count; i++)
        push_row(args, i);
}

KERNEL(symc_push_rows, struct symc_push_args, push_rows)

#endif
