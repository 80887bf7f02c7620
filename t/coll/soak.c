/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs many mixed small operations of four ranks in two worlds at once, each
 * world driven by its own thread, which sleeps now and then: every bit is
 * right, and memory does not grow. T_SOAK sets the number of operations.
 */
#include "../sanitized.h"
#include "../tap.h"
#include "data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 4
#define WORLDS 2
#define DEFAULT_OPERATIONS 60000
#define MOST 40 /* elements of an operation */
#define IN_FLIGHT 3
#define GROWTH_MAX ((long)2 * 1024 * 1024)
#define GROWTH_EACH 10 /* bytes an operation, where that is less */

/* One rank of one world, and the thread that drives it. */
struct driver {
    pthread_t thread;
    struct symmcoll_init_args args;
    struct symmcoll_group *group;
    symmcoll_op_t premul;
    uint64_t random; /* this rank's own: sleeps */
    long operations;
    int rank;
    unsigned world;
    bool measures; /* the process's memory */
    bool good;
};

/* One operation, the same on all ranks except for the data. */
struct request {
    int kind;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
    size_t count;
    int root;
    unsigned seed;
    unsigned char in[MOST * 16 * RANKS];
    unsigned char out[MOST * 16 * RANKS];
};

enum {
    ALL_REDUCE,
    REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    GATHER,
    BROADCAST,
    KINDS
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void make_request(
    const struct driver *driver, long number, struct request *request)
{
    static const enum symmcoll_dtype dtypes[] = {SYMMCOLL_FLOAT32,
        SYMMCOLL_INT64, SYMMCOLL_FLOAT64, SYMMCOLL_BFLOAT16, SYMMCOLL_UINT8};
    static const symmcoll_op_t ops[] = {SYMMCOLL_SUM, SYMMCOLL_AVG,
        SYMMCOLL_MAX, SYMMCOLL_PRODUCT, SYMMCOLL_PREMUL_SUM};
    uint64_t state = (uint64_t)number * 0x9e3779b97f4a7c15u + driver->world + 1;
    size_t all;

    next_random(&state);
    next_random(&state);
    request->kind = (int)(next_random(&state) % KINDS);
    request->dtype = dtypes[next_random(&state) % LENGTH(dtypes)];
    request->op = ops[next_random(&state) % LENGTH(ops)];
    request->count = next_random(&state) % 4 == 0
                         ? next_random(&state) % (MOST + 1)
                         : next_random(&state) % 5;
    request->root = (int)(next_random(&state) % RANKS);
    request->seed = (unsigned)next_random(&state);
    if (request->op == SYMMCOLL_PREMUL_SUM &&
        (request->dtype == SYMMCOLL_INT64 || request->dtype == SYMMCOLL_UINT8))
        request->op = SYMMCOLL_SUM;
    all = request->kind == REDUCE_SCATTER ? request->count * RANKS
                                          : request->count;
    data_fill(request->in, request->dtype, 0, all, driver->rank, request->seed);
    memset(request->out, 0, sizeof(request->out));
}

static symmcoll_status_t issue(const struct driver *driver,
    struct request *request, struct symmcoll_work **work)
{
    struct symmcoll_group *group = driver->group;
    size_t count = request->count;
    enum symmcoll_dtype dtype = request->dtype;
    symmcoll_op_t op =
        request->op == SYMMCOLL_PREMUL_SUM ? driver->premul : request->op;

    switch (request->kind) {
    case ALL_REDUCE:
        return symmcoll_all_reduce(
            group, request->out, request->in, count, dtype, op, NULL, work);
    case REDUCE:
        return symmcoll_reduce(group, request->out, request->in, count, dtype,
            op, request->root, NULL, work);
    case REDUCE_SCATTER:
        return symmcoll_reduce_scatter(
            group, request->out, request->in, count, dtype, op, NULL, work);
    case ALL_GATHER:
        return symmcoll_all_gather(
            group, request->out, request->in, count, dtype, NULL, work);
    case GATHER:
        return symmcoll_gather(group, request->out, request->in, count, dtype,
            request->root, NULL, work);
    default:
        memcpy(request->out, request->in, count * symmcoll_dtype_size(dtype));
        return symmcoll_broadcast(
            group, request->out, count, dtype, request->root, NULL, work);
    }
}

static bool is_right(const struct driver *driver, const struct request *request)
{
    unsigned char expected[sizeof(request->out)] = {0};
    size_t nbytes = request->count * symmcoll_dtype_size(request->dtype);
    bool receives = driver->rank == request->root;
    size_t first = 0;

    switch (request->kind) {
    case REDUCE_SCATTER:
        first = request->count * (size_t)driver->rank;
        break;
    case REDUCE:
        if (receives)
            break;
        return true;
    case ALL_GATHER:
    case GATHER:
        for (int r = 0; r < RANKS && (receives || request->kind == ALL_GATHER);
             r++)
            data_fill(expected + nbytes * (size_t)r, request->dtype, 0,
                request->count, r, request->seed);
        return data_is_same(
            "gathered", request->out, expected, sizeof(expected));
    case BROADCAST:
        data_fill(expected, request->dtype, 0, request->count, request->root,
            request->seed);
        return data_is_same("broadcast", request->out, expected, nbytes);
    default:
        break;
    }
    data_reduce(expected, request->dtype, request->op, first, request->count,
        RANKS, 16, request->seed);
    return data_is_same("reduced", request->out, expected, nbytes);
}

/* Has several operations in flight, and waits in another order than they were
 * issued in. */
static bool run_queued(struct driver *driver, long number)
{
    struct request requests[IN_FLIGHT];
    struct symmcoll_work *works[IN_FLIGHT];
    bool right = true;

    for (int i = 0; right && i < IN_FLIGHT; i++) {
        make_request(driver, number + i, &requests[i]);
        right = issue(driver, &requests[i], &works[i]) == SYMMCOLL_OK;
    }
    for (int i = IN_FLIGHT - 1; right && i >= 0; i--) {
        right = symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK &&
                is_right(driver, &requests[i]);
        symmcoll_work_free(works[i]);
    }
    return right;
}

static bool run_blocking(struct driver *driver, long number)
{
    struct request request;

    make_request(driver, number, &request);
    return issue(driver, &request, NULL) == SYMMCOLL_OK &&
           is_right(driver, &request);
}

static long resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static bool drive(struct driver *driver)
{
    const long most = driver->operations * WORLDS * GROWTH_EACH;
    long before = 0, grown;

    for (long i = 0; i < driver->operations;) {
        bool queues = i % 10 == 7;

        if (!(queues ? run_queued(driver, i) : run_blocking(driver, i))) {
            diag("rank %d, world %u, operation %ld of %ld", driver->rank,
                driver->world, i, driver->operations);
            return false;
        }
        if (next_random(&driver->random) % 1500 == 0)
            usleep((useconds_t)(next_random(&driver->random) % 400));
        if (i < driver->operations / 5)
            before = resident_bytes();
        i += queues ? IN_FLIGHT : 1;
    }
    grown = resident_bytes() - before;
    if (driver->measures && grown > (most < GROWTH_MAX ? most : GROWTH_MAX)) {
        diag("rank %d: memory has grown by %ld bytes", driver->rank, grown);
        return false;
    }
    return true;
}

static void *run_driver(void *arg)
{
    struct driver *driver = arg;
    struct symmcoll_world *world;

    if (symmcoll_init(&driver->args, &world) != SYMMCOLL_OK)
        goto fail;
    driver->group = symmcoll_world_group(world);
    driver->rank = symmcoll_world_rank(world);
    driver->random = (uint64_t)driver->rank * 77 + driver->world + 1;
    driver->premul = data_op(driver->group, SYMMCOLL_PREMUL_SUM, driver->rank);
    driver->good = drive(driver);
    if (symmcoll_finalize(world) == SYMMCOLL_OK && driver->good)
        return NULL;
fail:
    diag("rank %d, world %u: %s", driver->rank, driver->world,
        symmcoll_last_error());
    driver->good = false;
    return NULL;
}

/* Starts the drivers and waits for them. Returns whether all succeeded. */
static bool run_drivers(struct driver *drivers, int count, long operations)
{
    bool good = true;

    for (int i = 0; i < count; i++) {
        drivers[i].operations = operations / WORLDS;
        if (pthread_create(&drivers[i].thread, NULL, run_driver, &drivers[i]) !=
            0)
            abort();
    }
    for (int i = 0; i < count; i++) {
        pthread_join(drivers[i].thread, NULL);
        good = good && drivers[i].good;
    }
    return good;
}

static const char *const names[WORLDS] = {"soak-one", "soak-two"};

/* Runs a process that is one rank of both worlds. */
static int soak_process(int rank, int size, void *arg)
{
    struct driver drivers[WORLDS] = {{.rank = rank}};

    (void)size;
    for (unsigned w = 0; w < WORLDS; w++) {
        drivers[w].args = (struct symmcoll_init_args)SYMMCOLL_INIT_ARGS_INIT;
        drivers[w].args.name = names[w];
        drivers[w].world = w;
        drivers[w].measures = w == 0 && !SANITIZED;
    }
    return run_drivers(drivers, WORLDS, *(long *)arg) ? 0 : 1;
}

/* Runs the threads of one process as the ranks of both worlds. */
static int soak_threads(int rank, int size, void *arg)
{
    struct driver drivers[WORLDS * RANKS] = {{.rank = rank}};
    struct symmcoll_store *stores[WORLDS];
    bool good;

    (void)size;
    for (unsigned w = 0; w < WORLDS; w++) {
        if (symmcoll_store_create_hash(&stores[w]) != SYMMCOLL_OK)
            return 1;
        for (int r = 0; r < RANKS; r++) {
            struct driver *driver = &drivers[w * RANKS + (unsigned)r];

            driver->args = (struct symmcoll_init_args)SYMMCOLL_INIT_ARGS_INIT;
            driver->args.name = names[w];
            driver->args.store = stores[w];
            driver->args.rank = r;
            driver->args.world_size = RANKS;
            driver->world = w;
            driver->measures = w == 0 && r == 0 && !SANITIZED;
        }
    }
    good = run_drivers(drivers, WORLDS * RANKS, *(long *)arg);
    for (unsigned w = 0; w < WORLDS; w++)
        symmcoll_store_close(stores[w]);
    return good ? 0 : 1;
}

int main(void)
{
    const char *wanted = getenv("T_SOAK");
    long operations = wanted != NULL ? strtol(wanted, NULL, 10) : 0;
    int statuses[RANKS] = {0};

    if (operations <= 0)
        operations = SANITIZED ? DEFAULT_OPERATIONS / 10 : DEFAULT_OPERATIONS;
    plan(2);
    bool good = ranks_spawn(RANKS, soak_process, &operations, statuses) != 0;
    for (int r = 0; r < RANKS; r++)
        good = good && statuses[r] == 0;
    ok(good,
        "%ld operations of %d processes in two worlds are right, and "
        "memory does not grow",
        operations, RANKS);
    good = ranks_spawn(1, soak_threads, &operations, statuses) != 0;
    ok(good && statuses[0] == 0,
        "%ld operations of %d threads in two worlds are right, and memory does "
        "not grow",
        operations, RANKS);
    return done_testing();
}
