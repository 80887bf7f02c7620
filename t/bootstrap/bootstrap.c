/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the bootstrap server: ranks join; the others get an error that names a
 * rank which does not arrive, dies or disagrees.
 */
#include "../tap.h"
#include "joining.h"

#include "bootstrap/connect.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

static int joins_all(int rank, int size, void *arg)
{
    (void)arg;
    return joins(rank, size) ? 0 : 1;
}

/* Waits until rank 0 serves and accepts a connection. */
static void await_server(void)
{
    int fd;

    while (symc_bootstrap_connect(name, &fd) != 0)
        usleep(1000);
    close(fd);
}

/* ---- failing ranks ---- */

/* Two ranks join as rank 1: one is refused, and joins again as rank 2. */
static int comes_twice(int rank, int size, void *arg)
{
    int right;
    symmcoll_status_t status;

    (void)arg;
    if (rank == 0)
        return joins(0, size) ? 0 : 1;
    status = exchange_as(1, size, &right);
    if (status == SYMMCOLL_OK)
        return right ? 0 : 1;
    return failed_with(
               status, SYMMCOLL_ERR_INVALID, "rank 1 has joined already") &&
                   joins(2, size)
               ? 0
               : 1;
}

static int says_another_size(int rank, int size, void *arg)
{
    (void)size;
    (void)arg;
    if (rank == 0)
        return fails(0, 3, SYMMCOLL_ERR_TIMEOUT, "missing: ranks 1 and 2") ? 0
                                                                           : 1;
    await_server(); /* rank 0 has announced 3 */
    return fails(1, 5, SYMMCOLL_ERR_INVALID, "rank 1 passed 5, others passed 3")
               ? 0
               : 1;
}

static int one_is_missing(int rank, int size, void *arg)
{
    (void)arg;
    if (rank == 2)
        return 0;
    if (rank == 0)
        timeout = 30; /* rank 1 times out first, for both */
    return fails(rank, size, SYMMCOLL_ERR_TIMEOUT,
               "2 of 3 ranks joined, missing: rank 2")
               ? 0
               : 1;
}

static int the_first_is_missing(int rank, int size, void *arg)
{
    (void)arg;
    if (rank == 0)
        return 0;
    return fails(rank, size, SYMMCOLL_ERR_TIMEOUT, "rank 0 did not join") ? 0
                                                                          : 1;
}

/* Expects one more rank, so that the rendezvous is not complete before the
 * death. */
static int one_dies(int rank, int n, void *arg)
{
    int size = n + 1;
    struct symc_bootstrap_hello hello = sane_hello(rank, size);
    char text[64];

    (void)arg;
    if (rank == 2) {
        say(&hello, sizeof(hello), NULL, 0);
        _exit(0);
    }
    snprintf(text, sizeof(text), "init: rank 2 (pid ");
    return fails(rank, size, SYMMCOLL_ERR_PEER, text) ? 0 : 1;
}

static int the_first_dies(int rank, int size, void *arg)
{
    struct symc_bootstrap_server *server;
    char missing[64] = "";

    (void)arg;
    if (rank != 0)
        return fails(rank, size, SYMMCOLL_ERR_PEER, "init: rank 0") ? 0 : 1;
    if (symc_bootstrap_open(name, NULL, &server) != SYMMCOLL_OK)
        return 1;
    while (strcmp(missing, "0") != 0) {
        symc_bootstrap_serve(server);
        symc_bootstrap_missing(server, name, missing, sizeof(missing));
        usleep(500);
    }
    _exit(0);
}

/* Joins while the server of another job is ending, as a killed process's is
 * until its memory has been torn down: it accepts a connection and reads
 * nothing. */
static int joins_after_another_job(int rank, int size, void *arg)
{
    struct pollfd polled = {.events = POLLIN};
    struct symc_bootstrap_server *server;

    (void)arg;
    if (rank == 0) {
        if (symc_bootstrap_open(name, NULL, &server) != SYMMCOLL_OK)
            return 1;
        polled.fd = symc_bootstrap_fd(server);
        poll(&polled, 1, 10000);
        symc_bootstrap_close(server);
    }
    return joins(rank, size) ? 0 : 1;
}

/* ---- a child that is forked while rank 0 joins ---- */

static void *join_in_thread(void *arg)
{
    return joins(0, 2) ? arg : NULL;
}

/* Joins twice under one name, while a child of the first time lives. */
static int joins_again(int rank, int size, void *arg)
{
    _Atomic int *forked = arg;
    pthread_t thread;
    void *good;
    pid_t child;
    int again;

    if (rank == 1) {
        while (*forked == 0)
            usleep(1000);
        return joins(1, size) && joins(1, size) ? 0 : 1;
    }
    pthread_create(&thread, NULL, join_in_thread, forked);
    await_server();
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    *forked = 1;
    pthread_join(thread, &good);
    again = good != NULL && joins(0, size);
    kill(child, SIGKILL);
    return waitpid(child, NULL, 0) == child && again ? 0 : 1;
}

static int has_few_descriptors(int rank, int size, void *arg)
{
    struct rlimit few;
    char text[32];
    int next;

    (void)arg;
    if (rank != 3)
        return joins(rank, size) ? 0 : 1;
    /* Enough to join, in addition to the inherited ones, and not for all. */
    next = dup(STDIN_FILENO);
    close(next);
    few.rlim_cur = few.rlim_max = (rlim_t)next + 9;
    setrlimit(RLIMIT_NOFILE, &few);
    snprintf(text, sizeof(text), "RLIMIT_NOFILE is %d", next + 9);
    return fails(rank, size, SYMMCOLL_ERR_SYSTEM, text) ? 0 : 1;
}

static void test_wrong_ranks(void)
{
    struct symc_bootstrap_server *server, *second;

    begin_point(60);
    ok(all_true(3, comes_twice),
        "the second of one number is refused and named, the others join");
    ok(all_true_in_time(1, 2, says_another_size),
        "a rank with another size is refused");
    ok(all_true_in_time(1, 3, one_is_missing),
        "who does not come is named to all");
    begin_point(0.3);
    ok(all_true(3, the_first_is_missing), "a missing rank 0 is named");
    begin_point(60);
    ok(all_true(4, one_dies), "a rank that dies in the rendezvous is named");
    begin_point(60);
    ok(all_true(3, the_first_dies), "so is rank 0, which serves it");
    begin_point(60);
    ok(all_true(3, joins_after_another_job),
        "a server that ends without reading a rank's hello is not that rank's");
    begin_point(60);
    ok(all_true(8, has_few_descriptors),
        "a rank with too few descriptors is told its limit");
    begin_point(60);
    ok(symc_bootstrap_open(name, NULL, &server) == SYMMCOLL_OK &&
            failed_with(symc_bootstrap_open(name, NULL, &second),
                SYMMCOLL_ERR_INVALID, "in use by a process (pid "),
        "a name in use is refused, with whose it is");
    symc_bootstrap_close(server);
    ok(failed_with(symc_bootstrap_open("", NULL, &server), SYMMCOLL_ERR_INVALID,
           "1 to") &&
            symc_bootstrap_open(name, NULL, &server) == SYMMCOLL_OK,
        "a name is free again when its server is closed");
    symc_bootstrap_close(server);
    symc_bootstrap_close(NULL);
}

static void test_forked(void)
{
    int *forked = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    begin_point(10);
#ifdef __SANITIZE_THREAD__
    (void)joins_again;
    skip(1, "ThreadSanitizer knows one table of descriptors");
#else
    ok(all_true_with(2, joins_again, forked),
        "a child that is forked while rank 0 joins does not keep the name");
#endif
    munmap(forked, sizeof(int));
}

/* ---- a name that is still in use ---- */

/* Holds the name for a moment without serving, as a killed process does. */
static void *hold_name(void *arg)
{
    struct symc_bootstrap_server *server = arg;

    usleep(300000);
    symc_bootstrap_close(server);
    return NULL;
}

static int waits_for_the_name(int rank, int size, void *arg)
{
    struct symc_bootstrap_server *server;
    pthread_t thread;
    int good;

    (void)arg;
    if (rank != 0)
        return joins(rank, size) ? 0 : 1;
    if (symc_bootstrap_open(name, NULL, &server) != SYMMCOLL_OK ||
        pthread_create(&thread, NULL, hold_name, server) != 0)
        return 1;
    good = joins(0, size);
    pthread_join(thread, NULL);
    return good ? 0 : 1;
}

/* The first server answers; the second one does not wait for long. */
static int is_there_twice(int rank, int size, void *arg)
{
    int64_t begun = symc_now_ns();

    (void)size;
    (void)arg;
    if (rank == 1) {
        await_server();
        return fails(0, 2, SYMMCOLL_ERR_INVALID, "in use by a process (pid ") &&
                       symc_now_ns() - begun < 60 * SYMC_NS_PER_S
                   ? 0
                   : 1;
    }
    return fails(0, 2, SYMMCOLL_ERR_TIMEOUT, "missing: rank 1") ? 0 : 1;
}

static void test_held_name(void)
{
    begin_point(60);
    ok(all_true(2, waits_for_the_name),
        "rank 0 waits for a name whose holder is on its way out");
    ok(all_true_in_time(2, 2, is_there_twice),
        "a second rank 0 is refused by the first");
}

/* ---- invalid blocks ---- */

/* Joins with a descriptor that is not a block, or with none. */
static int offers_no_block(int rank, int size, void *arg)
{
    struct symc_bootstrap_args args = args_of(rank, size);
    struct symc_bootstrap_offer mine = {.fds = {-1, -1, -1}, .nbytes = 4096},
                                all[MOST];
    struct symc_peer peers[MOST];
    struct symc_bootstrap_own own = {.inbox = -1};
    bool threads;
    int before;

    if (rank == 1) {
        if (*(int *)arg)
            mine.fds[0] = make_token(1);
        return symc_bootstrap_exchange(&args, &mine, all, &threads) ==
                       SYMMCOLL_OK
                   ? 0
                   : 1;
    }
    if (symc_block_create("test", rank, size, 4096, 4096, 65536, &own.view,
            &own.fd) != SYMMCOLL_OK)
        return 1;
    before = dup(0);
    close(before);
    return failed_with(symc_bootstrap_join(&args, &own, peers, &threads),
               SYMMCOLL_ERR_INVALID, "rank 1: expected a sealed memfd") &&
                   dup(0) == before
               ? 0
               : 1;
}

static int run_no_block(int with_descriptor)
{
    int statuses[2] = {0};

    begin_point(60);
    return ranks_spawn(2, offers_no_block, &with_descriptor, statuses) &&
           statuses[0] == 0 && statuses[1] == 0;
}

static void *join_as_thread(void *arg)
{
    struct symc_bootstrap_args args = args_of(*(int *)arg, 3);
    struct symc_bootstrap_offer mine = {.fds = {-1, -1, -1}}, all[3];
    bool threads;

    return failed_with(symc_bootstrap_exchange(&args, &mine, all, &threads),
               SYMMCOLL_ERR_INVALID, "all to be threads")
               ? arg
               : NULL;
}

/* Ranks 0 and 1 are threads of one process, rank 2 is another. */
static int mixes_kinds(int rank, int size, void *arg)
{
    int numbers[2] = {0, 1};
    pthread_t thread;
    void *good, *other;

    (void)size;
    (void)arg;
    if (rank == 1) {
        numbers[0] = 2;
        return join_as_thread(&numbers[0]) != NULL ? 0 : 1;
    }
    pthread_create(&thread, NULL, join_as_thread, &numbers[1]);
    good = join_as_thread(&numbers[0]);
    pthread_join(thread, &other);
    return good != NULL && other != NULL ? 0 : 1;
}

/* The other side has sent a message, and closed without reading ours. */
static bool receives_the_last_message(void)
{
    int sides[2], nfds = 0;
    char word[8] = "";
    size_t nbytes = sizeof(word);
    bool heard;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sides) != 0 ||
        symc_bootstrap_message_send(sides[0], "ours", 5, NULL, 0) != 0 ||
        symc_bootstrap_message_send(sides[1], "last", 5, NULL, 0) != 0)
        return false;
    close(sides[1]);
    heard = symc_bootstrap_message_receive(
                sides[0], word, &nbytes, NULL, &nfds) == 0 &&
            strcmp(word, "last") == 0;
    nbytes = sizeof(word);
    heard = heard && symc_bootstrap_message_receive(
                         sides[0], word, &nbytes, NULL, &nfds) == EPIPE;
    close(sides[0]);
    return heard;
}

int main(void)
{
    ok(receives_the_last_message(),
        "the last message of a peer that has closed is received, then the end");
    begin_point(60);
    ok(all_true(2, joins_all), "two ranks join");
    begin_point(60);
    ok(all_true(40, joins_all),
        "forty ranks join, each has everybody's descriptors");
    test_wrong_ranks();
    test_forked();
    test_held_name();
    ok(run_no_block(1), "a descriptor that is no block is refused");
    ok(run_no_block(0), "so is a rank that brings none");
    begin_point(60);
    ok(all_true(2, mixes_kinds), "threads and processes do not mix");
    return done_testing();
}
