/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host backend: processes and threads of one machine over a shared segment.
 */
#include "host/host.h"

#include <stdlib.h>

#define PAGE ((size_t)4096)
#define STAGED_CHUNKS ((size_t)2 * SYMC_SLOTS) /* of a rank */

static size_t round_up(size_t nbytes, size_t to)
{
    return (nbytes + to - 1) / to * to;
}

/* Returns the bytes of an area, which must hold two counts for each rank (counts.c), and
 * at its end two words for each (exposed.c). */
static size_t small_nbytes(const struct symc_host_settings *settings, int size)
{
    size_t counts = 2 * sizeof(uint64_t) * (size_t)size;
    size_t wanted = settings->small_max;

    if (wanted < SYMC_SMALL_MIN)
        wanted = SYMC_SMALL_MIN;
    if (wanted < counts)
        wanted = counts;
    return round_up(wanted + counts, SYMC_FALSE_SHARING);
}

/* Returns the least bytes of a slot: a cache line for each rank (reduce_scatter). */
static size_t least_chunk(int size)
{
    return round_up((size_t)size * SYMC_LINE, PAGE);
}

static size_t chunk_nbytes(const struct symc_host_settings *settings, int size)
{
    size_t wanted = round_up(settings->chunk, PAGE), least = least_chunk(size);

    return wanted > least ? wanted : least;
}

/* Returns the bytes of a slot that the members have agreed on. */
static size_t agreed_chunk(
    const struct symc_host_settings *settings, const struct symc_peers *peers)
{
    size_t wanted = chunk_nbytes(settings, peers->size);
    size_t agreed = peers->staging_nbytes / STAGED_CHUNKS / PAGE * PAGE;

    return agreed < wanted ? agreed : wanted;
}

static void lay_out(const struct symc_settings *settings, int size,
    struct symc_backend_layout *layout)
{
    struct symc_host_settings mine = symc_host_settings_get(settings);

    layout->channel =
        sizeof(struct symc_channel) + SYMC_AREAS * small_nbytes(&mine, size);
    layout->staging = STAGED_CHUNKS * chunk_nbytes(&mine, size);
    layout->staging_least = STAGED_CHUNKS * least_chunk(size);
}

static symmcoll_status_t probe(const struct symc_peers *peers)
{
    if (peers->size < 2)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "host: expected two ranks or more on this machine, found %d",
            peers->size);
    for (int r = 0; r < peers->size; r++) {
        if (peers->doorbells[r] == NULL)
            return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
                "host: expected all members on this machine, found member %d on "
                "another",
                r);
    }
    return SYMMCOLL_OK;
}

static void close_host(void *state)
{
    struct symc_host *host = state;

    if (host == NULL)
        return;
    free(host->channels);
    free(host->staging);
    free(host->doorbells);
    free(host->sources);
    free(host->factors);
    free(host->missing);
    free(host->parts);
    free(host->exposed);
    free(host->scratch);
    free(host);
}

static bool allocate(struct symc_host *host, size_t size)
{
    host->channels = symc_alloc(size, sizeof(*host->channels));
    host->staging = symc_alloc(size, sizeof(*host->staging));
    host->doorbells = symc_alloc(size, sizeof(*host->doorbells));
    host->sources = symc_alloc(size, sizeof(*host->sources));
    host->factors = symc_alloc(size, sizeof(*host->factors));
    host->missing = symc_alloc(size, sizeof(*host->missing));
    host->parts = symc_alloc(size, sizeof(*host->parts));
    host->exposed = symc_alloc(size, sizeof(*host->exposed));
    host->scratch = symc_alloc(host->small, 1);
    return host->channels != NULL && host->staging != NULL &&
           host->doorbells != NULL && host->sources != NULL &&
           host->factors != NULL && host->missing != NULL &&
           host->parts != NULL && host->exposed != NULL &&
           host->scratch != NULL;
}

static symmcoll_status_t open_host(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct symc_host_settings settings = symc_host_settings_get(core->settings);
    struct symc_host *host = symc_alloc(1, sizeof(*host));

    if (host == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    host->small = small_nbytes(&settings, peers->size);
    if (!allocate(host, (size_t)peers->size)) {
        close_host(host);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    if (agreed_chunk(&settings, peers) < least_chunk(peers->size)) {
        close_host(host);
        return core->fail(SYMMCOLL_ERR_INTERNAL,
            "host: expected staging of %zu bytes or more, found %zu",
            STAGED_CHUNKS * least_chunk(peers->size), peers->staging_nbytes);
    }
    host->core = core;
    host->rank = peers->rank;
    host->size = peers->size;
    host->threads = peers->threads;
    host->settings = settings;
    host->chunk = agreed_chunk(&settings, peers);
    for (int r = 0; r < peers->size; r++) {
        host->channels[r] = peers->channels[r];
        host->staging[r] = peers->staging[r];
        host->doorbells[r] = peers->doorbells[r];
    }
    host->channels[host->rank]->geometry =
        (struct symc_geometry){.small = settings.small_max,
            .chunk = chunk_nbytes(&settings, peers->size),
            .direct = settings.direct,
            .reduce_run = (uint64_t)settings.reduce_run};
    *state = host;
    return SYMMCOLL_OK;
}

static symmcoll_status_t start(void *state, const struct symc_op *op)
{
    struct symc_host *host = state;
    const struct symc_algorithm *algorithm =
        symc_host_select(&host->settings, host->threads, false, host->size, op);
    symmcoll_status_t status;

    host->budget = (struct symc_wait_budget){.timeout_ns = op->timeout_ns};
    host->resumable = algorithm != NULL ? algorithm->resumable : NULL;
    if (algorithm != NULL)
        status = algorithm->run(host, op);
    else
        status = host->core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: the host backend has no algorithm for it",
            symc_kind_name(op->kind));
    if (__builtin_expect(status == SYMC_MISSED, 0))
        symc_host_pass_missed(host);
    if (__builtin_expect(status == SYMMCOLL_IN_PROGRESS, 0))
        symc_host_defer(host, op);
    else
        symc_host_finish(host, op);
    return status;
}

/* Finds the last operation that a member has begun. */
static uint64_t find_begun(const struct symc_host *host, int member)
{
    uint64_t latest = 0;

    for (int i = 0; i < SYMC_LINES; i++) {
        uint64_t seq = atomic_load_explicit(
            &host->channels[member]->headers[i].seq, memory_order_acquire);

        if (seq > latest)
            latest = seq;
    }
    return latest;
}

static bool is_settled(void *state, uint64_t *until)
{
    const struct symc_host *host = state;
    const struct symc_core *core = host->core;
    uint64_t all;

    if (*until == 0)
        *until = find_begun(host, host->rank);
    all = *until;
    for (int r = 0; r < host->size; r++) {
        uint64_t begun = find_begun(host, r);

        if (begun < all)
            all = begun;
    }
    for (int r = 0; r < host->size; r++) {
        if (atomic_load_explicit(
                &host->channels[r]->done, memory_order_acquire) < all &&
            (r == host->rank || !core->gone(core->group, r)))
            return false;
    }
    return true;
}

static const struct symc_host_ops operations = {.start = start,
    .settled = is_settled,
    .issue = symc_host_issue,
    .advance = symc_host_advance,
    .give_up = symc_host_give_up,
    .await_progress = symc_host_await_progress};

extern const struct symc_backend symc_host_backend;
const struct symc_backend symc_host_backend = {
    .name = "host",
    .priority = 10,
    .layout = lay_out,
    .probe = probe,
    .open = open_host,
    .close = close_host,
    .host = &operations,
};
