/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device as the machine on which the checks of t/kernels run: each rank has
 * a stream. Kernels use memory of the device; the host has a copy of it, which
 * is written there before a run and read back after it. An address in the
 * arguments of a launch is one of the host's copy, and is translated to the
 * device's.
 */
#include "t/gpu/gpu.h"
#include "t/gpu/kernels.h"
#include "t/kernels/group.h"
#include "t/sanitized.h"
#include "t/tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NBYTES ((size_t)256 << 20)
#define WORDS_NBYTES 4096
#define KERNELS 256
#define ARGS_NBYTES 4096
#define NOTES 64
#define CALLS (GROUP_RANKS * GROUP_LAUNCHES)

extern const unsigned char symc_image[] __attribute__((visibility("hidden")));

struct machine machine = {.keeps_nan = false};

/* A call on the host, in a stream. */
struct call {
    kernel_fn function;
    const void *args;
};

static struct {
    const struct symc_cuda *cuda;
    CUfunction functions[KERNELS]; /* as gpu_kernel() numbers them */
    CUstream streams[GROUP_RANKS];
    unsigned char *host;
    CUdeviceptr device;
    size_t used; /* bytes of both */
    int allocations;
    unsigned char *words; /* of the host, that kernels use */
    size_t words_used;
    int words_allocations;
    unsigned char **notes[NOTES]; /* words that are addresses */
    int nnotes;
    struct call calls[CALLS];
    int ncalls;
} state;

/* ---- beginning ---- */

static void load_kernels(void)
{
    const struct gpu_kernel *kernel;
    CUlibrary library = NULL;

    GPU_CHECK(state.cuda->library_load_data(
        &library, symc_image, NULL, NULL, 0, NULL, NULL, 0));
    for (int i = 0; (kernel = gpu_kernel(i)) != NULL; i++) {
        CUkernel found = NULL;
        int registers = 0;

        if (i == KERNELS)
            abort();
        gpu_check(state.cuda->library_get_kernel(&found, library, kernel->name),
            kernel->name);
        GPU_CHECK(state.cuda->kernel_get_function(&state.functions[i], found));
        GPU_CHECK(state.cuda->func_get_attribute(
            &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, state.functions[i]));
        if (state.cuda->func_load != NULL)
            GPU_CHECK(state.cuda->func_load(state.functions[i]));
    }
}

/* In a rehearsal, in which the host does the device's work, everything begins
 * later. */
static void choose(void)
{
    const bool slow = gpu_is_rehearsal();

    machine.timeout_ns = UINT64_C(20000000000);
    machine.short_ns = UINT64_C(1000000) * (slow ? SANITIZED ? 900 : 300 : 50);
    machine.elements_max = slow ? 400 : 10000;
    machine.seconds = slow ? 300 : 60;
}

void machine_begin(void)
{
    void *words = NULL;
    CUdeviceptr seen = 0;

    choose();
    state.cuda = gpu_open();
    load_kernels();
    for (int r = 0; r < GROUP_RANKS; r++)
        GPU_CHECK(state.cuda->stream_create_with_priority(
            &state.streams[r], CU_STREAM_NON_BLOCKING, 0));
    state.host = aligned_alloc(4096, NBYTES);
    if (state.host == NULL)
        abort();
    GPU_CHECK(cuMemAlloc(&state.device, NBYTES));
    GPU_CHECK(state.cuda->mem_host_alloc(&words, WORDS_NBYTES,
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    GPU_CHECK(state.cuda->mem_host_get_device_pointer(&seen, words, 0));
    if (seen != (CUdeviceptr)(uintptr_t)words) {
        diag("host memory has another address on the device");
        exit(1);
    }
    state.words = words;
}

int machine_rounds(int rounds)
{
    return gpu_choose(rounds, rounds / 8 + 1, rounds / 64 + 2);
}

/* ---- drawing ---- */

uint32_t machine_draw_blocks(void)
{
    return 1 + group_draw() % (gpu_is_rehearsal() ? 3 : 8);
}

uint32_t machine_draw_threads(int least)
{
    const uint32_t few = (uint32_t)least + group_draw() % 4;
    const uint32_t kind = group_draw() % 8;

    if (gpu_is_rehearsal() || kind < 3)
        return few;
    return kind < 6 ? 32 * (1 + group_draw() % 16) : SYMC_KERNEL_THREADS;
}

/* ---- memory ---- */

static void *take(unsigned char *from, size_t size, size_t *used,
    size_t alignment, size_t nbytes)
{
    *used = (*used + alignment - 1) / alignment * alignment + nbytes;
    if (*used > size) {
        diag("the checks have no more than %zu bytes", size);
        exit(1);
    }
    return from + *used - nbytes;
}

void *machine_alloc(size_t alignment, size_t nbytes)
{
    state.allocations++;
    return take(state.host, NBYTES, &state.used, alignment, nbytes);
}

void machine_free(void *memory)
{
    if (memory != NULL && --state.allocations == 0)
        state.used = 0;
}

void *machine_alloc_words(size_t nbytes)
{
    state.words_allocations++;
    return take(state.words, WORDS_NBYTES, &state.words_used, 64, nbytes);
}

void machine_free_words(void *words)
{
    if (words != NULL && --state.words_allocations == 0)
        state.words_used = 0;
}

/* Not supported by a single device. */
unsigned char *machine_open_multicast(
    unsigned char *const *places, int n, size_t nbytes)
{
    (void)places;
    (void)n;
    (void)nbytes;
    return NULL;
}

void machine_close_multicast(void)
{
}

void machine_note_address(void *word)
{
    if (state.nnotes == NOTES)
        abort();
    state.notes[state.nnotes++] = word;
}

/* Translates an address in the host's copy to the device's; others are
 * unchanged. */
static uint64_t translate(uint64_t address)
{
    const uint64_t offset = address - (uint64_t)(uintptr_t)state.host;

    return offset < state.used ? state.device + offset : address;
}

static CUdeviceptr device_of(const void *at)
{
    return translate((uint64_t)(uintptr_t)at);
}

/* Writes all memory to the device, with its addresses. */
static void put(void)
{
    unsigned char *addresses[NOTES] = {NULL};

    for (int i = 0; i < state.nnotes; i++) {
        const uint64_t there = device_of(*state.notes[i]);

        addresses[i] = *state.notes[i];
        memcpy(state.notes[i], &there, sizeof(there));
    }
    GPU_CHECK(state.cuda->memcpy_async(state.device,
        (CUdeviceptr)(uintptr_t)state.host, state.used, state.streams[0]));
    GPU_CHECK(state.cuda->stream_synchronize(state.streams[0]));
    for (int i = 0; i < state.nnotes; i++)
        *state.notes[i] = addresses[i];
}

/* Reads all memory back; addresses become the host's. */
static void get(void)
{
    unsigned char *addresses[NOTES] = {NULL};

    for (int i = 0; i < state.nnotes; i++)
        addresses[i] = *state.notes[i];
    GPU_CHECK(state.cuda->memcpy_async((CUdeviceptr)(uintptr_t)state.host,
        state.device, state.used, state.streams[0]));
    GPU_CHECK(state.cuda->stream_synchronize(state.streams[0]));
    for (int i = 0; i < state.nnotes; i++)
        *state.notes[i] = addresses[i];
    state.nnotes = 0;
}

/* ---- launches ---- */

static void launch_copy(const struct copying *copying, CUstream stream)
{
    if (copying->nbytes > 0)
        GPU_CHECK(state.cuda->memcpy_async(device_of(copying->to),
            device_of(copying->from), copying->nbytes, stream));
}

static void call_host(void *arg)
{
    const struct call *call = arg;

    call->function(call->args);
}

static void launch_call(const struct engine_launch *launch, CUstream stream)
{
    struct call *call = &state.calls[state.ncalls++];

    *call = (struct call){launch->kernel, launch->args};
    GPU_CHECK(cuLaunchHostFunc(stream, call_host, call));
}

static void launch_kernel(
    const struct engine_launch *launch, int number, CUstream stream)
{
    const struct gpu_kernel *kernel = gpu_kernel(number);
    uint64_t args[ARGS_NBYTES / sizeof(uint64_t)] = {0};
    void *parameters[] = {args};
    CUlaunchConfig config = {.gridDimX = launch->blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = launch->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = stream};

    memcpy(args, launch->args, kernel->nbytes);
    for (size_t i = 0; i < kernel->nbytes / sizeof(args[0]); i++)
        args[i] = translate(args[i]);
    gpu_check(state.cuda->launch_kernel_ex(
                  &config, state.functions[number], parameters, NULL),
        kernel->name);
}

static int number_of(kernel_fn function)
{
    const struct gpu_kernel *kernel;
    int i = 0;

    while ((kernel = gpu_kernel(i)) != NULL && kernel->kernel != function)
        i++;
    return kernel != NULL ? i : -1;
}

static void launch(const struct engine_launch *launch, CUstream stream)
{
    const struct reading *reading = launch->args;
    const int number = number_of(launch->kernel);

    if (number >= 0) {
        launch_kernel(launch, number, stream);
    } else if (launch->kernel == machine_copy) {
        launch_copy(launch->args, stream);
    } else if (launch->kernel == machine_read_after_flag) {
        GPU_CHECK(cuStreamWaitValue32(
            stream, device_of(reading->flag), 1, CU_STREAM_WAIT_VALUE_GEQ));
        launch_copy(&reading->copying, stream);
    } else {
        launch_call(launch, stream);
    }
}

/* Checks that all blocks of the n-th launches of all streams can run at once,
 * because kernels wait for each other. */
static void check_residency(
    const struct engine_stream *streams, int n, int number)
{
    uint32_t blocks = 0;
    int most = 0;

    for (int r = 0; r < n; r++) {
        const struct engine_launch *of = &streams[r].launches[number];
        const int kernel = number < streams[r].n ? number_of(of->kernel) : -1;
        int resident = 0;

        if (kernel < 0)
            continue;
        GPU_CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &resident, state.functions[kernel], (int)of->threads, 0));
        blocks += of->blocks;
        if (most == 0 || resident < most)
            most = resident;
    }
    if (blocks > (uint32_t)(most * gpu_multiprocessors())) {
        diag("%u blocks, of which no more than %d a multiprocessor", blocks,
            most);
        exit(1);
    }
}

/* Launches the first kernel of each stream, then the second: a stream takes a
 * limited number of launches before the host has to wait. */
void machine_run(const struct engine_stream *streams, int n, uint64_t seed)
{
    bool more = true;

    (void)seed;
    put();
    state.ncalls = 0;
    for (int i = 0; more; i++) {
        more = false;
        check_residency(streams, n, i);
        for (int r = 0; r < n; r++) {
            if (i >= streams[r].n)
                continue;
            launch(&streams[r].launches[i], state.streams[r]);
            more = true;
        }
    }
    for (int r = 0; r < n; r++)
        GPU_CHECK(state.cuda->stream_synchronize(state.streams[r]));
    get();
}

/* ---- functions of the engine that the checks call ---- */

void machine_copy(const void *args)
{
    (void)args;
    abort(); /* the stream does it */
}

void machine_read_after_flag(const void *args)
{
    (void)args;
    abort();
}

void engine_relax(void)
{
    const struct timespec pause = {
        .tv_nsec = gpu_is_rehearsal() ? 6000000 : 1000000};

    nanosleep(&pause, NULL);
}
