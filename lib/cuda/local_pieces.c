/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies pieces to or from a buffer, with one kernel for as many pieces as its arguments
 * hold.  A driver call per piece takes longer than most of these copies.  A single piece
 * is copied by the driver, which needs no multiprocessor.
 */
#include "cuda/device_group.h"
#include "cuda/local.h"

#define VECTOR 16        /* bytes that a thread loads at once */
#define IN_FLIGHT 8      /* loads of a thread, as in kernels/parts.h */
#define ARGS_NBYTES 4096 /* limit of a launch on any device */

_Static_assert(sizeof(struct symc_bucket_args) <= ARGS_NBYTES,
    "the arguments of a launch have room for the pieces");

/* Returns the grid for nbytes bytes.  If a chunk is one piece, each thread has all of its
 * loads in flight. */
static struct symc_grid find_grid(
    const struct symc_cuda_local *local, uint64_t nbytes)
{
    const uint64_t chunks =
        (nbytes + SYMC_KERNEL_CHUNK - 1) / SYMC_KERNEL_CHUNK;

    return (struct symc_grid){
        .blocks = chunks < local->blocks ? (uint32_t)chunks : local->blocks,
        .threads = SYMC_KERNEL_CHUNK / VECTOR / IN_FLIGHT};
}

/* Starts a launch at a piece.  Offsets of further pieces count from there, rounded down
 * so that they stay as aligned as before. */
static void begin_launch(const struct symc_local_pieces *pieces,
    const struct symc_local_piece *first, struct symc_bucket_args *args,
    uint64_t *begin)
{
    *begin = first->offset / VECTOR * VECTOR;
    args->bucket = (unsigned char *)pieces->buffer + *begin;
    args->npieces = 0;
}

static symmcoll_status_t launch(const struct symc_cuda_local *local,
    CUstream stream, const struct symc_local_pieces *pieces,
    struct symc_bucket_args *args)
{
    const struct symc_bucket_piece *last = &args->pieces[args->npieces - 1];

    args->nbytes = last->offset + last->nbytes;
    return symc_kernel_launch(local->kernels,
        pieces->spread ? SYMC_KERNEL_UNFLATTEN : SYMC_KERNEL_FLATTEN,
        SYMMCOLL_UINT8, find_grid(local, args->nbytes), stream, args);
}

static symmcoll_status_t move_at_once(const struct symc_cuda_local *local,
    CUstream stream, const struct symc_local_pieces *pieces)
{
    struct symc_bucket_args args = {.npieces = 0};
    symmcoll_status_t status = SYMMCOLL_OK;
    uint64_t begin = 0;

    for (size_t i = 0; status == SYMMCOLL_OK && i < pieces->n; i++) {
        const struct symc_local_piece *piece = &pieces->pieces[i];

        if (piece->nbytes == 0)
            continue;
        if (args.npieces == 0)
            begin_launch(pieces, piece, &args, &begin);
        args.pieces[args.npieces++] = (struct symc_bucket_piece){
            piece->at, piece->offset - begin, piece->nbytes};
        if (args.npieces < SYMC_KERNEL_PIECES)
            continue;
        status = launch(local, stream, pieces, &args);
        args.npieces = 0;
    }
    return status == SYMMCOLL_OK && args.npieces > 0
               ? launch(local, stream, pieces, &args)
               : status;
}

static symmcoll_status_t move_one_by_one(const struct symc_cuda_local *local,
    CUstream stream, const struct symc_local_pieces *pieces)
{
    const struct symc_cuda *cuda = local->context.cuda;

    for (size_t i = 0; i < pieces->n; i++) {
        const struct symc_local_piece *piece = &pieces->pieces[i];
        const CUdeviceptr at = (CUdeviceptr)(uintptr_t)piece->at,
                          place = (CUdeviceptr)(uintptr_t)pieces->buffer +
                                  piece->offset;
        CUresult result;

        if (piece->nbytes == 0)
            continue;
        result = cuda->memcpy_async(pieces->spread ? at : place,
            pieces->spread ? place : at, piece->nbytes, stream);
        if (result != CUDA_SUCCESS)
            return symc_cuda_local_fail(local, result,
                "cuMemcpyAsync of %zu bytes %s %p", piece->nbytes,
                pieces->spread ? "to" : "from", piece->at);
    }
    return SYMMCOLL_OK;
}

/* Counts the pieces that are not empty, up to two. */
static int count_pieces(const struct symc_local_pieces *pieces)
{
    int n = 0;

    for (size_t i = 0; i < pieces->n && n < 2; i++)
        n += pieces->pieces[i].nbytes > 0;
    return n;
}

symmcoll_status_t symc_cuda_local_move(
    void *state, void *stream, const struct symc_local_pieces *pieces)
{
    const struct symc_cuda_local *local = state;
    const int n = count_pieces(pieces);
    struct symc_cuda_entered entered;
    symmcoll_status_t status;

    if (n == 0)
        return SYMMCOLL_OK;
    status = symc_cuda_local_enter(local, &entered);
    if (status != SYMMCOLL_OK)
        return status;
    status = n == 1 || local->kernels == NULL
                 ? move_one_by_one(local, stream, pieces)
                 : move_at_once(local, stream, pieces);
    symc_cuda_leave(&entered);
    return status;
}
