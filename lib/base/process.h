/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of this machine and of a process, from which another process can
 * determine whether it runs on the same machine and whether that process has
 * ended.
 */
#ifndef SYMC_BASE_PROCESS_H
#define SYMC_BASE_PROCESS_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_MACHINE_NAME 64 /* bytes, zero included */
#define SYMC_PROCESS_NAME 96 /* bytes, zero included */

/*
 * Returns the name of this machine, "BOOT-ID/NETWORK-NAMESPACE".  Ranks can
 * connect to an abstract socket if they share a kernel and a network namespace.
 */
symmcoll_status_t symc_machine_name(char buffer[SYMC_MACHINE_NAME]);

/* Returns the name of this process, "BOOT-ID/PID-NAMESPACE PID START", in one
 * line. */
symmcoll_status_t symc_process_name(char buffer[SYMC_PROCESS_NAME]);

enum symc_process_state {
    SYMC_PROCESS_RUNS,
    SYMC_PROCESS_GONE,
    SYMC_PROCESS_ELSEWHERE, /* in another machine or container: unknown */
    SYMC_PROCESS_UNREAD     /* /proc could not be read: symmcoll_last_error() */
};

/* Returns the state of a named process. pid (out, may be NULL) is 0 if the name
 * is invalid. */
enum symc_process_state symc_process_find(const char *name, pid_t *pid);

#endif
