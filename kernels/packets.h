/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce and reduce of few bytes in packets: four bytes of data and the number of the
 * operation in one store, so that the data is its own signal, and no barrier is
 * needed.
 *
 * Each rank sends its elements to all ranks, and combines what has arrived in
 * the order of ranks.  A segment has two halves for them, used in turn: a rank that
 * sends the packets of operation n + 2 has received all of operation n + 1 from
 * each rank, so that rank has combined those of operation n.
 *
 * Grid        blocks of SYMC_PACKET_THREADS threads, one thread for 8 bytes, so
 *             that the same thread always uses the same packets
 * Alignment   that of the element
 * Order       a packet is one relaxed store; nothing else is communicated
 * Reference   symc_reduce(), one block of sources: the same bits
 *
 * With R ranks and N bytes a rank stores 2 R N bytes to segments, reads as many
 * from its own, N from in, and writes N to out.
 */
#ifndef SYMC_KERNELS_PACKETS_H
#define SYMC_KERNELS_PACKETS_H

#include "kernels/elements.h"
#include "kernels/group.h"
#include "kernels/parts.h"

#define UNIT 8 /* bytes of a thread: two packets */

/* The two packets of this thread from one rank, in the segment of another. */
DEVICE uint64_t *packets_of(const struct symc_device_group *group,
    uint32_t owner, uint32_t from, uint32_t number)
{
    const uint64_t half = (uint64_t)group->size * SYMC_PACKET_NBYTES / 4;
    const uint64_t first = (uint64_t)from * SYMC_PACKET_NBYTES / 4 +
                           2 * first_part() +
                           (TAKEN_OUT("second half") ? 0 : number % 2 * half);

    return (uint64_t *)(void *)(segment_of(group, owner) + group->packets) +
           first;
}

DEVICE bool receive_packet(const struct symc_device_group *group,
    const uint64_t *packet, uint32_t peer, uint32_t number, uint32_t *word)
{
    uint64_t began = 0;

    for (uint32_t look = 1;; look++) {
        const uint64_t value = load_packet(packet);

        if ((uint32_t)(value >> 32) == number) {
            *word = (uint32_t)value;
            return true;
        }
        if (look % LOOKS == 0 && must_end(group, peer, &began))
            return false;
        relax();
    }
}

/* 8 bytes of each rank's elements, combined; false: a packet did not arrive. */
DEVICE bool combine_packets(const struct symc_reduce_args *args,
    uint32_t number, const enum symmcoll_dtype type, struct symc_vector *result)
{
    const struct symc_device_group *group = &args->group;
    struct elements sum, next;

    for (uint32_t peer = 0; peer < group->size; peer++) {
        const uint64_t *packets = packets_of(group, group->rank, peer, number);
        struct symc_vector vector = {{0, 0, 0, 0}};

        UNROLL
        for (int i = 0; i < 2; i++)
            if (!receive_packet(
                    group, &packets[i], peer, number, &vector.word[i]))
                return false;
        unpack(&next, vector, type, args->op, args->factors[peer]);
        if (peer == 0)
            sum = next;
        else
            combine(&sum, &next, type, args->op);
    }
    *result = pack(&sum, type, args->op, group->size);
    return true;
}

/* The first 8 bytes of a part are those of this thread. */
DEVICE struct bytes unit_at(const void *at, uint64_t nbytes)
{
    const uint64_t begin = first_part() * UNIT;
    const uint64_t left = nbytes > begin ? nbytes - begin : 0;

    return bytes_at(
        (const unsigned char *)at + begin, left < UNIT ? left : UNIT);
}

/* Those of this thread to all ranks, also where only a root has a result: a
 * rank that has received from all knows that their halves are free. */
DEVICE void send_packets(const struct symc_reduce_args *args,
    struct symc_vector vector, uint32_t number)
{
    const struct symc_device_group *group = &args->group;

    for (uint32_t k = 0; k < group->size; k++) {
        const uint32_t to = (group->rank + k) % group->size;
        uint64_t *packets = packets_of(group, to, group->rank, number);

        UNROLL
        for (int i = 0; i < 2; i++)
            store_packet(&packets[i], (uint64_t)number << 32 | vector.word[i]);
    }
}

/* Numbers alternate between odd and even; 0 is a packet that was never sent. */
DEVICE uint32_t number_after(uint32_t number)
{
    return number == UINT32_MAX ? 2 : number + 1;
}

DEVICE void reduce_packets(
    const struct symc_reduce_args *args, const enum symmcoll_dtype type)
{
    const struct symc_device_group *group = &args->group;
    const uint32_t step = nbytes_of(type);
    const uint64_t nbytes = args->count * step;
    uint32_t *sent = &pad_of(group, group->rank)->packets_sent[block_index()];
    const uint32_t number = number_after(*sent);
    bool failed = false;

    /* Not counted: no rank learns here that another one has been here. */
    if ((uint64_t)block_index() * thread_count() * UNIT >= nbytes)
        return;
    if (first_part() * UNIT < nbytes) {
        const struct bytes in = unit_at(args->in, nbytes),
                           out = unit_at(args->out, nbytes);
        struct symc_vector vector = load_part(&in, 0, step);

        send_packets(args, vector, number);
        failed = !combine_packets(args, number, type, &vector);
        if (!failed &&
            (args->root == SYMC_KERNEL_ALL || args->root == group->rank))
            store_part(&out, 0, vector, step);
    }
    if (!block_any(failed) && thread_index() == 0)
        *sent = number;
}

#define PACKETS_OF(name, type)                                      \
    DEVICE void packets_##name(const struct symc_reduce_args *args) \
    {                                                               \
        reduce_packets(args, type);                                 \
    }                                                               \
    KERNEL(symc_packets_##name, struct symc_reduce_args, packets_##name)
EACH_TYPE(PACKETS_OF)

#endif
