/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-shot all-reduce: each rank combines its slice of the elements of all ranks.
 * In place it writes the result to all ranks, in the place of what it is combined
 * of, which no other rank reads or writes.  Where the result goes elsewhere, which
 * others cannot write, it stays in data, and each rank reads the slices of the
 * others; data is overwritten all the same.
 *
 * Grid        as one-shot, and not more in place
 * Alignment   that of the element; 16 bytes make it fast
 * Bytes       in place N read from ranks and N written to them, which is the least
 *             that can be; to out 2 N read from ranks, N / R written to data and N
 *             to out; copied in, N read and N written more
 * Order       see synchronise() in group.h: after the copy, after the slice was
 *             combined, and with an out before the slice may change
 * Reference   symc_reduce(), one block of sources: the same bits
 */
#ifndef SYMC_KERNELS_TWO_SHOT_H
#define SYMC_KERNELS_TWO_SHOT_H

#include "kernels/reduce.h"

/* Returns the number of parts in a slice: whole parts; the last slices may be
 * shorter, or empty. */
DEVICE uint64_t slice_parts(uint64_t parts, uint32_t size)
{
    return (parts + size - 1) / size;
}

DEVICE struct bytes slice_of(
    const struct bytes *all, uint32_t rank, uint32_t size)
{
    const uint64_t slice =
        slice_parts(count_parts(all->nbytes), size) * SYMC_VECTOR;
    const uint64_t begin =
        rank * slice < all->nbytes ? rank * slice : all->nbytes;
    const uint64_t left = all->nbytes - begin;
    const struct bytes bytes = {
        all->at + begin, left < slice ? left : slice, all->aligned};

    return bytes;
}

/* Slice by slice, as it is read: by the block of the same index. */
DEVICE void copy_slices(const struct bytes *to, const struct bytes *from,
    uint32_t size, const uint32_t step)
{
    KEEP_LOOP
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct bytes target = slice_of(to, rank, size),
                           source = slice_of(from, rank, size);

        copy_parts(&target, &source, step);
    }
}

/* Copies the slices that all ranks have combined to the result. */
DEVICE void gather_slices(
    const struct symc_reduce_args *args, uint64_t nbytes, const uint32_t step)
{
    const uint32_t rank = args->group.rank, size = args->group.size;
    const struct bytes out = bytes_at(args->out, nbytes);

    KEEP_LOOP
    for (uint32_t k = 0; k < size; k++) {
        /* Each rank begins with another one, to spread the links. */
        const uint32_t r = rank + k < size ? rank + k : rank + k - size;
        const struct bytes data = elements_of(args, r, nbytes);
        const struct bytes target = slice_of(&out, r, size),
                           source = slice_of(&data, r, size);

        copy_parts(&target, &source, step);
    }
}

/* A part of the result to where it remains: on all ranks, or on this one. */
DEVICE void store_result(const struct symc_reduce_args *args, uint64_t nbytes,
    uint64_t part, struct symc_vector vector, const uint32_t step)
{
    const uint32_t rank = args->group.rank, size = args->group.size;
    const uint32_t targets = args->out == NULL ? size : 1;

    KEEP_LOOP
    for (uint32_t k = 0; k < targets; k++) {
        const uint32_t r = rank + k < size ? rank + k : rank + k - size;
        const struct bytes to = elements_of(args, r, nbytes);

        store_part(&to, part, vector, step);
    }
}

/* Combines several parts at a time while that many are left before `end`.  Returns
 * the first part that is left. */
DEVICE uint64_t combine_many(const struct symc_reduce_args *args,
    uint64_t nbytes, uint64_t part, uint64_t end,
    const enum symmcoll_dtype type, const uint32_t size)
{
    const uint32_t count = IN_FLIGHT / size;
    const uint64_t every = next_part(0);

    KEEP_LOOP
    for (; part + (count - 1) * every < end; part += count * every) {
        struct symc_vector results[IN_FLIGHT];

        reduce_many(args, part * SYMC_VECTOR, every * SYMC_VECTOR, type, size,
            count, results);
        UNROLL
        for (uint32_t k = 0; k < count; k++)
            store_result(
                args, nbytes, part + k * every, results[k], nbytes_of(type));
    }
    return part;
}

/* This rank's slice. */
DEVICE void combine_slice(const struct symc_reduce_args *args, uint64_t nbytes,
    const enum symmcoll_dtype type)
{
    const uint32_t size = args->group.size;
    const uint64_t parts = count_parts(nbytes),
                   slice = slice_parts(parts, size),
                   begin = args->group.rank * slice,
                   end = begin + slice < parts ? begin + slice : parts;
    uint64_t part = begin + first_part();

    if (is_whole(args, 0, type)) {
        const uint64_t whole = nbytes / SYMC_VECTOR;
        const uint64_t last = end < whole ? end : whole;

        if (size == 2)
            part = combine_many(args, nbytes, part, last, type, 2);
        else if (size == 4)
            part = combine_many(args, nbytes, part, last, type, 4);
    }
    KEEP_LOOP
    for (; part < end; part = next_part(part))
        store_result(args, nbytes, part,
            reduce_part(args, 0, nbytes, part, type), nbytes_of(type));
}

DEVICE void two_shot(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type);
    const uint64_t nbytes = args->count * step;
    uint32_t epoch = begin_epoch(group);

    if (args->in != NULL) {
        const struct bytes in = bytes_at(args->in, nbytes);
        const struct bytes own = elements_of(args, group->rank, nbytes);

        copy_slices(&own, &in, group->size, step);
    }
    if (!synchronise(group, ++epoch))
        return;
    combine_slice(args, nbytes, type);
    if (!synchronise(group, ++epoch))
        return;
    if (args->out != NULL) {
        gather_slices(args, nbytes, step);
        if (!synchronise(group, ++epoch))
            return;
    }
    end_epoch(group, epoch);
}

#define TWO_SHOT_OF(name, type)                                      \
    DEVICE void two_shot_##name(const struct symc_reduce_args *args) \
    {                                                                \
        two_shot(args, type);                                        \
    }                                                                \
    KERNEL(symc_two_shot_##name, struct symc_reduce_args, two_shot_##name)
EACH_TYPE(TWO_SHOT_OF)

#endif
