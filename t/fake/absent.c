/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests worlds in which the other ranks do not exist. */
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OK(call) succeeds((call), #call)

static int succeeds(symmcoll_status_t status, const char *call)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s: %s", call, symmcoll_status_name(status),
            symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

static struct symmcoll_world *make(
    int rank, int size, double latency, double bandwidth)
{
    struct symmcoll_fake_args args = SYMMCOLL_FAKE_ARGS_INIT;
    struct symmcoll_world *world = NULL;

    args.rank = rank;
    args.world_size = size;
    args.latency = latency;
    args.bandwidth = bandwidth;
    return OK(symmcoll_fake_world(&args, &world)) ? world : NULL;
}

/* ---- data ---- */

static int end_at_once(struct symmcoll_group *all)
{
    float values[8] = {1, 2, 3, 4, 5, 6, 7, 8}, sum[8] = {9, 9};
    struct symmcoll_work *work = NULL;
    int good;

    good =
        OK(symmcoll_all_reduce(
            all, sum, values, 8, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL)) &&
        sum[0] == 9 && sum[1] == 9 &&
        OK(symmcoll_reduce_scatter(
            all, sum, values, 1, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL)) &&
        sum[0] == 9 &&
        OK(symmcoll_broadcast(all, sum, 8, SYMMCOLL_FLOAT32, 7, NULL, NULL)) &&
        OK(symmcoll_all_to_all(
            all, sum, values, 1, SYMMCOLL_FLOAT32, NULL, NULL)) &&
        sum[0] == 9 && OK(symmcoll_barrier(all, NULL, &work)) &&
        OK(symmcoll_work_wait(work, 60)) &&
        symmcoll_work_test(work) == SYMMCOLL_OK &&
        symmcoll_group_sequence(all) == 5;
    symmcoll_work_free(work);
    return good;
}

static int gather_what_is_here(struct symmcoll_world *world)
{
    struct symmcoll_group *all = symmcoll_world_group(world);
    float mine[2] = {3, 4}, gathered[16] = {0};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 2, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good = OK(symmcoll_all_gather(
        all, gathered, mine, 2, SYMMCOLL_FLOAT32, NULL, NULL));

    for (int i = 0; i < 16; i++)
        good = good && gathered[i] == (float)(3 + i % 2);
    good = good && OK(symmcoll_f_all_gather(all, &in, 0, NULL, &out, NULL)) &&
           OK(symmcoll_f_wait(world, &out, -1)) && out.shape[0] == 16 &&
           ((float *)out.data)[15] == 4;
    symmcoll_f_free(world, &out);
    return good;
}

/* Gathers several buffers at once: their time is that of one operation on all
 * elements. */
static int several_at_once(void)
{
    struct symmcoll_world *world = make(1, 4, 10e-6, 1e9);
    struct symmcoll_group *all = symmcoll_world_group(world);
    int32_t one[1] = {7}, two[2] = {8, 9}, ones[4] = {0}, twos[8] = {0};
    const void *ins[2] = {one, two};
    void *outs[2] = {ones, twos};
    const size_t counts[2] = {1, 2};
    double before, together, apart;
    int good = world != NULL && OK(symmcoll_all_gather_coalesced(all, outs, ins,
                                    counts, 2, SYMMCOLL_INT32, NULL, NULL));

    for (int i = 0; i < 8; i++)
        good = good && ones[i / 2] == 7 && twos[i] == 8 + i % 2;
    good = good && outs[0] == ones && outs[1] == twos && ins[1] == two;
    before = symmcoll_fake_clock(world);
    outs[0] = one;
    outs[1] = two;
    good = good &&
           OK(symmcoll_all_reduce_coalesced(all, outs, ins, counts, 2,
               SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL)) &&
           one[0] == 7 && two[1] == 9;
    together = symmcoll_fake_clock(world) - before;
    good = good && OK(symmcoll_all_reduce(all, ones, ones, 3, SYMMCOLL_INT32,
                       SYMMCOLL_SUM, NULL, NULL));
    apart = symmcoll_fake_clock(world) - before - together;
    if (fabs(together - apart) > 1e-12)
        diag("expected %g us, found %g us", apart * 1e6, together * 1e6);
    return symmcoll_finalize(world) == SYMMCOLL_OK && good && apart > 0 &&
           fabs(together - apart) <= 1e-12;
}

static int operations_end(void)
{
    struct symmcoll_world *world = make(5, 8, 0, 0);
    int good = world != NULL && symmcoll_world_rank(world) == 5 &&
               symmcoll_world_size(world) == 8 &&
               end_at_once(symmcoll_world_group(world)) &&
               gather_what_is_here(world) && symmcoll_fake_clock(world) == 0;

    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

static int is_refused(symmcoll_status_t status)
{
    return status == SYMMCOLL_ERR_UNSUPPORTED &&
           strstr(symmcoll_last_error(), "found a fake one") != NULL;
}

/* Checks that sends and receives are refused, because no peer can match
 * them. */
static int pairs_are_refused(void)
{
    static const int dst_of[] = {1, 0};
    struct symmcoll_world *world = make(0, 2, 0, 0);
    struct symmcoll_group *all = symmcoll_world_group(world);
    struct symmcoll_work *work = NULL;
    float value = 3, other = 4;
    struct symmcoll_pair_op op = {
        sizeof op, SYMMCOLL_PAIR_RECV, SYMMCOLL_FLOAT32, &other, 1, 1, 0};
    int good;

    good = world != NULL &&
           is_refused(symmcoll_send(
               all, &value, 1, SYMMCOLL_FLOAT32, 1, 0, NULL, NULL)) &&
           is_refused(symmcoll_send(
               all, &value, 1, SYMMCOLL_FLOAT32, 1, 0, NULL, &work)) &&
           is_refused(symmcoll_recv(
               all, &other, 1, SYMMCOLL_FLOAT32, 1, 0, NULL, NULL, NULL)) &&
           is_refused(symmcoll_recv(all, &other, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_ANY_SOURCE, 0, NULL, NULL, NULL)) &&
           is_refused(symmcoll_batch(all, &op, 1, NULL, NULL)) &&
           is_refused(symmcoll_permute(
               all, &other, &value, 1, SYMMCOLL_FLOAT32, dst_of, NULL, NULL)) &&
           other == 4 && work == NULL && symmcoll_group_sequence(all) == 0;
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

static int arguments_are_checked(void)
{
    struct symmcoll_world *world = make(1, 4, 0, 0);
    struct symmcoll_group *all = symmcoll_world_group(world);
    float value = 0;
    int good;

    good = symmcoll_broadcast(all, &value, 1, SYMMCOLL_FLOAT32, 4, NULL,
               NULL) == SYMMCOLL_ERR_INVALID &&
           symmcoll_all_reduce(all, &value, NULL, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
           symmcoll_group_sequence(all) == 0;
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

static int groups_are_made(void)
{
    struct symmcoll_world *world = make(6, 16, 0, 0);
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *mine = NULL, *other = NULL;
    const int even[] = {2, 4, 6}, odd[] = {1, 3};
    int32_t value = 8, all[3] = {0};
    int good;

    args.ranks = even;
    args.nranks = 3;
    good = OK(symmcoll_group_create(world, &args, &mine));
    args.ranks = odd;
    args.nranks = 2;
    good = good && OK(symmcoll_group_create(world, &args, &other)) &&
           symmcoll_group_rank(mine) == 2 && symmcoll_group_size(mine) == 3 &&
           symmcoll_group_rank(other) == -1 &&
           OK(symmcoll_all_gather(
               mine, all, &value, 1, SYMMCOLL_INT32, NULL, NULL)) &&
           all[0] == 8 && all[2] == 8 &&
           symmcoll_barrier(other, NULL, NULL) == SYMMCOLL_NOT_MEMBER;
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

/* ---- time ---- */

/* Checks the time of a call in microseconds. */
static int takes(struct symmcoll_world *world, double *last, double expected)
{
    double now = symmcoll_fake_clock(world), spent = (now - *last) * 1e6;

    *last = now;
    if (fabs(spent - expected) > 1e-6 * expected + 1e-9)
        diag("expected %g us, found %g us", expected, spent);
    return fabs(spent - expected) <= 1e-6 * expected + 1e-9;
}

/* Uses 8 ranks, 10 us a message, and a byte a nanosecond. */
static int time_follows_the_model(void)
{
    struct symmcoll_world *world = make(3, 8, 10e-6, 1e9);
    struct symmcoll_group *all = symmcoll_world_group(world);
    char *in = calloc(8, 8000), *out = calloc(8, 8000);
    double last = 0;
    int good;

    good =
        OK(symmcoll_all_reduce(
            all, out, in, 8000, SYMMCOLL_UINT8, SYMMCOLL_SUM, NULL, NULL)) &&
        takes(world, &last, 14 * (10 + 1)) &&
        OK(symmcoll_all_gather(
            all, out, in, 1000, SYMMCOLL_UINT8, NULL, NULL)) &&
        takes(world, &last, 7 * (10 + 1)) &&
        OK(symmcoll_reduce_scatter(
            all, out, in, 2000, SYMMCOLL_UINT8, SYMMCOLL_SUM, NULL, NULL)) &&
        takes(world, &last, 7 * (10 + 2)) &&
        OK(symmcoll_broadcast(all, in, 3000, SYMMCOLL_UINT8, 0, NULL, NULL)) &&
        takes(world, &last, 3 * (10 + 3)) &&
        OK(symmcoll_gather(
            all, NULL, in, 1000, SYMMCOLL_UINT8, 0, NULL, NULL)) &&
        takes(world, &last, 10 + 1) &&
        OK(symmcoll_gather(
            all, out, in, 1000, SYMMCOLL_UINT8, 3, NULL, NULL)) &&
        takes(world, &last, 7 * (10 + 1)) &&
        OK(symmcoll_all_to_all(
            all, out, in, 1000, SYMMCOLL_UINT8, NULL, NULL)) &&
        takes(world, &last, 7 * (10 + 1)) &&
        OK(symmcoll_barrier(all, NULL, NULL)) && takes(world, &last, 30) &&
        OK(symmcoll_fake_advance(world, 1e-3)) && takes(world, &last, 1000);
    free(in);
    free(out);
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

/* Runs a schedule of 4096 ranks, from the view of one: an all_reduce in rows
 * of 64 and then in columns of 64 takes less time than one of all. */
static int thousands_of_ranks(void)
{
    struct symmcoll_world *world = make(4095, 4096, 5e-6, 10e9);
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *part[2] = {NULL, NULL};
    char *buffer = calloc(1, 1 << 20);
    double flat, before, meshed;
    int good = world != NULL;

    for (int dim = 0; dim < 2 && good; dim++) {
        int ranks[64];

        for (int i = 0; i < 64; i++)
            ranks[i] = dim == 0 ? 63 * 64 + i : i * 64 + 63;
        args.ranks = ranks;
        args.nranks = 64;
        good = OK(symmcoll_group_create(world, &args, &part[dim]));
    }
    before = symmcoll_fake_clock(world);
    good = good && before == 0 && /* creating groups takes no time */
           OK(symmcoll_all_reduce(symmcoll_world_group(world), buffer, buffer,
               1 << 20, SYMMCOLL_UINT8, SYMMCOLL_SUM, NULL, NULL));
    flat = symmcoll_fake_clock(world) - before;
    for (int dim = 0; dim < 2 && good; dim++)
        good = OK(symmcoll_all_reduce(part[dim], buffer, buffer, 1 << 20,
            SYMMCOLL_UINT8, SYMMCOLL_SUM, NULL, NULL));
    meshed = symmcoll_fake_clock(world) - before - flat;
    diag("flat %g ms, in a mesh %g ms", flat * 1e3, meshed * 1e3);
    good = good && flat > 0.040 && meshed > 0 && meshed < flat / 20;
    free(buffer);
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

/* ---- errors ---- */

static int errors_are_injected(void)
{
    struct symmcoll_world *world = make(0, 4, 1e-6, 0);
    struct symmcoll_group *all = symmcoll_world_group(world);
    float value = 0;
    int good;

    good = OK(symmcoll_fake_set_error(world, SYMMCOLL_ERR_UNSUPPORTED)) &&
           symmcoll_all_reduce(all, &value, &value, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_UNSUPPORTED &&
           strstr(symmcoll_last_error(), "the fake world is set to fail") !=
               NULL &&
           symmcoll_fake_clock(world) == 0 &&
           OK(symmcoll_fake_set_error(world, SYMMCOLL_OK)) &&
           OK(symmcoll_barrier(all, NULL, NULL)) &&
           symmcoll_fake_clock(world) > 0 &&
           symmcoll_fake_set_error(world, 4) == SYMMCOLL_ERR_INVALID &&
           symmcoll_fake_set_error(NULL, 0) == SYMMCOLL_ERR_INVALID &&
           symmcoll_fake_advance(world, -1) == SYMMCOLL_ERR_INVALID;
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

static int a_failed_world_ends(void)
{
    struct symmcoll_world *world = make(0, 4, 0, 0);
    struct symmcoll_group *all = symmcoll_world_group(world);
    float value = 0;
    int good;

    if (world == NULL)
        return 0;
    symmcoll_group_abort(all, "no more");
    good = symmcoll_all_reduce(all, &value, &value, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_ABORTED;
    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

static int refuses(
    int rank, int size, double latency, double bandwidth, const char *detail)
{
    struct symmcoll_fake_args args = SYMMCOLL_FAKE_ARGS_INIT;
    struct symmcoll_world *world = NULL;

    args.rank = rank;
    args.world_size = size;
    args.latency = latency;
    args.bandwidth = bandwidth;
    return symmcoll_fake_world(&args, &world) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), detail) != NULL && world == NULL;
}

static int worlds_are_checked(void)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world = NULL;
    int good = refuses(4, 4, 0, 0, "rank: expected 0 to 3, found 4") &&
               refuses(-1, 4, 0, 0, "found -1") &&
               refuses(0, 0, 0, 0, "expected 1 to 4096, found 0") &&
               refuses(0, 5000, 0, 0, "found 5000") &&
               refuses(0, 2, -1, 0, "latency") &&
               refuses(0, 2, NAN, 0, "latency") &&
               refuses(0, 2, 0, -1, "bandwidth") &&
               symmcoll_fake_world(NULL, NULL) == SYMMCOLL_ERR_INVALID &&
               isnan(symmcoll_fake_clock(NULL));

    return good && OK(symmcoll_init(&args, &world)) &&
           isnan(symmcoll_fake_clock(world)) &&
           symmcoll_fake_advance(world, 1) == SYMMCOLL_ERR_INVALID &&
           symmcoll_finalize(world) == SYMMCOLL_OK;
}

/* Runs several worlds in one process, also after a failed one. */
static int worlds_follow(void)
{
    return operations_end() && errors_are_injected() && a_failed_world_ends() &&
           operations_end();
}

int main(void)
{
    plan(10);
    ok(process_run(operations_end),
        "operations with ranks that are not there end at once; gathered "
        "elements are this rank's (F41)");
    ok(process_run(several_at_once),
        "several buffers are gathered, and take the time of one operation (F41 "
        "F44)");
    ok(process_run(arguments_are_checked), "their arguments are checked (F41)");
    ok(process_run(pairs_are_refused), "sends and receives are refused (F41)");
    ok(process_run(groups_are_made), "groups of such ranks are made (F41 F43)");
    ok(process_run(errors_are_injected), "errors are injected and end (F43)");
    ok(process_run(time_follows_the_model),
        "a virtual clock has the messages' latency and bytes (F43 F44)");
    ok(process_run(thousands_of_ranks),
        "schedules of thousands of ranks are compared (F44)");
    ok(process_run(worlds_are_checked), "wrong arguments are refused");
    ok(process_run(worlds_follow),
        "fake worlds follow each other in one process, one that fails too");
    return done_testing();
}
