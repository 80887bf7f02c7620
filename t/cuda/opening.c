/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the device resources of a group, which its first operation on devices
 * allocates, and invalid arguments of such operations. An error on one rank is
 * reported on all, and the group and others remain usable.
 */
#include "t/cuda/members.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100
#define VICTIM 1

static symmcoll_status_t sum_at(
    struct symmcoll_group *group, void *out, const void *in, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return symmcoll_all_reduce(
        group, out, in, COUNT, F32, SUM, stream != NULL ? &call : NULL, NULL);
}

/* Runs an operation on host memory. */
static int works(struct symmcoll_group *group)
{
    float one[COUNT], all[COUNT];
    int size = symmcoll_group_size(group), right;

    for (int i = 0; i < COUNT; i++)
        one[i] = (float)i;
    right = sum_at(group, all, one, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < COUNT; i++)
        right = right && all[i] == (float)(i * size);
    return say(right, "in host memory");
}

/* Runs an operation on devices. */
static int works_on_devices(struct symmcoll_group *group, int rank)
{
    struct collective one = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = COUNT};

    return same_as_host(group, rank, &one);
}

/* ---- sharing a device ---- */

static int refuses_to_share(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    void *at;
    int right = 1;

    (void)rank;
    device_use(0);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    for (int i = 0; i < 2; i++)
        right = ended(sum_at(group, at, at, stream), SYMMCOLL_ERR_UNSUPPORTED,
                    "cuda.share_device; found rank 0 and rank 1 both on device "
                    "0 (") &&
                right;
    device_end_stream(stream);
    device_free(at);
    return works(group) && right;
}

static int shares(struct symmcoll_group *group, int rank)
{
    device_use(0);
    return works_on_devices(group, rank) && works(group);
}

/* Checks that ranks on one default stream are refused: their kernels would
 * wait for work enqueued later. */
static int shares_the_default_stream(struct symmcoll_group *group, int rank)
{
    void *at;
    int right;

    device_use(0);
    right = works_on_devices(group, rank);
    at = device_alloc(COUNT * sizeof(float));
    right = ended(sum_at(group, at, at, CU_STREAM_LEGACY), SYMMCOLL_ERR_INVALID,
                "found the default stream") &&
            ended(symmcoll_barrier(group, NULL, NULL), SYMMCOLL_ERR_INVALID,
                "share device 0") &&
            right;
    device_free(at);
    return works_on_devices(group, rank) && right;
}

static _Atomic bool resumed; /* the shared stream */

static symmcoll_status_t wait_for(struct symmcoll_work *work, int rank)
{
    symmcoll_status_t status;

    if (rank == 1) {
        usleep(100000);
        resumed = true;
        fake_resume(NULL);
    }
    status = symmcoll_work_wait(work, -1);
    return resumed ? status : SYMMCOLL_IN_PROGRESS;
}

/* If one rank's wait was on that stream, the other rank's start would come
 * after it in the first operation, which only orders the start. */
static int waits_on_the_default_stream(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    void *at;
    int right;

    device_use(0);
    at = device_alloc(COUNT * sizeof(float));
    call.stream = CU_STREAM_LEGACY;
    right = works(group); /* allocations do not wait for that stream */
    if (rank == 0)
        fake_stall(NULL);
    for (int i = 0; i < 2 && right; i++) {
        right =
            works(group) &&
            say(symmcoll_all_reduce(group, at, at, COUNT, F32, SUM, &call,
                    &work) == SYMMCOLL_OK,
                "the call") &&
            say(wait_for(work, i == 0 ? rank : 0) == SYMMCOLL_OK, "the wait") &&
            say(symmcoll_work_test(work) == SYMMCOLL_OK, "its end");
        symmcoll_work_free(work);
    }
    device_free(at);
    return right;
}

/* Passes it in the first operation on devices, which is checked only after it
 * has begun. */
static int begins_on_the_default_stream(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *other = NULL;
    void *at;
    int right;

    (void)rank;
    if (symmcoll_group_create(symmcoll_group_world(group), NULL, &other) < 0)
        return say(0, "a group");
    device_use(0);
    at = device_alloc(COUNT * sizeof(float));
    right = say(sum_at(group, at, at, CU_STREAM_LEGACY) < 0, "the first one");
    device_free(at);
    return works(other) && works_on_devices(other, rank) && right;
}

/* ---- what lacks ---- */

static int objects(void)
{
    int sum = 0;

    for (int i = 0; i < FAKE_OBJECTS; i++) {
        if (i != FAKE_LIBRARIES)
            sum += fake_live((enum fake_object)i);
    }
    return sum;
}

static struct symmcoll_group *make_group(struct symmcoll_group *all)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group = NULL;

    if (!say(symmcoll_group_split(all, 0, symmcoll_group_rank(all), &args,
                 &group) == SYMMCOLL_OK,
            "a group"))
        abort();
    return group;
}

/* Makes a call of the victim fail in its own group. No resource of that group
 * remains, and the next group works. */
static int fails_alike(struct symmcoll_group *all, int rank, const char *name,
    int error, symmcoll_status_t expected)
{
    struct symmcoll_group *group = make_group(all);
    CUstream stream = device_stream();
    void *at = device_alloc(COUNT * sizeof(float));
    char setting[80];
    int before = objects(), right;

    snprintf(setting, sizeof(setting), "fail=%s:1:%d", name, error);
    if (rank == VICTIM)
        fake_configure(setting);
    right = ended(sum_at(group, at, at, stream), expected, "rank 1: ") &&
            strstr(symmcoll_last_error(), "device 1") != NULL;
    if (!right)
        diag("rank %d: %s: %s", rank, name, symmcoll_last_error());
    right = works(group) && right;
    right = say(objects() == before, "nothing is left") && right;
    if (symmcoll_group_free(group) != SYMMCOLL_OK)
        right = 0;
    device_end_stream(stream);
    device_free(at);
    return right;
}

static int without_memory(struct symmcoll_group *group, int rank)
{
    int right;

    device_use(rank);
    right = fails_alike(group, rank, "cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY,
        SYMMCOLL_ERR_NO_MEMORY);
    return works_on_devices(group, rank) && right;
}

static int any_call_fails(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {"cuDeviceGetUuid",
        "cuMemGetAllocationGranularity", "cuStreamCreateWithPriority",
        "cuMemHostAlloc", "cuLibraryGetKernel", "cuMemAddressReserve",
        "cuMemMap", "cuMemSetAccess", "cuMemsetD32Async",
        "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"};
    int right = 1;

    device_use(rank);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && right; i++)
        right = fails_alike(
            group, rank, names[i], CUDA_ERROR_UNKNOWN, SYMMCOLL_ERR_DEVICE);
    return works_on_devices(group, rank) && right;
}

/* ---- arguments of an operation ---- */

/* One rank mixes host and device memory. It gets the error before it has taken
 * part. */
static int mixes_memories(struct symmcoll_group *group, int rank)
{
    float host[COUNT];
    char text[120];
    CUstream stream;
    void *at;
    int right;

    device_use(rank);
    right = works_on_devices(group, rank);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    snprintf(text, sizeof(text),
        "found out at %p in device memory of device 1 and in at %p in host "
        "memory",
        at, (void *)host);
    if (rank == VICTIM)
        right = ended(sum_at(group, at, host, stream), SYMMCOLL_ERR_INVALID,
                    text) &&
                right;
    device_end_stream(stream);
    device_free(at);
    return works_on_devices(group, rank) && right;
}

static int passes_another_device(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    void *at;
    int right;

    device_use(rank);
    right = works_on_devices(group, rank);
    device_use(rank + 1);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    if (rank == VICTIM)
        right = ended(sum_at(group, at, at, stream), SYMMCOLL_ERR_INVALID,
                    "expected memory of device 1") &&
                right;
    device_end_stream(stream);
    device_free(at);
    device_use(rank);
    return works_on_devices(group, rank) && right;
}

static int passes_another_stream(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    void *at;
    int right;

    device_use(rank);
    right = works_on_devices(group, rank);
    at = device_alloc(COUNT * sizeof(float));
    device_use(rank + 1);
    stream = device_stream();
    if (rank == VICTIM)
        right = ended(sum_at(group, at, at, stream), SYMMCOLL_ERR_INVALID,
                    "expected a stream of device 1") &&
                ended(sum_at(group, at, at, CU_STREAM_PER_THREAD),
                    SYMMCOLL_ERR_INVALID, "the default stream of a thread") &&
                right;
    device_end_stream(stream);
    device_use(rank);
    device_free(at);
    return works_on_devices(group, rank) && right;
}

/* Passes memory that does not exist, which would break the context if a kernel
 * used it. */
static int passes_what_is_not_there(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    char *at, *freed;
    int right;

    device_use(rank);
    right = works_on_devices(group, rank);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    freed = device_alloc(COUNT * sizeof(float));
    device_free(freed);
    if (rank == VICTIM)
        right = ended(sum_at(group, at, freed, stream), SYMMCOLL_ERR_INVALID,
                    "which is in neither: it may have been freed") &&
                ended(sum_at(group, at + 64, at + 64, stream),
                    SYMMCOLL_ERR_INVALID, "the buffer ends before it") &&
                right;
    device_end_stream(stream);
    device_free(at);
    return works_on_devices(group, rank) && right;
}

/* Passes it in the first operation on devices, which is checked only after it
 * has begun. */
static int begins_with_what_is_not_there(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *other = NULL;
    symmcoll_status_t status;
    CUstream stream;
    char *at;
    int right;

    if (symmcoll_group_create(symmcoll_group_world(group), NULL, &other) < 0)
        return say(0, "a group");
    device_use(rank);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    if (rank == VICTIM)
        at += 64;
    status = sum_at(group, at, at, stream);
    cuStreamSynchronize(stream);
    right = rank != VICTIM ||
            ended(status, SYMMCOLL_ERR_DEVICE, "the buffer ends before it");
    device_end_stream(stream);
    device_free(rank == VICTIM ? at - 64 : at);
    return works(other) && works_on_devices(other, rank) && right;
}

/* Checks a stream that is INVALID at a later call, on rank 1 only; the other
 * ranks have begun. */
static int begins_on_the_stream_of_a_thread(
    struct symmcoll_group *group, int rank)
{
    symmcoll_status_t status;
    CUstream stream;
    void *at;
    int right;

    device_use(rank);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    status =
        sum_at(group, at, at, rank == VICTIM ? CU_STREAM_PER_THREAD : stream);
    cuStreamSynchronize(stream);
    right = rank != VICTIM || ended(status, SYMMCOLL_ERR_DEVICE,
                                  "the default stream of a thread");
    device_end_stream(stream);
    device_free(at);
    return say(symmcoll_group_error(group) < 0, "the group has failed") &&
           right;
}

/* Checks a stream of another device, for which no kernel has been launched. */
static int begins_on_another_devices_stream(
    struct symmcoll_group *group, int rank)
{
    symmcoll_status_t status;
    CUstream stream;
    void *at;
    int right;

    device_use(rank == VICTIM ? rank + 1 : rank);
    stream = device_stream();
    device_use(rank);
    at = device_alloc(COUNT * sizeof(float));
    status = sum_at(group, at, at, stream);
    right = rank != VICTIM ||
            ended(status, SYMMCOLL_ERR_DEVICE, "expected a stream of device 1");
    cuStreamSynchronize(stream);
    device_use(rank == VICTIM ? rank + 1 : rank);
    device_end_stream(stream);
    device_use(rank);
    device_free(at);
    return say(symmcoll_group_error(group) < 0, "the group has failed") &&
           right;
}

int main(void)
{
    device_begin();
    on_both(3, refuses_to_share,
        "two ranks on one device are refused, and all are told which");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    on_both(2, shares, "with cuda.share_device they are not");
    ok(threads_run(2, shares_the_default_stream),
        "threads on one device are refused its default stream");
    ok(threads_run(2, waits_on_the_default_stream),
        "a wait for a work on it is the host's");
    ok(threads_run(2, begins_on_the_default_stream),
        "also in the first operation: other groups go on");
    unsetenv("SYMMCOLL_CUDA_SHARE_DEVICE");
    ok(ranks_run(3, without_memory),
        "a device that is full: all ranks refuse alike, and other groups work");
    ok(ranks_run(2, any_call_fails),
        "whatever call of the driver fails while a group is opened, all are "
        "told, and nothing is left");
    on_both(2, mixes_memories, "host and device pointers in one call");
    on_both(2, passes_another_device, "a pointer of another device");
    on_both(2, passes_another_stream,
        "a stream of another device, and the default one of a thread");
    on_both(2, passes_what_is_not_there,
        "a freed allocation, and a buffer that is too long");
    on_both(2, begins_with_what_is_not_there,
        "such a buffer in the first operation: other groups go on");
    on_both(2, begins_on_the_stream_of_a_thread,
        "the default stream of a thread there fails the group");
    on_both(2, begins_on_another_devices_stream,
        "so does a stream of another device, and its error says so");
    return done_testing();
}
