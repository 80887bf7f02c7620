/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/gpu/nccl_exchange.h"
#include "t/gpu/gpu.h"
#include "t/nccl/named.h"
#include "t/ranks.h"
#include "t/tap.h"

#include "cuda/nccl/nccl.h"
#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SHARES SYMC_NCCL_CODE(2, 30, 0) /* what lets ranks share a device */

/* State in memory shared by all processes. */
struct found {
    bool can_share;                /* NCCL accepts ranks that share a device */
    char refusal[SYMC_DETAIL_MAX]; /* of NCCL; "": none */
};
static struct found *found;

/* Runs in a new process, because a process that has loaded NCCL may not
 * fork. */
static int find_version(void)
{
    const char *path = getenv("SYMMCOLL_CUDA_NCCL");
    const struct symc_nccl *nccl;

    found->can_share =
        symc_nccl_load(symc_fail, path != NULL ? path : SYMC_NCCL_LIBRARY,
            &nccl) == SYMMCOLL_OK &&
        nccl->version >= SHARES;
    return 1;
}

void exchange_settle(int rank)
{
    char name[32];

    if (found->can_share) {
        setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
        setenv("NCCL_MAX_CTAS", "4", 1);
        return;
    }
    (void)snprintf(name, sizeof(name), "machine-%d", rank);
    setenv("NCCL_HOSTID", name, 1);
}

void exchange_find_nccl(void)
{
    if (gpu_is_rehearsal())
        name_nccl();
    found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        abort();
    (void)process_run(find_version);
}

void exchange_share_device(void)
{
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
    setenv("SYMMCOLL_CUDA_NCCL_SHARED", "on", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MAX_CTAS", "4", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
}

/* ---- exchanges ---- */

/* Returns the number of elements from one rank to another; none, few, or
 * many. */
static size_t count(int from, int to, int round)
{
    size_t few = (size_t)(from * 3 + to * 5 + round * 7) % 11;

    return round % 2 == 0 ? few : few * 601;
}

static uint32_t element(int from, int to, size_t i)
{
    return (uint32_t)from << 28 | (uint32_t)to << 24 | (uint32_t)i;
}

void exchange_begin(struct exchange *it, struct symmcoll_group *group, int rank)
{
    exchange_settle(rank);
    device_use(rank);
    *it = (struct exchange){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .stream = device_stream(),
        .in = device_alloc(sizeof(it->host)),
        .out = device_alloc(sizeof(it->host))};
}

int exchange_finish(struct exchange *it, int right)
{
    GPU_CHECK(cuCtxSynchronize());
    device_end_stream(it->stream);
    device_free(it->in);
    device_free(it->out);
    return right;
}

void exchange_enter(struct exchange *it, struct symmcoll_group *group)
{
    it->group = group;
    it->rank = symmcoll_group_rank(group);
    it->size = symmcoll_group_size(group);
}

void exchange_prepare(struct exchange *it, int round)
{
    it->nsent = it->nreceived = 0;
    for (int r = 0; r < it->size; r++) {
        it->sent[r] = count(it->rank, r, round);
        it->received[r] = count(r, it->rank, round);
        for (size_t i = 0; i < it->sent[r]; i++)
            it->host[it->nsent + i] = element(it->rank, r, i);
        it->nsent += it->sent[r];
        it->nreceived += it->received[r];
    }
    device_write(it->in, it->host, it->nsent * sizeof(it->host[0]));
    memset(it->host, 0xa5, sizeof(it->host));
    device_write(it->out, it->host, sizeof(it->host));
}

symmcoll_status_t exchange_call(
    struct exchange *it, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = it->stream;
    call.label = "the exchange";
    return symmcoll_all_to_all_v(it->group, it->out, it->nreceived,
        it->received, it->in, it->nsent, it->sent, SYMMCOLL_UINT32, &call,
        work);
}

int exchange_has_nccl(const struct symmcoll_group *group)
{
    const struct symc_refusal *lack =
        &group->runner.slots[SYMC_MEMORY_DEVICE].lack;

    if (lack->status == SYMMCOLL_OK)
        return 1;
    diag("expected an exchange by NCCL, found: %s", lack->reason);
    return 0;
}

int exchange_has_come(struct exchange *it, int round)
{
    size_t at = 0, wrong = 0;

    device_wait(it->stream);
    device_read(it->host, it->out, sizeof(it->host));
    for (int r = 0; r < it->size; r++)
        for (size_t i = 0; i < it->received[r]; i++)
            wrong += it->host[at++] != element(r, it->rank, i);
    while (at < EXCHANGE_ROOM)
        wrong += it->host[at++] != 0xa5a5a5a5;
    if (wrong > 0)
        diag("round %d: %zu elements are wrong", round, wrong);
    return wrong == 0;
}

int exchange_once(struct exchange *it, int round)
{
    exchange_prepare(it, round);
    return say(exchange_call(it, NULL) == SYMMCOLL_OK, "an exchange") &&
           exchange_has_nccl(it->group) && exchange_has_come(it, round);
}

/* ---- ranks connected by NCCL ---- */

/* Returns whether a failure is NCCL's refusal: any error while it creates the
 * communicator of a rank; a timeout is none. */
static bool is_refusal(const char *detail)
{
    return strstr(detail, "ncclCommInitRankConfig on rank ") != NULL &&
           strstr(detail, ": NCCL error ") != NULL;
}

static int ask(struct symmcoll_group *group, int rank)
{
    const struct symc_refusal *lack;
    struct exchange it;
    symmcoll_status_t status;

    exchange_begin(&it, group, rank);
    exchange_prepare(&it, 0);
    status = exchange_call(&it, NULL);
    lack = &group->runner.slots[SYMC_MEMORY_DEVICE].lack;
    if (rank == 0 && lack->status != SYMMCOLL_OK && is_refusal(lack->reason))
        (void)snprintf(found->refusal, SYMC_DETAIL_MAX, "%s", lack->reason);
    return exchange_finish(&it, say(status == SYMMCOLL_OK, "an exchange") &&
                                    exchange_has_nccl(group) &&
                                    exchange_has_come(&it, 0));
}

bool exchange_is_connected(int n, const char **refusal)
{
    bool right;

    found->refusal[0] = '\0';
    right = ranks_run(n, ask);
    *refusal = !right && found->refusal[0] != '\0' ? found->refusal : NULL;
    return right;
}
