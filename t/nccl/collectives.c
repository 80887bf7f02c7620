/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of the stand-in for NCCL, as messages between all ranks.
 * Elements to be reduced are first received from all ranks, and combined in
 * the reverse order of ranks: a caller that guarantees the order of ranks must
 * not use NCCL.
 */
#include "t/base/reference.h"
#include "t/nccl/comms.h"

#include <stdatomic.h>
#include <stdlib.h>

API int ncclBroadcast(const void *in, void *out, size_t count, int type,
    int root, struct symc_nccl_comm *comm, struct CUstream_st *stream);
API int ncclAllGather(const void *in, void *out, size_t count, int type,
    struct symc_nccl_comm *comm, struct CUstream_st *stream);
API int ncclAllReduce(const void *in, void *out, size_t count, int type, int op,
    struct symc_nccl_comm *comm, struct CUstream_st *stream);
API int ncclReduce(const void *in, void *out, size_t count, int type, int op,
    int root, struct symc_nccl_comm *comm, struct CUstream_st *stream);
API int ncclReduceScatter(const void *in, void *out, size_t count, int type,
    int op, struct symc_nccl_comm *comm, struct CUstream_st *stream);

API int ncclAlltoAll(const void *in, void *out, size_t count, int type,
    struct symc_nccl_comm *comm, struct CUstream_st *stream);
API int ncclRedOpCreatePreMulSum(int *op, void *factor, int type, int residence,
    struct symc_nccl_comm *comm);
API int ncclRedOpDestroy(int op, struct symc_nccl_comm *comm);

/* ---- elements ---- */

static const struct {
    size_t nbytes;
    enum symmcoll_dtype dtype;
} types[] = {
    [SYMC_NCCL_INT8] = {1, SYMMCOLL_INT8},
    [SYMC_NCCL_UINT8] = {1, SYMMCOLL_UINT8},
    [SYMC_NCCL_INT32] = {4, SYMMCOLL_INT32},
    [SYMC_NCCL_UINT32] = {4, SYMMCOLL_UINT32},
    [SYMC_NCCL_INT64] = {8, SYMMCOLL_INT64},
    [SYMC_NCCL_UINT64] = {8, SYMMCOLL_UINT64},
    [SYMC_NCCL_FLOAT16] = {2, SYMMCOLL_FLOAT16},
    [SYMC_NCCL_FLOAT32] = {4, SYMMCOLL_FLOAT32},
    [SYMC_NCCL_FLOAT64] = {8, SYMMCOLL_FLOAT64},
    [SYMC_NCCL_BFLOAT16] = {2, SYMMCOLL_BFLOAT16},
};

#define TYPES (sizeof(types) / sizeof(*types))

size_t fake_nbytes_of(int type, size_t count)
{
    if ((unsigned int)type >= TYPES || count == 0)
        fake_nccl_die("expected elements of a type");
    return types[type].nbytes * count;
}

/* Ends the process on reductions that the library never requests, because
 * their results would differ. */
static void check_op(int type, int op)
{
    const int is_float = type >= SYMC_NCCL_FLOAT16;

    if (op < SYMC_NCCL_SUM || op >= FAKE_OP_FIRST + FAKE_OPS ||
        (is_float && (op == SYMC_NCCL_PROD || op == SYMC_NCCL_MAX ||
                         op == SYMC_NCCL_MIN)) ||
        (!is_float && op >= SYMC_NCCL_AVG))
        fake_nccl_die("a reduction is none that the library wants of NCCL");
}

static symmcoll_op_t op_of(int op)
{
    switch (op) {
    case SYMC_NCCL_PROD:
        return SYMMCOLL_PRODUCT;
    case SYMC_NCCL_MAX:
        return SYMMCOLL_MAX;
    case SYMC_NCCL_MIN:
        return SYMMCOLL_MIN;
    case SYMC_NCCL_AVG:
        return SYMMCOLL_AVG;
    default:
        return SYMMCOLL_SUM;
    }
}

void fake_sum_finish(const struct fake_sum *sum, int size)
{
    const size_t nbytes = fake_nbytes_of(sum->type, sum->count);
    const struct symc_reduction reduction = {
        .dtype = types[sum->type].dtype, .op = op_of(sum->op), .block = size};
    const unsigned char *parts[FAKE_RANKS];

    for (int r = 0; r < size; r++)
        parts[r] = sum->parts + (size_t)(size - 1 - r) * nbytes;
    reference_reduce(&reduction, sum->out, parts, size, sum->count);
}

void fake_scale_begin(const struct fake_scale *scale)
{
    const struct symc_reduction reduction = {.dtype = types[scale->type].dtype,
        .op = SYMMCOLL_PREMUL_SUM,
        .block = 1,
        .factors = &scale->factor};
    const unsigned char *in = scale->in;

    reference_reduce(&reduction, scale->out, &in, 1, scale->count);
}

/* ---- reductions of a communicator's own ---- */

int ncclRedOpCreatePreMulSum(
    int *op, void *factor, int type, int residence, struct symc_nccl_comm *comm)
{
    const bool is_double = type == SYMC_NCCL_FLOAT64;

    if (residence != SYMC_NCCL_ON_HOST ||
        (!is_double && type != SYMC_NCCL_FLOAT32))
        fake_nccl_die("expected a factor of the host, a float or a double");
    fake_nccl_enter(comm);
    for (int i = 0; i < FAKE_OPS; i++) {
        if (comm->ops[i].used)
            continue;
        comm->ops[i].used = 1;
        comm->ops[i].type = type;
        comm->ops[i].factor = is_double ? *(const double *)factor
                                        : (double)*(const float *)factor;
        *op = FAKE_OP_FIRST + i;
        return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
    }
    fake_nccl_die("there are too many reductions");
}

int ncclRedOpDestroy(int op, struct symc_nccl_comm *comm)
{
    const int i = op - FAKE_OP_FIRST;

    fake_nccl_enter(comm);
    if (i >= 0 && i < FAKE_OPS && comm->ops[i].used) {
        comm->ops[i].used = 0;
        return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
    }
    fake_nccl_die("a reduction is destroyed that is not there");
}

/* ---- calls ---- */

static int size_of(const struct symc_nccl_comm *comm)
{
    return atomic_load(&comm->clique->size);
}

static struct fake_work *begin(struct symc_nccl_comm *comm,
    struct CUstream_st *stream, enum fake_routine routine)
{
    struct fake_work *work = fake_group_enter(comm, stream);

    work->routine = routine;
    return work;
}

static void send(struct fake_work *work, const void *in, size_t nbytes, int to)
{
    fake_work_add(
        work, (struct fake_call){.in = in, .nbytes = nbytes, .peer = to});
}

static void receive(struct fake_work *work, void *out, size_t nbytes, int from)
{
    fake_work_add(
        work, (struct fake_call){.out = out, .nbytes = nbytes, .peer = from});
}

/* Returns this rank's contribution: its elements, or their products with a
 * factor. */
static const void *contribution(
    struct fake_work *work, const void *in, size_t count, int type, int op)
{
    const int i = op - FAKE_OP_FIRST;
    struct fake_scale *scale = &work->scales[work->nscales];

    check_op(type, op);
    if (i < 0)
        return in;
    if (!work->comm->ops[i].used || work->comm->ops[i].type != type ||
        work->nscales++ == FAKE_SUMS)
        fake_nccl_die("a reduction is not there, or of another type");
    *scale = (struct fake_scale){.in = in,
        .out = malloc(fake_nbytes_of(type, count)),
        .count = count,
        .type = type,
        .factor = work->comm->ops[i].factor};
    if (scale->out == NULL)
        fake_nccl_die("there is no memory");
    return scale->out;
}

/* Adds the elements of each rank, which are received from it. */
static void add_sum(
    struct fake_work *work, void *out, size_t count, int type, int op)
{
    const size_t nbytes = fake_nbytes_of(type, count);
    const int size = size_of(work->comm);
    struct fake_sum *sum = &work->sums[work->nsums++];

    if (work->nsums > FAKE_SUMS)
        fake_nccl_die("there are too many reductions in a group of calls");
    *sum = (struct fake_sum){.parts = malloc(nbytes * (size_t)size),
        .out = out,
        .count = count,
        .type = type,
        .op = op};
    if (sum->parts == NULL)
        fake_nccl_die("there is no memory");
    for (int r = 0; r < size; r++)
        receive(work, sum->parts + (size_t)r * nbytes, nbytes, r);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    const size_t nbytes = fake_nbytes_of(type, count);
    struct fake_work *work = begin(comm, stream, FAKE_BROADCAST);

    for (int r = 0; comm->rank == root && r < size_of(comm); r++)
        send(work, in, nbytes, r);
    receive(work, out, nbytes, root);
    return fake_group_leave();
}

int ncclAllGather(const void *in, void *out, size_t count, int type,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    const size_t nbytes = fake_nbytes_of(type, count);
    struct fake_work *work = begin(comm, stream, FAKE_ALL_GATHER);

    fake_windows_use(work, in, out);
    for (int r = 0; r < size_of(comm); r++) {
        send(work, in, nbytes, r);
        receive(work, (char *)out + (size_t)r * nbytes, nbytes, r);
    }
    return fake_group_leave();
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    struct fake_work *work = begin(comm, stream, FAKE_ALL_REDUCE);

    fake_windows_use(work, in, out);
    in = contribution(work, in, count, type, op);
    for (int r = 0; r < size_of(comm); r++)
        send(work, in, fake_nbytes_of(type, count), r);
    add_sum(work, out, count, type, op);
    return fake_group_leave();
}

int ncclReduce(const void *in, void *out, size_t count, int type, int op,
    int root, struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    struct fake_work *work = begin(comm, stream, FAKE_REDUCE);

    in = contribution(work, in, count, type, op);
    send(work, in, fake_nbytes_of(type, count), root);
    if (comm->rank == root)
        add_sum(work, out, count, type, op);
    return fake_group_leave();
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    const size_t nbytes = fake_nbytes_of(type, count);
    struct fake_work *work = begin(comm, stream, FAKE_REDUCE_SCATTER);

    fake_windows_use(work, in, out);
    in = contribution(work, in, count * (size_t)size_of(comm), type, op);
    for (int r = 0; r < size_of(comm); r++)
        send(work, (const char *)in + (size_t)r * nbytes, nbytes, r);
    add_sum(work, out, count, type, op);
    return fake_group_leave();
}

/* ---- since 2.28 ---- */

#ifndef NCCL_FEW

int ncclAlltoAll(const void *in, void *out, size_t count, int type,
    struct symc_nccl_comm *comm, struct CUstream_st *stream)
{
    const size_t nbytes = fake_nbytes_of(type, count);
    struct fake_work *work = begin(comm, stream, FAKE_ALL_TO_ALL);

    if (in == out)
        fake_nccl_die("an all-to-all is in place");
    fake_windows_use(work, in, out);
    atomic_fetch_add(&fake_nccl.parted, 1);
    for (int r = 0; r < size_of(comm); r++) {
        send(work, (const char *)in + (size_t)r * nbytes, nbytes, r);
        receive(work, (char *)out + (size_t)r * nbytes, nbytes, r);
    }
    return fake_group_leave();
}

#endif
