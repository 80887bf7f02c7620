/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sequence number counts the calls of a group's collectives: each takes one,
 * on every rank, whatever becomes of it; what is refused by its arguments alone
 * takes none.  So is a call of another kind that meets one of these.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static symmcoll_status_t sum(struct symmcoll_group *group, double *values,
    size_t count, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(group, values, values, count, SYMMCOLL_FLOAT64,
        SYMMCOLL_SUM, NULL, work);
}

static int is_at(const struct symmcoll_group *group, uint64_t wanted)
{
    uint64_t found = symmcoll_group_sequence(group);

    if (found != wanted)
        diag("expected %d, found %d", (int)wanted, (int)found);
    return found == wanted;
}

static int each_call_takes_one(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[3];
    double values[3] = {0};
    int right =
        is_at(group, 0) && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
        is_at(group, 1) && sum(group, values, 0, NULL) == SYMMCOLL_OK &&
        is_at(group, 2) &&
        sum(group, values, rank == 0 ? 1 : 2, NULL) == SYMMCOLL_ERR_MISMATCH &&
        is_at(group, 3);

    for (int i = 0; right && i < 3; i++)
        right = sum(group, &values[i], 1, &works[i]) == SYMMCOLL_OK;
    for (int i = 2; right && i >= 0; i--) {
        right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                symmcoll_work_sequence(works[i]) == 4 + (uint64_t)i;
        symmcoll_work_free(works[i]);
    }
    return right && is_at(group, 6);
}

/* On one rank only: the others' next call is still the same as this one's. */
static int refused_arguments_take_none(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work;
    double value = 1;

    call.timeout = NAN;
    if (rank == 0 &&
        (sum(group, NULL, 1, NULL) != SYMMCOLL_ERR_INVALID ||
            sum(group, NULL, 1, &work) != SYMMCOLL_ERR_INVALID ||
            symmcoll_broadcast(group, &value, 1, SYMMCOLL_FLOAT64, -1, NULL,
                NULL) != SYMMCOLL_ERR_INVALID ||
            symmcoll_barrier(group, &call, NULL) != SYMMCOLL_ERR_INVALID ||
            symmcoll_all_reduce(group, &value, &value, 1, SYMMCOLL_FLOAT64,
                SYMMCOLL_BAND, NULL, NULL) != SYMMCOLL_ERR_UNSUPPORTED))
        return 0;
    return is_at(group, 0) && sum(group, &value, 1, NULL) == SYMMCOLL_OK &&
           is_at(group, 1) && value == symmcoll_group_size(group);
}

/* A call of all members that is no collective: each of them takes no number. */
typedef symmcoll_status_t (*bare_fn)(struct symmcoll_group *group);

static symmcoll_status_t make_group(struct symmcoll_group *group)
{
    struct symmcoll_group *made;

    return symmcoll_group_create(symmcoll_group_world(group), NULL, &made);
}

static symmcoll_status_t split(struct symmcoll_group *group)
{
    struct symmcoll_group *made;

    return symmcoll_group_split(group, 0, 0, NULL, &made);
}

static symmcoll_status_t get_workspace(struct symmcoll_group *group)
{
    struct symmcoll_symm *handle;

    return symmcoll_symm_workspace(group, 4096, NULL, &handle);
}

static symmcoll_status_t join(struct symmcoll_group *group)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle;
    void *data;
    symmcoll_status_t status = symmcoll_symm_alloc(world, 4096, NULL, &data);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_symm_rendezvous(group, data, NULL, &handle);
    return symmcoll_symm_free(world, data) == SYMMCOLL_OK
               ? status
               : SYMMCOLL_ERR_INTERNAL;
}

/* Ends with a mismatch that says its number, which is the latest here. */
static int mismatches_at(const struct symmcoll_group *group,
    symmcoll_status_t status, const char *place, uint64_t seq)
{
    const char *found = symmcoll_last_error();

    if (status != SYMMCOLL_ERR_MISMATCH || strstr(found, place) == NULL) {
        diag("expected a mismatch with %s, found %d: %s", place, (int)status,
            found);
        return 0;
    }
    return is_at(group, seq);
}

/* One rank makes the call, the others sum; then all of them sum, as works. */
static int takes_that_of_others(
    struct symmcoll_group *group, int rank, int odd, bare_fn call, uint64_t seq)
{
    struct symmcoll_work *works[2] = {NULL, NULL};
    double value = 1, others[2] = {1, 1};
    char place[32];
    int right;

    snprintf(place, sizeof(place), "seq %d)", (int)seq);
    right = mismatches_at(group,
        rank == odd ? call(group) : sum(group, &value, 1, NULL), place, seq);
    if (rank != odd)
        right = sum(group, &others[0], 1, &works[0]) == SYMMCOLL_OK && right;
    else
        right = mismatches_at(group, call(group), "called", seq + 1) && right;
    right = sum(group, &others[1], 1, &works[1]) == SYMMCOLL_OK && right;
    right = (works[0] == NULL ||
                symmcoll_work_wait(works[0], -1) == SYMMCOLL_ERR_MISMATCH) &&
            symmcoll_work_wait(works[1], -1) == SYMMCOLL_OK &&
            symmcoll_work_sequence(works[1]) == seq + 2 &&
            others[1] == symmcoll_group_size(group) && right;
    symmcoll_work_free(works[0]);
    symmcoll_work_free(works[1]);
    return right && is_at(group, seq + 2);
}

static int calls_without_one_take_that_of_others(
    struct symmcoll_group *group, int rank)
{
    static const bare_fn calls[] = {make_group, split, get_workspace, join};
    uint64_t seq = 1;
    int right = 1;

    for (size_t i = 0; right && i < sizeof(calls) / sizeof(calls[0]); i++)
        for (int odd = 0; right && odd < 2; odd++, seq += 3)
            right = takes_that_of_others(group, rank, odd, calls[i], seq);
    return right;
}

/* Each of these alone takes none, also where they are not the same. */
static int calls_without_one_take_none_together(
    struct symmcoll_group *group, int rank)
{
    symmcoll_status_t status =
        rank == 0 ? make_group(group) : get_workspace(group);
    double value = 1;

    return status == SYMMCOLL_ERR_MISMATCH &&
           strstr(symmcoll_last_error(), "seq") == NULL && is_at(group, 0) &&
           sum(group, &value, 1, NULL) == SYMMCOLL_OK && is_at(group, 1);
}

/* As many on every rank, whatever number that is. */
static int the_librarys_own_count_too(struct symmcoll_group *group, int rank)
{
    double values[4] = {0}, seen;
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_FLAT(values, 4, SYMMCOLL_FLOAT64);
    struct symmcoll_reducer *reducer;

    (void)rank;
    if (symmcoll_reducer_create(group, &param, 1, NULL, &reducer) !=
        SYMMCOLL_OK)
        return 0;
    seen = (double)symmcoll_group_sequence(group);
    symmcoll_reducer_free(reducer);
    return seen > 0 &&
           symmcoll_all_reduce(group, values, &seen, 1, SYMMCOLL_FLOAT64,
               SYMMCOLL_MAX, NULL, NULL) == SYMMCOLL_OK &&
           values[0] == seen;
}

static int a_failed_group_counts_no_more(struct symmcoll_group *group, int rank)
{
    double value = 1;
    uint64_t before;

    (void)rank;
    symmcoll_group_abort(group, NULL);
    before = symmcoll_group_sequence(group);
    return before == 0 && sum(group, &value, 1, NULL) == SYMMCOLL_ERR_ABORTED &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_ERR_ABORTED &&
           is_at(group, before);
}

static void both(int n, rank_fn body, const char *sentence)
{
    ok(ranks_run(n, body), "%s (%d processes)", sentence, n);
    ok(threads_run(n, body), "%s (%d threads)", sentence, n);
}

int main(void)
{
    plan(12);
    both(3, each_call_takes_one,
        "every call takes the next number, a mismatch and works too");
    both(3, refused_arguments_take_none,
        "arguments that are refused take no number");
    both(3, calls_without_one_take_that_of_others,
        "a call that takes none takes that of the collective that others call");
    both(2, calls_without_one_take_none_together,
        "calls that take none take none where they differ");
    both(2, the_librarys_own_count_too,
        "collectives that the library calls take numbers too");
    both(2, a_failed_group_counts_no_more,
        "a group that has failed counts no more");
    return done_testing();
}
