/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a rank: environment, standard streams, processors, and the program.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The message of a child that could not execute the program. */
struct complaint {
    int rank;
    int error;
    char step[16]; /* failed step */
};

/* The descriptors of a child until its exec. */
struct ends {
    int in;
    int out;
    int err;
    int complaints;
};

/* Returns a free port, for programs that use MASTER_PORT themselves. */
static int find_port(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 29500;

    if (fd < 0)
        return port;
    if (bind(fd, (struct sockaddr *)&address, nbytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &nbytes) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

/* ---- in the child, until exec ---- */

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    if (setenv(name, text, 1) != 0)
        _exit(RUN_EXIT_FAILED);
}

static void set_environment(const struct run_job *job, int rank)
{
    static const char *const libraries[] = {
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"};
    int ranks = job->options->ranks;
    int threads = job->ncpus > ranks ? job->ncpus / ranks : 1;

    set_number("RANK", rank);
    set_number("WORLD_SIZE", ranks);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", ranks);
    set_number("MASTER_PORT", job->port);
    set_number("SYMMCOLL_ATTEMPT", job->attempt);
    if (setenv("MASTER_ADDR", "localhost", 1) != 0 ||
        setenv("SYMMCOLL_HUB", job->server_name, 1) != 0 ||
        setenv("SYMMCOLL_JOB", job->id, 1) != 0)
        _exit(RUN_EXIT_FAILED);
    /* A rank's output is a pipe, so it cannot detect the terminal. */
    if (job->out->terminal && job->options->output == NULL)
        set_number("SYMMCOLL_RUN_TTY", 1);
    else if (unsetenv("SYMMCOLL_RUN_TTY") != 0)
        _exit(RUN_EXIT_FAILED);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (getenv(libraries[i]) == NULL)
            set_number(libraries[i], threads);
}

_Noreturn static void complain(
    const struct ends *ends, int rank, int error, const char *step)
{
    struct complaint complaint = {.rank = rank, .error = error};

    snprintf(complaint.step, sizeof(complaint.step), "%s", step);
    (void)!write(ends->complaints, &complaint, sizeof(complaint));
    _exit(RUN_EXIT_NOT_FOUND);
}

_Noreturn static void become_program(
    const struct run_job *job, int rank, const struct ends *ends, pid_t parent)
{
    cpu_set_t set;

    (void)setpgid(0, 0);
    /* The ranks end with the launcher, however it ends. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(RUN_EXIT_FAILED);
    set_environment(job, rank);
    if (run_bind_choose(job, rank, &set) &&
        sched_setaffinity(0, sizeof(set), &set) != 0)
        complain(ends, rank, errno, "binding");
    if ((ends->in >= 0 && dup2(ends->in, STDIN_FILENO) < 0) ||
        (ends->out >= 0 && dup2(ends->out, STDOUT_FILENO) < 0) ||
        (ends->err >= 0 && dup2(ends->err, STDERR_FILENO) < 0))
        complain(ends, rank, errno, "streams");
    (void)setrlimit(RLIMIT_NOFILE, &job->old_files);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
    execvp(job->options->program[0], job->options->program);
    complain(ends, rank, errno, "");
}

/* ---- in the launcher ---- */

static void close_end(int fd)
{
    if (fd >= 0)
        close(fd);
}

static bool make_pipe(int *reader, int *writer)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    *reader = fds[0];
    *writer = fds[1];
    return true;
}

static bool make_unblocking(int fd)
{
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

/* Connects a rank's output to its file, to the launcher, or straight to the
 * launcher's own output if there is nothing to add. */
static bool make_output(struct run_job *job, struct run_rank *rank, int which,
    struct run_sink *sink, int *end)
{
    const struct run_options *options = job->options;
    int reader;

    *end = -1;
    if (options->output != NULL) {
        *end = run_files_take(job, rank->number, which);
        return true;
    }
    if (!options->prefix && options->ranks == 1)
        return true; /* nothing to add or to mix: the rank inherits ours */
    if (!make_pipe(&reader, end) || !make_unblocking(reader)) {
        run_say(job->err, "rank %d: output: %s", rank->number, strerror(errno));
        return false;
    }
    run_stream_open(&rank->streams[which], reader, sink,
        options->prefix ? rank->number : -1);
    return true;
}

/* Opens an input at its end: /dev/null, or a pipe without a writer if the root
 * file system has no /dev/null. */
static int open_empty(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int reader, writer;

    if (fd >= 0 || !make_pipe(&reader, &writer))
        return fd;
    close(writer);
    return reader;
}

/* Connects a rank's input: rank 0 gets the launcher's, the others an empty
 * one. */
static bool make_input(struct run_job *job, struct run_rank *rank, int *end)
{
    struct run_input *input = &job->input;

    *end = -1;
    if (rank->number > 0)
        *end = open_empty();
    else if (!isatty(STDIN_FILENO))
        return true;
    else if (make_pipe(end, &input->to)) {
        input->from = STDIN_FILENO;
        (void)make_unblocking(input->to);
    }
    if (*end < 0)
        run_say(job->err, "rank %d: input: %s", rank->number, strerror(errno));
    return *end >= 0;
}

static bool start_rank(
    struct run_job *job, struct run_rank *rank, int complaints)
{
    struct ends ends = {
        .in = -1, .out = -1, .err = -1, .complaints = complaints};
    bool made = make_input(job, rank, &ends.in) &&
                make_output(job, rank, 0, job->out, &ends.out) &&
                make_output(job, rank, 1, job->err, &ends.err);

    if (made) {
        pid_t parent = getpid();
        pid_t pid = fork();

        if (pid == 0)
            become_program(job, rank->number, &ends, parent);
        made = pid > 0;
        if (made) {
            /* In the child and here, whichever comes first. */
            (void)setpgid(pid, pid);
            rank->pid = pid;
            rank->running = true;
            job->running++;
        } else {
            run_say(job->err, "cannot start rank %d of %d: %s", rank->number,
                job->options->ranks, strerror(errno));
        }
    }
    close_end(ends.in);
    close_end(ends.out);
    close_end(ends.err);
    return made;
}

/* Reports why the program does not run.  Returns the exit status. */
static int explain(struct run_job *job, const struct complaint *complaint)
{
    const char *program = job->options->program[0];

    if (complaint->step[0] != '\0') {
        run_say(job->err, "cannot start rank %d: %s: %s", complaint->rank,
            complaint->step, strerror(complaint->error));
        return RUN_EXIT_FAILED;
    }
    if (complaint->error == ENOENT && strchr(program, '/') != NULL &&
        access(program, F_OK) == 0)
        run_say(job->err,
            "cannot run %s: the interpreter that it names is missing", program);
    else if (complaint->error == ENOENT && strchr(program, '/') == NULL)
        run_say(job->err, "cannot run %s: not found in PATH", program);
    else
        run_say(
            job->err, "cannot run %s: %s", program, strerror(complaint->error));
    return complaint->error == ENOENT ? RUN_EXIT_NOT_FOUND
                                      : RUN_EXIT_NOT_EXECUTABLE;
}

static void tell_started(const struct run_job *job)
{
    for (int i = 0; i < job->options->ranks; i++) {
        char cpus[256] = "";
        size_t used = 0;
        cpu_set_t set;

        if (run_bind_choose(job, i, &set))
            for (int cpu = 0; cpu < CPU_SETSIZE && used < sizeof(cpus) - 8;
                 cpu++)
                if (CPU_ISSET(cpu, &set))
                    used += (size_t)snprintf(cpus + used, sizeof(cpus) - used,
                        "%s%d", used > 0 ? "," : "", cpu);
        run_say(job->err, "rank %d is pid %d%s%s", i, (int)job->ranks[i].pid,
            used > 0 ? " on processors " : "", cpus);
    }
}

int run_start(struct run_job *job)
{
    struct complaint complaint;
    int reader, writer;
    int status = 0;
    ssize_t n;

    if (!make_pipe(&reader, &writer)) {
        run_say(job->err, "cannot start the ranks: %s", strerror(errno));
        return RUN_EXIT_FAILED;
    }
    job->port = find_port();
    for (int i = 0; i < job->options->ranks && status == 0; i++)
        if (!start_rank(job, &job->ranks[i], writer))
            status = RUN_EXIT_FAILED;
    close(writer);
    /* End of file comes when exec has closed the pipe in every rank. */
    do {
        n = read(reader, &complaint, sizeof(complaint));
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof(complaint) && status == 0)
        status = explain(job, &complaint);
    close(reader);
    if (status == 0 && job->options->verbose)
        tell_started(job);
    return status;
}
