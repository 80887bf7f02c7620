/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchange of chunks, on which fused operations are built. Chunks are read
 * where their rank keeps them, in memory that all ranks map. The word that a
 * rank publishes when its chunks are there is the only synchronisation; until
 * the others' words arrive, the rank works on its own chunk.
 */
#include "fused/fused.h"

#include <symmcoll/symm_mem.h>
#include <symmcoll/work.h>

#include <string.h>

/* ---- memory for chunks ---- */

/* Allocates halves of nbytes. Collective: if a rank has no memory, every rank
 * returns its error, since the rendezvous needs all of them. */
static symmcoll_status_t grow(struct symc_fused *fused, size_t nbytes,
    const struct symc_fused_args *args, const struct symmcoll_call *call)
{
    struct symc_fused_memory made;
    symmcoll_status_t status;

    if (fused->memory.data != NULL && nbytes <= fused->memory.nbytes)
        return SYMMCOLL_OK;
    status = symc_fused_alloc(fused, args->name, nbytes, &made);
    status = symc_fused_confirm(fused, args, call, status);
    if (status == SYMMCOLL_OK)
        status = symc_fused_map(fused, &made, call);
    if (status != SYMMCOLL_OK)
        (void)symmcoll_symm_free(symc_group_world(fused->group), made.data);
    return status;
}

/* ---- gathering ---- */

/* Chunks of fewer bytes are copied by both sides, which takes less time than
 * reading in place and the barrier after it. */
#define SMALL ((size_t)8 << 10)

/* A gather in progress. */
struct gathering {
    struct symc_fused *fused;
    const struct symc_fused_gather *what;
    /* this rank's chunk, contiguous; NULL: not available yet */
    const void *own;
    bool consumed;            /* this rank's chunk has been consumed */
    bool has_tails;           /* the tails of all ranks are in `tails` */
    symmcoll_status_t status; /* result of the caller's function */
};

#define TAIL_ALIGN ((size_t)64) /* alignment of the tail after a chunk */

/* Returns the offset of the tail after a chunk. */
static size_t tail_at(const struct symc_fused_gather *what)
{
    return (what->nbytes + TAIL_ALIGN - 1) / TAIL_ALIGN * TAIL_ALIGN;
}

/* Returns the bytes of a chunk with its tail. */
static size_t whole_nbytes(const struct symc_fused_gather *what)
{
    return what->tail != NULL ? tail_at(what) + what->tail_nbytes
                              : what->nbytes;
}

static bool is_contiguous(const struct symc_fused_gather *what)
{
    return what->view == NULL || symc_f_view_is_contiguous(what->view);
}

static void copy_own(const struct symc_fused_gather *what, void *to)
{
    if (what->nbytes == 0 || to == what->data)
        return;
    if (what->view != NULL)
        symc_f_view_copy(what->view, what->data, to, what->elem);
    else
        memcpy(to, what->data, what->nbytes);
}

/* Copies the tail of a rank from its place after the chunk; this rank's from
 * the caller. */
static void take_tail(struct gathering *going, int rank, const void *chunk)
{
    const struct symc_fused_gather *what = going->what;
    bool own = rank == symc_group_rank(going->fused->group);

    if (what->tail == NULL || going->has_tails)
        return;
    memcpy((char *)what->tails + (size_t)rank * what->tail_nbytes,
        own ? what->tail : (const char *)chunk + tail_at(what),
        what->tail_nbytes);
}

/* Stores a chunk in the result, and passes it to the caller's function. */
static void consume(struct gathering *going, int rank, const void *chunk)
{
    const struct symc_fused_gather *what = going->what;

    take_tail(going, rank, chunk);
    if (what->out != NULL) {
        char *to = (char *)what->out + (size_t)rank * what->nbytes;

        if (what->nbytes > 0 && to != chunk)
            memcpy(to, chunk, what->nbytes);
        chunk = to;
    }
    if (what->consume != NULL && going->status == SYMMCOLL_OK)
        going->status = what->consume(what->context, rank, chunk);
}

/* Consumes this rank's chunk, unless the order of ranks is required. */
static void consume_own(struct gathering *going)
{
    if (going->consumed || going->what->in_order || going->own == NULL)
        return;
    consume(going, symc_group_rank(going->fused->group), going->own);
    going->consumed = true;
}

/* Consumes the chunks of all ranks that have not been consumed. */
static void consume_all(struct gathering *going, const void *const *chunks)
{
    int size = symc_group_size(going->fused->group),
        rank = symc_group_rank(going->fused->group);

    for (int i = 0; i < size; i++) {
        int from = going->what->in_order ? i : (rank + i) % size;

        if (from != rank || !going->consumed)
            consume(going, from, chunks[from]);
    }
}

/* Places this rank's chunk in shared memory: where it is, if that is shared, or
 * in a half. */
static void make_ready(struct gathering *going, bool in_place)
{
    struct symc_fused *fused = going->fused;
    const struct symc_fused_gather *what = going->what;
    bool contiguous = is_contiguous(what);
    char *half;

    fused->mine = (struct symc_fused_word){.state = SYMC_FUSED_NOT_READY};
    going->own = contiguous ? what->data : NULL;
    if (symc_fused_is_alone(fused) || fused->in_plain)
        return;
    if (in_place && contiguous && what->tail == NULL &&
        symc_fused_locate(fused, what->data, what->nbytes)) {
        fused->mine.state = SYMC_FUSED_IN_PLACE;
        return;
    }
    half = symc_fused_next_half(fused, whole_nbytes(what));
    if (half == NULL)
        return;
    copy_own(what, half);
    if (what->tail != NULL)
        memcpy(half + tail_at(what), what->tail, what->tail_nbytes);
    if (!contiguous)
        going->own = half;
    if (symc_fused_locate(fused, half, whole_nbytes(what)))
        fused->mine.state = SYMC_FUSED_READY;
}

/* Gathers with all_gather, and consumes its result. */
static symmcoll_status_t gather_plain(struct gathering *going)
{
    struct symc_fused *fused = going->fused;
    const struct symc_fused_gather *what = going->what;
    size_t size = (size_t)symc_group_size(fused->group);
    char *all = what->out, *own;
    symmcoll_status_t status;

    if (size == 1 && all == NULL && is_contiguous(what)) {
        consume(going, 0, what->data);
        return going->status;
    }
    if (all == NULL)
        all = symc_fused_take(fused, SYMC_FUSED_GATHERED, size * what->nbytes);
    /* Collective: a rank that needs no memory does not know whether another one
     * does. */
    status = symc_fused_confirm(fused, what->args, what->call,
        all != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY);
    if (status != SYMMCOLL_OK)
        return status;
    own = all + (size_t)symc_group_rank(fused->group) * what->nbytes;
    copy_own(what, own);
    status = symmcoll_all_gather(
        fused->group, all, own, what->nbytes, SYMMCOLL_UINT8, what->call, NULL);
    if (status == SYMMCOLL_OK && what->tail != NULL)
        status = symmcoll_all_gather(fused->group, what->tails, what->tail,
            what->tail_nbytes, SYMMCOLL_UINT8, what->call, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    going->has_tails = true;
    for (size_t r = 0; r < size; r++)
        fused->sources[r] = all + r * what->nbytes;
    consume_all(going, fused->sources);
    return going->status;
}

/* Returns whether chunks are small and only gathered, so that there is no work
 * to overlap with the wait. */
static bool is_small(const struct symc_fused_gather *what)
{
    return what->consume == NULL && whole_nbytes(what) < SMALL;
}

/* Publishes whether this rank is ready, collects the others' words, and looks
 * for the memory to read from, unless all ranks gather plainly. */
static symmcoll_status_t exchange_words(
    struct gathering *going, bool *plain, bool *found)
{
    const struct symc_fused_gather *what = going->what;
    bool ready = going->fused->mine.state != SYMC_FUSED_NOT_READY;
    bool small = is_small(what);
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    if (ready && small)
        consume_own(going);
    status = symc_fused_publish(
        going->fused, what->args, what->call, small ? NULL : &work);
    if (status != SYMMCOLL_OK)
        return status;
    if (ready)
        consume_own(going);
    status =
        symc_fused_collect(going->fused, what->args, what->call, work, plain);
    *found = status == SYMMCOLL_OK && !*plain &&
             symc_fused_find_sources(going->fused, 0, whole_nbytes(what));
    return status;
}

symmcoll_status_t symc_fused_all_gather(
    struct symc_fused *fused, const struct symc_fused_gather *gather)
{
    struct gathering going = {.fused = fused, .what = gather};
    bool plain = false, found = false;
    symmcoll_status_t status;

    make_ready(&going, !is_small(gather));
    status = exchange_words(&going, &plain, &found);
    if (status != SYMMCOLL_OK)
        return status;
    /* no common kind of memory, or no room yet: all copy */
    if (!plain && !found) {
        status = grow(fused, whole_nbytes(gather), gather->args, gather->call);
        if (status != SYMMCOLL_OK)
            return status;
        make_ready(&going, false);
        status = exchange_words(&going, &plain, &found);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (plain)
        return gather_plain(&going);
    if (!found)
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "%s: the ranks' chunks are not where their words say",
            gather->args->name);
    consume_all(&going, fused->sources);
    /* The other ranks may still read the caller's memory. */
    if (fused->mine.state == SYMC_FUSED_IN_PLACE)
        status = symmcoll_barrier(fused->group, gather->call, NULL);
    return status != SYMMCOLL_OK ? status : going.status;
}

/* ---- chunks made for all ranks ---- */

/* Makes the chunks of other ranks, or (own) this rank's; all of them in the
 * first call if one function makes them all. */
static symmcoll_status_t produce(const struct symc_fused *fused,
    const struct symc_fused_scatter *what, char *chunks, bool own)
{
    int size = symc_group_size(fused->group),
        rank = symc_group_rank(fused->group);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (what->produce_all != NULL)
        return own ? status : what->produce_all(what->context, chunks);
    for (int i = 1; !own && i < size && status == SYMMCOLL_OK; i++) {
        int to = (rank + i) % size;

        status = what->produce(
            what->context, to, chunks + (size_t)to * what->nbytes);
    }
    if (own)
        status = what->produce(
            what->context, rank, chunks + (size_t)rank * what->nbytes);
    return status;
}

/* An exchange in progress. */
struct scattering {
    struct symc_fused *fused;
    const struct symc_fused_scatter *what;
    char *chunks;          /* the chunks; NULL: not made yet */
    struct symc_error own; /* of the caller's function */
};

/* Makes the chunks for other ranks, publishes that, makes the own chunk,
 * collects the words, and looks for the memory to read from, unless all ranks
 * exchange plainly. chunks NULL: there is no memory for them yet. */
static symmcoll_status_t make_chunks(
    struct scattering *going, char *chunks, bool *plain, bool *found)
{
    struct symc_fused *fused = going->fused;
    const struct symc_fused_scatter *what = going->what;
    size_t nbytes = (size_t)symc_group_size(fused->group) * what->nbytes;
    size_t shift = (size_t)symc_group_rank(fused->group) * what->nbytes;
    struct symmcoll_work *work;
    symmcoll_status_t status;

    going->chunks = chunks;
    going->own.status = SYMMCOLL_OK;
    fused->mine = (struct symc_fused_word){.state = SYMC_FUSED_NOT_READY};
    if (chunks != NULL) {
        symc_error_keep(&going->own, produce(fused, what, chunks, false));
        fused->mine.status = (int32_t)going->own.status;
        if (symc_fused_locate(fused, chunks, nbytes))
            fused->mine.state = SYMC_FUSED_READY;
    }
    status = symc_fused_publish(fused, what->args, what->call, &work);
    if (status != SYMMCOLL_OK)
        return status;
    if (chunks != NULL && going->own.status == SYMMCOLL_OK)
        symc_error_keep(&going->own, produce(fused, what, chunks, true));
    status = symc_fused_collect(fused, what->args, what->call, work, plain);
    *found = status == SYMMCOLL_OK && !*plain &&
             symc_fused_find_sources(fused, shift, what->nbytes);
    return status;
}

/* Exchanges the chunks by all_to_all, if every rank has its chunks and memory
 * for the result, and passes what has arrived to the caller's finish. Makes all
 * chunks first if none has been made. */
static symmcoll_status_t exchange_plain(struct scattering *going)
{
    struct symc_fused *fused = going->fused;
    const struct symc_fused_scatter *what = going->what;
    size_t size = (size_t)symc_group_size(fused->group);
    char *received =
        symc_fused_take(fused, SYMC_FUSED_GATHERED, size * what->nbytes);
    char *chunks = going->chunks;
    symmcoll_status_t status = symc_error_return(&going->own);

    if (chunks == NULL) {
        chunks = symc_fused_take(fused, SYMC_FUSED_CHUNKS, size * what->nbytes);
        if (chunks != NULL)
            status = produce(fused, what, chunks, false);
        if (chunks != NULL && status == SYMMCOLL_OK)
            status = produce(fused, what, chunks, true);
    }
    if (chunks == NULL || received == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    status = symc_fused_confirm(fused, what->args, what->call, status);
    if (status == SYMMCOLL_OK)
        status = symmcoll_all_to_all(fused->group, received, chunks,
            what->nbytes, SYMMCOLL_UINT8, what->call, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    for (size_t r = 0; r < size; r++)
        fused->sources[r] = received + r * what->nbytes;
    return what->finish(what->context, fused->sources);
}

symmcoll_status_t symc_fused_all_to_all(
    struct symc_fused *fused, const struct symc_fused_scatter *scatter)
{
    struct scattering going = {.fused = fused, .what = scatter};
    size_t nbytes = (size_t)symc_group_size(fused->group) * scatter->nbytes;
    bool alone = symc_fused_is_alone(fused) || fused->in_plain;
    char *half = alone ? NULL : symc_fused_next_half(fused, nbytes);
    bool plain = false, found = false;
    symmcoll_status_t status = make_chunks(&going, half, &plain, &found);

    if (status == SYMMCOLL_OK && !plain && !found) {
        status = grow(fused, nbytes, scatter->args, scatter->call);
        if (status == SYMMCOLL_OK)
            status = make_chunks(
                &going, symc_fused_next_half(fused, nbytes), &plain, &found);
    }
    if (status != SYMMCOLL_OK)
        return going.own.status != SYMMCOLL_OK ? symc_error_return(&going.own)
                                               : status;
    if (plain)
        return scatter->plain != NULL ? scatter->plain(scatter->context)
                                      : exchange_plain(&going);
    if (!found)
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "%s: the ranks' chunks are not where their words say",
            scatter->args->name);
    if (going.own.status != SYMMCOLL_OK)
        return symc_error_return(&going.own);
    return scatter->finish(scatter->context, fused->sources);
}
