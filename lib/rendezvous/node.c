/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The name of this machine: host.node, else a name from the kernel.
 */
#include "rendezvous/rendezvous.h"

#include "base/process.h"

#include <stdio.h>

symmcoll_status_t symc_rendezvous_node(
    const struct symc_config *config, char *buffer, size_t nbytes)
{
    char machine[SYMC_MACHINE_NAME];
    const char *name = machine;
    int length;

    if (config != NULL && config->host_node != NULL &&
        config->host_node[0] != '\0') {
        name = config->host_node;
    } else {
        symmcoll_status_t status = symc_machine_name(machine);

        if (status != SYMMCOLL_OK)
            return status;
    }
    length = snprintf(buffer, nbytes, "%s", name);
    if ((size_t)length >= nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "node name: expected less than %zu bytes, found %d", nbytes,
            length);
    return SYMMCOLL_OK;
}
