/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that collectives on device memory have the same bits as in host
 * memory when work begins late and streams share a device's hardware queues:
 * no operation depends on another operation of its rank running concurrently.
 */
#include "t/cuda/every.h"
#include "t/sanitized.h"

#include <stdio.h>
#include <string.h>

#define COUNT 37
#define ROW 6

/* Runs consecutive operations, each on the result of the one before,
 * alternating between the caller's stream and the group's, without a wait of
 * the host. */
static int a_row(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work;
    float found[COUNT], *at;
    int size = symmcoll_group_size(group), right = 1, sum = 0;

    device_use(rank);
    for (int i = 0; i < COUNT; i++)
        found[i] = (float)(rank + 1);
    at = device_alloc(sizeof(found));
    device_write(at, found, sizeof(found));
    call.stream = device_stream();
    for (int i = 0; i < ROW; i++) {
        work = NULL;
        right &= say(
            symmcoll_all_reduce(group, at, at, COUNT, F32, SUM, &call,
                i % 2 == 0 ? NULL : &work) == SYMMCOLL_OK &&
                (work == NULL || symmcoll_work_wait(work, -1) == SYMMCOLL_OK),
            "in a row");
        symmcoll_work_free(work);
    }
    device_wait(call.stream);
    device_read(found, at, sizeof(found));
    sum = size * (size + 1) / 2;
    for (int i = 1; i < ROW; i++)
        sum *= size;
    for (int i = 0; i < COUNT; i++)
        right &= found[i] == (float)sum;
    device_end_stream(call.stream);
    device_free(at);
    return right;
}

static void on_driver(const char *settings, int n)
{
    static const struct {
        const char *what;
        rank_fn body;
    } all[] = {{"all_reduce", every_all_reduce}, {"reduce", every_reduce},
        {"reduce_scatter", every_reduce_scatter},
        {"all_gather", every_all_gather}, {"gather", every_gather},
        {"scatter", every_scatter}, {"all_to_all", every_all_to_all},
        {"broadcast", every_broadcast}, {"lists", every_lists},
        {"a graph", every_graph}, {"a row of sums", a_row}};
    char what[96];

    if (!fake_configure(settings))
        diag("the fake driver does not take %s", settings);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)snprintf(what, sizeof(what), "%s with %s", all[i].what, settings);
        on_both(n, all[i].body, what);
    }
}

int main(void)
{
    static const size_t counts[EVERY_COUNTS] = {0, 1, 7, 37, 131, 421};

    device_begin();
    memcpy(every_counts, counts, sizeof(counts));
    on_driver("connections=2 delay=300 seed=2", 2);
    if (!SANITIZED) { /* which take a minute for each */
        on_driver("connections=1 delay=0", 3);
        on_driver("connections=0 delay=1000 seed=5", 2);
    }
    return done_testing();
}
