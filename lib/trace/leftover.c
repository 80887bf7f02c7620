/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of temporary files, and removal of those left by killed writers.
 *
 * A name identifies the writer: a digest of the boot ID and PID namespace, then
 * the PID and the process's start time, because PIDs are reused.
 */
#include "base/descriptor.h"
#include "base/digest.h"
#include "base/process.h"
#include "trace/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 4096 /* folder entries examined */

/* Bytes of the dump's name kept in the temporary's: the name must fit
 * NAME_MAX. */
#define SHOWN_MAX 128

/* Age at which a temporary file of another machine or boot is removed; no dump
 * takes a day. */
#define AGE_MAX_S 86400

/* The writer, as parsed from a file name. */
struct writer {
    uint64_t place; /* digest of boot and PID namespace */
    char number_and_start[48];
};

/* Returns a digest of the boot and PID namespace: the part of a process name
 * before the first space. */
static uint64_t digest_place(const char *process)
{
    struct symc_digest digest = SYMC_DIGEST_INIT;
    char place[SYMC_PROCESS_NAME];

    snprintf(place, sizeof(place), "%.*s", (int)strcspn(process, " "), process);
    symc_digest_add(&digest, "process", place);
    return digest.a;
}

/* Formats this process's name, with start time 0 if that is unknown. */
static void name_self(char process[SYMC_PROCESS_NAME])
{
    if (symc_process_name(process) != SYMMCOLL_OK)
        snprintf(process, SYMC_PROCESS_NAME, "? %ld 0", (long)getpid());
}

bool symc_trace_temporary_name(
    const char *name, int number, char *buffer, size_t nbytes)
{
    char process[SYMC_PROCESS_NAME];
    long pid = 0;
    uint64_t start = 0;
    int length;

    name_self(process);
    (void)sscanf(strchr(process, ' '), " %ld %" SCNu64, &pid, &start);
    length =
        snprintf(buffer, nbytes, "%.*s.%016" PRIx64 "-%ld-%" PRIu64 "-%d.tmp",
            SHOWN_MAX, name, digest_place(process), pid, start, number);
    return length > 0 && (size_t)length < nbytes;
}

/* Skips up to 20 digits and the character `end` after them. */
static bool skip_number(const char **at, const char *digits, char end)
{
    size_t length = strspn(*at, digits);

    if (length == 0 || length > 20 || (*at)[length] != end)
        return false;
    *at += length + 1;
    return true;
}

/* Parses a name made by symc_trace_temporary_name(). */
static bool parse_name(const char *name, struct writer *writer)
{
    static const char digits[] = "0123456789";
    size_t length = strlen(name);
    const char *at;
    const char *number;
    const char *start;

    if (length < 4 || strcmp(name + length - 4, ".tmp") != 0)
        return false;
    at = memrchr(name, '.', length - 4);
    if (at == NULL)
        return false;
    at++;
    writer->place = strtoull(at, NULL, 16);
    if (strspn(at, "0123456789abcdef") != 16 ||
        !skip_number(&at, "0123456789abcdef", '-'))
        return false;
    number = at;
    if (!skip_number(&at, digits, '-'))
        return false;
    start = at;
    if (!skip_number(&at, digits, '-'))
        return false;
    snprintf(writer->number_and_start, sizeof(writer->number_and_start),
        "%.*s %.*s", (int)(start - 1 - number), number, (int)(at - 1 - start),
        start);
    return skip_number(&at, digits, '.') && strcmp(at, "tmp") == 0;
}

/* Returns whether the writer of a temporary file has ended. */
static bool is_left(const struct writer *writer, const char *self, time_t made)
{
    char process[SYMC_PROCESS_NAME + 64];

    if (writer->place != digest_place(self))
        return time(NULL) - made > AGE_MAX_S;
    snprintf(process, sizeof(process), "%.*s %s", (int)strcspn(self, " "), self,
        writer->number_and_start);
    return symc_process_find(process, NULL) == SYMC_PROCESS_GONE;
}

void symc_trace_remove_leftovers(int folder)
{
    char self[SYMC_PROCESS_NAME];
    int fd = symc_descriptor_raise(
        openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (list == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    name_self(self);
    for (int i = 0; i < ENTRIES_MAX && (entry = readdir(list)) != NULL; i++) {
        struct writer writer;
        struct stat info;

        if (parse_name(entry->d_name, &writer) &&
            fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
            is_left(&writer, self, info.st_mtime))
            (void)unlinkat(folder, entry->d_name, 0);
    }
    closedir(list);
}
