/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removes each barrier, memory order and other place without which kernels
 * would be wrong, one at a time, each in a separate program: the checks must
 * detect it. Only ThreadSanitizer detects a missing memory order, because the
 * processors that the tests run on provide that order anyway.
 */
#include "t/kernels/checks.h"
#include "t/kernels/engine.h"
#include "t/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_DIVISOR 4
#define NOTHING (-1)

/* Exit statuses of a program that detects the mutant: a check failed, the
 * sanitizer reported, or the engine found that a block cannot continue. */
#define FAILED 1
#define REPORTED 66
#define STUCK 99

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifndef HAS_TSAN
#define HAS_TSAN 0
#endif

/* ---- one program ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void run_checks(const char *file, bool of_file)
{
    for (const struct check *const *at = checks_of_all; *at != NULL; at++) {
        for (const struct check *check = *at; check->file != NULL; check++) {
            if ((strcmp(check->file, file) == 0) == of_file &&
                !check->run(check->rounds / ROUNDS_DIVISOR + 1))
                exit(FAILED);
        }
    }
}

/* Runs the checks without a place, beginning with those of the file that has
 * it. */
static int run_without(int number)
{
    const struct engine_place *place = engine_place(number);
    const char *file = place != NULL ? base_of(place->file) : "";

    engine_count_time(true);
    engine_take_out(number);
    run_checks(file, true);
    run_checks(file, false);
    return 0;
}

/* ---- all of them ---- */

static void become(const char *number)
{
    const char *options = getenv("TSAN_OPTIONS");
    char with[4096];

    (void)snprintf(with, sizeof(with), "%s:halt_on_error=1:exitcode=%d",
        options != NULL ? options : "", REPORTED);
    (void)setenv("TSAN_OPTIONS", with, 1);
    (void)execl("/proc/self/exe", "mutants", number, (char *)NULL);
    _exit(98);
}

/* Returns the exit status of the program without this place, or minus its
 * signal. */
static int end_of(int number)
{
    char text[16];
    int status = 0;
    pid_t pid;

    (void)snprintf(text, sizeof(text), "%d", number);
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (number != NOTHING && (freopen("/dev/null", "w", stdout) == NULL ||
                                     freopen("/dev/null", "w", stderr) == NULL))
            _exit(97);
        become(text);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void check_place(int number, const struct engine_place *place)
{
    const int end = end_of(number);

    if (!ok(end == FAILED || end == REPORTED || end == STUCK,
            "%s, line %d: %s is missed", base_of(place->file), place->line,
            place->what))
        diag("the program without it ended with %d", end);
}

static bool is_missed_here(const struct engine_place *place)
{
    return HAS_TSAN || !place->is_order;
}

int main(int argc, char **argv)
{
    const struct engine_place *place;
    int n = 0;

    alarm(900);
    if (argc == 2)
        return run_without(atoi(argv[1]));
    for (int i = 0; (place = engine_place(i)) != NULL; i++)
        n += is_missed_here(place);
    plan(1 + n);
    ok(end_of(NOTHING) == 0, "all checks pass where nothing is taken out");
    for (int i = 0; (place = engine_place(i)) != NULL; i++)
        if (is_missed_here(place))
            check_place(i, place);
    return done_testing();
}
