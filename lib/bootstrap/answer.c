/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending all offers to all ranks of a complete rendezvous.
 */
#include "bootstrap/server.h"

#include <errno.h>
#include <string.h>

#define MAX_IN_FLIGHT 400 /* most descriptors in flight */

/* Sends a client the next batch of ranks, unless too many descriptors are in
 * flight. */
static void send_batch(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    const struct symc_bootstrap_rendezvous *rendezvous = client->rendezvous;
    struct symc_bootstrap_answer answer;
    int fds[SYMC_BOOTSTRAP_BATCH * SYMC_BOOTSTRAP_FDS];
    int nfds = 0, count = rendezvous->size - client->sent, error;

    if (count > SYMC_BOOTSTRAP_BATCH)
        count = SYMC_BOOTSTRAP_BATCH;
    memset(&answer, 0, sizeof(answer));
    answer.magic = SYMC_BOOTSTRAP_MAGIC;
    answer.kind = SYMC_BOOTSTRAP_PEERS;
    answer.first = client->sent;
    answer.count = count;
    answer.threads = rendezvous->threads;
    for (int i = 0; i < count; i++) {
        const struct symc_bootstrap_held_offer *peer =
            &rendezvous->offers[client->sent + i];
        struct symc_bootstrap_peer *entry = &answer.peers[i];

        entry->pid = (int32_t)peer->pid;
        entry->nbytes = peer->nbytes;
        entry->least = peer->least;
        entry->address = rendezvous->threads ? peer->address : 0;
        entry->inbox = rendezvous->threads ? peer->inbox : -1;
        if (rendezvous->threads)
            continue;
        entry->nfds = (uint32_t)peer->nfds;
        for (int f = 0; f < peer->nfds; f++)
            fds[nfds++] = peer->fds[f];
    }
    if (server->in_flight > 0 && server->in_flight + nfds > MAX_IN_FLIGHT)
        return;
    error = symc_bootstrap_message_send(
        client->fd, &answer, symc_bootstrap_answer_nbytes(count), fds, nfds);
    if (error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS)
        return;
    /* The end of the connection, which is read next, reports any other error
     * again. */
    client->sent += count;
    client->unacknowledged = true;
    client->in_flight = nfds;
    server->in_flight += nfds;
    if (client->sent == rendezvous->size)
        client->state = SYMC_BOOTSTRAP_CLIENT_SENT;
}

/* Sends one batch to each client; the next one follows its acknowledgement. A
 * client that cannot be served now is served at a later event, at the latest
 * when another client acknowledges. */
void symc_bootstrap_send_all(struct symc_bootstrap_server *server)
{
    for (struct symc_bootstrap_client *client = server->clients; client != NULL;
         client = client->next) {
        if (client->state == SYMC_BOOTSTRAP_CLIENT_SENDING &&
            !client->unacknowledged)
            send_batch(server, client);
    }
}
