/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates ranks and waits for them with a deadline. The kernel kills the
 * children when the test program dies, so no process remains.
 */
#include "ranks.h"

#include "sanitized.h"
#include "tap.h"

#include <symmcoll.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_DEFAULT (SANITIZED ? 480 : 120)
#define MAX_RANKS 1024

/* Environment variables of launchers, which would mislead the ranks of a
 * test. */
static const char *const launcher_variables[] = {"RANK", "WORLD_SIZE",
    "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "SYMMCOLL_HUB",
    "SYMMCOLL_JOB", "SYMMCOLL_ATTEMPT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
    "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", NULL};

static unsigned calls;

static void set_number(const char *name, long value)
{
    char text[32];

    snprintf(text, sizeof(text), "%ld", value);
    setenv(name, text, 1);
}

void ranks_environment(void)
{
    char address[32];
    unsigned pid = (unsigned)getpid();

    for (const char *const *name = launcher_variables; *name != NULL; name++)
        unsetenv(*name);
    /* A process id fits the 24 bits of the loopback network, so no two running
     * test programs share an address. */
    snprintf(address, sizeof(address), "127.%u.%u.%u", pid >> 16 & 255,
        pid >> 8 & 255, pid & 255);
    setenv("MASTER_ADDR", address, 1);
    set_number("MASTER_PORT", 20000 + calls++ % 40000);
}

void ranks_environment_rank(int rank, int size)
{
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", size);
    set_number("LOCAL_WORLD_SIZE", size);
}

const char *ranks_unique_name(void)
{
    static char name[64];

    snprintf(name, sizeof(name), "t-%ld-%u", (long)getpid(), calls++);
    return name;
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double allowed_seconds(void)
{
    const char *text = getenv("RANKS_TIMEOUT");
    double seconds = text != NULL ? strtod(text, NULL) : 0;

    return seconds > 0 ? seconds : TIMEOUT_DEFAULT;
}

/* Runs in the child: the body, and then the end of the process. */
static _Noreturn void be_rank(
    pid_t parent, int rank, int size, raw_rank_fn body, void *arg)
{
    int status;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    ranks_environment_rank(rank, size);
    status = body(rank, size, arg);
    exit(status); /* not _exit(): sanitizers report there */
}

/* Wait until none of the n is left or the deadline has passed. */
static int reap(pid_t *pids, int n, int *statuses, double deadline)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int left = n;

    for (;;) {
        left = 0;
        for (int i = 0; i < n; i++) {
            if (pids[i] <= 0)
                continue;
            if (waitpid(pids[i], &statuses[i], WNOHANG) == pids[i])
                pids[i] = 0;
            else
                left++;
        }
        if (left == 0 || now() > deadline)
            return left;
        nanosleep(&pause, NULL);
    }
}

static void kill_all(pid_t *pids, int n, int *statuses)
{
    for (int i = 0; i < n; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
    for (int i = 0; i < n; i++)
        if (pids[i] > 0 && waitpid(pids[i], &statuses[i], 0) != pids[i])
            diag("rank %d cannot be waited for: %s", i, strerror(errno));
}

int ranks_spawn(int n, raw_rank_fn body, void *arg, int *statuses)
{
    pid_t pids[MAX_RANKS] = {0};
    int own[MAX_RANKS] = {0};
    pid_t parent = getpid();
    double seconds = allowed_seconds();
    double deadline = now() + seconds;
    int made = 0;
    int left;

    if (n < 1 || n > MAX_RANKS) {
        diag("ranks_spawn: 1 to %d ranks, not %d", MAX_RANKS, n);
        return 0;
    }
    if (statuses == NULL)
        statuses = own;
    ranks_environment();
    fflush(NULL); /* otherwise every child writes the buffered text again */
    for (; made < n; made++) {
        pids[made] = fork();
        if (pids[made] == 0)
            be_rank(parent, made, n, body, arg);
        if (pids[made] < 0) {
            diag("fork of rank %d: %s", made, strerror(errno));
            break;
        }
    }
    left = made < n ? made : reap(pids, n, statuses, deadline);
    if (made == n && left > 0)
        for (int i = 0; i < n; i++)
            if (pids[i] > 0)
                diag("rank %d still runs after %.0f s: killed", i, seconds);
    if (left > 0)
        kill_all(pids, made, statuses);
    return made == n && left == 0;
}

/* Prints how a rank ended if it failed. */
static int ended_well(const char *who, int rank, int status)
{
    if (WIFSIGNALED(status))
        diag("%s %d: killed by signal %d", who, rank, WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        diag("%s %d: exit status %d", who, rank, WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs a body between init and finalize. Returns whether all succeeded. */
static int run_body(
    const struct symmcoll_init_args *args, int rank, rank_fn body)
{
    struct symmcoll_world *world = NULL;
    symmcoll_status_t status = symmcoll_init(args, &world);
    int good;

    if (status != SYMMCOLL_OK) {
        diag("rank %d: symmcoll_init: %s: %s", rank,
            symmcoll_status_name(status), symmcoll_last_error());
        return 0;
    }
    good = body(symmcoll_world_group(world), rank);
    if (!good)
        diag("rank %d: the body failed; the last error was: %s", rank,
            symmcoll_last_error());
    status = symmcoll_finalize(world);
    if (status != SYMMCOLL_OK) {
        diag("rank %d: symmcoll_finalize: %s: %s", rank,
            symmcoll_status_name(status), symmcoll_last_error());
        return 0;
    }
    return good;
}

/* A struct for the function pointer, which must not be cast to a void
 * pointer. */
struct job {
    rank_fn body;
    int nthreads;
    check_fn check;
};

static int process_main(int rank, int size, void *arg)
{
    const struct job *job = arg;

    (void)size;
    return run_body(NULL, rank, job->body) ? 0 : 1;
}

int ranks_run(int n, rank_fn body)
{
    struct job job = {.body = body};
    int statuses[MAX_RANKS] = {0};
    int good = ranks_spawn(n, process_main, &job, statuses);

    for (int i = 0; i < n && i < MAX_RANKS; i++)
        good &= ended_well("rank", i, statuses[i]);
    return good;
}

struct rank_thread {
    pthread_t thread;
    struct symmcoll_init_args args;
    rank_fn body;
    int good;
};

static void *thread_main(void *arg)
{
    struct rank_thread *self = arg;

    self->good = run_body(&self->args, self->args.rank, self->body);
    return NULL;
}

/* Starts all threads on the store and waits for them. */
static int run_threads(
    const struct job *job, struct symmcoll_store *store, const char *name)
{
    struct rank_thread *ranks = calloc((size_t)job->nthreads, sizeof(*ranks));
    int good = ranks != NULL;
    int made = 0;

    for (; good && made < job->nthreads; made++) {
        ranks[made].args = (struct symmcoll_init_args)SYMMCOLL_INIT_ARGS_INIT;
        ranks[made].args.store = store;
        ranks[made].args.rank = made;
        ranks[made].args.world_size = job->nthreads;
        ranks[made].args.name = name;
        ranks[made].body = job->body;
        if (pthread_create(
                &ranks[made].thread, NULL, thread_main, &ranks[made]) != 0) {
            diag("thread %d of %d cannot be made", made, job->nthreads);
            _exit(1); /* the others would wait forever */
        }
    }
    for (int i = 0; i < made; i++) {
        pthread_join(ranks[i].thread, NULL);
        good &= ranks[i].good;
    }
    free(ranks);
    return good;
}

static int threads_main(int rank, int size, void *arg)
{
    struct job *job = arg;
    struct symmcoll_store *store = NULL;
    int good;

    (void)rank;
    (void)size;
    /* Threads take their number only from the arguments. */
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("LOCAL_WORLD_SIZE");
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK) {
        diag("symmcoll_store_create_hash: %s", symmcoll_last_error());
        return 1;
    }
    good = run_threads(job, store, ranks_unique_name());
    symmcoll_store_close(store);
    return good ? 0 : 1;
}

int threads_run(int n, rank_fn body)
{
    struct job job = {.body = body, .nthreads = n};
    int status = 0;
    int good = ranks_spawn(1, threads_main, &job, &status);

    return ended_well("the process of threads,", 0, status) && good;
}

static int check_main(int rank, int size, void *arg)
{
    const struct job *job = arg;

    (void)rank;
    (void)size;
    if (job->check())
        return 0;
    diag("the last error was: %s", symmcoll_last_error());
    return 1;
}

int process_run(check_fn check)
{
    struct job job = {.check = check};
    int status = 0;
    int good = ranks_spawn(1, check_main, &job, &status);

    return ended_well("the process of the check,", 0, status) && good;
}
