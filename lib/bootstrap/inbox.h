/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inboxes: how ranks of one machine send each other descriptors once they have
 * joined.  Each rank has a socket without a name, whose other end it has passed
 * to its peers when it joined; so no server is needed any more and no name is
 * bound, and who is not of the world cannot take part.
 */
#ifndef SYMC_BOOTSTRAP_INBOX_H
#define SYMC_BOOTSTRAP_INBOX_H

#include "base/base.h"
#include "segment/peer.h"

#include <pthread.h>

#define SYMC_BOOTSTRAP_GROUP_NAME \
    32 /* bytes of a group's name, zero included */

struct symc_bootstrap_parcel;

struct symc_bootstrap_inbox {
    int fd; /* -1: none */
    pthread_mutex_t lock;
    struct symc_bootstrap_parcel
        *kept; /* what has arrived for other exchanges */
};

/* Make one; *way (out) is the end for the peers.  Errors: SYSTEM. */
symmcoll_status_t symc_bootstrap_inbox_open(
    struct symc_bootstrap_inbox *inbox, int *way);
/* No inbox: where there is no peer. */
void symc_bootstrap_inbox_open_none(struct symc_bootstrap_inbox *inbox);
void symc_bootstrap_inbox_close(struct symc_bootstrap_inbox *inbox);

/* One exchange among the members of a group. */
struct symc_bootstrap_inbox_exchange {
    const char *group; /* within the world; the same on all members */
    uint32_t number;   /* of the group's exchanges; likewise */
    int rank;
    int size;
    const int *global;             /* the members' ranks in the world */
    const struct symc_peer *peers; /* of the world */
    int64_t deadline_ns;
    /* Asked now and then, with whose parcels have arrived: a member whose own
     * has not and will not, unless it is on its way; this rank itself where
     * nobody is to be waited for; -1: all may still arrive. */
    int (*find_gone)(void *arg, const bool *arrived);
    void *arg;
    bool *deserted; /* out: it has failed, and a member waits for this rank */
};

/*
 * Send every member a descriptor, and receive everybody's.
 *
 * fd   borrowed; -1 sends none
 * fds  out, an array of size, owned by the caller: each a descriptor of its
 *      own, also of this rank's and between threads; -1: none was sent
 *
 * Any thread may call it, for several exchanges at once.
 *
 * Errors: TIMEOUT (who is missing), ABORTED (find_gone()), NO_MEMORY, SYSTEM (a
 * descriptor could not be sent or received; who could not send its own).
 */
symmcoll_status_t symc_bootstrap_inbox_exchange(
    struct symc_bootstrap_inbox *inbox,
    const struct symc_bootstrap_inbox_exchange *exchange, int fd, int *fds);

#endif
