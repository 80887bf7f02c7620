/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of ranks.  Streams collect lines and put a prefix before each; sinks
 * hold them until they can be written, and never interleave two lines.
 */
#include "run.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_NBYTES (64 * 1024)  /* longer lines are passed on in pieces */
#define SINK_NBYTES (256 * 1024) /* above it ranks have to wait */
/* a ready pipe takes as much without waiting */
#define PIECE_NBYTES 4096
#define CLEAR_LINE "\033[K" /* terminal: clear to the end of the line */

/* Makes room for more bytes in a growing buffer.  Without memory for a line of
 * text the launcher and its ranks end. */
static void make_room(char **data, size_t *nbytes, size_t used, size_t more)
{
    size_t wanted = *nbytes > 0 ? *nbytes : 256;
    char *grown;

    if (used + more <= *nbytes)
        return;
    while (wanted < used + more)
        wanted *= 2;
    grown = realloc(*data, wanted);
    if (grown == NULL) {
        fprintf(stderr, "symmcoll-run: no memory for %zu bytes of output\n",
            wanted);
        exit(RUN_EXIT_FAILED);
    }
    *data = grown;
    *nbytes = wanted;
}

/* ---- sinks ---- */

void run_sink_open(struct run_sink *sink, int fd, const char *name)
{
    const char *term = getenv("TERM");
    struct stat info;

    *sink = (struct run_sink){.fd = fd, .name = name};
    sink->terminal = isatty(fd) == 1;
    sink->dumb = term == NULL || *term == '\0' || strcmp(term, "dumb") == 0;
    sink->regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

void run_sink_close(struct run_sink *sink)
{
    free(sink->data);
    sink->data = NULL;
}

bool run_sink_is_empty(const struct run_sink *sink)
{
    return sink->start == sink->end;
}

bool run_sink_is_full(const struct run_sink *sink)
{
    return sink->end - sink->start >= SINK_NBYTES;
}

static void put(struct run_sink *sink, const char *data, size_t nbytes)
{
    if (sink->broken || nbytes == 0)
        return;
    if (sink->start > 0 && sink->end + nbytes > sink->nbytes) {
        memmove(sink->data, sink->data + sink->start, sink->end - sink->start);
        sink->end -= sink->start;
        sink->start = 0;
    }
    make_room(&sink->data, &sink->nbytes, sink->end, nbytes);
    memcpy(sink->data + sink->end, data, nbytes);
    sink->end += nbytes;
}

static void put_spaces(struct run_sink *sink, int count)
{
    for (int i = 0; i < count; i++)
        put(sink, " ", 1);
}

/* Erases a progress line before other output. */
static void clear_progress(struct run_sink *sink)
{
    if (sink->shown != NULL && sink->dumb) {
        put_spaces(sink, sink->columns);
        put(sink, "\r", 1);
    } else if (sink->shown != NULL) {
        put(sink, CLEAR_LINE, strlen(CLEAR_LINE));
    }
    sink->shown = NULL;
}

/* Writes as much of a text as fits the columns, and all its control sequences,
 * so that colours end; *column is its first column and then the next one. */
static void put_cut(struct run_sink *sink, const char *text, size_t nbytes,
    int width, int *column)
{
    bool full = false;
    size_t n;

    for (; nbytes > 0; text += n, nbytes -= n) {
        int columns;

        n = run_columns_step(text, nbytes, *column, &columns);
        full = full || (columns > 0 && columns > width - *column);
        if (columns >= 0 && full)
            continue;
        put(sink, text, n);
        *column += columns > 0 ? columns : 0;
    }
}

void run_sink_flush(struct run_sink *sink)
{
    while (!run_sink_is_empty(sink)) {
        struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
        size_t nbytes = sink->end - sink->start;
        ssize_t n;

        if (!sink->regular && nbytes > PIECE_NBYTES)
            nbytes = PIECE_NBYTES;
        if (poll(&ready, 1, 0) <= 0)
            return;
        n = write(sink->fd, sink->data + sink->start, nbytes);
        if (n > 0) {
            sink->start += (size_t)n;
        } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            /* Streams are closed then, so that ranks notice it as they would
             * without the launcher. */
            sink->broken = true;
            sink->error = errno == EPIPE ? 0 : errno;
            sink->start = sink->end;
        } else {
            return;
        }
    }
    sink->start = sink->end = 0;
}

void run_sink_drop(struct run_sink *sink)
{
    sink->broken = true;
    sink->start = sink->end;
}

void run_sink_drain(struct run_sink *sink)
{
    while (!run_sink_is_empty(sink)) {
        struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};

        (void)poll(&ready, 1, -1);
        run_sink_flush(sink);
    }
}

void run_say(struct run_sink *sink, const char *format, ...)
{
    char line[1024];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    if ((size_t)n > sizeof(line) - 2)
        n = sizeof(line) - 2;
    line[n] = '\n';
    clear_progress(sink);
    put(sink, "symmcoll-run: ", strlen("symmcoll-run: "));
    put(sink, line, (size_t)n + 1);
    run_sink_flush(sink);
}

/* ---- streams ---- */

void run_stream_open(
    struct run_stream *stream, int fd, struct run_sink *sink, int rank)
{
    *stream = (struct run_stream){.fd = fd, .sink = sink};
    if (rank >= 0)
        snprintf(stream->prefix, sizeof(stream->prefix), "[%d] ", rank);
}

/* Passes the collected line on, with its line end. */
static void end_line(struct run_stream *stream, bool add_newline)
{
    struct run_sink *sink = stream->sink;
    bool only_end = stream->used == 1 && !add_newline;

    if (stream->rewrites && only_end) {
        /* Ends a progress line; the line stays if it is still displayed. */
        if (sink->shown == stream)
            put(sink, "\n", 1);
        sink->shown = NULL;
    } else {
        clear_progress(sink);
        put(sink, stream->prefix, strlen(stream->prefix));
        put(sink, stream->line, stream->used);
        if (add_newline)
            put(sink, "\n", 1);
    }
    stream->used = 0;
    stream->rewrites = false;
}

/* Shows the collected line, which ends with a carriage return, in place of the
 * previous one. */
static void show_progress(struct run_stream *stream)
{
    struct run_sink *sink = stream->sink;
    int width = run_columns_of(sink->fd);
    int column = 0;

    if (stream->used > 1) {
        /* The last column stays free: writing there may move the cursor to the
         * next line. */
        width = width > 0 ? width - 1 : INT_MAX;
        put_cut(sink, stream->prefix, strlen(stream->prefix), width, &column);
        put_cut(sink, stream->line, stream->used - 1, width, &column);
        if (!sink->dumb)
            put(sink, CLEAR_LINE, strlen(CLEAR_LINE));
        else if (sink->shown != NULL)
            put_spaces(sink, sink->columns - column);
        put(sink, "\r", 1);
        sink->shown = stream;
        sink->columns = column;
    }
    stream->used = 0;
    stream->rewrites = true;
}

/* Returns the bytes up to a line end, or all; *end is that character, or '\0'.
 * On a terminal a carriage return ends a line, unless a newline follows. */
static size_t find_end(
    const struct run_stream *stream, const char *data, size_t nbytes, char *end)
{
    for (size_t i = 0; i < nbytes; i++) {
        *end = data[i];
        if (*end == '\n' || (*end == '\r' && stream->sink->terminal &&
                                (i + 1 == nbytes || data[i + 1] != '\n')))
            return i + 1;
    }
    *end = '\0';
    return nbytes;
}

static void take(struct run_stream *stream, const char *data, size_t nbytes)
{
    while (nbytes > 0) {
        char end;
        size_t length = find_end(stream, data, nbytes, &end);

        if (length > LINE_NBYTES - stream->used) {
            length = LINE_NBYTES - stream->used;
            end = '\0';
        }
        make_room(&stream->line, &stream->nbytes, stream->used, length);
        memcpy(stream->line + stream->used, data, length);
        stream->used += length;
        if (end == '\n')
            end_line(stream, false);
        else if (end == '\r')
            show_progress(stream);
        else if (stream->used == LINE_NBYTES)
            end_line(stream, true);
        data += length;
        nbytes -= length;
    }
}

static void close_stream(struct run_stream *stream)
{
    if (stream->used > 0)
        end_line(stream, true);
    if (stream->sink->shown == stream) {
        put(stream->sink, "\n", 1);
        stream->sink->shown = NULL;
    }
    free(stream->line);
    stream->line = NULL;
    stream->nbytes = 0;
    close(stream->fd);
    stream->fd = -1;
}

void run_stream_read(struct run_stream *stream)
{
    char data[32 * 1024];
    ssize_t n;

    if (stream->fd < 0)
        return;
    if (stream->sink->broken) {
        stream->used = 0;
        close_stream(stream);
        return;
    }
    n = read(stream->fd, data, sizeof(data));
    if (n > 0)
        take(stream, data, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        close_stream(stream);
}

void run_stream_finish(struct run_stream *stream)
{
    struct pollfd ready = {.fd = stream->fd, .events = POLLIN};

    /* Only while data is available: a process left behind may hold the other
     * end open. */
    while (stream->fd >= 0 && !run_sink_is_full(stream->sink)) {
        if (poll(&ready, 1, 0) > 0)
            run_stream_read(stream);
        else
            close_stream(stream);
    }
}
