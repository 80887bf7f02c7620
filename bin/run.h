/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of symmcoll-run.  It is one thread around one poll(): ranks'
 * output, the bootstrap server, signals and time.
 *
 * run_options.c  the command line          run_start.c   a rank's beginning
 * run_bind.c     which processors          run_watch.c   the loop, and the end
 * run_output.c   lines with a prefix       run_record.c  what dead ranks leave
 * run_input.c    the terminal's lines      run_verdict.c who failed first
 * run_files.c    the files of --output
 * run_columns.c  the width of lines        run_sweep.c   processes left behind
 *                                          run_cause.c   what ranks have noted
 *                                          run_late.c    the rank others wait for
 */
#ifndef BIN_RUN_H
#define BIN_RUN_H

#include "bootstrap/bootstrap.h"
#include "config/config.h"
#include "segment/block.h"
#include "trace/trace.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#define RUN_RANKS_MAX 1024

/* Statuses of symmcoll-run itself; the rest are its ranks'. */
enum {
    RUN_EXIT_FAILED = 1,
    RUN_EXIT_USAGE = 2,
    RUN_EXIT_NOT_EXECUTABLE = 126,
    RUN_EXIT_NOT_FOUND = 127
};

/* ---- run_options.c ---- */

enum run_bind {
    RUN_BIND_AUTO, /* to cores where there is one for each rank */
    RUN_BIND_NONE,
    RUN_BIND_CORE
};

struct run_options {
    int ranks;
    char **program; /* and its arguments, ended by NULL */
    enum run_bind bind;
    bool prefix;
    const char *output; /* folder for one file per rank and stream, or NULL */
    double grace;       /* seconds */
    int max_restarts;
    bool verbose;
};

/* Read the command line; -1 to go on, else the exit status. */
int run_options_parse(int argc, char **argv, struct run_options *options);

/* ---- run_output.c ---- */

struct run_job;
struct run_stream;

/* Where lines go.  A reader that is slow slows down the ranks, not the loop. */
struct run_sink {
    int fd;
    const char *name; /* for messages */
    bool regular;     /* a file, which never blocks */
    bool terminal;
    bool dumb;                      /* a terminal that knows no escapes */
    bool broken;                    /* nothing can be written any more: */
    int error;                      /* why, 0 where its reader is gone */
    const struct run_stream *shown; /* whose progress line stands there */
    int columns;                    /* of that line */
    char *data;
    size_t start;
    size_t end;
    size_t nbytes;
};

/* One stream of a rank. */
struct run_stream {
    int fd; /* -1: closed */
    struct run_sink *sink;
    char prefix[16];
    char *line; /* that has not ended yet */
    size_t used;
    size_t nbytes;
    bool rewrites; /* the line before ended in a carriage return */
};

void run_sink_open(struct run_sink *sink, int fd, const char *name);
void run_sink_close(struct run_sink *sink);
bool run_sink_is_empty(const struct run_sink *sink);
bool run_sink_is_full(const struct run_sink *sink);
/* Write what can be written without waiting. */
void run_sink_flush(struct run_sink *sink);
/* Drops what is not written yet, and all that follows. */
void run_sink_drop(struct run_sink *sink);
/* Write all, and wait for that. */
void run_sink_drain(struct run_sink *sink);
/* A line of our own: "symmcoll-run: ...". */
void run_say(struct run_sink *sink, const char *format, ...) SYMC_PRINTF(2, 3);

void run_stream_open(
    struct run_stream *stream, int fd, struct run_sink *sink, int rank);
/* Read what is there; closes the stream at its end. */
void run_stream_read(struct run_stream *stream);
/* Take the rest of a rank that has ended, without waiting, and close. */
void run_stream_finish(struct run_stream *stream);

/* ---- run_files.c ---- */

/*
 * The files of --output.  A process of its own, the writer, copies what ranks
 * write from pipes into the files, so that each error of writing is seen, and
 * what ranks write when the launcher has been killed is not lost.
 */
struct run_files {
    int *ends; /* of the pipes, for the ranks; -1: closed */
    pid_t writer;
    int report;     /* from the writer; -1: there is none */
    int error;      /* the first, 0: none */
    char name[512]; /* of the file that it is of */
};

/* Opens the files of an attempt and starts the writer, where there is --output;
 * false after a message.  To be called before other descriptors are opened that
 * must not outlive the launcher. */
bool run_files_open(struct run_job *job);
/* Takes the end for a rank's stream, 0 or 1. */
int run_files_take(struct run_job *job, int rank, int which);
/* Waits until all is written, once no process of a rank is left, and notes the
 * first error. */
void run_files_finish(struct run_job *job);

/* ---- run_columns.c ---- */

/* How wide a terminal is; 0 where it does not say. */
int run_columns_of(int fd);
/* The bytes of the next character of a text, which is to be shown at a column,
 * and the columns it takes; -1 for a control sequence. */
size_t run_columns_step(
    const char *text, size_t nbytes, int column, int *columns);

/* ---- run_input.c ---- */

/*
 * The terminal's lines, passed on to rank 0.  A rank is no member of the
 * terminal's foreground group, so that Ctrl-C reaches it once and by us; it
 * could not read for itself.
 */
struct run_input {
    int from; /* -1: closed */
    int to;   /* rank 0's pipe */
    char data[4096];
    size_t start;
    size_t end;
};

/* The descriptor to wait for and the events, 0: nothing to wait for. */
short run_input_events(const struct run_input *input, int *fd);
void run_input_serve(struct run_input *input);
void run_input_close(struct run_input *input);

/* ---- the job ---- */

struct run_rank {
    int number;
    pid_t pid;
    bool running;
    int status;   /* of waitpid(), once it does not run */
    int order;    /* who ended before it */
    bool told;    /* how it ended is in its blocks */
    bool ours;    /* we ended it: it was late to follow the others */
    bool failed;  /* its groups or its rendezvous had failed before it did */
    bool left;    /* it ended within a world, without finalizing it */
    bool resumed; /* it had shrunk a group: it went on after a failure */
    char position[SYMC_TRACE_POSITION]; /* what it did last, or "" */
    struct run_stream streams[2];       /* standard output and error */
};

/* One rank's block in a world. */
struct run_seat {
    struct symc_block_view view; /* without a block: not to be mapped */
    pid_t pid;
    struct run_rank *rank; /* whose process it is, or NULL */
};

/* A world whose ranks have joined. */
struct run_world {
    struct run_world *next;
    char name[64];
    int size;
    struct run_seat *seats;
};

struct run_job {
    const struct run_options *options;
    struct symc_config *config;
    struct run_sink sinks[2];
    struct run_sink *out;
    struct run_sink *err; /* the same where both go to one place */
    int signals;          /* signalfd */
    sigset_t old_mask;
    struct rlimit old_files;
    bool shares_children; /* we had some before the ranks */
    int *cpus;            /* allowed ones, neighbours beside each other */
    int ncpus;

    /* of one attempt */
    int attempt;
    struct run_rank *ranks;
    int running;
    int ended;
    struct run_input input;
    struct run_files files;
    struct symc_bootstrap_server *server;
    bool server_failed; /* and we have said so */
    char missing[256];  /* who did not join in init in time, or "" */
    char server_name[64];
    char id[64];
    int port;
    struct run_world *worlds;
    int64_t terminate_at; /* those that are left; SYMC_NEVER: not yet */
    int64_t kill_at;
    bool kept;          /* ranks have shrunk a group: they go on */
    bool ending;        /* they have been asked to end */
    int interrupts;     /* requests to end */
    int request;        /* the first of them, a signal; 0: none */
    char late[480];     /* the rank that others waited for then, or "" */
    bool failed_before; /* a rank had failed when it came */
};

/* ---- run_bind.c ---- */

/* The processors this process may use, ordered so that a run of them shares
 * cores and packages; false without memory. */
bool run_bind_find(int **cpus, int *ncpus);

/* The processors of a rank; false where it is not bound. */
bool run_bind_choose(const struct run_job *job, int rank, cpu_set_t *set);

/* ---- run_start.c ---- */

/* Start all ranks; returns 0, or the exit status after a message. */
int run_start(struct run_job *job);

/* ---- run_watch.c ---- */

/* Serve until all ranks have ended and their output is written. */
void run_watch(struct run_job *job);

/* To a rank and the process group that it leads. */
void run_send_signal(const struct run_rank *rank, int sig);

/* ---- run_sweep.c ---- */

/* Before the first rank: orphans of ranks become our children from now on. */
bool run_sweep_begin(struct run_job *job);

/* End all that is left: ranks, and processes that they left behind. */
void run_sweep(struct run_job *job);

/* ---- run_record.c ---- */

/* For struct symc_bootstrap_events. */
void run_record_joined(const char *rendezvous, int size, const int *blocks,
    const pid_t *pids, void *arg);
void run_record_failed(
    pid_t pid, symmcoll_status_t status, const char *text, void *arg);
/* Look for ranks that are dying and tell the others how, as early as can be. */
void run_record_look(struct run_job *job);
/* A rank has ended: tell the others, note what is to be known, dump its ring.
 */
void run_record_end(struct run_job *job, struct run_rank *rank);
/* Returns whether a rank that runs has announced in a world that it goes on after
 * a failure: it has shrunk a group, or is doing so. */
bool run_record_goes_on(const struct run_job *job);
void run_record_forget(struct run_job *job);

/* ---- run_cause.c ---- */

/* The failure that came first, where a rank has written it down and it is no
 * death: a timeout, an abort, a mismatch; into a line.  False where there is
 * none. */
bool run_cause_find(const struct run_job *job, char *line, size_t nbytes);

/* ---- run_late.c ---- */

/* Writes into a line which ranks wait in which operation, which rank has not come,
 * and where it is.  Returns false, and "", where no rank waits for another one. */
bool run_late_find(const struct run_job *job, char *line, size_t nbytes);

/* ---- run_verdict.c ---- */

/* "rank 3 (pid 123) killed by SIGKILL"; into a buffer. */
const char *run_describe_end(
    const struct run_rank *rank, char *buffer, size_t nbytes);

/* The verdict: returns the exit status and, where that is not 0, one line. */
int run_verdict(const struct run_job *job, char *line, size_t nbytes);

/* Returns whether ranks have gone on after the failure, and have ended well. */
bool run_has_survivors(const struct run_job *job);

#endif
