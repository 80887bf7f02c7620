/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the effects of settings: each point runs ranks with a setting and
 * without it, and checks the difference. t/config/EFFECTS lists the tests of
 * the others.
 */
#include "base/reduce.h"
#include "group/group.h"
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE 30000 /* elements: more than fit beside a header */

/* Counts non-temporal copies in this process: see local.mk. */
static _Atomic int streamed;
void __real_symc_copy(void *, const void *, size_t, bool);
void __wrap_symc_copy(void *, const void *, size_t, bool);

void __wrap_symc_copy(void *out, const void *in, size_t nbytes, bool streaming)
{
    streamed += streaming;
    __real_symc_copy(out, in, nbytes, streaming);
}

/* ---- ranks ---- */

typedef double (*measure_fn)(struct symmcoll_world *world, int rank);

static struct {
    measure_fn measure;
    char path[256]; /* scratch, without the rank */
} run;

/* Writes a rank's measurement to its own file. */
static int measure(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    char path[300];
    FILE *file;

    (void)size;
    (void)arg;
    snprintf(path, sizeof(path), "%s.%d", run.path, rank);
    file = fopen(path, "w");
    if (file == NULL || symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    fprintf(file, "%.17g", run.measure(world, rank));
    fclose(file);
    symmcoll_finalize(world);
    return 0;
}

/* Returns the measurement of rank 0 with a setting ("NAME=VALUE", or NULL). */
static double with(const char *setting, int size, measure_fn fn)
{
    char name[64] = "", path[300];
    double value = -1;
    FILE *file;

    if (setting != NULL) {
        snprintf(name, sizeof(name), "SYMMCOLL_%.*s",
            (int)strcspn(setting, "="), setting);
        setenv(name, strchr(setting, '=') + 1, 1);
    }
    run.measure = fn;
    for (int r = 0; r < size; r++) {
        snprintf(path, sizeof(path), "%s.%d", run.path, r);
        unlink(path);
    }
    if (ranks_spawn(size, measure, NULL, NULL)) {
        snprintf(path, sizeof(path), "%s.0", run.path);
        file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%lf", &value) != 1)
            value = -1;
        if (file != NULL)
            fclose(file);
    }
    for (int r = 0; r < size; r++) {
        snprintf(path, sizeof(path), "%s.%d", run.path, r);
        unlink(path);
    }
    if (setting != NULL)
        unsetenv(name);
    return value;
}

/* ---- dumps ---- */

/* Returns how often a text occurs in a file; -1: there is no file. */
static double count_in(const char *path, const char *text)
{
    static char content[1 << 18];
    FILE *file = fopen(path, "r");
    double count = 0;
    size_t nbytes;

    if (file == NULL)
        return -1;
    nbytes = fread(content, 1, sizeof(content) - 1, file);
    content[nbytes] = '\0';
    fclose(file);
    unlink(path);
    for (const char *at = content; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static double count_in_dump(
    struct symmcoll_world *world, int rank, const char *text)
{
    char path[300];

    snprintf(path, sizeof(path), "%s.dump%d", run.path, rank);
    for (int i = 0; i < 6; i++) {
        if (symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) != 0)
            return -2;
    }
    if (symmcoll_trace_dump(world, path, 0) != SYMMCOLL_OK)
        return -3;
    return count_in(path, text);
}

static double count_entries(struct symmcoll_world *world, int rank)
{
    return count_in_dump(world, rank, "\"record_id\"");
}

static double count_words(struct symmcoll_world *world, int rank)
{
    return count_in_dump(world, rank, "\"words:");
}

static double count_version(struct symmcoll_world *world, int rank)
{
    return count_in_dump(world, rank, "\"version\": \"2.2\"");
}

static double count_braces(struct symmcoll_world *world, int rank)
{
    return count_in_dump(world, rank, "{");
}

/* Counts the entries in the dump of a failure, within the limits of the
 * settings. */
static double count_after_failure(struct symmcoll_world *world, int rank)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    char path[300];

    (void)rank;
    snprintf(path, sizeof(path), "%s.auto0", run.path);
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return -2;
    symmcoll_group_abort(group, "enough");
    if (symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK)
        return -3;
    return count_in(path, "\"record_id\"");
}

/* Returns the milliseconds of a failing call while the monitor cannot write. */
static double time_grace(struct symmcoll_world *world, int rank)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    int64_t began = symc_now_ns();

    (void)rank;
    pthread_mutex_lock(&world->lock);
    symmcoll_group_abort(group, "enough");
    if (symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK)
        return -1;
    pthread_mutex_unlock(&world->lock);
    return (double)(symc_now_ns() - began) / 1e6;
}

/* Repeated, because a busy machine may take longer. */
static bool within_200_ms(const char *setting)
{
    bool within = false;

    for (int i = 0; i < 10 && !within; i++) {
        double ms = with(setting, 1, time_grace);

        within = ms >= 0 && ms < 200;
    }
    return within;
}

/* ---- waiting ---- */

static bool is_asleep(const struct symmcoll_group *group, int rank)
{
    return (atomic_load(&group->runner.members.doorbells[rank]->sleeping) &
               ~SYMC_DOORBELL_FENCED) != 0;
}

/* Whether a rank must sleep in the end, and not only after 200 ms. */
static bool waits_for_sleep;

/* Returns whether a rank that has waited for 200 ms sleeps, according to its
 * doorbell. */
static double has_gone_to_sleep(struct symmcoll_world *world, int rank)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    double asleep = -1;

    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return -1;
    if (rank == 0) {
        usleep(200000);
        for (int i = 0; i < 2000 && waits_for_sleep && !is_asleep(group, 1);
             i++)
            usleep(10000);
        asleep = is_asleep(group, 1);
    }
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK ? asleep : -1;
}

static bool keeps_awake(const char *setting, int size)
{
    bool sleeps, awake = false;

    waits_for_sleep = true;
    sleeps = with(NULL, size, has_gone_to_sleep) == 1;
    waits_for_sleep = false;
    /* A late check finds it asleep. */
    for (int i = 0; i < 10 && sleeps && !awake; i++)
        awake = with(setting, size, has_gone_to_sleep) == 0;
    return awake;
}

static double count_rounds(struct symmcoll_world *world, int rank)
{
    uint64_t before = atomic_load(&world->monitor.beats);

    (void)rank;
    usleep(300000);
    return (double)(atomic_load(&world->monitor.beats) - before);
}

/* Compares the number of monitor rounds. Repeated, because the monitor may not
 * be scheduled. */
static bool looks_more_often(const char *often, const char *seldom)
{
    bool more = false;

    for (int i = 0; i < 10 && !more; i++)
        more = with(often, 1, count_rounds) >
               4 * with(seldom, 1, count_rounds) + 4;
    return more;
}

/* ---- moving data ---- */

static double count_streamed(struct symmcoll_world *world, int rank)
{
    static float in[LARGE], out[2 * LARGE];

    (void)rank;
    if (symmcoll_all_gather(symmcoll_world_group(world), out, in, LARGE,
            SYMMCOLL_FLOAT32, NULL, NULL) != SYMMCOLL_OK)
        return -1;
    return streamed;
}

static int large_sum(struct symmcoll_group *group)
{
    float *x = calloc(LARGE, sizeof(*x));
    int good =
        x != NULL && symmcoll_all_reduce(group, x, x, LARGE, SYMMCOLL_FLOAT32,
                         SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;

    free(x);
    return good;
}

static int goes_direct(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return large_sum(group) && !group->runner.reserved;
}

static int goes_staged(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return large_sum(group) && group->runner.reserved;
}

/* ---- others ---- */

static double count_buckets(struct symmcoll_world *world, int rank)
{
    static float data[4][256];
    struct symmcoll_tensor params[4];
    struct symmcoll_reducer *reducer;
    double count = -1;

    (void)rank;
    for (int i = 0; i < 4; i++)
        params[i] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_FLAT(
            data[i], 256, SYMMCOLL_FLOAT32);
    if (symmcoll_reducer_create(symmcoll_world_group(world), params, 4, NULL,
            &reducer) != SYMMCOLL_OK)
        return -2;
    for (int step = 0; step < 2; step++) {
        if (symmcoll_reducer_begin(reducer, 1) != SYMMCOLL_OK)
            goto free_reducer;
        for (int i = 3; i >= 0; i--) {
            if (symmcoll_reducer_ready(reducer, i, data[i]) != SYMMCOLL_OK)
                goto free_reducer;
        }
        if (symmcoll_reducer_finish(reducer) != SYMMCOLL_OK)
            goto free_reducer;
    }
    count = symmcoll_reducer_bucket_count(reducer);
free_reducer:
    symmcoll_reducer_free(reducer);
    return count;
}

/* Counts the lines on standard error since init. */
static double count_lines(const char *level)
{
    char path[300], command[64];
    double count;
    int saved = dup(STDERR_FILENO);

    snprintf(path, sizeof(path), "%s.log", run.path);
    snprintf(command, sizeof(command), "LOG_LEVEL=%s", level);
    fflush(stderr);
    if (saved < 0 || freopen(path, "w", stderr) == NULL)
        return -1;
    with(command, 1, count_rounds);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    count = count_in(path, "\n");
    return count;
}

/* Returns the timeout in seconds of the store of a world with threads. */
static double store_timeout(const char *setting)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_store *store;
    struct symmcoll_world *world;
    double seconds = -1;

    if (setting != NULL)
        setenv("SYMMCOLL_STORE_TIMEOUT", setting, 1);
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        return -1;
    args.store = store;
    args.world_size = 1;
    if (symmcoll_init(&args, &world) == SYMMCOLL_OK) {
        seconds = symmcoll_store_timeout(symmcoll_world_store(world));
        symmcoll_finalize(world);
    }
    symmcoll_store_close(store);
    unsetenv("SYMMCOLL_STORE_TIMEOUT");
    return seconds;
}

static void test_records(void)
{
    char prefix[300];

    ok(with(NULL, 2, count_entries) == 6 &&
            with("TRACE_BUFFER_SIZE=4", 2, count_entries) == 4,
        "trace.buffer_size: so many operations are kept");
    ok(with(NULL, 2, count_words) == 0 &&
            with("TRACE_BACKEND_NAME=words", 2, count_words) == 6,
        "trace.backend_name: the word is before each operation");
    ok(with(NULL, 2, count_version) == 0 &&
            with("TRACE_VERSION=2.2", 2, count_version) == 1,
        "trace.version: the dump has it");
    ok(with(NULL, 2, count_braces) > 6 &&
            with("TRACE_FORMAT=pickle", 2, count_braces) == 0,
        "trace.format: a pickle is no JSON");
    snprintf(prefix, sizeof(prefix), "%s.auto", run.path);
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    ok(with(NULL, 1, count_after_failure) == -1, "no dump comes elsewhere");
    setenv("SYMMCOLL_TRACE_DUMP_FILE", prefix, 1);
    ok(with(NULL, 1, count_after_failure) == 1,
        "trace.dump_file: there the dump of a failure is");
    ok(with("TRACE_DUMP_ON_ERROR=off", 1, count_after_failure) == -1,
        "trace.dump_on_error: off, there is none");
    ok(with("TRACE_ONLY_ACTIVE=on", 1, count_after_failure) == 0,
        "trace.only_active: what has ended is not in it");
    ok(within_200_ms("TRACE_DUMP_GRACE=0") &&
            with("TRACE_DUMP_GRACE=300ms", 1, time_grace) >= 300,
        "trace.dump_grace: a failing call waits so long for the dump");
    unsetenv("SYMMCOLL_LOG_LEVEL");
}

static void test_waiting(void)
{
    cpu_set_t two;

    ok(looks_more_often("HOST_WATCH=2ms", "HOST_WATCH=1s"),
        "host.watch: so often the monitor looks");
    setenv("SYMMCOLL_HOST_YIELD", "0", 1);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        skip(3, "one processor");
        return;
    }
    ok(keeps_awake("HOST_SPIN=1s", 2),
        "host.spin: so long a rank polls before it sleeps");
    CPU_ZERO(&two);
    CPU_SET(0, &two);
    CPU_SET(1, &two);
    if (sched_setaffinity(0, sizeof(two), &two) != 0) {
        skip(2, "processors 0 and 1 are not ours");
        return;
    }
    ok(keeps_awake("HOST_POLLS=1000000000", 3),
        "host.polls: so often it does, where ranks share processors");
    ok(keeps_awake("HOST_YIELD=1s", 3),
        "host.yield: so long it yields there before it sleeps");
    unsetenv("SYMMCOLL_HOST_YIELD");
}

int main(void)
{
    double info, debug;

    plan(20);
    snprintf(run.path, sizeof(run.path), "t/scratch/effects.%d", (int)getpid());
    test_records();
    test_waiting();
    ok(with(NULL, 2, count_streamed) == 0 &&
            with("HOST_STREAM_MIN=0", 2, count_streamed) > 0,
        "host.stream_min: from there on results are streamed");
    setenv("SYMMCOLL_HOST_DIRECT", "on", 1);
    ok(threads_run(2, goes_direct), "host.direct: on, threads stage nothing");
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    ok(threads_run(2, goes_staged), "host.direct: off, they do");
    ok(with("DDP_FIRST_BUCKET_CAP=1KiB", 1, count_buckets) >
            with(NULL, 1, count_buckets),
        "ddp.first_bucket_cap: the first bucket is full with that");
    setenv("SYMMCOLL_DDP_FIRST_BUCKET_CAP", "1KiB", 1);
    ok(with("DDP_BUCKET_CAP=1KiB", 1, count_buckets) >
            with(NULL, 1, count_buckets),
        "ddp.bucket_cap: the others are with that");
    unsetenv("SYMMCOLL_DDP_FIRST_BUCKET_CAP");
    ok(store_timeout(NULL) == 300 && store_timeout("7s") == 7,
        "store.timeout: so long the world's store waits");
    info = count_lines("info");
    debug = count_lines("debug");
    ok(count_lines("off") == 0 && info > 0 && debug > info,
        "log.level: each level says more than the one before");
    return done_testing();
}
