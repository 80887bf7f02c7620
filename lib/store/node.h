/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names for this machine and for one process, such that another process can
 * tell whether it runs on the same machine and whether that process has ended.
 */
#ifndef SYMC_STORE_NODE_H
#define SYMC_STORE_NODE_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_PROCESS_NAME 96 /* bytes, zero included */

/* This process: "BOOT-ID/PID-NAMESPACE PID START", without line break. */
symmcoll_status_t symc_process_name(char buffer[SYMC_PROCESS_NAME]);

enum symc_process_state {
    SYMC_PROCESS_RUNS,
    SYMC_PROCESS_GONE,
    SYMC_PROCESS_ELSEWHERE /* another machine or container: cannot be told */
};

/* The state of a named process; pid (out, may be NULL) is 0 where the name is
 * invalid. */
enum symc_process_state symc_process_find(const char *name, pid_t *pid);

#endif
