/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Liveness words: a robust futex that the rank's monitor thread owns while it
 * runs.  When the process dies, the kernel marks the word, long before it tears
 * down a large address space; every rank that maps the block reads the mark
 * with one load.
 *
 * The monitor thread registers its own robust list with the kernel, which
 * replaces the C library's for that thread: it must not lock robust mutexes.
 */
#ifndef SYMC_SEGMENT_LIVENESS_H
#define SYMC_SEGMENT_LIVENESS_H

#include "base/base.h"
#include "segment/peer.h"

#include <linux/futex.h>
#include <poll.h>

struct symc_liveness {
    struct robust_list_head head;
    struct robust_list entry;
    struct symc_block *block;
};

/* Acquires a block's word for the calling thread, which will own it.  Errors:
 * SYSTEM. */
symmcoll_status_t symc_liveness_acquire(
    struct symc_liveness *liveness, struct symc_block *block);

/* Releases the word on the thread that acquired it. orderly: the rank has
 * finalized; otherwise its init failed after the rendezvous. */
void symc_liveness_release(struct symc_liveness *liveness, bool orderly);

/* Marks the rank as failed in init, if no monitor thread has acquired the
 * word. */
void symc_liveness_give_up(_Atomic uint32_t *word);

enum symc_liveness_state {
    SYMC_LIVENESS_ALIVE,
    SYMC_LIVENESS_DEAD,
    SYMC_LIVENESS_LEFT /* orderly shutdown, or exit status 0 without one */
};

/* Returns whether a block's rank has shut down in an orderly way.  Two words
 * have to agree, so that a stray store is not taken for a shutdown. */
bool symc_liveness_has_left(const struct symc_block *block);

/*
 * symc_liveness_pidfd_inode() returns the inode of a pidfd, or 0.
 * symc_liveness_is_pidfd() checks that a descriptor still is the pidfd with
 * that inode.  A program that closes descriptors it did not open may have
 * reused the number for another file, which may be readable, as the pidfd of an
 * ended process is.
 */
ino_t symc_liveness_pidfd_inode(int pidfd);
bool symc_liveness_is_pidfd(int pidfd, ino_t inode);

/* Returns a peer's state, from its liveness word, or from its pidfd if the word
 * holds no thread id.  A peer marked by symc_liveness_set_ended() has left; a
 * peer on another machine counts as alive. */
enum symc_liveness_state symc_liveness_state(const struct symc_peer *peer);

/* Finds the peers that have ended, from their pidfds, with one poll().  A peer
 * that has ended and has not left is dead, even if a stray store hit its word,
 * which the kernel then does not mark. polled has room for size entries. */
void symc_liveness_find_ended(const struct symc_peer *peers, int size,
    struct pollfd *polled, bool *ended);

/* Stores a rank's exit status, as from waitpid(), in the block for its peers;
 * loads it, or returns false if there is none. */
void symc_liveness_put_exit(struct symc_exit *end, int status);
bool symc_liveness_find_exit(const struct symc_exit *end, int *status);

/*
 * Returns whether the process of a dead peer has exited with status 0.  This is
 * known before the process's memory is torn down, once any other status would be
 * known.
 */
bool symc_liveness_has_exited_0(const struct symc_peer *peer);

/* Marks a peer with an ended process as one that has left.  Called by the
 * monitor thread. */
void symc_liveness_set_ended(struct symc_peer *peer);

/* Returns how a peer has left, as text that follows "has": "finalized" or "ended
 * without symmcoll_finalize". */
const char *symc_liveness_name_left(const struct symc_peer *peer);

/* Returns whether a failure's text says that a rank has left in one of these ways. */
bool symc_liveness_is_left_in(const char *text);

/* Formats how a dead peer ended: "killed by SIGKILL", "exited with status 1
 * without finalize", "gave up during init", "died", "died on another machine".
 * Returns false for the last two: the exit status is not known yet. */
bool symc_liveness_format_end(
    const struct symc_peer *peer, char *buffer, size_t nbytes);

/* Formats how a process ended, like symc_liveness_format_exit(), if the kernel
 * still has its exit status; otherwise returns false. pidfd is the process's,
 * or -1. */
bool symc_liveness_format_status(
    pid_t pid, int pidfd, char *buffer, size_t nbytes);

/* Formats "killed by SIGKILL" or "exited with status 3". */
void symc_liveness_format_exit(int code, int sig, char *buffer, size_t nbytes);

#endif
