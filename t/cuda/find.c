/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the lookup of an address's device, and its cost. */
#include "backend/backend.h"
#include "cuda/driver.h"
#include "t/cuda/finding.h"
#include "t/cuda/loaded.h"

#include <pthread.h>
#include <stdatomic.h>

#define ASKED 1000
#define THREADS 3
#define OTHER "t/backend/.libs/symmcoll_fake_module.so"

/* The test's module, and later the driver. */
struct finder {
    const struct finding *finding;
    struct loaded driver;
    const struct symc_cuda *cuda;
};

static int load_module(struct finder *finder)
{
    void *module = load_built("t/cuda/.libs/finding.so");

    *finder = (struct finder){0};
    if (module != NULL)
        finder->finding = dlsym(module, "finding");
    return finder->finding != NULL;
}

/* Loads the driver, and makes a device's context current. */
static int load_driver(struct finder *finder, int device)
{
    CUcontext context = NULL;

    return load_fake(&finder->driver) &&
           finder->driver.configure("devices=3") &&
           symc_cuda_load(symc_fail, &finder->cuda) == SYMMCOLL_OK &&
           finder->cuda->device_primary_ctx_retain(&context, device) ==
               CUDA_SUCCESS &&
           finder->cuda->ctx_push_current(context) == CUDA_SUCCESS;
}

static int is_hosts(const struct finder *finder, const void *data)
{
    int16_t device = 99;

    return !finder->finding->find(data, &device) && device == 99;
}

static int is_devices(
    const struct finder *finder, CUdeviceptr address, int expected)
{
    int16_t device = 99;

    return finder->finding->find((void *)(uintptr_t)address, &device) &&
           device == expected;
}

/* ---- the cost ---- */

/* Checks how often ASKED lookups counted objects and searched for libcuda. */
static int costs(const struct finder *finder, int counted, int searched)
{
    const struct finding *finding = finder->finding;
    const int counted_before = finding->counted();
    const int searched_before = finding->searched();
    int right = 1;

    for (int i = 0; i < ASKED; i++)
        right &= is_hosts(finder, &i);
    if (finding->counted() - counted_before != counted ||
        finding->searched() - searched_before != searched) {
        diag("expected %d counts and %d searches, found %d and %d", counted,
            searched, finding->counted() - counted_before,
            finding->searched() - searched_before);
        return 0;
    }
    return right;
}

static int it_costs_nothing_until_something_is_loaded(void *unused)
{
    struct finder finder;
    void *other;
    int right =
        load_module(&finder) && costs(&finder, 1, 1) && costs(&finder, 0, 0);

    (void)unused;
    other = load_built(OTHER);
    /* One lookup searches, and counts twice; the others count. */
    right = right && other != NULL && costs(&finder, ASKED + 1, 1) &&
            costs(&finder, ASKED, 0) && dlclose(other) == 0;
    /* The module is the last loaded object again. */
    return right && costs(&finder, 0, 0) && load_built(OTHER) != NULL &&
           costs(&finder, ASKED + 1, 1);
}

/* ---- the answer ---- */

static int host[16];

static int addresses_are_known(const struct finder *finder)
{
    CUdeviceptr device = 0, managed = 0;
    int right =
        finder->driver.alloc(&device, 256) == CUDA_SUCCESS &&
        finder->driver.alloc_managed(&managed, 256, CU_MEM_ATTACH_GLOBAL) ==
            CUDA_SUCCESS &&
        finder->driver.host_register(host, sizeof(host), 0) == CUDA_SUCCESS;

    right = right && is_devices(finder, device, 2) &&
            is_devices(finder, device + 255, 2) &&
            is_hosts(finder, (void *)(uintptr_t)managed) &&
            is_hosts(finder, host) && is_hosts(finder, &right) &&
            is_hosts(finder, NULL);
    return right && finder->driver.host_unregister(host) == CUDA_SUCCESS &&
           finder->driver.release(managed) == CUDA_SUCCESS &&
           finder->driver.release(device) == CUDA_SUCCESS &&
           is_devices(finder, device, SYMC_NO_DEVICE);
}

static int a_driver_that_comes_later_is_found(void *unused)
{
    struct finder finder;
    struct loaded early;

    (void)unused;
    return load_module(&finder) && is_hosts(&finder, host) &&
           load_fake(&early) && is_hosts(&finder, host) &&
           is_hosts(&finder, (void *)(uintptr_t)4096) &&
           early.calls("cuPointerGetAttributes") == 2 &&
           early.calls("cuInit") == 0 && early.calls("cuGetProcAddress") == 0 &&
           load_driver(&finder, 2) && addresses_are_known(&finder);
}

static int a_driver_that_was_there_is_found(void *unused)
{
    struct finder finder;
    struct loaded early;

    (void)unused;
    return load_fake(&early) && load_module(&finder) &&
           load_driver(&finder, 2) && addresses_are_known(&finder);
}

static int a_broken_context_is_no_reason_to_read_it(void *unused)
{
    struct finder finder;
    CUdeviceptr reserved = 0, device = 0;
    int right = load_module(&finder) && load_driver(&finder, 1) &&
                finder.driver.alloc(&device, 64) == CUDA_SUCCESS &&
                is_devices(&finder, device, 1) &&
                finder.cuda->mem_address_reserve(
                    &reserved, (size_t)2 << 20, 0, 0, 0) == CUDA_SUCCESS;

    (void)unused;
    if (!right)
        return 0;
    finder.driver.break_context(1, CUDA_ERROR_ILLEGAL_ADDRESS);
    /* Their kind is unknown, and the host cannot read one of them. */
    return is_devices(&finder, reserved + 12345, 1) &&
           is_hosts(&finder, host) && is_hosts(&finder, (char *)host + 3);
}

/* ---- the first and the last byte ---- */

#define PAGE ((size_t)4096)

/* Checks a range, and the number of driver queries made for it. */
static int is_whole(const struct finder *finder, CUdeviceptr first,
    CUdeviceptr last, bool expected, uint64_t asked)
{
    const uint64_t before = finder->driver.calls("cuPointerGetAttributes");
    bool whole = !expected;
    int16_t device = 99;

    return finder->finding->find_whole((void *)(uintptr_t)first,
               (void *)(uintptr_t)last, &device, &whole) &&
           device == 2 && whole == expected &&
           finder->driver.calls("cuPointerGetAttributes") == before + asked;
}

static int a_question_tells_of_the_last_byte(void *unused)
{
    struct finder finder;
    CUdeviceptr at = 0, managed = 0;
    bool whole = true;
    int16_t device = 99;
    int right = load_module(&finder) && load_driver(&finder, 2) &&
                finder.driver.alloc(&at, 256) == CUDA_SUCCESS &&
                finder.driver.alloc_managed(
                    &managed, 256, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS;

    (void)unused;
    right = right && is_whole(&finder, at, at, true, 1) &&
            is_whole(&finder, at + 3, at + 255, true, 1) &&
            is_whole(&finder, at, at + 256, false, 1) &&
            is_whole(&finder, at + 8, at - 1, false, 1) &&
            !finder.finding->find_whole(&right, &right + 1, &device, &whole) &&
            !whole;
    whole = true;
    return right &&
           !finder.finding->find_whole((void *)(uintptr_t)managed,
               (void *)(uintptr_t)(managed + 9), &device, &whole) &&
           !whole &&
           finder.driver.configure("fail=cuPointerGetAttributes:1:1") &&
           is_whole(&finder, at, at + 255, false, 2);
}

/* Maps, by separate calls, two pages of three that were reserved together. */
static int what_is_reserved_need_not_be_mapped(void *unused)
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 2}};
    CUmemGenericAllocationHandle handle = 0;
    struct finder finder;
    CUdeviceptr at = 0;
    int right =
        load_module(&finder) && load_driver(&finder, 2) &&
        finder.driver.configure("granularity=4K") &&
        finder.cuda->mem_address_reserve(&at, 3 * PAGE, 0, 0, 0) ==
            CUDA_SUCCESS &&
        finder.cuda->mem_create(&handle, PAGE, &properties, 0) == CUDA_SUCCESS;

    (void)unused;
    for (CUdeviceptr to = at; right && to < at + 2 * PAGE; to += PAGE)
        right = finder.cuda->mem_map(to, PAGE, 0, handle, 0) == CUDA_SUCCESS;
    return right && is_whole(&finder, at, at + PAGE - 1, true, 1) &&
           is_whole(&finder, at + PAGE, at + 2 * PAGE - 1, true, 1) &&
           is_whole(&finder, at, at + 2 * PAGE - 1, false, 1) &&
           is_whole(&finder, at + PAGE, at + 3 * PAGE - 1, false, 1);
}

/* ---- threads ---- */

struct asking {
    struct finder finder;
    _Atomic CUdeviceptr memory;
    _Atomic int found;
    _Atomic bool ended;
};

/* Looks up host memory until device memory exists, and then that. */
static void *ask(void *arg)
{
    struct asking *asking = arg;
    int right = 1;

    while (right && atomic_load(&asking->memory) == 0)
        right = is_hosts(&asking->finder, host);
    if (right && is_devices(&asking->finder, atomic_load(&asking->memory), 0))
        atomic_fetch_add(&asking->found, 1);
    return NULL;
}

static void *load_others(void *arg)
{
    struct asking *asking = arg;

    while (!atomic_load(&asking->ended)) {
        void *other = load_built(OTHER);

        if (other != NULL)
            dlclose(other);
    }
    return NULL;
}

static int threads_find_it(void *unused)
{
    static struct asking asking;
    pthread_t threads[THREADS + 1];
    CUdeviceptr memory = 0;
    int n = 0, right = load_module(&asking.finder);

    (void)unused;
    for (; n < THREADS && right; n++)
        right = pthread_create(&threads[n], NULL, ask, &asking) == 0;
    right =
        right && pthread_create(&threads[n], NULL, load_others, &asking) == 0;
    if (!right)
        return 0;
    /* The threads read this struct, so the late load uses a copy. */
    struct finder late = asking.finder;

    right =
        load_driver(&late, 0) && late.driver.alloc(&memory, 64) == CUDA_SUCCESS;
    atomic_store(&asking.memory, right ? memory : 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&asking.ended, true);
    pthread_join(threads[THREADS], NULL);
    return right && atomic_load(&asking.found) == THREADS;
}

int main(void)
{
    plan(7);
    ok(run_child(it_costs_nothing_until_something_is_loaded, NULL),
        "nothing is searched for until something has been loaded");
    ok(run_child(a_driver_that_comes_later_is_found, NULL),
        "a driver that the program loads later is found, and not initialised");
    ok(run_child(a_driver_that_was_there_is_found, NULL),
        "a driver that was loaded before is found");
    ok(run_child(a_broken_context_is_no_reason_to_read_it, NULL),
        "memory of which a broken context says nothing is not the host's");
    ok(run_child(a_question_tells_of_the_last_byte, NULL),
        "a question tells of the first byte and the last, where they are of one "
        "allocation");
    ok(run_child(what_is_reserved_need_not_be_mapped, NULL),
        "of what a program maps, where one call has mapped both");
    ok(run_child(threads_find_it, NULL),
        "threads find it while others load and unload");
    return done_testing();
}
