/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of temporary files, and removing those of killed writers.
 *
 * A name identifies the writer: a digest of the boot and the namespace of
 * process numbers, then the process and its start time, since numbers are
 * reused.
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

#define ENTRIES_MAX 4096 /* of a folder that are looked at */

/* Bytes of the file's own name in that of its temporary: both must fit. */
#define SHOWN_MAX 128

/* No dump takes so long: older ones of another machine or boot are left. */
#define AGE_MAX_S 86400

/* The writer, as read from a name. */
struct writer {
    uint64_t place; /* where its number counts */
    char number_and_start[48];
};

/* Where processes have this number: the part of a process name before it. */
static uint64_t digest_place(const char *process)
{
    struct symc_digest digest = SYMC_DIGEST_INIT;
    char place[SYMC_PROCESS_NAME];

    snprintf(place, sizeof(place), "%.*s", (int)strcspn(process, " "), process);
    symc_digest_add(&digest, "process", place);
    return digest.a;
}

/* This process; where its start is unknown, that is 0. */
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

/* Digits up to a character, which is passed over too. */
static bool skip_number(const char **at, const char *digits, char end)
{
    size_t length = strspn(*at, digits);

    if (length == 0 || length > 20 || (*at)[length] != end)
        return false;
    *at += length + 1;
    return true;
}

/* Read a name as symc_trace_temporary_name() makes it. */
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

/* Whether the writer of a temporary file has ended. */
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
