/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the topology of processors. */
#include "../tap.h"

#include "base/topology.h"

int main(void)
{
    struct symc_processor processors[] = {
        {.number = 2}, {.number = 5}, {.number = 7}};
    const struct symc_topology topology = {
        .processors = processors, .count = 2};

    ok(symc_topology_find(&topology, 2) == &processors[0] &&
            symc_topology_find(&topology, 5) == &processors[1],
        "a processor is found by its number");
    ok(symc_topology_find(&topology, 7) == NULL &&
            symc_topology_find(&topology, -1) == NULL,
        "one of another number is not");
    return done_testing();
}
