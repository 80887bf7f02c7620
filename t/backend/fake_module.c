/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend in a module, for the loader's test: every table with every
 * function. Each says through the core that it was called, and with what;
 * open() asks the core for everything it offers.  It links with the C library
 * alone.
 */
#include "backend/backend.h"

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
    char text[64];
    symmcoll_status_t status;

    if (fake == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake_module: state");
    fake->core = core;
    fake->size = peers->size;
    if (core->abi != SYMC_BACKEND_ABI || core->now() <= 0) {
        free(fake);
        return core->fail(SYMMCOLL_ERR_INTERNAL, "fake_module: a strange core");
    }
    NOTE(fake, "open %d of %d in %s", peers->rank, peers->size, core->name);
    if (core->setting(core->group, "host.reduce_run", text, sizeof(text)) &&
        !core->setting(core->group, "no.such", text, sizeof(text)))
        NOTE(fake, "setting %s", text);
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

static void lay_out(const struct symc_config *config, int size, size_t *channel,
    size_t *staging)
{
    (void)config;
    *channel = (size_t)size * 100;
    *staging = (size_t)size * 1000;
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

static symmcoll_status_t begin_batch(void *state)
{
    NOTE(state, "group_begin");
    return SYMMCOLL_OK;
}

static symmcoll_status_t end_batch(void *state)
{
    NOTE(state, "group_end");
    return SYMMCOLL_OK;
}

static symmcoll_status_t send_bytes(void *state, const void *data,
    size_t nbytes, int peer, int tag, void **token)
{
    NOTE(state, "send %zu %c to %d tag %d", nbytes, *(const char *)data, peer,
        tag);
    *token = state;
    return SYMMCOLL_IN_PROGRESS;
}

static symmcoll_status_t recv_bytes(
    void *state, void *data, size_t nbytes, int peer, int tag, void **token)
{
    NOTE(state, "recv %zu from %d tag %d", nbytes, peer, tag);
    memset(data, 'r', nbytes);
    *token = state;
    return SYMMCOLL_OK;
}

static const struct symc_coll_ops coll = {.start = start,
    .test = test,
    .cancel = cancel,
    .group_begin = begin_batch,
    .group_end = end_batch,
    .send = send_bytes,
    .recv = recv_bytes};

/* ---- symmetric memory ---- */

static symmcoll_status_t alloc(void *state, size_t nbytes, void **data)
{
    NOTE(state, "alloc %zu", nbytes);
    *data = state;
    return SYMMCOLL_OK;
}

static symmcoll_status_t rendezvous(void *state, void *data, void **handle)
{
    NOTE(state, "rendezvous %d", data == state);
    *handle = data;
    return SYMMCOLL_OK;
}

static symmcoll_status_t import(void *state, int fd, void **data)
{
    NOTE(state, "import %d", fd);
    *data = state;
    return SYMMCOLL_OK;
}

static symmcoll_status_t send_signal(
    void *state, void *handle, int peer, uint32_t channel)
{
    NOTE(state, "signal %d to %d channel %u", handle == state, peer, channel);
    return SYMMCOLL_OK;
}

static const struct symc_mem_ops mem = {.alloc = alloc,
    .rendezvous = rendezvous,
    .import = import,
    .signal = send_signal};

/* ---- arithmetic ---- */

static symmcoll_status_t copy(
    void *state, void *out, const void *in, size_t nbytes)
{
    NOTE(state, "copy %zu", nbytes);
    memcpy(out, in, nbytes);
    return SYMMCOLL_OK;
}

static symmcoll_status_t cast(void *state, void *out,
    enum symmcoll_dtype out_dtype, const void *in, enum symmcoll_dtype in_dtype,
    size_t count)
{
    NOTE(state, "cast %zu of %d to %d%s", count, (int)in_dtype, (int)out_dtype,
        out == in ? " in place" : "");
    return SYMMCOLL_OK;
}

static symmcoll_status_t scale(void *state, void *data,
    enum symmcoll_dtype dtype, size_t count, double factor)
{
    NOTE(state, "scale %zu of %d by %g%s", count, (int)dtype, factor,
        data == NULL ? " nowhere" : "");
    return SYMMCOLL_OK;
}

static symmcoll_status_t reduce(void *state, void *out, const void *const *in,
    int nin, enum symmcoll_dtype dtype, symmcoll_op_t op, size_t count)
{
    NOTE(state, "reduce %d times %zu of %d by %d%s", nin, count, (int)dtype,
        (int)op, in[0] == out ? " in place" : "");
    return SYMMCOLL_OK;
}

static symmcoll_status_t gemm(void *state, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, struct symmcoll_tensor *out)
{
    NOTE(state, "gemm %d %d %d", a->ndim, b->ndim, out->ndim);
    return SYMMCOLL_OK;
}

static symmcoll_status_t order(void *state, void *first, void *then)
{
    NOTE(state, "order %d %d", first == state, then == NULL);
    return SYMMCOLL_OK;
}

static const struct symc_compute_ops compute = {.copy = copy,
    .cast = cast,
    .scale = scale,
    .reduce = reduce,
    .gemm = gemm,
    .order = order};

/* ---- the life of a group ---- */

static symmcoll_status_t split(void *state, int color, int key, void **child)
{
    NOTE(state, "split %d %d", color, key);
    *child = state;
    return SYMMCOLL_OK;
}

static symmcoll_status_t shrink(
    void *state, const bool *survivors, void **child)
{
    NOTE(state, "shrink %d", survivors[0]);
    *child = state;
    return SYMMCOLL_OK;
}

static void abort_group(void *state)
{
    NOTE(state, "abort");
}

static void revoke_all(void *state)
{
    NOTE(state, "revoke");
}

static const struct symc_admin_ops admin = {.split = split,
    .shrink = shrink,
    .abort = abort_group,
    .revoke = revoke_all};

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {.abi = SYMC_BACKEND_ABI,
    .name = "fake_module",
    .priority = 1,
    .layout = lay_out,
    .probe = probe,
    .open = open_fake,
    .close = close_fake,
    .coll = &coll,
    .mem = &mem,
    .compute = &compute,
    .admin = &admin};
