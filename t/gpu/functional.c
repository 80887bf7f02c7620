/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests functional calls on tensors of one device that threads or processes
 * share: the bits are those of host memory, forward and backward.
 */
#include "t/cuda/members.h"
#include "t/functional/on_device.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

/* Runs on a separate stream for each rank: threads share the default one, in
 * which one rank's kernel would wait for one that cannot begin. */
static int on_stream(struct symmcoll_group *group, int rank, rank_fn body)
{
    CUstream stream;
    int right;

    device_use(rank);
    stream = device_stream();
    right = say(symmcoll_group_set_stream(group, stream) == SYMMCOLL_OK,
                "set_stream") &&
            body(group, rank);
    device_wait(stream);
    right = symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK && right;
    device_end_stream(stream);
    return right;
}

static int every_form(struct symmcoll_group *group, int rank)
{
    return on_stream(group, rank, functional_every_form);
}

static int other_orders(struct symmcoll_group *group, int rank)
{
    return on_stream(group, rank, functional_other_orders);
}

int main(void)
{
    gpu_begin(200);
    for (int n = 2; n <= gpu_choose(4, 3, 2); n++)
        on_threads(n, every_form,
            "every call has the bits of host memory, and its way back");
    on_threads(2, functional_lists, "so have lists, in as many operations");
    on_threads(2, other_orders, "so have channels last, and other strides");
    on_processes(2, functional_every_form,
        "every call has the bits of host memory, and its way back");
    return done_testing();
}
