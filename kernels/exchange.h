/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving bytes of unlike sizes from all ranks to all ranks, by the sizes of struct
 * symc_exchange_args: an all-to-all, and with sizes of 0 all-gather, gather and
 * scatter.
 *
 * Grid        as one-shot
 * Alignment   any; 16 bytes of places and slots make it fast
 * Bytes       what is sent, read from in and written to slots; what is received,
 *             read from the slots of ranks and written to out
 * Order       see synchronise() in group.h: once after the copy, and once before
 *             what was read may change
 * Reference   memcpy()
 */
#ifndef SYMC_KERNELS_EXCHANGE_H
#define SYMC_KERNELS_EXCHANGE_H

#include "kernels/copy.h"
#include "kernels/group.h"

DEVICE void exchange(const struct symc_exchange_args *args)
{
    const struct symc_device_group *group = &args->group;
    uint32_t epoch = begin_epoch(group);

    KEEP_LOOP
    for (uint32_t to = 0; to < group->size; to++)
        copy(data_of(&args->data, group->rank) + to * args->pitch,
            args->in + args->send_at[to], args->send_nbytes[to]);
    if (!synchronise(group, ++epoch))
        return;
    KEEP_LOOP
    for (uint32_t k = 0; k < group->size; k++) {
        const uint32_t from = (group->rank + k) % group->size;

        copy(args->out + args->receive_at[from],
            data_of(&args->data, from) + group->rank * args->pitch,
            args->receive_nbytes[from]);
    }
    if (!synchronise(group, ++epoch))
        return;
    end_epoch(group, epoch);
}

KERNEL(symc_exchange, struct symc_exchange_args, exchange)

#endif
