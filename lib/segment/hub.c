/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serving side of the hub: it collects one hello from each rank of a
 * meeting and then sends everybody to everybody.  It never blocks, trusts no
 * message, and forgets a bad client without harm to the others.
 */
#include "segment/connect.h"
#include "segment/hub_room.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PROBE_MS 500   /* for the answer of a hub that has our name */
#define MAX_SILENT 256 /* clients that have connected and said nothing */

/* Bounds of one call of symc_hub_serve(), whose caller has more to do. */
#define SERVE_NS (INT64_C(5) * 1000 * 1000)
#define SERVE_MESSAGES 3 /* of one client: hello, giving up, its end */
#define SERVE_ACCEPTS 64 /* between two looks at the clients */

void symc_hub_close_fds(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* ---- clients ---- */

void symc_hub_drop_client(struct symc_hub *hub, struct symc_client *client)
{
    struct symc_client **at = &hub->clients;

    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    hub->flying -= client->flying;
    if (client->meeting != NULL) {
        client->meeting->ranks[client->hello.rank] = NULL;
        client->meeting->joined--;
    }
    symc_hub_close_fds(client->fds, (int)client->hello.nfds);
    close(client->fd);
    free(client);
}

/* Send an answer without ranks.  Where it cannot be sent, the client's hang-up
 * is read next. */
static void send_answer(const struct symc_client *client,
    enum symc_hub_kind kind, symmcoll_status_t status, const char *text)
{
    struct symc_hub_answer answer;

    memset(&answer, 0, symc_hub_answer_nbytes(0));
    answer.magic = SYMC_HUB_MAGIC;
    answer.kind = kind;
    answer.status = status;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    symc_message_send(client->fd, &answer, symc_hub_answer_nbytes(0), NULL, 0);
}

void symc_hub_acknowledge(const struct symc_client *client)
{
    send_answer(client, SYMC_HUB_JOINED, SYMMCOLL_OK, "");
}

/* Tell one who is not to blame. */
void symc_hub_inform(struct symc_hub *hub, struct symc_client *client,
    symmcoll_status_t status, const char *text)
{
    if (hub->events.failed != NULL)
        hub->events.failed(client->pid, status, text, hub->events.arg);
    send_answer(client, SYMC_HUB_FAILED, status, text);
    symc_hub_drop_client(hub, client);
}

void symc_hub_refuse(struct symc_hub *hub, struct symc_client *client,
    symmcoll_status_t status, const char *text)
{
    send_answer(client, SYMC_HUB_FAILED, status, text);
    symc_hub_drop_client(hub, client);
}

/* Who comes now belongs to a later meeting: refused, it looks for the next hub.
 */
void symc_hub_stop_listening(struct symc_hub *hub)
{
    if (hub->listener >= 0) {
        /* Refuses also where a forked child has a copy of it. */
        shutdown(hub->listener, SHUT_RDWR);
        close(hub->listener);
    }
    hub->listener = -1;
}

/* ---- what clients say ---- */

static bool hello_is_sane(const struct symc_hub_hello *hello, size_t nbytes)
{
    return nbytes == sizeof(*hello) && hello->magic == SYMC_HUB_MAGIC &&
           hello->kind == SYMC_HUB_HELLO && hello->size > 0 &&
           hello->size <= SYMC_RANKS_MAX && hello->rank >= 0 &&
           hello->rank < hello->size &&
           memchr(hello->name, '\0', sizeof(hello->name)) != NULL;
}

/* Whether this hub only stays to tell those who come late of a failure. */
static bool is_going(const struct symc_hub *hub)
{
    const struct symc_hub_meeting *at = hub->meetings;

    while (at != NULL && at->failure != SYMMCOLL_OK)
        at = at->next;
    return hub->one_meeting && hub->meetings != NULL && at == NULL;
}

const char *symc_hub_format_refused(
    const struct symc_hub *hub, char buffer[SYMC_HUB_REFUSED_TEXT])
{
    buffer[0] = '\0';
    if (hub->refused > 0)
        snprintf(buffer, SYMC_HUB_REFUSED_TEXT,
            "; %" PRIu64 " connections of other users were refused",
            hub->refused);
    return buffer;
}

/* Nobody more can be taken in: the ranks of all meetings wait in vain. */
static symmcoll_status_t fail_full(struct symc_hub *hub, int error)
{
    struct symc_hub_meeting *meeting, *next;
    char where[160], refused[SYMC_HUB_REFUSED_TEXT];
    symmcoll_status_t status;

    snprintf(where, sizeof(where),
        "init: the hub in process %d cannot take in one more rank%s",
        (int)getpid(), symc_hub_format_refused(hub, refused));
    status = symc_fail_descriptor(error, where);
    if (hub->one_meeting) {
        hub->failure = status;
        snprintf(hub->text, sizeof(hub->text), "%s", symmcoll_last_error());
    }
    for (meeting = hub->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (!meeting->met && meeting->failure == SYMMCOLL_OK)
            symc_hub_fail_meeting(hub, meeting, status, symmcoll_last_error());
    }
    return status;
}

/* Hear a client; it may be gone afterwards. */
static void hear(struct symc_hub *hub, struct symc_client *client)
{
    struct symc_hub_hello heard;
    size_t nbytes = sizeof(heard);
    int fds[SYMC_HUB_FDS], nfds = SYMC_HUB_FDS;
    int error = symc_message_receive(client->fd, &heard, &nbytes, fds, &nfds);

    if (error == EAGAIN)
        return;
    if (error == EMFILE && client->state == SYMC_CLIENT_NEW) {
        symc_hub_close_fds(fds, nfds);
        symc_hub_refuse(hub, client, SYMMCOLL_ERR_SYSTEM,
            "init: the hub has no descriptor left: RLIMIT_NOFILE is too low "
            "for so many ranks");
        if (hello_is_sane(&heard, nbytes))
            (void)fail_full(hub, error); /* it is one of those expected */
        return;
    }
    if (error != 0) {
        symc_hub_close_fds(fds, nfds);
        symc_hub_lose(hub, client);
        return;
    }
    if (client->state == SYMC_CLIENT_NEW && hello_is_sane(&heard, nbytes)) {
        client->hello = heard;
        client->hello.nfds = (uint32_t)nfds;
        memcpy(client->fds, fds, sizeof(fds));
        symc_hub_join(hub, client);
        return;
    }
    symc_hub_close_fds(fds, nfds);
    if (client->state == SYMC_CLIENT_NEW && nbytes == sizeof(heard) &&
        heard.magic == SYMC_HUB_MAGIC && heard.kind == SYMC_HUB_PROBE &&
        !is_going(hub))
        symc_hub_acknowledge(client);
    if (client->state == SYMC_CLIENT_NEW || nbytes != sizeof(heard) ||
        heard.magic != SYMC_HUB_MAGIC)
        symc_hub_lose(hub, client);
    else if (client->owes && heard.kind == SYMC_HUB_THANKS)
        symc_hub_take_thanks(hub, client);
    else if (client->state == SYMC_CLIENT_JOINED &&
             heard.kind == SYMC_HUB_GIVE_UP)
        symc_hub_give_up(hub, client);
}

/* Let the client go that has been silent for longest, where more than `most`
 * are; false where there are not so many. */
static bool drop_silent(struct symc_hub *hub, int most)
{
    struct symc_client *oldest = NULL;
    int count = 0;
    char first;

    for (struct symc_client *at = hub->clients; at != NULL; at = at->next) {
        if (at->state != SYMC_CLIENT_NEW)
            continue;
        oldest = at; /* the newest is at the head */
        count++;
    }
    if (count <= most)
        return false;
    /* It may have spoken by now, and only not have been heard. */
    if (recv(oldest->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        hear(hub, oldest);
    else
        symc_hub_drop_client(hub, oldest);
    return true;
}

/* Take a connection over, or close it; 0 or an errno. */
static int add_client(struct symc_hub *hub, int fd, pid_t pid)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct symc_client *client = symc_alloc(1, sizeof(*client));

    event.data.ptr = client;
    if (client == NULL ||
        epoll_ctl(hub->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        int error = errno;

        free(client);
        close(fd);
        return error;
    }
    client->fd = fd;
    client->pid = pid;
    client->next = hub->clients;
    hub->clients = client;
    drop_silent(hub, MAX_SILENT);
    return 0;
}

/* Take in a client; false where none came. */
static bool welcome(struct symc_hub *hub)
{
    uid_t uid;
    pid_t pid;
    int fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        int error = errno;
        bool room = drop_silent(hub, 0);

        errno = error;
        return room;
    }
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    if (symc_message_peer(fd, &uid, &pid) == 0 &&
        symc_message_is_trusted(uid, pid)) {
        (void)add_client(hub, fd, pid); /* who is not taken in tries again */
        return true;
    }
    hub->refused++;
    close(fd);
    return true;
}

/* The same, for some of those who wait. */
static bool welcome_some(struct symc_hub *hub)
{
    int count = 0;

    while (count < SERVE_ACCEPTS && hub->listener >= 0 && welcome(hub))
        count++;
    return count == SERVE_ACCEPTS || hub->listener < 0 || errno == EAGAIN;
}

/* Whether a client that an event named is still there: hearing one may have
 * dropped others. */
static bool is_client(
    const struct symc_hub *hub, const struct symc_client *client)
{
    const struct symc_client *at = hub->clients;

    while (at != NULL && at != client)
        at = at->next;
    return at != NULL;
}

symmcoll_status_t symc_hub_serve(struct symc_hub *hub)
{
    struct epoll_event events[32];
    int64_t until = symc_now_ns() + SERVE_NS;
    int count;

    do {
        count = epoll_wait(hub->epoll, events, 32, 0);
        for (int i = 0; i < count; i++) {
            struct symc_client *client = events[i].data.ptr;

            if (client == NULL && !welcome_some(hub))
                return fail_full(hub, errno);
            if (client == NULL)
                continue;
            /* A rank that came, gave up and went has said all that before its
             * hello may count. */
            for (int n = 0; n < SERVE_MESSAGES && is_client(hub, client); n++)
                hear(hub, client);
        }
        symc_hub_send_all(hub);
    } while (count > 0 && symc_now_ns() < until);
    symc_hub_fail_late(hub, count == 0);
    return SYMMCOLL_OK;
}

/* ---- opening and closing ---- */

static symmcoll_status_t fail_in_use(const char *name)
{
    char owner[SYMC_OWNER_TEXT], text[SYMC_PID_TEXT];
    uid_t uid = 0;
    pid_t pid = 0;
    int fd, error = symc_connect(name, &fd);

    if (error != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hub: the name '@%s' is in use: it belongs to %s", name,
            symc_format_owner(name, error, owner));
    error = symc_message_peer(fd, &uid, &pid);
    close(fd);
    if (error != 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
            "hub: the name '@%s' is in use by another job", name);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "hub: the name '@%s' is in use by a process (%s) of user %u: is another "
        "job running with the same MASTER_ADDR and MASTER_PORT, or is rank 0 "
        "there twice?",
        name, symc_format_pid(pid, text), uid);
}

/*
 * Whether the holder of a name may be waited for: nobody listens any more, or
 * it ends the connection, or does not answer, when asked whether it serves.  A
 * killed process holds its sockets until its memory has been torn down.
 */
static bool is_released(const char *name)
{
    struct symc_hub_hello probe = {
        .magic = SYMC_HUB_MAGIC, .kind = SYMC_HUB_PROBE};
    struct symc_hub_answer answer;
    size_t nbytes = sizeof(answer);
    struct pollfd polled = {.events = POLLIN};
    bool released = true;
    int nfds = 0;
    uid_t uid;
    pid_t pid;
    int error = symc_connect(name, &polled.fd);

    if (error != 0)
        return error == ECONNREFUSED;
    if (symc_message_peer(polled.fd, &uid, &pid) != 0 ||
        !symc_message_is_trusted(uid, pid))
        released = false;
    else if (symc_message_send(polled.fd, &probe, sizeof(probe), NULL, 0) ==
                 0 &&
             poll(&polled, 1, PROBE_MS) == 1)
        released =
            symc_message_receive(polled.fd, &answer, &nbytes, NULL, &nfds) != 0;
    close(polled.fd);
    return released;
}

/* Bind and listen; 0 or an errno. */
static int try_listening(const char *name, int fd)
{
    struct sockaddr_un address;
    unsigned length = symc_message_address(name, &address);

    if (bind(fd, (struct sockaddr *)&address, length) != 0 ||
        listen(fd, SOMAXCONN) != 0)
        return errno;
    return 0;
}

static symmcoll_status_t open_listener(
    const char *name, int64_t deadline_ns, int *listener)
{
    struct sockaddr_un address;
    const struct timespec pause = {.tv_nsec = 2000000};
    int fd, error;

    if (symc_message_address(name, &address) == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hub: expected a name of 1 to %zu bytes, found '%s'",
            sizeof(address.sun_path) - 1, name);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return symc_fail_descriptor(errno, "hub: socket");
    while ((error = try_listening(name, fd)) == EADDRINUSE &&
           symc_now_ns() < deadline_ns && is_released(name))
        nanosleep(&pause, NULL);
    if (error == 0) {
        *listener = fd;
        return SYMMCOLL_OK;
    }
    close(fd);
    if (error == EADDRINUSE)
        return fail_in_use(name);
    return symc_fail_errno(
        SYMMCOLL_ERR_SYSTEM, error, "hub: listening on '%s'", name);
}

symmcoll_status_t symc_hub_open_until(const char *name,
    const struct symc_hub_events *events, int64_t deadline_ns,
    struct symc_hub **hub)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct symc_hub *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = open_listener(name, deadline_ns, &made->listener);
    if (status != SYMMCOLL_OK)
        goto free_hub;
    made->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (made->epoll < 0 ||
        epoll_ctl(made->epoll, EPOLL_CTL_ADD, made->listener, &event) != 0) {
        status = symc_fail_descriptor(errno, "hub: epoll");
        goto close_listener;
    }
    if (events != NULL)
        made->events = *events;
    *hub = made;
    return SYMMCOLL_OK;

close_listener:
    close(made->listener);
    if (made->epoll >= 0)
        close(made->epoll);
free_hub:
    free(made);
    return status;
}

symmcoll_status_t symc_hub_open(const char *name,
    const struct symc_hub_events *events, struct symc_hub **hub)
{
    return symc_hub_open_until(name, events, 0, hub);
}

void symc_hub_close(struct symc_hub *hub)
{
    if (hub == NULL)
        return;
    while (hub->clients != NULL)
        symc_hub_drop_client(hub, hub->clients);
    while (hub->meetings != NULL)
        symc_hub_drop_meeting(hub, hub->meetings);
    for (size_t i = 0; i < hub->met_count; i++)
        free(hub->met[i]);
    free(hub->met);
    close(hub->epoll);
    symc_hub_stop_listening(hub);
    free(hub);
}

symmcoll_status_t symc_hub_add(struct symc_hub *hub, int fd)
{
    int error = add_client(hub, fd, getpid());

    return error == 0 ? SYMMCOLL_OK : symc_fail_descriptor(error, "hub: epoll");
}

void symc_hub_close_after_meeting(struct symc_hub *hub)
{
    hub->one_meeting = true;
}

int symc_hub_fd(const struct symc_hub *hub)
{
    return hub->epoll;
}

bool symc_hub_is_listening(const struct symc_hub *hub)
{
    return hub->listener >= 0;
}
