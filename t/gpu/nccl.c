/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL on a device: with one rank through the whole of a group's call (level 3; what
 * a group of one asks NCCL for is little, and the rest is in nccl_one.c), and with two
 * processes that share the device (level 4): NCCL 2.30 or later is told to allow that,
 * an older one takes them for two machines and connects them over the loopback
 * network; where it refuses that, with its reason, these are skipped.  A rehearsal has
 * the stand-in for NCCL.
 */
#include "t/cuda/members.h"
#include "t/gpu/ranks.h"
#include "t/gpu/standing.h"
#include "t/nccl/named.h"
#include "t/world/others.h"

#include "cuda/nccl.h"
#include "group/group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define RANKS 2 /* at most */
#define VICTIM 1
#define ROOM 16384 /* elements of a buffer */

#define SHARES SYMC_NCCL_CODE(2, 30, 0) /* what lets ranks share a device */

/* In memory of all processes. */
struct found {
    bool can_share; /* NCCL can be told that ranks share a device */
    char refusal[SYMC_DETAIL_MAX]; /* of NCCL; "": none */
};
static struct found *found;

/* In a process of its own, for that which loads NCCL may not fork any more. */
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

/* Before NCCL has looked at its variables: a rank has the device with others, or is
 * on a machine of its own, as far as NCCL knows. */
static void settle(int rank)
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

/* ---- exchanges, which are NCCL's whatever their size, where there is one ---- */

struct exchange {
    struct symmcoll_group *group;
    int rank, size;
    CUstream stream;
    uint32_t *in, *out; /* of the device */
    size_t sent[RANKS], received[RANKS], nsent, nreceived;
    uint32_t host[ROOM];
};

/* Elements that one has for another; none, few, or many. */
static size_t count(int from, int to, int round)
{
    size_t few = (size_t)(from * 3 + to * 5 + round * 7) % 11;

    return round % 2 == 0 ? few : few * 601;
}

static uint32_t element(int from, int to, size_t i)
{
    return (uint32_t)from << 28 | (uint32_t)to << 24 | (uint32_t)i;
}

static void begin(struct exchange *it, struct symmcoll_group *group, int rank)
{
    settle(rank);
    device_use(rank);
    *it = (struct exchange){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .stream = device_stream(),
        .in = device_alloc(sizeof(it->host)),
        .out = device_alloc(sizeof(it->host))};
}

static int finish(struct exchange *it, int right)
{
    standing_await();
    device_end_stream(it->stream);
    device_free(it->in);
    device_free(it->out);
    return right;
}

static void prepare(struct exchange *it, int round)
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

static symmcoll_status_t call(struct exchange *it, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = it->stream;
    call.label = "the exchange";
    return symmcoll_all_to_all_v(it->group, it->out, it->nreceived,
        it->received, it->in, it->nsent, it->sent, SYMMCOLL_UINT32, &call,
        work);
}

/* Whether there is a communicator, without which kernels exchange. */
static int has_nccl(const struct exchange *it)
{
    const struct symc_refusal *lack =
        &it->group->slots[SYMC_MEMORY_DEVICE].lack;

    if (lack->status == SYMMCOLL_OK)
        return 1;
    diag("expected an exchange by NCCL, found: %s", lack->reason);
    return 0;
}

/* Whether all parts have come, and nothing after them. */
static int has_come(struct exchange *it, int round)
{
    size_t at = 0, wrong = 0;

    device_wait(it->stream);
    device_read(it->host, it->out, sizeof(it->host));
    for (int r = 0; r < it->size; r++)
        for (size_t i = 0; i < it->received[r]; i++)
            wrong += it->host[at++] != element(r, it->rank, i);
    while (at < ROOM)
        wrong += it->host[at++] != 0xa5a5a5a5;
    if (wrong > 0)
        diag("round %d: %zu elements are wrong", round, wrong);
    return wrong == 0;
}

static int exchange(struct exchange *it, int round)
{
    prepare(it, round);
    return say(call(it, NULL) == SYMMCOLL_OK, "an exchange") && has_nccl(it) &&
           has_come(it, round);
}

static int exchanges(struct symmcoll_group *group, int rank)
{
    struct exchange it;
    int right = 1;

    begin(&it, group, rank);
    for (int i = 0; i < gpu_choose(200, 20, 4) && right; i++)
        right = exchange(&it, i);
    return finish(&it, right);
}

/* Each group has a communicator of its own, which is ended with it. */
static int groups(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group = NULL;
    struct exchange it;
    int right = 1;

    begin(&it, all, rank);
    for (int i = 0; i < gpu_choose(3, 3, 2) && right; i++) {
        right = exchange(&it, 2 * i) && say(symmcoll_group_create(all->world,
                                                &args, &group) == SYMMCOLL_OK,
                                            "a group");
        if (!right)
            break;
        it.group = group;
        right = exchange(&it, 2 * i + 1);
        it.group = all;
        right =
            say(symmcoll_group_free(group) == SYMMCOLL_OK, "its end") && right;
    }
    return finish(&it, right);
}

/* ---- an abort, while NCCL's kernel waits in a stream that stands still ---- */

static void *resume_later(void *arg)
{
    const struct timespec pause = {.tv_sec = 1};

    nanosleep(&pause, NULL);
    gpu_resume(arg);
    return NULL;
}

static int aborted(struct symmcoll_group *group, int rank)
{
    const struct timespec moment = {.tv_nsec = 300000000};
    struct symmcoll_work *work = NULL;
    struct gpu_stall stall;
    struct exchange it;
    symmcoll_status_t status;
    pthread_t thread;
    int right;

    begin(&it, group, rank);
    right = exchange(&it, 1);
    prepare(&it, 1);
    gpu_stall(&stall, it.stream);
    if (!right ||
        !say(call(&it, &work) == SYMMCOLL_OK, "one that stands still") ||
        pthread_create(&thread, NULL, resume_later, &stall) != 0)
        return 0;
    nanosleep(&moment, NULL); /* NCCL has it then, or else it is not begun */
    symmcoll_group_abort(group, "enough");
    status = symmcoll_work_wait(work, 60);
    right = ended(status,
        status == SYMMCOLL_ERR_ABORTED ? status : SYMMCOLL_ERR_CANCELED,
        "enough");
    symmcoll_work_free(work);
    pthread_join(thread, NULL);
    standing_await();
    gpu_stall_free(&stall);
    return finish(&it, right);
}

/* ---- two ranks ---- */

/* Whatever error NCCL has for it, while it makes the communicator of any rank; that
 * it does not end is none. */
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

    begin(&it, group, rank);
    prepare(&it, 0);
    status = call(&it, NULL);
    lack = &group->slots[SYMC_MEMORY_DEVICE].lack;
    if (rank == 0 && lack->status != SYMMCOLL_OK && is_refusal(lack->reason))
        (void)snprintf(found->refusal, SYMC_DETAIL_MAX, "%s", lack->reason);
    return finish(&it, say(status == SYMMCOLL_OK, "an exchange") &&
                           has_nccl(&it) && has_come(&it, 0));
}

/* Those that move data or reduce integers, of so many bytes. */
static int collectives(struct symmcoll_group *group, int rank)
{
    static const enum symc_kind kinds[] = {SYMC_ALL_REDUCE, SYMC_REDUCE,
        SYMC_REDUCE_SCATTER, SYMC_ALL_GATHER, SYMC_GATHER, SYMC_SCATTER,
        SYMC_ALL_TO_ALL, SYMC_BROADCAST};
    const size_t counts[] = {2501, gpu_is_rehearsal() ? 5003 : 700001};
    int right = 1;

    settle(rank);
    device_use(rank);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && right; k++)
        for (size_t i = 0; i < 2 && right; i++) {
            const struct collective one = {.kind = kinds[k],
                .dtype = SYMMCOLL_INT32,
                .op = SUM,
                .count = counts[i],
                .root = 1};

            right = same_as_host(group, rank, &one);
        }
    return right;
}

static int lose_a_peer(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    struct gpu_stall stall;
    struct exchange it;

    if (!faults_init(self))
        return 1;
    begin(&it, self->group, self->rank);
    if (!exchange(&it, 1))
        return 1;
    prepare(&it, 1);
    if (self->rank == VICTIM)
        gpu_stall(&stall, it.stream);
    if (call(&it, &work) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_note(self, symmcoll_work_wait(work, FAULTS_WAIT_MAX));
    symmcoll_work_free(work);
    faults_reach(self, 2);
    (void)finish(&it, 1);
    return faults_finalize(self);
}

static void test_death(void)
{
    struct faults_job job;
    bool told;

    faults_begin();
    faults_start(&job, 2, lose_a_peer, NULL);
    told = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    told = others_await(&job, VICTIM, 2) && told;
    told = others_know_death(&job, VICTIM) && told;
    ok(faults_finish(&job, 1u << VICTIM) && told,
        "a process that is killed while NCCL waits for it: the other is told "
        "its name, and its stream ends");
    faults_end();
}

static void test_two(void)
{
    bool right;

    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_IB_DISABLE", "1", 1);
    setenv("SYMMCOLL_CUDA_NCCL_SHARED", "on", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MAX_CTAS", "4", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    right = ranks_run(2, ask);
    if (!right && found->refusal[0] != '\0') {
        skip(5, "NCCL does not connect two ranks of a device: %s",
            found->refusal);
        return;
    }
    ok(right, "NCCL connects two processes that share the device");
    on_processes(2, exchanges, "exchanges of parts of all sizes");
    on_processes(2, groups, "groups have communicators of their own");
    on_processes(2, collectives, "large collectives have the host's bits");
    test_death();
}

int main(void)
{
    gpu_begin(200);
    if (gpu_is_rehearsal())
        name_nccl();
    found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)process_run(find_version);
    on_processes(1, exchanges, "exchanges with itself");
    on_processes(1, groups, "communicators of groups, one after another");
    on_processes(1, aborted, "an abort ends what stands still");
    test_two();
    return done_testing();
}
