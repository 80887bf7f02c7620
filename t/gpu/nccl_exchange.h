/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one device that NCCL connects, and exchanges of parts, which are NCCL's
 * whatever their size, where there is one.  NCCL 2.30 or later is told to allow ranks
 * to share a device, an older one takes processes for as many machines and connects
 * them over the loopback network; where it refuses that, it says why.  A rehearsal has
 * the stand-in for NCCL.
 */
#ifndef T_GPU_NCCL_EXCHANGE_H
#define T_GPU_NCCL_EXCHANGE_H

#include "t/cuda/members.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <stdint.h>

#define EXCHANGE_RANKS 3    /* at most */
#define EXCHANGE_ROOM 18432 /* elements of a buffer */

/* ---- whether there is NCCL ---- */

/* In main, before ranks: what NCCL is there. */
void exchange_find_nccl(void);

/* In main: ranks that are processes may share the device. */
void exchange_share_device(void);

/* Of a rank, before NCCL has looked at its variables: it has the device with others,
 * or is on a machine of its own, as far as NCCL knows. */
void exchange_settle(int rank);

/* In main: whether NCCL connects so many processes.  refusal: what NCCL says where it
 * refuses to; NULL where it does not. */
bool exchange_is_connected(int n, const char **refusal);

/* ---- exchanges ---- */

struct exchange {
    struct symmcoll_group *group;
    int rank, size;
    CUstream stream;
    uint32_t *in, *out; /* of the device */
    size_t sent[EXCHANGE_RANKS], received[EXCHANGE_RANKS], nsent, nreceived;
    uint32_t host[EXCHANGE_ROOM];
};

void exchange_begin(
    struct exchange *it, struct symmcoll_group *group, int rank);
/* When all that was begun on the device has ended. */
int exchange_finish(struct exchange *it, int right);

/* From now on in another group. */
void exchange_enter(struct exchange *it, struct symmcoll_group *group);

/* One, whose parts have none, few or many elements for each round. */
void exchange_prepare(struct exchange *it, int round);
symmcoll_status_t exchange_call(
    struct exchange *it, struct symmcoll_work **work);
/* All parts have come, and nothing after them. */
int exchange_has_come(struct exchange *it, int round);

/* Whether the group has a communicator, without which kernels exchange. */
int exchange_has_nccl(const struct symmcoll_group *group);

/* All of that. */
int exchange_once(struct exchange *it, int round);

#endif
