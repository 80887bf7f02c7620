/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend of host memory in a module, for tests: its start() only begins an
 * operation, which advance() ends.  Members share no memory: each has a socket
 * to which the others send datagrams, one for each operation.  It has few kinds
 * of operations, of small size, without settings; linked only with the C
 * library.
 */
#include "backend/interface.h"

#include "backend/backend.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RANKS 8
#define ROOM ((size_t)8192) /* bytes of a contribution */
#define DEPTH 4             /* operations that have begun and not ended */
/* A member that has ended an operation has received all members' datagrams of
 * it, so no member is further ahead. */
#define SLOTS (2 * DEPTH)

/* A member's arguments of an operation, and its contribution. */
struct message {
    uint64_t wire;
    int32_t from;
    uint32_t kind, dtype, op, memory;
    int32_t root;
    uint64_t count;
    uint32_t captured;
    uint32_t nbytes;
    double factor;
    char data[ROOM];
};

/* An operation. */
struct slot {
    struct message messages[RANKS]; /* by rank; valid if of its number */
    bool sent[RANKS];
    _Atomic bool given_up;
};

struct fake_host {
    const struct symc_core *core;
    int rank, size;
    int fd;
    struct sockaddr_un names[RANKS];
    socklen_t lengths[RANKS];
    _Atomic int begun; /* operations that have not ended */
    double factors[RANKS];
    bool missing[RANKS];
    struct message received;
    struct slot slots[SLOTS];
};

/* ---- datagrams ---- */

static void name_socket(
    struct fake_host *host, const struct symc_peers *peers, int rank)
{
    const char *port = getenv("MASTER_PORT");
    struct sockaddr_un *name = &host->names[rank];
    int length;

    name->sun_family = AF_UNIX;
    length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
        "symmcoll-fake-host-%s-%d-%s-%d", port != NULL ? port : "",
        peers->threads ? (int)getpid() : 0, host->core->name, rank);
    host->lengths[rank] = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
                                      1 + (size_t)length);
}

static struct slot *slot_of(struct fake_host *host, const struct symc_op *op)
{
    return &host->slots[op->wire % SLOTS];
}

/* Sends an operation's datagram to the members that have room for it and have
 * opened their sockets. */
static void send_to_all(struct fake_host *host, struct slot *slot)
{
    const struct message *mine = &slot->messages[host->rank];
    size_t nbytes = offsetof(struct message, data) + mine->nbytes;

    for (int r = 0; r < host->size; r++) {
        if (!slot->sent[r])
            slot->sent[r] =
                sendto(host->fd, mine, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                    (struct sockaddr *)&host->names[r],
                    host->lengths[r]) == (ssize_t)nbytes;
    }
}

static void receive_all(struct fake_host *host)
{
    struct message *found = &host->received;

    while (recv(host->fd, found, sizeof(*found), MSG_DONTWAIT) > 0)
        memcpy(&host->slots[found->wire % SLOTS].messages[found->from], found,
            offsetof(struct message, data) + found->nbytes);
}

/* Returns a member that an operation still needs, or -1. */
static int find_missing(struct fake_host *host, const struct symc_op *op)
{
    struct slot *slot = slot_of(host, op);

    send_to_all(host, slot);
    receive_all(host);
    for (int r = 0; r < host->size; r++) {
        if (!slot->sent[r] || slot->messages[r].wire != op->wire)
            return r;
    }
    return -1;
}

/* ---- operations ---- */

/* Returns the bytes that this member contributes. */
static size_t contribution(
    const struct fake_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &host->core->kinds[op->kind];
    bool contributes =
        (info->traits & SYMC_FROM_ROOT) == 0 || op->root == host->rank;

    return contributes && op->memory == SYMC_MEMORY_HOST &&
                   info->in_parts == SYMC_ONE_PART
               ? op->count * op->elem
               : 0;
}

static bool has(const struct fake_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &host->core->kinds[op->kind];
    bool reduces = (info->traits & SYMC_REDUCES) != 0;

    return (info->traits & (SYMC_TRAITS_APART | SYMC_PAIR)) == 0 &&
           !op->listed &&
           (op->memory != SYMC_MEMORY_HOST ||
               (info->in_parts != SYMC_ALL_PARTS &&
                   op->count * op->elem <= ROOM &&
                   (!reduces || op->dtype == SYMMCOLL_FLOAT32)));
}

static void begin(struct fake_host *host, const struct symc_op *op)
{
    struct slot *slot = slot_of(host, op);
    struct message *mine = &slot->messages[host->rank];

    *mine = (struct message){.wire = op->wire,
        .from = host->rank,
        .kind = (uint32_t)op->kind,
        .dtype = (uint32_t)op->dtype,
        .op = (uint32_t)op->op,
        .memory = op->memory,
        .root = op->root,
        .count = op->count,
        .captured = op->captured,
        .nbytes = (uint32_t)contribution(host, op),
        .factor = op->op == SYMMCOLL_PREMUL_SUM ? op->factor : 0};
    if (mine->nbytes > 0)
        memcpy(mine->data, op->in, mine->nbytes);
    memset(slot->sent, 0, sizeof(slot->sent));
    slot->sent[host->rank] = true;
    atomic_store(&slot->given_up, false);
    atomic_fetch_add(&host->begun, 1);
    send_to_all(host, slot);
    host->core->record(host->core->group, op);
}

static symmcoll_status_t start(void *state, const struct symc_op *op)
{
    struct fake_host *host = state;

    if (!has(host, op))
        return host->core->fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: fake_host has small operations of few kinds",
            host->core->kinds[op->kind].name);
    begin(host, op);
    return SYMMCOLL_IN_PROGRESS;
}

static bool issue(void *state, const struct symc_op *op)
{
    struct fake_host *host = state;

    if (!has(host, op) || atomic_load(&host->begun) == DEPTH)
        return false;
    begin(host, op);
    return true;
}

static void keep_agreed(struct fake_host *host, const struct symc_op *op)
{
    const struct message *messages = slot_of(host, op)->messages;
    struct symc_agreed *agreed = host->core->agreed;

    *agreed =
        (struct symc_agreed){.factors = host->factors, .largest = op->count};
    for (int r = 0; r < host->size; r++) {
        host->factors[r] = messages[r].factor;
        agreed->captured |= messages[r].captured != 0;
    }
}

static void write_result(struct fake_host *host, const struct symc_op *op)
{
    const struct symc_kind_info *info = &host->core->kinds[op->kind];
    const struct message *messages = slot_of(host, op)->messages;
    size_t nbytes = op->count * op->elem;
    float *sums = op->out;

    if (nbytes == 0 || info->out_parts == SYMC_NO_PART ||
        ((info->traits & SYMC_TO_ROOT) != 0 && op->root != host->rank))
        return;
    if ((info->traits & SYMC_FROM_ROOT) != 0) {
        memcpy(op->out, messages[op->root].data, nbytes);
        return;
    }
    if ((info->traits & SYMC_REDUCES) != 0)
        memset(op->out, 0, nbytes);
    for (int r = 0; r < host->size; r++) {
        const float *floats = (const float *)(const void *)messages[r].data;

        if ((info->traits & SYMC_REDUCES) == 0)
            memcpy((char *)op->out + (size_t)r * nbytes, floats, nbytes);
        for (size_t i = 0; i < op->count && (info->traits & SYMC_REDUCES) != 0;
             i++)
            sums[i] += floats[i];
    }
}

/* Compares all members with the first; all find the same. */
static symmcoll_status_t end(struct fake_host *host, const struct symc_op *op)
{
    const struct message *messages = slot_of(host, op)->messages;
    const struct message *first = &messages[0];

    for (int r = 1; r < host->size; r++) {
        const struct message *other = &messages[r];

        if (other->kind != first->kind || other->dtype != first->dtype ||
            other->op != first->op || other->memory != first->memory ||
            other->root != first->root || other->count != first->count)
            return host->core->fail(SYMMCOLL_ERR_MISMATCH,
                "%s: fake_host: rank %d differs from rank 0",
                host->core->kinds[op->kind].name, r);
    }
    if (op->memory == SYMC_MEMORY_HOST)
        write_result(host, op);
    else
        keep_agreed(host, op);
    return SYMMCOLL_OK;
}

/* Returns the status of an operation that needs a member, OK if that has
 * arrived by now. */
static symmcoll_status_t consider(struct fake_host *host,
    const struct symc_op *op, int missing, enum symc_advance how)
{
    const struct symc_core *core = host->core;
    struct slot *slot = slot_of(host, op);

    if (atomic_load(core->stopped) != 0 ||
        (how != SYMC_ADVANCE_PEEK && core->failed(core->group, missing)))
        /* its last datagram may have come before that */
        return find_missing(host, op) < 0
                   ? SYMMCOLL_OK
                   : core->failure(core->group, op, missing);
    if (how != SYMC_ADVANCE_EXPIRED)
        return SYMMCOLL_IN_PROGRESS;
    for (int r = 0; r < host->size; r++)
        host->missing[r] = slot->messages[r].wire != op->wire;
    host->missing[missing] = true;
    return core->expire(core->group, op, host->missing, NULL);
}

static symmcoll_status_t advance(
    void *state, const struct symc_op *op, enum symc_advance how)
{
    struct fake_host *host = state;
    const struct symc_core *core = host->core;
    int missing = find_missing(host, op);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (atomic_load(&slot_of(host, op)->given_up) &&
        core->failed(core->group, -1))
        status = core->failure(core->group, op, -1);
    else if (missing >= 0)
        status = consider(host, op, missing, how);
    if (status == SYMMCOLL_OK)
        status = end(host, op);
    if (status != SYMMCOLL_IN_PROGRESS)
        atomic_fetch_sub(&host->begun, 1);
    return status;
}

static void give_up(void *state, const struct symc_op *op)
{
    atomic_store(&slot_of(state, op)->given_up, true);
}

/* Waits for a datagram, a moment at most: a member may have room now. */
static void await_progress(
    void *state, const struct symc_op *op, struct symc_wait_budget *budget)
{
    struct fake_host *host = state;
    struct pollfd polled = {.fd = host->fd, .events = POLLIN};

    (void)op;
    (void)budget;
    (void)poll(&polled, 1, 1);
}

/* Knows only this member's. */
static bool is_settled(void *state, uint64_t *until)
{
    struct fake_host *host = state;

    (void)until;
    return atomic_load(&host->begun) == 0;
}

/* ---- opening ---- */

static symmcoll_status_t probe(const struct symc_peers *peers)
{
    return peers->size > 1 && peers->size <= RANKS ? SYMMCOLL_OK
                                                   : SYMMCOLL_ERR_UNSUPPORTED;
}

static void close_host(void *state)
{
    struct fake_host *host = state;

    close(host->fd);
    free(host);
}

static symmcoll_status_t open_host(
    const struct symc_core *core, const struct symc_peers *peers, void **state)
{
    struct fake_host *host = calloc(1, sizeof(*host));
    int nbytes = SLOTS * (int)sizeof(struct message) * RANKS;

    if (host == NULL)
        return core->fail(SYMMCOLL_ERR_NO_MEMORY, "fake_host: state");
    host->core = core;
    host->rank = peers->rank;
    host->size = peers->size;
    for (int r = 0; r < peers->size; r++)
        name_socket(host, peers, r);
    host->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (host->fd < 0 ||
        setsockopt(host->fd, SOL_SOCKET, SO_SNDBUF, &nbytes, sizeof(nbytes)) !=
            0 ||
        bind(host->fd, (struct sockaddr *)&host->names[host->rank],
            host->lengths[host->rank]) != 0) {
        if (host->fd >= 0)
            close(host->fd);
        free(host);
        return core->fail(SYMMCOLL_ERR_SYSTEM, "fake_host: no socket");
    }
    *state = host;
    return SYMMCOLL_OK;
}

static const struct symc_host_ops operations = {.start = start,
    .issue = issue,
    .advance = advance,
    .give_up = give_up,
    .await_progress = await_progress,
    .settled = is_settled};

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {
    .interface = SYMC_BACKEND_INTERFACE,
    .name = "fake_host",
    .priority = 20,
    .memory = SYMC_MEMORY_HOST,
    .probe = probe,
    .open = open_host,
    .close = close_host,
    .host = &operations};
