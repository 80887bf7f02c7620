/* SPDX-License-Identifier: BSD-3-Clause */
/* A store's server in a separate process, so that a test can stop it. */
#ifndef T_STORE_APART_H
#define T_STORE_APART_H

#include "store/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct server {
    pid_t pid;
    int port;
};

/* Starts a server; false: this build has none. */
static inline int start_server(struct server *server, size_t max_memory)
{
    struct symc_place place = {.host = "127.0.0.1"};
    struct symc_server_args args = {
        .place = &place, .deadline_ns = SYMC_NEVER, .max_memory = max_memory};
    struct symc_server *started;
    pid_t parent = getpid();
    int ends[2], port = 0;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        if (symc_server_start(&args, &started) == SYMMCOLL_OK)
            port = symc_server_port(started);
        if (write(ends[1], &port, sizeof port) != sizeof port)
            _exit(1);
        while (port != 0)
            pause();
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &server->port, sizeof server->port) !=
        sizeof server->port)
        server->port = 0;
    close(ends[0]);
    return server->port != 0;
}

static inline void stop_server(const struct server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
}

/* Returns when it has stopped; SIGCONT lets it go on. */
static inline void pause_server(const struct server *server)
{
    kill(server->pid, SIGSTOP);
    waitpid(server->pid, NULL, WUNTRACED);
}

#endif
