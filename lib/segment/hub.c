/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The serving side of the hub: it collects one hello from each rank of a
 * meeting and then sends everybody to everybody.  It never blocks, trusts no
 * message, and forgets a bad client without harm to the others.
 */
#include "segment/hub.h"
#include "segment/life.h"
#include "segment/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_SILENT 256 /* clients that have connected and said nothing */
#define MAX_FLYING 400 /* descriptors sent and not yet acknowledged */

enum client_state {
    CLIENT_NEW,     /* has said nothing */
    CLIENT_JOINED,  /* waits for the others */
    CLIENT_SENDING, /* is being told */
    CLIENT_TOLD     /* must say thanks */
};

struct client {
    struct client *next;
    struct meeting *meeting;
    int fd;
    pid_t pid;
    enum client_state state;
    struct symc_hub_hello hello;
    int fds[SYMC_HUB_FDS];
    int told;   /* ranks sent so far */
    int flying; /* descriptors sent, not acknowledged */
    bool owes;  /* an acknowledgement */
};

/* What a rank brought, kept until all have been told: a rank that has said
 * thanks and gone is still to be introduced to those who have not been told
 * yet. */
struct brought {
    pid_t pid;
    uint64_t nbytes;
    uint64_t address;
    int nfds;
    int fds[SYMC_HUB_FDS];
};

/* One set of ranks that comes together. */
struct meeting {
    struct meeting *next;
    char name[SYMC_HUB_NAME];
    int size;
    int joined;
    bool met;     /* everybody has come: answers go out */
    bool threads; /* all of one process */
    struct client **ranks;
    struct brought *brought; /* of each rank, once met */

    /* After a failure: those who come late are told once, too. */
    symmcoll_status_t failure; /* 0: none */
    char text[256];
    bool *informed;
};

struct symc_hub {
    int listener;
    int epoll;
    int flying; /* descriptors in flight to all clients */
    struct client *clients;
    struct meeting *meetings;
    char **met; /* names of completed meetings */
    size_t met_count;
    struct symc_hub_events events;
    bool one_meeting; /* nobody is taken in after it */
};

static void close_fds(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* ---- meetings ---- */

/* The meeting of a name that still takes ranks: one that has met only sends its
 * answers. */
static struct meeting *find_meeting(
    const struct symc_hub *hub, const char *name)
{
    struct meeting *meeting = hub->meetings;

    while (meeting != NULL && (meeting->met || strcmp(meeting->name, name) != 0))
        meeting = meeting->next;
    return meeting;
}

static struct meeting *add_meeting(
    struct symc_hub *hub, const char *name, int size)
{
    struct meeting *meeting = symc_alloc(1, sizeof(*meeting));

    if (meeting == NULL)
        return NULL;
    meeting->ranks = symc_alloc((size_t)size, sizeof(struct client *));
    meeting->brought = symc_alloc((size_t)size, sizeof(struct brought));
    meeting->informed = symc_alloc((size_t)size, sizeof(bool));
    if (meeting->ranks == NULL || meeting->brought == NULL ||
        meeting->informed == NULL) {
        free(meeting->ranks);
        free(meeting->brought);
        free(meeting->informed);
        free(meeting);
        return NULL;
    }
    snprintf(meeting->name, sizeof(meeting->name), "%s", name);
    meeting->size = size;
    meeting->next = hub->meetings;
    hub->meetings = meeting;
    return meeting;
}

static void drop_meeting(struct symc_hub *hub, struct meeting *meeting)
{
    struct meeting **at = &hub->meetings;

    while (*at != meeting)
        at = &(*at)->next;
    *at = meeting->next;
    for (int r = 0; r < meeting->size; r++)
        close_fds(meeting->brought[r].fds, meeting->brought[r].nfds);
    free(meeting->ranks);
    free(meeting->brought);
    free(meeting->informed);
    free(meeting);
}

static void list_missing(
    const struct meeting *meeting, char *buffer, size_t nbytes)
{
    bool *absent = symc_alloc((size_t)meeting->size, sizeof(bool));

    buffer[0] = '\0';
    if (absent == NULL)
        return;
    for (int r = 0; r < meeting->size; r++)
        absent[r] = meeting->ranks[r] == NULL;
    symc_format_ranks(absent, meeting->size, buffer, nbytes);
    free(absent);
}

/* ---- clients ---- */

static void drop_client(struct symc_hub *hub, struct client *client)
{
    struct client **at = &hub->clients;

    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    hub->flying -= client->flying;
    if (client->meeting != NULL) {
        client->meeting->ranks[client->hello.rank] = NULL;
        client->meeting->joined--;
    }
    close_fds(client->fds, (int)client->hello.nfds);
    close(client->fd);
    free(client);
}

static void send_failure(
    struct client *client, symmcoll_status_t status, const char *text)
{
    struct symc_hub_answer answer;

    memset(&answer, 0, symc_hub_answer_nbytes(0));
    answer.magic = SYMC_HUB_MAGIC;
    answer.kind = SYMC_HUB_FAILED;
    answer.status = status;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    symc_message_send(
        client->fd, &answer, symc_hub_answer_nbytes(0), NULL, 0, false);
}

/* Tell one who is not to blame. */
static void inform(struct symc_hub *hub, struct client *client,
    symmcoll_status_t status, const char *text)
{
    if (hub->events.failed != NULL)
        hub->events.failed(client->pid, hub->events.arg);
    send_failure(client, status, text);
    drop_client(hub, client);
}

/* Tell all who have come, and remember it for those who have not. */
static void fail_meeting(struct symc_hub *hub, struct meeting *meeting,
    symmcoll_status_t status, const char *text)
{
    bool everybody = true;

    meeting->failure = status;
    snprintf(meeting->text, sizeof(meeting->text), "%s", text);
    for (int r = 0; r < meeting->size; r++) {
        struct client *client = meeting->ranks[r];

        if (client != NULL) {
            meeting->informed[r] = true;
            inform(hub, client, status, text);
        }
        everybody = everybody && meeting->informed[r];
    }
    meeting->met = false;
    if (everybody)
        drop_meeting(hub, meeting);
}

static void refuse(struct symc_hub *hub, struct client *client,
    symmcoll_status_t status, const char *text)
{
    send_failure(client, status, text);
    drop_client(hub, client);
}

/* Where the kinds of ranks are mixed: the text of the error, else NULL. */
static const char *check_kinds(
    struct meeting *meeting, char *buffer, size_t nbytes)
{
    for (int r = 1; r < meeting->size; r++) {
        for (int s = 0; s < r; s++) {
            bool same = meeting->ranks[r]->pid == meeting->ranks[s]->pid;

            if (r == 1)
                meeting->threads = same;
            if (same == meeting->threads)
                continue;
            snprintf(buffer, nbytes,
                "init: expected all ranks to be processes or all to be threads "
                "of one, found rank %d in process %d and rank %d in process %d",
                s, (int)meeting->ranks[s]->pid, r, (int)meeting->ranks[r]->pid);
            return buffer;
        }
    }
    return NULL;
}

static void note_met(struct symc_hub *hub, const char *name)
{
    char **grown = realloc(hub->met, (hub->met_count + 1) * sizeof(*hub->met));

    if (grown == NULL)
        return;
    hub->met = grown;
    hub->met[hub->met_count] = symc_strdup(name);
    if (hub->met[hub->met_count] != NULL)
        hub->met_count++;
}

static void announce(struct symc_hub *hub, const struct meeting *meeting)
{
    int *blocks = symc_alloc((size_t)meeting->size, sizeof(int));
    pid_t *pids = symc_alloc((size_t)meeting->size, sizeof(pid_t));

    for (int r = 0; blocks != NULL && pids != NULL && r < meeting->size; r++) {
        const struct brought *brought = &meeting->brought[r];

        blocks[r] = brought->nfds > 0 ? brought->fds[0] : -1;
        pids[r] = brought->pid;
    }
    if (blocks != NULL && pids != NULL)
        hub->events.met(
            meeting->name, meeting->size, blocks, pids, hub->events.arg);
    free(blocks);
    free(pids);
}

/* Take over what a rank brought. */
static void take_brought(struct client *client, struct brought *brought)
{
    *brought = (struct brought){.pid = client->pid,
        .nbytes = client->hello.nbytes,
        .address = client->hello.address,
        .nfds = (int)client->hello.nfds};
    memcpy(brought->fds, client->fds, sizeof(brought->fds));
    client->hello.nfds = 0;
}

/* Who comes now belongs to a later meeting: refused, it looks for the next hub. */
static void stop_listening(struct symc_hub *hub)
{
    if (hub->listener >= 0)
        close(hub->listener);
    hub->listener = -1;
}

/* Everybody has come. */
static void complete_meeting(struct symc_hub *hub, struct meeting *meeting)
{
    char text[256];
    const char *mixed = check_kinds(meeting, text, sizeof(text));

    if (mixed != NULL) {
        fail_meeting(hub, meeting, SYMMCOLL_ERR_INVALID, mixed);
        return;
    }
    meeting->met = true;
    for (int r = 0; r < meeting->size; r++) {
        meeting->ranks[r]->state = CLIENT_SENDING;
        take_brought(meeting->ranks[r], &meeting->brought[r]);
    }
    if (!symc_hub_met(hub, meeting->name))
        note_met(hub, meeting->name);
    if (hub->one_meeting)
        stop_listening(hub);
    if (hub->events.met != NULL)
        announce(hub, meeting);
}

/* Send a client the next batch of ranks, or wait for room. */
static void send_batch(struct symc_hub *hub, struct client *client)
{
    const struct meeting *meeting = client->meeting;
    struct symc_hub_answer answer;
    int fds[SYMC_HUB_BATCH * SYMC_HUB_FDS];
    int nfds = 0, count = meeting->size - client->told, error;

    if (count > SYMC_HUB_BATCH)
        count = SYMC_HUB_BATCH;
    memset(&answer, 0, sizeof(answer));
    answer.magic = SYMC_HUB_MAGIC;
    answer.kind = SYMC_HUB_PEERS;
    answer.first = client->told;
    answer.count = count;
    answer.threads = meeting->threads;
    for (int i = 0; i < count; i++) {
        const struct brought *peer = &meeting->brought[client->told + i];
        struct symc_hub_peer *entry = &answer.peers[i];

        entry->pid = (int32_t)peer->pid;
        entry->nbytes = peer->nbytes;
        entry->address = meeting->threads ? peer->address : 0;
        if (meeting->threads)
            continue;
        entry->nfds = (uint32_t)peer->nfds;
        for (int f = 0; f < peer->nfds; f++)
            fds[nfds++] = peer->fds[f];
    }
    if (hub->flying > 0 && hub->flying + nfds > MAX_FLYING)
        return;
    error = symc_message_send(
        client->fd, &answer, symc_hub_answer_nbytes(count), fds, nfds, false);
    if (error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS)
        return;
    /* Any other error is seen again when the client's hang-up is read. */
    client->told += count;
    client->owes = true;
    client->flying = nfds;
    hub->flying += nfds;
    if (client->told == meeting->size)
        client->state = CLIENT_TOLD;
}

/* One batch to each; the next when it has said thanks.  Who has to wait for
 * room is tried again at the next event, at the latest when somebody says so.
 */
static void send_all(struct symc_hub *hub)
{
    for (struct client *client = hub->clients; client != NULL;
         client = client->next) {
        if (client->state == CLIENT_SENDING && !client->owes)
            send_batch(hub, client);
    }
}

/* ---- what clients say ---- */

static bool hello_is_sane(const struct symc_hub_hello *hello, size_t nbytes)
{
    return nbytes == sizeof(*hello) && hello->magic == SYMC_HUB_MAGIC &&
           hello->kind == SYMC_HUB_HELLO && hello->size > 0 &&
           hello->size <= SYMC_HUB_RANKS && hello->rank >= 0 &&
           hello->rank < hello->size &&
           memchr(hello->name, '\0', sizeof(hello->name)) != NULL;
}

static void join(struct symc_hub *hub, struct client *client)
{
    const struct symc_hub_hello *hello = &client->hello;
    struct meeting *meeting = find_meeting(hub, hello->name);
    char text[256];

    if (meeting == NULL)
        meeting = add_meeting(hub, hello->name, hello->size);
    if (meeting == NULL) {
        refuse(hub, client, SYMMCOLL_ERR_NO_MEMORY, symmcoll_last_error());
        return;
    }
    if (meeting->size != hello->size) {
        snprintf(text, sizeof(text),
            "init: size differs: rank %d says %d ranks, others said %d",
            hello->rank, hello->size, meeting->size);
        refuse(hub, client, SYMMCOLL_ERR_INVALID, text);
        return;
    }
    if (meeting->failure != SYMMCOLL_OK && meeting->informed[hello->rank]) {
        drop_meeting(hub, meeting); /* it has been told, and tries again */
        meeting = add_meeting(hub, hello->name, hello->size);
        if (meeting == NULL) {
            refuse(hub, client, SYMMCOLL_ERR_NO_MEMORY, symmcoll_last_error());
            return;
        }
    } else if (meeting->failure != SYMMCOLL_OK) {
        bool everybody = true;

        meeting->informed[hello->rank] = true;
        for (int r = 0; r < meeting->size; r++)
            everybody = everybody && meeting->informed[r];
        inform(hub, client, meeting->failure, meeting->text);
        if (everybody)
            drop_meeting(hub, meeting);
        return;
    }
    if (meeting->ranks[hello->rank] != NULL) {
        snprintf(text, sizeof(text),
            "init: rank %d has come already, as process %d; process %d says it "
            "is rank %d too",
            hello->rank, (int)meeting->ranks[hello->rank]->pid,
            (int)client->pid, hello->rank);
        refuse(hub, client, SYMMCOLL_ERR_INVALID, text);
        return;
    }
    client->meeting = meeting;
    client->state = CLIENT_JOINED;
    meeting->ranks[hello->rank] = client;
    if (++meeting->joined == meeting->size)
        complete_meeting(hub, meeting);
}

/* A client's deadline has passed: nobody in its meeting need wait longer. */
static void give_up(struct symc_hub *hub, struct client *client)
{
    char missing[128], text[256];

    list_missing(client->meeting, missing, sizeof(missing));
    snprintf(text, sizeof(text), "init: %d of %d ranks came, missing: rank %s",
        client->meeting->joined, client->meeting->size, missing);
    fail_meeting(hub, client->meeting, SYMMCOLL_ERR_TIMEOUT, text);
}

static void finish_client(struct symc_hub *hub, struct client *client)
{
    struct meeting *meeting = client->meeting;

    drop_client(hub, client);
    if (meeting->joined == 0)
        drop_meeting(hub, meeting);
}

/* A batch has arrived. */
static void take_thanks(struct symc_hub *hub, struct client *client)
{
    client->owes = false;
    hub->flying -= client->flying;
    client->flying = 0;
    if (client->state == CLIENT_TOLD)
        finish_client(hub, client);
}

/* A client has gone. */
static void lose(struct symc_hub *hub, struct client *client)
{
    struct meeting *meeting = client->meeting;
    char text[256], how[64];

    if (meeting == NULL) {
        drop_client(hub, client);
        return;
    }
    if (meeting->met) { /* its peers' monitors will see it */
        finish_client(hub, client);
        return;
    }
    if (!symc_life_ask(client->pid,
            client->hello.nfds == 2 ? client->fds[1] : -1, how, sizeof(how)))
        snprintf(how, sizeof(how), "died or gave up");
    snprintf(text, sizeof(text), "init: rank %d (pid %d) %s during init",
        client->hello.rank, (int)client->pid, how);
    meeting->informed[client->hello.rank] = true;
    drop_client(hub, client);
    fail_meeting(hub, meeting, SYMMCOLL_ERR_PEER, text);
}

/* Hear a client; it may be gone afterwards. */
static void hear(struct symc_hub *hub, struct client *client)
{
    struct symc_hub_hello heard;
    size_t nbytes = sizeof(heard);
    int fds[SYMC_HUB_FDS], nfds = SYMC_HUB_FDS;
    int error =
        symc_message_receive(client->fd, &heard, &nbytes, fds, &nfds, false);

    if (error == EAGAIN)
        return;
    if (error == EMFILE && client->state == CLIENT_NEW) {
        close_fds(fds, nfds);
        refuse(hub, client, SYMMCOLL_ERR_SYSTEM,
            "init: the hub has no descriptor left: RLIMIT_NOFILE is too low "
            "for so many ranks");
        return;
    }
    if (error != 0) {
        close_fds(fds, nfds);
        lose(hub, client);
        return;
    }
    if (client->state == CLIENT_NEW && hello_is_sane(&heard, nbytes)) {
        client->hello = heard;
        client->hello.nfds = (uint32_t)nfds;
        memcpy(client->fds, fds, sizeof(fds));
        join(hub, client);
        return;
    }
    close_fds(fds, nfds);
    if (client->state == CLIENT_NEW || nbytes != sizeof(heard) ||
        heard.magic != SYMC_HUB_MAGIC)
        lose(hub, client);
    else if (client->owes && heard.kind == SYMC_HUB_THANKS)
        take_thanks(hub, client);
    else if (client->state == CLIENT_JOINED && heard.kind == SYMC_HUB_GIVE_UP)
        give_up(hub, client);
}

/* Let the client go that has been silent for longest, where more than `most`
 * are; false where there are not so many. */
static bool drop_silent(struct symc_hub *hub, int most)
{
    struct client *oldest = NULL;
    int count = 0;

    for (struct client *at = hub->clients; at != NULL; at = at->next) {
        if (at->state != CLIENT_NEW)
            continue;
        oldest = at; /* the newest is at the head */
        count++;
    }
    if (count <= most)
        return false;
    drop_client(hub, oldest);
    return true;
}

/* Take in a client; false where none came. */
static bool welcome(struct symc_hub *hub)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct client *client;
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
    client = symc_message_peer(fd, &uid, &pid) == 0 && uid == geteuid()
                 ? symc_alloc(1, sizeof(*client))
                 : NULL;
    event.data.ptr = client;
    if (client == NULL ||
        epoll_ctl(hub->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(client);
        close(fd);
        return true;
    }
    client->fd = fd;
    client->pid = pid;
    client->next = hub->clients;
    hub->clients = client;
    drop_silent(hub, MAX_SILENT);
    return true;
}

/* Nobody more can be taken in: the ranks of all meetings wait in vain. */
static symmcoll_status_t fail_full(struct symc_hub *hub, int error)
{
    struct meeting *meeting, *next;
    char where[80];
    symmcoll_status_t status;

    snprintf(where, sizeof(where),
        "init: the hub in process %d cannot take in one more rank",
        (int)getpid());
    status = symc_fail_descriptor(error, where);
    for (meeting = hub->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (!meeting->met && meeting->failure == SYMMCOLL_OK)
            fail_meeting(hub, meeting, status, symmcoll_last_error());
    }
    return status;
}

/* Whether a client that an event named is still there: hearing one may have
 * dropped others. */
static bool is_client(const struct symc_hub *hub, const struct client *client)
{
    const struct client *at = hub->clients;

    while (at != NULL && at != client)
        at = at->next;
    return at != NULL;
}

symmcoll_status_t symc_hub_serve(struct symc_hub *hub)
{
    struct epoll_event events[32];
    int count;

    do {
        count = epoll_wait(hub->epoll, events, 32, 0);
        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;

            if (client == NULL && !welcome(hub) && errno != EAGAIN)
                return fail_full(hub, errno);
            if (client == NULL)
                continue;
            if (is_client(hub, client))
                hear(hub, client);
        }
        send_all(hub);
    } while (count > 0);
    return SYMMCOLL_OK;
}

/* ---- opening and closing ---- */

static symmcoll_status_t fail_in_use(const char *name)
{
    struct sockaddr_un address;
    unsigned length = symc_message_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    uid_t uid = 0;
    pid_t pid = 0;
    bool known = fd >= 0 &&
                 connect(fd, (struct sockaddr *)&address, length) == 0 &&
                 symc_message_peer(fd, &uid, &pid) == 0;

    if (fd >= 0)
        close(fd);
    if (!known)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hub: the name '%s' is in use by another job", name);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "hub: the name '%s' is in use by process %d of user %d: is another job "
        "running with the same MASTER_ADDR and MASTER_PORT, or is rank 0 "
        "there twice?",
        name, (int)pid, (int)uid);
}

static symmcoll_status_t open_listener(const char *name, int *listener)
{
    struct sockaddr_un address;
    unsigned length = symc_message_address(name, &address);
    int fd, error;

    if (length == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hub: expected a name of 1 to %zu bytes, found '%s'",
            sizeof(address.sun_path) - 1, name);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return symc_fail_descriptor(errno, "hub: socket");
    if (bind(fd, (struct sockaddr *)&address, length) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        error = errno;
        close(fd);
        if (error == EADDRINUSE)
            return fail_in_use(name);
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, error, "hub: listening on '%s'", name);
    }
    *listener = fd;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_hub_open(const char *name,
    const struct symc_hub_events *events, struct symc_hub **hub)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct symc_hub *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = open_listener(name, &made->listener);
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

void symc_hub_close(struct symc_hub *hub)
{
    if (hub == NULL)
        return;
    while (hub->clients != NULL)
        drop_client(hub, hub->clients);
    while (hub->meetings != NULL)
        drop_meeting(hub, hub->meetings);
    for (size_t i = 0; i < hub->met_count; i++)
        free(hub->met[i]);
    free(hub->met);
    close(hub->epoll);
    stop_listening(hub);
    free(hub);
}

void symc_hub_close_after_meeting(struct symc_hub *hub)
{
    hub->one_meeting = true;
}

int symc_hub_fd(const struct symc_hub *hub)
{
    return hub->epoll;
}

bool symc_hub_busy(const struct symc_hub *hub)
{
    const struct meeting *at = hub->meetings;

    while (at != NULL && !at->met && at->failure == SYMMCOLL_OK)
        at = at->next;
    return at != NULL;
}

bool symc_hub_met(const struct symc_hub *hub, const char *meeting)
{
    for (size_t i = 0; i < hub->met_count; i++) {
        if (strcmp(hub->met[i], meeting) == 0)
            return true;
    }
    return false;
}

void symc_hub_fail_rank(struct symc_hub *hub, int rank, const char *text)
{
    char line[256];
    struct meeting *meeting, *next;

    snprintf(line, sizeof(line), "init: %s", text);
    for (meeting = hub->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (meeting->met || meeting->failure != SYMMCOLL_OK ||
            rank >= meeting->size)
            continue;
        meeting->informed[rank] = true;
        if (meeting->ranks[rank] != NULL)
            drop_client(hub, meeting->ranks[rank]);
        fail_meeting(hub, meeting, SYMMCOLL_ERR_PEER, line);
    }
}

void symc_hub_missing(
    const struct symc_hub *hub, const char *name, char *buffer, size_t nbytes)
{
    const struct meeting *meeting = find_meeting(hub, name);

    buffer[0] = '\0';
    if (meeting != NULL)
        list_missing(meeting, buffer, nbytes);
}
