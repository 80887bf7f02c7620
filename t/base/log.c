/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests log lines, which are read back through a pipe that replaces standard
 * error.
 */
#include "../tap.h"

#include "base/base.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int saved_stderr;
static int read_end;

static int redirect_stderr(void)
{
    int ends[2];

    saved_stderr = dup(STDERR_FILENO);
    if (saved_stderr < 0 || pipe(ends) != 0)
        return 0;
    read_end = ends[0];
    if (dup2(ends[1], STDERR_FILENO) < 0)
        return 0;
    return close(ends[1]) == 0;
}

/* Checks the lines written since the last call; a mark shows their end. */
static int is_written(const char *expected)
{
    char found[4096];
    ssize_t length;

    if (write(STDERR_FILENO, "|", 1) != 1)
        return 0;
    length = read(read_end, found, sizeof(found) - 1);
    if (length <= 0)
        return 0;
    found[length - 1] = '\0';
    return strcmp(found, expected) == 0;
}

static int long_line_is_cut(const struct symc_log *log)
{
    char text[3000];
    char found[4096];
    ssize_t length;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    symc_logf(log, SYMC_LOG_WARN, "%s", text);
    length = read(read_end, found, sizeof(found));
    return length == 1024 - 1 && memcmp(found + length - 4, "...\n", 4) == 0;
}

int main(void)
{
    const struct symc_log log = {SYMC_LOG_WARN, 2};
    const struct symc_log early = {SYMC_LOG_DEBUG, -1};
    const struct symc_log silent = {SYMC_LOG_OFF, 0};
    int redirected = redirect_stderr();
    int points[6];

    symc_logf(&log, SYMC_LOG_WARN, "peer %d is late", 3);
    points[0] = is_written("symmcoll [rank 2]: warning: peer 3 is late\n");
    symc_logf(&early, SYMC_LOG_DEBUG, "rendezvous");
    points[1] = is_written("symmcoll: debug: rendezvous\n");
    symc_logf(&log, SYMC_LOG_INFO, "not wanted");
    symc_logf(&silent, SYMC_LOG_ERROR, "not wanted");
    points[2] = is_written("");
    symc_logf(&log, SYMC_LOG_ERROR, "one\ntwo");
    points[3] = is_written("symmcoll [rank 2]: error: one two\n");
    points[4] = long_line_is_cut(&log);
    errno = ENOENT;
    symc_logf(&log, SYMC_LOG_ERROR, "x");
    points[5] = errno == ENOENT;
    (void)dup2(saved_stderr, STDERR_FILENO);

    plan(7);
    ok(redirected, "standard error can be read");
    ok(points[0], "a line names library, rank and level");
    ok(points[1], "a line before the rank is known leaves it out");
    ok(points[2], "a level that is not wanted says nothing");
    ok(points[3], "a message with line breaks is one line");
    ok(points[4], "a message that does not fit ends in dots");
    ok(points[5], "logging leaves errno alone");
    return done_testing();
}
