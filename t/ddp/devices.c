/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that the gradient reducer on devices has the bits of host memory, on
 * any stream.
 */
#include "t/cuda/members.h"
#include "t/ddp/on_device.h"

int main(void)
{
    device_begin();
    on_both(2, reducer_averages,
        "D14 D20 D28: averages have the bits of host memory, accumulated or not");
    on_both(3, reducer_averages,
        "D14 D20 D28: averages have the bits of host memory, accumulated or not");
    on_both(2, reducer_views, "D16: so have gradients that are in the buckets");
    on_both(
        2, reducer_written_back, "D15: so have averages that are written back");
    on_both(2, reducer_written_back_by_name,
        "D15: so have those of memory that is named at creation");
    on_both(3, reducer_unused,
        "D24: so have gradients of which some come on no rank");
    on_both(2, reducer_static_graph, "D25: so have those of a static graph");
    on_both(2, reducer_wide,
        "D44: so have averages in float32 of 16-bit parameters");
    on_both(2, reducer_all_reduce_hook, "D64 D65: so has the all_reduce hook");
    on_both(2, reducer_tensors,
        "D15: a gradient with other strides is averaged in the parameter's");
    on_both(2, reducer_named_hooks,
        "D70 D73: so have post-local SGD and a step, each around a sum");
    on_both(2, reducer_compress_hooks,
        "D64 D66 D68: so have the hooks that compress");
    on_both(3, reducer_compress_hooks,
        "D64 D66 D68: so have the hooks that compress");
    on_both(2, reducer_wrapped_hooks,
        "D67: so have hooks in 16 bits, with averages that are written back");
    on_both(2, reducer_hook_end,
        "D62: so have works that are started after a hook's");
    on_both(2, reducer_own_hook,
        "D60 D61: a hook has the bucket's device and stream");
    on_both(
        2, reducer_many_streams, "each call is on the group's current stream");
    on_both(2, reducer_compressed_on_many_streams,
        "so is it where a hook compresses");
    return done_testing();
}
