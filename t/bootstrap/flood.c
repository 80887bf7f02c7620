/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests another user who connects as fast as possible: it delays neither
 * deadlines, ranks, nor the launcher's output and signals.
 */
#include "../tap.h"
#include "joining.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#define FLOODERS 16
#define LINES 12

/* The name to which the flooders connect; they retry while it does not
 * exist. */
static char target[108];

static int flood(void *arg)
{
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address(target, &address);
    struct timespec pause = {.tv_nsec = 1000000};

    (void)arg;
    alarm(0); /* ended by the test, or with it */
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&address, length) != 0)
            nanosleep(&pause, NULL);
        close(fd);
    }
}

static void start_flood(pid_t pids[FLOODERS], const char *at)
{
    snprintf(target, sizeof(target), "%s", at);
    for (int i = 0; i < FLOODERS; i++)
        pids[i] = start_child(flood, NULL);
}

static void end_flood(const pid_t pids[FLOODERS])
{
    for (int i = 0; i < FLOODERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

/* ---- ranks ---- */

static int waits_in_vain(int rank, int size, void *arg)
{
    int64_t until = symc_now_ns() + 100 * SYMC_NS_PER_S;

    (void)size;
    (void)arg;
    return fails(rank, 2, SYMMCOLL_ERR_TIMEOUT, "missing: rank 1; ") &&
                   strstr(symmcoll_last_error(),
                       "connections of other users were refused") != NULL &&
                   symc_now_ns() < until
               ? 0
               : 1;
}

static int joins_all(int rank, int size, void *arg)
{
    (void)arg;
    return joins(rank, size) ? 0 : 1;
}

/* Floods the server while ranks join. With this timeout some of the flooders
 * are refused, too. */
static bool run_flooded(double seconds, int n, raw_rank_fn body)
{
    pid_t pids[FLOODERS];
    bool good;

    begin_point(seconds);
    start_flood(pids, name);
    good = all_true(n, body);
    end_flood(pids);
    return good;
}

static bool wait_flooded(double seconds, void *arg)
{
    (void)arg;
    return run_flooded(seconds, 1, waits_in_vain);
}

/* ---- the launcher ---- */

/* Starts a launcher with one rank, which writes a line every 50 ms and then
 * waits. */
static pid_t start_launcher(int *out)
{
    static const char script[] =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line; sleep 0.05; done; "
        "sleep 100";
    const char *build = getenv("T_BUILDDIR");
    char path[4096];
    int ends[2];
    pid_t pid;

    snprintf(
        path, sizeof(path), "%s/bin/symmcoll-run", build != NULL ? build : ".");
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path, path, "-n", "1", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *out = ends[0];
    return pid;
}

/* Finds the name of the launcher's socket, as any process can. */
static int find_socket(pid_t launcher, char *buffer, size_t nbytes)
{
    char line[512], start[64];
    const char *at = NULL;
    FILE *file;

    snprintf(start, sizeof(start), "@symmcoll-run-%d-", (int)launcher);
    for (int i = 0; at == NULL && i < 5000; i++) {
        file = fopen("/proc/net/unix", "r");
        while (file != NULL && at == NULL &&
               fgets(line, sizeof(line), file) != NULL)
            at = strstr(line, start);
        if (file != NULL)
            fclose(file);
        usleep(1000);
    }
    if (at != NULL)
        snprintf(buffer, nbytes, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    return at != NULL;
}

/* Counts lines until there are enough of them, or a minute has passed. */
static int count_lines(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int64_t until = symc_now_ns() + 60 * SYMC_NS_PER_S;
    int lines = 0;
    char byte = 0;

    while (lines < LINES && symc_now_ns() < until) {
        if (poll(&polled, 1, 100) == 1 && read(fd, &byte, 1) != 1)
            break;
        if ((polled.revents & POLLIN) != 0)
            lines += byte == '\n';
    }
    return lines;
}

static int ends_within(pid_t pid, int seconds)
{
    for (int i = 0; i < seconds * 100; i++) {
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return 1;
        usleep(10000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 0;
}

static void test_launcher(void)
{
    pid_t pids[FLOODERS], launcher;
    char socket_name[108] = "";
    int out = -1;

    launcher = start_launcher(&out);
    if (!find_socket(launcher, socket_name, sizeof(socket_name)))
        diag("the launcher has no socket");
    start_flood(pids, socket_name);
    ok(count_lines(out) == LINES, "the launcher passes its ranks' output on");
    kill(launcher, SIGTERM);
    ok(ends_within(launcher, 60), "and answers signals");
    end_flood(pids);
    close(out);
}

int main(void)
{
    if (geteuid() != 0)
        skip_all("only root can be another user");
    ok(attempts_hold(wait_flooded, 1, NULL),
        "a deadline holds, and its error says what was refused");
    ok(run_flooded(60, 4, joins_all), "ranks meet all the same");
    test_launcher();
    return done_testing();
}
