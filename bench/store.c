/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures a tcp store at a running server: the time that many clients need to
 * join, the rate at which they set and get, and the time from a set until a
 * wait returns. bench/stores runs it against redis-server, too.
 *
 *   bench/store URL CLIENTS [SECONDS]
 */
#include <symmcoll.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define WAKES 201
#define VALUE_NBYTES 64

static const char *url;
static char job[64];
static int clients;
static double seconds = 3;
static atomic_int ready;
static atomic_int go;
static atomic_int stop;
static atomic_llong pairs;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(symmcoll_status_t status, const char *what)
{
    if (status == SYMMCOLL_OK)
        return;
    fprintf(stderr, "bench/store: %s: %s\n", what, symmcoll_last_error());
    exit(1);
}

static struct symmcoll_store *open_store(int num_workers, const char *name)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store;

    args.url = url;
    args.job = name;
    args.num_workers = num_workers;
    args.wait_workers = num_workers > 0;
    args.timeout = 120;
    check(symmcoll_store_open_tcp(&args, &store), "open");
    return store;
}

static void *run_client(void *arg)
{
    struct symmcoll_store *store = open_store(clients, job);
    char key[32], value[VALUE_NBYTES] = {0};
    long long done = 0;

    snprintf(key, sizeof key, "client/%d", *(int *)arg);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&go))
        usleep(1000);
    while (!atomic_load(&stop)) {
        void *got;
        size_t nbytes;

        check(symmcoll_store_set(store, key, value, sizeof value), "set");
        check(symmcoll_store_get(store, key, &got, &nbytes), "get");
        free(got);
        done++;
    }
    atomic_fetch_add(&pairs, done);
    symmcoll_store_close(store);
    return NULL;
}

static void measure_clients(double *join, double *rate)
{
    pthread_t *threads = calloc((size_t)clients, sizeof *threads);
    int *numbers = calloc((size_t)clients, sizeof *numbers);
    pthread_attr_t attr;
    double began = now();

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (int i = 0; i < clients; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], &attr, run_client, &numbers[i]) != 0) {
            fprintf(stderr, "bench/store: no thread for client %d\n", i);
            exit(1);
        }
    }
    while (atomic_load(&ready) < clients)
        usleep(100);
    *join = now() - began;
    atomic_store(&go, 1);
    began = now();
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&stop, 1);
    for (int i = 0; i < clients; i++)
        pthread_join(threads[i], NULL);
    *rate = (double)atomic_load(&pairs) / (now() - began);
    free(numbers);
    free(threads);
}

static _Atomic double woken;

static void *wait_for_keys(void *arg)
{
    for (int i = 0; i < WAKES; i++) {
        char key[32];
        const char *const one = key;

        snprintf(key, sizeof key, "wake/%d", i);
        check(symmcoll_store_wait(arg, &one, 1, 60), "wait");
        atomic_store(&woken, now());
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the median time of a wake in microseconds. */
static double measure_wake(void)
{
    struct symmcoll_store *waits = open_store(0, job);
    struct symmcoll_store *sets = open_store(0, job);
    double times[WAKES];
    pthread_t thread;

    pthread_create(&thread, NULL, wait_for_keys, waits);
    for (int i = 0; i < WAKES; i++) {
        char key[32];
        double began;

        snprintf(key, sizeof key, "wake/%d", i);
        usleep(5000);
        began = now();
        check(symmcoll_store_set(sets, key, "", 0), "set");
        while (atomic_load(&woken) < began)
            usleep(20);
        times[i] = atomic_load(&woken) - began;
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < WAKES; i++) {
        char key[32];

        snprintf(key, sizeof key, "wake/%d", i);
        check(symmcoll_store_delete(sets, key, NULL), "delete");
    }
    symmcoll_store_close(waits);
    symmcoll_store_close(sets);
    qsort(times, WAKES, sizeof *times, compare);
    return times[WAKES / 2] * 1e6;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    double join, rate;

    if (argc < 3 || (clients = atoi(argv[2])) < 1) {
        fprintf(stderr, "Usage: bench/store URL CLIENTS [SECONDS]\n");
        return 2;
    }
    url = argv[1];
    if (argc > 3)
        seconds = atof(argv[3]);
    snprintf(job, sizeof job, "bench-%ld", (long)getpid());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    measure_clients(&join, &rate);
    printf("%d\t%.4f\t%.0f\t%.1f\n", clients, join, rate, measure_wake());
    return 0;
}
