/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests a server of a tcp store on a socket that is already listening. */
#include "t/store/helpers.h"
#include "t/tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

static int open_at(
    const char *url, int listen_fd, struct symmcoll_store **store)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;

    args.url = url;
    args.serve = listen_fd != 0;
    args.listen_fd = listen_fd;
    args.timeout = 30;
    return symmcoll_store_open_tcp(&args, store);
}

/* Opens a socket at an address of this machine; listening: not only bound. */
static int open_socket_at(in_addr_t host, int listening, int *port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(host)}};
    socklen_t nbytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        (listening && listen(fd, 16) != 0) ||
        getsockname(fd, (struct sockaddr *)&at, &nbytes) != 0)
        exit(1);
    *port = ntohs(at.sin_port);
    return fd;
}

static int open_socket(int listening, int *port)
{
    return open_socket_at(INADDR_LOOPBACK, listening, port);
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Connects a client before the server exists. */
static int connect_early(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
        exit(1);
    return fd;
}

static int answers_ping(int fd)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    char reply[8] = "";

    return send(fd, ping, sizeof(ping) - 1, MSG_NOSIGNAL) ==
               (ssize_t)sizeof(ping) - 1 &&
           recv(fd, reply, 7, MSG_WAITALL) == 7 &&
           memcmp(reply, "+PONG\r\n", 7) == 0;
}

static void taken_over(void)
{
    struct symmcoll_store *server = NULL, *client = NULL;
    char url[64];
    int port, fd = open_socket(1, &port), early = connect_early(port);

    ok(open_at("redis://127.0.0.1:0", fd, &server) == SYMMCOLL_OK &&
            symmcoll_store_port(server) == port,
        "a server takes over a listening socket, with its port (R25)");
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
    ok(answers_ping(early) && open_at(url, 0, &client) == SYMMCOLL_OK &&
            set_text(client, "k", "v") && holds(server, "k", "v"),
        "it serves who connected before and who connects later (R25)");
    close(early);
    symmcoll_store_close(client);
    symmcoll_store_close(server);
    ok(!is_open(fd), "the descriptor was taken (R25)");
}

static int refuses(const char *url, int fd, const char *text)
{
    struct symmcoll_store *store = NULL;

    return failed_with(open_at(url, fd, &store), SYMMCOLL_ERR_INVALID, text) &&
           store == NULL;
}

static void refused(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    char url[64], text[128];
    int port, other, bound, null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fd = open_socket(1, &port);

    bound = open_socket(0, &other);
    snprintf(
        url, sizeof(url), "redis://127.0.0.1:%d", port == 1 ? 2 : port - 1);
    snprintf(text, sizeof(text), "127.0.0.1:%d, found one at 127.0.0.1:%d",
        port == 1 ? 2 : port - 1, port);
    ok(refuses(url, fd, text) &&
            refuses("unix:///tmp/store", fd, "found one at 127.0.0.1:"),
        "a socket at another place is refused with both (R25)");
    ok(refuses("redis://127.0.0.1:0", null, "found none") &&
            refuses("redis://127.0.0.1:0", bound, "found none") &&
            refuses("redis://127.0.0.1:0", 1000000, "found none") &&
            refuses("redis://127.0.0.1:0", -3, "above 0"),
        "what is no listening socket is refused (R25)");
    args.url = "redis://127.0.0.1:0";
    args.listen_fd = fd;
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "expected serve to be 1"),
        "only a server takes a socket over (R25)");
    ok(is_open(fd) && is_open(null) && is_open(bound),
        "where the call fails the descriptor is the caller's");
    close(fd);
    close(null);
    close(bound);
}

/* Checks that the socket is returned to the caller, unchanged, if the store
 * fails after the server has begun. */
static void given_back(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    int port, fd = open_socket(1, &port);

    args.url = "redis://127.0.0.1:0";
    args.serve = 1;
    args.listen_fd = fd;
    args.num_workers = 2;
    args.wait_workers = 1;
    args.timeout = 0.1;
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_TIMEOUT,
           "timeout") &&
            is_open(fd) && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0,
        "where no store comes of it the socket is as it was (R25)");
    close(fd);
}

/* Checks that the socket must have exactly the addresses of the URL. */
static void other_address(void)
{
    struct symmcoll_store *store = NULL;
    char text[128];
    int port, all = open_socket_at(INADDR_ANY, 1, &port);
    int second = open_socket_at(INADDR_LOOPBACK + 1, 1, &port);

    snprintf(
        text, sizeof(text), "127.0.0.1:0, found one at 127.0.0.2:%d", port);
    ok(refuses("redis://127.0.0.1:0", all,
           "expected a socket that listens at 127.0.0.1:0, found one at "
           "0.0.0.0:") &&
            refuses("redis://localhost:0", all, "found one at 0.0.0.0:") &&
            refuses("redis://[::1]:0", all, "found one at 0.0.0.0:") &&
            refuses("redis://127.0.0.1:0", second, text) &&
            refuses("redis://0.0.0.0:0", second, "found one at 127.0.0.2:"),
        "a socket at another address, or at all, is refused with both (R25)");
    ok(open_at("redis://0.0.0.0:0", all, &store) == SYMMCOLL_OK &&
            set_text(store, "k", "v") && holds(store, "k", "v"),
        "one at all addresses fits the URL that says so (R25)");
    symmcoll_store_close(store);
    close(second);
}

static void messages_refused(const char *url, const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    ok(bind(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 &&
            listen(fd, 16) == 0 && refuses(url, fd, "found none"),
        "a socket of messages is refused (R25)");
    close(fd);
    unlink(at->sun_path);
}

static void local_socket(void)
{
    struct symmcoll_store *store = NULL;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char path[80], url[160];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(path, sizeof(path), "/tmp/symmcoll-takeover-%ld", (long)getpid());
    unlink(path);
    memcpy(at.sun_path, path, sizeof(path));
    snprintf(url, sizeof(url), "unix://%s", path);
    ok(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
            listen(fd, 16) == 0 && open_at(url, fd, &store) == SYMMCOLL_OK &&
            set_text(store, "k", "v") && holds(store, "k", "v"),
        "a socket in the file system is taken over, too (R25)");
    symmcoll_store_close(store);
    ok(unlink(path) == 0, "its file is its owner's to remove (R25)");
    messages_refused(url, &at);
}

int main(void)
{
    alarm(120);
    plan(13);
    taken_over();
    refused();
    given_back();
    other_address();
    local_socket();
    return done_testing();
}
