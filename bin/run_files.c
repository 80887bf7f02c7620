/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of --output, and the process that writes them.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A pipe and its file. */
struct copy {
    int from; /* -1: closed */
    int to;
};

/* A message of the writer: an error of one file. */
struct loss {
    int stream; /* 2 * rank, + 1 for standard error */
    int error;
};

static int format_path(
    const struct run_job *job, int stream, char *path, size_t nbytes)
{
    return snprintf(path, nbytes, "%s/%d.%s", job->options->output, stream / 2,
        stream % 2 == 0 ? "out" : "err");
}

/* ---- the writer process ---- */

static bool write_all(int fd, const char *data, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(fd, data, nbytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        nbytes -= (size_t)n;
    }
    return true;
}

/* Closes the pipe and the file after an error or at the end of the output; some
 * file systems report only at close() that data did not fit.  Later writes of
 * the rank raise SIGPIPE. */
static void end_copy(struct copy *copy, int stream, int error, int report)
{
    struct loss loss = {.stream = stream, .error = error};

    close(copy->from);
    copy->from = -1;
    if (close(copy->to) != 0 && loss.error == 0)
        loss.error = errno;
    if (loss.error != 0)
        (void)!write(report, &loss, sizeof(loss)); /* SIGPIPE is ignored */
}

static void copy_some(struct copy *copy, int stream, int report)
{
    static char data[64 * 1024];
    ssize_t n = read(copy->from, data, sizeof(data));

    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0)
        end_copy(copy, stream, 0, report);
    else if (!write_all(copy->to, data, (size_t)n))
        end_copy(copy, stream, errno, report);
}

/* Reads the launcher's byte, which says that no rank is left; nothing is waited
 * for afterwards.  A launcher that was killed sends none, and its socket is no
 * longer polled. */
static bool is_told_to_end(struct pollfd *polled)
{
    char byte;

    if (polled->revents == 0)
        return false;
    if (read(polled->fd, &byte, 1) == 1)
        return true;
    polled->fd = -1;
    return false;
}

/* Copies until no process has one of the pipes open, or until they are empty
 * after the launcher has said that all ranks have ended. */
_Noreturn static void write_files(
    struct copy *copies, struct pollfd *polled, int streams, int report)
{
    int left = streams, found;
    bool ends = false;

    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    polled[streams] = (struct pollfd){.fd = report, .events = POLLIN};
    while (left > 0) {
        for (int i = 0; i < streams; i++)
            polled[i] = (struct pollfd){.fd = copies[i].from, .events = POLLIN};
        found = poll(polled, (nfds_t)streams + (ends ? 0 : 1), ends ? 0 : -1);
        if (found < 0 && errno != EINTR)
            _exit(RUN_EXIT_FAILED);
        for (int i = 0; i < streams && found > 0; i++) {
            if (polled[i].fd < 0 || polled[i].revents == 0)
                continue;
            copy_some(&copies[i], i, report);
            left -= copies[i].from < 0 ? 1 : 0;
        }
        if (ends && found == 0)
            break;
        ends = ends || (found > 0 && is_told_to_end(&polled[streams]));
    }
    for (int i = 0; i < streams; i++)
        if (copies[i].from >= 0)
            end_copy(&copies[i], i, 0, report);
    _exit(0);
}

/* ---- the launcher process ---- */

/* Opens a stream's file, which a restart appends to, and its pipe. */
static bool open_copy(struct run_job *job, int stream, struct copy *copy)
{
    char path[4096];
    int n = format_path(job, stream, path, sizeof(path));
    int ends[2];

    if (n < 0 || (size_t)n >= sizeof(path))
        errno = ENAMETOOLONG;
    else
        copy->to = open(path,
            O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND |
                (job->attempt == 0 ? O_TRUNC : 0),
            0666);
    if (copy->to < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        run_say(job->err, "--output: %s: %s", path, strerror(errno));
        return false;
    }
    copy->from = ends[0];
    job->files.ends[stream] = ends[1];
    return true;
}

/* Starts the writer, which takes the files and the pipes. */
static bool start_writer(
    struct run_job *job, struct copy *copies, struct pollfd *polled)
{
    int streams = 2 * job->options->ranks;
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    pid = fork();
    if (pid == 0) {
        for (int i = 0; i < streams; i++)
            close(job->files.ends[i]);
        close(ends[0]);
        write_files(copies, polled, streams, ends[1]);
    }
    close(ends[1]);
    job->files.report = ends[0];
    job->files.writer = pid;
    return pid > 0;
}

bool run_files_open(struct run_job *job)
{
    int streams = 2 * job->options->ranks;
    struct copy *copies;
    struct pollfd *polled;
    bool opened = true;

    job->files = (struct run_files){.report = -1};
    if (job->options->output == NULL)
        return true;
    copies = symc_alloc((size_t)streams, sizeof(*copies));
    polled = symc_alloc((size_t)streams + 1, sizeof(*polled));
    job->files.ends = symc_alloc((size_t)streams, sizeof(*job->files.ends));
    if (copies == NULL || polled == NULL || job->files.ends == NULL) {
        run_say(job->err, "%s", symmcoll_last_error());
        free(copies);
        free(polled);
        free(job->files.ends);
        job->files.ends = NULL;
        return false;
    }
    for (int i = 0; i < streams; i++) {
        copies[i] = (struct copy){.from = -1, .to = -1};
        job->files.ends[i] = -1;
    }
    for (int i = 0; i < streams && opened; i++)
        opened = open_copy(job, i, &copies[i]);
    if (opened && !start_writer(job, copies, polled)) {
        run_say(job->err, "--output: %s", strerror(errno));
        opened = false;
    }
    for (int i = 0; i < streams; i++) {
        if (copies[i].from >= 0)
            close(copies[i].from);
        if (copies[i].to >= 0)
            close(copies[i].to);
    }
    free(copies);
    free(polled);
    if (!opened)
        run_files_finish(job);
    return opened;
}

int run_files_take(struct run_job *job, int rank, int which)
{
    int end = job->files.ends[2 * rank + which];

    job->files.ends[2 * rank + which] = -1;
    return end;
}

void run_files_finish(struct run_job *job)
{
    struct run_files *files = &job->files;
    struct loss loss;
    ssize_t n;

    if (files->ends == NULL)
        return;
    for (int i = 0; i < 2 * job->options->ranks; i++)
        if (files->ends[i] >= 0)
            close(files->ends[i]);
    free(files->ends);
    files->ends = NULL;
    if (files->report >= 0)
        (void)!write(files->report, "", 1);
    while (files->report >= 0) {
        n = read(files->report, &loss, sizeof(loss));
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(loss))
            break;
        if (files->error != 0)
            continue;
        files->error = loss.error;
        (void)format_path(job, loss.stream, files->name, sizeof(files->name));
    }
    if (files->report >= 0)
        close(files->report);
    files->report = -1;
}
