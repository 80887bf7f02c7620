/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/group.h"

#include "t/tap.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64
#define GUARD_BYTE 0xa5

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

/* Returns nbytes bytes between two guards; aligned to 16 bytes plus shift. */
static unsigned char *open_buffer(size_t nbytes, size_t shift)
{
    const size_t whole = nbytes + 2 * GUARD + shift;
    unsigned char *buffer = machine_alloc(16, whole);

    memset(buffer, GUARD_BYTE, whole);
    group_fill(buffer + GUARD + shift, nbytes);
    return buffer + GUARD + shift;
}

static void close_buffer(unsigned char *buffer, size_t shift)
{
    machine_free(buffer - GUARD - shift);
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

/* Places the data in order, or in the segment of another rank according to a
 * table. */
static void draw_places(struct group *group)
{
    const int by = (int)(group_draw() % 2);

    group->has_table = by != 0 || group_draw() % 4 == 0;
    for (int r = 0; r < group->size; r++)
        group->places[r] =
            group->segments + (size_t)((r + by) % group->size) * group->stride;
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
    group->segments = machine_alloc(4096, group->stride * (size_t)size);
    group->words = machine_alloc_words(sizeof(*group->words));
    memset(group->words, 0, sizeof(*group->words));
    group->places = machine_alloc(
        sizeof(*group->places), sizeof(*group->places) * GROUP_RANKS);
    draw_places(group);
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

void group_open_multicast(struct group *group)
{
    group->multicast =
        machine_open_multicast(group->places, group->size, group->stride);
}

void group_close(struct group *group)
{
    if (group->multicast != NULL)
        machine_close_multicast();
    for (int r = 0; r < group->size; r++) {
        close_buffer(group->in[r], group->sizes.shift);
        close_buffer(group->out[r], group->sizes.shift);
    }
    machine_free(group->places);
    machine_free(group->segments);
    machine_free_words(group->words);
}

struct symc_device_group group_of(struct group *group, int rank)
{
    return (struct symc_device_group){.base = group->segments,
        .stride = group->stride,
        .packets = packets_offset(),
        .aborted = &group->words->aborted,
        .failure = &group->words->failure,
        .timeout_ns = machine.timeout_ns,
        .rank = (uint32_t)rank,
        .size = (uint32_t)group->size};
}

struct symc_device_data group_data_of(const struct group *group)
{
    return (struct symc_device_data){.base = group->segments,
        .stride = group->stride,
        .offset = group->offset,
        .multicast = group->multicast,
        .table = group->has_table ? group->places : NULL};
}

unsigned char *group_data(const struct group *group, int rank)
{
    return group->places[rank] + group->offset;
}

void group_launch(struct group *group, int rank, kernel_fn kernel,
    const void *args, uint32_t blocks, uint32_t threads)
{
    if (group->streams[rank].n == GROUP_LAUNCHES)
        abort();
    group->launches[rank][group->streams[rank].n++] =
        (struct engine_launch){kernel, args, blocks, threads};
}

void group_launch_copy(
    struct group *group, int rank, const struct copying *copying)
{
    group_launch(group, rank, machine_copy, copying, 1, 1);
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

void group_run_freely(struct group *group)
{
    for (int r = 0; r < group->size && group->has_table; r++)
        machine_note_address(&group->places[r]);
    machine_run(group->streams, group->size, group_draw());
    for (int r = 0; r < group->size; r++)
        group->streams[r].n = 0;
}

bool group_run(struct group *group)
{
    const struct symc_device_failure *failure = &group->words->failure;

    group_run_freely(group);
    if (failure->reason != group->expected)
        diag("gave up: reason %u, peer %u, block %u", failure->reason,
            failure->peer, failure->block);
    return is_unharmed(group) && failure->reason == group->expected;
}

/* ---- comparing ---- */

static bool is_nan(const unsigned char *at, enum symmcoll_dtype dtype)
{
    uint16_t half;
    float single;
    double value = 0;

    memcpy(&half, at, sizeof(half));
    if (dtype == SYMMCOLL_FLOAT16)
        return (half & 0x7fff) > 0x7c00;
    if (dtype == SYMMCOLL_BFLOAT16)
        return (half & 0x7fff) > 0x7f80;
    if (dtype == SYMMCOLL_FLOAT32) {
        memcpy(&single, at, sizeof(single));
        value = single;
    } else if (dtype == SYMMCOLL_FLOAT64) {
        memcpy(&value, at, sizeof(value));
    }
    return value != value;
}

bool group_is_same(const void *expected, const void *found, size_t count,
    enum symmcoll_dtype dtype)
{
    const size_t element = symmcoll_dtype_size(dtype);
    const unsigned char *a = expected, *b = found;

    if (memcmp(a, b, count * element) == 0)
        return true;
    if (machine.keeps_nan || element < 2)
        return false;
    for (size_t i = 0; i < count; i++, a += element, b += element)
        if (memcmp(a, b, element) != 0 &&
            (!is_nan(a, dtype) || !is_nan(b, dtype)))
            return false;
    return true;
}
