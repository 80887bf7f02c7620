/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests host and device memory in one group: operations on both, in one order
 * of calls; ranks that pass different kinds of memory in one call; and
 * objects, which travel through host memory beside operations on devices.
 */
#include "t/cuda/members.h"
#include "t/object/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 100
#define ROUNDS 8
#define LARGE 20000 /* bytes; more than fit into an object's first message */

static const enum symc_kind kinds[] = {SYMC_ALL_REDUCE, SYMC_ALL_GATHER,
    SYMC_REDUCE_SCATTER, SYMC_BROADCAST, SYMC_ALL_TO_ALL, SYMC_GATHER,
    SYMC_SCATTER, SYMC_REDUCE};

static int works_on_devices(struct symmcoll_group *group, int rank)
{
    struct collective one = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = COUNT};

    return same_as_host(group, rank, &one);
}

/* ---- differing ranks ---- */

/* Checks the error on every rank: it names the rank that passed the odd kind
 * of memory, and both kinds. */
static int is_told(symmcoll_status_t status, const char *text, int odd,
    bool odd_on_device, int size)
{
    const char *other = odd_on_device ? "host memory" : "device memory";
    const char *own = odd_on_device ? "device memory" : "host memory";
    char named[64];
    int right = ended(status, SYMMCOLL_ERR_MISMATCH, "memory");

    snprintf(named, sizeof(named), "rank %d passed %s", odd, own);
    right = right && say(strstr(text, named) != NULL, named);
    if (size == 2)
        snprintf(named, sizeof(named), "rank %d passed %s", 1 - odd, other);
    else
        snprintf(named, sizeof(named), "%s", other);
    right = right && say(strstr(text, named) != NULL, named);
    if (!right)
        diag("found: %s", text);
    return right;
}

/* One rank passes memory of another kind than all others. */
static int differs(struct symmcoll_group *group, int rank, enum symc_kind kind,
    size_t count, bool odd_on_device, bool with_work)
{
    const struct collective one = {.kind = kind, .dtype = F32, .count = count};
    int size = symmcoll_group_size(group), odd = size - 1;
    size_t nbytes = (size_t)size * count * sizeof(float);
    bool on_device = (rank == odd) == odd_on_device;
    void *out = on_device ? device_alloc(nbytes) : calloc(1, nbytes);
    void *in = on_device ? device_alloc(nbytes) : calloc(1, nbytes);
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status =
        collective_call(group, &one, out, in, NULL, with_work ? &work : NULL);
    char text[1024];
    int right;

    snprintf(text, sizeof(text), "%s", symmcoll_last_error());
    if (with_work && status == SYMMCOLL_OK) {
        status = symmcoll_work_wait(work, 60);
        snprintf(text, sizeof(text), "%s", symmcoll_work_error(work));
        symmcoll_work_free(work);
    }
    right = is_told(status, text, odd, odd_on_device, size);
    if (!right)
        diag("%s of %zu, %s", symc_kind_name(kind), count,
            with_work ? "with a work" : "without");
    if (on_device) {
        device_free(out);
        device_free(in);
    } else {
        free(out);
        free(in);
    }
    return right;
}

static int differing(struct symmcoll_group *group, int rank)
{
    int right = 1;

    device_use(rank);
    for (int opened = 0; opened < 2 && right; opened++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds) && right; k++) {
            for (int way = 0; way < 8 && right; way++)
                right = differs(group, rank, kinds[k],
                    (way & 1) != 0 ? 5 : 3000, (way & 2) != 0, (way & 4) != 0);
        }
        right = right && works_on_devices(group, rank);
    }
    return right;
}

/* ---- both kinds in one group ---- */

struct both {
    struct symmcoll_group *group;
    int rank, size;
    float *in, *out; /* of the device */
    float host[2];
    struct symmcoll_work *works[2];
};

static int begin(struct both *both, struct symmcoll_group *group, int rank)
{
    const float one = (float)rank + 1;

    *both = (struct both){
        .group = group, .rank = rank, .size = symmcoll_group_size(group)};
    both->host[0] = one;
    device_use(rank);
    both->in = device_alloc(sizeof(float));
    both->out = device_alloc(sizeof(float));
    device_write(both->in, &one, sizeof(one));
    return both->in != NULL && both->out != NULL;
}

static int end(struct both *both, int right)
{
    device_free(both->in);
    device_free(both->out);
    return right;
}

/* Sums all ranks' numbers in one kind of memory. */
static symmcoll_status_t add(struct both *both, int on_device, bool with_work)
{
    return symmcoll_all_reduce(both->group,
        on_device ? both->out : &both->host[1],
        on_device ? both->in : &both->host[0], 1, F32, SUM, NULL,
        with_work ? &both->works[on_device] : NULL);
}

static int is_sum(const struct both *both)
{
    float found = 0, expected = (float)(both->size * (both->size + 1)) / 2;

    device_read(&found, both->out, sizeof(found));
    if (found != expected || both->host[1] != expected)
        diag("expected %g, found %g and %g", expected, found, both->host[1]);
    return found == expected && both->host[1] == expected;
}

/* One rank waits late, another waits in the other order. */
static int wait_for_both(struct both *both, int first)
{
    int right = 1;

    for (int i = 0; i < 2; i++) {
        struct symmcoll_work **work = &both->works[(first + i) % 2];

        right = right && symmcoll_work_wait(*work, 60) == SYMMCOLL_OK;
        symmcoll_work_free(*work);
        *work = NULL;
    }
    return right;
}

static int interleaved(struct symmcoll_group *group, int rank)
{
    struct both both;
    uint64_t before;
    int right = begin(&both, group, rank);

    before = symmcoll_group_sequence(group);
    for (int round = 0; round < ROUNDS && right; round++) {
        int first = round % 2;

        right = say(add(&both, first, true) == SYMMCOLL_OK &&
                        add(&both, !first, true) == SYMMCOLL_OK,
                    "works") &&
                wait_for_both(&both, (round / 2 + rank) % 2) && is_sum(&both) &&
                say(add(&both, first, false) == SYMMCOLL_OK &&
                        add(&both, !first, false) == SYMMCOLL_OK,
                    "calls") &&
                say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK,
                    "barrier") &&
                is_sum(&both);
    }
    right = right && say(symmcoll_group_sequence(group) - before == 5 * ROUNDS,
                         "every call has a number");
    return end(&both, right);
}

/* ---- objects ---- */

static int all_gathers(struct both *both)
{
    struct symmcoll_object all[8] = {{0}};
    struct symmcoll_object own = object_make(LARGE, both->rank);
    int right = object_ok(
        symmcoll_all_gather_object(both->group, all, &own, LARGE, NULL));

    for (int r = 0; r < both->size; r++)
        right = right && object_is(&all[r], LARGE, r);
    symmcoll_objects_free(all, (size_t)both->size);
    if (right)
        right = object_ok(symmcoll_gather_object(
            both->group, both->rank == 0 ? all : NULL, &own, 0, LARGE, NULL));
    for (int r = 0; r < both->size && both->rank == 0; r++)
        right = right && object_is(&all[r], LARGE, r);
    symmcoll_objects_free(all, (size_t)both->size);
    symmcoll_objects_free(&own, 1);
    return say(right, "gathers");
}

static int spreads(struct both *both)
{
    struct symmcoll_object all[8] = {{0}}, got = {0};
    int root = both->size - 1, right;

    for (int r = 0; r < both->size && both->rank == root; r++)
        all[r] = object_make(LARGE, r);
    right = object_ok(symmcoll_scatter_object_list(both->group, &got,
                both->rank == root ? all : NULL, root, LARGE, NULL)) &&
            object_is(&got, LARGE, both->rank) &&
            object_ok(symmcoll_broadcast_object_list(both->group, all,
                (size_t)both->size, root, LARGE * (size_t)both->size, NULL));
    for (int r = 0; r < both->size; r++)
        right = right && object_is(&all[r], LARGE, r);
    symmcoll_objects_free(&got, 1);
    symmcoll_objects_free(all, (size_t)both->size);
    return say(right, "spreads");
}

static int sends(struct both *both)
{
    struct symmcoll_object one = {0};
    int right = 1, source = -1;

    if (both->rank == 0) {
        one = object_make(LARGE, 0);
        right = object_ok(
            symmcoll_send_object_list(both->group, &one, 1, 1, 7, NULL));
    } else if (both->rank == 1) {
        right = object_ok(symmcoll_recv_object_list(both->group, &one, 1,
                    SYMMCOLL_ANY_SOURCE, 7, &source, LARGE, NULL)) &&
                source == 0 && object_is(&one, LARGE, 0);
    }
    symmcoll_objects_free(&one, 1);
    return say(right, "sends");
}

/* Checks that memory which the host cannot read is refused before other ranks
 * see the call. */
static int refuses_device_memory(struct both *both)
{
    struct symmcoll_object one = {both->in, sizeof(float), 0}, all[8] = {{0}};
    struct symmcoll_group *group = both->group;
    const char *text = "expected an object in host memory, found 0x";
    int peer = (both->rank + 1) % both->size;

    for (int r = 0; r < both->size; r++)
        all[r] = one;
    return object_fails(symmcoll_all_gather_object(group, all, &one, 0, NULL),
               SYMMCOLL_ERR_INVALID, text) &&
           object_fails(symmcoll_broadcast_object_list(
                            group, &one, 1, both->rank, 0, NULL),
               SYMMCOLL_ERR_INVALID, text) &&
           object_fails(symmcoll_scatter_object_list(
                            group, &all[0], all, both->rank, 0, NULL),
               SYMMCOLL_ERR_INVALID, text) &&
           object_fails(
               symmcoll_send_object_list(group, &one, 1, peer, 7, NULL),
               SYMMCOLL_ERR_INVALID, text);
}

/* Exchanges objects while an operation is in flight on a blocked stream. */
static int objects(struct symmcoll_group *group, int rank)
{
    struct both both;
    int right =
        begin(&both, group, rank) && add(&both, 1, false) == SYMMCOLL_OK;
    CUstream stream = device_stream();

    fake_stall(stream);
    right = right && symmcoll_group_set_stream(group, stream) == SYMMCOLL_OK &&
            say(add(&both, 1, true) == SYMMCOLL_OK, "a work") &&
            all_gathers(&both) && spreads(&both) && sends(&both) &&
            refuses_device_memory(&both) &&
            say(symmcoll_work_test(both.works[1]) == SYMMCOLL_IN_PROGRESS,
                "the device has not moved");
    fake_resume(stream);
    right =
        say(symmcoll_work_wait(both.works[1], 60) == SYMMCOLL_OK, "the wait") &&
        right;
    symmcoll_work_free(both.works[1]);
    right = symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK && right;
    right = right && add(&both, 0, false) == SYMMCOLL_OK && is_sum(&both);
    device_wait(stream);
    device_end_stream(stream);
    return end(&both, right);
}

/* ---- barriers with devices ---- */

static symmcoll_status_t barrier_on(struct symmcoll_group *group, int device)
{
    return symmcoll_barrier_devices(group, &device, 1, NULL, NULL);
}

/* Names devices before any other call has placed the group. An invalid name is
 * passed on one rank only, which enters the barrier later. */
static int names_devices(struct symmcoll_group *group, int rank)
{
    static const int two[] = {0, 1};
    uint64_t before = symmcoll_group_sequence(group);
    int right =
        rank != 0 ||
        (ended(symmcoll_barrier_devices(group, two, 2, NULL, NULL),
             SYMMCOLL_ERR_INVALID,
             "expected one device of this rank, or none, "
             "found 2") &&
            ended(symmcoll_barrier_devices(group, NULL, 1, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "found 1 at NULL") &&
            ended(barrier_on(group, 8), SYMMCOLL_ERR_INVALID, "device 8: ") &&
            ended(barrier_on(group, -1), SYMMCOLL_ERR_INVALID, "found -1"));

    device_use(rank);
    right =
        say(barrier_on(group, rank) == SYMMCOLL_OK, "a device") &&
        say(symmcoll_barrier_devices(group, NULL, 0, NULL, NULL) == SYMMCOLL_OK,
            "no device") &&
        right;
    right = ended(barrier_on(group, 7), SYMMCOLL_ERR_INVALID,
                "on this rank, found 7") &&
            right;
    return say(symmcoll_group_sequence(group) == before + 2, "the numbers") &&
           right;
}

/* Checks that memory of another device than the named one is refused, on this
 * rank only. */
static int keeps_to_devices(struct symmcoll_group *group, int rank)
{
    struct both both;
    int right = names_devices(group, rank);

    right = begin(&both, group, rank) && right;
    device_use(rank + 3);
    if (rank == 1) {
        void *other = device_alloc(sizeof(float));

        right = ended(symmcoll_all_reduce(
                          group, other, other, 1, F32, SUM, NULL, NULL),
                    SYMMCOLL_ERR_INVALID, "expected memory of device 1") &&
                right;
        device_free(other);
    }
    device_use(rank);
    right = right && add(&both, 1, false) == SYMMCOLL_OK &&
            add(&both, 0, false) == SYMMCOLL_OK && is_sum(&both) &&
            say(barrier_on(group, rank) == SYMMCOLL_OK, "a barrier later");
    return end(&both, right);
}

/* Checks that a barrier on devices follows earlier work of the stream, and
 * that its wait blocks the host (W11); without a timeout it would only order
 * the stream. */
static int waits_for_devices(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    struct symmcoll_work *work = NULL;
    struct both both;
    int right =
        begin(&both, group, rank) && add(&both, 1, false) == SYMMCOLL_OK;

    stream = device_stream();
    fake_stall(stream);
    right =
        right && symmcoll_group_set_stream(group, stream) == SYMMCOLL_OK &&
        symmcoll_barrier_devices(group, &rank, 1, NULL, &work) == SYMMCOLL_OK &&
        say(symmcoll_work_wait(work, 0.05) == SYMMCOLL_ERR_TIMEOUT,
            "the device has not come");
    fake_resume(stream);
    right = right && symmcoll_work_wait(work, -1) == SYMMCOLL_OK &&
            say(symmcoll_work_test(work) == SYMMCOLL_OK, "the host has waited");
    symmcoll_work_free(work);
    right = symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK && right;
    device_wait(stream);
    device_end_stream(stream);
    return end(&both, right);
}

int main(void)
{
    device_begin();
    on_both(2, differing,
        "ranks that pass different kinds of memory are all told who did");
    on_both(3, differing,
        "ranks that pass different kinds of memory are all told who did");
    on_both(3, interleaved, "operations of both memories are in one order");
    on_both(3, objects,
        "objects travel while operations on devices are under way (C75)");
    on_both(3, keeps_to_devices,
        "a barrier says on which device a group is (C34, C35)");
    on_both(3, waits_for_devices,
        "a barrier of a group on devices waits for them (W11)");
    return done_testing();
}
