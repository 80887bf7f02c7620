/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter: each rank combines its slice of the elements of all ranks,
 * which may be a part of the columns of a matrix.
 *
 * Grid        as one-shot, never in place
 * Alignment   that of the element; 16 bytes make it fast, of each row
 * Bytes       N received: R N read from all ranks and N written; copied in, R N
 *             read and R N written more
 * Order       as one-shot
 * Reference   symc_reduce(), one block of sources: the same bits
 */
#ifndef SYMC_KERNELS_REDUCE_SCATTER_H
#define SYMC_KERNELS_REDUCE_SCATTER_H

#include "kernels/reduce.h"

/* Every part of every slice by the block that reads it from there. */
DEVICE void copy_all_slices(
    const struct symc_reduce_args *args, uint64_t nbytes, const uint32_t step)
{
    for (uint32_t slice = 0; slice < args->group.size; slice++) {
        const struct bytes own = bytes_at(
            data_of(&args->data, args->group.rank) + slice * args->data_pitch,
            nbytes);
        const struct bytes in = bytes_at(
            (const unsigned char *)args->in + slice * args->in_pitch, nbytes);

        copy_parts(&own, &in, step);
    }
}

DEVICE void reduce_scatter(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type);
    const uint64_t nbytes = args->count * step, parts = count_parts(nbytes),
                   begin = group->rank * args->data_pitch;
    uint32_t epoch = begin_epoch(group);

    if (args->in != NULL)
        copy_all_slices(args, nbytes, step);
    if (!synchronise(group, ++epoch))
        return;
    KEEP_LOOP
    for (uint64_t i = first_part(); i < args->rows * parts; i = next_part(i)) {
        const uint64_t row = args->rows == 1 ? 0 : i / parts;
        const struct bytes out =
            bytes_at((unsigned char *)args->out + row * nbytes, nbytes);

        store_part(&out, i - row * parts,
            reduce_part(args, begin + row * args->row_pitch, nbytes,
                i - row * parts, type),
            step);
    }
    if (!synchronise(group, ++epoch))
        return;
    end_epoch(group, epoch);
}

#define REDUCE_SCATTER_OF(name, type)                                      \
    DEVICE void reduce_scatter_##name(const struct symc_reduce_args *args) \
    {                                                                      \
        reduce_scatter(args, type);                                        \
    }                                                                      \
    KERNEL(symc_reduce_scatter_##name, struct symc_reduce_args,            \
        reduce_scatter_##name)
EACH_TYPE(REDUCE_SCATTER_OF)

#endif
