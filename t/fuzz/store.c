/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File stores: after a byte of choices the bytes are the file. One choice
 * corrects the checksums of its records, which no fuzzer would guess.
 */
#include "t/fuzz/fuzz.h"

#include <symmcoll.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER 32   /* bytes before the first record */
#define HEAD 16     /* of a record: its sum, kind, and two lengths */
#define GOOD_SUMS 4 /* choices; the two lowest bits are the workers */

const char fuzz_name[] = "store";

static uint32_t sum_bytes(const uint8_t *data, size_t nbytes)
{
    uint32_t sum = UINT32_C(2166136261);

    for (size_t i = 0; i < nbytes; i++)
        sum = (sum ^ data[i]) * UINT32_C(16777619);
    return sum;
}

static void put_sums_right(uint8_t *data, size_t nbytes)
{
    size_t at = HEADER;

    while (at < nbytes && nbytes - at >= HEAD) {
        uint32_t lengths[2], sum;
        size_t rest = nbytes - at - HEAD;

        memcpy(lengths, data + at + 8, sizeof(lengths));
        if (lengths[0] > rest || lengths[1] > rest - lengths[0])
            return;
        rest = (size_t)lengths[0] + lengths[1];
        sum = sum_bytes(data + at + 4, HEAD - 4 + rest);
        memcpy(data + at, &sum, sizeof(sum));
        at += HEAD + rest;
    }
}

static void use_store(const char *path, int num_workers)
{
    static const char *const keys[] = {"key", "", "n"};
    struct symmcoll_store *store;
    int64_t sum;
    size_t count, nbytes;
    int exist, good = 0; /* whatever they return */
    void *value;

    if (symmcoll_store_open_file(path, num_workers, &store) != SYMMCOLL_OK)
        return;
    if (symmcoll_store_set_timeout(store, 0) != SYMMCOLL_OK)
        abort();
    good += symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (symmcoll_store_check(store, &keys[i], 1, &exist) == SYMMCOLL_OK &&
            exist &&
            symmcoll_store_get(store, keys[i], &value, &nbytes) == SYMMCOLL_OK)
            free(value);
    good += symmcoll_store_add(store, "n", 1, &sum) == SYMMCOLL_OK;
    good += symmcoll_store_append(store, "key", "x", 1) == SYMMCOLL_OK;
    if (symmcoll_store_queue_pop(store, "q", 0, &value, &nbytes) == SYMMCOLL_OK)
        free(value);
    good += symmcoll_store_queue_push(store, "q", "x", 1) == SYMMCOLL_OK;
    good += symmcoll_store_delete(store, "", &exist) == SYMMCOLL_OK;
    symmcoll_store_close(store);
    (void)good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char path[64];
    uint8_t *copy;
    int fd;

    if (nbytes == 0)
        return 0;
    copy = malloc(nbytes);
    snprintf(
        path, sizeof(path), "/tmp/symmcoll-fuzz-store-%ld", (long)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (copy == NULL || fd < 0)
        abort();
    memcpy(copy, data, nbytes);
    if ((data[0] & GOOD_SUMS) != 0)
        put_sums_right(copy + 1, nbytes - 1);
    if (write(fd, copy + 1, nbytes - 1) != (ssize_t)(nbytes - 1) ||
        close(fd) != 0)
        abort();
    use_store(path, data[0] & 3);
    unlink(path);
    free(copy);
    return 0;
}
