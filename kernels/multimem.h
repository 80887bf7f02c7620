/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by the switch: multimem.ld_reduce reads the sum of all ranks'
 * elements in one load, multimem.st stores to all ranks at once.  Needs memory
 * with a multicast address, and sm_90; without one of them the kernels read and
 * write all ranks one by one.
 *
 * Grid        as one-shot, never in place; two-shot may be
 * Alignment   that of the element; parts of 16 bytes that are not whole or not
 *             aligned are read and written rank by rank
 * Bytes       one_shot: N read through the switch, N written.  two_shot: N / R
 *             read and N / R written through it, N read and written more with
 *             out.  all_gather: N written through it where a rank has N bytes.
 *             Copied in, N read and written more
 * Order       see synchronise() in group.h: after the copy, and after the loads
 *             or stores; a fence between accesses to the same memory by its
 *             multicast address and by a rank's own, on both sides
 * Reference   symc_reduce(), one block of sources: the same bits where ranks are
 *             read one by one.  The switch adds in an order of its own: the bound
 *             of such a sum is derived in t/kernels/bound.h; all ranks have the
 *             same bits after two-shot
 */
#ifndef SYMC_KERNELS_MULTIMEM_H
#define SYMC_KERNELS_MULTIMEM_H

#include "kernels/copy.h"
#include "kernels/two_shot.h"

DEVICE bool fence_after(bool all)
{
    fence_aliases();
    return all;
}

/* A macro, so that the tests can take each one out by itself. */
#define synchronise_aliases(group, epoch) \
    (fence_aliases(), fence_after(synchronise(group, epoch)))

/* As reduce_part(), of sums. */
DEVICE struct symc_vector sum_part(const struct symc_reduce_args *args,
    uint64_t nbytes, uint64_t part, const enum symmcoll_dtype type)
{
#if HAS_MULTIMEM
    const unsigned char *at =
        args->data.multicast + args->data.offset + part * SYMC_VECTOR;

    if (is_multicast(args->data.multicast) && is_aligned(at) &&
        nbytes - part * SYMC_VECTOR >= SYMC_VECTOR)
        return multicast_sum(at, type);
#endif
    return reduce_any(args, 0, nbytes, part, type);
}

/* A part of nbytes at an offset in data becomes a vector, of all ranks: one by one
 * where there is no multicast address. */
DEVICE void store_to_all(const struct symc_device_data *data, uint32_t size,
    uint64_t offset, uint64_t nbytes, uint64_t part, struct symc_vector vector,
    const uint32_t step)
{
#if HAS_MULTIMEM
    unsigned char *at =
        data->multicast + data->offset + offset + part * SYMC_VECTOR;

    if (is_multicast(data->multicast) && is_aligned(at) &&
        nbytes - part * SYMC_VECTOR >= SYMC_VECTOR) {
        multicast_store(at, vector);
        return;
    }
#endif
    KEEP_LOOP
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct bytes to = bytes_at(data_of(data, rank) + offset, nbytes);

        store_part(&to, part, vector, step);
    }
}

DEVICE bool receives_sum(const struct symc_reduce_args *args)
{
    return args->root == SYMC_KERNEL_ALL || args->root == args->group.rank;
}

DEVICE void multimem_one_shot(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type);
    const uint64_t nbytes = args->count * step;
    const uint64_t parts = receives_sum(args) ? count_parts(nbytes) : 0;
    const struct bytes own = elements_of(args, group->rank, nbytes),
                       out = bytes_at(args->out, nbytes);
    uint32_t epoch = begin_epoch(group);

    if (args->in != NULL) {
        const struct bytes in = bytes_at(args->in, nbytes);

        copy_parts(&own, &in, step);
    }
    if (!synchronise_aliases(group, ++epoch))
        return;
    for (uint64_t part = first_part(); part < parts; part = next_part(part))
        store_part(&out, part, sum_part(args, nbytes, part, type), step);
    if (!synchronise_aliases(group, ++epoch))
        return;
    end_epoch(group, epoch);
}

/* Each slice is summed by one rank and stored to all, in the place of what it is
 * the sum of; no other rank reads it there before. */
DEVICE void multimem_two_shot(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type), rank = group->rank;
    const uint64_t nbytes = args->count * step, parts = count_parts(nbytes),
                   slice = slice_parts(parts, group->size);
    const struct bytes own = elements_of(args, rank, nbytes);
    uint32_t epoch = begin_epoch(group);

    if (args->in != NULL) {
        const struct bytes in = bytes_at(args->in, nbytes);

        copy_slices(&own, &in, group->size, step);
    }
    if (!synchronise_aliases(group, ++epoch))
        return;
    for (uint64_t i = first_part(); i < slice && rank * slice + i < parts;
         i = next_part(i))
        store_to_all(&args->data, group->size, 0, nbytes, rank * slice + i,
            sum_part(args, nbytes, rank * slice + i, type), step);
    if (!synchronise_aliases(group, ++epoch))
        return;
    if (args->out != NULL) {
        const struct bytes out = bytes_at(args->out, nbytes);

        copy_slices(&out, &own, group->size, step);
    }
    end_epoch(group, epoch);
}

/* Each rank's bytes to its place in the data of all ranks; `in` is elsewhere, or
 * there. */
DEVICE void multimem_all_gather(const struct symc_move_args *args)
{
    const struct symc_device_group *group = &args->group;
    const struct bytes in = bytes_at(args->in, args->nbytes);
    const uint64_t parts = count_parts(args->nbytes),
                   offset = group->rank * args->data_pitch;
    uint32_t epoch = begin_epoch(group);

    /* No rank uses what data had before any more. */
    if (!synchronise_aliases(group, ++epoch))
        return;
    for (uint64_t part = first_part(); part < parts; part = next_part(part))
        store_to_all(&args->data, group->size, offset, args->nbytes, part,
            load_part(&in, part, 1), 1);
    if (!synchronise_aliases(group, ++epoch))
        return;
    end_epoch(group, epoch);
}

#define MULTIMEM_OF(name, type)                                               \
    DEVICE void multimem_one_shot_##name(const struct symc_reduce_args *args) \
    {                                                                         \
        multimem_one_shot(args, type);                                        \
    }                                                                         \
    DEVICE void multimem_two_shot_##name(const struct symc_reduce_args *args) \
    {                                                                         \
        multimem_two_shot(args, type);                                        \
    }                                                                         \
    KERNEL(symc_multimem_one_shot_##name, struct symc_reduce_args,            \
        multimem_one_shot_##name)                                             \
    KERNEL(symc_multimem_two_shot_##name, struct symc_reduce_args,            \
        multimem_two_shot_##name)

MULTIMEM_OF(f16, SYMMCOLL_FLOAT16)
MULTIMEM_OF(bf16, SYMMCOLL_BFLOAT16)
MULTIMEM_OF(f32, SYMMCOLL_FLOAT32)
KERNEL(symc_multimem_all_gather, struct symc_move_args, multimem_all_gather)

#endif
