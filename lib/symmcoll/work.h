/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work is one asynchronous operation: wait for it, query it, release it.  Any
 * thread may use it, also after its world has been finalized: by then it has
 * ended.  Manual: symmcoll_work_wait(3).
 */
#ifndef SYMMCOLL_WORK_H
#define SYMMCOLL_WORK_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_work;

/*
 * Called once on the world's callback thread when the work has ended, where
 * symmcoll_last_error() is the detail of one that failed.  work is borrowed for
 * the call, released by its user or not.
 *
 * There it may start work, and wait for works and operations of other groups.
 * Those of its own group that have not ended come later: waiting for them is
 * INVALID there, as are blocking operations of that group, and finalizing the
 * world.  arg is borrowed.
 */
typedef void (*symmcoll_work_fn)(symmcoll_status_t status, void *arg);
typedef void (*symmcoll_work_ended_fn)(
    struct symmcoll_work *work, symmcoll_status_t status, void *arg);

/*
 * Wait until the operation has ended, and return its status.
 *
 * timeout  seconds; negative: as long as the operation itself may take
 *
 * On device memory a wait with a negative timeout returns OK once the operation
 * has been started on the device: what is enqueued on the stream of the call from
 * then on runs after it, and the host goes on.  It blocks, as all others do, for a
 * barrier and with the setting errors.blocking_wait.
 *
 * TIMEOUT is the wait's own where symmcoll_work_test() returns IN_PROGRESS
 * afterwards: the operation goes on.  Else the operation has ended, and
 * symmcoll_work_test() returns how.  With the setting errors.blocking_wait a
 * wait's own fails the group.  INVALID where a callback would wait for a later
 * work of its own group.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_wait(
    struct symmcoll_work *work, double timeout);

/* IN_PROGRESS, or the status with which the operation ended.  Never blocks. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_test(struct symmcoll_work *work);

/*
 * Release a work; NULL is fine.  Unfinished work is detached: it continues, and
 * its buffers stay the library's until it ends.
 */
SYMMCOLL_API
void symmcoll_work_free(struct symmcoll_work *work);

/* The detail of a failed work, as symmcoll_last_error(); empty otherwise.
 * Borrowed: as long as the work. */
SYMMCOLL_API
const char *symmcoll_work_error(const struct symmcoll_work *work);

/*
 * The operation's sequence number in its group, from its start on: that of a send
 * or receive from the call on, that of a small collective in host memory too, if
 * nothing is queued ahead of it.  0 before the start, and of one that was never
 * started, as in a group that has failed.
 */
SYMMCOLL_API
uint64_t symmcoll_work_sequence(const struct symmcoll_work *work);

/* The group's number of the rank that a symmcoll_recv() has received from; -1
 * before it has ended, where it has failed, and for any other operation. */
SYMMCOLL_API
int symmcoll_work_source(const struct symmcoll_work *work);

/*
 * Call fn(status, arg) when the work has ended; at once on the callback thread
 * when it has already.  Several may be added.  Errors: ABORTED (the world has
 * been finalized), NO_MEMORY, SYSTEM.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_then(
    struct symmcoll_work *work, symmcoll_work_fn fn, void *arg);

/* The same for fn(work, status, arg), which can ask the work for more. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_work_notify(
    struct symmcoll_work *work, symmcoll_work_ended_fn fn, void *arg);

SYMMCOLL_END_DECLS

#endif
