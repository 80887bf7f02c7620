/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A barrier through a store, for ranks that have no group yet.
 *
 * KEY/rank/R  the number of times that rank R has arrived
 * KEY/count   the number of ranks, as the first one passed it
 * KEY/G       the number of ranks that arrived for the Gth time
 * KEY/G/done  set by the last of them, which also removes both keys of time
 *             G - 1, because all ranks have left that barrier
 */
#include "store/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* leaves room for the suffixes */
#define BARRIER_KEY_MAX (SYMC_STORE_KEY_MAX - 48)

struct barrier {
    struct symmcoll_store *store;
    const char *key;
    int rank, count;
    int64_t deadline_ns;
    int64_t time; /* number of this rank's arrivals */
};

/* Formats KEY/what/number, or KEY/number if `what` is empty. */
static const char *name_part(const struct barrier *barrier, const char *what,
    int64_t number, const char *end, char name[SYMC_STORE_KEY_MAX + 1])
{
    snprintf(name, SYMC_STORE_KEY_MAX + 1, "%s/%s%" PRId64 "%s", barrier->key,
        what, number, end);
    return name;
}

static symmcoll_status_t add_one(
    const struct barrier *barrier, const char *name, int64_t *sum)
{
    struct symc_edit edit = {.kind = SYMC_EDIT_ADD, .amount = 1};
    symmcoll_status_t status =
        symc_store_edit(barrier->store, name, &edit, barrier->deadline_ns);

    *sum = edit.sum;
    return status;
}

/* Checks that all ranks passed the same number of ranks. */
static symmcoll_status_t check_count(const struct barrier *barrier)
{
    char name[SYMC_STORE_KEY_MAX + 1];
    char shown[SYMC_KEY_TEXT];
    char text[16];
    struct symc_edit edit = {.kind = SYMC_EDIT_COMPARE_SET, .value = text};
    symmcoll_status_t status;

    edit.nbytes = (size_t)snprintf(text, sizeof(text), "%d", barrier->count);
    snprintf(name, sizeof(name), "%s/count", barrier->key);
    status = symc_store_edit(barrier->store, name, &edit, barrier->deadline_ns);
    if (status != SYMMCOLL_OK)
        return status;
    if (edit.outcome == SYMMCOLL_STORE_DIFFERS &&
        strcmp(edit.result.data, text) != 0) {
        char found[SYMC_KEY_TEXT];

        status = symc_fail(SYMMCOLL_ERR_MISMATCH,
            "store_barrier: key \"%s\": count differs: this rank passed %d, "
            "another rank %s",
            symc_key_text(barrier->key, shown), barrier->count,
            symc_key_text(edit.result.data, found));
    }
    free(edit.result.data);
    return status;
}

/* Names the missing ranks in the message of a timeout. */
static symmcoll_status_t name_missing(
    const struct barrier *barrier, double timeout)
{
    bool *listed = symc_alloc((size_t)barrier->count, sizeof(*listed));
    char name[SYMC_STORE_KEY_MAX + 1];
    char shown[SYMC_KEY_TEXT];
    char ranks[160];
    int missing = 0;

    if (listed == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int rank = 0; rank < barrier->count; rank++) {
        struct symc_bytes value = {NULL, 0};
        bool found = false;
        symmcoll_status_t status = barrier->store->ops->find(
            barrier->store->table, name_part(barrier, "rank/", rank, "", name),
            symc_now_ns(), &found, &value);

        if (status != SYMMCOLL_OK) {
            free(listed);
            return status;
        }
        listed[rank] =
            !found || strtoimax(value.data, NULL, 10) < barrier->time;
        missing += listed[rank];
        free(value.data);
    }
    symc_format_named_ranks(listed, barrier->count, ranks, sizeof(ranks));
    free(listed);
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "store_barrier: timeout: key \"%s\": %s did not call it within %g s: "
        "%d of %d have called",
        symc_key_text(barrier->key, shown), ranks, timeout,
        barrier->count - missing, barrier->count);
}

/* Releases the other ranks; called by the last one. */
static symmcoll_status_t let_go(const struct barrier *barrier)
{
    char name[SYMC_STORE_KEY_MAX + 1];
    struct symc_edit done = {.kind = SYMC_EDIT_SET};
    symmcoll_status_t status = symc_store_edit(barrier->store,
        name_part(barrier, "", barrier->time, "/done", name), &done,
        barrier->deadline_ns);

    for (int i = 0; i < 2 && status == SYMMCOLL_OK && barrier->time > 1; i++) {
        struct symc_edit remove = {.kind = SYMC_EDIT_DELETE};

        status = symc_store_edit(barrier->store,
            name_part(
                barrier, "", barrier->time - 1, i == 0 ? "" : "/done", name),
            &remove, barrier->deadline_ns);
        /* A user-defined store may lack deletion: the keys stay. */
        if (status == SYMMCOLL_ERR_UNSUPPORTED)
            status = SYMMCOLL_OK;
    }
    return status;
}

static symmcoll_status_t run_barrier(struct barrier *barrier, double timeout)
{
    char name[SYMC_STORE_KEY_MAX + 1];
    char shown[SYMC_KEY_TEXT];
    const char *done = name;
    size_t missing = 0;
    int64_t come = 0;
    symmcoll_status_t status = check_count(barrier);

    if (status == SYMMCOLL_OK)
        status = add_one(barrier,
            name_part(barrier, "rank/", barrier->rank, "", name),
            &barrier->time);
    if (status == SYMMCOLL_OK)
        status = add_one(
            barrier, name_part(barrier, "", barrier->time, "", name), &come);
    if (status != SYMMCOLL_OK)
        return status;
    if (come > barrier->count)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_barrier: key \"%s\": expected %d ranks, found one more: a "
            "rank called twice, or the key was used before",
            symc_key_text(barrier->key, shown), barrier->count);
    if (come == barrier->count)
        return let_go(barrier);
    name_part(barrier, "", barrier->time, "/done", name);
    status = symc_store_await(
        barrier->store, &done, 1, barrier->deadline_ns, &missing);
    if (status != SYMMCOLL_OK || missing == 1)
        return status;
    return name_missing(barrier, timeout);
}

symmcoll_status_t symmcoll_store_barrier(struct symmcoll_store *store,
    const char *key, int rank, int count, double timeout)
{
    static const char where[] = "store_barrier";
    struct barrier barrier = {
        .store = store, .key = key, .rank = rank, .count = count};
    symmcoll_status_t status = symc_store_check_key(store, key, where);
    char shown[SYMC_KEY_TEXT];
    int64_t timeout_ns;

    if (status != SYMMCOLL_OK)
        return status;
    if (strlen(key) > BARRIER_KEY_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: key \"%s\": expected at most %d bytes, found %zu", where,
            symc_key_text(key, shown), BARRIER_KEY_MAX, strlen(key));
    if (count < 1 || count > SYMC_RANKS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: count: expected 1 to %d, found %d", where, SYMC_RANKS_MAX,
            count);
    if (rank < 0 || rank >= count)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: rank: expected 0 to %d, found %d", where, count - 1, rank);
    if (timeout < 0)
        timeout = symmcoll_store_timeout(store);
    status = symc_timeout_read(where, timeout, 0, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    barrier.deadline_ns = symc_deadline_ns(symc_now_ns(), timeout_ns);
    return run_barrier(&barrier, timeout);
}
