/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending to the inboxes of peers, and sorting what arrives in this rank's.
 */
#include "bootstrap/inbox.h"
#include "base/descriptor.h"

#include "bootstrap/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3130584f42435953) /* "SYCBOX01" */
/* another thread may have received this exchange's parcels */
#define POLL_MS 10
#define KEPT_MAX 8192

/* A message, with or without a descriptor. */
struct parcel_message {
    uint64_t magic;
    char group[SYMC_BOOTSTRAP_GROUP_NAME];
    uint32_t number;
    int32_t rank; /* rank of the sender in the group */
    /* errno of a sender that could not send its descriptor; 0: none */
    int32_t error;
    uint32_t zeros; /* padding */
};

/* A parcel that has arrived and has not been taken by an exchange. */
struct symc_bootstrap_parcel {
    struct symc_bootstrap_parcel *next;
    struct parcel_message message;
    int fd;
    bool lost; /* its descriptor was lost for lack of space */
};

/* An exchange in progress. */
struct state {
    const struct symc_bootstrap_inbox_exchange *exchange;
    int fd; /* to send; -1: none */
    /* errno that keeps this rank from sending its descriptor; 0: none */
    int error;
    int *fds;
    bool *sent;
    bool *arrived;
    bool lost;
    int refusing; /* a rank with such an error; -1: none */
    int refused;  /* the error of that rank */
    int unsent;
    int missing;
};

symmcoll_status_t symc_bootstrap_inbox_open(
    struct symc_bootstrap_inbox *inbox, int *way)
{
    int ends[2], error;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
            ends) != 0)
        return symc_fail_descriptor(errno, "init: inbox");
    error = symc_descriptor_raise_all(ends, 2);
    if (error != 0)
        return symc_fail_descriptor(error, "init: inbox");
    symc_bootstrap_inbox_open_none(inbox);
    inbox->fd = ends[0];
    *way = ends[1];
    return SYMMCOLL_OK;
}

void symc_bootstrap_inbox_open_none(struct symc_bootstrap_inbox *inbox)
{
    *inbox = (struct symc_bootstrap_inbox){.fd = -1};
    pthread_mutex_init(&inbox->lock, NULL);
}

static void free_parcel(struct symc_bootstrap_parcel *parcel)
{
    if (parcel->fd >= 0)
        close(parcel->fd);
    free(parcel);
}

void symc_bootstrap_inbox_close(struct symc_bootstrap_inbox *inbox)
{
    while (inbox->kept != NULL) {
        struct symc_bootstrap_parcel *first = inbox->kept;

        inbox->kept = first->next;
        free_parcel(first);
    }
    if (inbox->fd >= 0)
        close(inbox->fd);
    pthread_mutex_destroy(&inbox->lock);
}

/* ---- sending ---- */

/* Sends a parcel; 0, EAGAIN to try again, or an errno. If the descriptor cannot
 * be sent, the parcel carries the error instead, since the others wait for this
 * rank. */
static int send_parcel(struct state *state, int rank)
{
    const struct symc_bootstrap_inbox_exchange *exchange = state->exchange;
    int way = exchange->peers[exchange->global[rank]].inbox;

    for (;;) {
        struct parcel_message message = {.magic = MAGIC,
            .number = exchange->number,
            .rank = exchange->rank,
            .error = state->error};
        int error;

        snprintf(message.group, sizeof(message.group), "%s", exchange->group);
        error = symc_bootstrap_message_send(
            way, &message, sizeof(message), &state->fd, state->fd >= 0 ? 1 : 0);
        if (error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS)
            return EAGAIN;
        /* The liveness word of a peer that has left shows that. */
        if (error == 0 || error == EPIPE || error == ECONNRESET ||
            error == ECONNREFUSED)
            return 0;
        if (state->fd < 0)
            return error;
        state->error = error;
        state->fd = -1;
    }
}

/* Sends the parcels that have not been sent, as far as the sockets have
 * space. */
static symmcoll_status_t send_parcels(struct state *state)
{
    for (int r = 0; r < state->exchange->size; r++) {
        int error;

        if (state->sent[r])
            continue;
        error = send_parcel(state, r);
        if (error == EAGAIN)
            continue;
        if (error != 0)
            return symc_fail_errno(
                SYMMCOLL_ERR_SYSTEM, error, "exchange: sending to rank %d", r);
        state->sent[r] = true;
        state->unsent--;
    }
    return SYMMCOLL_OK;
}

/* ---- receiving ---- */

/* Returns whether a parcel belongs to the exchange, and is the first of its
 * sender. */
static bool belongs(
    const struct state *state, const struct parcel_message *message)
{
    return message->number == state->exchange->number &&
           strcmp(message->group, state->exchange->group) == 0 &&
           message->rank >= 0 && message->rank < state->exchange->size &&
           !state->arrived[message->rank];
}

/* Receives one parcel and keeps it. False: none left, or, with an errno in
 * *failed, the inbox is unusable. */
static bool receive_one(struct symc_bootstrap_inbox *inbox, int *failed)
{
    struct symc_bootstrap_parcel *made = symc_alloc(1, sizeof(*made));
    struct symc_bootstrap_parcel **last = &inbox->kept;
    size_t nbytes = sizeof(made->message);
    int nfds = 1, error, count = 0;

    if (made == NULL)
        return false; /* it stays in the socket */
    made->fd = -1;
    error = symc_bootstrap_message_receive(
        inbox->fd, &made->message, &nbytes, &made->fd, &nfds);
    while (*last != NULL) {
        last = &(*last)->next;
        count++;
    }
    made->lost = error == EMFILE;
    if ((error != 0 && error != EMFILE) || nbytes != sizeof(made->message) ||
        made->message.magic != MAGIC || count >= KEPT_MAX ||
        memchr(made->message.group, '\0', SYMC_BOOTSTRAP_GROUP_NAME) == NULL)
        free_parcel(made);
    else
        *last = made;
    if (error == EBADF || error == ENOTSOCK)
        *failed = error;
    return error == 0 || error == EMFILE || error == EMSGSIZE;
}

/* Moves the parcels of an exchange from the inbox to its state. */
static void take_parcels(
    struct symc_bootstrap_inbox *inbox, struct state *state)
{
    struct symc_bootstrap_parcel **at = &inbox->kept;

    while (*at != NULL) {
        struct symc_bootstrap_parcel *parcel = *at;

        if (!belongs(state, &parcel->message)) {
            at = &parcel->next;
            continue;
        }
        *at = parcel->next;
        state->fds[parcel->message.rank] = parcel->fd;
        state->arrived[parcel->message.rank] = true;
        state->missing--;
        state->lost = state->lost || parcel->lost;
        if (parcel->message.error != 0) {
            state->refusing = parcel->message.rank;
            state->refused = parcel->message.error;
        }
        parcel->fd = -1;
        free_parcel(parcel);
    }
}

/* Receives what has arrived, and takes the parcels of this exchange. */
static symmcoll_status_t receive_parcels(
    struct symc_bootstrap_inbox *inbox, struct state *state)
{
    int failed = 0;

    pthread_mutex_lock(&inbox->lock);
    while (receive_one(inbox, &failed))
        ;
    take_parcels(inbox, state);
    pthread_mutex_unlock(&inbox->lock);
    return failed == 0 || state->missing == 0
               ? SYMMCOLL_OK
               : symc_fail_errno(SYMMCOLL_ERR_SYSTEM, failed,
                     "exchange: this rank's inbox");
}

/* ---- the exchange ---- */

static symmcoll_status_t fail_late(const struct state *state)
{
    const struct symc_bootstrap_inbox_exchange *exchange = state->exchange;
    char ranks[100];
    bool *missing = symc_alloc((size_t)exchange->size, sizeof(bool));

    if (missing == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int r = 0; r < exchange->size; r++)
        missing[r] = !state->arrived[r] || !state->sent[r];
    symc_format_named_ranks(missing, exchange->size, ranks, sizeof(ranks));
    free(missing);
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "exchange of descriptors %u of group %s: timeout: %s did not arrive",
        exchange->number, exchange->group, ranks);
}

/* Returns the status of an exchange in which all have sent and received. */
static symmcoll_status_t end_exchange(const struct state *state)
{
    if (state->error != 0)
        return symc_fail_descriptor(state->error, "exchange");
    if (state->lost)
        return symc_fail_descriptor(EMFILE, "exchange");
    if (state->refusing >= 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, state->refused,
            "exchange of descriptors %u of group %s: rank %d could not send "
            "its descriptor",
            state->exchange->number, state->exchange->group, state->refusing);
    return SYMMCOLL_OK;
}

static symmcoll_status_t run_exchange(
    struct symc_bootstrap_inbox *inbox, struct state *state)
{
    const struct symc_bootstrap_inbox_exchange *exchange = state->exchange;
    struct pollfd polled = {.fd = inbox->fd, .events = POLLIN};

    while (state->missing > 0 || state->unsent > 0) {
        /* Before the last receive: all may have sent, and some of them left
         * since. */
        int gone = exchange->find_gone(exchange->arg, state->arrived);
        symmcoll_status_t status = SYMMCOLL_OK;

        if (gone < 0)
            status = send_parcels(state);
        if (status == SYMMCOLL_OK)
            status = receive_parcels(inbox, state);
        if (status != SYMMCOLL_OK)
            return status;
        if (state->missing == 0 && state->unsent == 0)
            break;
        if (gone == exchange->rank || (gone >= 0 && !state->arrived[gone]))
            return symc_fail(SYMMCOLL_ERR_ABORTED,
                "exchange of descriptors %u of group %s: rank %d has ended its "
                "wait for the others",
                exchange->number, exchange->group, exchange->rank);
        if (symc_now_ns() >= exchange->deadline_ns)
            return fail_late(state);
        poll(&polled, 1, POLL_MS);
    }
    return end_exchange(state);
}

/* Duplicates this rank's own descriptor, which is not sent, and marks it as
 * arrived. */
static void begin_exchange(struct state *state)
{
    const struct symc_bootstrap_inbox_exchange *exchange = state->exchange;

    for (int r = 0; r < exchange->size; r++)
        state->fds[r] = -1;
    if (state->fd >= 0) {
        state->fds[exchange->rank] =
            fcntl(state->fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
        if (state->fds[exchange->rank] < 0) {
            state->error = errno;
            state->fd = -1;
        }
    }
    state->sent[exchange->rank] = true;
    state->arrived[exchange->rank] = true;
    state->missing = exchange->size - 1;
}

symmcoll_status_t symc_bootstrap_inbox_exchange(
    struct symc_bootstrap_inbox *inbox,
    const struct symc_bootstrap_inbox_exchange *exchange, int fd, int *fds)
{
    struct state state = {.exchange = exchange,
        .fd = fd,
        .fds = fds,
        .refusing = -1,
        .unsent = exchange->size - 1};
    size_t size = (size_t)exchange->size;
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    state.sent = symc_alloc(size, sizeof(bool));
    state.arrived = symc_alloc(size, sizeof(bool));
    if (state.sent != NULL && state.arrived != NULL) {
        begin_exchange(&state);
        status = run_exchange(inbox, &state);
        for (size_t r = 0; status != SYMMCOLL_OK && r < size; r++) {
            if (fds[r] >= 0)
                close(fds[r]);
            fds[r] = -1;
        }
    }
    *exchange->deserted = status != SYMMCOLL_OK && state.unsent > 0;
    free(state.sent);
    free(state.arrived);
    return status;
}
