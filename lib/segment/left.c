/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects which members have left a segment, and takes its range back when all
 * have.
 */
#include "segment/left.h"

#include "segment/liveness.h"

#include <stdlib.h>

void symc_left_free(struct symc_segment *segment)
{
    free(segment->at);
    free(segment->global);
    free(segment->offers);
    free(segment);
}

bool symc_left_take_back(
    struct symc_segments *segments, const struct symc_offer *offer)
{
    if (!symc_arena_return(&segments->arena, offer->offset, offer->nbytes))
        return false;
    segments->entries[segments->free_entries++] =
        symc_left_entry(offer->generation);
    return true;
}

uint64_t symc_left_read_entry(const struct symc_peer *peer, uint64_t generation)
{
    return atomic_load_explicit(
        &peer->view.block->segments[symc_left_entry(generation)],
        memory_order_acquire);
}

/* Returns whether a peer's table shows that it has left: the entry has the
 * flag, or has been reused for a later generation. */
static bool says_left(const struct symc_peer *peer, uint64_t expected)
{
    uint64_t found = symc_left_read_entry(peer, expected);
    uint64_t later = found & ~SYMC_SEGMENT_LEFT;

    return found == (expected | SYMC_SEGMENT_LEFT) ||
           (later > expected &&
               symc_left_entry(later) == symc_left_entry(expected));
}

bool symc_segment_is_left(const struct symc_segment *segment, int member)
{
    const struct symc_peer *peer =
        &segment->home->peers[segment->global[member]];
    uint64_t generation = segment->offers[member].generation;

    /* Before this rank leaves, its peers' entries cannot be reused for a later
     * generation: any other value is a stray store. */
    return segment->offers[member].nbytes > 0 && peer->view.block != NULL &&
           symc_left_read_entry(peer, generation) ==
               (generation | SYMC_SEGMENT_LEFT);
}

/* Returns whether a member no longer uses a segment. */
static bool has_left(const struct symc_segment *segment, int member)
{
    const struct symc_peer *peer =
        &segment->home->peers[segment->global[member]];

    return member == segment->rank || segment->offers[member].nbytes == 0 ||
           peer->view.block == NULL ||
           says_left(peer, segment->offers[member].generation) ||
           symc_liveness_state(peer) != SYMC_LIVENESS_ALIVE;
}

static bool have_all_left(const struct symc_segment *segment)
{
    for (int m = 0; m < segment->size; m++) {
        if (!has_left(segment, m))
            return false;
    }
    return true;
}

/* Returns buffers that have no users to the arena.  One that the kernel refuses
 * stays in the list for the next call. */
static void return_buffers(struct symc_segments *segments)
{
    struct symc_buffer **at = &segments->buffers;

    while (*at != NULL) {
        struct symc_buffer *buffer = *at;

        if (buffer->users == 0 && symc_arena_return(&segments->arena,
                                      buffer->offset, buffer->nbytes)) {
            *at = buffer->next;
            free(buffer);
        } else {
            at = &buffer->next;
        }
    }
}

void symc_left_drop(struct symc_segments *segments, struct symc_buffer *buffer)
{
    if (buffer != NULL && --buffer->users == 0)
        return_buffers(segments);
}

int symc_left_reap(struct symc_segments *segments)
{
    struct symc_segment **at = &segments->leaving;
    int remain = 0;

    return_buffers(segments);
    while (*at != NULL) {
        struct symc_segment *segment = *at;

        if (have_all_left(segment) &&
            symc_left_take_back(segments, &segment->offers[segment->rank])) {
            *at = segment->next;
            symc_left_drop(segments, segment->buffer);
            symc_left_free(segment);
        } else {
            at = &segment->next;
            remain++;
        }
    }
    return remain;
}

int symc_segments_reap(struct symc_segments *segments)
{
    int remain;

    pthread_mutex_lock(&segments->lock);
    remain = symc_left_reap(segments);
    pthread_mutex_unlock(&segments->lock);
    return remain;
}
