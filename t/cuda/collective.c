/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs collectives by kind, in device memory and in host memory. */
#include "t/cuda/members.h"

#include "base/dtype.h"
#include "base/reduce.h"

#include <stdlib.h>
#include <string.h>

#define RANKS 8
#define GUARD 64 /* bytes beside an output */
#define POISON 0xa5

/* ---- elements ---- */

static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void fill_float(
    enum symmcoll_dtype dtype, void *at, size_t i, uint64_t drawn)
{
    float value = (float)((int)(drawn % 2001) - 1000) / 256.0f;
    double wide = (double)((int)(drawn % 2000001) - 1000000) / 65536.0;

    if (dtype == SYMMCOLL_FLOAT16)
        ((uint16_t *)at)[i] = symc_float_to_half(value);
    else if (dtype == SYMMCOLL_BFLOAT16)
        ((uint16_t *)at)[i] = symc_float_to_bfloat16(value);
    else if (dtype == SYMMCOLL_FLOAT32)
        ((float *)at)[i] = value;
    else
        ((double *)at)[i] = wide;
}

void fill(enum symmcoll_dtype dtype, void *at, size_t count, uint64_t seed)
{
    size_t elem = symmcoll_dtype_size(dtype);
    uint64_t state = seed * 7919;

    if (dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128) {
        fill(dtype == SYMMCOLL_COMPLEX64 ? F32 : SYMMCOLL_FLOAT64, at,
            2 * count, seed);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t drawn = draw(&state);

        if (dtype >= SYMMCOLL_FLOAT16 && dtype <= SYMMCOLL_FLOAT64) {
            fill_float(dtype, at, i, drawn);
            continue;
        }
        if (dtype == SYMMCOLL_BOOL)
            drawn &= 1;
        memcpy((char *)at + i * elem, &drawn, elem);
    }
}

/* ---- calls ---- */

static size_t parts_nbytes(
    const struct collective *one, unsigned int parts, int size)
{
    return one->count * symmcoll_dtype_size(one->dtype) *
           symc_parts_count(parts, size);
}

size_t collective_in_nbytes(const struct collective *one, int size)
{
    return parts_nbytes(one, symc_kinds[one->kind].in_parts, size);
}

size_t collective_out_nbytes(const struct collective *one, int size)
{
    return parts_nbytes(one, symc_kinds[one->kind].out_parts, size);
}

bool collective_sends(const struct collective *one, int rank)
{
    return symc_kind_sends(one->kind, rank == one->root);
}

bool collective_receives(const struct collective *one, int rank)
{
    return symc_kind_receives(one->kind, rank == one->root);
}

/* Lists the parts with the last one first, so that no list is contiguous. */
static void list_parts(void **list, const void *at, size_t part, int size)
{
    for (int r = 0; r < size; r++)
        list[r] = (char *)(uintptr_t)at + (size_t)(size - 1 - r) * part;
}

static symmcoll_status_t call_listed(struct symmcoll_group *group,
    const struct collective *one, void *out, const void *in,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    static _Thread_local void *outs[RANKS];
    static _Thread_local void *ins[RANKS];
    static _Thread_local size_t counts[RANKS];
    size_t part = one->count * symmcoll_dtype_size(one->dtype);
    int size = symmcoll_group_size(group), rank = symmcoll_group_rank(group);

    list_parts(outs, out, part, size);
    list_parts(ins, in, part, size);
    for (int r = 0; r < size; r++)
        counts[r] = one->unlike ? one->count * (size_t)((3 * r + 2) % 5) / 4
                                : one->count;
    switch (one->kind) {
    case SYMC_GATHER:
        return symmcoll_gather_list(group,
            collective_receives(one, rank) ? outs : NULL, in, one->count,
            one->dtype, one->root, call, work);
    case SYMC_SCATTER:
        return symmcoll_scatter_list(group, out,
            collective_sends(one, rank) ? (const void *const *)ins : NULL,
            one->count, one->dtype, one->root, call, work);
    case SYMC_ALL_GATHER:
        return symmcoll_all_gather_list(
            group, outs, counts, in, counts[rank], one->dtype, call, work);
    default:
        return symmcoll_reduce_scatter_list(group, out, counts[rank],
            (const void *const *)ins, counts, one->dtype, one->op, call, work);
    }
}

/* ---- several buffers ---- */

struct several {
    void *outs[SEVERAL_MOST];
    const void *ins[SEVERAL_MOST];
    size_t counts[SEVERAL_MOST];
};

/* Divides the count into buffers of unlike sizes, some of them empty. */
static void cut(struct several *several, const struct collective *one)
{
    static const size_t weights[SEVERAL_MOST] = {1, 4, 2, 0, 3, 0, 5, 1, 2};
    size_t left = one->count, sum = 0;

    for (int i = 0; i < one->several; i++)
        sum += weights[i];
    for (int i = one->several - 1; i > 0; i--) {
        several->counts[i] = one->count * weights[i] / sum;
        left -= several->counts[i];
    }
    several->counts[0] = left;
}

/* Places the buffers in order, or the last one first. In place, the smaller of
 * a pair is at this rank's part of the larger one. */
static void place_several(struct several *several, const struct collective *one,
    char *out, const char *in, int rank, int size)
{
    const struct symc_kind_info *info = &symc_kinds[one->kind];
    const size_t elem = symmcoll_dtype_size(one->dtype);

    for (int i = 0; i < one->several; i++) {
        int at = one->listed ? one->several - 1 - i : i;
        size_t nbytes = several->counts[at] * elem;
        size_t shift = info->in_parts == info->out_parts ? 0 : nbytes;

        several->outs[at] = out;
        several->ins[at] = in;
        if (one->in_place && info->in_parts == SYMC_ALL_PARTS)
            several->outs[at] = (char *)(uintptr_t)in + (size_t)rank * shift;
        else if (one->in_place)
            several->ins[at] = out + (size_t)rank * shift;
        out += nbytes * symc_parts_count(info->out_parts, size);
        in += nbytes * symc_parts_count(info->in_parts, size);
    }
}

static symmcoll_status_t call_one_of(struct symmcoll_group *group,
    const struct collective *one, const struct several *several, int i)
{
    switch (one->kind) {
    case SYMC_ALL_REDUCE_COALESCED:
        return symmcoll_all_reduce(group, several->outs[i], several->ins[i],
            several->counts[i], one->dtype, one->op, NULL, NULL);
    case SYMC_ALL_GATHER_COALESCED:
        return symmcoll_all_gather(group, several->outs[i], several->ins[i],
            several->counts[i], one->dtype, NULL, NULL);
    default:
        return symmcoll_reduce_scatter(group, several->outs[i], several->ins[i],
            several->counts[i], one->dtype, one->op, NULL, NULL);
    }
}

static symmcoll_status_t call_region(struct symmcoll_group *group,
    const struct collective *one, const struct several *several,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    symmcoll_status_t status = symmcoll_coalesce_begin(group), last;

    for (int i = 0; i < one->several && status == SYMMCOLL_OK; i++)
        status = call_one_of(group, one, several, i);
    last = symmcoll_coalesce_end(group, call, work);
    return status == SYMMCOLL_OK ? last : status;
}

static symmcoll_status_t call_several(struct symmcoll_group *group,
    const struct collective *one, void *out, const void *in,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    static _Thread_local struct several several;
    const size_t n = (size_t)one->several;

    cut(&several, one);
    place_several(&several, one, out, in, symmcoll_group_rank(group),
        symmcoll_group_size(group));
    if (one->region)
        return call_region(group, one, &several, call, work);
    switch (one->kind) {
    case SYMC_ALL_REDUCE_COALESCED:
        return symmcoll_all_reduce_coalesced(group, several.outs, several.ins,
            several.counts, n, one->dtype, one->op, call, work);
    case SYMC_ALL_GATHER_COALESCED:
        return symmcoll_all_gather_coalesced(group, several.outs, several.ins,
            several.counts, n, one->dtype, call, work);
    default:
        return symmcoll_reduce_scatter_coalesced(group, several.outs,
            several.ins, several.counts, n, one->dtype, one->op, call, work);
    }
}

symmcoll_status_t collective_call(struct symmcoll_group *group,
    const struct collective *one, void *out, const void *in,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    size_t n = one->count;

    if (one->several > 0)
        return call_several(group, one, out, in, call, work);
    if (one->listed)
        return call_listed(group, one, out, in, call, work);
    switch (one->kind) {
    case SYMC_ALL_REDUCE:
        return symmcoll_all_reduce(
            group, out, in, n, one->dtype, one->op, call, work);
    case SYMC_REDUCE:
        return symmcoll_reduce(
            group, out, in, n, one->dtype, one->op, one->root, call, work);
    case SYMC_REDUCE_SCATTER:
        return symmcoll_reduce_scatter(
            group, out, in, n, one->dtype, one->op, call, work);
    case SYMC_ALL_GATHER:
        return symmcoll_all_gather(group, out, in, n, one->dtype, call, work);
    case SYMC_GATHER:
        return symmcoll_gather(
            group, out, in, n, one->dtype, one->root, call, work);
    case SYMC_SCATTER:
        return symmcoll_scatter(
            group, out, in, n, one->dtype, one->root, call, work);
    case SYMC_ALL_TO_ALL:
        return symmcoll_all_to_all(group, out, in, n, one->dtype, call, work);
    default:
        return symmcoll_broadcast(
            group, out, n, one->dtype, one->root, call, work);
    }
}

/* ---- the same bits as in host memory ---- */

/* The buffers of one call: in host memory, with guards beside the output, and
 * the same on the device. */
struct buffers {
    size_t in_nbytes, out_nbytes, nbytes;
    char *host, *read;
    char *device;
    size_t out_at, in_at;
};

/* Places the buffers. In place both are in the larger one, the smaller at this
 * rank's part. */
static void place(
    struct buffers *buffers, const struct collective *one, int rank, int size)
{
    size_t in = collective_in_nbytes(one, size);
    size_t out = collective_out_nbytes(one, size);
    size_t part = one->count * symmcoll_dtype_size(one->dtype);
    size_t shift = in == out ? 0 : (size_t)rank * part;

    *buffers = (struct buffers){.in_nbytes = in, .out_nbytes = out};
    buffers->out_at = GUARD;
    buffers->in_at = GUARD + out + GUARD;
    buffers->nbytes = GUARD + out + GUARD + in + GUARD;
    if (one->kind == SYMC_BROADCAST) {
        buffers->in_at = buffers->out_at;
    } else if (one->in_place) {
        buffers->out_at = GUARD + (out < in ? shift : 0);
        buffers->in_at = GUARD + (in < out ? shift : 0);
    }
    buffers->host = malloc(buffers->nbytes);
    buffers->read = malloc(buffers->nbytes);
    buffers->device = device_alloc(buffers->nbytes);
    memset(buffers->host, POISON, buffers->nbytes);
    fill(one->dtype, buffers->host + buffers->in_at,
        in / symmcoll_dtype_size(one->dtype), (uint64_t)rank + 1);
    device_write(buffers->device, buffers->host, buffers->nbytes);
}

static int compare(const struct buffers *buffers, const struct collective *one)
{
    for (size_t i = 0; i < buffers->nbytes; i++) {
        if (buffers->read[i] == buffers->host[i])
            continue;
        diag("%s of %zu elements of type %d, op %d, root %d%s%s, %d buffers: "
             "byte %td of out is %02x and not %02x",
            symc_kind_name(one->kind), one->count, (int)one->dtype,
            (int)one->op, one->root, one->in_place ? ", in place" : "",
            one->listed ? ", listed" : "", one->several,
            (ptrdiff_t)i - (ptrdiff_t)buffers->out_at,
            (unsigned char)buffers->read[i], (unsigned char)buffers->host[i]);
        return 0;
    }
    return 1;
}

int same_as_host(
    struct symmcoll_group *group, int rank, const struct collective *one)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct buffers buffers;
    CUstream stream = device_stream();
    int right;

    place(&buffers, one, rank, symmcoll_group_size(group));
    call.stream = stream;
    right = say(collective_call(group, one, buffers.device + buffers.out_at,
                    buffers.device + buffers.in_at, &call, NULL) == SYMMCOLL_OK,
        "on the device");
    device_wait(stream);
    right = say(collective_call(group, one, buffers.host + buffers.out_at,
                    buffers.host + buffers.in_at, NULL, NULL) == SYMMCOLL_OK,
                "in host memory") &&
            right;
    device_read(buffers.read, buffers.device, buffers.nbytes);
    right = right && compare(&buffers, one);
    device_end_stream(stream);
    device_free(buffers.device);
    free(buffers.read);
    free(buffers.host);
    return right;
}
