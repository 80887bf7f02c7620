/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll-run: starts the ranks of a program on this machine, lets them join
 * each other, and reports at the end what went wrong.  Manual: symmcoll-run(1).
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Per rank: two streams; during a rendezvous a connection, a block and a pidfd.
 * With --output, before that: two files and two pipes. */
#define FILES_PER_RANK 5
#define OUTPUT_FILES_PER_RANK 6
#define FILES_MORE 32

/*
 * Opens standard streams that are closed, because other files would take their
 * numbers.  Each becomes the reading end of a pipe without a writer: reading
 * returns end of file, and writing fails as before (EBADF), so that lost output
 * is an error.
 */
static bool check_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        int ends[2];

        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (pipe(ends) != 0)
            return false;
        close(ends[1]);
        if (ends[0] != fd)
            return false;
    }
    return true;
}

static void open_sinks(struct run_job *job)
{
    struct stat out, err;

    run_sink_open(&job->sinks[0], STDOUT_FILENO, "standard output");
    run_sink_open(&job->sinks[1], STDERR_FILENO, "standard error");
    job->out = &job->sinks[0];
    job->err = &job->sinks[1];
    /* One queue for one destination, or lines would mix. */
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
        out.st_dev == err.st_dev && out.st_ino == err.st_ino)
        job->err = job->out;
}

/* Receives signals by descriptor; the ranks get the original mask. */
static bool open_signals(struct run_job *job)
{
    static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT,
        SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        sigaddset(&set, wanted[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(
        SIGXFSZ, SIG_IGN); /* exceeding the limit is an ordinary error */
    /* an inherited SIG_IGN would reap children */
    (void)signal(SIGCHLD, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &set, &job->old_mask) != 0)
        return false;
    job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signals >= 0;
}

static bool raise_file_limit(struct run_job *job)
{
    rlim_t each =
        job->options->output != NULL ? OUTPUT_FILES_PER_RANK : FILES_PER_RANK;
    rlim_t needed = (rlim_t)job->options->ranks * each + FILES_MORE;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true; /* opening files will show */
    job->old_files = limit;
    if (limit.rlim_cur >= needed)
        return true;
    if (limit.rlim_max < needed) {
        run_say(job->err,
            "%d ranks need %ju open files, allowed are %ju (RLIMIT_NOFILE)",
            job->options->ranks, (uintmax_t)needed, (uintmax_t)limit.rlim_max);
        return false;
    }
    limit.rlim_cur = needed;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Makes names that are unique to this job and this attempt. */
static bool make_names(struct run_job *job)
{
    uint64_t random;

    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    snprintf(job->server_name, sizeof(job->server_name),
        "symmcoll-run-%d-%016" PRIx64, (int)getpid(), random);
    if (job->attempt == 0)
        snprintf(job->id, sizeof(job->id), "run-%d-%016" PRIx64, (int)getpid(),
            random);
    return true;
}

static bool open_attempt(struct run_job *job)
{
    struct symc_bootstrap_events events = {
        .joined = run_record_joined, .failed = run_record_failed, .arg = job};

    job->running = job->ended = job->interrupts = job->request = 0;
    job->ending = job->server_failed = job->failed_before = job->kept = false;
    job->missing[0] = job->late[0] = '\0';
    job->terminate_at = job->kill_at = SYMC_NEVER;
    job->input = (struct run_input){.from = -1, .to = -1};
    job->ranks = symc_alloc((size_t)job->options->ranks, sizeof(*job->ranks));
    if (job->ranks == NULL) {
        run_say(job->err, "%s", symmcoll_last_error());
        return false;
    }
    for (int i = 0; i < job->options->ranks; i++) {
        job->ranks[i].number = i;
        job->ranks[i].streams[0].fd = job->ranks[i].streams[1].fd = -1;
    }
    if (!run_files_open(job))
        goto free_ranks;
    if (!make_names(job)) {
        run_say(job->err, "no random numbers: %s", strerror(errno));
        goto close_files;
    }
    if (symc_bootstrap_open(job->server_name, &events, &job->server) ==
        SYMMCOLL_OK)
        return true;
    run_say(job->err, "%s", symmcoll_last_error());
close_files:
    run_files_finish(job);
free_ranks:
    free(job->ranks);
    job->ranks = NULL;
    return false;
}

static void close_attempt(struct run_job *job)
{
    run_sweep(job);
    run_files_finish(job);
    for (int i = 0; i < 2 * job->options->ranks; i++)
        run_stream_finish(&job->ranks[i / 2].streams[i % 2]);
    run_input_close(&job->input);
    run_record_forget(job);
    symc_bootstrap_close(job->server);
    free(job->ranks);
    job->ranks = NULL;
}

/* Returns the name of the first stream or file with a write error, and the
 * error; NULL: none. */
static const char *find_loss(const struct run_job *job, int *error)
{
    for (int i = 0; i < 2; i++)
        if (job->sinks[i].error != 0) {
            *error = job->sinks[i].error;
            return job->sinks[i].name;
        }
    *error = job->files.error;
    return job->files.error != 0 ? job->files.name : NULL;
}

/* Returns whether a status is death by a signal that a process's own fault
 * raises. */
static bool is_crash(int status)
{
    static const int faults[] = {
        SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (WIFSIGNALED(status) && WTERMSIG(status) == faults[i])
            return true;
    return false;
}

/* Reports an interruption.  Ranks that ended because of it have not failed; but
 * one may have crashed. */
static void say_interrupted(
    const struct run_job *job, char *line, size_t nbytes)
{
    char end[64] = "";

    for (int i = 0; i < job->options->ranks && end[0] == '\0'; i++) {
        const struct run_rank *rank = &job->ranks[i];

        if (is_crash(rank->status))
            run_describe_end(rank, end, sizeof(end));
    }
    snprintf(line, nbytes, "interrupted by SIG%s%s%s%s%s",
        sigabbrev_np(job->request), job->late[0] != '\0' ? "; " : "", job->late,
        end[0] != '\0' ? "; " : "", end);
}

/* Returns the exit status of an attempt and, unless that is 0, one line.  Ranks
 * with output that could not be written end by SIGPIPE, which is not their own
 * failure. */
static int judge(const struct run_job *job, char *line, size_t nbytes)
{
    int error;
    const char *lost = find_loss(job, &error);

    if (lost == NULL) {
        int status = run_verdict(job, line, nbytes);

        if (status != 0 && job->request != 0 && !job->failed_before)
            say_interrupted(job, line, nbytes);
        return status;
    }
    snprintf(line, nbytes, "%s: %s", lost, strerror(error));
    return RUN_EXIT_FAILED;
}

/* Runs all ranks once.  Returns the exit status and whether to try again. */
static int run_attempt(struct run_job *job, bool *again)
{
    char line[640];
    int status, error;

    *again = false;
    if (!open_attempt(job))
        return RUN_EXIT_FAILED;
    status = run_start(job);
    if (status == 0) {
        run_watch(job);
        run_sweep(job);
        run_files_finish(job);
        status = judge(job, line, sizeof(line));
        *again = status != 0 && job->interrupts == 0 &&
                 find_loss(job, &error) == NULL && !run_has_survivors(job) &&
                 job->attempt < job->options->max_restarts;
        if (*again)
            run_say(job->err, "%s; starting again (%d of %d)", line,
                job->attempt + 1, job->options->max_restarts);
        else if (status != 0)
            run_say(job->err, "%s", line);
    }
    close_attempt(job);
    return status;
}

static bool prepare(struct run_job *job)
{
    const char *output = job->options->output;

    if (!raise_file_limit(job))
        return false;
    if (output != NULL && mkdir(output, 0777) != 0 && errno != EEXIST) {
        run_say(job->err, "--output: %s: %s", output, strerror(errno));
        return false;
    }
    if (symc_config_load(&job->config, NULL, NULL) != SYMMCOLL_OK) {
        run_say(job->err, "%s", symmcoll_last_error());
        return false;
    }
    if (!run_bind_find(&job->cpus, &job->ncpus)) {
        run_say(job->err, "%s", symmcoll_last_error());
        return false;
    }
    if (!run_sweep_begin(job) || !open_signals(job)) {
        run_say(job->err, "cannot watch the ranks: %s", strerror(errno));
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct run_options options;
    struct run_job job = {.options = &options};
    bool again = true;
    int status, error;

    if (!check_streams())
        return RUN_EXIT_FAILED;
    status = run_options_parse(argc, argv, &options);
    if (status >= 0)
        return status;
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* for the width of characters */
    open_sinks(&job);
    status = RUN_EXIT_FAILED;
    if (prepare(&job))
        for (job.attempt = 0; again; job.attempt++)
            status = run_attempt(&job, &again);
    /* A signal may end this process from here on; it waits only for slow
     * readers. */
    if (job.signals > 0)
        (void)sigprocmask(SIG_SETMASK, &job.old_mask, NULL);
    run_sink_drain(job.err);
    if (status == 0 && find_loss(&job, &error) != NULL)
        status = RUN_EXIT_FAILED; /* the launcher's own lines are lost */
    run_sink_close(&job.sinks[0]);
    run_sink_close(&job.sinks[1]);
    symc_config_free(job.config);
    free(job.cpus);
    return status;
}
