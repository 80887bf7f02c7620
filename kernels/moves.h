/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that only move bytes, of equal sizes: all-gather, all-to-all,
 * broadcast, scatter and gather, by the table at struct symc_move_args.
 *
 * Grid        as one-shot
 * Alignment   any; 16 bytes of addresses and pitches make it fast
 * Bytes       slices * nbytes read from in and written to data; sources * nbytes
 *             read from ranks and written to out
 * Order       see synchronise() in group.h: once after the copy, and once before
 *             what was read may change
 * Reference   memcpy()
 */
#ifndef SYMC_KERNELS_MOVES_H
#define SYMC_KERNELS_MOVES_H

#include "kernels/copy.h"
#include "kernels/group.h"

DEVICE void pull(const struct symc_move_args *args)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t slices = args->in == NULL ? 0 : args->slices;
    uint32_t epoch = begin_epoch(group);

    KEEP_LOOP
    for (uint32_t slice = 0; slice < slices; slice++)
        copy(data_of(&args->data, group->rank) + slice * args->data_pitch,
            (const unsigned char *)args->in + slice * args->in_pitch,
            args->nbytes);
    if (!synchronise(group, ++epoch))
        return;
    KEEP_LOOP
    for (uint32_t k = 0; k < args->sources; k++) {
        /* Each rank begins with another one, to spread the links. */
        const uint32_t source = (group->rank + k) % args->sources;

        copy((unsigned char *)args->out + source * args->out_pitch,
            data_of(&args->data, args->first + source) + args->begin,
            args->nbytes);
    }
    if (!synchronise(group, ++epoch))
        return;
    end_epoch(group, epoch);
}

KERNEL(symc_pull, struct symc_move_args, pull)

#endif
