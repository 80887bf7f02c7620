/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on the buffers of a handle: checks of arguments, comparison
 * between the ranks, and moving.
 */
#include "symm_ops/operate.h"

#include "base/dtype.h"
#include "base/ranks.h"
#include "run/call.h"

#include <stdio.h>
#include <string.h>

/* Most bytes of a caller's buffer: no process has more addresses. */
#define BUFFER_MOST (SIZE_MAX >> 16)

/* Arguments of a rank, as all ranks see them. */
struct passed {
    uint64_t handle;
    uint64_t words[SYMC_SYMM_WORDS];
};
_Static_assert(
    sizeof(struct passed) == SYMC_MOVER_PAYLOAD, "it fills the payload");

/* ---- comparison between the ranks ---- */

/* Bits of the buffer's number in a packed handle; the offset of the handle is
 * above. */
#define NUMBER_BITS 24

/* Packs the number of the buffers in the group and the offset of the handle. */
static uint64_t pack_handle(const struct symmcoll_symm *handle)
{
    return handle->share->shared.number | (uint64_t)handle->offset
                                              << NUMBER_BITS;
}

static void format_value(char *buffer, size_t nbytes, size_t at, uint64_t value)
{
    if (at != 0)
        snprintf(buffer, nbytes, "%llu", (unsigned long long)value);
    else
        snprintf(buffer, nbytes, "number %llu from byte %llu on",
            (unsigned long long)(value & ((1u << NUMBER_BITS) - 1)),
            (unsigned long long)(value >> NUMBER_BITS));
}

/* One word of each rank. */
struct words {
    const void *const *payloads;
    size_t at;
};

static bool are_alike(const void *arg, int a, int b)
{
    const struct words *words = arg;

    return ((const uint64_t *)words->payloads[a])[words->at] ==
           ((const uint64_t *)words->payloads[b])[words->at];
}

/* Returns MISMATCH; lists each value once, with the ranks that passed it. */
static symmcoll_status_t fail_mismatch(const struct symc_moving *moving,
    const char *what, const void *const *payloads, size_t at)
{
    const struct symc_op *op = moving->op;
    char values[320] = "", ranks[128], text[64];
    size_t used = 0;

    for (int r = 0; r < moving->size && used + 32 < sizeof(values); r++) {
        uint64_t value = ((const uint64_t *)payloads[r])[at];
        bool listed[SYMC_RANKS_MAX] = {false}, seen = false;

        for (int q = 0; q < moving->size; q++) {
            listed[q] = ((const uint64_t *)payloads[q])[at] == value;
            seen = seen || (q < r && listed[q]);
        }
        if (seen)
            continue;
        format_value(text, sizeof(text), at, value);
        used += (size_t)snprintf(values + used, sizeof(values) - used,
            "%s%s passed %s", used > 0 ? ", " : "",
            symc_format_members(moving->ranks, listed, ranks, sizeof(ranks)),
            text);
    }
    (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
        "%s: %s differs: %s (group %s, seq %llu)", symc_kind_name(op->kind),
        what, values, moving->group, (unsigned long long)op->seq);
    return symc_error_add_odd(
        moving->ranks, are_alike, &(struct words){payloads, at});
}

/* Compares one word of all ranks, if it has a name. */
static symmcoll_status_t compare(const struct symc_moving *moving,
    const char *what, const void *const *payloads, size_t at)
{
    uint64_t first = ((const uint64_t *)payloads[0])[at];

    for (int r = 1; what != NULL && r < moving->size; r++) {
        if (((const uint64_t *)payloads[r])[at] != first)
            return fail_mismatch(moving, what, payloads, at);
    }
    return SYMMCOLL_OK;
}

/* Compares the calls of all ranks. */
static symmcoll_status_t check(struct symc_mover *mover,
    const struct symc_moving *moving, const void *const *payloads)
{
    const struct symc_symm_call *call = (const struct symc_symm_call *)mover;
    const struct symc_symm_does *does = call->does;
    symmcoll_status_t status = compare(moving, "handle", payloads, 0);

    for (size_t i = 0; i < SYMC_SYMM_WORDS && status == SYMMCOLL_OK; i++)
        status = compare(moving, does->words[i], payloads, i + 1);
    if (status != SYMMCOLL_OK || does->verify == NULL)
        return status;
    return does->verify(call, moving, (const uint64_t *const *)payloads);
}

static void move(struct symc_mover *mover, const struct symc_moving *moving)
{
    const struct symc_symm_call *call = (const struct symc_symm_call *)mover;

    call->does->move(call, moving);
}

/* ---- running ---- */

static symmcoll_status_t check_reduction(
    struct symmcoll_group *group, const char *where, struct symc_op *op)
{
    symmcoll_op_t wanted = op->op;

    if (wanted != SYMMCOLL_PREMUL_SUM &&
        symc_world_factor(symc_group_world(group), wanted, &op->factor))
        op->op = SYMMCOLL_PREMUL_SUM;
    if (op->op < 0 || op->op >= SYMMCOLL_OP_COUNT ||
        wanted == SYMMCOLL_PREMUL_SUM)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a reduce operation of this world, found %d", where,
            (int)wanted);
    if (symc_dtype_reduces(symc_dtype_find(op->dtype), op->op))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "%s: %s is not defined for %s",
        where, symmcoll_op_name(op->op), symmcoll_dtype_name(op->dtype));
}

/* Enqueues an operation, with a description of its kernel if it has one. */
static __attribute__((noinline)) symmcoll_status_t run_on_device(
    struct symc_symm_call *call, struct symc_op *op)
{
    const struct symc_share *share = call->handle->share;
    struct symc_launch launch = {.at = 0};

    call->mover.joined = share->shared.joined;
    if (call->does->describe != NULL) {
        call->does->describe(call, op, &launch);
        call->mover.launch = &launch;
    }
    return symc_run_call_device(
        symc_group_runner(call->handle->group), op, NULL);
}

symmcoll_status_t symc_symm_check_reduced(const struct symmcoll_symm *handle,
    const char *where, size_t offset, const void *out,
    enum symmcoll_dtype dtype)
{
    symmcoll_status_t status = symc_symm_check_aligned(
        handle, where, "the input", handle->at[handle->rank] + offset, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_check_aligned(handle, where, "out", out, dtype);
}

symmcoll_status_t symc_symm_begin(
    struct symc_symm_call *call, enum symmcoll_dtype dtype)
{
    const char *where = symc_kind_name(call->does->kind);
    symmcoll_status_t status = symc_symm_check(call->handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_check_dtype(where, dtype, &call->elem);
}

symmcoll_status_t symc_symm_run(struct symc_symm_call *call,
    enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count, int root,
    const struct symmcoll_call *options)
{
    struct symmcoll_group *group = call->handle->group;
    const char *where = symc_kind_name(call->does->kind);
    struct symc_op made = {.kind = call->does->kind,
        .dtype = dtype,
        .op = op,
        .count = count,
        .root = root,
        .out = &call->mover};
    bool on_device = !symc_symm_is_host(call->handle);
    struct passed *passed = (struct passed *)(void *)call->mover.payload;
    symmcoll_status_t status = symc_symm_check_dtype(where, dtype, &call->elem);

    if (status == SYMMCOLL_OK && symc_kind_has(made.kind, SYMC_REDUCES))
        status = check_reduction(group, where, &made);
    if (status != SYMMCOLL_OK)
        return status;
    if (root < 0 || root >= symc_group_size(group))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a root of 0 to %d, found %d", where,
            symc_group_size(group) - 1, root);
    made.elem = (uint16_t)call->elem;
    if (on_device) {
        made.memory = SYMC_MEMORY_DEVICE;
        made.device = (int16_t)call->handle->share->device_index;
    }
    made.timeout_ns = symc_group_timeout(group);
    if (options != NULL)
        status = symc_run_read_call(options, &made);
    if (status != SYMMCOLL_OK)
        return status;
    call->mover.check = check;
    call->mover.move = move;
    passed->handle = pack_handle(call->handle);
    memcpy(passed->words, call->words, sizeof(passed->words));
    status = on_device ? run_on_device(call, &made)
                       : symc_run_call(symc_group_runner(group), &made);
    symc_run_put_sequence(options, &made, NULL);
    return status;
}

/* ---- moving ---- */

/* Reduces one row on the host. */
static void reduce_row(const struct symc_symm_call *call,
    const struct symc_moving *moving, size_t at, size_t count, void *out)
{
    struct symc_targets own = {moving->rank, 1};

    for (int r = 0; r < moving->size; r++)
        moving->exposed[r].in = symc_symm_at(call, r, at);
    moving->exposed[moving->rank].out = out;
    (void)symc_moving_reduce(
        moving, own, 0, count, count * call->elem >= moving->stream_pushed);
}

void symc_symm_reduce(const struct symc_symm_call *call,
    const struct symc_moving *moving, const struct symc_rows *rows, void *out)
{
    /* The number of rows is not bounded if they have no elements. */
    if (rows->count == 0)
        return;
    if (moving->enqueue != NULL) {
        struct symc_rows placed = *rows;

        placed.at += call->handle->offset;
        moving->enqueue->reduce(moving->state, &placed, out);
        return;
    }
    for (size_t row = 0; row < rows->rows; row++)
        reduce_row(call, moving, rows->at + row * rows->pitch, rows->count,
            (char *)out + row * rows->out_pitch);
}

void symc_symm_pull(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes)
{
    if (moving->enqueue != NULL)
        moving->enqueue->copy(moving->state, out, in, nbytes);
    else
        (void)symc_moving_copy(
            moving, rank, out, in, nbytes, nbytes >= moving->stream_pulled);
}

void symc_symm_pull_rows(
    const struct symc_moving *moving, int rank, const struct symc_strided *copy)
{
    size_t rows = (size_t)copy->shape[0], nbytes, pitch, out_pitch, in_pitch;

    if (moving->enqueue != NULL) {
        moving->enqueue->strided(moving->state, copy);
        return;
    }
    nbytes = (size_t)copy->shape[1] * copy->elem;
    pitch = (size_t)copy->strides[0] * copy->elem;
    out_pitch = copy->spread ? pitch : nbytes;
    in_pitch = copy->spread ? nbytes : pitch;
    for (size_t row = 0; row < rows; row++)
        symc_symm_pull(moving, rank, (char *)copy->out + row * out_pitch,
            (const char *)copy->in + row * in_pitch, nbytes);
}

void symc_symm_push(const struct symc_moving *moving, int rank, void *out,
    const void *in, size_t nbytes)
{
    if (moving->enqueue != NULL)
        moving->enqueue->copy(moving->state, out, in, nbytes);
    else
        (void)symc_moving_copy(
            moving, rank, out, in, nbytes, nbytes >= moving->stream_pushed);
}

void symc_symm_part(
    size_t count, size_t elem, int size, int r, size_t *lo, size_t *hi)
{
    size_t line = elem < SYMC_LINE ? SYMC_LINE / elem : 1;
    size_t each = (count / (size_t)size + line) / line * line;

    *lo = each * (size_t)r < count ? each * (size_t)r : count;
    *hi = count - *lo < each ? count : *lo + each;
}

/* ---- checks ---- */

symmcoll_status_t symc_symm_check_dtype(
    const char *where, enum symmcoll_dtype dtype, size_t *elem)
{
    *elem = symmcoll_dtype_size(dtype);
    if (*elem != 0)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected an element type of 0 to %d, found %d", where,
        SYMMCOLL_DTYPE_COUNT - 1, (int)dtype);
}

symmcoll_status_t symc_symm_check_elements(const struct symmcoll_symm *handle,
    const char *where, const char *what, size_t offset, size_t count,
    size_t elem, size_t *nbytes)
{
    size_t length, end;

    if (count == SIZE_MAX) /* overflow of a product */
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s within the buffer's %zu bytes, found more "
            "elements than memory has",
            where, what, handle->nbytes);
    if (!symc_multiply(count, elem, &length) ||
        !symc_add(offset, length, &end) || end > handle->nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s within the buffer's %zu bytes, found %zu elements "
            "of %zu bytes from byte %zu on",
            where, what, handle->nbytes, count, elem, offset);
    if (nbytes != NULL)
        *nbytes = length;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_check_size(const char *where, const char *what,
    size_t count, size_t each, size_t *nbytes)
{
    if (symc_multiply(count, each, nbytes) && *nbytes <= BUFFER_MOST)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s of at most %zu bytes, found %zu times %zu bytes",
        where, what, BUFFER_MOST, count, each);
}

symmcoll_status_t symc_symm_check_aligned(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *at,
    enum symmcoll_dtype dtype)
{
    size_t elem = symmcoll_dtype_size(dtype);

    /* A complex number is aligned like its two floats. */
    if (dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128)
        elem /= 2;
    if (symc_symm_is_host(handle) || at == NULL || (uintptr_t)at % elem == 0)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s in memory of a device on a multiple of %zu bytes, "
        "found %p",
        where, what, elem, at);
}

symmcoll_status_t symc_symm_check_apart(const struct symmcoll_symm *handle,
    const char *where, const char *what, const void *buffer, size_t nbytes,
    size_t offset, size_t length)
{
    uintptr_t mine = (uintptr_t)handle->at[handle->rank] + offset;
    uintptr_t other = (uintptr_t)buffer;

    if (buffer == NULL && nbytes > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s of %zu bytes, found NULL", where, what, nbytes);
    if (__builtin_expect(symc_group_world(handle->group)->inspects, 0) &&
        nbytes > 0) {
        symmcoll_status_t status =
            symc_symm_check_memory(handle, where, what, buffer, nbytes);

        if (status != SYMMCOLL_OK)
            return status;
    }
    /* Compares differences, since a sum of an address and a size may wrap
     * around. */
    if (nbytes == 0 || length == 0 ||
        (other >= mine ? other - mine >= length : mine - other >= nbytes))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected %s (%zu bytes) apart from bytes %zu to %zu of this "
        "rank's buffer, which others use, found that they overlap",
        where, what, nbytes, offset, offset + length);
}
