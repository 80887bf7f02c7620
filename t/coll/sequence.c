/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sequence number counts the calls of a group's collectives: each takes one,
 * on every rank, whatever becomes of it; what is refused by its arguments alone
 * takes none.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <math.h>

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
    plan(8);
    both(3, each_call_takes_one,
        "every call takes the next number, a mismatch and works too");
    both(3, refused_arguments_take_none,
        "arguments that are refused take no number");
    both(2, the_librarys_own_count_too,
        "collectives that the library calls take numbers too");
    both(2, a_failed_group_counts_no_more,
        "a group that has failed counts no more");
    return done_testing();
}
