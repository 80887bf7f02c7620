/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of NCCL: which call is which, and how many elements each has.  Parts
 * in buffers of their own, and several buffers, take a call each, in one group.
 */
#include "cuda/nccl/nccl_state.h"

/* A collective, while it is enqueued. */
struct collective {
    const struct symc_op *op;
    struct symc_cuda_elements elements;
    struct symc_cuda_routine routine;
    /* Of several buffers: what routine does with each. */
    enum symc_nccl_result (*each)(const struct symc_cuda_comm *comm,
        const void *arg, struct CUstream_st *stream);
};

/* What symc_cuda_routine.call gets. */
#define ARGUMENTS                                       \
    const struct symc_cuda_comm *comm, const void *arg, \
        struct CUstream_st *stream

/* Elements of so many of the operation's. */
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

/* The part of a rank: of its sum, to which all contribute; of what it has for
 * all. */
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

/* In a group of calls, which is ended even where one fails. */
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

/* In a group of calls, as parts are. */
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

/* ---- which ---- */

/* Whether parts are in buffers of their own. */
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

/* Parts for a root, from it, or for all.  Lists of a root are on no other rank, so
 * gather and scatter are sends and receives whatever the call had: all members are
 * to choose alike.  An older NCCL lacks the call, which all of them know, for they
 * have one version. */
static struct symc_cuda_routine choose_parts(const struct symc_nccl *nccl,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    if (op->listed || (info->traits & SYMC_LIST) != 0)
        return (struct symc_cuda_routine){NULL, NULL};
    return (struct symc_cuda_routine){
        "ncclAlltoAll", nccl->all_to_all != NULL ? all_to_all : NULL};
}

/* call NULL: there is none, but sends and receives do it. */
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

/* With a reduction of this call's own, which NCCL needs no more when that has been
 * made. */
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
