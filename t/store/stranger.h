/* SPDX-License-Identifier: BSD-3-Clause */
/* Debian's redis-server as a child of a test. */
#ifndef T_STORE_STRANGER_H
#define T_STORE_STRANGER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGER_ARGS 24

/* Returns whether a port of 127.0.0.1 is free. */
static inline int can_bind(int port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int bound;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bound = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return bound;
}

static inline int free_port(void)
{
    static int count;

    /* Below the ports that the kernel assigns to clients, also of other tests;
     * the next port is free as well. */
    for (int i = 0; i < 1000; i++) {
        int port = 20000 + (getpid() * 17 + 2 * count++) % 12000;

        if (can_bind(port) && can_bind(port + 1))
            return port;
    }
    return 0;
}

/* Returns whether a program is installed. */
static inline int has_program(const char *name)
{
    char command[256];

    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    return system(command) == 0;
}

/* Starts a program that dies with this one, and discards its output. */
static inline pid_t start_program(const char *const *args)
{
    pid_t parent = getpid();
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(args[0], (char *const *)args);
        _exit(127);
    }
    return pid;
}

static inline void stop_program(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Starts redis-server at a port of 127.0.0.1 (0: none, if TLS has one), with
 * further arguments up to a NULL. */
static inline pid_t start_stranger(int port, const char *const *more)
{
    char number[8];
    const char *args[STRANGER_ARGS + 16] = {"redis-server", "--port", number,
        "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--daemonize", "no", "--maxclients", "2000"};
    int n = 13;

    snprintf(number, sizeof number, "%d", port);
    while (more != NULL && *more != NULL && n < STRANGER_ARGS + 15)
        args[n++] = *more++;
    return start_program(args);
}

#endif
