/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory without the module that serves it: every call that would
 * read it refuses it, and host memory works as always.
 */
#include "t/cuda/members.h"

#include <stdio.h>
#include <stdlib.h>

static const char *reason;

/* Checks the error of a call on device memory. */
static int refused(symmcoll_status_t status, const char *name, const void *at)
{
    char place[96];

    snprintf(
        place, sizeof(place), "memory of CUDA device 1, found %p there", at);
    return ended(status, SYMMCOLL_ERR_UNSUPPORTED, name) &&
           ended(status, SYMMCOLL_ERR_UNSUPPORTED, place) &&
           ended(status, SYMMCOLL_ERR_UNSUPPORTED, reason);
}

static int sums(struct symmcoll_group *group, int rank)
{
    float one = (float)rank, all = 0;

    return say(symmcoll_all_reduce(
                   group, &all, &one, 1, F32, SUM, NULL, NULL) == SYMMCOLL_OK &&
                   all == 1,
        "a sum in host memory");
}

static int collectives(struct symmcoll_group *group, char *at)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float host[4] = {0};
    void *outs[] = {at + 64, at + 128};
    const void *ins[] = {at, at + 32};
    const size_t counts[] = {1, 2};

    call.stream = (void *)16;
    return refused(
               symmcoll_all_reduce(group, at + 64, at, 4, F32, SUM, NULL, NULL),
               "all_reduce: expected in to be in host memory", at) &&
           refused(symmcoll_all_reduce(
                       group, at + 64, at, 4, F32, SUM, &call, NULL),
               "all_reduce", at) &&
           refused(
               symmcoll_all_reduce(group, at, host, 4, F32, SUM, NULL, NULL),
               "all_reduce: expected out to be in host memory", at) &&
           refused(symmcoll_all_gather_list(group, outs, counts, at,
                       counts[symmcoll_group_rank(group)], F32, NULL, NULL),
               "all_gather_list: expected out to be in", outs[0]) &&
           refused(symmcoll_all_reduce_coalesced(
                       group, outs, ins, counts, 2, F32, SUM, NULL, NULL),
               "all_reduce_coalesced: expected in", at);
}

static int messages(struct symmcoll_group *group, int rank, char *at)
{
    return refused(symmcoll_send(group, at, 1, F32, 1 - rank, 0, NULL, NULL),
               "send: expected in", at) &&
           refused(
               symmcoll_recv(group, at, 1, F32, 1 - rank, 0, NULL, NULL, NULL),
               "recv: expected out", at);
}

static int device_memory_is_refused(struct symmcoll_group *group, int rank)
{
    char *at;
    int right = sums(group, rank);

    device_use(1);
    at = device_alloc(256);
    right = right && collectives(group, at) && messages(group, rank, at) &&
            sums(group, rank) && symmcoll_group_sequence(group) == 2;
    device_free(at);
    return right;
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_MODULE_DIR", "/nonexistent", 1);
    reason = "none: no module cuda is, or can be loaded, in /nonexistent";
    on_both(2, device_memory_is_refused,
        "without the module memory of devices is refused");
    setenv("SYMMCOLL_BACKENDS", "host,fake", 1);
    reason = "none: the setting backends leaves out module cuda";
    on_both(2, device_memory_is_refused,
        "where the setting leaves it out it is refused as well");
    return done_testing();
}
