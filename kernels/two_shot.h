/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-shot all-reduce: each rank combines its slice of the elements of all ranks.
 * In place it writes the result to all ranks, in the place of what it is combined
 * of, which nobody else reads or writes.  Where the result goes elsewhere, which
 * others cannot write, it stays in data, and each rank reads the slices of the
 * others; data is overwritten all the same.
 *
 * Grid        as one-shot, and not more in place
 * Alignment   that of the element; 16 bytes make it fast
 * Bytes       in place N read from ranks and N written to them, which is the least
 *             that can be; to out N + (R - 1) N / R read from ranks, N / R written
 *             to data and N to out; copied in, N read and N written more
 * Order       see synchronise() in group.h: after the copy, after the slice was
 *             combined, and with an out before the slice may change
 * Reference   symc_reduce(), one block of sources: the same bits
 */
#ifndef SYMC_KERNELS_TWO_SHOT_H
#define SYMC_KERNELS_TWO_SHOT_H

#include "kernels/reduce.h"

/* Of a slice, which is of whole parts; the last ones may be shorter, or empty. */
DEVICE uint64_t slice_parts(uint64_t parts, uint32_t size)
{
    return (parts + size - 1) / size;
}

/* Slice by slice, as it is read: by the block of the same index. */
DEVICE void copy_slices(const struct bytes *to, const struct bytes *from,
    uint32_t size, const uint32_t step)
{
    const uint64_t parts = count_parts(to->nbytes),
                   slice = slice_parts(parts, size);

    for (uint64_t i = first_part(); i < slice; i = next_part(i))
        for (uint64_t part = i; part < parts; part += slice)
            store_part(to, part, load_part(from, part, step), step);
}

/* What all ranks have combined. */
DEVICE void gather_slices(
    const struct symc_reduce_args *args, uint64_t nbytes, const uint32_t step)
{
    const uint32_t rank = args->group.rank, size = args->group.size;
    const struct bytes out = bytes_at(args->out, nbytes);
    const uint64_t parts = count_parts(nbytes),
                   slice = slice_parts(parts, size);

    for (uint32_t k = 0; k < size; k++) {
        /* Each rank begins with another one, to spread the links. */
        const uint32_t r = rank + k < size ? rank + k : rank + k - size;
        const struct bytes from = elements_of(args, r, nbytes);

        for (uint64_t i = first_part(); i < slice && r * slice + i < parts;
             i = next_part(i))
            store_part(&out, r * slice + i,
                load_part(&from, r * slice + i, step), step);
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

DEVICE void two_shot(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type), rank = group->rank;
    const uint64_t nbytes = args->count * step, parts = count_parts(nbytes),
                   slice = slice_parts(parts, group->size);
    uint32_t epoch = begin_epoch(group);

    if (args->in != NULL) {
        const struct bytes in = bytes_at(args->in, nbytes);
        const struct bytes own = elements_of(args, rank, nbytes);

        copy_slices(&own, &in, group->size, step);
    }
    if (!synchronise(group, ++epoch))
        return;
    KEEP_LOOP
    for (uint64_t i = first_part(); i < slice && rank * slice + i < parts;
         i = next_part(i))
        store_result(args, nbytes, rank * slice + i,
            reduce_part(args, 0, nbytes, rank * slice + i, type), step);
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
