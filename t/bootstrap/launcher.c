/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a launcher's bootstrap server: what it records about joining ranks,
 * and its replies to waiting ones.
 */
#include "../tap.h"
#include "joining.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

struct seen {
    int complete;
    int right;
};

static void note_complete(const char *rendezvous, int size, const int *blocks,
    const pid_t *pids, void *arg)
{
    struct seen *seen = arg;

    seen->complete++;
    seen->right = strcmp(rendezvous, name) == 0 && size == 3;
    for (int r = 0; r < size; r++)
        seen->right = seen->right && token_of(blocks[r]) == r && pids[r] > 0;
}

static int join_launcher(void *arg)
{
    int rank = *(int *)arg, right;
    struct symc_bootstrap_args args = args_of(rank, 3);
    struct symc_bootstrap_offer mine = {.fds = {make_token(rank), -1, -1}},
                                all[3];
    bool threads;
    symmcoll_status_t status;

    args.server = "t-launcher";
    if (rank == 3) { /* rank 1 of the rendezvous that fails */
        args.rank = 1;
        return failed_with(symc_bootstrap_exchange(&args, &mine, all, &threads),
            SYMMCOLL_ERR_PEER, "rank 2 was killed");
    }
    status = symc_bootstrap_exchange(&args, &mine, all, &threads);
    right = status == SYMMCOLL_OK && token_of(all[2].fds[0]) == 2;
    return right;
}

static void serve_until(
    struct symc_bootstrap_server *server, const char *missing)
{
    char found[64] = "";

    for (int i = 0; i < 100000 && strcmp(found, missing) != 0; i++) {
        symc_bootstrap_serve(server);
        symc_bootstrap_missing(server, name, found, sizeof(found));
        usleep(500);
    }
}

/* Adds a rank at the other end of a socket; -1: failed. */
static int add_rank(struct symc_bootstrap_server *server)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    return symc_bootstrap_add(server, ends[1]) == SYMMCOLL_OK ? ends[0] : -1;
}

static bool tells(int fd, int rank, enum symc_bootstrap_kind kind)
{
    struct symc_bootstrap_hello hello = sane_hello(rank, 2);

    hello.kind = kind;
    return symc_bootstrap_message_send(fd, &hello, sizeof(hello), NULL, 0) == 0;
}

static bool is_told(int fd, enum symc_bootstrap_kind kind, const char *text)
{
    struct symc_bootstrap_answer answer = {.magic = 0};
    ssize_t nbytes = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);

    if (nbytes > 0 && answer.kind == kind && strstr(answer.text, text) != NULL)
        return true;
    diag("expected answer %d with '%s', found %zd bytes, %d: %s", (int)kind,
        text, nbytes, (int)answer.kind, answer.text);
    return false;
}

/* Rank 1 has joined, timed out and left when rank 0 requests the missing
 * ranks. */
static bool nobody_is_called_missing(struct symc_bootstrap_server *server)
{
    int first = add_rank(server), second = add_rank(server);
    bool good = first >= 0 && second >= 0 &&
                tells(second, 1, SYMC_BOOTSTRAP_HELLO) &&
                tells(second, 1, SYMC_BOOTSTRAP_GIVE_UP);

    close(second);
    good = good && tells(first, 0, SYMC_BOOTSTRAP_HELLO) &&
           tells(first, 0, SYMC_BOOTSTRAP_MISSING) &&
           symc_bootstrap_serve(server) == SYMMCOLL_OK;
    good = good && is_told(first, SYMC_BOOTSTRAP_JOINED, "") &&
           is_told(first, SYMC_BOOTSTRAP_FAILED,
               "all 2 ranks joined, but rank 1 gave up");
    close(first);
    return good;
}

static int count_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Serves a rendezvous of three ranks to its end. */
static bool serve_three(
    struct symc_bootstrap_server *server, const struct seen *seen, int *numbers)
{
    pid_t pids[3];
    int before = seen->complete;
    bool good = true;

    begin_point(60);
    for (int r = 0; r < 3; r++)
        pids[r] = start_child(join_launcher, &numbers[r]);
    while (seen->complete == before || symc_bootstrap_busy(server)) {
        symc_bootstrap_serve(server);
        usleep(500);
    }
    for (int r = 0; r < 3; r++)
        good = end_child(pids[r]) && good;
    (void)symc_bootstrap_serve(server);
    return good;
}

/* Checks that a launcher has no more descriptors after several rendezvous than
 * after one. */
static bool keeps_no_descriptor(
    struct symc_bootstrap_server *server, const struct seen *seen, int *numbers)
{
    bool good = serve_three(server, seen, numbers);
    int before = count_descriptors();

    for (int i = 0; i < 3; i++)
        good = serve_three(server, seen, numbers) && good;
    return good && count_descriptors() == before;
}

/* Checks that a rank has received its peers, and that its acknowledgement ends
 * the exchange. */
static bool is_answered(struct symc_bootstrap_server *server, int fd, int rank)
{
    char byte;

    return is_told(fd, SYMC_BOOTSTRAP_JOINED, "") &&
           is_told(fd, SYMC_BOOTSTRAP_PEERS, "") &&
           tells(fd, rank, SYMC_BOOTSTRAP_ACK) &&
           symc_bootstrap_serve(server) == SYMMCOLL_OK &&
           recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Connects a rank when no descriptor is left, one rendezvous is being answered
 * and another waits. */
static bool answers_without_descriptors(struct symc_bootstrap_server *server)
{
    int first = add_rank(server), second = add_rank(server);
    int third = add_rank(server), late, lowest;
    struct rlimit before, few;
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address("t-launcher", &address);
    bool good = tells(first, 0, SYMC_BOOTSTRAP_HELLO) &&
                tells(second, 1, SYMC_BOOTSTRAP_HELLO);

    begin_point(60);
    good = good && tells(third, 0, SYMC_BOOTSTRAP_HELLO) &&
           symc_bootstrap_serve(server) == SYMMCOLL_OK;
    late = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    lowest = dup(late);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t)lowest;
    setrlimit(RLIMIT_NOFILE, &few);
    good = connect(late, (struct sockaddr *)&address, length) == 0 &&
           failed_with(symc_bootstrap_serve(server), SYMMCOLL_ERR_SYSTEM,
               "cannot accept one more rank") &&
           good;
    setrlimit(RLIMIT_NOFILE, &before);
    good = good && is_told(third, SYMC_BOOTSTRAP_JOINED, "") &&
           is_told(third, SYMC_BOOTSTRAP_FAILED, "cannot accept one more rank");
    good =
        good && is_answered(server, first, 0) && is_answered(server, second, 1);
    close(late);
    close(third);
    close(second);
    close(first);
    return good;
}

/* The errno with which the next batch of ranks is not sent; 0: it is. */
static int refusal;

int __real_symc_bootstrap_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds);
int __wrap_symc_bootstrap_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds);

int __wrap_symc_bootstrap_message_send(
    int fd, const void *data, size_t nbytes, const int *fds, int nfds)
{
    const struct symc_bootstrap_answer *answer = data;
    int error = refusal;

    if (answer->kind != SYMC_BOOTSTRAP_PEERS || error == 0)
        return __real_symc_bootstrap_message_send(fd, data, nbytes, fds, nfds);
    refusal = 0;
    return error;
}

/* Too much of what is sent has not been received. */
static bool answers_later(struct symc_bootstrap_server *server, int error)
{
    int first = add_rank(server), second = add_rank(server);
    bool good = tells(first, 0, SYMC_BOOTSTRAP_HELLO) &&
                tells(second, 1, SYMC_BOOTSTRAP_HELLO);

    refusal = error;
    good = good && symc_bootstrap_serve(server) == SYMMCOLL_OK &&
           refusal == 0 && is_answered(server, first, 0) &&
           is_answered(server, second, 1);
    close(second);
    close(first);
    return good;
}

/* Checks that an abstract name has at most 107 bytes. */
static bool longest_name_is_the_kernels(void)
{
    struct symc_bootstrap_server *server;
    char text[109];
    bool good;

    memset(text, 'x', sizeof(text));
    snprintf(text, 20, "t-%016d", (int)getpid());
    text[strlen(text)] = 'x';
    text[107] = '\0';
    good = symc_bootstrap_open(text, NULL, &server) == SYMMCOLL_OK;
    if (good)
        symc_bootstrap_close(server);
    text[107] = 'x';
    text[108] = '\0';
    return failed_with(symc_bootstrap_open(text, NULL, &server),
               SYMMCOLL_ERR_INVALID, "1 to 107 bytes") &&
           good;
}

int main(void)
{
    struct seen seen = {0, 0};
    struct symc_bootstrap_events events = {
        .joined = note_complete, .arg = &seen};
    struct symc_bootstrap_server *server;
    int numbers[4] = {0, 1, 2, 3};
    pid_t pids[3];
    int good = 1;

    begin_point(60);
    if (symc_bootstrap_open("t-launcher", &events, &server) != SYMMCOLL_OK)
        exit(1);
    for (int r = 0; r < 3; r++)
        pids[r] = start_child(join_launcher, &numbers[r]);
    for (int i = 0; i < 100000 && (!symc_bootstrap_is_complete(server, name) ||
                                      symc_bootstrap_busy(server));
         i++) {
        symc_bootstrap_serve(server);
        usleep(500);
    }
    for (int r = 0; r < 3; r++)
        good = end_child(pids[r]) && good;
    ok(good && seen.complete == 1 && seen.right,
        "a launcher's server serves a rendezvous and learns of it once");
    ok(keeps_no_descriptor(server, &seen, numbers),
        "a launcher keeps no descriptor of rendezvous that have ended");
    begin_point(60);
    pids[0] = start_child(join_launcher, &numbers[3]);
    serve_until(server, "0 and 2");
    symc_bootstrap_fail_rank(server, 2, "rank 2 was killed");
    ok(end_child(pids[0]) && !symc_bootstrap_is_complete(server, name),
        "those who wait for a dead rank are told");
    begin_point(60);
    ok(nobody_is_called_missing(server),
        "where all have joined and one has given up, none is called missing");
    begin_point(60);
    ok(answers_without_descriptors(server),
        "without descriptors the ranks that wait hear so, and a rendezvous that "
        "is being answered is answered");
    begin_point(60);
    ok(answers_later(server, EAGAIN) && answers_later(server, ETOOMANYREFS) &&
            answers_later(server, ENOBUFS),
        "ranks that cannot be sent now are sent later");
    ok(longest_name_is_the_kernels(),
        "a name has 107 bytes at most, as the kernel has it");
    symc_bootstrap_close(server);
    return done_testing();
}
