/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's RAS service (reliability, availability, serviceability): from NCCL 2.24 on
 * a thread of it in each process listens on a TCP port, and tells who asks in a few
 * lines of text how all processes of the job and their communicators are.
 */
#ifndef SYMC_DEVICES_RAS_H
#define SYMC_DEVICES_RAS_H

#include "base/base.h"

#define SYMC_TRACE_RAS_MOST 65536 /* bytes of an answer that are kept */

/* What it has said. */
struct symc_trace_ras {
    char
        text[SYMC_TRACE_RAS_MOST + 1]; /* lines of printable ASCII; may be "" */
    char error[256];                   /* why it is not whole; "": it is */
};

/* Where the service of this process is by NCCL's variables: "host:port"; NULL: it
 * is turned off. */
const char *symc_trace_ras_find(void);

/* Ask there (out).  It has returned by that time, whatever is there: nothing, or
 * what never answers or never ends; and no signal comes of it. */
void symc_trace_ras_ask(
    const char *address, int64_t timeout_ns, struct symc_trace_ras *ras);

#endif
