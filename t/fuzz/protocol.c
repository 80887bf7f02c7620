/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of tcp stores. The first byte selects the side: the reader of
 * replies, or the server, with two clients. Each piece then begins with a byte
 * that has its length, up to 127, and in the highest bit the client that sends
 * it; a piece of 0 bytes ends the client's connection and begins another.
 */
#include "t/fuzz/fuzz.h"

#include "store/serving.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 2
#define ROUNDS 4 /* of the loop after each piece */

const char fuzz_name[] = "protocol";

/* Takes the next piece; false at the end. */
static bool take_piece(const uint8_t **at, size_t *left, unsigned *client,
    const uint8_t **piece, size_t *nbytes)
{
    if (*left == 0)
        return false;
    *client = **at >> 7;
    *nbytes = **at & 0x7f;
    ++*at;
    --*left;
    if (*nbytes > *left)
        *nbytes = *left;
    *piece = *at;
    *at += *nbytes;
    *left -= *nbytes;
    return true;
}

/* ---- the reader ---- */

static void read_replies(const uint8_t *data, size_t left)
{
    static const struct symc_resp_limits limits = {
        .depth = 3, .items = 4096, .bulk = 65536, .nbytes = 1 << 20};
    struct symc_resp *resp;
    const uint8_t *piece;
    size_t nbytes;
    unsigned client;
    symmcoll_status_t status = symc_resp_create(&limits, &resp);

    while (status == SYMMCOLL_OK &&
           take_piece(&data, &left, &client, &piece, &nbytes)) {
        struct symc_reply *reply = NULL;

        status = symc_resp_feed(resp, piece, nbytes);
        do {
            symc_reply_free(reply);
            reply = NULL;
            if (status == SYMMCOLL_OK)
                status = symc_resp_next(resp, &reply);
        } while (reply != NULL);
        if (status == SYMMCOLL_OK && symc_resp_pending(resp) > 4 << 20)
            abort();
    }
    symc_resp_free(resp);
}

/* ---- the server ---- */

/* Returns our end of a new connection; -1: none. */
static int connect_client(struct symc_server *server)
{
    int ends[2];

    if (socketpair(
            AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        abort();
    symc_client_accept(server, ends[1]);
    return ends[0];
}

/* Runs the server's loop, and reads its replies. */
static void run_loop(struct symc_server *server, const int *fds)
{
    char replies[4096];

    for (int i = 0; i < ROUNDS; i++) {
        event_base_loop(server->base, EVLOOP_NONBLOCK);
        for (int client = 0; client < CLIENTS; client++)
            while (
                recv(fds[client], replies, sizeof(replies), MSG_DONTWAIT) > 0)
                continue;
    }
}

static void serve(const uint8_t *data, size_t left)
{
    struct symc_server *server = calloc(1, sizeof(*server));
    const uint8_t *piece;
    size_t nbytes;
    unsigned client;
    int fds[CLIENTS];

    if (server == NULL || (server->base = event_base_new()) == NULL)
        abort();
    server->max_clients = CLIENTS;
    server->max_memory = 1 << 20;
    memcpy(server->password, "pw", data[0] & 1 ? 3 : 0);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_client(server);
    while (take_piece(&data, &left, &client, &piece, &nbytes)) {
        if (nbytes == 0) {
            close(fds[client]);
            run_loop(server, fds);
            fds[client] = connect_client(server);
        } else if (send(fds[client], piece, nbytes, MSG_NOSIGNAL) >= 0) {
            run_loop(server, fds);
        }
    }
    symc_client_tick(server, symc_now_ns());
    symc_client_close_all(server);
    if (server->nclients != 0 || server->pending != 0)
        abort();
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    symc_map_clear(&server->map);
    event_base_free(server->base);
    free(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < 2)
        return 0;
    if ((data[0] & 1) != 0)
        read_replies(data + 1, nbytes - 1);
    else
        serve(data + 1, nbytes - 1);
    return 0;
}
