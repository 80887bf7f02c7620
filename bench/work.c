/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the cost of a work: a blocking all_reduce against one with a work
 * that is waited for at once.
 *
 *   work [-b BYTES] [-k BLOCKS] [-n RANKS] [-t]
 *
 * By default 8 bytes, 2000 blocks of 16 calls of each kind, 2 ranks that are
 * processes; with -t they are threads. The kinds alternate block by block, on
 * all ranks in the same order. One line of tab-separated columns for each
 * kind: its name, ranks, bytes, and for rank 0 the minimum and the median time
 * of a call in us, those of the blocks, and the median as a multiple of the
 * blocking one.
 *
 * The kinds: "blocking"; "wait", a work and symmcoll_work_wait(); "test", a
 * work for which symmcoll_work_test() is called until it has ended.
 */
#include "bench/ranks.h"

#include <symmcoll.h>

#include <pthread.h>

#define CALLS 16 /* of a block */
#define WARM 100 /* blocks that are not counted */
#define KINDS 3

static const char *const kinds[KINDS] = {"blocking", "wait", "test"};

struct job {
    int size;
    int blocks;
    int count; /* elements of one byte */
    struct symmcoll_store *store;
    int rank; /* of a thread */
    pthread_t thread;
    int failed;
};

static symmcoll_status_t call_once(
    struct symmcoll_group *group, unsigned char *buffer, int count, int kind)
{
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status =
        symmcoll_all_reduce(group, buffer, buffer, (size_t)count,
            SYMMCOLL_UINT8, SYMMCOLL_MAX, NULL, kind == 0 ? NULL : &work);

    if (status != SYMMCOLL_OK || kind == 0)
        return status;
    if (kind == 1)
        status = symmcoll_work_wait(work, -1);
    else
        while ((status = symmcoll_work_test(work)) == SYMMCOLL_IN_PROGRESS)
            ;
    symmcoll_work_free(work);
    return status;
}

static void print_times(const struct job *job, double *times[KINDS])
{
    double blocking = bench_median(times[0], job->blocks);

    printf("kind\tranks\tbytes\tmin_us\tmed_us\tratio\n");
    for (int kind = 0; kind < KINDS; kind++) {
        double median = bench_median(times[kind], job->blocks);

        printf("%s\t%d\t%d\t%.3f\t%.3f\t%.1f\n", kinds[kind], job->size,
            job->count, times[kind][0], median, median / blocking);
    }
    fflush(stdout);
}

static symmcoll_status_t measure(
    const struct job *job, struct symmcoll_group *group)
{
    unsigned char *buffer = calloc((size_t)job->count + 1, 1);
    double *times[KINDS];
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int kind = 0; kind < KINDS; kind++)
        times[kind] = calloc((size_t)job->blocks, sizeof(double));
    for (int block = -WARM; block < job->blocks; block++) {
        for (int kind = 0; kind < KINDS && status == SYMMCOLL_OK; kind++) {
            double began = bench_now();

            for (int i = 0; i < CALLS && status == SYMMCOLL_OK; i++)
                status = call_once(group, buffer, job->count, kind);
            if (block >= 0)
                times[kind][block] = (bench_now() - began) * 1e6 / CALLS;
        }
    }
    if (status == SYMMCOLL_OK && symmcoll_group_rank(group) == 0)
        print_times(job, times);
    for (int kind = 0; kind < KINDS; kind++)
        free(times[kind]);
    free(buffer);
    return status;
}

static int run_rank(const struct job *job)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    symmcoll_status_t status;

    if (job->store != NULL) {
        args.store = job->store;
        args.rank = job->rank;
        args.world_size = job->size;
    }
    if (symmcoll_init(&args, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return 1;
    }
    status = measure(job, symmcoll_world_group(world));
    if (status != SYMMCOLL_OK)
        fprintf(stderr, "%s\n", symmcoll_last_error());
    return symmcoll_finalize(world) != SYMMCOLL_OK || status != SYMMCOLL_OK;
}

static int run_process(int rank, int size, void *arg)
{
    (void)rank;
    (void)size;
    return run_rank(arg);
}

static void *run_thread(void *arg)
{
    struct job *job = arg;

    job->failed = run_rank(job);
    return NULL;
}

static int run_threads(const struct job *job)
{
    struct job ranks[BENCH_RANKS];
    struct symmcoll_store *store;
    int failed = 0;

    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        return 1;
    for (int r = 0; r < job->size; r++) {
        ranks[r] = *job;
        ranks[r].rank = r;
        ranks[r].store = store;
        if (pthread_create(&ranks[r].thread, NULL, run_thread, &ranks[r]) != 0)
            exit(1);
    }
    for (int r = 0; r < job->size; r++) {
        pthread_join(ranks[r].thread, NULL);
        failed += ranks[r].failed;
    }
    symmcoll_store_close(store);
    return failed;
}

int main(int argc, char **argv)
{
    struct job job = {.size = 2, .blocks = 2000, .count = 8};
    pid_t pids[BENCH_RANKS];
    int threads = 0, option;

    while ((option = getopt(argc, argv, "b:k:n:t")) != -1) {
        if (option == 'b')
            job.count = bench_number(optarg, 0, 1 << 30);
        else if (option == 'k')
            job.blocks = bench_number(optarg, 1, 1000000);
        else if (option == 'n')
            job.size = bench_number(optarg, 1, BENCH_RANKS);
        else if (option == 't')
            threads = 1;
        else
            return 2;
    }
    if (threads)
        return run_threads(&job) != 0;
    bench_start(job.size, run_process, &job, pids);
    return bench_finish(job.size, pids) != 0;
}
