/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests more than 2^31 elements: every byte of a broadcast and of an
 * all_reduce of two processes. Skipped if there is not enough memory.
 */
#include "../tap.h"
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define COUNT (((size_t)1 << 31) + 12345)
#define PATTERN ((size_t)1000003) /* a prime: no chunk begins like another */
#define NEEDED_KIB (10ul * 1024 * 1024)

/* Returns the contribution of a rank: its pattern, repeated. */
static unsigned char *make_pattern(int rank)
{
    unsigned char *pattern = malloc(PATTERN);

    if (pattern == NULL)
        abort();
    data_fill(pattern, SYMMCOLL_UINT8, 0, PATTERN, rank, 1);
    return pattern;
}

static void fill(unsigned char *buf, int rank)
{
    unsigned char *pattern = make_pattern(rank);

    for (size_t at = 0; at < COUNT; at += PATTERN)
        memcpy(buf + at, pattern, COUNT - at < PATTERN ? COUNT - at : PATTERN);
    free(pattern);
}

static bool holds(const unsigned char *buf, const unsigned char *pattern)
{
    for (size_t at = 0; at < COUNT; at += PATTERN) {
        if (!data_is_same("a piece", buf + at, pattern,
                COUNT - at < PATTERN ? COUNT - at : PATTERN)) {
            diag("which begins at %zu", at);
            return false;
        }
    }
    return true;
}

static int all_is_right(struct symmcoll_group *group, int rank)
{
    unsigned char *buf = mmap(NULL, COUNT, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *first = make_pattern(0), *second = make_pattern(1);

    if (buf == MAP_FAILED)
        return 0;
    if (rank == 1)
        fill(buf, rank);
    bool right = symmcoll_broadcast(group, buf, COUNT, SYMMCOLL_UINT8, 1, NULL,
                     NULL) == SYMMCOLL_OK;
    right = right && (rank == 1 || holds(buf, second));
    if (rank == 0)
        fill(buf, rank);
    right = right && symmcoll_all_reduce(group, buf, buf, COUNT, SYMMCOLL_UINT8,
                         SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    for (size_t i = 0; i < PATTERN; i++)
        first[i] = (unsigned char)(first[i] + second[i]);
    right = right && holds(buf, first);
    free(first);
    free(second);
    munmap(buf, COUNT);
    return right;
}

static unsigned long memory_available_kib(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long kib = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
    return kib;
}

int main(void)
{
    const char *sanitizer = getenv("T_SANITIZER");
    unsigned long kib = memory_available_kib();

    if (kib < NEEDED_KIB)
        skip_all("%lu MiB of memory needed, %lu available", NEEDED_KIB / 1024,
            kib / 1024);
    if (sanitizer != NULL && strcmp(sanitizer, "no") != 0)
        skip_all("takes minutes with a sanitizer");
    plan(1);
    ok(ranks_run(2, all_is_right), "2^31 + 12345 elements come out right");
    return done_testing();
}
