/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine as the machine on which the checks run kernels. */
#include "t/kernels/machine.h"
#include "t/kernels/group.h"
#include "t/kernels/multicast.h"
#include "t/sanitized.h"

#include <stdlib.h>
#include <string.h>

struct machine machine = {
    .timeout_ns = UINT64_C(50000000), /* in turns of all fibers: 50000 */
    .short_ns = UINT64_C(200000),
    .elements_max = 400,
    .keeps_nan = true,
    .seconds = 600,
    .add_to_clock = engine_advance_clock};

void machine_begin(void)
{
    engine_count_time(true);
}

/* Sanitizers are slow, and a few rounds suffice for them. */
int machine_rounds(int rounds)
{
    return SANITIZED ? rounds / 8 + 1 : rounds;
}

uint32_t machine_draw_blocks(void)
{
    return 1 + group_draw() % 3;
}

uint32_t machine_draw_threads(int least)
{
    return (uint32_t)least + group_draw() % 4;
}

void *machine_alloc(size_t alignment, size_t nbytes)
{
    void *memory = aligned_alloc(
        alignment, (nbytes + alignment - 1) / alignment * alignment);

    if (memory == NULL)
        abort();
    return memory;
}

void machine_free(void *memory)
{
    free(memory);
}

void *machine_alloc_words(size_t nbytes)
{
    return machine_alloc(16, nbytes);
}

void machine_free_words(void *words)
{
    free(words);
}

unsigned char *machine_open_multicast(
    unsigned char *const *places, int n, size_t nbytes)
{
    return multicast_open(places, n, nbytes);
}

void machine_close_multicast(void)
{
    multicast_close();
}

void machine_note_address(void *word)
{
    (void)word;
}

void machine_run(const struct engine_stream *streams, int n, uint64_t seed)
{
    engine_run(streams, n, seed);
}

void machine_copy(const void *args)
{
    const struct copying *copying = args;

    memcpy(copying->to, copying->from, copying->nbytes);
}

/* A kernel that waits for a flag and then copies. */
void machine_read_after_flag(const void *args)
{
    const struct reading *reading = args;

    while (__atomic_load_n(reading->flag, __ATOMIC_ACQUIRE) == 0)
        engine_relax();
    machine_copy(&reading->copying);
}
