/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks and strangers at a bootstrap server, for its tests. */
#ifndef T_BOOTSTRAP_JOINING_H
#define T_BOOTSTRAP_JOINING_H

#include "../attempts.h"
#include "../ranks.h"
#include "../segment/child.h"

#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MOST 64

/* The rendezvous of the current point, the same in all its processes. */
static char name[64];
static double timeout;

static inline struct symc_bootstrap_args args_of(int rank, int size)
{
    return (struct symc_bootstrap_args){.name = name,
        .rank = rank,
        .size = size,
        .deadline_ns =
            symc_deadline_ns(symc_now_ns(), symc_seconds_ns(timeout))};
}

static inline void begin_point(double seconds)
{
    snprintf(name, sizeof(name), "%s", ranks_unique_name());
    timeout = seconds;
}

/* ---- a rank ---- */

/* Creates a descriptor with a rank in its file. */
static inline int make_token(int rank)
{
    int fd = memfd_create("token", MFD_CLOEXEC);

    if (fd < 0 || write(fd, &rank, sizeof(rank)) != sizeof(rank))
        exit(1);
    return fd;
}

static inline int token_of(int fd)
{
    int rank = -1;

    if (pread(fd, &rank, sizeof(rank), 0) != sizeof(rank))
        return -1;
    return rank;
}

/* Offers two tokens, and checks that those of all ranks were received. */
static inline symmcoll_status_t exchange_as(int rank, int size, int *right)
{
    struct symc_bootstrap_args args = args_of(rank, size);
    struct symc_bootstrap_offer mine = {
        .fds = {make_token(rank), make_token(rank + 500), -1}};
    struct symc_bootstrap_offer all[MOST];
    bool threads;
    symmcoll_status_t status =
        symc_bootstrap_exchange(&args, &mine, all, &threads);

    *right = status == SYMMCOLL_OK;
    for (int r = 0; status == SYMMCOLL_OK && r < size; r++) {
        *right = *right && token_of(all[r].fds[0]) == r &&
                 token_of(all[r].fds[1]) == r + 500 && !threads;
        close(all[r].fds[0]);
        close(all[r].fds[1]);
    }
    return status;
}

static inline int joins(int rank, int size)
{
    int right;
    symmcoll_status_t status = exchange_as(rank, size, &right);

    if (!right)
        fprintf(stderr, "# rank %d: %s: %s\n", rank,
            symmcoll_status_name(status), symmcoll_last_error());
    return right;
}

/* Checks that the exchange fails with a status and with a text in its
 * detail. */
static inline int fails(
    int rank, int size, symmcoll_status_t expected, const char *text)
{
    int right;

    return failed_with(exchange_as(rank, size, &right), expected, text);
}

/* Runs a body on n processes. Returns whether it was true on all. */
static inline int all_true_with(int n, raw_rank_fn body, void *arg)
{
    int statuses[MOST] = {0};
    int good = ranks_spawn(n, body, arg, statuses);

    for (int r = 0; r < n; r++)
        good = good && statuses[r] == 0;
    return good;
}

static inline int all_true(int n, raw_rank_fn body)
{
    return all_true_with(n, body, NULL);
}

struct in_time {
    int n;
    raw_rank_fn body;
};

static inline bool run_in_time(double seconds, void *arg)
{
    const struct in_time *run = arg;

    begin_point(seconds);
    return all_true(run->n, run->body);
}

/* Runs a body as all_true() does, on ranks that arrive within some seconds. */
static inline int all_true_in_time(double seconds, int n, raw_rank_fn body)
{
    struct in_time run = {n, body};

    return attempts_hold(run_in_time, seconds, &run);
}

/* ---- anybody ---- */

/* Connects to the server as any process of this machine can; -1: the server
 * closed the connection. */
static inline int knock(void)
{
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    for (int i = 0; i < 20000; i++) {
        if (connect(fd, (struct sockaddr *)&address, length) == 0)
            return fd;
        usleep(500);
    }
    exit(1);
}

/* Sends a message; the connection stays open until this process ends. */
static inline void say(
    const void *data, size_t nbytes, const int *fds, int nfds)
{
    symc_bootstrap_message_send(knock(), data, nbytes, fds, nfds);
}

static inline struct symc_bootstrap_hello sane_hello(int rank, int size)
{
    struct symc_bootstrap_hello hello = {.magic = SYMC_BOOTSTRAP_MAGIC,
        .kind = SYMC_BOOTSTRAP_HELLO,
        .rank = rank,
        .size = size};

    snprintf(hello.name, sizeof(hello.name), "%s", name);
    return hello;
}

#endif
