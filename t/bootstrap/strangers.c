/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests strangers at the bootstrap server: whatever they send, however many
 * they are and whichever user runs them, the ranks join.
 */
#include "../tap.h"
#include "joining.h"

#include "bootstrap/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#define NOBODY 65534   /* the overflow id */
#define UNMAPPED 70000 /* outside of a namespace of 65536 ids */

static void say_insane_hellos(int size)
{
    struct symc_bootstrap_hello hello = sane_hello(-1, size);

    say(&hello, sizeof(hello), NULL, 0);
    hello = sane_hello(size, size);
    say(&hello, sizeof(hello), NULL, 0);
    hello = sane_hello(0, 1 << 30);
    say(&hello, sizeof(hello), NULL, 0);
    hello = sane_hello(0, -5);
    say(&hello, sizeof(hello), NULL, 0);
    hello = sane_hello(1, size);
    hello.magic++;
    say(&hello, sizeof(hello), NULL, 0);
    hello = sane_hello(1, size);
    memset(hello.name, 'x', sizeof(hello.name));
    say(&hello, sizeof(hello), NULL, 0);
    hello = sane_hello(1, size);
    say(&hello, sizeof(hello) - 1, NULL, 0);
    for (unsigned kind = 0; kind < 8; kind++) {
        hello = sane_hello(1, size);
        hello.kind = kind == SYMC_BOOTSTRAP_HELLO ? 99 : kind;
        say(&hello, sizeof(hello), NULL, 0);
    }
}

static void disturb(int size)
{
    static unsigned char rubbish[100000];
    int fds[20];

    for (size_t i = 0; i < sizeof(rubbish); i++)
        rubbish[i] = (unsigned char)(i * 7 + 3);
    for (int i = 0; i < 20; i++)
        fds[i] = make_token(i);
    say(rubbish, 1, NULL, 0);
    say(rubbish, 64, NULL, 0);
    say(rubbish, sizeof(struct symc_bootstrap_hello), NULL, 0);
    say(rubbish, sizeof(rubbish), NULL, 0);
    say(rubbish, 200, fds, 20);
    say(rubbish, sizeof(struct symc_bootstrap_hello), fds, 20);
    say_insane_hellos(size);
    close(knock());
    knock(); /* and says nothing, for as long as it lives */
}

static int joins_among_strangers(int rank, int size, void *arg)
{
    (void)arg;
    if (rank == 1)
        disturb(size);
    return joins(rank, size) ? 0 : 1;
}

/* Opens more silent connections than the server has descriptors. */
static int joins_among_many(int rank, int size, void *arg)
{
    struct rlimit few = {.rlim_cur = 300, .rlim_max = 300};

    (void)arg;
    if (rank == 0)
        setrlimit(RLIMIT_NOFILE, &few);
    for (int i = 0; rank == 1 && i < 400; i++)
        knock();
    return joins(rank, size) ? 0 : 1;
}

/* Checks that a client which connects before the server's own rank has sent
 * anything does not displace it. */
static int keeps_its_own(int rank, int size, void *arg)
{
    struct symc_bootstrap_server *server = NULL;
    struct pollfd own = {.events = POLLIN};
    int ends[2], good;

    (void)rank;
    (void)size;
    (void)arg;
    if (symc_bootstrap_open(name, NULL, &server) != SYMMCOLL_OK ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
            ends) != 0 ||
        symc_bootstrap_add(server, ends[1]) != SYMMCOLL_OK)
        return 1;
    for (int i = 0; i < 300; i++) {
        knock();
        (void)symc_bootstrap_serve(server);
    }
    own.fd = ends[0];
    good = poll(&own, 1, 0) == 0;
    if (!good)
        diag("the own rank's connection has been closed");
    symc_bootstrap_close(server);
    close(ends[0]);
    return good ? 0 : 1;
}

/* Connects as another user, claims to be rank 1, and is refused. */
static int knock_as(uid_t uid)
{
    struct symc_bootstrap_hello hello = sane_hello(1, 2);
    struct pollfd polled = {.events = POLLIN};
    char byte;

    if (setgroups(0, NULL) != 0 || setgid(uid) != 0 || setuid(uid) != 0)
        return 0;
    polled.fd = knock();
    symc_bootstrap_message_send(polled.fd, &hello, sizeof(hello), NULL, 0);
    poll(&polled, 1, 10000);
    /* A leak checker cannot inspect a process of another user. */
    _exit(recv(polled.fd, &byte, 1, MSG_DONTWAIT) <= 0 ? 0 : 1);
}

static int knock_as_another_user(void *arg)
{
    (void)arg;
    return knock_as(NOBODY);
}

static int joins_beside_another_user(int rank, int size, void *arg)
{
    int turned_away = rank == 0 || run_child(knock_as_another_user, NULL);

    (void)arg;
    return joins(rank, size) && turned_away ? 0 : 1;
}

/* Checks that a server of another user is not trusted. */
static int refuses_another_users_server(int rank, int size, void *arg)
{
    _Atomic int *over = arg; /* rank 1 has its error */
    struct symc_bootstrap_server *server;
    symmcoll_status_t status;
    int refused;

    (void)size;
    if (rank == 1) {
        refused = fails(1, 2, SYMMCOLL_ERR_INVALID, "of user 65534");
        atomic_store(over, 1);
        return refused ? 0 : 1;
    }
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        return 1;
    status = symc_bootstrap_open(name, NULL, &server);
    while (status == SYMMCOLL_OK && atomic_load(over) == 0) {
        symc_bootstrap_serve(server);
        usleep(1000);
    }
    _exit(status == SYMMCOLL_OK ? 0 : 1);
}

/* ---- users without an id ---- */

/* Each rank is in its own user namespace without mappings: each sees the other
 * as the overflow user, which it also is itself. */
static int is_unmapped(int rank, int size, void *arg)
{
    (void)arg;
    if (unshare(CLONE_NEWUSER) != 0)
        return 2;
    if (rank == 1)
        return fails(1, size, SYMMCOLL_ERR_INVALID, "overflow id") ? 0 : 1;
    return fails(0, size, SYMMCOLL_ERR_TIMEOUT, "missing: rank 1") ? 0 : 1;
}

/* Runs as the user with the overflow id in a namespace that maps all users. */
static int is_nobody(int rank, int size, void *arg)
{
    (void)arg;
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        return 1;
    _exit(joins(rank, size) ? 0 : 1);
}

#define IDS "0 0 65536\n" /* a namespace's first 65536 ids are the machine's */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    close(fd);
    return good;
}

/* Maps the ids of a process in a new user namespace, from a process outside. */
static bool map_ids(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    if (!write_text(path, IDS))
        return false;
    snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
    return write_text(path, IDS);
}

/* Becomes user 65534 of a user namespace that maps it, among others, but not
 * all ids. */
static bool become_mapped_nobody(void)
{
    int made[2], status = 1;
    pid_t self = getpid(), child;
    char byte = 0;

    if (pipe2(made, O_CLOEXEC) != 0)
        return false;
    child = fork();
    if (child == 0)
        _exit(read(made[0], &byte, 1) == 1 && map_ids(self) ? 0 : 1);
    if (unshare(CLONE_NEWUSER) != 0 || write(made[1], &byte, 1) != 1)
        return false;
    close(made[1]);
    close(made[0]);
    return waitpid(child, &status, 0) == child && status == 0 &&
           setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 &&
           setuid(NOBODY) == 0;
}

/* Connects as a user that the ranks' namespace does not map, which has the
 * overflow id there. */
static int knock_as_unmapped(void *arg)
{
    (void)arg;
    return knock_as(UNMAPPED);
}

static int is_mapped_nobody(int rank, int size, void *arg)
{
    bool turned_away = rank == 0 || run_child(knock_as_unmapped, NULL);

    (void)arg;
    if (!become_mapped_nobody())
        _exit(2);
    _exit(joins(rank, size) && turned_away ? 0 : 1);
}

static void test_mapped_nobody(void)
{
    int statuses[2] = {0};
    bool good;

    begin_point(60);
    good = ranks_spawn(2, is_mapped_nobody, NULL, statuses);
    if (WEXITSTATUS(statuses[0]) == 2 || WEXITSTATUS(statuses[1]) == 2)
        skip(1, "no user namespace can be made, or mapped");
    else
        ok(good && statuses[0] == 0 && statuses[1] == 0,
            "ranks of the user 65534 of a namespace meet, and turn away those "
            "that it does not map");
}

static bool run_unmapped(double seconds, void *arg)
{
    bool *possible = arg;
    int statuses[2] = {0};
    int good;

    begin_point(seconds);
    good = ranks_spawn(2, is_unmapped, NULL, statuses);
    *possible = WEXITSTATUS(statuses[0]) != 2;
    return !*possible || (good && statuses[0] == 0 && statuses[1] == 0);
}

static void test_overflow_user(void)
{
    bool possible, good = attempts_hold(run_unmapped, 2, &possible);

    if (!possible)
        skip(1, "no user namespace can be made");
    else
        ok(good, "who has no number in a user namespace is nobody's friend");
    if (geteuid() != 0) {
        skip(2, "only root can be another user");
        return;
    }
    begin_point(60);
    ok(all_true(2, is_nobody), "but ranks of the user 65534 meet");
    test_mapped_nobody();
}

/* ---- processes without a number ---- */

/* Joins from a new PID namespace; 77: none can be created. LeakSanitizer does
 * not work across namespaces: both processes end without it. */
static int is_apart(int rank, int size, void *arg)
{
    int status = -1;
    pid_t pid;

    (void)arg;
    if (unshare(CLONE_NEWPID) != 0)
        return 77;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(joins(rank, size) ? 0 : 1);
    }
    _exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
}

static void test_pid_namespaces(void)
{
    int statuses[3] = {0};
    int good;

    begin_point(60);
    good = ranks_spawn(3, is_apart, NULL, statuses);
    if (WEXITSTATUS(statuses[0]) == 77)
        skip(1, "no PID namespace can be made");
    else
        ok(good && statuses[0] == 0 && statuses[1] == 0 && statuses[2] == 0,
            "ranks that see no number of each other are not threads of one");
}

/* ---- a name in use ---- */

/* Listens on the name and fills the queue, so that a connection blocks. */
static int squat(void *arg)
{
    struct sockaddr_un address;
    unsigned length = symc_bootstrap_message_address(name, &address);
    int *user = arg;
    int fd;

    if (*user != (int)geteuid() &&
        (setgroups(0, NULL) != 0 || setgid((gid_t)*user) != 0 ||
            setuid((uid_t)*user) != 0))
        return 0;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, length) != 0 ||
        listen(fd, 1) != 0) {
        close(fd);
        return 0;
    }
    for (int i = 0; i < 10; i++) {
        int one = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

        if (connect(one, (struct sockaddr *)&address, length) != 0)
            break;
    }
    for (;;)
        pause();
}

/* Runs both ranks of a job with a name that is already in use, by this user or
 * another. */
static int finds_a_full_socket(int rank, int size, void *arg)
{
    symmcoll_status_t expected = SYMMCOLL_ERR_INVALID;
    int64_t until = symc_now_ns() + 60 * SYMC_NS_PER_S;
    char owner[32];
    int fd;

    snprintf(owner, sizeof(owner), "user %d", *(int *)arg);
    if (rank == 1 && *(int *)arg == (int)geteuid())
        expected = SYMMCOLL_ERR_TIMEOUT;
    while (symc_bootstrap_connect(name, &fd) != EAGAIN)
        usleep(1000);
    return fails(rank, size, expected, owner) &&
                   strstr(symmcoll_last_error(), name) != NULL &&
                   symc_now_ns() < until
               ? 0
               : 1;
}

static int joins_a_full_socket(int user)
{
    pid_t squatter = start_child(squat, &user);
    int good = all_true_with(2, finds_a_full_socket, &user);

    kill(squatter, SIGKILL);
    return waitpid(squatter, NULL, 0) == squatter && good;
}

static void test_full_socket(void)
{
    begin_point(1);
    ok(joins_a_full_socket((int)geteuid()),
        "a socket whose queue is full is an error in time, with its user");
    if (geteuid() != 0) {
        skip(1, "only root can be another user");
        return;
    }
    begin_point(100);
    ok(joins_a_full_socket(65534),
        "one of another user is refused at once, with whose it is");
}

static void test_strangers(void)
{
    int *over;

    begin_point(60);
    ok(all_true(3, joins_among_strangers),
        "rubbish, short, huge and impossible messages do no harm");
    begin_point(60);
    ok(all_true(2, joins_among_many),
        "more silent connections than descriptors do no harm");
    begin_point(60);
    ok(all_true(1, keeps_its_own),
        "they do not push out a rank of the server's own that is still silent");
    if (geteuid() != 0) {
        skip(2, "only root can be another user");
        return;
    }
    begin_point(60);
    ok(all_true(2, joins_beside_another_user),
        "another user's process is refused, the ranks join");
    over = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    begin_point(60);
    ok(all_true_with(2, refuses_another_users_server, over),
        "another user's server is not trusted");
    munmap(over, sizeof(int));
}

int main(void)
{
    test_strangers();
    test_overflow_user();
    test_pid_namespaces();
    test_full_socket();
    return done_testing();
}
