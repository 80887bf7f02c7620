/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in a module, for the loader's test: every table with every
 * function. Each says through the core that it was called, and with what;
 * open() asks the core for everything it offers.  It links with the C library
 * alone.
 */
#include "backend/backend.h"
#include "backend/interface.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake {
    const struct symc_core *core;
    int size;
};

/* One line in the log for each call. */
#define NOTE(state, ...)                                         \
    ((const struct fake *)(state))                               \
        ->core->log(((const struct fake *)(state))->core->group, \
            SYMC_LOG_DEBUG, __VA_ARGS__)

/* ---- opening: all that a core offers ---- */

/* Everybody's descriptor, by the one that was sent. */
static symmcoll_status_t exchange_pipes(const struct fake *fake)
{
    const struct symc_core *core = fake->core;
    int *fds = calloc((size_t)fake->size, sizeof(*fds));
    int ends[2];
    symmcoll_status_t status;

    if (fds == NULL || pipe(ends) != 0) {
        free(fds);
        return core->fail(SYMMCOLL_ERR_SYSTEM, "fake_module: no pipe");
    }
    status = core->exchange(core->group, ends[0], fds);
    for (int r = 0; status == SYMMCOLL_OK && r < fake->size; r++) {
        if (fds[r] < 0)
            status = core->fail(SYMMCOLL_ERR_INTERNAL,
                "fake_module: no descriptor of rank %d", r);
        else
            close(fds[r]);
    }
    close(ends[0]);
    close(ends[1]);
    free(fds);
    return status;
}

static symmcoll_status_t note_an_operation(const struct fake *fake)
{
    const struct symc_core *core = fake->core;
    struct symc_op op = {
        .kind = SYMC_BARRIER, .elem = 1, .seq = 1, .timeout_ns = SYMC_NS_PER_S};
    bool *missing = calloc((size_t)fake->size, sizeof(*missing));
    symmcoll_status_t expired, failure;

    core->record(core->group, &op);
    if (missing == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake_module: ranks");
    missing[0] = true;
    expired = core->expire(core->group, &op, missing);
    free(missing);
    if (!core->failed(core->group, -1))
        return core->fail(
            SYMMCOLL_ERR_INTERNAL, "fake_module: expired, and not failed");
    failure = core->failure(core->group, &op, -1);
    NOTE(fake, "expire %d failure %d", (int)expired, (int)failure);
    return SYMMCOLL_OK;
}

static symmcoll_status_t open_fake(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    symmcoll_status_t status;

    if (fake == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake_module: state");
    fake->core = core;
    fake->size = peers->size;
    if (core->now() <= 0) {
        free(fake);
        return core->fail(SYMMCOLL_ERR_INTERNAL, "fake_module: a strange core");
    }
    NOTE(fake, "open %d of %d in %s", peers->rank, peers->size, core->name);
    status = core->reserve(core->group);
    if (status == SYMMCOLL_OK)
        status = exchange_pipes(fake);
    if (status == SYMMCOLL_OK)
        status = note_an_operation(fake);
    if (status != SYMMCOLL_OK) {
        free(fake);
        return status;
    }
    *state = fake;
    return SYMMCOLL_OK;
}

static void close_fake(void *state)
{
    if (state != NULL)
        NOTE(state, "close");
    free(state);
}

static symmcoll_status_t probe(const struct symc_peers *peers)
{
    return peers->size > 0 ? SYMMCOLL_OK : SYMMCOLL_ERR_UNSUPPORTED;
}

static void lay_out(const struct symc_settings *settings, int size,
    struct symc_backend_layout *layout)
{
    (void)settings;
    layout->channel = (size_t)size * 100;
    layout->staging = (size_t)size * 1000;
    layout->staging_least = (size_t)size * 10;
}

/* ---- collectives ---- */

static symmcoll_status_t start(
    void *state, const struct symc_op *op, void **token)
{
    NOTE(state, "start %d of %zu", (int)op->kind, op->count);
    *token = state;
    return SYMMCOLL_IN_PROGRESS;
}

static symmcoll_status_t test(void *state, void *token)
{
    NOTE(state, "test %d", token == state);
    return SYMMCOLL_OK;
}

static void cancel(void *state, void *token)
{
    NOTE(state, "cancel %d", token == state);
}

static const struct symc_coll_ops coll = {
    .start = start, .test = test, .cancel = cancel};

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {
    .interface = SYMC_BACKEND_INTERFACE,
    .name = "fake_module",
    .priority = 1,
    .layout = lay_out,
    .probe = probe,
    .open = open_fake,
    .close = close_fake,
    .coll = &coll};
