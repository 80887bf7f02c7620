/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fuzz target without libFuzzer: each of its seeds, and each prefix of it,
 * is a test point.
 */
#include "t/fuzz/fuzz.h"
#include "t/tap.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEED_MAX 65536

static int is_seed(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Runs on a copy of exact size, so that a sanitizer detects accesses past the
 * end. */
static void run(const uint8_t *data, size_t nbytes)
{
    uint8_t *copy = malloc(nbytes > 0 ? nbytes : 1);

    if (copy == NULL)
        abort();
    memcpy(copy, data, nbytes);
    (void)LLVMFuzzerTestOneInput(copy, nbytes);
    free(copy);
}

static int survives(const char *path)
{
    static uint8_t data[SEED_MAX];
    FILE *file = fopen(path, "rb");
    size_t nbytes = 0;

    if (file != NULL) {
        nbytes = fread(data, 1, sizeof(data), file);
        fclose(file);
    }
    alarm(60);
    for (size_t i = 1; i <= 16; i++)
        run(data, nbytes * i / 16);
    alarm(0);
    return nbytes > 0;
}

int main(void)
{
    const char *source = getenv("T_SRCDIR");
    char folder[PATH_MAX];
    struct dirent **seeds;
    int n;

    snprintf(folder, sizeof(folder), "%s/t/fuzz/seeds/%s",
        source != NULL ? source : ".", fuzz_name);
    n = scandir(folder, &seeds, is_seed, alphasort);
    plan(1 + (n > 0 ? n : 0));
    ok(n > 0, "there are seeds for %s", fuzz_name);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX + 256];

        snprintf(path, sizeof(path), "%s/%s", folder, seeds[i]->d_name);
        ok(survives(path), "%s survives %s", fuzz_name, seeds[i]->d_name);
        free(seeds[i]);
    }
    if (n >= 0)
        free(seeds);
    return done_testing();
}
