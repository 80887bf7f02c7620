/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided access: a rank reads or writes the buffer of a peer without a call
 * by the peer.
 */
#include "base/ranks.h"
#include "base/tensor.h"
#include "symm_ops/operate.h"

#include <symmcoll/symm_ops.h>

#include <string.h>

/* Returns the address of an offset in a peer's buffer. */
static symmcoll_status_t find(struct symmcoll_symm *handle, const char *where,
    int peer, size_t offset, size_t count, size_t elem, const void *other,
    char **at)
{
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_rank(handle, where, peer);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_elements(
        handle, where, "what is accessed", offset, count, elem, NULL);
    if (status != SYMMCOLL_OK)
        return status;
    if (other == NULL && count > 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a buffer of %zu bytes, found NULL", where,
            count * elem);
    *at = handle->at[peer] + offset;
    return SYMMCOLL_OK;
}

/* Copies nbytes; buffer is the caller's side, out or in. */
static symmcoll_status_t copy(struct symmcoll_symm *handle, enum symc_kind kind,
    void *out, const void *in, const void *buffer, size_t nbytes)
{
    if (nbytes == 0 || out == in)
        return SYMMCOLL_OK;
    if (!symc_symm_is_host(handle))
        return symc_symm_enqueue_copy(handle, kind, out, in, buffer, nbytes);
    memmove(out, in, nbytes);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_put_data(struct symmcoll_symm *handle, int peer,
    size_t offset, const void *in, size_t nbytes)
{
    char *to;
    symmcoll_status_t status =
        find(handle, "symm_put_data", peer, offset, nbytes, 1, in, &to);

    return status == SYMMCOLL_OK
               ? copy(handle, SYMC_SYMM_PUT_DATA, to, in, in, nbytes)
               : status;
}

symmcoll_status_t symmcoll_symm_get_data(struct symmcoll_symm *handle, int peer,
    size_t offset, void *out, size_t nbytes)
{
    char *from;
    symmcoll_status_t status =
        find(handle, "symm_get_data", peer, offset, nbytes, 1, out, &from);

    return status == SYMMCOLL_OK
               ? copy(handle, SYMC_SYMM_GET_DATA, out, from, out, nbytes)
               : status;
}

symmcoll_status_t symmcoll_symm_put_with_signal(struct symmcoll_symm *handle,
    int peer, size_t offset, const void *in, size_t nbytes, int channel,
    double timeout)
{
    const enum symc_kind kind = SYMC_SYMM_PUT_WITH_SIGNAL;
    const char *where = symc_kind_name(kind);
    char *to;
    symmcoll_status_t status =
        find(handle, where, peer, offset, nbytes, 1, in, &to);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_channel(handle, where, channel);
    if (status != SYMMCOLL_OK)
        return status;
    status = copy(handle, kind, to, in, in, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_put_signal(handle, kind, peer, channel, timeout);
}

/* ---- flags ---- */

/* Returns the address of words of 32 bits. They have to be aligned, so that
 * each is written at once. */
static symmcoll_status_t find_words(struct symmcoll_symm *handle,
    const char *where, int peer, size_t offset, size_t count,
    _Atomic uint32_t **words)
{
    /* There is no other buffer that could be NULL. */
    char *at = NULL;
    symmcoll_status_t status =
        find(handle, where, peer, offset, count, sizeof(uint32_t), &at, &at);

    if (status != SYMMCOLL_OK)
        return status;
    if ((uintptr_t)at % sizeof(uint32_t) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an offset that is a multiple of %zu, found %zu",
            where, sizeof(uint32_t), offset);
    *words = (_Atomic uint32_t *)(void *)at;
    return SYMMCOLL_OK;
}

static symmcoll_status_t write_words(struct symmcoll_symm *handle,
    enum symc_kind kind, int peer, size_t offset, uint32_t value, size_t count)
{
    _Atomic uint32_t *words;
    symmcoll_status_t status =
        find_words(handle, symc_kind_name(kind), peer, offset, count, &words);

    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_symm_is_host(handle)) {
        struct symc_access access = {.kind = kind == SYMC_SYMM_MEMSET
                                                 ? SYMC_ACCESS_FILL32
                                                 : SYMC_ACCESS_WRITE32,
            .out = (void *)words,
            .count = count,
            .value = value,
            .peer = peer};

        return count == 0 ? SYMMCOLL_OK
                          : symc_symm_access(handle, kind, -1, &access);
    }
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&words[i], value, memory_order_release);
    symc_symm_notify(handle, peer);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_write_value32(
    struct symmcoll_symm *handle, int peer, size_t offset, uint32_t value)
{
    return write_words(handle, SYMC_SYMM_WRITE_VALUE, peer, offset, value, 1);
}

symmcoll_status_t symmcoll_symm_memset32(struct symmcoll_symm *handle, int peer,
    size_t offset, uint32_t value, size_t count)
{
    return write_words(handle, SYMC_SYMM_MEMSET, peer, offset, value, count);
}

/* A word, and the value that a rank waits for. */
struct awaited {
    const _Atomic uint32_t *word;
    uint32_t value;
};

static bool is_there(void *arg)
{
    const struct awaited *awaited = arg;

    return atomic_load_explicit(awaited->word, memory_order_acquire) ==
           awaited->value;
}

/* Waits for the value after it was not found at once. */
static symmcoll_status_t await_value(struct symmcoll_symm *handle, int peer,
    size_t offset, struct awaited *awaited, struct symc_wait_budget *budget)
{
    const struct symc_symm_wait wait = {.kind = SYMC_SYMM_WAIT_VALUE,
        .peer = peer,
        .channel = SYMC_SYMM_NO_CHANNEL,
        .missing = "it has not stored the value",
        .ready = is_there,
        .arg = awaited};
    char who[SYMC_RANK_TEXT];
    symmcoll_status_t status = symc_symm_enter(handle, wait.kind);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_await(handle, &wait, budget);
    if (status == SYMMCOLL_ERR_TIMEOUT)
        status = symc_fail(status,
            "%s: expected %s to store %u at byte %zu, found %u when the time "
            "was over (group %s)",
            symc_kind_name(wait.kind),
            symc_format_rank(
                symc_group_ranks(handle->group), peer, SYMC_NO_PID, who),
            awaited->value, offset,
            atomic_load_explicit(awaited->word, memory_order_relaxed),
            symc_group_name(handle->group));
    symc_symm_leave(handle);
    return status;
}

symmcoll_status_t symc_symm_enqueue_wait(struct symmcoll_symm *handle, int peer,
    size_t offset, uint32_t value, double timeout, void *stream)
{
    const enum symc_kind kind = SYMC_SYMM_WAIT_VALUE;
    struct symc_access access = {
        .kind = SYMC_ACCESS_WAIT32, .count = 1, .value = value, .peer = peer};
    _Atomic uint32_t *word = NULL;
    symmcoll_status_t status = find_words(
        handle, symc_kind_name(kind), handle->rank, offset, 1, &word);

    access.in = (const void *)word;
    return status == SYMMCOLL_OK
               ? symc_symm_access_on(handle, kind, stream, timeout, &access)
               : status;
}

symmcoll_status_t symmcoll_symm_wait_value32(struct symmcoll_symm *handle,
    int peer, size_t offset, uint32_t value, double timeout)
{
    const char *where = symc_kind_name(SYMC_SYMM_WAIT_VALUE);
    struct awaited awaited = {.value = value};
    struct symc_wait_budget budget;
    _Atomic uint32_t *word;
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_rank(handle, where, peer);
    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_symm_is_host(handle))
        return symc_symm_enqueue_wait(handle, peer, offset, value, timeout,
            symmcoll_group_stream(handle->group));
    status = find_words(handle, where, handle->rank, offset, 1, &word);
    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_symm_read_timeout(handle, SYMC_SYMM_WAIT_VALUE, timeout, &budget);
    if (status != SYMMCOLL_OK)
        return status;
    awaited.word = word;
    if (is_there(&awaited))
        return SYMMCOLL_OK;
    return await_value(handle, peer, offset, &awaited, &budget);
}

/* ---- views ---- */

symmcoll_status_t symmcoll_symm_get_remote_tensors(struct symmcoll_symm *handle,
    const struct symmcoll_tensor *tensor, struct symmcoll_tensor *views)
{
    const char *where = "symm_get_remote_tensors";
    struct symmcoll_tensor copy;
    int64_t at, before, after;
    size_t elem;
    symmcoll_status_t status = symc_symm_check(handle, where);

    if (status != SYMMCOLL_OK)
        return status;
    if (tensor == NULL || views == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a tensor and places for the views, found NULL",
            where);
    status = symc_tensor_read(where, tensor, 0, &copy);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_dtype(where, copy.dtype, &elem);
    if (status != SYMMCOLL_OK)
        return status;
    at = (int64_t)((uintptr_t)copy.data - (uintptr_t)handle->at[handle->rank]);
    /* before is 0 or less: the sum cannot wrap around */
    if (copy.ndim < 0 || copy.ndim > SYMMCOLL_MAX_DIMS ||
        !symc_tensor_measure(&copy, &before, &after) || at < 0 ||
        at + before < 0 || at > (int64_t)handle->nbytes - after)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a tensor within the %zu bytes of this rank's buffer, "
            "found one whose first element is at byte %lld",
            where, handle->nbytes, (long long)at);
    for (int r = 0; r < handle->size && status == SYMMCOLL_OK; r++) {
        char *place = (char *)views + (size_t)r * views->size;

        copy.data = handle->at[r] + at;
        copy.device = handle->share->device;
        copy.device_index = handle->share->device_index;
        status = symc_sized_write(&symc_tensor_kind, where, &copy, place);
    }
    return status;
}
