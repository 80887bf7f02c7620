/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot all-reduce and reduce: each rank that receives the result reads the
 * elements of all ranks.
 *
 * Grid        any number of blocks up to SYMC_KERNEL_BLOCKS, of the same number
 *             of threads in all ranks, at least one for each rank; all blocks of
 *             all ranks that share a device have to be resident.  In place, a
 *             thread for each 16 bytes
 * Alignment   that of the element; 16 bytes make it fast
 * Bytes       R N read from all ranks and N written; copied in, N read and N
 *             written more
 * Order       see synchronise() in group.h: once after the copy, and once before
 *             what was read may change
 * Reference   symc_reduce(), one block of sources: the same bits
 */
#ifndef SYMC_KERNELS_ONE_SHOT_H
#define SYMC_KERNELS_ONE_SHOT_H

#include "kernels/reduce.h"

DEVICE bool receives(const struct symc_reduce_args *args)
{
    return args->root == SYMC_KERNEL_ALL || args->root == args->group.rank;
}

/* In place a rank overwrites what its peers read: so the result stays in
 * registers until they have read theirs, and each thread has one part. */
DEVICE void one_shot(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type);
    const uint64_t nbytes = args->count * step;
    const uint64_t parts = receives(args) ? count_parts(nbytes) : 0;
    const struct bytes own = elements_of(args, group->rank, nbytes);
    const bool in_place = args->out == NULL;
    const struct bytes out = in_place ? own : bytes_at(args->out, nbytes);
    struct symc_vector result = {{0, 0, 0, 0}};
    uint32_t epoch = begin_epoch(group);

    if (args->in != NULL) {
        const struct bytes in = bytes_at(args->in, nbytes);

        copy_parts(&own, &in, step);
    }
    if (!synchronise(group, ++epoch))
        return;
    KEEP_LOOP
    for (uint64_t part = first_part(); part < parts; part = next_part(part)) {
        result = reduce_part(args, 0, nbytes, part, type);
        if (!in_place)
            store_part(&out, part, result, step);
    }
    if (!synchronise(group, ++epoch))
        return;
    if (in_place && first_part() < parts)
        store_part(&out, first_part(), result, step);
    end_epoch(group, epoch);
}

#define ONE_SHOT_OF(name, type)                                      \
    DEVICE void one_shot_##name(const struct symc_reduce_args *args) \
    {                                                                \
        one_shot(args, type);                                        \
    }                                                                \
    KERNEL(symc_one_shot_##name, struct symc_reduce_args, one_shot_##name)
EACH_TYPE(ONE_SHOT_OF)

#endif
