/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of this machine and of processes, and the check that a process is still
 * the same one.
 *
 * A process is named by its boot, its PID namespace, its PID and its start
 * time, because PIDs are reused.
 */
#include "base/process.h"

#include "base/proc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID_LENGTH 36 /* a UUID as text */

static symmcoll_status_t read_boot_id(char buffer[BOOT_ID_LENGTH + 1])
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    size_t nbytes = symc_proc_read(path, buffer, BOOT_ID_LENGTH + 1);

    if (nbytes == 0)
        return symc_fail_descriptor(
            errno, "node name: /proc/sys/kernel/random/boot_id");
    if (nbytes != BOOT_ID_LENGTH)
        return symc_fail(SYMMCOLL_ERR_SYSTEM,
            "node name: %s: expected %d bytes, found %zu", path, BOOT_ID_LENGTH,
            nbytes);
    return SYMMCOLL_OK;
}

static symmcoll_status_t read_namespace(const char *path, uint64_t *inode)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "node name: %s", path);
    *inode = info.st_ino;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_machine_name(char buffer[SYMC_MACHINE_NAME])
{
    char boot_id[BOOT_ID_LENGTH + 1];
    uint64_t network = 0;
    symmcoll_status_t status = read_boot_id(boot_id);

    if (status == SYMMCOLL_OK)
        status = read_namespace("/proc/self/ns/net", &network);
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(buffer, SYMC_MACHINE_NAME, "%s/%" PRIu64, boot_id, network);
    return SYMMCOLL_OK;
}

static symmcoll_status_t fail_stat(long pid, int error)
{
    char where[64];

    snprintf(where, sizeof(where), "process name: /proc/%ld/stat", pid);
    return symc_fail_descriptor(error, where);
}

symmcoll_status_t symc_process_name(char buffer[SYMC_PROCESS_NAME])
{
    char boot_id[BOOT_ID_LENGTH + 1];
    uint64_t names = 0;
    struct symc_proc_stat self;
    symmcoll_status_t status = read_boot_id(boot_id);

    if (status == SYMMCOLL_OK)
        status = read_namespace("/proc/self/ns/pid", &names);
    if (status != SYMMCOLL_OK)
        return status;
    if (!symc_proc_stat_read(getpid(), &self))
        return fail_stat((long)getpid(), errno);
    snprintf(buffer, SYMC_PROCESS_NAME, "%s/%" PRIu64 " %ld %" PRIu64, boot_id,
        names, (long)getpid(), self.start);
    return SYMMCOLL_OK;
}

enum symc_process_state symc_process_find(const char *name, pid_t *pid)
{
    char own[SYMC_PROCESS_NAME];
    const char *blank = strchr(name, ' ');
    struct symc_proc_stat found;
    uint64_t expected;
    long number;

    if (pid != NULL)
        *pid = 0;
    if (blank == NULL ||
        sscanf(blank, " %ld %" SCNu64, &number, &expected) != 2)
        return SYMC_PROCESS_ELSEWHERE;
    if (pid != NULL)
        *pid = (pid_t)number;
    if (symc_process_name(own) != SYMMCOLL_OK)
        return SYMC_PROCESS_UNREAD;
    /* Compares boot and PID namespace: the name up to and with the blank. */
    if (strncmp(own, name, (size_t)(blank - name) + 1) != 0)
        return SYMC_PROCESS_ELSEWHERE;
    if (symc_proc_stat_read((pid_t)number, &found))
        return found.start != expected || found.state == 'Z' ||
                       found.state == 'X'
                   ? SYMC_PROCESS_GONE
                   : SYMC_PROCESS_RUNS;
    if (errno == ENOENT || errno == ESRCH)
        return SYMC_PROCESS_GONE;
    fail_stat(number, errno);
    return SYMC_PROCESS_UNREAD;
}
