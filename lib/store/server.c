/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of a tcp store: its socket, its thread, starting and stopping. */
#include "store/server.h"

#include "base/descriptor.h"
#include "base/thread.h"

#ifdef HAVE_LIBEVENT
#include "store/serving.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS_MAX 4096
#define DESCRIPTORS_APART 64 /* descriptors left to the program */
#define MEMORY_MAX ((size_t)1 << 30)
#define BACKLOG 1024
#define SWEEP_MOST 65536 /* keys per second */

static void accept_one(struct evconnlistener *listener, evutil_socket_t fd,
    struct sockaddr *from, int nbytes, void *arg)
{
    (void)listener;
    (void)from;
    (void)nbytes;
    fd = symc_descriptor_raise(fd);
    if (fd >= 0)
        symc_client_accept(arg, fd);
}

/* Pauses accepting if no descriptor is free, to avoid a busy loop. */
static void accept_failed(struct evconnlistener *listener, void *arg)
{
    const struct timeval pause = {.tv_usec = 100000};
    struct symc_server *server = arg;

    evconnlistener_disable(listener);
    event_add(server->accept_again, &pause);
}

static void accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct symc_server *server = arg;

    (void)fd;
    (void)what;
    evconnlistener_enable(server->listener);
}

/* Called every second: drops unknown clients and expired keys. */
static void tick(evutil_socket_t fd, short what, void *arg)
{
    struct symc_server *server = arg;
    int64_t now_ns = symc_now_ns();

    (void)fd;
    (void)what;
    symc_client_tick(server, now_ns);
    symc_map_sweep(&server->map, now_ns, SWEEP_MOST); /* expired keys */
}

static void stop_loop(evutil_socket_t fd, short what, void *arg)
{
    struct symc_server *server = arg;

    (void)fd;
    (void)what;
    event_base_loopbreak(server->base);
}

/* The server's thread: runs the event loop until symc_server_stop(). */
static void *serve(void *arg)
{
    struct symc_server *server = arg;

    event_base_dispatch(server->base);
    event_del(server->wake);
    event_del(server->tick);
    event_del(server->accept_again);
    evconnlistener_disable(server->listener);
    symc_client_close_all(server);
    /* A TLS callback that has not run yet holds its connection, and
     * event_base_free() would drop the callback without releasing the
     * connection. */
    event_base_loop(server->base, EVLOOP_NONBLOCK);
    return NULL;
}

/* ---- the socket ---- */

union any_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un local;
};

static int read_port(const union any_address *at)
{
    return ntohs(
        at->any.sa_family == AF_INET6 ? at->six.sin6_port : at->four.sin_port);
}

static int listen_at(const struct addrinfo *address, int *port)
{
    union any_address bound = {.local = {0}};
    socklen_t nbytes = sizeof(bound);
    int one = 1, error;
    int fd = symc_descriptor_raise(socket(address->ai_family,
        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol));

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->ai_family == AF_INET6) /* IPv6 only */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(fd, BACKLOG) == 0 && getsockname(fd, &bound.any, &nbytes) == 0) {
        *port = read_port(&bound);
        return fd;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Returns whether a path is a socket without a listener. */
static bool is_left_over(const struct sockaddr_un *at)
{
    struct stat info;
    int fd, error = 0;

    if (lstat(at->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return false;
    fd = symc_descriptor_raise(
        socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0)
        error = errno;
    close(fd);
    return error == ECONNREFUSED;
}

/* Opens a socket that only this user can connect to. */
static symmcoll_status_t open_local(const struct symc_place *place, int *fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char text[SYMC_PLACE_TEXT];
    int error = 0;

    snprintf(at.sun_path, sizeof(at.sun_path), "%.107s", place->host);
    *fd = symc_descriptor_raise(
        socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    /* Linux takes the file's mode from the socket, less the umask. */
    if (*fd < 0 || fchmod(*fd, 0600) != 0 ||
        bind(*fd, (struct sockaddr *)&at, sizeof(at)) != 0)
        error = errno;
    if (error == EADDRINUSE && is_left_over(&at) && unlink(at.sun_path) == 0)
        error = bind(*fd, (struct sockaddr *)&at, sizeof(at)) != 0 ? errno : 0;
    if (error == 0 && listen(*fd, BACKLOG) != 0)
        error = errno;
    if (error == 0)
        return SYMMCOLL_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "tcp store: serving at %s", symc_place_text(place, text));
}

/* Returns whether this machine lacks an address or its family.  If another
 * server occupies the address, clients would connect to that and not to the
 * next address. */
static bool is_absent(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/* Binds the first address of a place that this machine has. */
static symmcoll_status_t open_socket(
    const struct symc_place *place, int64_t deadline_ns, int *fd, int *port)
{
    struct symc_addresses addresses;
    char text[SYMC_PLACE_TEXT];
    symmcoll_status_t status;
    int error;

    if (place->local)
        return open_local(place, fd);
    status = symc_resolve(place, true, deadline_ns, &addresses);
    if (status != SYMMCOLL_OK)
        return status;
    *fd = -1;
    error = EADDRNOTAVAIL;
    for (const struct addrinfo *at = addresses.list;
         at != NULL && *fd < 0 && is_absent(error); at = at->ai_next) {
        *fd = listen_at(at, port);
        error = errno;
    }
    symc_resolve_free(&addresses);
    if (*fd >= 0)
        return SYMMCOLL_OK;
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "tcp store: serving at %s", symc_place_text(place, text));
}

/* Returns whether a descriptor is a listening stream socket, and its
 * address. */
static bool find_listener(int fd, union any_address *at)
{
    socklen_t nbytes = sizeof(*at);
    socklen_t room = sizeof(int);
    int listens = 0, type = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &room) == 0 &&
           listens != 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &room) == 0 &&
           type == SOCK_STREAM && getsockname(fd, &at->any, &nbytes) == 0;
}

/* Formats the address of a descriptor for a message. */
static const char *describe_address(
    bool listens, const union any_address *at, char buffer[SYMC_PLACE_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "";
    int family = at->any.sa_family;

    if (!listens)
        return "none";
    if (family == AF_INET)
        inet_ntop(family, &at->four.sin_addr, host, sizeof(host));
    else if (family == AF_INET6)
        inet_ntop(family, &at->six.sin6_addr, host, sizeof(host));
    if (family == AF_INET || family == AF_INET6)
        snprintf(buffer, SYMC_PLACE_TEXT,
            family == AF_INET ? "one at %s:%d" : "one at [%s]:%d", host,
            read_port(at));
    else if (family == AF_UNIX)
        snprintf(buffer, SYMC_PLACE_TEXT, "one at the path \"%.*s\"",
            (int)sizeof(at->local.sun_path), at->local.sun_path);
    else
        snprintf(buffer, SYMC_PLACE_TEXT, "one of address family %d", family);
    symc_make_printable(buffer);
    return buffer;
}

/* Returns whether two addresses are equal except for the port. */
static bool same_host(const union any_address *a, const struct sockaddr *b)
{
    const union any_address *other = (const union any_address *)b;

    if (a->any.sa_family != b->sa_family)
        return false;
    if (b->sa_family == AF_INET)
        return a->four.sin_addr.s_addr == other->four.sin_addr.s_addr;
    return b->sa_family == AF_INET6 &&
           a->six.sin6_scope_id == other->six.sin6_scope_id &&
           memcmp(&a->six.sin6_addr, &other->six.sin6_addr,
               sizeof(a->six.sin6_addr)) == 0;
}

/* Checks that a socket listens at one of the place's addresses, so that no
 * clients are served that the place excludes.  Port 0 matches any. */
static symmcoll_status_t compare_place(const struct symc_place *place,
    const union any_address *at, int64_t deadline_ns, bool *same)
{
    struct symc_addresses addresses;
    symmcoll_status_t status;

    if (place->local)
        *same = at->any.sa_family == AF_UNIX &&
                strncmp(at->local.sun_path, place->host,
                    sizeof(at->local.sun_path)) == 0;
    if (place->local || at->any.sa_family == AF_UNIX ||
        (place->port != 0 && place->port != read_port(at)))
        return SYMMCOLL_OK;
    status = symc_resolve(place, true, deadline_ns, &addresses);
    if (status != SYMMCOLL_OK)
        return status;
    for (const struct addrinfo *one = addresses.list; one != NULL && !*same;
         one = one->ai_next)
        *same = same_host(at, one->ai_addr);
    symc_resolve_free(&addresses);
    return SYMMCOLL_OK;
}

/* Uses a listening socket that the caller has opened at the place. */
static symmcoll_status_t take_socket(
    struct symc_server *server, const struct symc_server_args *args)
{
    const struct symc_place *place = args->place;
    union any_address at = {.local = {.sun_family = AF_UNSPEC}};
    char expected[SYMC_PLACE_TEXT], found[SYMC_PLACE_TEXT];
    bool listens = find_listener(args->listen_fd, &at), same = false;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (listens)
        status = compare_place(place, &at, args->deadline_ns, &same);
    if (status != SYMMCOLL_OK)
        return status;
    if (!same)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_tcp: listen_fd %d: expected a socket that listens at "
            "%s, found %s",
            args->listen_fd, symc_place_text(place, expected),
            describe_address(listens, &at, found));
    server->listen_fd =
        fcntl(args->listen_fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
    server->taken_flags = fcntl(args->listen_fd, F_GETFL);
    if (server->listen_fd < 0 || server->taken_flags < 0 ||
        fcntl(server->listen_fd, F_SETFL, server->taken_flags | O_NONBLOCK) !=
            0)
        return symc_fail_descriptor(errno, "store_open_tcp: listen_fd");
    if (!place->local)
        server->port = read_port(&at);
    return SYMMCOLL_OK;
}

/* Restores the flags of a passed socket: they belong to the socket, which the
 * caller still has, not to the descriptor. */
static void close_socket(const struct symc_server *server)
{
    if (server->listen_fd < 0)
        return;
    if (server->taken_flags >= 0)
        fcntl(server->listen_fd, F_SETFL, server->taken_flags);
    close(server->listen_fd);
}

/* ---- start and stop ---- */

static size_t limit_clients(size_t wanted)
{
    struct rlimit files;
    size_t most = wanted > 0 ? wanted : CLIENTS_MAX;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur != RLIM_INFINITY &&
        files.rlim_cur < most + DESCRIPTORS_APART)
        most = files.rlim_cur > 2 * DESCRIPTORS_APART
                   ? (size_t)files.rlim_cur - DESCRIPTORS_APART
                   : DESCRIPTORS_APART / 2;
    return most;
}

static void free_server(struct symc_server *server)
{
    if (server->accept_again != NULL)
        event_free(server->accept_again);
    if (server->tick != NULL)
        event_free(server->tick);
    if (server->wake != NULL)
        event_free(server->wake);
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    if (server->listener != NULL)
        evconnlistener_free(server->listener);
    close_socket(server);
    /* The path is still this server's: another server would remove it before
     * binding it. */
    if (server->path[0] != '\0')
        unlink(server->path);
    if (server->base != NULL)
        event_base_free(server->base);
    if (server->tls != NULL)
        symc_server_tls_close(server->tls);
    symc_map_clear(&server->map);
    explicit_bzero(server->password, sizeof(server->password));
    free(server);
}

static symmcoll_status_t fail_memory(void)
{
    return symc_fail(
        SYMMCOLL_ERR_NO_MEMORY, "tcp store: no memory for the server");
}

static symmcoll_status_t make_events(struct symc_server *server)
{
    const struct timeval second = {.tv_sec = 1};
    struct event_config *config = event_config_new();
    struct symc_descriptor_guard guard;

    if (config != NULL) {
        /* Only one thread uses the event loop. */
        event_config_set_flag(
            config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
        symc_descriptor_guard_begin(&guard);
        server->base = event_base_new_with_config(config);
        symc_descriptor_guard_end(&guard);
        event_config_free(config);
    }
    if (server->base == NULL)
        return fail_memory();
    server->listener = evconnlistener_new(server->base, accept_one, server,
        LEV_OPT_CLOSE_ON_EXEC, 0, server->listen_fd);
    if (server->listener == NULL)
        return fail_memory();
    evconnlistener_set_error_cb(server->listener, accept_failed);
    server->wake = event_new(
        server->base, server->wake_fd, EV_READ | EV_PERSIST, stop_loop, server);
    server->tick = event_new(server->base, -1, EV_PERSIST, tick, server);
    server->accept_again = event_new(server->base, -1, 0, accept_again, server);
    if (server->wake == NULL || server->tick == NULL ||
        server->accept_again == NULL || event_add(server->wake, NULL) != 0 ||
        event_add(server->tick, &second) != 0)
        return fail_memory();
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_server_start(
    const struct symc_server_args *args, struct symc_server **out)
{
    struct symc_server *server = symc_alloc(1, sizeof(*server));
    symmcoll_status_t status;

    if (server == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    server->listen_fd = server->taken_flags = -1;
    server->max_clients = limit_clients(args->max_clients);
    server->max_memory = args->max_memory > 0 ? args->max_memory : MEMORY_MAX;
    memcpy(server->password, args->place->password, sizeof(server->password));
    server->wake_fd =
        symc_descriptor_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (server->wake_fd < 0) {
        status = symc_fail_descriptor(errno, "tcp store: the server");
        goto free_server;
    }
    if (args->place->tls) {
        status = symc_server_tls_open(args->place, &server->tls);
        if (status != SYMMCOLL_OK)
            goto free_server;
    }
    status = args->listen_fd > 0 ? take_socket(server, args)
                                 : open_socket(args->place, args->deadline_ns,
                                       &server->listen_fd, &server->port);
    if (status != SYMMCOLL_OK)
        goto free_server;
    /* The path of a passed socket is removed by its owner. */
    if (args->place->local && args->listen_fd == 0)
        memcpy(server->path, args->place->host, sizeof(server->path));
    status = make_events(server);
    if (status != SYMMCOLL_OK)
        goto free_server;
    status = symc_thread_start(
        &server->thread, "symc-store", SYMC_STACK_SMALL, serve, server);
    if (status != SYMMCOLL_OK)
        goto free_server;
    *out = server;
    return SYMMCOLL_OK;

free_server:
    free_server(server);
    return status;
}

int symc_server_port(const struct symc_server *server)
{
    return server->port;
}

void symc_server_stop(struct symc_server *server)
{
    const uint64_t one = 1;

    if (server == NULL)
        return;
    if (write(server->wake_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(server->thread, NULL);
    free_server(server);
}

#else

symmcoll_status_t symc_server_start(
    const struct symc_server_args *args, struct symc_server **server)
{
    (void)args;
    (void)server;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "tcp store: this library was built without libevent, and cannot serve");
}

int symc_server_port(const struct symc_server *server)
{
    (void)server;
    return 0;
}

void symc_server_stop(struct symc_server *server)
{
    (void)server;
}
#endif
