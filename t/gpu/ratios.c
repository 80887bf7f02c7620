/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the library with the limits of a device: 2, 4 and 8 threads that
 * share it, by the device's time for one of many consecutive operations.
 * Medians, on random data. One ratio is checked, on a device only: all_reduce
 * of the largest sizes in symmetric memory reaches WANTED of a copy's
 * bandwidth if one group has the device and all of its multiprocessors
 * (cuda.groups=1, cuda.blocks=64). The ratio with the defaults, which reserve
 * space for the kernels of other groups and of programs, is printed beside it.
 *
 *   all_reduce      against a copy of the same size, for large ones, in symmetric
 *                   memory too; and against empty kernels, for 8 bytes
 *   barrier         of symmetric memory, against empty kernels
 *   a graph         of all_reduces of 8 bytes, against the same calls
 */
#include "t/gpu/measure.h"
#include "t/gpu/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROW_MOST 20 /* operations of a sample */
#define WANTED 0.85 /* of a copy's bandwidth */

/* The ratios measured by the ranks, in memory shared with the parent, or 0:
 * with all multiprocessors, and with the defaults. */
static double *found;

#define RATIOS 2

/* ---- one rank ---- */

struct rank {
    const struct symc_cuda *cuda;
    struct symmcoll_group *group;
    struct symmcoll_call call;
    struct span span;
    int rank;
    int size;
    float *in, *out; /* of the largest size; in stays as it is */
    struct symmcoll_symm *handle;
    void *symmetric;
    double copied; /* GB/s; of rank 0, as what follows */
    double empty;  /* us of an empty kernel in a row of them */
};

/* Returns the size that is checked for each number of ranks, which is also the
 * largest. */
static size_t judged(void)
{
    return 4 * medium();
}

static size_t largest(int ranks)
{
    return ranks == 2 ? 2 * judged() : judged();
}

static bool right(symmcoll_status_t status, const char *what)
{
    if (status == SYMMCOLL_OK)
        return true;
    diag("%s: %s: %s", what, symmcoll_status_name(status),
        symmcoll_last_error());
    return false;
}

/* An operation, enqueued on the rank's stream. */
struct operation {
    const char *name;
    symmcoll_status_t (*call)(const struct rank *it, size_t nbytes);
    bool in_place; /* in symmetric memory */
};

static symmcoll_status_t all_reduce(const struct rank *it, size_t nbytes)
{
    return symmcoll_all_reduce(it->group, it->out, it->in,
        nbytes / sizeof(float), F32, SUM, &it->call, NULL);
}

static symmcoll_status_t symmetric(const struct rank *it, size_t nbytes)
{
    return symmcoll_symm_two_shot_all_reduce(
        it->handle, 0, NULL, nbytes / sizeof(float), F32, SUM, &it->call);
}

static symmcoll_status_t barrier(const struct rank *it, size_t nbytes)
{
    (void)nbytes;
    return symmcoll_symm_barrier(it->handle, 0, -1);
}

static const struct operation plain_sum = {"all_reduce", all_reduce, false},
                              symmetric_sum = {"symmetric all_reduce",
                                  symmetric, true},
                              roomy_sum = {"symmetric all_reduce, defaults",
                                  symmetric, true},
                              symm_barrier = {"symm_barrier", barrier, false};

/* ---- samples ---- */

/* Starts all ranks together, by the host's barrier. */
static bool meet(const struct rank *it)
{
    GPU_CHECK(it->cuda->stream_synchronize(it->span.stream));
    return right(symmcoll_barrier(it->group, NULL, NULL), "barrier");
}

static bool enqueue_row(
    const struct rank *it, const struct operation *one, size_t nbytes, int n)
{
    for (int k = 0; k < n; k++) {
        if (!right(one->call(it, nbytes), one->name))
            return false;
    }
    return true;
}

/* Writes new data: sums left in place would grow until they are infinite.
 * Those of a row have space to grow. */
static void refill(
    const struct rank *it, const struct operation *one, size_t nbytes)
{
    if (one->in_place)
        GPU_CHECK(it->cuda->memcpy_async((CUdeviceptr)(uintptr_t)it->symmetric,
            (CUdeviceptr)(uintptr_t)it->in, nbytes, it->span.stream));
}

/* Measures the microseconds of one in a row of n. */
static bool sample(const struct rank *it, const struct operation *one,
    size_t nbytes, int n, double *us)
{
    refill(it, one, nbytes);
    if (!meet(it))
        return false;
    begin_span(&it->span);
    if (!enqueue_row(it, one, nbytes, n))
        return false;
    end_span(&it->span);
    *us = measure_span(&it->span) / n;
    return true;
}

static int samples_of(void)
{
    return gpu_choose(11, 3, 1);
}

static bool time_row(const struct rank *it, const struct operation *one,
    size_t nbytes, int n, double *us)
{
    double times[SAMPLES];
    const int count = samples_of();

    /* The first one opens resources. */
    for (int i = -1; i < count; i++) {
        if (!sample(it, one, nbytes, n, &times[i < 0 ? 0 : i]))
            return false;
    }
    *us = median(times, count);
    return true;
}

/* ---- against copies ---- */

/* Prints a bandwidth: R ranks read N bytes and write at least as many, like a
 * copy of R N bytes. */
static void tell_bytes(
    const struct rank *it, const char *name, size_t nbytes, double us)
{
    char what[96];
    double ratio;

    if (it->rank != 0)
        return;
    (void)snprintf(
        what, sizeof(what), "%s, %d ranks, %zu bytes", name, it->size, nbytes);
    tell(what, us, "us");
    (void)snprintf(what, sizeof(what), "%s, %d ranks, %zu bytes, of a copy",
        name, it->size, nbytes);
    ratio = it->size * (double)nbytes / us / 1e3 / it->copied;
    tell(what, ratio, "x");
    if (nbytes >= judged())
        found[nbytes > judged()] = ratio;
}

static bool measure_size(
    const struct rank *it, const struct operation *one, size_t nbytes)
{
    double us;

    if (!time_row(it, one, nbytes, gpu_choose(ROW_MOST, 2, 1), &us))
        return false;
    tell_bytes(it, one->name, nbytes, us);
    return true;
}

static bool measure_sizes(const struct rank *it, const struct operation *one)
{
    for (size_t n = judged() / 512; n <= judged(); n *= 8) {
        if (!measure_size(it, one, n))
            return false;
    }
    return it->size != 2 || measure_size(it, one, largest(it->size));
}

/* ---- against launches ---- */

static void tell_launch(const struct rank *it, const char *name, double us)
{
    char what[96];

    if (it->rank != 0)
        return;
    (void)snprintf(what, sizeof(what), "%s, %d ranks", name, it->size);
    tell(what, us, "us");
    (void)snprintf(
        what, sizeof(what), "%s, %d ranks, of an empty kernel", name, it->size);
    tell(what, us / it->empty, "x");
}

static bool measure_small(const struct rank *it)
{
    const int row = gpu_choose(ROW_MOST, 5, 2);
    double us;

    if (!time_row(it, &plain_sum, 8, row, &us))
        return false;
    tell_launch(it, "all_reduce of 8 bytes", us);
    if (!time_row(it, &symm_barrier, 0, row, &us))
        return false;
    tell_launch(it, symm_barrier.name, us);
    return true;
}

/* Captures a row of calls. */
static bool capture_row(const struct rank *it, int n, CUgraphExec *exec)
{
    CUgraph graph = NULL;
    bool done;

    if (!meet(it))
        return false;
    GPU_CHECK(cuStreamBeginCapture(
        it->span.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    done = enqueue_row(it, &plain_sum, 8, n);
    GPU_CHECK(cuStreamEndCapture(it->span.stream, &graph));
    GPU_CHECK(cuGraphInstantiate(exec, graph, 0));
    GPU_CHECK(cuGraphDestroy(graph));
    return done;
}

static bool measure_graph(const struct rank *it)
{
    const int row = gpu_choose(ROW_MOST, 5, 2), count = samples_of();
    double plain[SAMPLES], replayed[SAMPLES];
    CUgraphExec exec = NULL;
    bool done = capture_row(it, row, &exec);

    for (int i = 0; done && i < count; i++) {
        done = sample(it, &plain_sum, 8, row, &plain[i]) && meet(it);
        if (!done)
            break;
        begin_span(&it->span);
        GPU_CHECK(cuGraphLaunch(exec, it->span.stream));
        end_span(&it->span);
        replayed[i] = measure_span(&it->span) / row;
    }
    if (done && it->rank == 0) {
        const double us = median(replayed, count);

        tell_launch(it, "all_reduce of 8 bytes in a graph", us);
        tell("plain calls to those of a graph", median(plain, count) / us, "x");
    }
    done = meet(it) && done;
    if (exec != NULL)
        GPU_CHECK(cuGraphExecDestroy(exec));
    return done;
}

/* ---- all of it ---- */

static double time_empty(const struct rank *it)
{
    CUfunction function = load_empty(it->cuda);
    double times[SAMPLES];

    for (int i = 0; i < SAMPLES; i++) {
        begin_span(&it->span);
        for (int k = 0; k < LAUNCHES; k++)
            launch_empty(it->cuda, function, it->span.stream);
        end_span(&it->span);
        times[i] = measure_span(&it->span) / LAUNCHES;
    }
    return median(times, SAMPLES);
}

static bool open_rank(struct rank *it)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    const size_t nbytes = largest(it->size);

    args.device = SYMMCOLL_CUDA;
    if (!right(symmcoll_symm_alloc(world, nbytes, &args, &it->symmetric),
            "symm_alloc") ||
        !right(symmcoll_symm_rendezvous(
                   it->group, it->symmetric, NULL, &it->handle),
            "symm_rendezvous"))
        return false;
    it->in = device_alloc(nbytes);
    it->out = device_alloc(nbytes);
    fill_random(it->in, nbytes / sizeof(*it->in), it->rank);
    open_span(&it->span, it->cuda);
    it->call.stream = it->span.stream;
    return right(symmcoll_group_set_stream(it->group, it->span.stream),
        "group_set_stream");
}

static bool close_rank(struct rank *it, bool done)
{
    done = meet(it) && done;
    symmcoll_symm_release(it->handle);
    done = right(symmcoll_symm_free(
                     symmcoll_group_world(it->group), it->symmetric),
               "symm_free") &&
           done;
    device_free(it->in);
    device_free(it->out);
    close_span(&it->span);
    return done;
}

static int run_rank(struct symmcoll_group *group, int rank,
    bool (*measure_all)(const struct rank *it))
{
    struct rank it = {.group = group,
        .call = SYMMCOLL_CALL_INIT,
        .rank = rank,
        .size = symmcoll_group_size(group)};

    device_use(rank);
    it.cuda = gpu_open();
    if (!open_rank(&it))
        return 0;
    if (rank == 0) {
        it.copied = bandwidth(it.cuda, largest(it.size));
        it.empty = time_empty(&it);
    }
    return close_rank(&it, meet(&it) && measure_all(&it));
}

static bool measure_alone(const struct rank *it)
{
    return measure_sizes(it, &plain_sum) && measure_sizes(it, &symmetric_sum) &&
           measure_small(it) && measure_graph(it);
}

static bool measure_roomy(const struct rank *it)
{
    return measure_sizes(it, &roomy_sum);
}

static int measure(struct symmcoll_group *group, int rank)
{
    return run_rank(group, rank, measure_alone);
}

static int measure_default(struct symmcoll_group *group, int rank)
{
    return run_rank(group, rank, measure_roomy);
}

/* Checks a ratio found by tell_bytes(). */
static void judge(int ranks, size_t nbytes, double ratio)
{
    char what[120];

    (void)snprintf(what, sizeof(what),
        "all_reduce of %zu bytes in symmetric memory has %g of a copy's "
        "bandwidth (%d threads, cuda.groups=1, cuda.blocks=64)",
        nbytes, WANTED, ranks);
    if (gpu_is_rehearsal()) {
        skip(1, "in a rehearsal no time is a device's");
        return;
    }
    ok(ratio >= WANTED, "%s", what);
    if (ratio < WANTED)
        diag("found %.3f", ratio);
}

/* Sets or unsets the settings with which one group has all multiprocessors of
 * the device. */
static void set_alone(bool alone)
{
    unsetenv("SYMMCOLL_CUDA_GROUPS");
    unsetenv("SYMMCOLL_CUDA_BLOCKS");
    if (alone)
        setenv("SYMMCOLL_CUDA_GROUPS", "1", 1);
    if (gpu_is_rehearsal())
        setenv("SYMMCOLL_CUDA_BLOCKS", "2", 1);
    else if (alone)
        setenv("SYMMCOLL_CUDA_BLOCKS", "64", 1);
}

int main(void)
{
    gpu_begin(300);
    found = mmap(NULL, RATIOS * sizeof(*found), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        abort();
    for (int n = 2; n <= gpu_choose(8, 4, 2); n *= 2) {
        memset(found, 0, RATIOS * sizeof(*found));
        set_alone(true);
        on_threads(n, measure, "all_reduce, barriers and graphs are measured");
        judge(n, judged(), found[0]);
        if (n == 2)
            judge(n, largest(n), found[1]);
        set_alone(false);
        on_threads(
            n, measure_default, "all_reduce with room for others is measured");
    }
    return done_testing();
}
