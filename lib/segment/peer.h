/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank knows of another one of its world.
 */
#ifndef SYMC_SEGMENT_PEER_H
#define SYMC_SEGMENT_PEER_H

#include "segment/block.h"

/* A rank as others know it after the rendezvous. */
struct symc_peer {
    struct symc_block_view view;
    pid_t pid;
    int pidfd; /* -1: the kernel has none, or the peer is this process */
    ino_t pidfd_inode; /* see symc_liveness_is_pidfd() */
    bool mine;         /* mapped by this rank, not borrowed from a thread */
    int inbox; /* leads to the peer's, see bootstrap/inbox.h; -1: none */
};

#endif
