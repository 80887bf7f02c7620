/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failing driver calls: the error names the call, the device and the
 * result, and a lack of memory has its own status, whichever call fails.
 */
#include "t/cuda/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000 /* of two kernels */
#define WAIT 20.0

struct call {
    const char *name;
    const char *text; /* that follows in the error */
    int which;        /* the call of an operation that fails */
};

/* Calls of a group's first operation, and those of later ones. */
static const struct call opening[] = {
    {"cuDevicePrimaryCtxRetain", " on device 0", 1},
    {"cuDeviceGetUuid", " on device 0", 1},
    {"cuCtxGetStreamPriorityRange", " on device 0", 1},
    {"cuStreamCreateWithPriority", " on device 0", 1},
    {"cuMemHostAlloc", " for words of kernels", 1},
    {"cuMemHostGetDevicePointer", " for words of kernels", 1},
    {"cuLibraryGetKernel", " of kernel symc_", 1},
    {"cuKernelGetFunction", " of kernel symc_", 1},
    {"cuFuncLoad", " of kernel symc_", 1},
    {"cuMemGetAllocationGranularity", " on device 0", 1},
    {"cuMemCreate", " of ", 1}, {"cuMemAddressReserve", " of ", 1},
    {"cuMemMap", " of rank 0's segment", 1},
    {"cuMemSetAccess", " to rank 0's segment", 1},
    {"cuStreamCreateWithPriority", " to clear a segment", 2},
    {"cuMemsetD32Async", " to clear a segment", 1}};
static const struct call running[] = {{"cuCtxPushCurrent", " on device 0", 2},
    {"cuThreadExchangeStreamCaptureMode", " on device 0", 3},
    {"cuStreamGetCtx", " of stream 0x", 2},
    {"cuStreamIsCapturing", " of stream 0x", 2},
    {"cuPointerGetAttributes", " of 0x", 1},
    {"cuPointerGetAttributes", " of 0x", 2},
    {"cuPointerGetAttributes", " of in (0x", 3},
    {"cuStreamWaitEvent", " on device 0", 1},
    {"cuLaunchKernelEx", " of symc_", 1}, {"cuEventRecord", " on stream 0x", 2},
    {"cuEventQuery", " of what has out 0x", 1}};

/* The first operations, after which the driver has unused events of each
 * kind. */
static const struct call first[] = {{"cuEventCreate", " for stream 0x", 1},
    {"cuEventRecord", " for stream 0x", 1}};

static struct symmcoll_group *make_group(struct symmcoll_group *all)
{
    struct symmcoll_group *group = NULL;

    if (symmcoll_group_create(symmcoll_group_world(all), NULL, &group) !=
        SYMMCOLL_OK)
        abort();
    return group;
}

/* Sums with a work, which uses everything: two streams, and events of both. */
static symmcoll_status_t sum(
    struct symmcoll_group *group, void *at, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    call.stream = stream;
    status = symmcoll_all_reduce(group, at, at, COUNT, F32, SUM, &call, &work);
    if (status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, WAIT);
    symmcoll_work_free(work);
    return status;
}

static int is_told(struct symmcoll_group *all, const struct call *call,
    int operations, int error, symmcoll_status_t expected)
{
    struct symmcoll_group *group = make_group(all);
    CUstream stream = device_stream();
    void *at = device_alloc(COUNT * sizeof(float));
    char setting[80], text[80];
    int right = 1;

    snprintf(setting, sizeof(setting), "fail=%s:%d:%d", call->name, call->which,
        error);
    snprintf(text, sizeof(text), "%s%s", call->name, call->text);
    for (int i = 0; i < operations && right; i++)
        right = say(sum(group, at, stream) == SYMMCOLL_OK, "a sum");
    fake_configure(setting);
    right = ended(sum(group, at, stream), expected, text) &&
            ended(expected, expected,
                error == CUDA_ERROR_INVALID_HANDLE
                    ? "CUDA_ERROR_INVALID_HANDLE: "
                    : "CUDA_ERROR_OUT_OF_MEMORY: ") &&
            (strstr(call->text, "0x") != NULL ||
                ended(expected, expected, "device 0 (")) &&
            right;
    if (!right)
        diag("%s number %d, error %d: %s", call->name, call->which, error,
            symmcoll_last_error());
    device_wait(stream);
    (void)symmcoll_group_free(group);
    /* Work that the library could not query may still be running. */
    right = say(cuCtxSynchronize() == CUDA_SUCCESS, "an end") && right;
    device_end_stream(stream);
    device_free(at);
    return right;
}

static int are_told(struct symmcoll_group *all, const struct call *calls,
    size_t count, int operations)
{
    int right = 1;

    device_use(0);
    for (size_t i = 0; i < count; i++) {
        right = is_told(all, &calls[i], operations, CUDA_ERROR_INVALID_HANDLE,
                    SYMMCOLL_ERR_DEVICE) &&
                is_told(all, &calls[i], operations, CUDA_ERROR_OUT_OF_MEMORY,
                    SYMMCOLL_ERR_NO_MEMORY) &&
                right;
    }
    return right;
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static int of_opening(struct symmcoll_group *all, int rank)
{
    (void)rank;
    return are_told(all, opening, COUNT_OF(opening), 0);
}

static int of_a_first(struct symmcoll_group *all, int rank)
{
    (void)rank;
    return are_told(all, first, COUNT_OF(first), 0);
}

static int of_a_later(struct symmcoll_group *all, int rank)
{
    (void)rank;
    return are_told(all, running, COUNT_OF(running), 1);
}

/* Looks up a buffer's device in a call that is not an operation of the
 * group. */
static int of_a_copy(struct symmcoll_group *all, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL, *in;
    int right;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    in = device_alloc(64);
    right = say(
        symmcoll_symm_alloc(world, 64, &args, &data) == SYMMCOLL_OK &&
            symmcoll_symm_rendezvous(all, data, NULL, &handle) == SYMMCOLL_OK &&
            symmcoll_symm_put_data(handle, 0, 0, in, 64) == SYMMCOLL_OK,
        "symmetric memory");
    for (int i = 1; i <= 2 && right; i++) {
        fake_configure(i == 1 ? "fail=cuPointerGetAttributes:1:400"
                              : "fail=cuPointerGetAttributes:2:400");
        right = ended(symmcoll_symm_put_data(handle, 0, 0, in, 64),
            SYMMCOLL_ERR_DEVICE, "symm_put_data: cuPointerGetAttributes of 0x");
    }
    right = say(cuCtxSynchronize() == CUDA_SUCCESS, "an end") && right;
    symmcoll_symm_release(handle);
    (void)symmcoll_symm_free(world, data);
    device_free(in);
    return right;
}

/* Checks that a process without device memory continues without devices. */
static int of_the_hosts_memory(struct symmcoll_group *all, int rank)
{
    float one = 1, sum = 0;

    (void)rank;
    fake_configure("fail=cuPointerGetAttributes:0:400");
    return say(symmcoll_all_reduce(all, &sum, &one, 1, F32, SUM, NULL, NULL) ==
                   SYMMCOLL_OK,
               "a sum on the host") &&
           say(sum == 1, "the sum");
}

/* ---- resources that cannot be released ---- */

static const char warning[] = "memory of a device stays in use: ";

/* Redirects the log. Returns a descriptor of the previous target. */
static int redirect(FILE *file)
{
    int saved = dup(STDERR_FILENO);

    if (saved < 0 || dup2(fileno(file), STDERR_FILENO) < 0)
        abort();
    return saved;
}

/* Checks that the log has exactly one warning, about that call. */
static int is_told_once(FILE *file, int saved, const char *call)
{
    char text[4000], expected[120];
    const char *found;
    size_t got;

    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    got = fread(text, 1, sizeof(text) - 1, file);
    text[got] = '\0';
    fclose(file);
    snprintf(expected, sizeof(expected),
        "%s%s: CUDA_ERROR_INVALID_HANDLE: ", warning, call);
    found = strstr(text, expected);
    if (found != NULL && strstr(found + 1, warning) == NULL)
        return 1;
    diag("expected '%s' once, found '%s'", expected, text);
    return 0;
}

/* Makes a driver call fail during a release. */
static int is_told_when(void (*release)(void *of), void *of, const char *call)
{
    char setting[80];
    FILE *file = tmpfile();
    int saved;

    if (file == NULL)
        abort();
    snprintf(setting, sizeof(setting), "fail=%s:1:400", call);
    fake_configure(setting);
    saved = redirect(file);
    release(of);
    return is_told_once(file, saved, call);
}

static void free_group(void *group)
{
    (void)symmcoll_group_free(group);
}

struct joined {
    struct symmcoll_world *world;
    struct symmcoll_symm *handle;
    void *data;
};

static void free_joined(void *of)
{
    struct joined *joined = of;

    symmcoll_symm_release(joined->handle);
    (void)symmcoll_symm_free(joined->world, joined->data);
}

static int of_releases(struct symmcoll_group *all, int rank)
{
    static const char *const calls[] = {
        "cuMemUnmap", "cuMemAddressFree", "cuMemRelease"};
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct joined joined = {.world = symmcoll_group_world(all)};
    CUstream stream;
    void *at;
    int right = 1;

    /* Memory that is still mapped cannot be freed either. */
    (void)fake_configure("reuse=1");
    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    /* No other group has host words. */
    for (int i = 0; i < 2; i++) {
        struct symmcoll_group *group = make_group(all);

        right = say(sum(group, at, stream) == SYMMCOLL_OK, "a sum") &&
                is_told_when(free_group, group,
                    i == 0 ? "cuMemUnmap" : "cuMemFreeHost") &&
                right;
    }
    for (int i = 0; i < 3; i++) {
        joined.handle = NULL;
        right = say(symmcoll_symm_alloc(
                        joined.world, 64, &args, &joined.data) == SYMMCOLL_OK,
                    "memory") &&
                is_told_when(free_joined, &joined, calls[i]) && right;
    }
    right = say(symmcoll_symm_alloc(joined.world, 64, &args, &joined.data) ==
                        SYMMCOLL_OK &&
                    symmcoll_symm_rendezvous(
                        all, joined.data, NULL, &joined.handle) == SYMMCOLL_OK,
                "joined memory") &&
            is_told_when(free_joined, &joined, "cuMemUnmap") && right;
    device_end_stream(stream);
    device_free(at);
    return right;
}

int main(void)
{
    device_begin();
    ok(ranks_run(1, of_opening),
        "a call that fails while a group opens is named, with its device");
    ok(ranks_run(1, of_a_first), "so is one of an operation's first event");
    ok(ranks_run(1, of_a_later), "and one of any operation");
    ok(ranks_run(1, of_a_copy), "and one that a copy asks");
    ok(ranks_run(1, of_releases),
        "memory that cannot be released is logged, once for each of it");
    ok(ranks_run(1, of_the_hosts_memory),
        "without memory of devices no error of the driver matters");
    return done_testing();
}
