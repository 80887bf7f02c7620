/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the loading of the driver, and the text for its results. */
#include "cuda/driver.h"
#include "t/cuda/device.h"

#include <pthread.h>

#define THREADS 4

static const char *const optional[] = {"cuFuncLoad", "cuMulticastCreate",
    "cuMulticastAddDevice", "cuMulticastBindMem", "cuMulticastUnbind",
    "cuMulticastGetGranularity", "cuStreamGetId", "cuStreamWriteValue32"};

/* Driver functions that the library does not call. */
static const char *const unused[] = {"cuDeviceCanAccessPeer",
    "cuDeviceGetPCIBusId", "cuDeviceTotalMem", "cuDriverGetVersion",
    "cuEventSynchronize", "cuLibraryUnload", "cuMemAllocAsync",
    "cuMemHostRegister", "cuMemHostUnregister",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuStreamWaitValue32"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_one_of(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Counts the members of the table that are not NULL. */
static int count_functions(const struct symc_cuda *cuda)
{
    const size_t first = offsetof(struct symc_cuda, init);
    int n = 0;

    for (size_t at = first; at < sizeof(*cuda); at += sizeof(void *)) {
        void *function;

        memcpy(&function, (const char *)cuda + at, sizeof(function));
        n += function != NULL;
    }
    return n;
}

/* Counts the functions that the library looks up. */
static int count_entries(void)
{
    int n = 0;

    for (int i = 0; fake_entry(i) != NULL; i++)
        n += !is_one_of(unused, COUNT(unused), fake_entry(i));
    return n;
}

/* ---- loading ---- */

static int it_is_loaded_once(void *nothing)
{
    const struct symc_cuda *cuda = NULL, *again = NULL;
    char reason[SYMC_DETAIL_MAX] = "x";

    (void)nothing;
    return symc_cuda_loaded() == NULL && fake_calls("cuInit") == 0 &&
           fake_calls("cuGetProcAddress") == 0 &&
           fake_configure("version=12080") &&
           symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
           symc_cuda_load(NULL, &again) == SYMMCOLL_OK && cuda == again &&
           symc_cuda_loaded() == cuda && cuda->version == 12080 &&
           fake_calls("cuInit") == 1 && symc_cuda_reason(reason)[0] == '\0' &&
           count_functions(cuda) == count_entries() &&
           count_functions(cuda) ==
               (int)((sizeof(*cuda) - offsetof(struct symc_cuda, init)) /
                     sizeof(void *));
}

static void *load_in_thread(void *nothing)
{
    const struct symc_cuda *cuda = NULL;

    (void)nothing;
    return symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK ? (void *)cuda
                                                           : NULL;
}

static int threads_load_one(void *nothing)
{
    pthread_t threads[THREADS];
    void *found;
    int right = 1;

    (void)nothing;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, load_in_thread, NULL) != 0)
            return 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &found);
        right &= found != NULL && found == (const void *)symc_cuda_loaded();
    }
    return right && fake_calls("cuInit") == 1;
}

/* Checks that loading fails with a text, which is kept, and succeeds when the
 * cause is gone. */
static int is_refused(const char *settings, const char *text)
{
    const struct symc_cuda *cuda = NULL;
    char reason[SYMC_DETAIL_MAX];
    int right = fake_configure(settings) &&
                failed_with(symc_cuda_load(symc_fail, &cuda),
                    SYMMCOLL_ERR_UNSUPPORTED, text) &&
                cuda == NULL && symc_cuda_loaded() == NULL &&
                strcmp(symc_cuda_reason(reason), symmcoll_last_error()) == 0 &&
                symc_cuda_load(NULL, &cuda) == SYMMCOLL_ERR_UNSUPPORTED;

    fake_reset();
    return right;
}

static int loads_then(void)
{
    const struct symc_cuda *cuda = NULL;

    return symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK && cuda != NULL;
}

static int every_missing_one_is_named(void *nothing)
{
    char setting[128], text[128];
    int tried = 0, right = 1;

    (void)nothing;
    for (int i = 0; fake_entry(i) != NULL && right; i++) {
        if (is_one_of(optional, COUNT(optional), fake_entry(i)) ||
            is_one_of(unused, COUNT(unused), fake_entry(i)))
            continue;
        (void)snprintf(setting, sizeof(setting), "missing=%s", fake_entry(i));
        (void)snprintf(text, sizeof(text), "libcuda.so.1: expected %s of CUDA ",
            fake_entry(i));
        right = is_refused(setting, text);
        tried++;
    }
    return right && tried > 50 && loads_then();
}

static int load_without(void *name)
{
    const struct symc_cuda *cuda = NULL;
    char setting[128];

    (void)snprintf(setting, sizeof(setting), "missing=%s", (const char *)name);
    return fake_configure(setting) &&
           symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
           count_functions(cuda) == count_entries() - 1;
}

static int some_may_be_missing(void)
{
    int right = 1;

    for (size_t i = 0; i < COUNT(optional); i++)
        right &= run_child(load_without, (void *)optional[i]);
    return right;
}

static int load_without_unused(void *nothing)
{
    const struct symc_cuda *cuda = NULL;
    char setting[128];
    int right = 1;

    (void)nothing;
    for (size_t i = 0; i < COUNT(unused); i++) {
        (void)snprintf(setting, sizeof(setting), "missing=%s", unused[i]);
        right &= fake_configure(setting);
    }
    return right && symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
           count_functions(cuda) == count_entries();
}

static int load_old(void *nothing)
{
    const struct symc_cuda *cuda = NULL;

    (void)nothing;
    return fake_configure("version=12040") &&
           symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
           cuda->func_load != NULL && cuda->multicast_create != NULL &&
           cuda->library_load_data != NULL;
}

static int an_old_driver_is_refused(void *nothing)
{
    (void)nothing;
    return is_refused("version=12030",
               "libcuda.so.1: expected a driver of CUDA 12.4 or later, found "
               "12.3") &&
           is_refused("version=11040", "found 11.4") &&
           run_child(load_old, NULL);
}

static int what_init_returned_is_told(void *nothing)
{
    (void)nothing;
    return is_refused("devices=0",
               "libcuda.so.1: cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable "
               "device is detected") &&
           is_refused("fail=cuInit:0:34", "CUDA_ERROR_STUB_LIBRARY") &&
           is_refused("fail=cuInit:0:12345", "cuInit: CUDA error 12345") &&
           loads_then();
}

static int load_in_fork(void *parent)
{
    const struct symc_cuda *cuda = NULL;
    char text[64];

    (void)snprintf(
        text, sizeof(text), "from pid %d afterwards", *(int *)parent);
    return failed_with(
        symc_cuda_load(symc_fail, &cuda), SYMMCOLL_ERR_UNSUPPORTED, text);
}

static int a_fork_is_refused(void *nothing)
{
    const struct symc_cuda *cuda = NULL;
    int self = (int)getpid();

    (void)nothing;
    return symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
           run_child(load_in_fork, &self) &&
           symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK;
}

/* ---- errors ---- */

/* Checks the whole text for a failed call. */
static int is_told(const struct symc_cuda *cuda, CUresult result, int device,
    symmcoll_status_t status, const char *text)
{
    const symmcoll_status_t found = symc_cuda_fail(
        cuda, symc_fail, result, device, "cuMemCreate of %d MiB", 64);

    if (found == status && strcmp(symmcoll_last_error(), text) == 0)
        return 1;
    diag("expected %s, found %s: %s", text, symmcoll_status_name(found),
        symmcoll_last_error());
    return 0;
}

static int errors_are_told(void *nothing)
{
    const struct symc_cuda *cuda = NULL;
    CUdeviceptr at = 0;
    int right = open_device("memory=4M", 0) &&
                symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
                good(cuMemAlloc(&at, 900 * 1024));

    (void)nothing;
    return right &&
           is_told(cuda, CUDA_ERROR_OUT_OF_MEMORY, 0, SYMMCOLL_ERR_NO_MEMORY,
               "cuMemCreate of 64 MiB on device 0 (Fake GPU 0): "
               "CUDA_ERROR_OUT_OF_MEMORY: out of memory, 3.1 MiB of 4 MiB "
               "free") &&
           is_told(cuda, CUDA_ERROR_OUT_OF_MEMORY, -1, SYMMCOLL_ERR_NO_MEMORY,
               "cuMemCreate of 64 MiB: CUDA_ERROR_OUT_OF_MEMORY: out of "
               "memory") &&
           is_told(cuda, CUDA_ERROR_NOT_SUPPORTED, 7, SYMMCOLL_ERR_UNSUPPORTED,
               "cuMemCreate of 64 MiB on device 7: CUDA_ERROR_NOT_SUPPORTED: "
               "operation not supported") &&
           is_told(cuda, CUDA_ERROR_ILLEGAL_ADDRESS, 0, SYMMCOLL_ERR_DEVICE,
               "cuMemCreate of 64 MiB on device 0 (Fake GPU 0): "
               "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was "
               "encountered; its context cannot be used any more") &&
           is_told(cuda, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, -1,
               SYMMCOLL_ERR_INVALID,
               "cuMemCreate of 64 MiB: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: "
               "operation not permitted when stream is capturing") &&
           is_told(cuda, (CUresult)4321, -1, SYMMCOLL_ERR_DEVICE,
               "cuMemCreate of 64 MiB: CUDA error 4321") &&
           good(cuMemFree(at)) && close_device(0);
}

static int sizes_are_told(void *nothing)
{
    static const struct {
        uint64_t nbytes;
        const char *text;
    } sizes[] = {{0, "0 B"}, {1, "1 B"}, {1023, "1023 B"}, {1024, "1 KiB"},
        {1536, "1.5 KiB"}, {(1 << 20) - 1, "1023.9 KiB"}, {64 << 20, "64 MiB"},
        {UINT64_C(79) << 30, "79 GiB"}, {UINT64_MAX, "16777215.9 TiB"}};
    char text[32];
    int right = 1;

    (void)nothing;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        right &= strcmp(symc_cuda_format_nbytes(sizes[i].nbytes, text),
                     sizes[i].text) == 0;
    return right;
}

static int fatal_errors_are_known(void *nothing)
{
    (void)nothing;
    return symc_cuda_is_fatal(CUDA_ERROR_LAUNCH_FAILED) &&
           symc_cuda_is_fatal(CUDA_ERROR_ECC_UNCORRECTABLE) &&
           !symc_cuda_is_fatal(CUDA_ERROR_OUT_OF_MEMORY) &&
           !symc_cuda_is_fatal(CUDA_ERROR_NOT_READY) &&
           !symc_cuda_is_fatal(CUDA_SUCCESS) &&
           symc_cuda_status(CUDA_SUCCESS) == SYMMCOLL_OK;
}

int main(void)
{
    plan(11);
    ok(run_child(it_is_loaded_once, NULL),
        "the driver is loaded by the first call, whole, and once");
    ok(run_child(threads_load_one, NULL),
        "threads that load it at once have the same");
    ok(run_child(every_missing_one_is_named, NULL),
        "a driver without a function is refused, and the function named");
    ok(some_may_be_missing(), "a driver without what is optional is not");
    ok(run_child(load_without_unused, NULL),
        "nor is one without all that the library does not call");
    ok(run_child(an_old_driver_is_refused, NULL),
        "a driver before 12.4 is refused, and 12.4 is not");
    ok(run_child(what_init_returned_is_told, NULL),
        "a driver that finds no device is refused with what it said");
    ok(run_child(a_fork_is_refused, NULL),
        "a process that was forked from one that uses CUDA is refused");
    ok(run_child(errors_are_told, NULL),
        "an error is told with the call, the device and what it has free");
    ok(run_child(sizes_are_told, NULL), "sizes are told with one decimal");
    ok(run_child(fatal_errors_are_known, NULL),
        "errors that end a context are known");
    return done_testing();
}
