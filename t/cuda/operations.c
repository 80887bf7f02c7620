/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that every collective on device memory has the same bits as in host
 * memory, with 1 to 5 ranks and a device for each.
 */
#include "t/cuda/every.h"
#include "t/sanitized.h"

int main(void)
{
    device_begin();
    for (int n = 1; n <= MOST_THREADS(5); n++) {
        on_both(n, every_all_reduce, "all_reduce on devices");
        on_both(n, every_reduce, "reduce");
        on_both(n, every_reduce_scatter, "reduce_scatter");
        on_both(n, every_all_gather, "all_gather");
        on_both(n, every_gather, "gather");
        on_both(n, every_scatter, "scatter");
        on_both(n, every_all_to_all, "all_to_all");
        on_both(n, every_broadcast, "broadcast");
    }
    on_both(3, every_lists, "parts in buffers of their own");
    on_both(3, every_types_and_reductions, "all types, all reductions");
    on_both(3, every_factors, "factors of each rank");
    return done_testing();
}
