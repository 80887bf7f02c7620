/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of symmcoll-run, a single thread around one poll(): ranks'
 * output, the bootstrap server, signals and time.
 *
 * run_options.c  the command line          run_start.c    starting a rank
 * run_bind.c     binding to processors     run_watch.c    the loop, and the end
 * run_output.c   lines with a prefix       run_record.c   blocks of dead ranks
 * run_input.c    the terminal's lines      run_verdict.c  the first to fail
 * run_files.c    the files of --output     run_sweep.c    processes left over
 * run_columns.c  the width of lines        run_cause.c    recorded failures
 *                                          run_late.c     the late rank
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

/* Exit statuses of symmcoll-run itself; all others are its ranks'. */
enum {
    RUN_EXIT_FAILED = 1,
    RUN_EXIT_USAGE = 2,
    RUN_EXIT_NOT_EXECUTABLE = 126,
    RUN_EXIT_NOT_FOUND = 127
};

/* ---- run_options.c ---- */

enum run_bind {
    RUN_BIND_AUTO, /* to cores if there is one for each rank */
    RUN_BIND_NONE,
    RUN_BIND_CORE
};

struct run_options {
    int ranks;
    char **program; /* with its arguments; ends with NULL */
    enum run_bind bind;
    bool prefix;
    const char *output; /* folder of one file per rank and stream, or NULL */
    double grace;       /* seconds */
    int max_restarts;
    bool verbose;
};

/* Reads the command line.  Returns -1 to go on, else the exit status. */
int run_options_parse(int argc, char **argv, struct run_options *options);

/* ---- run_output.c ---- */

struct run_job;
struct run_stream;

/* A destination of output.  A slow reader slows down the ranks, not the
 * loop. */
struct run_sink {
    int fd;
    const char *name; /* for messages */
    bool regular;     /* a file: writing never blocks */
    bool terminal;
    bool dumb;   /* a terminal without escape sequences */
    bool broken; /* nothing can be written any more */
    int error;   /* the reason; 0: its reader is gone */
    /* the stream with a progress line on display */
    const struct run_stream *shown;
    int columns; /* width of that line */
    char *data;
    size_t start;
    size_t end;
    size_t nbytes;
};

/* A stream of a rank. */
struct run_stream {
    int fd; /* -1: closed */
    struct run_sink *sink;
    char prefix[16];
    char *line; /* the incomplete line */
    size_t used;
    size_t nbytes;
    bool rewrites; /* the last line ended with a carriage return */
};

void run_sink_open(struct run_sink *sink, int fd, const char *name);
void run_sink_close(struct run_sink *sink);
bool run_sink_is_empty(const struct run_sink *sink);
bool run_sink_is_full(const struct run_sink *sink);
/* Writes what can be written without waiting. */
void run_sink_flush(struct run_sink *sink);
/* Drops unwritten and later output. */
void run_sink_drop(struct run_sink *sink);
/* Writes everything and waits for it. */
void run_sink_drain(struct run_sink *sink);
/* Writes a line of the launcher's own: "symmcoll-run: ...". */
void run_say(struct run_sink *sink, const char *format, ...) SYMC_PRINTF(2, 3);

void run_stream_open(
    struct run_stream *stream, int fd, struct run_sink *sink, int rank);
/* Reads available data; closes the stream at its end. */
void run_stream_read(struct run_stream *stream);
/* Reads the rest of an ended rank's stream without waiting, and closes it. */
void run_stream_finish(struct run_stream *stream);

/* ---- run_files.c ---- */

/*
 * The files of --output.  A separate process, the writer, copies the ranks'
 * output from pipes into the files, so that every write error is noticed and
 * output after the launcher's death is not lost.
 */
struct run_files {
    int *ends; /* the ranks' ends of the pipes; -1: closed */
    pid_t writer;
    int report;     /* socket to the writer; -1: none */
    int error;      /* first error, 0: none */
    char name[512]; /* the file with that error */
};

/* With --output, opens an attempt's files and starts the writer.  Returns false
 * after a message.  Must be called before other descriptors are opened, as the
 * writer would inherit them. */
bool run_files_open(struct run_job *job);
/* Takes the pipe end of a rank's stream 0 or 1. */
int run_files_take(struct run_job *job, int rank, int which);
/* Waits until everything is written, once no process of a rank is left, and
 * keeps the first error. */
void run_files_finish(struct run_job *job);

/* ---- run_columns.c ---- */

/* Returns the width of a terminal, or 0 if unknown. */
int run_columns_of(int fd);
/* Returns the bytes of a text's next character, to be displayed at a column,
 * and the columns it takes; -1: a control sequence. */
size_t run_columns_step(
    const char *text, size_t nbytes, int column, int *columns);

/* ---- run_input.c ---- */

/*
 * Passes the terminal's lines on to rank 0. The ranks are not in the terminal's
 * foreground process group, so that Ctrl-C reaches each rank once, through the
 * launcher; rank 0 cannot read the terminal itself.
 */
struct run_input {
    int from; /* -1: closed */
    int to;   /* pipe to rank 0 */
    char data[4096];
    size_t start;
    size_t end;
};

/* Returns the descriptor and events to poll for; 0: none. */
short run_input_events(const struct run_input *input, int *fd);
void run_input_serve(struct run_input *input);
void run_input_close(struct run_input *input);

/* ---- the job ---- */

struct run_rank {
    int number;
    pid_t pid;
    bool running;
    int status;   /* from waitpid(), after its end */
    int order;    /* ranks that ended before it */
    bool ours;    /* the launcher ended it: it did not end after the others */
    bool failed;  /* its groups or its rendezvous failed before it ended */
    bool left;    /* it ended within a world, without finalize */
    bool resumed; /* it had shrunk a group, to go on after a failure */
    char position[SYMC_TRACE_POSITION]; /* its latest operation, or "" */
    struct run_stream streams[2];       /* standard output and error */
};

/* A rank's block in a world. */
struct run_seat {
    struct symc_block_view view; /* no block: it could not be mapped */
    pid_t pid;
    struct run_rank *rank; /* the rank of that process, or NULL */
};

/* A complete world: its ranks have joined. */
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
    struct run_sink *err; /* out, if both go to the same place */
    int signals;          /* signalfd */
    sigset_t old_mask;
    struct rlimit old_files;
    bool shares_children; /* there were children before the ranks */
    int *cpus;            /* allowed processors, neighbours adjacent */
    int ncpus;

    /* state of one attempt */
    int attempt;
    struct run_rank *ranks;
    int running;
    int ended;
    struct run_input input;
    struct run_files files;
    struct symc_bootstrap_server *server;
    bool server_failed; /* its failure has been reported */
    char missing[256];  /* ranks that did not join in time, or "" */
    char server_name[64];
    char id[64];
    int port;
    struct run_world *worlds;
    int64_t
        terminate_at; /* when to end the remaining ranks; SYMC_NEVER: not yet */
    int64_t kill_at;
    bool kept;          /* ranks have shrunk a group and go on */
    bool ending;        /* they have been signalled to end */
    int interrupts;     /* signals that request the end */
    int request;        /* the first of them; 0: none */
    char late[480];     /* description of the late rank at that time, or "" */
    bool failed_before; /* a rank had failed before it */
};

/* ---- run_bind.c ---- */

/* Finds the processors this process may use, ordered so that consecutive ones
 * share cores and packages.  Returns false without memory. */
bool run_bind_find(int **cpus, int *ncpus);

/* Returns the processors of a rank; false: it is not bound. */
bool run_bind_choose(const struct run_job *job, int rank, cpu_set_t *set);

/* ---- run_start.c ---- */

/* Starts all ranks.  Returns 0, or the exit status after a message. */
int run_start(struct run_job *job);

/* ---- run_watch.c ---- */

/* Serves until all ranks have ended and their output is written. */
void run_watch(struct run_job *job);

/* Sends a signal to a rank and the process group that it leads. */
void run_send_signal(const struct run_rank *rank, int sig);

/* ---- run_sweep.c ---- */

/* Makes orphans of ranks children of this process.  To be called before the
 * first rank starts. */
bool run_sweep_begin(struct run_job *job);

/* Kills the remaining ranks and the processes they left behind. */
void run_sweep(struct run_job *job);

/* ---- run_record.c ---- */

/* Callbacks of struct symc_bootstrap_events. */
void run_record_joined(const char *rendezvous, int size, const int *blocks,
    const pid_t *pids, void *arg);
void run_record_failed(
    pid_t pid, symmcoll_status_t status, const char *text, void *arg);
/* Looks for dying ranks and reports their ends to the others as early as
 * possible. */
void run_record_look(struct run_job *job);
/* Reports the end of a rank to the others, keeps what the verdict needs, and
 * dumps its recorder. */
void run_record_end(struct run_job *job, struct run_rank *rank);
/* Returns whether a running rank has announced in a world that it goes on after
 * a failure: it has shrunk a group, or is doing so. */
bool run_record_goes_on(const struct run_job *job);
void run_record_forget(struct run_job *job);

/* ---- run_cause.c ---- */

/* Formats the earliest recorded failure that is not a death: a timeout, an
 * abort or a mismatch.  Returns false if there is none. */
bool run_cause_find(const struct run_job *job, char *line, size_t nbytes);

/* ---- run_late.c ---- */

/* Formats which ranks wait in which operation, the rank that is missing, and
 * its position.  Returns false, with "", if no rank waits for another one. */
bool run_late_find(const struct run_job *job, char *line, size_t nbytes);

/* ---- run_verdict.c ---- */

/* Formats "rank 3 (pid 123) killed by SIGKILL". */
const char *run_describe_end(
    const struct run_rank *rank, char *buffer, size_t nbytes);

/* Returns the exit status and, unless that is 0, one line about the failure. */
int run_verdict(const struct run_job *job, char *line, size_t nbytes);

/* Returns whether ranks went on after the failure and ended with status 0. */
bool run_has_survivors(const struct run_job *job);

#endif
