/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the gradient reducer on one device that threads or processes share:
 * the bits are those of host memory.
 */
#include "t/ddp/many.h"
#include "t/ddp/on_device.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

int main(void)
{
    gpu_begin(200);
    for (int n = 2; n <= gpu_choose(4, 3, 2); n++)
        on_threads(n, reducer_averages,
            "averages have the bits of host memory, accumulated or not");
    on_threads(2, reducer_views, "so have gradients that are in the buckets");
    on_threads(
        2, reducer_written_back, "so have averages that are written back");
    on_threads(2, many_written_back, "so have those of 300 gradients");
    on_threads(2, reducer_all_reduce_hook, "so has the all_reduce hook");
    on_threads(3, reducer_compress_hooks, "so have the hooks that compress");
    on_threads(2, reducer_wrapped_hooks, "so have hooks in 16 bits");
    on_threads(
        2, reducer_own_hook, "a hook has the bucket's device and stream");
    on_processes(2, reducer_averages,
        "averages have the bits of host memory, accumulated or not");
    on_processes(2, reducer_compress_hooks, "so have the hooks that compress");
    /* Ranks that are threads would share the default stream, in which one
     * waits for the other. */
    on_processes(2, reducer_many_streams,
        "each call is on the group's current stream, also the default one");
    return done_testing();
}
