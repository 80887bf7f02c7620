/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests collectives that are captured in a graph, which is launched several
 * times.
 */
#include "t/cuda/every.h"

#define RANKS 4

int main(void)
{
    device_begin();
    for (int n = 2; n <= RANKS; n++)
        on_both(n, every_graph,
            "collectives in graphs that are started again have the same bits "
            "as in host memory");
    return done_testing();
}
