/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dumps in a separate folder, for the tests of their contents and of their
 * files.
 */
#ifndef T_TRACE_DUMP_UTIL_H
#define T_TRACE_DUMP_UTIL_H

#include "t/tap.h"
#include "t/trace/json.h"
#include "t/trace/ring_util.h"

static const struct symc_trace_format newer = {
    .version = "2.10", .backend_name = "nccl"};

static char folder[] = "/tmp/symmcoll-dump-XXXXXX";
static char path[64];      /* of the dump in it */
static char text[1 << 20]; /* of the dump */

/* Creates the folder; called once, before all tests. */
static inline bool make_folder(void)
{
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(path, sizeof(path), "%s/trace_2", folder);
    return true;
}

static inline bool remove_folder(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0;
}

static inline bool read_text(void)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (file == NULL)
        return false;
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    return true;
}

/* Writes a ring's dump and reads it; false: invalid JSON. */
static inline bool dump(const struct symc_trace_ring *ring, int64_t entries,
    const struct symc_trace_format *format)
{
    if (symc_trace_write(ring, symc_trace_nbytes(entries), path, format) !=
        SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return false;
    }
    return read_text() && json_is_valid(text);
}

/* Returns the number of files in the folder. */
static inline int folder_counts(void)
{
    char command[128];
    FILE *pipe;
    int count = -1;

    snprintf(command, sizeof(command), "ls -A %s | wc -l", folder);
    pipe = popen(command, "r");
    if (pipe == NULL || fscanf(pipe, "%d", &count) != 1)
        count = -1;
    if (pipe != NULL)
        pclose(pipe);
    return count;
}

/* Checks that the folder is empty, or contains only the dump. */
static inline bool folder_holds(bool dump_is_there)
{
    return folder_counts() == (dump_is_there ? 1 : 0);
}

#endif
