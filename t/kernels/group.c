/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/group.h"

#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64
#define GUARD_BYTE 0xa5
#define TIMEOUT_NS UINT64_C(50000000) /* in turns of all fibers: 50000 */

uint32_t group_draw(void)
{
    static uint64_t state = 1;

    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

void group_fill(void *at, size_t nbytes)
{
    unsigned char *byte = at;

    for (size_t i = 0; i < nbytes; i++)
        byte[i] = (unsigned char)group_draw();
}

static void *allocate(size_t alignment, size_t nbytes)
{
    void *memory = aligned_alloc(
        alignment, (nbytes + alignment - 1) / alignment * alignment);

    if (memory == NULL)
        abort();
    return memory;
}

/* nbytes between two guards; aligned to 16 bytes but for shift. */
static unsigned char *open_buffer(size_t nbytes, size_t shift)
{
    const size_t whole = nbytes + 2 * GUARD + shift;
    unsigned char *buffer = allocate(16, whole);

    memset(buffer, GUARD_BYTE, whole);
    group_fill(buffer + GUARD + shift, nbytes);
    return buffer + GUARD + shift;
}

static void close_buffer(unsigned char *buffer, size_t shift)
{
    free(buffer - GUARD - shift);
}

static bool is_guarded(const unsigned char *buffer, size_t nbytes)
{
    for (size_t i = 1; i <= GUARD; i++)
        if (buffer[-(ptrdiff_t)i] != GUARD_BYTE ||
            buffer[nbytes + i - 1] != GUARD_BYTE)
            return false;
    return true;
}

static size_t packets_offset(void)
{
    return (sizeof(struct symc_device_pad) + 255) / 256 * 256;
}

void group_open(struct group *group, int size, const struct sizes *sizes)
{
    const size_t begin =
        packets_offset() + (size_t)SYMC_PACKETS_NBYTES((size_t)size);

    memset(group, 0, sizeof(*group));
    group->size = size;
    group->sizes = *sizes;
    group->offset = begin + GUARD + sizes->shift;
    group->stride = (group->offset + sizes->data + GUARD + 4095) / 4096 * 4096;
    group->segments = allocate(4096, group->stride * (size_t)size);
    for (int r = 0; r < size; r++) {
        unsigned char *segment = group->segments + (size_t)r * group->stride;

        memset(segment, 0, begin);
        memset(segment + begin, GUARD_BYTE, group->stride - begin);
        group_fill(group_data(group, r), sizes->data);
        group->in[r] = open_buffer(sizes->in, sizes->shift);
        group->out[r] = open_buffer(sizes->out, sizes->shift);
        group->streams[r].launches = group->launches[r];
    }
}

void group_close(struct group *group)
{
    for (int r = 0; r < group->size; r++) {
        close_buffer(group->in[r], group->sizes.shift);
        close_buffer(group->out[r], group->sizes.shift);
    }
    free(group->segments);
}

struct symc_device_group group_of(struct group *group, int rank)
{
    return (struct symc_device_group){.base = group->segments,
        .stride = group->stride,
        .packets = packets_offset(),
        .aborted = &group->aborted,
        .failure = &group->failure,
        .timeout_ns = TIMEOUT_NS,
        .rank = (uint32_t)rank,
        .size = (uint32_t)group->size};
}

struct symc_device_data group_data_of(const struct group *group)
{
    return (struct symc_device_data){.base = group->segments,
        .stride = group->stride,
        .offset = group->offset};
}

unsigned char *group_data(const struct group *group, int rank)
{
    return group->segments + (size_t)rank * group->stride + group->offset;
}

void group_launch(struct group *group, int rank, kernel_fn kernel,
    const void *args, uint32_t blocks, uint32_t threads)
{
    if (group->streams[rank].n == GROUP_LAUNCHES)
        abort();
    group->launches[rank][group->streams[rank].n++] =
        (struct engine_launch){kernel, args, blocks, threads};
}

static void copy(const void *args)
{
    const struct copying *copying = args;

    memcpy(copying->to, copying->from, copying->nbytes);
}

void group_launch_copy(
    struct group *group, int rank, const struct copying *copying)
{
    group_launch(group, rank, copy, copying, 1, 1);
}

static bool is_unharmed(const struct group *group)
{
    bool good = true;

    for (int r = 0; r < group->size; r++)
        good = good && is_guarded(group->in[r], group->sizes.in) &&
               is_guarded(group->out[r], group->sizes.out) &&
               is_guarded(group_data(group, r), group->sizes.data);
    if (!good)
        diag("bytes beside a buffer changed");
    return good;
}

bool group_run(struct group *group)
{
    engine_run(group->streams, group->size, group_draw());
    for (int r = 0; r < group->size; r++)
        group->streams[r].n = 0;
    if (group->failure.reason != 0)
        diag("gave up: reason %u, peer %u, block %u", group->failure.reason,
            group->failure.peer, group->failure.block);
    return is_unharmed(group) && group->failure.reason == 0;
}
