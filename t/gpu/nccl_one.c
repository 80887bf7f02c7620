/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests NCCL with one rank (level 3), called as lib/cuda calls it; no group of
 * one does, since it would not benefit: a communicator with a config, every
 * collective, every reduction of every type, a window, an abort. A rehearsal
 * uses the stand-in.
 */
#include "cuda/device_parts.h"
#include "cuda/memory.h"
#include "cuda/nccl/nccl_state.h"
#include "t/cuda/members.h"
#include "t/gpu/gpu.h"
#include "t/nccl/named.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT ((size_t)5003)
#define ROOM (COUNT * 8) /* bytes */
#define WAIT_NS (30 * SYMC_NS_PER_S)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- a group of one ---- */

static symmcoll_status_t gather(
    void *group, const void *mine, void *all, size_t nbytes)
{
    (void)group;
    memcpy(all, mine, nbytes);
    return SYMMCOLL_OK;
}

static bool failed(void *group, int member)
{
    (void)group;
    (void)member;
    return false;
}

static int64_t now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * SYMC_NS_PER_S + at.tv_nsec;
}

static enum symc_wait_end doze(void *group, const _Atomic uint64_t *word,
    uint64_t target, int member, struct symc_wait_budget *budget)
{
    (void)group;
    (void)word;
    (void)target;
    (void)member;
    while (now() < budget->deadline_ns)
        usleep(20);
    return SYMC_WAIT_EXPIRED;
}

/* Discards log lines; leftovers of a communicator are detected at the
 * program's end. */
static void keep_quiet(
    void *group, enum symc_log_level level, const char *format, ...)
{
    (void)group;
    (void)level;
    (void)format;
}

static _Atomic int communicators; /* counted by the backend */
static const struct symc_ranks ranks;
static const struct symc_core core = {.name = "one",
    .ranks = &ranks,
    .fail = symc_fail,
    .log = keep_quiet,
    .gather = gather,
    .communicators = &communicators,
    .failed = failed,
    .wait = doze,
    .now = now};

static const struct symc_cuda *cuda;
static const struct symc_nccl *nccl;
static struct symc_cuda_comm *comm;
static CUstream stream;
static char *in, *out; /* of the device, ROOM bytes each */

static int fine(symmcoll_status_t status, const char *what)
{
    if (status == SYMMCOLL_OK)
        return 1;
    diag("%s: %s", what, symmcoll_last_error());
    return 0;
}

static int open_comm(void)
{
    struct symc_nccl_config config;

    symc_nccl_config_init(nccl, &config);
    config.min_ctas = 1;
    config.max_ctas = 4;
    config.cga_cluster_size = 0;
    config.cta_policy = nccl->version >= SYMC_NCCL_CODE(2, 27, 0)
                            ? SYMC_NCCL_EFFICIENCY
                            : SYMC_NCCL_UNDEFINED;
    /* The thread that ends it calls in no context: its own device is 0. */
    return fine(symc_cuda_comm_open(nccl, &config, &core,
                    (struct symc_cuda_where){.context = NULL},
                    symc_cuda_until(&core, WAIT_NS), 0, 1, &comm),
        "a comm");
}

static int close_comm(int right)
{
    symc_cuda_comm_close(comm, WAIT_NS);
    comm = NULL;
    return right;
}

/* ---- collectives ---- */

static const struct {
    enum symmcoll_dtype dtype;
    enum symc_nccl_type type;
    uint16_t nbytes;
    bool is_float;
} types[] = {{SYMMCOLL_INT8, SYMC_NCCL_INT8, 1, false},
    {SYMMCOLL_UINT8, SYMC_NCCL_UINT8, 1, false},
    {SYMMCOLL_INT32, SYMC_NCCL_INT32, 4, false},
    {SYMMCOLL_UINT32, SYMC_NCCL_UINT32, 4, false},
    {SYMMCOLL_INT64, SYMC_NCCL_INT64, 8, false},
    {SYMMCOLL_UINT64, SYMC_NCCL_UINT64, 8, false},
    {SYMMCOLL_FLOAT16, SYMC_NCCL_FLOAT16, 2, true},
    {SYMMCOLL_BFLOAT16, SYMC_NCCL_BFLOAT16, 2, true},
    {SYMMCOLL_FLOAT32, SYMC_NCCL_FLOAT32, 4, true},
    {SYMMCOLL_FLOAT64, SYMC_NCCL_FLOAT64, 8, true}};

static unsigned char sent[ROOM], found[ROOM];

/* Runs a collective on one rank: it leaves its input, or twice that, which is
 * exact. */
static int collect(
    enum symc_kind kind, size_t t, enum symc_nccl_op reduction, bool scaled)
{
    const size_t nbytes = COUNT * types[t].nbytes;
    const struct symc_op op = {.kind = kind,
        .dtype = types[t].dtype,
        .count = COUNT,
        .out = out,
        .in = in,
        .elem = types[t].nbytes,
        .timeout_ns = WAIT_NS};
    const struct symc_cuda_elements elements = {.type = types[t].type,
        .op = reduction,
        .nbytes = types[t].nbytes,
        .scaled = scaled,
        .factor = 2};
    const struct symc_cuda_part part = {in, nbytes, out, nbytes};

    fill(types[t].dtype, sent, COUNT, 7);
    device_write(in, sent, nbytes);
    memset(found, 0xa5, nbytes);
    device_write(out, found, nbytes);
    if (!fine(symc_cuda_comm_collects(comm, &symc_kinds[kind], &op)
                  ? symc_cuda_comm_collect(
                        comm, &symc_kinds[kind], &op, elements, stream)
                  : symc_cuda_comm_exchange(comm, &op, &part, stream),
            symc_kind_name(kind)))
        return 0;
    device_wait(stream);
    device_read(found, out, nbytes);
    for (size_t i = 0; scaled && i < COUNT; i++) {
        if (types[t].nbytes == 4)
            ((float *)(void *)sent)[i] *= 2;
        else
            ((double *)(void *)sent)[i] *= 2;
    }
    if (memcmp(found, sent, nbytes) == 0)
        return fine(symc_cuda_comm_watch(comm), "its end");
    diag("%s of type %zu: other bits", symc_kind_name(kind), t);
    return 0;
}

static int all_kinds(void)
{
    static const enum symc_kind kinds[] = {SYMC_ALL_REDUCE, SYMC_REDUCE,
        SYMC_REDUCE_SCATTER, SYMC_ALL_GATHER, SYMC_BROADCAST, SYMC_ALL_TO_ALL,
        SYMC_GATHER, SYMC_SCATTER};
    int right = open_comm();

    for (size_t i = 0; i < LENGTH(kinds) && right; i++)
        for (size_t t = 0; t < LENGTH(types) && right; t++)
            right = collect(kinds[i], t, SYMC_NCCL_SUM, false);
    return close_comm(right);
}

/* Runs the reductions that the library requests. */
static int all_reductions(void)
{
    int right = open_comm();

    for (size_t t = 0; t < LENGTH(types) && right; t++) {
        if (types[t].is_float) {
            right = collect(SYMC_ALL_REDUCE, t, SYMC_NCCL_AVG, false);
            continue;
        }
        for (int op = SYMC_NCCL_SUM; op <= SYMC_NCCL_MIN && right; op++)
            right =
                collect(SYMC_ALL_REDUCE, t, (enum symc_nccl_op)op, false) &&
                collect(SYMC_REDUCE_SCATTER, t, (enum symc_nccl_op)op, false);
    }
    return close_comm(right);
}

static int factors(void)
{
    static const enum symc_kind kinds[] = {
        SYMC_ALL_REDUCE, SYMC_REDUCE, SYMC_REDUCE_SCATTER};
    int right = open_comm();

    for (size_t i = 0; i < LENGTH(kinds) && right; i++)
        for (size_t t = 0; t < LENGTH(types) && right; t++)
            if (types[t].is_float && types[t].nbytes > 2)
                right = collect(kinds[i], t, SYMC_NCCL_SUM, true);
    return close_comm(right);
}

/* ---- a window ---- */

static symmcoll_status_t register_window(
    const struct symc_cuda_physical *memory, struct symc_nccl_window **window)
{
    uint32_t busy;
    symmcoll_status_t status;

    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommWindowRegister";
    status = symc_cuda_comm_judge(comm,
        nccl->comm_window_register(comm->made, (void *)(uintptr_t)memory->at,
            memory->nbytes, window, SYMC_NCCL_WINDOW_SYMMETRIC));
    pthread_mutex_unlock(&comm->lock);
    return status < 0 ? status
                      : symc_cuda_comm_await_all(
                            comm, symc_cuda_until(&core, WAIT_NS), &busy);
}

static int collect_in(const struct symc_cuda_physical *memory)
{
    char *const plain[] = {in, out};
    int right;

    in = (char *)(uintptr_t)memory->at;
    out = in + memory->nbytes / 2;
    right = collect(SYMC_ALL_GATHER, 2, SYMC_NCCL_SUM, false) &&
            collect(SYMC_ALL_TO_ALL, 2, SYMC_NCCL_SUM, false) &&
            collect(SYMC_ALL_REDUCE, 8, SYMC_NCCL_SUM, false);
    in = plain[0];
    out = plain[1];
    return right;
}

static int windows(void)
{
    struct symc_cuda_log log = {.cuda = cuda};
    struct symc_cuda_physical memory = {.nbytes = 0};
    struct symc_nccl_window *window = NULL;
    struct symc_cuda_context context;
    int right;

    if (!fine(symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context),
            "device"))
        return 0;
    right =
        open_comm() &&
        fine(symc_cuda_physical_create(&context, symc_fail,
                 SYMC_CUDA_SHARE_DESCRIPTOR, 4 * ROOM, "a window", &memory),
            "memory") &&
        fine(symc_cuda_physical_map(&context, symc_fail, "a window", &memory),
            "its addresses") &&
        fine(register_window(&memory, &window), "a window") &&
        collect_in(&memory);
    if (window != NULL)
        right = nccl->comm_window_deregister(comm->made, window) ==
                    SYMC_NCCL_SUCCESS &&
                right;
    right = close_comm(right);
    symc_cuda_physical_free(&log, &memory);
    symc_cuda_context_close(&context);
    return right;
}

/* ---- an abort ---- */

static int aborts(void)
{
    const size_t nbytes = COUNT * 4;
    const struct symc_op op = {
        .kind = SYMC_ALL_TO_ALL_V, .timeout_ns = WAIT_NS};
    const struct symc_cuda_part part = {in, nbytes, out, nbytes};
    struct gpu_stall stall;
    int right = open_comm();

    gpu_stall(&stall, stream);
    right = right &&
            fine(symc_cuda_comm_exchange(comm, &op, &part, stream), "a call");
    symc_cuda_comm_abort(comm);
    gpu_resume(&stall);
    device_wait(stream);
    gpu_stall_free(&stall);
    right = ended(symc_cuda_comm_exchange(comm, &op, &part, stream),
                SYMMCOLL_ERR_ABORTED, "found one that was aborted") &&
            right;
    return close_comm(right);
}

int main(void)
{
    const char *path = "libnccl.so.2";

    gpu_begin(200);
    if (gpu_is_rehearsal()) {
        name_nccl();
        path = getenv("SYMMCOLL_CUDA_NCCL");
    }
    if (symc_nccl_load(symc_fail, path, &nccl) != SYMMCOLL_OK)
        skip_all("%s", symmcoll_last_error());
    cuda = gpu_open();
    stream = device_stream();
    in = device_alloc(ROOM);
    out = device_alloc(ROOM);
    ok(all_kinds(), "every collective, of every type");
    ok(all_reductions(), "every reduction");
    ok(factors(), "sums with a factor");
    if (nccl->version >= SYMC_NCCL_CODE(2, 28, 0) &&
        nccl->comm_window_register != NULL)
        ok(windows(), "a window is made, used and ended");
    else
        skip(1, "expected NCCL 2.28 or later");
    ok(aborts(), "an abort ends a communicator whose stream stands still");
    device_free(in);
    device_free(out);
    device_end_stream(stream);
    return done_testing();
}
