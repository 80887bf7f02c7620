/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests sends and receives of device memory by ranks that share one device:
 * threads, with staging memory from a pool, and processes, which open each
 * other's.
 */
#include "t/cuda/message.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

#include <stdlib.h>

static void pass(void (*on_ranks)(int n, rank_fn body, const char *what))
{
    const int most = gpu_choose(4, 3, 3);

    on_ranks(most, message_has_its_bytes,
        "a message of device memory has its bytes");
    on_ranks(2, message_goes_both_ways,
        "sends and receives with works go both ways, in any order of tags");
    on_ranks(most, message_goes_to_all,
        "messages to several ranks at once have their bytes");
    on_ranks(most, message_comes_from_any,
        "a receive from any source takes one of each and says whose it is");
    on_ranks(2, message_follows_its_stream,
        "what a stream has last before a send is sent");
    on_ranks(most, message_goes_round, "a batch of device memory goes round");
    on_ranks(most, message_is_permuted,
        "permute moves device memory, also of one rank");
}

int main(void)
{
    gpu_begin(120);
    setenv("SYMMCOLL_CUDA_MESSAGE_CHUNK", "64KiB", 1);
    pass(on_threads);
    pass(on_processes);
    return done_testing();
}
