/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks with settings that divide memory differently: all get CONFIG,
 * which names each rank's value, before any data is touched.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 30000

/* The setting of rank 1, and its text in the error. */
struct setting {
    const char *name;
    const char *value;
    const char *text;
};

static bool is_refused(
    struct symmcoll_group *group, size_t count, const struct setting *setting)
{
    static float buf[COUNT];
    bool right;

    buf[0] = 42;
    right = symmcoll_all_reduce(group, buf, buf, count, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_CONFIG &&
            strstr(symmcoll_last_error(), "settings differ") != NULL &&
            strstr(symmcoll_last_error(), setting->text) != NULL &&
            buf[0] == 42;
    if (!right)
        diag("%s: %s", setting->name, symmcoll_last_error());
    return right;
}

static int join_and_differ(int rank, int size, void *arg)
{
    const struct setting *setting = arg;
    struct symmcoll_world *world;
    struct symmcoll_group *group;

    (void)size;
    if (rank == 1)
        setenv(setting->name, setting->value, 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 1;
    }
    group = symmcoll_world_group(world);
    bool right =
        is_refused(group, 3, setting) && is_refused(group, COUNT, setting) &&
        is_refused(group, 0, setting) && symmcoll_group_sequence(group) == 3;
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

static int runs_well(const struct setting *setting)
{
    int statuses[3] = {0};

    return ranks_spawn(
               3, join_and_differ, (void *)(uintptr_t)setting, statuses) &&
           statuses[0] == 0 && statuses[1] == 0 && statuses[2] == 0;
}

int main(void)
{
    static const struct setting settings[] = {
        {"SYMMCOLL_HOST_CHUNK", "64KiB", "chunk"},
        {"SYMMCOLL_HOST_SMALL_MAX", "1KiB", "small_max"},
        {"SYMMCOLL_HOST_REDUCE_RUN", "4", "reduce_run"},
        {"SYMMCOLL_HOST_DIRECT", "off", "direct"}};

    plan(4);
    for (size_t i = 0; i < 4; i++)
        ok(runs_well(&settings[i]),
            "%s=%s on one rank is a CONFIG error on all", settings[i].name,
            settings[i].value);
    return done_testing();
}
