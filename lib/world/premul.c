/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PREMUL_SUM operations: numbers of a world, each with its factor.  A call
 * looks up the factor and keeps it, so that an operation may be released while
 * works use it.  Numbers ascend and restart only when all have been used, so
 * that a released one is refused for a long time.
 */
#include "world/world.h"

#include <stdlib.h>
#include <string.h>

struct symc_premul {
    symmcoll_op_t op;
    double factor;
};

/* Returns the position of a number, or its position if it were inserted.  Needs
 * the world's lock. */
static size_t find(const struct symmcoll_world *world, symmcoll_op_t op)
{
    size_t low = 0, high = world->premul_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (world->premuls[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(
    const struct symmcoll_world *world, size_t at, symmcoll_op_t op)
{
    return at < world->premul_count && world->premuls[at].op == op;
}

static bool make_room(struct symmcoll_world *world)
{
    size_t room = world->premul_room != 0 ? 2 * world->premul_room : 8;
    struct symc_premul *grown;

    if (world->premul_count < world->premul_room)
        return true;
    grown = realloc(world->premuls, room * sizeof(*grown));
    if (grown == NULL)
        return false;
    world->premuls = grown;
    world->premul_room = room;
    return true;
}

/* Returns the next free number and its position. */
static symmcoll_op_t take_number(struct symmcoll_world *world, size_t *at)
{
    symmcoll_op_t op;

    do {
        if (world->premul_last < SYMC_PREMUL_FIRST ||
            world->premul_last == INT32_MAX)
            world->premul_last = SYMC_PREMUL_FIRST - 1;
        op = ++world->premul_last;
        *at = find(world, op);
    } while (is_at(world, *at, op));
    return op;
}

static void insert(
    struct symmcoll_world *world, double factor, symmcoll_op_t *op)
{
    size_t at;

    *op = take_number(world, &at);
    memmove(&world->premuls[at + 1], &world->premuls[at],
        (world->premul_count - at) * sizeof(*world->premuls));
    world->premuls[at] = (struct symc_premul){*op, factor};
    world->premul_count++;
}

static symmcoll_status_t check_world(
    const struct symmcoll_world *world, const char *where)
{
    if (world == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a world, found NULL", where);
    if (!symc_world_is_mine(world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_op_create_premul(
    struct symmcoll_world *world, double factor, symmcoll_op_t *op)
{
    symmcoll_status_t status = check_world(world, "op_create_premul");
    bool made;

    if (status != SYMMCOLL_OK)
        return status;
    if (op == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "op_create_premul: expected a place for the op, found NULL");
    pthread_mutex_lock(&world->lock);
    made = make_room(world);
    if (made)
        insert(world, factor, op);
    pthread_mutex_unlock(&world->lock);
    return made ? SYMMCOLL_OK
                : symc_fail(SYMMCOLL_ERR_NO_MEMORY, "op_create_premul");
}

symmcoll_status_t symmcoll_op_free(
    struct symmcoll_world *world, symmcoll_op_t op)
{
    symmcoll_status_t status = check_world(world, "op_free");
    bool found;
    size_t at;

    if (status != SYMMCOLL_OK)
        return status;
    pthread_mutex_lock(&world->lock);
    at = find(world, op);
    found = is_at(world, at, op);
    if (found) {
        world->premul_count--;
        memmove(&world->premuls[at], &world->premuls[at + 1],
            (world->premul_count - at) * sizeof(*world->premuls));
    }
    pthread_mutex_unlock(&world->lock);
    return found ? SYMMCOLL_OK
                 : symc_fail(SYMMCOLL_ERR_INVALID,
                       "op_free: expected an op made by "
                       "symmcoll_op_create_premul in this world and not "
                       "released, found %d",
                       (int)op);
}

bool symc_world_factor(
    struct symmcoll_world *world, symmcoll_op_t op, double *factor)
{
    bool found;
    size_t at;

    pthread_mutex_lock(&world->lock);
    at = find(world, op);
    found = is_at(world, at, op);
    if (found)
        *factor = world->premuls[at].factor;
    pthread_mutex_unlock(&world->lock);
    return found;
}
