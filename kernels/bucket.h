/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tensors of a bucket into it, and out of it again.
 *
 * Grid        any: blocks take chunks of the bucket in turn, however large the
 *             tensors are
 * Alignment   any; 16 bytes of a tensor and its place make it fast
 * Bytes       N read and N written
 * Order       none: one rank's memory
 * Reference   memcpy()
 */
#ifndef SYMC_KERNELS_BUCKET_H
#define SYMC_KERNELS_BUCKET_H

#include "kernels/args.h"
#include "kernels/copy.h"

#define BUCKET_CHUNK SYMC_KERNEL_CHUNK /* a multiple of 16 */
#define BUCKET_TURN 32 /* threads by which the next piece begins later */

/* The piece that has a byte of the bucket, or the one after it in a gap. */
DEVICE uint64_t find_piece(const struct symc_bucket_args *args, uint64_t at)
{
    uint64_t low = 0, high = args->npieces;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const struct symc_bucket_piece *piece = &args->pieces[middle];

        if (piece->offset + piece->nbytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Copies the part of piece i that lies in the chunk from begin to end.  Consecutive
 * small pieces of a chunk go to different threads, which do not wait for each
 * other. */
DEVICE void copy_piece(const struct symc_bucket_args *args, uint64_t i,
    uint64_t begin, uint64_t end, const bool flatten)
{
    const struct symc_bucket_piece *piece = &args->pieces[i];
    const uint64_t last = piece->offset + piece->nbytes;
    const uint32_t turn = (uint32_t)i * BUCKET_TURN;
    unsigned char *bucket, *tensor;

    if (begin < piece->offset)
        begin = piece->offset;
    if (end > last)
        end = last;
    bucket = args->bucket + begin;
    tensor = piece->at + (begin - piece->offset);
    copy_parts_of(flatten ? bucket : tensor, flatten ? tensor : bucket,
        end - begin, (thread_index() + turn) % thread_count(), thread_count());
}

DEVICE void copy_chunks(const struct symc_bucket_args *args, const bool flatten)
{
    for (uint64_t begin = (uint64_t)block_index() * BUCKET_CHUNK;
         begin < args->nbytes;
         begin += (uint64_t)block_count() * BUCKET_CHUNK) {
        const uint64_t end = begin + BUCKET_CHUNK < args->nbytes
                                 ? begin + BUCKET_CHUNK
                                 : args->nbytes;

        for (uint64_t i = find_piece(args, begin);
             i < args->npieces && args->pieces[i].offset < end; i++)
            copy_piece(args, i, begin, end, flatten);
    }
}

DEVICE void flatten_bucket(const struct symc_bucket_args *args)
{
    copy_chunks(args, true);
}

DEVICE void unflatten_bucket(const struct symc_bucket_args *args)
{
    copy_chunks(args, false);
}

KERNEL(symc_flatten, struct symc_bucket_args, flatten_bucket)
KERNEL(symc_unflatten, struct symc_bucket_args, unflatten_bucket)

#endif
