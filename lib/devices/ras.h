/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's RAS service (reliability, availability, serviceability).  From NCCL
 * 2.24 on, a thread of NCCL in each process listens on a TCP port and reports
 * the state of the job's processes and communicators in lines of text.
 */
#ifndef SYMC_DEVICES_RAS_H
#define SYMC_DEVICES_RAS_H

#include "base/base.h"

#define SYMC_TRACE_RAS_MOST 65536 /* most bytes of a reply that are kept */

/* The reply of the service. */
struct symc_trace_ras {
    char text[SYMC_TRACE_RAS_MOST + 1]; /* lines of printable ASCII */
    char error[256]; /* why text is incomplete; "": it is complete */
};

/* Returns the address of this process's service by NCCL's variables,
 * "host:port", or NULL if the service is disabled. */
const char *symc_trace_ras_find(void);

/* Queries the service; ras is the result.  Returns within the timeout, even
 * if there is no service, or it does not reply or does not end; raises no
 * signal. */
void symc_trace_ras_query(
    const char *address, int64_t timeout_ns, struct symc_trace_ras *ras);

#endif
