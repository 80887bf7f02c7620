/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/searched.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT 20.0
#define VICTIM 1

void searched_begin(struct searched *it, struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    float ones[4 * SEARCHED_COUNT];

    if (symmcoll_group_create(symmcoll_group_world(all), NULL, &group) !=
        SYMMCOLL_OK)
        abort();
    device_use(rank);
    *it = (struct searched){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .call = SYMMCOLL_CALL_INIT,
        .in = device_alloc(sizeof(ones)),
        .out = device_alloc(sizeof(ones))};
    it->call.stream = device_stream();
    for (int i = 0; i < 4 * SEARCHED_COUNT; i++)
        ones[i] = 1;
    device_write(it->in, ones, sizeof(ones));
}

/* Ends the test. An abandoned operation is on a stream of the library, and may
 * still use its buffers. */
int searched_end(struct searched *it, int right)
{
    device_wait(it->call.stream);
    right =
        say(cuCtxSynchronize() == CUDA_SUCCESS, "what was given up") && right;
    right = say(symmcoll_group_free(it->group) == SYMMCOLL_OK, "free") && right;
    device_end_stream(it->call.stream);
    device_free(it->in);
    device_free(it->out);
    return right;
}

void searched_put_nan(struct searched *it, size_t at)
{
    const float nan = NAN;

    device_write(it->in + at, &nan, sizeof(nan));
}

symmcoll_status_t searched_wait(
    symmcoll_status_t status, struct symmcoll_work *work)
{
    if (status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, WAIT);
    symmcoll_work_free(work);
    return status;
}

symmcoll_status_t searched_sum(struct searched *it)
{
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status = symmcoll_all_reduce(
        it->group, it->out, it->in, SEARCHED_COUNT, F32, SUM, &it->call, &work);

    return searched_wait(status, work);
}

/* ---- errors ---- */

/* Waits for the failure of another rank. */
static symmcoll_status_t await_error(struct searched *it)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < 20000 && status == SYMMCOLL_OK; i++) {
        (void)usleep(1000);
        status = symmcoll_group_error(it->group);
    }
    return status;
}

int searched_fails_its_group(struct symmcoll_group *all, int rank)
{
    static const char text[] =
        "rank 1: expected numbers, found element 3 of in NaN (2 elements are, of "
        "100)";
    struct searched it;
    symmcoll_status_t status;
    int right;

    searched_begin(&it, all, rank);
    right = say(searched_sum(&it) == SYMMCOLL_OK, "numbers");
    if (rank == VICTIM) {
        searched_put_nan(&it, 3);
        searched_put_nan(&it, 77);
        right =
            ended(searched_sum(&it), SYMMCOLL_ERR_INVALID, "all_reduce seq ") &&
            ended(SYMMCOLL_ERR_INVALID, SYMMCOLL_ERR_INVALID, text) && right;
    } else {
        status = searched_sum(&it); /* it may end before the failure is seen */
        right = (status == SYMMCOLL_OK ||
                    ended(status, SYMMCOLL_ERR_INVALID, text)) &&
                right;
    }
    right = ended(await_error(&it), SYMMCOLL_ERR_INVALID, text) && right;
    return searched_end(&it, right);
}

int searched_names_the_part(struct symmcoll_group *all, int rank)
{
    struct symmcoll_work *work = NULL;
    struct searched it;
    const void *ins[2];
    const size_t counts[2] = {SEARCHED_COUNT, SEARCHED_COUNT};
    symmcoll_status_t status;
    int right = 1;

    searched_begin(&it, all, rank);
    ins[0] = it.in;
    ins[1] = it.in + 2 * SEARCHED_COUNT;
    if (rank == VICTIM)
        searched_put_nan(&it, 2 * SEARCHED_COUNT + 9);
    status = symmcoll_reduce_scatter_list(it.group, it.out, SEARCHED_COUNT, ins,
        counts, F32, SUM, &it.call, &work);
    status = searched_wait(status, work);
    if (rank == VICTIM)
        right = ended(status, SYMMCOLL_ERR_INVALID,
            "found element 9 of ins[1] NaN (1 element is, of 100)");
    right =
        ended(await_error(&it), SYMMCOLL_ERR_INVALID, "of ins[1] NaN") && right;
    return searched_end(&it, right);
}

int searched_names_the_buffer(struct symmcoll_group *all, int rank)
{
    const size_t counts[3] = {2, 0, SEARCHED_COUNT};
    struct symmcoll_work *work = NULL;
    struct searched it;
    void *outs[3];
    const void *ins[3];
    symmcoll_status_t status;
    int right = 1;

    searched_begin(&it, all, rank);
    for (int i = 0; i < 3; i++) {
        outs[i] = it.out + (ptrdiff_t)i * SEARCHED_COUNT;
        ins[i] = it.in + (ptrdiff_t)i * SEARCHED_COUNT;
    }
    /* The NaN is in its part for the other rank. */
    if (rank == VICTIM)
        searched_put_nan(&it, 3 * SEARCHED_COUNT + 9);
    status = symmcoll_reduce_scatter_coalesced(
        it.group, outs, ins, counts, 3, F32, SUM, &it.call, &work);
    status = searched_wait(status, work);
    if (rank == VICTIM)
        right = ended(status, SYMMCOLL_ERR_INVALID,
            "found element 109 of ins[2] NaN (1 element is, of 200)");
    right =
        ended(await_error(&it), SYMMCOLL_ERR_INVALID, "of ins[2] NaN") && right;
    return searched_end(&it, right);
}

int searched_is_what_is_sent(struct symmcoll_group *all, int rank)
{
    struct symmcoll_work *work = NULL;
    struct searched it;
    symmcoll_status_t status;
    int right;

    searched_begin(&it, all, rank);
    if (rank != VICTIM)
        searched_put_nan(&it, 5);
    status = symmcoll_broadcast(
        it.group, it.in, SEARCHED_COUNT, F32, VICTIM, &it.call, &work);
    right = say(searched_wait(status, work) == SYMMCOLL_OK, "numbers");
    searched_put_nan(&it, 5);
    work = NULL;
    status = symmcoll_all_reduce(it.group, it.out, it.in, SEARCHED_COUNT,
        SYMMCOLL_INT32, SUM, &it.call, &work);
    right =
        say(searched_wait(status, work) == SYMMCOLL_OK, "integers") && right;
    return searched_end(&it, right);
}
