/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fused operations on devices that fail: arguments, memory, cuBLASLt,
 * and ranks that die or do not arrive. Every rank that called gets the cause,
 * no stream hangs, and if no rank was lost the group remains usable.
 */
#include "t/attempts.h"
#include "t/cuda/sums.h"
#include "t/fused/device_calls.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 3

/* ---- arguments ---- */

static int arguments(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    struct symmcoll_tensor kept;
    int right;

    fused_call_begin(&it, group, rank);
    kept = it.b;
    if (rank == VICTIM)
        it.b.shape[0]++;
    right = fused_calls_fail(&it, rank, SYMMCOLL_ERR_INVALID,
        "b 0: expected 3 rows, found 4", "rank 1 cannot go on: ");
    it.b = kept;
    if (rank == VICTIM)
        it.b.device = SYMMCOLL_HOST;
    right = right && fused_calls_fail(&it, rank, SYMMCOLL_ERR_INVALID,
                         "in device memory of device 1 as a is, found 0x",
                         "rank 1 cannot go on: ");
    it.b = kept;
    kept = it.a;
    if (rank == VICTIM)
        it.a.shape[1]--, it.b.shape[0]--;
    right = right && fused_calls_fail(&it, rank, SYMMCOLL_ERR_MISMATCH,
                         "rank 1 passed fused_", "rank 1 passed fused_");
    it.a = kept;
    it.b.shape[0] = FUSED_CALL_DEPTH;
    return fused_call_end(&it, right);
}

/* ---- addresses ---- */

/* Invalid memory: of the host, of another device, too short, at odd addresses,
 * and tensors with inconsistent attributes. */
enum wrong {
    HOST,
    OTHER,
    SHORT,
    ODD,
    HOST_SAID,
    OTHER_SAID,
    WRONGS
};

static const char *const found[WRONGS] = {
    "in device memory of device 1, found 0x",
    "in device memory of device 1, found 0x",
    "in device memory of device 1, found its last byte, 0x",
    "elements of float32 at a multiple of 4 bytes, found 0x",
    "in device memory of device 1 as a is, found 0x",
    "in device memory of device 1 as a is, found 0x"};
static const char *const places[WRONGS] = {" in host memory",
    " in device memory of device 2", "", "", " in host memory",
    " in device memory of device 2"};

#define PAGE ((size_t)4096)

/* Returns an invalid tensor that replaces one in the rank's memory. */
static struct symmcoll_tensor spoil(const struct symmcoll_tensor *tensor,
    enum wrong wrong, void *host, char *other, char *end)
{
    struct symmcoll_tensor made = *tensor;

    made.data = wrong == HOST || wrong == HOST_SAID ? host
                : wrong == SHORT                    ? end - sizeof(float)
                : wrong == ODD                      ? end - PAGE + 2
                                                    : other;
    if (wrong == HOST_SAID)
        made.device = SYMMCOLL_HOST;
    if (wrong == OTHER_SAID)
        made.device_index = 2;
    return made;
}

static int is_named(symmcoll_status_t status, int rank, const char *name,
    const char *named, enum wrong wrong, const void *at)
{
    char address[32];

    (void)snprintf(address, sizeof(address), "%p", at);
    if (rank != VICTIM)
        return made_says(
            status, SYMMCOLL_ERR_INVALID, "rank 1 cannot go on: INVALID");
    return made_says(status, SYMMCOLL_ERR_INVALID,
               wrong < HOST_SAID ? name : named) &&
           made_says(status, SYMMCOLL_ERR_INVALID, found[wrong]) &&
           made_says(status, SYMMCOLL_ERR_INVALID, places[wrong]) &&
           (wrong == SHORT || made_says(status, SYMMCOLL_ERR_INVALID, address));
}

static int addresses(struct symmcoll_group *group, int rank)
{
    const int rows = FUSED_CALL_ROWS * SIZE * SIZE;
    float *host = calloc((size_t)rows, FUSED_CALL_COLUMNS * sizeof(float));
    struct symmcoll_tensor b, out;
    struct fused_call it;
    char *other, *mine;
    int right = 1;

    fused_call_begin(&it, group, rank);
    device_use(rank + 1);
    other = device_alloc(PAGE);
    device_use(rank);
    mine = device_alloc(PAGE);
    b = it.b;
    out = it.b;
    out.shape[0] = rows;
    for (int i = 0; i < WRONGS && right; i++) {
        const enum wrong wrong = (enum wrong)i;

        if (rank == VICTIM)
            it.b = spoil(&b, wrong, host, other, mine + PAGE);
        right = is_named(fused_call_gather(&it), rank, "matmul: b 0: expected",
                    "matmul: expected b 0 ", wrong, it.b.data) &&
                is_named(fused_call_scatter(&it), rank, "scatter: b: expected",
                    "scatter: expected b 0 ", wrong, it.b.data);
        it.b = b;
        if (rank == VICTIM)
            it.out = spoil(&out, wrong, host, other, mine + PAGE);
        right = right &&
                is_named(fused_call_gather(&it), rank, "matmul: out: expected",
                    "matmul: expected out ", wrong, it.out.data);
        it.out.shape[0] = FUSED_CALL_ROWS;
        right = right && is_named(fused_call_scatter(&it), rank,
                             "scatter: out: expected", "scatter: expected out ",
                             wrong, it.out.data);
        it.out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    }
    right = fused_call_end(&it, right);
    device_free(mine);
    device_use(rank + 1);
    device_free(other);
    device_use(rank);
    free(host);
    return right;
}

/* Passes matrices in host memory on one rank. */
static int of_the_host(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    struct symmcoll_tensor a, b;
    int right;

    fused_call_begin(&it, group, rank);
    a = it.a, b = it.b;
    if (rank == VICTIM) {
        it.a = it.host;
        it.b = on_host(&b);
        it.call.stream = NULL;
    }
    right = fused_calls_fail(&it, rank, SYMMCOLL_ERR_MISMATCH,
        "in device memory", "in device memory");
    if (rank == VICTIM) {
        free(it.b.data);
        it.call.stream = device_stream();
    }
    it.a = a, it.b = b;
    return fused_call_end(&it, right);
}

/* ---- cuBLASLt and memory; each rank is a process ---- */

static struct fake_cublaslt *load_cublaslt(void)
{
    void *library = dlopen(getenv("SYMMCOLL_CUDA_CUBLASLT"), RTLD_NOW);

    return library != NULL ? dlsym(library, "fake_cublaslt") : NULL;
}

static int one_without_cublaslt(struct symmcoll_group *group, int rank)
{
    struct fake_cublaslt *lt = load_cublaslt();
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    if (rank == VICTIM)
        lt->create_status = 1;
    right = fused_calls_fail(&it, rank, SYMMCOLL_ERR_DEVICE, "cublasLtCreate",
        "rank 1 cannot go on: DEVICE");
    lt->create_status = 0;
    return fused_call_end(&it, right);
}

static int none_has_cublaslt(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    right = fused_calls_fail(
        &it, rank, SYMMCOLL_ERR_UNSUPPORTED, "cuda.cublaslt", "cuda.cublaslt");
    fused_call_free(&it);
    return right;
}

static int a_product_is_refused(struct symmcoll_group *group, int rank)
{
    struct fake_cublaslt *lt = load_cublaslt();
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    if (rank == VICTIM)
        lt->none = 1;
    right = fused_calls_fail(&it, rank, SYMMCOLL_ERR_UNSUPPORTED,
        "3] @ float32 [3, 5]", "rank 1 cannot go on: UNSUPPORTED");
    lt->none = 0;
    return fused_call_end(&it, right);
}

static int no_memory(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    right = OK(symmcoll_barrier(group, NULL, NULL));
    if (rank == VICTIM)
        fake_configure("fail=cuMemCreate:0:2");
    right = right && fused_calls_fail(&it, rank, SYMMCOLL_ERR_NO_MEMORY,
                         "cuMemCreate", "rank 1 cannot go on: NO_MEMORY");
    fake_configure("fail=cuMemCreate:0:0");
    fused_call_free(&it);
    return right;
}

/* Makes a call fail that creates the streams of products. */
static int names_the_call(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int right;

    fused_call_begin(&it, group, rank);
    right = OK(symmcoll_barrier(group, NULL, NULL));
    if (rank == VICTIM)
        fake_configure("fail=cuCtxGetStreamPriorityRange:0:400");
    right = right && fused_calls_fail(&it, rank, SYMMCOLL_ERR_DEVICE,
                         "cuCtxGetStreamPriorityRange for what is beside "
                         "products on device ",
                         "rank 1 cannot go on: DEVICE");
    fused_call_free(&it);
    return right;
}

/* ---- lost ranks ---- */

/* Checks the error of the call after a failed one: the cause, or that the
 * group has failed before with that cause. */
static bool is_told(const struct faults_job *job, int rank,
    symmcoll_status_t status, const char *text)
{
    const struct faults_note *note = faults_told(job, rank, 0);

    return faults_said(note,
        note->status == SYMMCOLL_ERR_ABORTED ? SYMMCOLL_ERR_ABORTED : status,
        text, NULL);
}

/* Records the error of the next call, after the stream has ended. */
static int lose_a_peer(struct faults_rank *self)
{
    const bool *gathers = self->arg;
    struct fused_call it;

    if (!faults_init(self))
        return 1;
    fused_call_begin(&it, self->group, self->rank);
    free(it.host.data);
    if (fused_call_gather(&it) != SYMMCOLL_OK)
        return 1;
    fused_call_drop(&it);
    device_wait(it.call.stream);
    if (self->rank == VICTIM)
        fake_stall(it.call.stream);
    if ((*gathers ? fused_call_gather(&it) : fused_call_scatter(&it)) !=
        SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    device_wait(it.call.stream);
    fused_call_drop(&it);
    faults_note(self, fused_call_gather(&it));
    faults_reach(self, 2);
    return faults_finalize(self);
}

static void test_death(bool gathers, const char *what)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, lose_a_peer, &gathers);
    told = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    told = others_await(&job, VICTIM, 2) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = is_told(&job, r, SYMMCOLL_ERR_PEER, "killed by SIGKILL") && told;
    ok(faults_finish(&job, 1u << VICTIM) && told, "%s", what);
}

static int miss_a_deadline(struct faults_rank *self)
{
    struct fused_call it;

    if (!faults_init(self))
        return 1;
    fused_call_begin(&it, self->group, self->rank);
    free(it.host.data);
    if (fused_call_gather(&it) != SYMMCOLL_OK)
        return 1;
    fused_call_drop(&it);
    device_wait(it.call.stream);
    if (self->rank == VICTIM)
        fake_stall(it.call.stream);
    it.call.timeout = *(const double *)self->arg;
    if (fused_call_scatter(&it) != SYMMCOLL_OK)
        return 1;
    it.call.timeout = -1;
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        fake_resume(it.call.stream);
    }
    device_wait(it.call.stream);
    fused_call_drop(&it);
    faults_note(self, fused_call_gather(&it));
    faults_reach(self, 1);
    return faults_finalize(self);
}

static bool deadline_names_peer(double seconds, void *arg)
{
    struct faults_job job;
    bool told;

    (void)arg;
    faults_start(&job, SIZE, miss_a_deadline, &seconds);
    told = others_await(&job, VICTIM, 1);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 1) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = is_told(&job, r, SYMMCOLL_ERR_TIMEOUT, "rank 1 did not come") &&
               told;
    return faults_finish(&job, 0) && told;
}

int main(void)
{
    on_device_begin("2");
    on_both(SIZE, arguments,
        "what one rank is refused for all are told, and the group goes on");
    on_both(SIZE, addresses,
        "memory elsewhere is an error with argument, address and both places");
    on_both(SIZE, of_the_host, "so are matrices of the host and of devices");
    ok(ranks_run(SIZE, one_without_cublaslt),
        "a rank that cannot have cuBLASLt: all are told, with its status");
    ok(ranks_run(SIZE, a_product_is_refused),
        "so where it refuses a product, with its shape");
    ok(ranks_run(SIZE, no_memory), "and where a device has no memory");
    ok(ranks_run(SIZE, names_the_call),
        "and where its driver fails, with the call");
    faults_begin();
    test_death(true,
        "a peer that dies while shards are gathered: streams end, its name");
    test_death(false,
        "a peer that dies while parts are exchanged: streams end, its name");
    ok(attempts_hold(deadline_names_peer, 0.5, NULL),
        "a deadline on the device names the peer for which kernels wait");
    faults_end();
    setenv("SYMMCOLL_CUDA_CUBLASLT", "", 1);
    ok(ranks_run(SIZE, none_has_cublaslt),
        "without cuBLASLt every rank is told what lacks");
    return done_testing();
}
