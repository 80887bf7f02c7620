/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory that several groups have joined: each group has its own
 * words for signals and barriers, and a failed group leaves none in a state
 * that affects the next.
 */
#include "group/group.h"
#include "run/call.h"
#include "t/symm_mem/device.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <unistd.h>

#define NBYTES 1024
#define GROUPS 2
#define TIMES 20
#define PAUSE_US 100000 /* long enough for a barrier that passes too early */

/* A group that has joined the memory, with its own stream. */
struct member {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    CUstream stream;
    uint32_t **pads;
};

static bool begin_member(struct member *it, const struct joined *of)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;

    *it = (struct member){.stream = device_stream()};
    if (!OK(symmcoll_group_create(of->world, NULL, &it->group)) ||
        !OK(symmcoll_group_set_stream(it->group, it->stream)) ||
        !OK(symmcoll_symm_rendezvous(it->group, of->data, NULL, &it->handle)) ||
        !OK(symmcoll_symm_get_info(it->handle, &info)))
        return false;
    it->pads = (uint32_t **)(uintptr_t)info.pads;
    return HOLDS(info.buffers[of->rank] == of->data);
}

static bool end_member(struct member *it)
{
    symmcoll_status_t freed;

    device_wait(it->stream);
    symmcoll_symm_release(it->handle);
    /* On a busy machine the streams of a failed group may not end in time. */
    freed = symmcoll_group_free(it->group);
    device_end_stream(it->stream);
    return HOLDS(freed == SYMMCOLL_OK || freed == SYMMCOLL_ERR_DEVICE);
}

static bool meet(const struct joined *it)
{
    return OK(symmcoll_barrier(it->group, NULL, NULL));
}

/* ---- two groups at once ---- */

/* Writes a word to all, passes a barrier, and reads the word of the next
 * rank. */
static bool cross(const struct joined *it, const struct member *member,
    int which, uint32_t value, uint32_t *found)
{
    size_t at = 64 * (size_t)which;

    return OK(symmcoll_symm_write_value32(
               member->handle, it->rank, at, value)) &&
           OK(symmcoll_symm_barrier(member->handle, 0, -1)) &&
           OK(symmcoll_symm_get_data(
               member->handle, it->next, at, found, sizeof(*found))) &&
           OK(symmcoll_symm_barrier(member->handle, 0, -1));
}

/* Ranks use the groups in different orders. At first each rank delays another
 * one, so that one rank is in the barrier of one group while another is in
 * that of the other. */
static bool cross_all(const struct joined *it, struct member *members)
{
    uint32_t *found = device_alloc(GROUPS * sizeof(*found)), words[GROUPS];
    const struct member *late = &members[it->rank % GROUPS];
    bool right = true;

    for (uint32_t i = 1; i <= TIMES && right; i++) {
        if (i == 1)
            fake_stall(late->stream);
        for (int k = 0; k < GROUPS && right; k++) {
            int which = (it->rank + k) % GROUPS;

            right = cross(it, &members[which], which, i, &found[which]);
        }
        if (i == 1) {
            usleep(PAUSE_US);
            fake_resume(late->stream);
        }
        for (int k = 0; k < GROUPS; k++)
            device_wait(members[k].stream);
        device_read(words, found, sizeof(words));
        right = right && HOLDS(words[0] == i) && HOLDS(words[1] == i);
    }
    device_free(found);
    return right;
}

static int have_barriers_of_their_own(struct symmcoll_group *group, int rank)
{
    struct member members[GROUPS] = {{0}};
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);

    for (int i = 0; i < GROUPS && right; i++)
        right = begin_member(&members[i], &it);
    right = right && cross_all(&it, members);
    for (int i = 0; i < GROUPS; i++)
        right = end_member(&members[i]) && right;
    return end_joined(&it, right);
}

/* Returns the signal word of the previous rank, on the first channel. */
static uint32_t signal_of(const struct joined *it, const struct member *member)
{
    uint32_t word = 7;

    device_read(&word, &member->pads[it->rank][it->before], sizeof(word));
    return word;
}

static int have_signals_of_their_own(struct symmcoll_group *group, int rank)
{
    struct member one = {0}, other = {0};
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES) &&
                 begin_member(&one, &it) && begin_member(&other, &it) &&
                 HOLDS(one.pads[rank] != other.pads[rank]) &&
                 OK(symmcoll_symm_put_signal(one.handle, it.next, 0, -1));

    device_wait(one.stream);
    right = right && meet(&it) && HOLDS(signal_of(&it, &one) == 1) &&
            HOLDS(signal_of(&it, &other) == 0) && meet(&it) &&
            /* the signal of the first group has not been taken */
            OK(symmcoll_symm_put_signal(other.handle, it.next, 0, -1)) &&
            OK(symmcoll_symm_wait_signal(other.handle, it.before, 0, -1)) &&
            OK(symmcoll_symm_barrier(other.handle, 0, -1));
    device_wait(other.stream);
    right = right && HOLDS(signal_of(&it, &one) == 1) &&
            HOLDS(signal_of(&it, &other) == 0) &&
            OK(symmcoll_symm_wait_signal(one.handle, it.before, 0, -1));
    right = end_member(&one) && right;
    right = end_member(&other) && right;
    return end_joined(&it, right);
}

/* ---- one group after another ---- */

/* Only rank 1 enters a barrier, and it puts a signal that is never taken. */
static bool fails(const struct joined *it)
{
    struct member failed;
    symmcoll_status_t status = SYMMCOLL_OK;
    bool right = begin_member(&failed, it);

    if (it->rank == 1)
        right = right &&
                OK(symmcoll_symm_put_signal(failed.handle, 0, 0, -1)) &&
                OK(symmcoll_symm_barrier(failed.handle, 0, 0.3));
    for (double until = faults_now() + FAULTS_WAIT_MAX;
         right && status == SYMMCOLL_OK && faults_now() < until; faults_rest())
        status = symmcoll_group_error(failed.group);
    right = right && ended(status, SYMMCOLL_ERR_TIMEOUT, "symm_barrier of");
    return end_member(&failed) && right;
}

static int leaves_no_words(struct symmcoll_group *group, int rank)
{
    struct member next = {0};
    uint32_t *found, word = 0;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES) && fails(&it) &&
                 begin_member(&next, &it);

    right = right &&
            HOLDS(is_zero(next.pads[rank], (size_t)it.size * sizeof(word)));
    found = device_alloc(sizeof(*found));
    if (rank == 1)
        fake_stall(next.stream); /* the others wait for it */
    right = right && cross(&it, &next, 0, 9, found);
    usleep(PAUSE_US);
    if (rank == 1)
        fake_resume(next.stream);
    device_wait(next.stream);
    device_read(&word, found, sizeof(word));
    right = right && HOLDS(word == 9);
    device_free(found);
    right = end_member(&next) && right;
    return end_joined(&it, right);
}

/* Checks that a reused allocation of a pool has the same pads. */
static int keeps_pads_of_a_pool(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm_info info[2] = {
        SYMMCOLL_SYMM_INFO_INIT, SYMMCOLL_SYMM_INFO_INIT};
    struct symmcoll_symm_pool *pool = NULL;
    struct symmcoll_symm *handle = NULL;
    CUstream stream;
    bool right;

    device_use(rank);
    stream = device_stream();
    right = OK(symmcoll_group_set_stream(group, stream)) &&
            OK(symmcoll_symm_pool_create(world, &args, &pool));
    for (int i = 0; i < 2 && right; i++) {
        char *data = NULL;

        right = OK(symmcoll_symm_pool_alloc(pool, 300, (void **)&data)) &&
                OK(symmcoll_symm_rendezvous(group, data + 16, NULL, &handle)) &&
                OK(symmcoll_symm_get_info(handle, &info[i])) &&
                HOLDS(info[i].pads[rank] == info[0].pads[rank]) &&
                OK(symmcoll_symm_barrier(handle, 3, -1));
        device_wait(stream);
        symmcoll_symm_release(handle);
        right = OK(symmcoll_symm_free(world, data)) && right;
    }
    right = OK(symmcoll_symm_pool_free(pool)) && right;
    right = OK(symmcoll_group_set_stream(group, NULL)) && right;
    device_end_stream(stream);
    return right;
}

/* ---- no memory for the words ---- */

static int count_objects(void)
{
    return fake_live(FAKE_PHYSICAL) + fake_live(FAKE_MAPPED) +
           fake_live(FAKE_RESERVED) + fake_live(FAKE_ALLOCATED);
}

/* Checks that pads have no multicast address, because none is used. */
static int need_no_multicast(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    uint64_t before = fake_calls("cuMulticastCreate");
    struct symmcoll_symm_args args = device_args(rank);
    void *data = NULL;

    right =
        right && OK(symmcoll_symm_alloc(it.world, NBYTES, &args, &data)) &&
        OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
        HOLDS(fake_calls("cuMulticastCreate") == before + (rank == 0 ? 1 : 0));
    symmcoll_symm_release(handle);
    right = OK(symmcoll_symm_free(it.world, data)) && right;
    return end_joined(&it, right);
}

/* A driver call fails on rank 1, at different steps. */
static const struct {
    const char *fail, *found;
} steps[] = {{"fail=cuMemCreate:1:2", "rank 1: signal pads of "},
    {"fail=cuMemSetAccess:1:999", "rank 1: signal pads of "},
    {"fail=cuMemsetD32Async:1:999", "rank 1: signal pads of "},
    /* the data, then the pads; each rank maps its own first */
    {"fail=cuMemMap:2:999", "rank 1: "}, {"fail=cuMemMap:4:999", "rank 1: "},
    {"fail=cuMemMap:5:999", "rank 1: "},
    {"fail=cuMemExportToShareableHandle:2:999", "rank 1: "},
    {"fail=cuMemImportFromShareableHandle:2:999", "rank 1: "}};

static int tells_who_has_no_pads(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    void *data = NULL;

    for (size_t i = 0; i < LENGTH(steps) && right; i++) {
        struct symmcoll_symm_args args = device_args(rank);
        symmcoll_status_t status;
        int before, none = count_objects();

        right = OK(symmcoll_symm_alloc(it.world, NBYTES, &args, &data));
        before = count_objects();
        if (rank == 1)
            fake_configure(steps[i].fail);
        status = symmcoll_symm_rendezvous(group, data, NULL, &handle);
        right = right &&
                HOLDS(status == SYMMCOLL_ERR_DEVICE ||
                      status == SYMMCOLL_ERR_NO_MEMORY) &&
                refused(status, status, "symm_rendezvous: ", steps[i].found) &&
                HOLDS(count_objects() == before) && meet(&it) &&
                OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
                OK(symmcoll_symm_barrier(handle, 0, -1));
        if (!right)
            diag("rank %d: %s", rank, steps[i].fail);
        device_wait(it.stream);
        symmcoll_symm_release(handle);
        right = OK(symmcoll_symm_free(it.world, data)) && right;
        right = HOLDS(handle != NULL) && HOLDS(count_objects() == none) &&
                meet(&it) && right;
        handle = NULL;
    }
    return end_joined(&it, right);
}

/* ---- another thread that uses another device ---- */

#define ELSEWHERE 2 /* device of rank 0, the memory of which is on device 0 */

symmcoll_status_t __real_symc_slot_open(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_slot_memory *joins);
symmcoll_status_t __wrap_symc_slot_open(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_slot_memory *joins);

/* The runner of rank 0, before its device backend is opened. */
static _Atomic(struct symc_runner *) disturbed;

/* Opens the slot as a collective does, which then waits for the ticket. */
symmcoll_status_t __wrap_symc_slot_open(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_slot_memory *joins)
{
    struct symc_runner *expected = runner;
    bool first;
    int found;

    if (atomic_compare_exchange_strong(&disturbed, &expected, NULL) &&
        !symc_slot_take_device(runner, ELSEWHERE, &found, &first))
        diag("the group is on device %d", found);
    return __real_symc_slot_open(runner, op, joins);
}

static symmcoll_status_t sum_on(struct symmcoll_group *group, int device)
{
    CUstream stream;
    symmcoll_status_t status;
    void *at;

    device_use(device);
    stream = device_stream();
    at = device_alloc(64);
    status = symmcoll_group_set_stream(group, stream);
    if (status == SYMMCOLL_OK)
        status = symmcoll_all_reduce(
            group, at, at, 16, F32, SYMMCOLL_SUM, NULL, NULL);
    device_wait(stream);
    device_end_stream(stream);
    device_free(at);
    return status;
}

static int is_disturbed(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(device_use(rank));
    struct symmcoll_group *own = NULL;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right = OK(symmcoll_group_create(world, NULL, &own)) &&
                 OK(symmcoll_symm_alloc(world, NBYTES, &args, &data));

    if (rank == 0)
        atomic_store(&disturbed, &own->runner);
    right = right &&
            refused(symmcoll_symm_rendezvous(own, data, NULL, &handle),
                SYMMCOLL_ERR_INVALID, "rank 0: expected memory of device 2",
                "found memory of device 0") &&
            OK(symmcoll_group_error(own)) &&
            OK(sum_on(own, rank == 0 ? ELSEWHERE : rank)) &&
            OK(symmcoll_group_error(own));
    right = OK(symmcoll_symm_free(world, data)) && right;
    return OK(symmcoll_group_free(own)) && right;
}

int main(void)
{
    device_begin();
    on_both(2, have_barriers_of_their_own,
        "barriers of two groups on one allocation, in any order (S6, S26)");
    on_both(3, have_barriers_of_their_own, "the same of three ranks");
    on_both(2, have_signals_of_their_own,
        "signals of two groups on one allocation, and barriers (S6, S22)");
    on_both(2, leaves_no_words,
        "a group that has failed leaves no words for the next");
    on_both(2, keeps_pads_of_a_pool, "pads of a pool's, when it is used again");
    on_both(2, is_disturbed,
        "a call that takes another device before a rendezvous has opened it: "
        "that is refused, and the call is done");
    ok(ranks_run(2, tells_who_has_no_pads),
        "without memory for pads on one rank, all learn whose, and it works "
        "then");
    fake_configure("multicast=1");
    ok(ranks_run(3, need_no_multicast),
        "with multicast the data has such an address, pads have none");
    return done_testing();
}
