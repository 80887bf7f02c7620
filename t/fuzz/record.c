/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flight recorders: the bytes are changes to a good record, each an offset of
 * two bytes, a length and that many bytes; the first byte selects how much of
 * it is mapped. The output must still be valid JSON.
 */
#include "t/fuzz/fuzz.h"
#include "t/trace/json.h"
#include "t/trace/ring_util.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES 8
#define RANKS_MAX 300 /* a larger group makes only a larger file */

const char fuzz_name[] = "record";

static char text[4 << 20];

static void change(
    unsigned char *memory, size_t room, const uint8_t *data, size_t nbytes)
{
    while (nbytes >= 3) {
        size_t offset = (size_t)data[0] | (size_t)data[1] << 8;
        size_t length = data[2];

        data += 3;
        nbytes -= 3;
        if (length > nbytes)
            length = nbytes;
        for (size_t i = 0; i < length && offset + i < room; i++)
            memory[offset + i] = data[i];
        data += length;
        nbytes -= length;
    }
}

static bool is_json(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (file == NULL)
        return false;
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    return strlen(text) == n && json_is_valid(text);
}

static void write_all(const struct symc_trace_ring *ring, size_t nbytes)
{
    struct symc_trace_format format = {
        .version = "2.10", .backend_name = "nccl", .reason = "a group failed"};
    char position[SYMC_TRACE_POSITION];
    char folder[64], path[80];

    /* Each dump scans its folder. */
    snprintf(folder, sizeof(folder), "/tmp/symmcoll-fuzz-record-%ld",
        (long)getpid());
    snprintf(path, sizeof(path), "%s/dump", folder);
    if (mkdir(folder, 0700) != 0)
        abort();
    if (symc_trace_write(ring, nbytes, path, &format) == SYMMCOLL_OK &&
        !is_json(path))
        abort();
    format.syntax = SYMC_TRACE_PICKLE;
    format.version = "2.2";
    (void)symc_trace_write(ring, nbytes, path, &format);
    unlink(path);
    rmdir(folder);
    (void)symc_trace_position(ring, nbytes, "0", position, sizeof(position));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct symc_trace_ring *ring = make_ring(ENTRIES);
    size_t room = symc_trace_nbytes(ENTRIES);
    size_t mapped = room;
    struct symc_trace_group *groups = symc_trace_groups(ring, ring->capacity);

    record(ring, 0, 1, ENTRIES + 2);
    if (nbytes > 0) {
        /* A quarter of the inputs map less. */
        if (data[0] < 64)
            mapped = room * data[0] / 64;
        change((unsigned char *)ring, room, data + 1, nbytes - 1);
    }
    for (int i = 0; i < SYMC_TRACE_GROUPS; i++)
        if (groups[i].size > RANKS_MAX)
            groups[i].size %= RANKS_MAX;
    write_all(ring, mapped);
    free(ring);
    return 0;
}
