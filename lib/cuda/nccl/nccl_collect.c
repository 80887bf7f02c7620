/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of NCCL: the call for an operation and its count of elements.  Parts in
 * separate buffers, and several buffers, take a call each, in one group of calls.
 */
#include "cuda/nccl/nccl_state.h"

/* A collective that is being enqueued. */
struct collective {
    const struct symc_op *op;
    struct symc_cuda_elements elements;
    struct symc_cuda_routine routine;
    /* For several buffers: the call for each of them. */
    enum symc_nccl_result (*each)(const struct symc_cuda_comm *comm,
        const void *arg, struct CUstream_st *stream);
};

/* The parameters of symc_cuda_routine.call. */
#define ARGUMENTS                                       \
    const struct symc_cuda_comm *comm, const void *arg, \
        struct CUstream_st *stream

/* Converts a count of the operation's elements to NCCL's. */
static size_t convert(const struct collective *it, size_t count)
{
    return count * it->op->elem / it->elements.nbytes;
}

/* ---- one buffer ---- */

static enum symc_nccl_result all_reduce(ARGUMENTS)
{
    const struct collective *it = arg;

    return comm->nccl->all_reduce(it->op->in, it->op->out,
        convert(it, it->op->count), it->elements.type, it->elements.op,
        comm->made, stream);
}

static enum symc_nccl_result reduce(ARGUMENTS)
{
    const struct collective *it = arg;

    return comm->nccl->reduce(it->op->in, it->op->out,
        convert(it, it->op->count), it->elements.type, it->elements.op,
        it->op->root, comm->made, stream);
}

static enum symc_nccl_result reduce_scatter(ARGUMENTS)
{
    const struct collective *it = arg;

    return comm->nccl->reduce_scatter(it->op->in, it->op->out,
        convert(it, it->op->count), it->elements.type, it->elements.op,
        comm->made, stream);
}

static enum symc_nccl_result all_gather(ARGUMENTS)
{
    const struct collective *it = arg;

    return comm->nccl->all_gather(it->op->in, it->op->out,
        convert(it, it->op->count), it->elements.type, comm->made, stream);
}

static enum symc_nccl_result broadcast(ARGUMENTS)
{
    const struct collective *it = arg;

    return comm->nccl->broadcast(it->op->in, it->op->out,
        convert(it, it->op->count), it->elements.type, it->op->root, comm->made,
        stream);
}

/* ---- a part for each rank, in one buffer ---- */

static enum symc_nccl_result all_to_all(ARGUMENTS)
{
    const struct collective *it = arg;

    return comm->nccl->all_to_all(it->op->in, it->op->out,
        convert(it, it->op->count), it->elements.type, comm->made, stream);
}

/* ---- a buffer for each rank ---- */

/* The call for a rank's part: reduce_part() reduces it over all ranks to that rank,
 * broadcast_part() sends it from that rank to all. */
static enum symc_nccl_result reduce_part(const struct symc_cuda_comm *comm,
    const struct collective *it, int rank, struct CUstream_st *stream)
{
    size_t count = convert(it, symc_op_in_count(it->op, rank));

    return count == 0 ? SYMC_NCCL_SUCCESS
                      : comm->nccl->reduce(symc_op_in_at(it->op, rank),
                            it->op->out, count, it->elements.type,
                            it->elements.op, rank, comm->made, stream);
}

static enum symc_nccl_result broadcast_part(const struct symc_cuda_comm *comm,
    const struct collective *it, int rank, struct CUstream_st *stream)
{
    size_t count = convert(it, symc_op_out_count(it->op, rank));

    return count == 0
               ? SYMC_NCCL_SUCCESS
               : comm->nccl->broadcast(it->op->in, symc_op_out_at(it->op, rank),
                     count, it->elements.type, rank, comm->made, stream);
}

/* Makes one call per part in a group of calls, which is ended even if one fails. */
static enum symc_nccl_result each_part(const struct symc_cuda_comm *comm,
    const struct collective *it, struct CUstream_st *stream,
    enum symc_nccl_result (*part)(const struct symc_cuda_comm *comm,
        const struct collective *it, int rank, struct CUstream_st *stream))
{
    enum symc_nccl_result first = comm->nccl->group_start(), result;

    if (first != SYMC_NCCL_SUCCESS)
        return first;
    for (int r = 0; r < comm->size && first == SYMC_NCCL_SUCCESS; r++)
        first = part(comm, it, r, stream);
    result = comm->nccl->group_end();
    return first != SYMC_NCCL_SUCCESS ? first : result;
}

static enum symc_nccl_result reduce_parts(ARGUMENTS)
{
    return each_part(comm, arg, stream, reduce_part);
}

static enum symc_nccl_result broadcast_parts(ARGUMENTS)
{
    return each_part(comm, arg, stream, broadcast_part);
}

/* ---- several buffers ---- */

/* Makes one call per buffer in a group of calls, which is ended even if one fails. */
static enum symc_nccl_result each_buffer(ARGUMENTS)
{
    struct collective it = *(const struct collective *)arg;
    const struct symc_op *all = it.op;
    enum symc_nccl_result first = comm->nccl->group_start(), result;

    if (first != SYMC_NCCL_SUCCESS)
        return first;
    for (int i = 0; i < all->buffers && first == SYMC_NCCL_SUCCESS; i++) {
        struct symc_op one = symc_op_of_listed(all, i);

        it.op = &one;
        if (one.count > 0)
            first = it.each(comm, &it, stream);
    }
    result = comm->nccl->group_end();
    return first != SYMC_NCCL_SUCCESS ? first : result;
}

/* ---- choice ---- */

/* Returns whether parts are in separate buffers. */
static bool has_list(
    const struct symc_kind_info *info, const struct symc_op *op)
{
    return op->listed && (info->traits & SYMC_COALESCED) == 0;
}

static struct symc_cuda_routine choose_reduction(
    const struct symc_kind_info *info, const struct symc_op *op)
{
    if ((info->traits & SYMC_TO_ROOT) != 0)
        return (struct symc_cuda_routine){"ncclReduce", reduce};
    if (info->in_parts != SYMC_ALL_PARTS)
        return (struct symc_cuda_routine){"ncclAllReduce", all_reduce};
    if (has_list(info, op))
        return (struct symc_cuda_routine){"ncclReduce", reduce_parts};
    return (struct symc_cuda_routine){"ncclReduceScatter", reduce_scatter};
}

/* Chooses for parts to a root, from a root, or for all.  The root's lists are unknown to
 * the other ranks, so gather and scatter always are sends and receives, for all members
 * to choose alike.  An NCCL without ncclAlltoAll is known to all members, as all have
 * the same version. */
static struct symc_cuda_routine choose_parts(const struct symc_nccl *nccl,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    if (op->listed || (info->traits & SYMC_LIST) != 0)
        return (struct symc_cuda_routine){NULL, NULL};
    return (struct symc_cuda_routine){
        "ncclAlltoAll", nccl->all_to_all != NULL ? all_to_all : NULL};
}

/* Chooses the collective; call: NULL if sends and receives have to do. */
static struct symc_cuda_routine choose(const struct symc_nccl *nccl,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    if ((info->traits & SYMC_REDUCES) != 0)
        return choose_reduction(info, op);
    if (info->in_parts == SYMC_ALL_PARTS || (info->traits & SYMC_TO_ROOT) != 0)
        return choose_parts(nccl, info, op);
    if (info->out_parts != SYMC_ALL_PARTS)
        return (struct symc_cuda_routine){"ncclBroadcast", broadcast};
    if (has_list(info, op))
        return (struct symc_cuda_routine){"ncclBroadcast", broadcast_parts};
    return (struct symc_cuda_routine){"ncclAllGather", all_gather};
}

/* Makes the call with a reduction created for it; NCCL does not need the reduction after
 * the call. */
static enum symc_nccl_result make_scaled(ARGUMENTS)
{
    const struct symc_nccl *nccl = comm->nccl;
    struct collective it = *(const struct collective *)arg;
    float single = (float)it.elements.factor;
    bool is_double = it.elements.type == SYMC_NCCL_FLOAT64;
    enum symc_nccl_result made, destroyed;

    made = nccl->red_op_create_pre_mul_sum(&it.elements.op,
        is_double ? (void *)&it.elements.factor : (void *)&single,
        it.elements.type, SYMC_NCCL_ON_HOST, comm->made);
    if (made != SYMC_NCCL_SUCCESS)
        return made;
    made = it.routine.call(comm, &it, stream);
    destroyed = nccl->red_op_destroy(it.elements.op, comm->made);
    return made == SYMC_NCCL_SUCCESS ? destroyed : made;
}

bool symc_cuda_comm_collects(const struct symc_cuda_comm *comm,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    return choose(comm->nccl, info, op).call != NULL;
}

symmcoll_status_t symc_cuda_comm_collect(struct symc_cuda_comm *comm,
    const struct symc_kind_info *info, const struct symc_op *op,
    struct symc_cuda_elements elements, struct CUstream_st *stream)
{
    struct collective it = {.op = op,
        .elements = elements,
        .routine = choose(comm->nccl, info, op)};
    struct symc_cuda_routine routine;

    it.each = it.routine.call;
    if ((info->traits & SYMC_COALESCED) != 0)
        it.routine.call = each_buffer;
    routine = it.routine;
    if (elements.scaled)
        routine.call = make_scaled;
    return symc_cuda_comm_enqueue(comm, op, routine, &it, stream);
}
