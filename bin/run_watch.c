/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop waits for output, the bootstrap server, signals and time.  Nothing
 * in it blocks on a rank or on a reader of the output.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS (10 * 1000 * 1000) /* between two checks for dying ranks */
#define KILL_AFTER_NS (2 * SYMC_NS_PER_S)

/* Indices of the descriptors polled besides the ranks' streams. */
enum {
    AT_SIGNALS,
    AT_SERVER,
    AT_OUT,
    AT_ERR,
    AT_INPUT,
    AT_STREAMS
};

/* ---- ranks ---- */

void run_send_signal(const struct run_rank *rank, int sig)
{
    /* The process is not reaped yet, so its PID is still its own. */
    if (kill(-rank->pid, sig) != 0)
        (void)kill(rank->pid, sig);
}

static void send_to_all(struct run_job *job, int sig)
{
    for (int i = 0; i < job->options->ranks; i++)
        if (job->ranks[i].running)
            run_send_signal(&job->ranks[i], sig);
}

/* Lets the other ranks of a failed job have time to end by themselves. */
static void begin_end(struct run_job *job, double grace)
{
    int64_t at = symc_deadline_ns(symc_now_ns(), symc_seconds_ns(grace));

    if (!job->ending && at < job->terminate_at)
        job->terminate_at = at;
}

static void note_end(struct run_job *job, struct run_rank *rank, int status)
{
    char text[64];

    rank->running = false;
    rank->status = status;
    rank->order = job->ended++;
    job->running--;
    run_record_end(job, rank);
    run_describe_end(rank, text, sizeof(text));
    if (job->options->verbose)
        run_say(job->err, "%s", text);
    if (status != 0)
        begin_end(job, job->options->grace);
    if (rank->number == 0)
        run_input_close(&job->input);
}

/* Reaps ranks, and orphans of ranks, which become children of this process. */
static void reap(struct run_job *job)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < job->options->ranks; i++)
            if (job->ranks[i].running && job->ranks[i].pid == pid)
                note_end(job, &job->ranks[i], status);
}

/* Serves the bootstrap server, and fails the rendezvous of ranks that wait, now
 * or later, for a rank that has ended. */
static void serve_ranks(struct run_job *job)
{
    char text[64];

    if (symc_bootstrap_serve(job->server) != SYMMCOLL_OK &&
        !job->server_failed) {
        run_say(job->err, "%s", symmcoll_last_error());
        job->server_failed = true; /* reported only once */
    }
    for (int i = 0; i < job->options->ranks && job->ended > 0; i++) {
        struct run_rank *rank = &job->ranks[i];

        if (!rank->running)
            symc_bootstrap_fail_rank(
                job->server, i, run_describe_end(rank, text, sizeof(text)));
    }
}

/* ---- signals and time ---- */

/*
 * Passes a signal on to the ranks: the first is a request, a second one ends
 * the ranks.  A program may ignore a terminal's keys, but not SIGTERM: ranks
 * that have not ended after the grace time are killed.
 */
static void ask_to_end(struct run_job *job, int sig)
{
    int64_t at =
        symc_deadline_ns(symc_now_ns(), symc_seconds_ns(job->options->grace));

    if (++job->interrupts > 1) {
        begin_end(job, 0);
    } else {
        job->request = sig;
        /* Before the signal, which ends the ranks' operations. */
        (void)run_late_find(job, job->late, sizeof(job->late));
        for (int i = 0; i < job->options->ranks; i++)
            job->failed_before |=
                !job->ranks[i].running && job->ranks[i].status != 0;
    }
    if (sig == SIGTERM && at < job->kill_at)
        job->kill_at = at;
    send_to_all(job, sig);
    send_to_all(job, SIGCONT); /* a stopped rank could not react */
}

static void take_signal(struct run_job *job, int sig)
{
    switch (sig) {
    case SIGCHLD:
        reap(job);
        serve_ranks(job);
        return;
    case SIGTSTP:
        send_to_all(job, SIGTSTP);
        (void)raise(SIGSTOP);
        return;
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        ask_to_end(job, sig);
        if (job->running == 0) { /* only a slow reader of the output is left */
            run_sink_drop(job->out);
            run_sink_drop(job->err);
        }
        return;
    default:
        break;
    }
    send_to_all(job, sig);
}

static void read_signals(struct run_job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        take_signal(job, (int)info.ssi_signo);
}

/* Returns whether a failed job is kept for ranks that go on without the failed
 * one; false after a second signal. */
static bool is_kept(struct run_job *job, int64_t now)
{
    if (job->interrupts > 1 || !run_record_goes_on(job))
        return false;
    if (!job->kept && job->options->verbose)
        run_say(job->err, "ranks have shrunk a group and go on");
    job->kept = true;
    job->terminate_at = now + LOOK_NS;
    return true;
}

static void look_at_clock(struct run_job *job)
{
    int64_t now = symc_now_ns();
    bool kills = now >= job->kill_at;

    if (job->running == 0 || (!kills && now < job->terminate_at))
        return;
    if (!kills && is_kept(job, now))
        return;
    for (int i = 0; i < job->options->ranks; i++) {
        struct run_rank *rank = &job->ranks[i];

        if (!rank->running)
            continue;
        rank->ours = true;
        run_send_signal(rank, kills ? SIGKILL : SIGTERM);
        run_send_signal(rank, SIGCONT); /* a stopped rank cannot end */
    }
    if (!kills && job->options->verbose)
        run_say(job->err, "ending the %d ranks that are left", job->running);
    job->ending = true;
    job->terminate_at = SYMC_NEVER;
    if (kills || now + KILL_AFTER_NS < job->kill_at)
        job->kill_at = kills ? SYMC_NEVER : now + KILL_AFTER_NS;
}

/* Returns the milliseconds until the next timed action; -1: none. */
static int find_timeout(const struct run_job *job)
{
    int64_t now = symc_now_ns();
    int64_t next = SYMC_NEVER;

    if (job->running == 0)
        return -1;
    if (job->worlds != NULL)
        next = now + LOOK_NS;
    if (job->terminate_at < next)
        next = job->terminate_at;
    if (job->kill_at < next)
        next = job->kill_at;
    if (next == SYMC_NEVER)
        return -1;
    if (next <= now)
        return 0;
    if (next - now > 3600 * SYMC_NS_PER_S)
        return 3600 * 1000;
    return (int)((next - now + 999999) / 1000000);
}

/* ---- the loop ---- */

static struct pollfd await_sink(const struct run_sink *sink)
{
    return (struct pollfd){
        .fd = run_sink_is_empty(sink) ? -1 : sink->fd, .events = POLLOUT};
}

static nfds_t await(struct run_job *job, struct pollfd *fds)
{
    nfds_t n = AT_STREAMS;
    int fd = -1;
    short events = run_input_events(&job->input, &fd);

    fds[AT_SIGNALS] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    fds[AT_SERVER] =
        (struct pollfd){.fd = symc_bootstrap_fd(job->server), .events = POLLIN};
    fds[AT_OUT] = await_sink(job->out);
    fds[AT_ERR] = await_sink(job->err);
    fds[AT_INPUT] =
        (struct pollfd){.fd = events != 0 ? fd : -1, .events = events};
    for (int i = 0; i < 2 * job->options->ranks; i++) {
        struct run_stream *stream = &job->ranks[i / 2].streams[i % 2];
        bool wait = stream->fd >= 0 && !run_sink_is_full(stream->sink);

        fds[n++] =
            (struct pollfd){.fd = wait ? stream->fd : -1, .events = POLLIN};
    }
    return n;
}

static void read_streams(struct run_job *job, const struct pollfd *fds)
{
    for (int i = 0; i < 2 * job->options->ranks; i++) {
        struct run_stream *stream = &job->ranks[i / 2].streams[i % 2];

        if (fds[AT_STREAMS + i].fd >= 0 && fds[AT_STREAMS + i].revents != 0)
            run_stream_read(stream);
    }
}

/* Reads the rest of ended ranks' output.  Returns true when there is no
 * more. */
static bool finish_streams(struct run_job *job)
{
    bool all = true;

    for (int i = 0; i < 2 * job->options->ranks; i++) {
        struct run_stream *stream = &job->ranks[i / 2].streams[i % 2];

        run_stream_finish(stream);
        all = all && stream->fd < 0;
    }
    return all;
}

static bool is_over(struct run_job *job)
{
    return job->running == 0 && finish_streams(job) &&
           run_sink_is_empty(job->out) && run_sink_is_empty(job->err);
}

void run_watch(struct run_job *job)
{
    struct pollfd *fds =
        symc_alloc(AT_STREAMS + 2 * (size_t)job->options->ranks, sizeof(*fds));

    if (fds == NULL) {
        run_say(job->err, "%s", symmcoll_last_error());
        return; /* run_sweep() ends the ranks */
    }
    while (!is_over(job)) {
        nfds_t n = await(job, fds);

        if (poll(fds, n, find_timeout(job)) < 0 && errno != EINTR)
            break;
        if (fds[AT_SERVER].revents != 0)
            serve_ranks(job);
        if (fds[AT_SIGNALS].revents != 0)
            read_signals(job);
        run_record_look(job);
        look_at_clock(job);
        if (fds[AT_INPUT].fd >= 0 && fds[AT_INPUT].revents != 0)
            run_input_serve(&job->input);
        read_streams(job, fds);
        run_sink_flush(job->out);
        run_sink_flush(job->err);
    }
    free(fds);
}
