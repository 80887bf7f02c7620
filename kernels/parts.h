/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory in parts of 16 bytes, whatever its alignment and wherever it ends:
 * whole parts of aligned memory are one load, others go element by element.
 */
#ifndef SYMC_KERNELS_PARTS_H
#define SYMC_KERNELS_PARTS_H

#include "kernels/device.h"

DEVICE bool is_aligned(const void *at)
{
    return (uintptr_t)at % SYMC_VECTOR == 0;
}

/* nbytes of memory; aligned: its address is a multiple of 16. */
struct bytes {
    unsigned char *at;
    uint64_t nbytes;
    bool aligned;
};

DEVICE struct bytes bytes_at(const void *at, uint64_t nbytes)
{
    const struct bytes bytes = {
        (unsigned char *)(uintptr_t)at, nbytes, is_aligned(at)};

    return bytes;
}

DEVICE uint64_t count_parts(uint64_t nbytes)
{
    return (nbytes + SYMC_VECTOR - 1) / SYMC_VECTOR;
}

/* Bytes of a part: fewer than 16 in the last one. */
DEVICE uint32_t part_nbytes(const struct bytes *bytes, uint64_t part)
{
    const uint64_t left = bytes->nbytes - part * SYMC_VECTOR;

    return left < SYMC_VECTOR ? (uint32_t)left : (uint32_t)SYMC_VECTOR;
}

/* step: bytes of an element, 1, 2, 4 or 8, to which memory is aligned; what is
 * past the end reads as 0. */
DEVICE struct symc_vector load_part(
    const struct bytes *from, uint64_t part, const uint32_t step)
{
    const unsigned char *at = from->at + part * SYMC_VECTOR;
    const uint32_t nbytes = part_nbytes(from, part);
    struct symc_vector vector = {{0, 0, 0, 0}};

    if (from->aligned && nbytes == SYMC_VECTOR)
        return load_vector(at);
    UNROLL
    for (uint32_t i = 0; i < SYMC_VECTOR; i += step) {
        if (i >= nbytes)
            continue;
        if (step == 8) {
            const uint64_t two = *(const uint64_t *)(const void *)(at + i);

            vector.word[i / 4] = (uint32_t)two;
            vector.word[i / 4 + 1] = (uint32_t)(two >> 32);
        } else if (step == 4) {
            vector.word[i / 4] = *(const uint32_t *)(const void *)(at + i);
        } else if (step == 2) {
            vector.word[i / 4] |=
                (uint32_t)(*(const uint16_t *)(const void *)(at + i))
                << i % 4 * 8;
        } else {
            vector.word[i / 4] |= (uint32_t)at[i] << i % 4 * 8;
        }
    }
    return vector;
}

DEVICE void store_part(const struct bytes *to, uint64_t part,
    struct symc_vector vector, const uint32_t step)
{
    unsigned char *at = to->at + part * SYMC_VECTOR;
    const uint32_t nbytes = part_nbytes(to, part);

    if (to->aligned && nbytes == SYMC_VECTOR) {
        store_vector(at, vector);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < SYMC_VECTOR; i += step) {
        const uint32_t word = vector.word[i / 4];

        if (i >= nbytes)
            continue;
        if (step == 8)
            *(uint64_t *)(void *)(at + i) =
                (uint64_t)vector.word[i / 4 + 1] << 32 | word;
        else if (step == 4)
            *(uint32_t *)(void *)(at + i) = word;
        else if (step == 2)
            *(uint16_t *)(void *)(at + i) = (uint16_t)(word >> i % 4 * 8);
        else
            at[i] = (unsigned char)(word >> i % 4 * 8);
    }
}

#define IN_FLIGHT 8 /* loads of a thread that do not wait for one another */

/* Copy whole parts of aligned memory, from one on every `every`-th, as long as there
 * are many: what a thread stores it may have loaded long before, so that the few
 * threads that may be resident keep the memory, or a link, busy.  Returns the first
 * part that is left. */
DEVICE uint64_t copy_many_parts(const struct bytes *to,
    const struct bytes *from, uint64_t part, uint64_t every)
{
    const uint64_t whole =
        to->aligned && from->aligned ? to->nbytes / SYMC_VECTOR : 0;

    KEEP_LOOP
    for (; part + (IN_FLIGHT - 1) * every < whole; part += IN_FLIGHT * every) {
        struct symc_vector loaded[IN_FLIGHT];

        UNROLL
        for (uint32_t k = 0; k < IN_FLIGHT; k++)
            loaded[k] =
                load_vector(from->at + (part + k * every) * SYMC_VECTOR);
        UNROLL
        for (uint32_t k = 0; k < IN_FLIGHT; k++)
            store_vector(to->at + (part + k * every) * SYMC_VECTOR, loaded[k]);
    }
    return part;
}

/* The largest power of two up to 8 that all three are multiples of. */
DEVICE uint32_t step_of(const void *to, const void *from, uint64_t nbytes)
{
    const uint64_t all = (uintptr_t)to | (uintptr_t)from | nbytes;

    return all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

/* The parts of this thread: of all threads of the grid in turn. */
DEVICE uint64_t first_part(void)
{
    return (uint64_t)block_index() * thread_count() + thread_index();
}

DEVICE uint64_t next_part(uint64_t part)
{
    return part + (uint64_t)block_count() * thread_count();
}

#endif
