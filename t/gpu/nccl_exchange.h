/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one device that NCCL connects, and exchanges of parts, which use
 * NCCL for any size if it is available.
 *
 * NCCL 2.30 or later is configured to allow ranks to share a device. For an
 * older one each process is on a separate machine, and NCCL connects them over
 * the loopback network; if it refuses, its reason is recorded. A rehearsal
 * uses the stand-in for NCCL.
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

/* Finds NCCL, in main before ranks. */
void exchange_find_nccl(void);

/* Permits ranks that are processes to share the device; called in main. */
void exchange_share_device(void);

/* Sets NCCL's variables in a rank before NCCL reads them: the rank shares the
 * device, or appears to be on a separate machine. */
void exchange_settle(int rank);

/* Called in main: returns whether NCCL connects n processes. refusal: NCCL's
 * reason if not, else NULL. */
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
/* Finishes an exchange, when all work on the device has ended. */
int exchange_finish(struct exchange *it, int right);

/* Switches to another group. */
void exchange_enter(struct exchange *it, struct symmcoll_group *group);

/* Prepares an exchange with empty, small or large parts, depending on the
 * round. */
void exchange_prepare(struct exchange *it, int round);
symmcoll_status_t exchange_call(
    struct exchange *it, struct symmcoll_work **work);
/* Checks that all parts have arrived, and nothing after them. */
int exchange_has_come(struct exchange *it, int round);

/* Returns whether the group has a communicator; without one kernels
 * exchange. */
int exchange_has_nccl(const struct symmcoll_group *group);

/* Runs and checks one exchange. */
int exchange_once(struct exchange *it, int round);

#endif
