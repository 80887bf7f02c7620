/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll-perf: checks the results of collectives, then measures their time.
 * It is one rank if a launcher started it; otherwise its threads are the ranks,
 * or it is a single rank.  It uses the public interface only.
 */
#include "perf_device.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank that is a thread. */
struct thread {
    pthread_t id;
    const struct perf_options *options;
    struct symmcoll_store *store; /* its own clone */
    const char *name;             /* name of the world; NULL: none */
    int rank;
    int result;
};

/* Binds to the rank-th allowed processor.  With fewer processors than ranks, or
 * if binding fails, the scheduler decides. */
static void bind_thread(int rank, int size)
{
    cpu_set_t all, one;
    int seen = 0;

    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < size)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || seen++ != rank)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    }
}

static void *run_thread(void *arg)
{
    struct thread *self = arg;
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;

    bind_thread(self->rank, self->options->threads);
    args.name = self->name;
    args.store = self->store;
    args.rank = self->rank;
    args.world_size = self->options->threads;
    self->result = perf_rank_run(self->options, &args, true);
    return NULL;
}

static int report_thread(int rank, const char *what, const char *why)
{
    fprintf(
        stderr, "symmcoll-perf: thread of rank %d: %s: %s\n", rank, what, why);
    return PERF_FAILED;
}

/*
 * Starts a thread per rank and waits for all.  If one cannot be started, the
 * process exits at once, because the others would wait for it.
 */
static int run_threads(const struct perf_options *options,
    struct symmcoll_store *store, const char *name, struct thread *threads)
{
    int result = PERF_PASSED, error;

    for (int i = 0; i < options->threads; i++) {
        threads[i].options = options;
        threads[i].name = name;
        threads[i].rank = i;
        if (symmcoll_store_clone(store, &threads[i].store) != SYMMCOLL_OK)
            exit(report_thread(i, "store", symmcoll_last_error()));
        error = pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
        if (error != 0)
            exit(report_thread(i, "pthread_create", strerror(error)));
    }
    for (int i = 0; i < options->threads; i++) {
        pthread_join(threads[i].id, NULL);
        symmcoll_store_close(threads[i].store);
        if (threads[i].result > result)
            result = threads[i].result;
    }
    return result;
}

/* Runs all ranks of a world in this process. */
static int run_alone(const struct perf_options *options, const char *name)
{
    struct thread *threads = calloc((size_t)options->threads, sizeof(*threads));
    struct symmcoll_store *store = NULL;
    int result = PERF_FAILED;

    if (!threads) {
        fprintf(stderr, "symmcoll-perf: no memory for %d threads\n",
            options->threads);
        return PERF_FAILED;
    }
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        fprintf(stderr, "symmcoll-perf: store: %s\n", symmcoll_last_error());
    else
        result = run_threads(options, store, name, threads);
    symmcoll_store_close(store);
    free(threads);
    return result;
}

/* Runs one rank, or all of them. */
static int run(const struct perf_options *options, const char *name)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;

    args.name = name;
    return options->threads > 0 ? run_alone(options, name)
                                : perf_rank_run(options, &args, false);
}

static int run_on_devices(struct perf_options *options)
{
    int result = perf_driver_open(&options->driver, options->first_device);

    if (result == PERF_PASSED && options->share)
        setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    if (result == PERF_PASSED)
        result = options->thresholds ? perf_thresholds(options, run)
                                     : run(options, NULL);
    perf_driver_close(options->driver);
    return result;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    int status, rank, result;
    char name[] = "symmcoll-perf";

    if (argc > 0)
        argv[0] = name; /* shown in getopt_long()'s messages */
    if (!perf_parse(argc, argv, &options, &status))
        return status;
    if (options.plot != NULL) /* one rank of a launcher is enough */
        return perf_launched(&rank) && rank > 0 ? PERF_PASSED
               : perf_plot(&options)            ? PERF_PASSED
                                                : PERF_FAILED;
    if (options.threads == 0 && !perf_launched(&rank))
        options.threads = 1;
    result = options.device ? run_on_devices(&options) : run(&options, NULL);
    return perf_flush() ? result : PERF_FAILED;
}
