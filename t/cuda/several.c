/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests several buffers on devices in one operation: which buffers form one,
 * and which calls are refused.
 */
#include "t/cuda/every.h"
#include "t/cuda/kernels.h"
#include "t/cuda/later.h"

#include "group/group.h"
#include "trace/view.h"

#include <stdlib.h>
#include <string.h>

#define SIZE 3
#define N 3
#define ROOM 64 /* floats of a buffer */

static const size_t counts[N] = {40, 0, 3};

/* The buffers of a rank on its device. */
struct several {
    struct symmcoll_group *group;
    int rank, size;
    CUstream stream;
    float *memory;
    void *outs[N];
    const void *ins[N];
    struct symmcoll_call call;
};

static void begin(struct several *it, struct symmcoll_group *group, int rank)
{
    float host[2 * N * ROOM];

    device_use(rank);
    *it = (struct several){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .stream = device_stream(),
        .memory = device_alloc(sizeof(host)),
        .call = SYMMCOLL_CALL_INIT};
    it->call.stream = it->stream;
    for (int i = 0; i < 2 * N * ROOM; i++)
        host[i] = (float)(rank + i);
    device_write(it->memory, host, sizeof(host));
    for (int i = 0; i < N; i++) {
        it->ins[i] = it->memory + (ptrdiff_t)i * ROOM;
        it->outs[i] = it->memory + (ptrdiff_t)(N + i) * ROOM;
    }
}

static int finish(const struct several *it, int right)
{
    device_wait(it->stream);
    device_end_stream(it->stream);
    device_free(it->memory);
    return right;
}

static symmcoll_status_t sum(struct several *it, struct symmcoll_work **work)
{
    return symmcoll_all_reduce_coalesced(
        it->group, it->outs, it->ins, counts, N, F32, SUM, &it->call, work);
}

/* Adds a buffer in a region. */
static symmcoll_status_t add(const struct several *it, int i)
{
    return symmcoll_all_reduce(
        it->group, it->outs[i], it->ins[i], counts[i], F32, SUM, NULL, NULL);
}

/* Checks that the sums are complete, or (!done) that no byte of the results
 * has changed. */
static int are_sums(const struct several *it, bool done)
{
    float host[2 * N * ROOM];

    device_wait(it->stream);
    device_read(host, it->memory, sizeof(host));
    for (int i = 0; i < N * ROOM; i++) {
        const bool is_sum = done && i % ROOM < (int)counts[i / ROOM];
        const float before = (float)(it->rank + N * ROOM + i),
                    all = (float)(it->size * i + it->size * (it->size - 1) / 2);

        if (host[N * ROOM + i] == (is_sum ? all : before))
            continue;
        diag("element %d is %g, not %g", i, (double)host[N * ROOM + i],
            (double)(is_sum ? all : before));
        return 0;
    }
    return 1;
}

static int fine(symmcoll_status_t status)
{
    return say(status == SYMMCOLL_OK, symmcoll_last_error());
}

/* ---- one operation ---- */

static int is_one(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct several it;
    int right;

    begin(&it, group, rank);
    right = fine(sum(&it, NULL)) &&
            say(symmcoll_group_sequence(group) == 1, "one number") &&
            are_sums(&it, true);
    right = right && fine(symmcoll_coalesce_begin(group)) &&
            fine(add(&it, 0)) && fine(add(&it, 1)) && fine(add(&it, 2)) &&
            say(symmcoll_group_sequence(group) == 1, "no operation yet") &&
            fine(symmcoll_coalesce_end(group, &it.call, &work)) &&
            fine(symmcoll_work_wait(work, 60)) &&
            say(symmcoll_group_sequence(group) == 2, "one number of a region");
    symmcoll_work_free(work);
    return finish(&it, right && are_sums(&it, true));
}

/* Checks the entry of the operation: it has the sizes of all buffers, and has
 * ended. */
static int is_recorded(struct symmcoll_group *group, int rank)
{
    const struct symc_trace_ring *ring = group->world->trace.ring;
    struct symc_trace_view view;
    struct several it;
    int right, entries = 0;

    begin(&it, group, rank);
    right = fine(sum(&it, NULL)) && are_sums(&it, true) &&
            fine(symmcoll_barrier(group, &it.call, NULL));
    right = right && symc_trace_view_open(&view, ring,
                         symc_trace_capacity_nbytes(ring->capacity)) >= 0;
    for (uint32_t slot = 0; right && slot < view.capacity; slot++) {
        uint64_t found[SYMC_TRACE_COUNTS] = {0};
        struct symc_trace_copy copy;

        if (!symc_trace_view_entry(&view, slot, &copy) ||
            copy.kind != SYMC_ALL_REDUCE_COALESCED)
            continue;
        entries++;
        right = say(copy.seq == 1 && copy.root == N && copy.count == 43 &&
                        copy.state == SYMC_TRACE_COMPLETED,
                    "the entry") &&
                say(symc_trace_view_counts(&view, &copy, found) &&
                        found[0] == 40 && found[1] == 0 && found[2] == 3,
                    "its sizes");
    }
    return finish(&it, right && say(entries == 1, "one entry"));
}

/* The last rank's stream is blocked at the call. An operation with a work
 * begins after earlier work of the stream, and later work of the stream
 * follows after a wait. */
static int is_ordered(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct several it;
    struct later later;
    bool stands = rank == SIZE - 1;
    int right;

    begin(&it, group, rank);
    right = fine(sum(&it, NULL));
    device_wait(it.stream);
    if (stands)
        fake_stall(it.stream);
    for (int i = 0; i < N; i++)
        cuMemsetD32Async((CUdeviceptr)(uintptr_t)it.ins[i], 0, ROOM, it.stream);
    right = fine(sum(&it, &work)) && right;
    if (stands)
        later_resume(&later, it.stream);
    right = fine(symmcoll_work_wait(work, -1)) && right;
    device_wait(it.stream);
    if (stands)
        right = later_end(&later) && right;
    symmcoll_work_free(work);
    for (int i = 0; i < N && right; i++) {
        float found[ROOM];

        device_read(found, it.outs[i], sizeof(found));
        for (size_t k = 0; k < counts[i]; k++)
            right = right && say(found[k] == 0, "what the stream had written");
    }
    return finish(&it, right);
}

/* Starts regions in a row: the arrays of a region belong to the library, which
 * has others while its work runs. */
static int regions_follow(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[8] = {NULL};
    struct several it;
    int right;

    begin(&it, group, rank);
    right = fine(sum(&it, NULL));
    device_wait(it.stream);
    fake_stall(it.stream);
    for (int w = 0; w < 8 && right; w++) {
        right = fine(symmcoll_coalesce_begin(group));
        for (int i = 0; i < N && right; i++)
            right = fine(add(&it, (i + w) % N));
        right =
            right && fine(symmcoll_coalesce_end(group, &it.call, &works[w]));
    }
    fake_resume(it.stream);
    for (int w = 7; w >= 0; w--) {
        right = right && fine(symmcoll_work_wait(works[w], 60));
        symmcoll_work_free(works[w]);
    }
    return finish(&it, right && are_sums(&it, true));
}

/* ---- arguments that differ between ranks ---- */

static int counts_differ(struct symmcoll_group *group, int rank)
{
    const size_t others[N] = {40, 0, rank == 1 ? 4 : 3};
    struct several it;
    int right, before;

    begin(&it, group, rank);
    right = fine(symmcoll_all_reduce(
        group, it.outs[0], it.ins[0], 0, F32, SUM, NULL, NULL));
    right = ended(symmcoll_all_reduce_coalesced(group, it.outs, it.ins, others,
                      N, F32, SUM, &it.call, NULL),
                SYMMCOLL_ERR_MISMATCH,
                "all_reduce_coalesced: count of buffer 2 differs: rank 1 "
                "passed 4, the other 2 passed 3 (group ") &&
            right;
    before = kernels_runs("symc_packets_f32");
    right = ended(symmcoll_all_reduce_coalesced(group, it.outs, it.ins, counts,
                      rank == 2 ? 1 : N, F32, SUM, &it.call, NULL),
                SYMMCOLL_ERR_MISMATCH,
                "number of buffers differs: rank 2 passed 1, the other 2 "
                "passed 3") &&
            say(kernels_runs("symc_packets_f32") == before, "no kernel") &&
            are_sums(&it, false) && right;
    right = fine(sum(&it, NULL)) && are_sums(&it, true) && right;
    return finish(&it, right);
}

static int memories_differ(struct symmcoll_group *group, int rank)
{
    float host[3] = {1, 2, 3};
    void *outs[] = {host};
    const void *ins[] = {host};
    const size_t three[] = {3};
    struct several it;
    bool away = rank == 0;
    int right;

    begin(&it, group, rank);
    right = ended(symmcoll_all_reduce_coalesced(group, away ? outs : it.outs,
                      away ? ins : it.ins, three, 1, F32, SUM, NULL, NULL),
        SYMMCOLL_ERR_MISMATCH,
        "memory differs: rank 0 passed host memory, the other 2 passed device "
        "memory");
    right = are_sums(&it, false) && fine(sum(&it, NULL)) &&
            are_sums(&it, true) && right;
    return finish(&it, right);
}

/* ---- invalid arguments of one rank ---- */

static int mixed_memories(struct symmcoll_group *group, int rank)
{
    float host[ROOM] = {0};
    struct several it;
    int right;

    begin(&it, group, rank);
    it.ins[2] = it.outs[2] = host;
    right = ended(sum(&it, NULL), SYMMCOLL_ERR_INVALID,
                "all_reduce_coalesced: expected all buffers in one memory, "
                "found device memory of device ") &&
            ended(SYMMCOLL_ERR_INVALID, SYMMCOLL_ERR_INVALID,
                " and host memory (buffer 2 of 3)");
    it.ins[2] = it.memory + (ptrdiff_t)2 * ROOM;
    right = ended(sum(&it, NULL), SYMMCOLL_ERR_INVALID,
                "expected out and in in one memory") &&
            right;
    /* An empty buffer may have any address. */
    it.outs[2] = it.memory + (ptrdiff_t)(N + 2) * ROOM;
    it.ins[1] = it.outs[1] = host;
    right = fine(sum(&it, NULL)) && are_sums(&it, true) && right;
    return finish(&it, right);
}

static int overlapping(struct symmcoll_group *group, int rank)
{
    struct several it;
    int right;

    begin(&it, group, rank);
    it.outs[2] = (float *)it.outs[0] + 39;
    right = ended(sum(&it, NULL), SYMMCOLL_ERR_INVALID,
        "expected buffers apart, found out of buffer 0 of 3 in out of buffer "
        "2");
    it.outs[2] = (void *)(uintptr_t)it.ins[0];
    right = ended(sum(&it, NULL), SYMMCOLL_ERR_INVALID,
                "found out of buffer 2 of 3 in in of buffer 0") &&
            right;
    return finish(&it, right);
}

/* Checks buffers beyond the end of their allocation, which only the driver
 * knows, once a group is open. */
static int too_short(struct symmcoll_group *group, int rank)
{
    const size_t more[N] = {3, 0, (size_t)1 << 24};
    struct several it;
    int right;

    begin(&it, group, rank);
    right = fine(sum(&it, NULL));
    it.outs[0] = (void *)(uintptr_t)it.ins[0];
    it.outs[2] = (void *)(uintptr_t)it.ins[2];
    right =
        ended(symmcoll_all_reduce_coalesced(
                  group, it.outs, it.ins, more, N, F32, SUM, &it.call, NULL),
            SYMMCOLL_ERR_INVALID,
            "all_reduce_coalesced: expected in to be in memory of device") &&
        right;
    it.ins[2] = it.outs[2] = (char *)it.outs[2] + 2;
    right = ended(sum(&it, NULL), SYMMCOLL_ERR_INVALID,
                "expected in at a multiple of 4 bytes in device memory") &&
            right;
    return finish(&it, right);
}

static int region_mistakes(struct symmcoll_group *group, int rank)
{
    float host = 1;
    struct several it;
    int right;

    begin(&it, group, rank);
    right =
        fine(symmcoll_coalesce_begin(group)) && fine(add(&it, 0)) &&
        ended(symmcoll_all_reduce(group, &host, &host, 1, F32, SUM, NULL, NULL),
            SYMMCOLL_ERR_INVALID,
            "all_reduce: expected a buffer in device memory of device ") &&
        ended(SYMMCOLL_ERR_INVALID, SYMMCOLL_ERR_INVALID,
            "as passed first in this region, found host memory");
    right = right && fine(add(&it, 1)) && fine(add(&it, 2)) &&
            fine(symmcoll_coalesce_end(group, &it.call, NULL)) &&
            are_sums(&it, true);
    /* An empty first buffer has no place: the next one determines the
     * device. */
    right =
        right && fine(symmcoll_coalesce_begin(group)) && fine(add(&it, 1)) &&
        fine(add(&it, 0)) &&
        ended(symmcoll_all_reduce(group, &host, &host, 1, F32, SUM, NULL, NULL),
            SYMMCOLL_ERR_INVALID,
            "as passed first in this region, found host memory") &&
        fine(symmcoll_coalesce_end(group, &it.call, NULL));
    return finish(&it, right && fine(symmcoll_barrier(group, NULL, NULL)));
}

static void test_sharing(void)
{
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    fake_configure("devices=2");
    on_both(SIZE, every_several, "also of ranks that share a device");
    unsetenv("SYMMCOLL_CUDA_SHARE_DEVICE");
    fake_configure("devices=8");
}

int main(void)
{
    device_begin();
    for (int n = 1; n <= 4; n++)
        on_both(n, every_several,
            "several buffers have the bits that they have in host memory");
    on_both(SIZE, is_one, "they are one operation, in a region, too");
    on_both(SIZE, is_recorded, "with one entry in the recorder");
    on_both(SIZE, is_ordered, "it comes after what its stream had");
    on_both(SIZE, regions_follow, "regions follow each other while works run");
    on_both(SIZE, counts_differ,
        "counts and numbers of buffers that differ are told, and no byte is "
        "touched");
    on_both(SIZE, memories_differ, "so are kinds of memory");
    on_both(SIZE, mixed_memories,
        "all buffers of a call are in one memory, if they have a byte");
    on_both(SIZE, overlapping, "none overlaps what another one receives");
    on_both(SIZE, too_short, "each is asked for before anything is enqueued");
    on_both(SIZE, region_mistakes, "all buffers of a region are in one memory");
    setenv("SYMMCOLL_CUDA_COPY_ENGINE", "on", 1);
    on_both(SIZE, every_several, "cuda.copy_engine copies them");
    unsetenv("SYMMCOLL_CUDA_COPY_ENGINE");
    test_sharing();
    return done_testing();
}
