/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments: making offers, accepting and leaving. */
#include "segment/segment.h"

#include "segment/left.h"
#include "segment/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT_BITS (64 - SYMC_ENTRY_BITS) /* bits of a generation */
_Static_assert(SYMC_RANKS_MAX <= 1 << SYMC_ENTRY_BITS,
    "a rank has room beside a count of offers");

/* ---- the segments of a rank ---- */

symmcoll_status_t symc_segments_open(struct symc_segments *segments, int rank,
    int size, const struct symc_block_view *own, int fd)
{
    symmcoll_status_t status;

    *segments =
        (struct symc_segments){.rank = rank, .size = size, .block = own->block};
    segments->entries =
        symc_alloc(SYMC_SEGMENTS_MAX, sizeof(*segments->entries));
    if (segments->entries == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status =
        symc_arena_init(&segments->arena, fd, own->layout.nbytes, own->mapped);
    if (status != SYMMCOLL_OK) {
        free(segments->entries);
        return status;
    }
    pthread_mutex_init(&segments->lock, NULL);
    return SYMMCOLL_OK;
}

void symc_segments_connect(
    struct symc_segments *segments, const struct symc_peer *peers)
{
    size_t end = segments->arena.end;

    for (int r = 0; r < segments->size; r++) {
        if (peers[r].view.block != NULL && peers[r].view.mapped < end)
            end = peers[r].view.mapped;
    }
    pthread_mutex_lock(&segments->lock);
    segments->peers = peers;
    symc_arena_trim(&segments->arena, end);
    pthread_mutex_unlock(&segments->lock);
}

void symc_segments_close(struct symc_segments *segments)
{
    for (struct symc_segment *at = segments->live, *next; at != NULL;
         at = next) {
        next = at->next;
        symc_segment_leave(at);
    }
    while (segments->leaving != NULL) {
        struct symc_segment *first = segments->leaving;

        segments->leaving = first->next;
        symc_left_free(first);
    }
    /* The ranges are not returned: peers may still read them. */
    while (segments->buffers != NULL) {
        struct symc_buffer *first = segments->buffers;

        segments->buffers = first->next;
        free(first);
    }
    symc_places_free(&segments->places);
    symc_arena_destroy(&segments->arena);
    pthread_mutex_destroy(&segments->lock);
    free(segments->entries);
}

/* ---- offers ---- */

/* Writes a generation, with or without SYMC_SEGMENT_LEFT, to this rank's
 * table. */
static void write_entry(struct symc_segments *segments, uint64_t word)
{
    /* Release: a rank that reads a later generation cannot read earlier
     * bytes. */
    atomic_store_explicit(&segments->block->segments[symc_left_entry(word)],
        word, memory_order_release);
}

static symmcoll_status_t make_offer(
    struct symc_segments *segments, size_t nbytes, struct symc_offer *offer)
{
    size_t offset;
    uint32_t entry;
    symmcoll_status_t status;

    symc_left_reap(segments);
    if (segments->free_entries == 0 && segments->used == SYMC_SEGMENTS_MAX)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "groups: expected at most %d at once, with those that other "
            "members have not released, found one more",
            SYMC_SEGMENTS_MAX);
    status = symc_arena_take(&segments->arena, nbytes, &offset);
    if (status != SYMMCOLL_OK)
        return status;
    entry = segments->free_entries > 0
                ? segments->entries[--segments->free_entries]
                : segments->used++;
    *offer = (struct symc_offer){.offset = offset,
        .nbytes = nbytes,
        .generation = ++segments->count << SYMC_ENTRY_BITS | entry};
    write_entry(segments, offer->generation);
    return SYMMCOLL_OK;
}

/* Backs part of this rank's arena with memory. */
static symmcoll_status_t back(struct symc_segments *segments, size_t offset,
    size_t nbytes, const char *what)
{
    symmcoll_status_t status =
        symc_memory_reserve(segments->arena.fd, offset, nbytes, what);

    if (status == SYMMCOLL_OK)
        symc_memory_populate((char *)segments->block + offset, nbytes);
    return status;
}

symmcoll_status_t symc_segment_offer(struct symc_segments *segments,
    size_t nbytes, size_t backed, struct symc_offer *offer)
{
    symmcoll_status_t status;

    pthread_mutex_lock(&segments->lock);
    status = make_offer(segments, nbytes, offer);
    pthread_mutex_unlock(&segments->lock);
    if (status != SYMMCOLL_OK || backed == 0)
        return status;
    status = back(segments, offer->offset, backed, "segment");
    if (status != SYMMCOLL_OK)
        symc_segment_withdraw(segments, offer);
    return status;
}

void symc_segment_withdraw(
    struct symc_segments *segments, const struct symc_offer *offer)
{
    pthread_mutex_lock(&segments->lock);
    write_entry(segments, offer->generation | SYMC_SEGMENT_LEFT);
    /* If the kernel refuses, the world cannot reuse the range. */
    (void)symc_left_take_back(segments, offer);
    pthread_mutex_unlock(&segments->lock);
}

void symc_segment_abandon(
    struct symc_segments *segments, const struct symc_offer *offer)
{
    write_entry(segments, offer->generation | SYMC_SEGMENT_LEFT);
}

/* ---- buffers ---- */

symmcoll_status_t symc_buffer_take(
    struct symc_segments *segments, size_t nbytes, struct symc_buffer **buffer)
{
    struct symc_buffer *made = symc_alloc(1, sizeof(*made));
    size_t offset = 0;
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&segments->lock);
    symc_left_reap(segments);
    status = symc_arena_take(&segments->arena, nbytes, &offset);
    if (status == SYMMCOLL_OK) {
        *made = (struct symc_buffer){.next = segments->buffers,
            .offset = offset,
            .nbytes = nbytes,
            .users = 1};
        segments->buffers = made;
    }
    pthread_mutex_unlock(&segments->lock);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    status = back(segments, offset, nbytes, "symmetric memory");
    if (status != SYMMCOLL_OK)
        symc_buffer_drop(segments, made);
    else
        *buffer = made;
    return status;
}

void symc_buffer_hold(
    struct symc_segments *segments, struct symc_buffer *buffer)
{
    pthread_mutex_lock(&segments->lock);
    buffer->users++;
    pthread_mutex_unlock(&segments->lock);
}

void symc_buffer_drop(
    struct symc_segments *segments, struct symc_buffer *buffer)
{
    pthread_mutex_lock(&segments->lock);
    symc_left_drop(segments, buffer);
    pthread_mutex_unlock(&segments->lock);
}

/* ---- accepting ---- */

static struct symc_segment *make_segment(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_segment_ops *ops)
{
    struct symc_segment *made = symc_alloc(1, sizeof(*made));

    if (made == NULL)
        return NULL;
    *made = (struct symc_segment){
        .ops = ops, .rank = rank, .size = size, .home = segments, .fd = -1};
    made->at = symc_alloc((size_t)size, sizeof(*made->at));
    made->global = symc_alloc((size_t)size, sizeof(*made->global));
    made->offers = symc_alloc((size_t)size, sizeof(*made->offers));
    if (made->at == NULL || made->global == NULL || made->offers == NULL) {
        symc_left_free(made);
        return NULL;
    }
    for (int m = 0; m < size; m++)
        made->global[m] = global[m];
    return made;
}

/* Checks a member's offer against the mapping of that member's arena. */
static symmcoll_status_t check_offer(
    const struct symc_segment *segment, int member)
{
    const struct symc_offer *offer = &segment->offers[member];
    int rank = segment->global[member];
    const struct symc_peer *peer = &segment->home->peers[rank];
    const struct symc_block_view *view = &peer->view;
    uint64_t found;

    if (view->block == NULL || offer->offset % SYMC_PAGE != 0 ||
        offer->offset < view->layout.nbytes || offer->offset > view->mapped ||
        offer->nbytes > view->mapped - offer->offset)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "segment: rank %d: expected whole pages between %llu and %zu of "
            "its arena, found %llu bytes from %llu on",
            rank, (unsigned long long)view->layout.nbytes, view->mapped,
            (unsigned long long)offer->nbytes,
            (unsigned long long)offer->offset);
    found = symc_left_read_entry(peer, offer->generation) & ~SYMC_SEGMENT_LEFT;
    if (found != offer->generation)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "segment: rank %d: expected its part to be of generation %llu, "
            "found %llu",
            rank, (unsigned long long)offer->generation,
            (unsigned long long)found);
    return SYMMCOLL_OK;
}

/* Adds a segment to the list of live ones and to the table of addresses; its
 * at[] and nbytes are final. */
static symmcoll_status_t list_segment(struct symc_segment *segment)
{
    struct symc_segments *home = segment->home;
    symmcoll_status_t status;

    pthread_mutex_lock(&home->lock);
    status = symc_places_grow(&home->places, (size_t)segment->size);
    for (int m = 0; status == SYMMCOLL_OK && m < segment->size; m++) {
        const struct symc_place place = {
            segment->at[m], segment->nbytes, segment, m};

        if (place.begin != NULL)
            symc_places_add(&home->places, &place);
    }
    segment->next = home->live;
    home->live = segment;
    pthread_mutex_unlock(&home->lock);
    return status;
}

/* Lists a new segment, or leaves it if an earlier step failed. */
static symmcoll_status_t finish(struct symc_segment *made,
    symmcoll_status_t status, struct symc_segment **segment)
{
    if (status == SYMMCOLL_OK)
        status = list_segment(made);
    if (status == SYMMCOLL_OK)
        *segment = made;
    else
        symc_segment_leave(made);
    return status;
}

/* Keeps the range, because the other members may read it until they leave. */
static bool leave_arena(struct symc_segment *segment)
{
    write_entry(segment->home,
        segment->offers[segment->rank].generation | SYMC_SEGMENT_LEFT);
    return false;
}

static const struct symc_segment_ops arena_ops = {"arena", leave_arena};

/* Returns whether a rank is on another machine, so that its offer is not
 * used. */
static bool is_elsewhere(const struct symc_segments *segments, int global)
{
    return segments->peers[global].view.block == NULL;
}

symmcoll_status_t symc_segment_accept_with(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_offer *all,
    struct symc_buffer *buffer, struct symc_segment **segment)
{
    struct symc_segment *made =
        make_segment(segments, global, rank, size, &arena_ops);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (made == NULL) {
        symc_segment_abandon(segments, &all[rank]);
        if (buffer != NULL)
            symc_buffer_drop(segments, buffer);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    made->fd = segments->arena.fd;
    made->nbytes = all[rank].nbytes;
    made->buffer = buffer;
    for (int m = 0; m < size; m++) {
        made->offers[m] = all[m];
        if (all[m].nbytes == 0 || is_elsewhere(segments, global[m]))
            continue;
        if (status == SYMMCOLL_OK)
            status = check_offer(made, m);
        if (status == SYMMCOLL_OK)
            made->at[m] =
                (char *)segments->peers[global[m]].view.block + all[m].offset;
        if (all[m].nbytes < made->nbytes)
            made->nbytes = all[m].nbytes;
    }
    return finish(made, status, segment);
}

symmcoll_status_t symc_segment_accept(struct symc_segments *segments,
    const int *global, int rank, int size, const struct symc_offer *all,
    struct symc_segment **segment)
{
    return symc_segment_accept_with(
        segments, global, rank, size, all, NULL, segment);
}

uint64_t symc_segment_number(const struct symc_segment *segment)
{
    /* Each rank numbers its own offers. */
    return (uint64_t)segment->global[0] << COUNT_BITS |
           segment->offers[0].generation >> SYMC_ENTRY_BITS;
}

/* ---- segments made of memfds ---- */

static bool unmap(struct symc_segment *segment)
{
    for (int m = 0; m < segment->size; m++) {
        if (segment->at[m] != NULL)
            munmap(segment->at[m], segment->nbytes);
    }
    if (segment->fd >= 0)
        close(segment->fd);
    return true;
}

static const struct symc_segment_ops memfd_ops = {"memfd", unmap};

symmcoll_status_t symc_segment_create(const char *name, size_t nbytes, int *fd)
{
    return symc_memory_create(name, symc_round_to_page(nbytes), "segment", fd);
}

symmcoll_status_t symc_segment_import(struct symc_segments *segments,
    const int *global, int rank, int size, int *fds, size_t nbytes,
    struct symc_segment **segment)
{
    struct symc_segment *made =
        make_segment(segments, global, rank, size, &memfd_ops);
    size_t whole = symc_round_to_page(nbytes);
    symmcoll_status_t status =
        made == NULL ? SYMMCOLL_ERR_NO_MEMORY : SYMMCOLL_OK;

    for (int m = 0; m < size; m++) {
        void *at = NULL;

        if (status == SYMMCOLL_OK && fds[m] >= 0)
            status = symc_memory_check(fds[m], whole, "segment", global[m]);
        if (status == SYMMCOLL_OK && fds[m] >= 0)
            status = symc_memory_map(
                fds[m], whole, "segment: address space for a rank", &at);
        if (made != NULL)
            made->at[m] = at;
        if (made != NULL && m == rank)
            made->fd = fds[m];
        else if (fds[m] >= 0)
            close(fds[m]);
        fds[m] = -1;
    }
    if (made == NULL)
        return status;
    made->nbytes = whole;
    return finish(made, status, segment);
}

/* ---- use ---- */

symmcoll_status_t symc_segment_reserve(struct symc_segment *segment,
    size_t offset, size_t nbytes, const char *what)
{
    const struct symc_offer *own = &segment->offers[segment->rank];

    if (offset > segment->nbytes || nbytes > segment->nbytes - offset)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a part of %zu bytes, found %zu bytes from %zu on",
            what, segment->nbytes, nbytes, offset);
    /* The offer of a segment made of memfds is zero: the offset is that in the
     * memfd. */
    return symc_memory_reserve(segment->fd, own->offset + offset, nbytes, what);
}

/* Removes a segment from the list of live ones, if it is there, and from the
 * table of addresses. */
static void unlist(struct symc_segment *segment)
{
    struct symc_segment **at = &segment->home->live;

    while (*at != NULL && *at != segment)
        at = &(*at)->next;
    if (*at != NULL)
        *at = segment->next;
    symc_places_remove(&segment->home->places, segment);
}

void symc_segment_leave(struct symc_segment *segment)
{
    struct symc_segments *home;

    if (segment == NULL)
        return;
    home = segment->home;
    pthread_mutex_lock(&home->lock);
    unlist(segment);
    if (segment->ops->leave(segment)) {
        symc_left_free(segment);
    } else {
        segment->next = home->leaving;
        home->leaving = segment;
    }
    pthread_mutex_unlock(&home->lock);
}

struct symc_segment *symc_segment_find(struct symc_segments *segments,
    const void *address, size_t nbytes, int *rank, size_t *offset)
{
    struct symc_segment *segment = NULL;
    const struct symc_place *place;

    pthread_mutex_lock(&segments->lock);
    place = symc_places_find(&segments->places, address, nbytes);
    if (place != NULL) {
        segment = place->segment;
        *rank = place->rank;
        *offset = (size_t)((const char *)address - place->begin);
    }
    pthread_mutex_unlock(&segments->lock);
    return segment;
}
