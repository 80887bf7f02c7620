/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/gpu/gpu.h"
#include "t/tap.h"

#include <cuda.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool gpu_is_rehearsal(void)
{
    return getenv("T_GPU_REHEARSAL") != NULL;
}

bool gpu_is_short(void)
{
    const char *form = getenv("T_GPU_REHEARSAL");

    return form != NULL && strcmp(form, "short") == 0;
}

int gpu_choose(int n, int rehearsed, int in_short)
{
    if (!gpu_is_rehearsal())
        return n;
    return gpu_is_short() ? in_short : rehearsed;
}

/* ---- search for a device ---- */

/* Finds a device, or the reason why there is none; "": there is one. */
static void ask(char *reason, size_t nbytes)
{
    const struct symc_cuda *cuda = NULL;
    char detail[SYMC_DETAIL_MAX] = "";
    int n = 0;
    CUresult result;

    reason[0] = '\0';
    if (symc_cuda_load(NULL, &cuda) != SYMMCOLL_OK) {
        (void)snprintf(reason, nbytes, "%s", symc_cuda_reason(detail));
        return;
    }
    result = cuda->device_get_count(&n);
    if (result != CUDA_SUCCESS)
        (void)snprintf(reason, nbytes, "cuDeviceGetCount: %s",
            symc_cuda_describe(cuda, result, detail, sizeof(detail)));
    else if (n == 0)
        (void)snprintf(reason, nbytes, "0 devices, 1 wanted");
}

/* Searches in a child, so that this process has not used CUDA and may fork. */
static void find_device(char *reason, size_t nbytes)
{
    int ends[2], status = 0;
    ssize_t got;
    pid_t pid;

    (void)snprintf(reason, nbytes, "a process that looks for one has died");
    if (pipe(ends) != 0 || (pid = fork()) < 0)
        return;
    if (pid == 0) {
        ask(reason, nbytes);
        _exit(write(ends[1], reason, strlen(reason) + 1) < 0 ? 1 : 0);
    }
    close(ends[1]);
    got = read(ends[0], reason, nbytes - 1);
    if (got > 0)
        reason[got] = '\0';
    close(ends[0]);
    (void)waitpid(pid, &status, 0);
}

/* Prints a backtrace when the C library has found a damaged heap: the caller
 * that frees a block shows which block it is. Addresses without names are the
 * driver's. */
static void tell_where(int number)
{
    void *frames[48];
    int n;

    /* The process ends in any case. NOLINTBEGIN(bugprone-signal-handler) */
    n = backtrace(frames, 48);
    backtrace_symbols_fd(frames, n, STDERR_FILENO);
    /* NOLINTEND(bugprone-signal-handler) */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

void gpu_begin(unsigned int seconds)
{
    char reason[SYMC_DETAIL_MAX];
    void *frame;

    alarm(seconds);
    (void)backtrace(&frame, 1); /* loads its libraries, which allocates */
    (void)signal(SIGABRT, tell_where);
    /* More streams share queues, in which one that waits blocks others. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    /* Loading a kernel may wait for running ones. */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    (void)setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    /* Freeing memory may wait, too; see t/cuda/members.h, and README. A value
     * set before is kept. */
    (void)setenv("T_DEVICE_KEEPS", "memory,streams,copies", 0);
    /* An operation that still hangs must end long before the program does. */
    if (!gpu_is_rehearsal())
        (void)setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "20s", 1);
    find_device(reason, sizeof(reason));
    if (reason[0] != '\0')
        skip_all("%s", reason);
    if (gpu_is_rehearsal())
        diag("a rehearsal: no GPU, the kernels run on the host");
}

/* ---- the device ---- */

static const struct symc_cuda *gpu_cuda(void)
{
    const struct symc_cuda *cuda = NULL;
    char detail[SYMC_DETAIL_MAX];

    if (symc_cuda_load(NULL, &cuda) != SYMMCOLL_OK) {
        diag("%s", symc_cuda_reason(detail));
        exit(1);
    }
    return cuda;
}

void gpu_check(CUresult result, const char *what)
{
    char detail[SYMC_DETAIL_MAX];

    if (result == CUDA_SUCCESS)
        return;
    diag("%s: %s", what,
        symc_cuda_describe(gpu_cuda(), result, detail, sizeof(detail)));
    exit(1);
}

const struct symc_cuda *gpu_open(void)
{
    const struct symc_cuda *cuda = gpu_cuda();
    CUcontext context = NULL;

    GPU_CHECK(cuda->device_primary_ctx_retain(&context, 0));
    GPU_CHECK(cuCtxSetCurrent(context));
    return cuda;
}

int gpu_multiprocessors(void)
{
    int n = 0;

    GPU_CHECK(gpu_cuda()->device_get_attribute(
        &n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    return n;
}

/* ---- blocked streams ---- */

void gpu_stall(struct gpu_stall *stall, CUstream stream)
{
    const struct symc_cuda *cuda = gpu_cuda();
    void *word = NULL;
    CUdeviceptr at = 0;

    GPU_CHECK(cuda->mem_host_alloc(
        &word, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(word, 0, 4096);
    stall->word = word;
    GPU_CHECK(cuda->mem_host_get_device_pointer(&at, word, 0));
    GPU_CHECK(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

void gpu_resume(const struct gpu_stall *stall)
{
    __atomic_store_n(stall->word, 1, __ATOMIC_RELEASE);
}

void gpu_stall_free(struct gpu_stall *stall)
{
    GPU_CHECK(gpu_cuda()->mem_free_host(stall->word));
    stall->word = NULL;
}
