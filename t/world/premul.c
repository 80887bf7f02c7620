/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations created by symmcoll_op_create_premul(), and their release.
 */
#include "../allocated.h"
#include "../ranks.h"
#include "../tap.h"
#include "faults.h"

#include "group/group.h"

#include <symmcoll.h>

#include <string.h>

#define MANY 5000
#define CYCLES 1000000

static symmcoll_status_t scale(struct symmcoll_group *group, symmcoll_op_t op,
    double *value, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        group, value, value, 1, SYMMCOLL_FLOAT64, op, NULL, work);
}

static int make(struct symmcoll_group *group, double factor, symmcoll_op_t *op)
{
    return symmcoll_op_create_premul(group->world, factor, op) == SYMMCOLL_OK;
}

static int release(struct symmcoll_group *group, symmcoll_op_t op)
{
    return symmcoll_op_free(group->world, op) == SYMMCOLL_OK;
}

static int refused(symmcoll_status_t status, const char *what)
{
    return status == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), what) != NULL;
}

static int released_ones_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = group->world;
    double value = 1, other = 1;
    symmcoll_op_t op, kept;

    (void)rank;
    return make(group, 2, &op) && make(group, 5, &kept) && release(group, op) &&
           refused(scale(group, op, &value, NULL), "been released") &&
           refused(symmcoll_op_free(world, op), "not released") &&
           refused(symmcoll_op_free(world, SYMMCOLL_SUM), "found 0") &&
           refused(symmcoll_op_free(world, -7), "found -7") &&
           refused(symmcoll_op_free(NULL, kept), "NULL") &&
           scale(group, kept, &other, NULL) == SYMMCOLL_OK && value == 1 &&
           other == 5 * symmcoll_group_size(group) && release(group, kept);
}

/* Checks that a work keeps its factor, which is released before the other rank
 * has called. */
static int works_keep_their_factor(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[20] = {NULL};
    double values[20];
    int right = 1;

    for (int i = 0; right && i < 20; i++) {
        symmcoll_op_t op;

        values[i] = 1;
        right = make(group, i + rank, &op) &&
                scale(group, op, &values[i], &works[i]) == SYMMCOLL_OK &&
                release(group, op);
    }
    for (int i = 0; i < 20; i++) {
        right = right && symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                values[i] == 2 * i + 1;
        symmcoll_work_free(works[i]);
    }
    return right;
}

static int cycles_do_not_grow(struct symmcoll_group *group, int rank)
{
    symmcoll_op_t op, last = 0;
    size_t before = 0;

    (void)rank;
    for (int i = 0; i < CYCLES; i++) {
        if (!make(group, i, &op) || op == last || !release(group, op))
            return 0;
        if (i == 0)
            before = count_allocated();
        last = op;
    }
    /* Other threads allocate, too; a million operations would take 16 MiB. */
    return count_allocated() <= before + (1 << 20) &&
           refused(symmcoll_op_free(group->world, last), "not released");
}

static int many_live_at_once(struct symmcoll_group *group, int rank)
{
    static symmcoll_op_t ops[MANY];
    int right = 1;

    (void)rank;
    for (int i = 0; right && i < MANY; i++)
        right = make(group, i, &ops[i]);
    for (int i = 0; right && i < MANY; i += 3)
        right = release(group, ops[i]);
    for (int i = 0; right && i < MANY; i++) {
        double value = 1;

        right = i % 3 == 0
                    ? refused(scale(group, ops[i], &value, NULL), "released")
                    : scale(group, ops[i], &value, NULL) == SYMMCOLL_OK &&
                          value == i;
    }
    return right;
}

/* Checks that used numbers are reused when all have been used, except those in
 * use. */
static int numbers_begin_anew(struct symmcoll_group *group, int rank)
{
    symmcoll_op_t first, last, next;
    double value = 1, other = 1;

    (void)rank;
    if (!make(group, 3, &first))
        return 0;
    group->world->premul_last = INT32_MAX - 1;
    return make(group, 4, &last) && last == INT32_MAX &&
           make(group, 6, &next) && next == first + 1 &&
           scale(group, first, &value, NULL) == SYMMCOLL_OK && value == 3 &&
           scale(group, next, &other, NULL) == SYMMCOLL_OK && other == 6 &&
           release(group, next) && release(group, first) &&
           release(group, last);
}

int main(void)
{
    plan(7);
    ok(ranks_run(2, released_ones_are_refused) &&
            threads_run(2, released_ones_are_refused),
        "a released operation is refused, others are not");
    ok(ranks_run(2, works_keep_their_factor),
        "works keep the factor of a released one (processes)");
    ok(threads_run(2, works_keep_their_factor),
        "works keep the factor of a released one (threads)");
    ok(ranks_run(1, cycles_do_not_grow),
        "a million are made and released without growth");
    ok(threads_run(2, cycles_do_not_grow), "by two threads as well");
    ok(ranks_run(1, many_live_at_once), "thousands live at once");
    ok(ranks_run(1, numbers_begin_anew),
        "numbers begin anew without those in use");
    return done_testing();
}
