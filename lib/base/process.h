/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names for this machine and for one process, such that another process can
 * tell whether it runs on the same machine and whether that process has ended.
 */
#ifndef SYMC_BASE_PROCESS_H
#define SYMC_BASE_PROCESS_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_MACHINE_NAME 64 /* bytes, zero included */
#define SYMC_PROCESS_NAME 96 /* bytes, zero included */

/*
 * This machine: "BOOT-ID/NETWORK-NAMESPACE".  Ranks can connect to an abstract
 * socket where they share a kernel and a network namespace.
 */
symmcoll_status_t symc_machine_name(char buffer[SYMC_MACHINE_NAME]);

/* This process: "BOOT-ID/PID-NAMESPACE PID START", without line break. */
symmcoll_status_t symc_process_name(char buffer[SYMC_PROCESS_NAME]);

enum symc_process_state {
    SYMC_PROCESS_RUNS,
    SYMC_PROCESS_GONE,
    SYMC_PROCESS_ELSEWHERE, /* on another machine or container: not known */
    SYMC_PROCESS_UNREAD     /* /proc could not be read: symmcoll_last_error() */
};

/* The state of a named process; pid (out, may be NULL) is 0 where the name is
 * invalid. */
enum symc_process_state symc_process_find(const char *name, pid_t *pid);

#endif
