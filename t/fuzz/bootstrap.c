/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks and the bootstrap server. The first byte selects the
 * side to test: the server, to which up to six clients send the bytes, or a
 * rank, which receives them as answers.
 */
#include "t/fuzz/fuzz.h"

#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS 6
#define MESSAGES_MAX 64
#define WAIT_NS (30 * SYMC_NS_PER_S / 1000)

const char fuzz_name[] = "bootstrap";

/* Bytes that are consumed one after another. */
struct input {
    const uint8_t *at;
    size_t left;
};

static unsigned take(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

/* Changes a good message at several offsets. */
static void change(struct input *input, void *message, size_t nbytes)
{
    unsigned changes = take(input) % 4;

    while (changes-- > 0) {
        size_t offset = take(input), length = take(input) % 16;

        for (size_t i = 0; i < length && input->left > 0; i++) {
            unsigned byte = take(input);

            if (offset + i < nbytes)
                ((uint8_t *)message)[offset + i] = (uint8_t)byte;
        }
    }
}

static void send_with_fds(
    int fd, const void *message, size_t nbytes, unsigned nfds)
{
    int fds[4] = {-1, -1, -1, -1};

    for (unsigned i = 0; i < nfds; i++)
        fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)symc_bootstrap_message_send(fd, message, nbytes, fds, (int)nfds);
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
}

/* ---- the server ---- */

static void say_hello(struct input *input, int fd)
{
    unsigned choice = take(input);
    struct symc_bootstrap_hello hello = {.magic = SYMC_BOOTSTRAP_MAGIC,
        .kind = SYMC_BOOTSTRAP_HELLO + choice % 3,
        .rank = (int)(choice >> 2 & 3),
        .size = 1 + (int)(choice >> 4 & 3),
        .nfds = choice >> 6 & 1,
        .nbytes = 4096,
        .name = "fuzz"};
    size_t nbytes = sizeof(hello);

    change(input, &hello, sizeof(hello));
    if ((choice & 0x80) != 0)
        nbytes = take(input) % (sizeof(hello) + 1);
    send_with_fds(fd, &hello, nbytes, take(input) % 4);
}

/* Reads an answer and closes its descriptors. */
static void hear(int fd)
{
    static struct symc_bootstrap_answer answer;
    size_t nbytes = sizeof(answer);
    int fds[SYMC_BOOTSTRAP_BATCH * SYMC_BOOTSTRAP_FDS];
    int nfds = sizeof(fds) / sizeof(fds[0]);

    (void)symc_bootstrap_message_receive(fd, &answer, &nbytes, fds, &nfds);
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
}

/* Returns our end of a new connection, or -1. */
static int connect_client(struct symc_bootstrap_server *server)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    if (symc_bootstrap_add(server, ends[1]) == SYMMCOLL_OK)
        return ends[0];
    close(ends[0]);
    return -1;
}

static void act(
    struct input *input, struct symc_bootstrap_server *server, int *clients)
{
    unsigned what = take(input);
    int *client = &clients[(what >> 4) % CLIENTS];
    char missing[64];

    if (*client < 0)
        *client = connect_client(server);
    if (*client < 0)
        return;
    switch (what & 7) {
    case 5:
        symc_bootstrap_fail_rank(server, (int)(what >> 4), "the rank died");
        break;
    case 6:
        close(*client);
        *client = -1;
        break;
    case 7:
        hear(*client);
        symc_bootstrap_missing(server, "fuzz", missing, sizeof(missing));
        break;
    default:
        say_hello(input, *client);
    }
    if ((what & 8) != 0)
        (void)symc_bootstrap_serve(server);
}

static void test_server(struct input *input)
{
    char name[64];
    struct symc_bootstrap_server *server;
    int clients[CLIENTS];

    snprintf(name, sizeof(name), "symmcoll-fuzz-%ld", (long)getpid());
    if (symc_bootstrap_open(name, NULL, &server) != SYMMCOLL_OK)
        return; /* the previous name is still in use */
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = -1;
    for (int i = 0; i < MESSAGES_MAX && input->left > 0; i++)
        act(input, server, clients);
    (void)symc_bootstrap_serve(server);
    symc_bootstrap_close(server);
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i] >= 0)
            close(clients[i]);
}

/* ---- a rank ---- */

struct server {
    struct input *input;
    int listener;
};

static void say_answer(struct input *input, int fd)
{
    static struct symc_bootstrap_answer answer;
    unsigned choice = take(input);
    size_t nbytes;

    answer = (struct symc_bootstrap_answer){.magic = SYMC_BOOTSTRAP_MAGIC,
        .kind = SYMC_BOOTSTRAP_PEERS + choice % 3,
        .status = SYMMCOLL_ERR_PEER,
        .first = (int)(choice >> 2 & 3),
        .count = (int)(choice >> 4 & 3),
        .text = "no"};
    for (int i = 0; i < 4; i++)
        answer.peers[i] =
            (struct symc_bootstrap_peer){.pid = getpid(), .nbytes = 4096};
    change(input, &answer, 256);
    change(input, answer.peers, sizeof(answer.peers[0]) * 4);
    nbytes = symc_bootstrap_answer_nbytes((int)(choice >> 4 & 3));
    if ((choice & 0x80) != 0)
        nbytes = take(input) * 4;
    send_with_fds(fd, &answer, nbytes, take(input) % 4);
}

static void *serve(void *arg)
{
    struct server *server = arg;
    struct pollfd poller = {.fd = server->listener, .events = POLLIN};
    char hello[sizeof(struct symc_bootstrap_hello)];
    int fd = -1;

    if (poll(&poller, 1, 30) == 1)
        fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return NULL;
    poller.fd = fd;
    (void)poll(&poller, 1, 30);
    (void)recv(fd, hello, sizeof(hello), MSG_DONTWAIT);
    while (server->input->left > 0)
        say_answer(server->input, fd);
    close(fd);
    return NULL;
}

static void exchange(const char *name)
{
    int server_pidfd = -1;
    struct symc_bootstrap_args args = {.server = name,
        .name = "fuzz",
        .rank = 1,
        .size = 3,
        .deadline_ns = symc_now_ns() + WAIT_NS,
        .server_pidfd = &server_pidfd};
    struct symc_bootstrap_offer mine = {.fds = {-1, -1, -1}, .pid = getpid()};
    struct symc_bootstrap_offer all[3];
    bool threads;

    mine.fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (symc_bootstrap_exchange(&args, &mine, all, &threads) == SYMMCOLL_OK)
        for (int r = 0; r < 3 && !threads; r++)
            for (int i = 0; i < 2; i++)
                if (all[r].fds[i] >= 0)
                    close(all[r].fds[i]);
    close(mine.fds[0]);
    if (server_pidfd >= 0)
        close(server_pidfd);
}

static void test_rank(struct input *input)
{
    static unsigned calls;
    struct server server = {.input = input};
    struct sockaddr_un address;
    char name[64];
    socklen_t length;
    pthread_t thread;

    snprintf(name, sizeof(name), "symmcoll-fuzz-rank-%ld-%u", (long)getpid(),
        calls++);
    length = (socklen_t)symc_bootstrap_message_address(name, &address);
    server.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(server.listener, (void *)&address, length) != 0 ||
        listen(server.listener, 4) != 0 ||
        pthread_create(&thread, NULL, serve, &server) != 0)
        abort();
    exchange(name);
    pthread_join(thread, NULL);
    close(server.listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct input input = {data, nbytes};

    if (nbytes == 0)
        return 0;
    if (take(&input) % 4 == 3)
        test_rank(&input);
    else
        test_server(&input);
    return 0;
}
