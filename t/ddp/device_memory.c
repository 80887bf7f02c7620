/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests reducers whose gradients are in one array of the program on a device.
 */
#include "t/ddp/alone.h"

#include <string.h>

/* Checks that all elements of the array are a value. */
static int holds(const struct alone *alone, const void *memory, float value)
{
    float found[ALONE_COUNT];
    int right = 1;

    device_wait(alone->stream);
    device_read(found, memory, sizeof(found));
    for (int i = 0; i < ALONE_COUNT; i++)
        right = right && found[i] == value;
    if (!right)
        diag("expected %g, found %g", (double)value, (double)found[0]);
    return right;
}

static int averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    int size = symmcoll_group_size(group), right;
    struct alone alone;

    device_use(rank);
    args.memory = device_alloc(ALONE_COUNT * sizeof(float));
    right = alone_begin(&alone, group, rank, &args);
    device_free(alone.grad);
    alone.grad = args.memory;
    for (int step = 1; right && step < 4; step++) {
        alone_enqueue(&alone, (float)(step * size * (rank + 1)));
        right = alone_run(&alone) && holds(&alone, args.memory,
                                         (float)(step * size * (size + 1) / 2));
        symmcoll_reducer_zero(alone.reducer);
        right = right && holds(&alone, args.memory, 0);
    }
    return alone_end(&alone, right);
}

/* Checks that memory is refused on all ranks, with these words. */
static int is_refused(struct symmcoll_group *group,
    struct symmcoll_tensor *param, void *memory, const char *words)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer;

    args.memory = memory;
    return ended(symmcoll_reducer_create(group, param, 1, &args, &reducer),
        SYMMCOLL_ERR_INVALID, words);
}

static int wrong_memory(struct symmcoll_group *group, int rank)
{
    float host[ALONE_COUNT];
    struct alone alone;
    int right =
        alone_begin(&alone, group, rank, NULL) &&
        is_refused(group, &alone.param, (char *)alone.grad + 2,
            "expected memory at a multiple of 4") &&
        is_refused(group, &alone.param, host, "reducer: memory: expected");

    return alone_end(&alone, right);
}

int main(void)
{
    device_begin();
    on_both(2, averages, "averages are in the program's memory");
    on_both(3, averages, "so are those of three ranks");
    on_both(2, wrong_memory, "other memory is refused");
    return done_testing();
}
