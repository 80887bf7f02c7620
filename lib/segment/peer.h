/* SPDX-License-Identifier: BSD-3-Clause */
/* Another rank of the world, as this rank sees it. */
#ifndef SYMC_SEGMENT_PEER_H
#define SYMC_SEGMENT_PEER_H

#include "segment/block.h"

/* The state that a rank keeps of a peer after the rendezvous. */
struct symc_peer {
    struct symc_block_view view;
    pid_t pid;
    int pidfd;          /* -1: no kernel support, or the same process */
    ino_t pidfd_inode;  /* see symc_liveness_is_pidfd() */
    bool mine;          /* mapped by this rank, not borrowed from a thread */
    _Atomic bool ended; /* see symc_liveness_set_ended() */
    int inbox; /* socket to the peer's inbox, see bootstrap/inbox.h; -1: none */
};

#endif
