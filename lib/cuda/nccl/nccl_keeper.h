/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that ends a communicator of NCCL.
 *
 * ncclCommDestroy() and ncclCommAbort() return only when the other ranks of the machine
 * have called one of them, too, or have died, and when earlier work on the communicator's
 * stream has ended.  No thread that others wait for may block in them, so each
 * communicator has a thread for it.  The thread is started before there is anything to
 * end, so that the end cannot fail for lack of a thread.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_KEEPER_H
#define SYMC_CUDA_NCCL_NCCL_KEEPER_H

#include "cuda/nccl/nccl.h"

#include <stdint.h>

/* The context in which NCCL is called; without one NCCL would use device 0.  Zero: none,
 * as in tests. */
struct symc_cuda_where {
    void *context;
    void (*inside)(void *context, void (*call)(void *arg), void *arg);
    void (*release)(void *context); /* on any thread */
};

struct symc_cuda_keeper;

/* Starts a keeper (out), which waits for its task.  Takes the context in any case, and
 * copies the name.  Returns 0 or an errno. */
int symc_cuda_keeper_start(struct symc_cuda_where where, const char *name,
    struct symc_cuda_keeper **keeper);

/* Returns the name, which is valid until the communicator has ended. */
const char *symc_cuda_keeper_name(const struct symc_cuda_keeper *keeper);

/* Makes the keeper call `call` with a communicator, once; a second request does nothing.
 * Waits for nothing. */
void symc_cuda_keeper_end(struct symc_cuda_keeper *keeper,
    enum symc_nccl_result (*call)(struct symc_nccl_comm *comm),
    struct symc_nccl_comm *comm);

/*
 * Makes the keeper abort a communicator that may have running work.  If NCCL can revoke
 * it, that is done first: this rank's work ends then, independently of the other ranks.
 * The abort follows when it is quiet, after half a second at most.
 * keeps: a quiet communicator is kept, to be claimed, until the owner leaves
 */
void symc_cuda_keeper_stop(struct symc_cuda_keeper *keeper,
    const struct symc_nccl *nccl, struct symc_nccl_comm *comm, bool keeps);

/* Claims a kept communicator: it is the caller's then, and the keeper takes one further
 * request.  Waits for it to be quiet, one second at most.  NULL: it is not kept. */
struct symc_nccl_comm *symc_cuda_keeper_claim(struct symc_cuda_keeper *keeper);

/* Returns where NCCL is to write a communicator that it makes from this keeper's, for
 * the keeper heir.  If this keeper ends its communicator before
 * symc_cuda_keeper_settle(), it ends the heir's after it, as NCCL has written it by
 * then.  Not to be called after an end was requested. */
struct symc_nccl_comm **symc_cuda_keeper_expect(
    struct symc_cuda_keeper *keeper, struct symc_cuda_keeper *heir);
/* Returns where NCCL is to write that it made none for this member, which it may do when
 * the other members call it; valid as long as the keeper. */
struct symc_nccl_comm **symc_cuda_keeper_expect_none(
    struct symc_cuda_keeper *keeper);

/* Takes the communicator that NCCL has made for the heir. */
struct symc_nccl_comm *symc_cuda_keeper_settle(struct symc_cuda_keeper *keeper);

/* Leaves the keeper to itself: the owner's last call.  Without an earlier request there
 * is nothing to end.  Returns whether the keeper ended within the timeout; otherwise it
 * ends later. */
bool symc_cuda_keeper_leave(
    struct symc_cuda_keeper *keeper, int64_t timeout_ns);

#endif
