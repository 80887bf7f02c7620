/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inboxes, by which the ranks of one machine send each other descriptors after
 * they have joined. Each rank has an unnamed socket, and its peers have
 * received the other end when it joined. So no server is needed, no name is
 * bound, and no process outside of the world can take part.
 */
#ifndef SYMC_BOOTSTRAP_INBOX_H
#define SYMC_BOOTSTRAP_INBOX_H

#include "base/base.h"
#include "segment/peer.h"

#include <pthread.h>

/* bytes of a group's name with its zero */
#define SYMC_BOOTSTRAP_GROUP_NAME 32

struct symc_bootstrap_parcel;

struct symc_bootstrap_inbox {
    int fd; /* -1: none */
    pthread_mutex_t lock;
    /* parcels that have arrived for other exchanges */
    struct symc_bootstrap_parcel *kept;
};

/* Creates an inbox; *way (out) is the sending end for the peers. Errors:
 * SYSTEM. */
symmcoll_status_t symc_bootstrap_inbox_open(
    struct symc_bootstrap_inbox *inbox, int *way);
/* Initialises an inbox for a rank without peers. */
void symc_bootstrap_inbox_open_none(struct symc_bootstrap_inbox *inbox);
void symc_bootstrap_inbox_close(struct symc_bootstrap_inbox *inbox);

/* One exchange between the members of a group. */
struct symc_bootstrap_inbox_exchange {
    const char *group; /* unique in the world; the same on all members */
    uint32_t number;   /* of the group's exchanges; the same on all members */
    int rank;
    int size;
    const int *global;             /* the members' ranks in the world */
    const struct symc_peer *peers; /* of the world */
    int64_t deadline_ns;
    /* Called repeatedly; arrived[r]: the parcel of rank r is here. Returns a
     * member that has left, so that its parcel will not arrive unless it is in
     * transit; this rank if it need not wait any more; -1 if all parcels may
     * still arrive. */
    int (*find_gone)(void *arg, const bool *arrived);
    void *arg;
    /* out: the exchange has failed before this rank sent to all members */
    bool *deserted;
};

/*
 * Sends a descriptor to every member, and receives one from each.
 *
 * fd   borrowed; -1 sends none
 * fds  out, an array of size, owned by the caller: each entry is a descriptor of
 *      its own, including this rank's and between threads; -1: none was sent
 *
 * After an error the caller owns no descriptor: the entries of fds are -1, or
 * unchanged.  exchange->deserted is stored in any case.
 *
 * Any thread may call it, for several exchanges at once.
 *
 * Errors: TIMEOUT (names the missing ranks), ABORTED (find_gone()), NO_MEMORY,
 * SYSTEM (a descriptor could not be sent or received; names the rank that could
 * not send its own).
 */
symmcoll_status_t symc_bootstrap_inbox_exchange(
    struct symc_bootstrap_inbox *inbox,
    const struct symc_bootstrap_inbox_exchange *exchange, int fd, int *fds);

#endif
