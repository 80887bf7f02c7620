/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Liveness words: a robust futex that the rank's monitor thread owns as long as
 * it runs.  When the process dies, the kernel marks it, long before a large
 * memory is torn down; whoever maps the block reads that with one load.
 *
 * The monitor thread registers a robust list of its own with the kernel, which
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

/* Take a block's word, on the thread that will own it.  Errors: SYSTEM. */
symmcoll_status_t symc_liveness_acquire(
    struct symc_liveness *liveness, struct symc_block *block);

/* Release it on the same thread; orderly: the rank has finalized, otherwise it
 * has given up. */
void symc_liveness_release(struct symc_liveness *liveness, bool orderly);

/* Mark the rank as given up before a monitor has acquired the word. */
void symc_liveness_give_up(_Atomic uint32_t *word);

enum symc_liveness_state {
    SYMC_LIVENESS_ALIVE,
    SYMC_LIVENESS_DEAD,
    SYMC_LIVENESS_LEFT /* orderly shutdown */
};

/* Whether a block's rank has said orderly shutdown.  It takes two words, so
 * that what a stray store leaves is not taken for one. */
bool symc_liveness_has_left(const struct symc_block *block);

/*
 * Whether a descriptor still is the pidfd that it was when its inode was asked
 * for.  A program that closes what it does not know may by now have something
 * else under its number, which may well be readable, as the pidfd of a process
 * that has ended is.
 */
ino_t symc_liveness_pidfd_inode(int pidfd);
bool symc_liveness_is_pidfd(int pidfd, ino_t inode);

/* How a peer is.  Where its word holds no thread, its pidfd is asked. */
enum symc_liveness_state symc_liveness_state(const struct symc_peer *peer);

/* Whose processes have ended, by their pidfds, in one call of the kernel.  Dead
 * is who has ended and has not left: a word that a stray store has hit is not
 * marked at death.  polled is room for size entries. */
void symc_liveness_find_ended(const struct symc_peer *peers, int size,
    struct pollfd *polled, bool *ended);

/* Keep how a rank ended, a status of waitpid(), where its peers look for it,
 * and find it there; false where there is none. */
void symc_liveness_put_exit(struct symc_exit *end, int status);
bool symc_liveness_find_exit(const struct symc_exit *end, int *status);

/* How a dead peer ended, as text: "killed by SIGKILL", "exited with status 1
 * without finalize", "gave up during init", "died".  False for the last: the
 * exit status is not known yet. */
bool symc_liveness_format_end(
    const struct symc_peer *peer, char *buffer, size_t nbytes);

/* How a process ended, as far as the kernel tells: as
 * symc_liveness_format_exit(). pidfd is the process's; -1 where there is
 * none. */
bool symc_liveness_ask_kernel(
    pid_t pid, int pidfd, char *buffer, size_t nbytes);

/* "killed by SIGKILL", "exited with status 3"; into a buffer. */
void symc_liveness_format_exit(int code, int sig, char *buffer, size_t nbytes);

#endif
