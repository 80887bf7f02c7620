/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests memory when a filter denies system calls, as in containers, and in a
 * control group with a limit that several ranks reach at the same time.
 */
#include "../tap.h"

#include "segment/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NBYTES ((size_t)2 << 20)
#define NOEXEC_SEAL 8     /* MFD_NOEXEC_SEAL */
#define LIMIT "419430400" /* 400 MiB */
#define PART ((size_t)150 << 20)
#define RANKS 3
#define ROUNDS 5
#define UNTESTED 77 /* status of a child: the kernel filters no calls */

/* How a call is denied: if an argument has certain bits, or lacks them. */
struct denied {
    long number;
    int error;
    int argument; /* -1: always */
    unsigned bits;
    bool where_set;
};

static bool deny(const struct denied *denied)
{
    unsigned at = (unsigned)offsetof(struct seccomp_data, args) +
                  8 * (unsigned)(denied->argument > 0 ? denied->argument : 0);
    unsigned bits = denied->argument >= 0 ? denied->bits : 0;
    /* The low half of the argument; a set bit skips the comparison. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied->number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, denied->where_set ? 0 : 1,
            denied->where_set ? 1 : 0),
        BPF_STMT(BPF_RET | BPF_K,
            SECCOMP_RET_ERRNO | ((unsigned)denied->error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {
        .len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Returns whether memory can be created, is backed, and keeps its contents. */
static bool is_reserved(void)
{
    struct stat found;
    void *at = NULL;
    int fd;

    if (symc_memory_create("test", NBYTES, "test", &fd) != SYMMCOLL_OK ||
        pwrite(fd, "kept", 4, 4096) != 4 ||
        symc_memory_reserve(fd, 0, NBYTES, "test") != SYMMCOLL_OK ||
        fstat(fd, &found) != 0 || (size_t)found.st_blocks * 512 < NBYTES ||
        symc_memory_map(fd, NBYTES, "test", &at) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return false;
    }
    return memcmp((char *)at + 4096, "kept", 4) == 0;
}

/* Runs is_reserved() in a child that is denied some calls. */
static void test_denied(
    const struct denied *denied, int count, const char *what)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < count; i++)
            if (!deny(&denied[i]))
                _exit(UNTESTED);
        _exit(is_reserved() ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNTESTED)
        skip(1, "no filter of system calls");
    else
        ok(status == 0, "%s", what);
}

/* ---- a control group ---- */

static char group[512]; /* its folder */

static bool put(const char *name, const char *text)
{
    char path[600];
    bool good;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", group, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

/* Creates a control group with a limit above this process's own memory, of
 * either version; false: not permitted. */
static bool make_group(void)
{
    static const char *const folders[][2] = {
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
        {"/sys/fs/cgroup", "memory.max"}};

    for (int i = 0; i < 2; i++) {
        snprintf(group, sizeof(group), "%s/symmcoll-test-%d", folders[i][0],
            (int)getpid());
        if (mkdir(group, 0700) != 0)
            continue;
        if (put(folders[i][1], LIMIT))
            return true;
        rmdir(group);
    }
    return false;
}

/* Runs a rank, which joins the group, waits for the others, reserves memory,
 * and keeps it until all have tried. */
_Noreturn static void reserve(int go, int done, int end)
{
    char byte = 'x';
    symmcoll_status_t status;
    int fd;

    if (!put("cgroup.procs", "0") ||
        symc_memory_create("test", PART, "test", &fd) != SYMMCOLL_OK)
        _exit(9);
    if (write(done, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(9);
    status = symc_memory_reserve(fd, 0, PART, "test");
    byte = status == SYMMCOLL_OK              ? 'o'
           : status == SYMMCOLL_ERR_NO_MEMORY ? 'n'
                                              : '?';
    if (write(done, &byte, 1) != 1 || read(end, &byte, 1) < 0)
        _exit(9);
    _exit(0);
}

/* Checks that as many ranks succeed as the limit permits, and that none is
 * killed. */
static bool all_are_told(void)
{
    int go[2], done[RANKS][2], end[2], status, enough = 0, told = 0;
    pid_t pids[RANKS];
    bool good = true;
    char byte;

    if (pipe(go) != 0 || pipe(end) != 0)
        return false;
    for (int r = 0; r < RANKS; r++) {
        /* One pipe for each rank; its end shows that the rank was killed. */
        if (pipe(done[r]) != 0)
            return false;
        pids[r] = fork();
        if (pids[r] == 0) {
            close(end[1]);
            reserve(go[0], done[r][1], end[0]);
        }
        close(done[r][1]);
    }
    for (int r = 0; r < RANKS; r++)
        good = read(done[r][0], &byte, 1) == 1 && good;
    good = write(go[1], "xxx", RANKS) == RANKS && good;
    for (int r = 0; r < RANKS; r++) {
        if (read(done[r][0], &byte, 1) != 1)
            continue;
        enough += byte == 'o';
        told += byte == 'n';
    }
    close(end[1]);
    for (int r = 0; r < RANKS; r++)
        good = waitpid(pids[r], &status, 0) == pids[r] && status == 0 && good;
    close(go[0]);
    close(go[1]);
    close(end[0]);
    for (int r = 0; r < RANKS; r++)
        close(done[r][0]);
    if (!good || enough != 2 || told != 1)
        diag("%d had memory, %d were told that there was none", enough, told);
    return good && enough == 2 && told == 1;
}

static void test_group(void)
{
    bool good = true;

    if (!make_group()) {
        skip(1, "no control group can be made");
        return;
    }
    for (int i = 0; i < ROUNDS && good; i++)
        good = all_are_told();
    rmdir(group);
    ok(good, "ranks that reach the limit of their group at once have an error");
}

int main(void)
{
    static const struct denied calls[] = {
        {SYS_fallocate, EPERM, -1, 0, false},
        {SYS_fallocate, ENOSYS, -1, 0, false},
        {SYS_fallocate, EOPNOTSUPP, -1, 0, false},
        {SYS_madvise, EINVAL, -1, 0, false},
        {SYS_memfd_create, EACCES, 1, NOEXEC_SEAL, false},
        {SYS_memfd_create, EINVAL, 1, NOEXEC_SEAL, true},
    };

    plan(7);
    alarm(120);
    test_denied(
        &calls[0], 1, "fallocate() that is denied is no lack of memory");
    test_denied(&calls[1], 1, "nor one that a filter does not know");
    test_denied(&calls[2], 1, "nor one that the file system has not");
    test_denied(&calls[2], 2, "nor where the kernel cannot fault pages in");
    test_denied(&calls[4], 1,
        "memory is sealed against execution where the kernel wants that");
    test_denied(&calls[5], 1, "and made where the kernel does not know it");
    test_group();
    return done_testing();
}
