/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of device memory, with guards beside them, and what holds of them on every
 * device.
 */
#ifndef T_CUDA_MESSAGE_H
#define T_CUDA_MESSAGE_H

#include "t/cuda/members.h"

#define MESSAGE_CHUNK ((size_t)64 * 1024) /* cuda.message_chunk */

/* A buffer of a rank's device, and a stream there. */
struct message {
    CUstream stream;
    unsigned char *whole; /* with guards on both sides */
    unsigned char *at;
    size_t capacity;
};

void message_begin(struct message *message, int rank, size_t capacity);
void message_end(struct message *message);

/* Bytes that differ for each seed. */
void message_fill(const struct message *message, size_t nbytes, int seed);
/* Whether it has those, and no guard has changed. */
int message_is(const struct message *message, size_t nbytes, int seed);

/* Bytes of it, on its stream. */
symmcoll_status_t message_start_send(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag,
    struct symmcoll_work **work);
symmcoll_status_t message_start_recv(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag,
    struct symmcoll_work **work);
symmcoll_status_t message_send(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag);
symmcoll_status_t message_recv(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag);

/* Whether it is OK; else it says what is not. */
int message_fine(symmcoll_status_t status);

/* ---- bodies of ranks ---- */

/* Of all sizes, there and back. */
int message_has_its_bytes(struct symmcoll_group *group, int rank);
/* Of two ranks: works, in the other order of tags. */
int message_goes_both_ways(struct symmcoll_group *group, int rank);
int message_goes_to_all(struct symmcoll_group *group, int rank);
int message_comes_from_any(struct symmcoll_group *group, int rank);
/* Of two ranks. */
int message_follows_its_stream(struct symmcoll_group *group, int rank);
/* A batch. */
int message_goes_round(struct symmcoll_group *group, int rank);
int message_is_permuted(struct symmcoll_group *group, int rank);

#endif
