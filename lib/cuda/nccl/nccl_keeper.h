/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that ends a communicator of NCCL.
 *
 * ncclCommDestroy() and ncclCommAbort() return when the other ranks of the machine
 * have called one of them, too, or have died, and when what is before the
 * communicator's work on its stream has ended.  No thread that others wait for may
 * do so: a thread of its own, which is started before there is anything to end, so
 * that the end cannot fail.
 */
#ifndef SYMC_CUDA_NCCL_NCCL_KEEPER_H
#define SYMC_CUDA_NCCL_NCCL_KEEPER_H

#include "cuda/nccl/nccl.h"

#include <stdint.h>

/* The device's context in which NCCL is called, which it would else take for that
 * of device 0; zero: in none, as in tests. */
struct symc_cuda_where {
    void *context;
    void (*inside)(void *context, void (*call)(void *arg), void *arg);
    void (*release)(void *context); /* on any thread */
};

struct symc_cuda_keeper;

/* Start one (out) that waits; takes the context, in any case, and copies a name.
 * Returns 0 or an errno. */
int symc_cuda_keeper_start(struct symc_cuda_where where, const char *name,
    struct symc_cuda_keeper **keeper);

/* The name, which is there until the communicator has ended. */
const char *symc_cuda_keeper_name(const struct symc_cuda_keeper *keeper);

/* Have it call that with a communicator, once; the second call does nothing.  Waits
 * for nothing. */
void symc_cuda_keeper_end(struct symc_cuda_keeper *keeper,
    enum symc_nccl_result (*call)(struct symc_nccl_comm *comm),
    struct symc_nccl_comm *comm);

/*
 * The same for one that may have something to do, which is stopped: where NCCL can
 * revoke it what runs on this rank's stream ends first, whatever the others do; half
 * a second later, or when it is quiet, it is aborted.  keeps: what is quiet stays
 * until its owner leaves.
 */
void symc_cuda_keeper_stop(struct symc_cuda_keeper *keeper,
    const struct symc_nccl *nccl, struct symc_nccl_comm *comm, bool keeps);

/* What stays so: the caller's from now on, and the keeper can be told once more.  NULL:
 * it does not.  Waits for it to be quiet, for which it has a second at most. */
struct symc_nccl_comm *symc_cuda_keeper_claim(struct symc_cuda_keeper *keeper);

/* NCCL makes a communicator of this one's, for another keeper: where it is to write
 * it.  Where this one's is ended meanwhile that is ended after it, for NCCL has it
 * written by then.  Not after it has been told to end. */
struct symc_nccl_comm **symc_cuda_keeper_expect(
    struct symc_cuda_keeper *keeper, struct symc_cuda_keeper *heir);
/* Where NCCL is to write that it has made none for this member, which it does when the
 * others have called it, too: as long as there is what it would be made of. */
struct symc_nccl_comm **symc_cuda_keeper_expect_none(
    struct symc_cuda_keeper *keeper);

/* NCCL has made it: what it has written, the other's from now on. */
struct symc_nccl_comm *symc_cuda_keeper_settle(struct symc_cuda_keeper *keeper);

/* The last call of the one that started it: where it has been told nothing, it has
 * nothing to end.  Whether it is over within that time; if not it ends later. */
bool symc_cuda_keeper_leave(
    struct symc_cuda_keeper *keeper, int64_t timeout_ns);

#endif
