/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests NCCL with processes that share the device, beyond a group's exchanges:
 * groups split from one that has a communicator, symmetric memory registered
 * with NCCL, and shrinking a group after a rank's death. Skipped with NCCL's
 * reason if it refuses to connect ranks of one device.
 */
#include "t/gpu/gpu.h"
#include "t/gpu/nccl_exchange.h"
#include "t/gpu/ranks.h"
#include "t/world/faults.h"

#include <stdlib.h>
#include <string.h>

#define VICTIM 1

/* ---- groups that are split ---- */

static int split(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    struct exchange it;
    int right;

    exchange_begin(&it, all, rank);
    right = exchange_once(&it, 1);
    for (int i = 0; i < 3 && right; i++) {
        if (!say(symmcoll_group_split(all, 0, -rank, NULL, &group) ==
                         SYMMCOLL_OK &&
                     symmcoll_group_rank(group) == it.size - 1 - rank,
                "a group in reverse order"))
            return 0;
        exchange_enter(&it, group);
        right = exchange_once(&it, 2 * i + 1);
        exchange_enter(&it, all);
        right = right && exchange_once(&it, 2 * i + 3);
        right =
            say(symmcoll_group_free(group) == SYMMCOLL_OK, "its end") && right;
    }
    return exchange_finish(&it, right);
}

/* ---- symmetric memory ---- */

#define OUT ((size_t)1 << 20) /* where results are in it */
#define ROOM (2 * OUT)

struct memory {
    struct symmcoll_group *group;
    bool own; /* the program's */
    char *at;
    struct symmcoll_symm *handle;
    CUstream stream;
};

static int make_memory(struct memory *memory, int device)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(memory->group);
    symmcoll_status_t status;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device;
    if (memory->own) {
        memory->at = device_alloc(ROOM);
        status = symmcoll_symm_register(world, memory->at, ROOM, &args);
    } else {
        status = symmcoll_symm_alloc(world, ROOM, &args, (void **)&memory->at);
    }
    memory->stream = device_stream();
    return say(status == SYMMCOLL_OK &&
                   symmcoll_symm_rendezvous(memory->group, memory->at, NULL,
                       &memory->handle) == SYMMCOLL_OK,
        "symmetric memory");
}

static int end_memory(struct memory *memory, int right)
{
    struct symmcoll_world *world = symmcoll_group_world(memory->group);
    symmcoll_status_t status;

    device_wait(memory->stream);
    symmcoll_symm_release(memory->handle);
    status = memory->own ? symmcoll_symm_deregister(world, memory->at)
                         : symmcoll_symm_free(world, memory->at);
    device_end_stream(memory->stream);
    if (memory->own)
        device_free(memory->at);
    return say(status == SYMMCOLL_OK, "its end") && right;
}

/* Runs a collective from the first half of the memory to the second, and
 * compares with host memory; the bytes after the result are unchanged. */
static int collect(
    const struct memory *memory, const struct collective *one, int round)
{
    static char sent[OUT], host[OUT], found[OUT];
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    const int size = symmcoll_group_size(memory->group);
    const int rank = symmcoll_group_rank(memory->group);
    const size_t nbytes = collective_in_nbytes(one, size);

    fill(one->dtype, sent, nbytes / sizeof(int32_t),
        (uint64_t)(round * size + rank) + 1);
    device_write(memory->at, sent, nbytes);
    memset(host, 0xa5, OUT);
    device_write(memory->at + OUT, host, OUT);
    call.stream = memory->stream;
    if (!say(collective_call(memory->group, one, memory->at + OUT, memory->at,
                 &call, NULL) == SYMMCOLL_OK &&
                 collective_call(memory->group, one, host, sent, NULL, NULL) ==
                     SYMMCOLL_OK,
            symc_kind_name(one->kind)))
        return 0;
    device_wait(memory->stream);
    device_read(found, memory->at + OUT, OUT);
    return say(memcmp(found, host, OUT) == 0, symc_kind_name(one->kind));
}

static int collects(struct symmcoll_group *group, int rank, bool own)
{
    static const enum symc_kind kinds[] = {
        SYMC_ALL_REDUCE, SYMC_ALL_GATHER, SYMC_REDUCE_SCATTER, SYMC_ALL_TO_ALL};
    struct memory memory = {.group = group, .own = own};
    int right;

    exchange_settle(rank);
    right = make_memory(&memory, device_use(rank));
    for (int i = 0; i < gpu_choose(20, 20, 2) && right; i++)
        for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds) && right; k++) {
            const struct collective one = {.kind = kinds[k],
                .dtype = SYMMCOLL_INT32,
                .op = SUM,
                .count = (size_t)gpu_choose(100001, 2501, 2501)};

            right = collect(&memory, &one, i) && exchange_has_nccl(group);
        }
    return end_memory(&memory, right);
}

static int in_symmetric(struct symmcoll_group *group, int rank)
{
    return collects(group, rank, false);
}

static int in_own(struct symmcoll_group *group, int rank)
{
    return collects(group, rank, true);
}

/* ---- the remainder of a group ---- */

struct plan {
    bool runs; /* an exchange, to which the victim does not come */
};

/* Exchanges twice, concurrently with pending work of the group. */
static bool exchanges_in(struct symmcoll_group *left, struct exchange *it)
{
    exchange_enter(it, left);
    return exchange_once(it, 1) && exchange_once(it, 3);
}

static int lose_one(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_group *left = NULL;
    struct symmcoll_work *work = NULL;
    struct exchange it, rest;
    bool right = true;

    if (!faults_init(self))
        return 1;
    exchange_begin(&it, self->group, self->rank);
    exchange_begin(&rest, self->group, self->rank);
    if (!exchange_once(&it, 1))
        return 1;
    exchange_prepare(&it, 1);
    if (plan->runs && self->rank != VICTIM &&
        exchange_call(&it, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (plan->runs)
        right = ended(symmcoll_work_wait(work, FAULTS_WAIT_MAX),
            SYMMCOLL_ERR_PEER, "rank 1");
    symmcoll_work_free(work);
    if (!say(symmcoll_group_shrink(self->group, NULL, &left, NULL) ==
                 SYMMCOLL_OK,
            "what is left"))
        return 1;
    right = exchanges_in(left, &rest) && right;
    right = exchange_finish(&rest, right) && right;
    right = exchange_finish(&it, right) && right;
    right = say(symmcoll_group_free(left) == SYMMCOLL_OK, "its end") && right;
    return faults_finalize(self) != 0 || !right;
}

static void test_loss(const struct plan *plan, const char *what)
{
    struct faults_job job;
    bool right;

    faults_start(&job, 3, lose_one, plan);
    right = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    faults_await_death(&job, VICTIM);
    faults_open(&job, 1);
    faults_reap(&job, 0);
    faults_reap(&job, 2);
    ok(faults_finish(&job, 1u << VICTIM) && right, "%s", what);
}

/* ---- the tests ---- */

static void test_two(void)
{
    const char *refusal;
    bool right = exchange_is_connected(2, &refusal);

    if (refusal != NULL) {
        skip(4, "NCCL does not connect two ranks of a device: %s", refusal);
        return;
    }
    ok(right, "NCCL connects two processes that share the device");
    setenv("SYMMCOLL_CUDA_NCCL_SPLIT", "on", 1);
    on_processes(2, split,
        "groups that are split from one with a communicator, and that one");
    unsetenv("SYMMCOLL_CUDA_NCCL_SPLIT");
    setenv("SYMMCOLL_CUDA_NCCL_WINDOWS", "on", 1);
    on_processes(2, in_symmetric,
        "collectives in windows of NCCL's have the host's bits");
    on_processes(2, in_own, "so have those in registered memory");
    unsetenv("SYMMCOLL_CUDA_NCCL_WINDOWS");
}

static void test_three(void)
{
    const char *refusal;
    bool right = exchange_is_connected(3, &refusal);

    if (refusal != NULL) {
        skip(4, "NCCL does not connect three ranks of a device: %s", refusal);
        return;
    }
    ok(right, "NCCL connects three processes that share the device");
    faults_begin();
    test_loss(&(struct plan){.runs = false},
        "what is left of a group after a death makes a communicator");
    setenv("SYMMCOLL_CUDA_NCCL_SHRINK", "on", 1);
    test_loss(&(struct plan){.runs = false}, "or shrinks the group's");
    test_loss(&(struct plan){.runs = true},
        "so it does when an exchange has lost its peer");
    faults_end();
}

int main(void)
{
    gpu_begin(200);
    exchange_find_nccl();
    exchange_share_device();
    test_two();
    test_three();
    return done_testing();
}
