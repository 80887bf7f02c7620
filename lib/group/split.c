/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation of several groups at once: splitting a group by colors or by lists,
 * or into runs of consecutive ranks.
 */
#include "base/cancel.h"
#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Places for the created groups. */
struct places {
    struct symmcoll_group **own;
    struct symmcoll_group **all; /* NULL: only this rank's group */
};

/* Creates the groups of a partition of the parent; groups has room for them. */
static symmcoll_status_t make(struct symmcoll_group *parent,
    const struct symc_partition *partition, struct symc_group_options *options,
    struct symmcoll_group **groups, const struct places *places)
{
    struct symmcoll_group *own = NULL;
    symmcoll_status_t status;

    options->outside = places->all != NULL;
    status = symc_groups_create(parent, partition, options, groups);
    for (int i = 0; status == SYMMCOLL_OK && i < partition->count; i++) {
        if (groups[i] != NULL && symc_group_is_member(groups[i]))
            own = groups[i];
        if (places->all != NULL)
            places->all[i] = groups[i];
    }
    if (status == SYMMCOLL_OK)
        *places->own = own;
    return status;
}

static int compare_ranks(const void *a, const void *b)
{
    const int *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

/* ---- lists ---- */

/* Counts the ranks in all lists; they must not be more than the group's. */
static symmcoll_status_t count_lists(const char *where,
    const struct symmcoll_group *parent, const struct symmcoll_lists *lists,
    int *count)
{
    symmcoll_status_t status;
    int sum = 0;

    if (lists == NULL || lists->ranks == NULL || lists->sizes == NULL ||
        lists->count < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one list of ranks or more, found %s", where,
            lists != NULL && lists->count < 1 ? "none" : "NULL");
    for (int i = 0; i < lists->count; i++) {
        status = symc_group_check_length(
            where, lists->sizes, i, &sum, parent->runner.size);
        if (status != SYMMCOLL_OK)
            return status;
    }
    *count = sum;
    return SYMMCOLL_OK;
}

/* Checks that no rank is in two lists; the error names both. */
static symmcoll_status_t check_once(
    const char *where, const struct symmcoll_lists *lists, int size)
{
    int home[SYMC_RANKS_MAX] = {0};
    const int *ranks = lists->ranks;

    for (int i = 0; i < lists->count; i++) {
        for (int r = 0; r < lists->sizes[i]; r++) {
            if (ranks[r] >= 0 && ranks[r] < size && home[ranks[r]] != 0 &&
                home[ranks[r]] != i + 1)
                return symc_fail(SYMMCOLL_ERR_INVALID,
                    "%s: expected each rank in one list, found rank %d in "
                    "lists %d and %d",
                    where, ranks[r], home[ranks[r]] - 1, i);
            if (ranks[r] >= 0 && ranks[r] < size)
                home[ranks[r]] = i + 1;
        }
        ranks += lists->sizes[i];
    }
    return SYMMCOLL_OK;
}

/* Checks lists of a parent's ranks.  count (out): ranks in all lists. */
static symmcoll_status_t check_lists(const char *where,
    const struct symmcoll_group *parent, const struct symmcoll_lists *lists,
    int *count)
{
    symmcoll_status_t status = count_lists(where, parent, lists, count);

    if (status == SYMMCOLL_OK)
        status = check_once(where, lists, parent->runner.size);
    return status == SYMMCOLL_OK ? symc_group_check_ranks(where, lists->ranks,
                                       *count, parent->runner.size)
                                 : status;
}

/* Stores one list as world ranks, in the order of the parent or of the list. */
static void read_list(const struct symmcoll_group *parent, const int *list,
    int size, bool unsorted, int *ranks)
{
    memcpy(ranks, list, (size_t)size * sizeof(*ranks));
    if (!unsorted)
        qsort(ranks, (size_t)size, sizeof(*ranks), compare_ranks);
    for (int r = 0; r < size; r++)
        ranks[r] = parent->runner.global[ranks[r]];
}

/* Reads lists of a parent's ranks as a partition; its ranks must be freed. */
static symmcoll_status_t read_lists(const char *where,
    const struct symmcoll_group *parent, const struct symmcoll_lists *lists,
    bool unsorted, struct symc_partition *partition)
{
    int *ranks, count = 0, at = 0;
    symmcoll_status_t status = check_lists(where, parent, lists, &count);

    if (status != SYMMCOLL_OK)
        return status;
    ranks = symc_alloc((size_t)count, sizeof(*ranks));
    if (ranks == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < lists->count; i++) {
        read_list(
            parent, lists->ranks + at, lists->sizes[i], unsorted, ranks + at);
        at += lists->sizes[i];
    }
    *partition = (struct symc_partition){lists->count, lists->sizes, ranks};
    return SYMMCOLL_OK;
}

/* Returns the index of the list with this rank, and its begin (out); -1:
 * none. */
static int find_list(const struct symmcoll_group *parent,
    const struct symmcoll_lists *lists, const int **begin)
{
    *begin = lists->ranks;
    for (int i = 0; i < lists->count; i++) {
        for (int r = 0; r < lists->sizes[i]; r++) {
            if ((*begin)[r] == parent->runner.rank)
                return i;
        }
        *begin += lists->sizes[i];
    }
    return -1;
}

/* Creates the group of this rank's list by a call of that list's ranks alone.
 * Allocates nothing before the other members learn of the call. */
static symmcoll_status_t split_by_members(struct symmcoll_group *parent,
    const struct symmcoll_lists *lists, const struct symmcoll_group_args *args,
    struct symc_group_options *options, const struct places *places)
{
    struct symc_partition partition = {.count = 1};
    struct symc_group_options named = *options;
    char name[SYMC_GROUP_NAME + 16];
    int ranks[SYMC_RANKS_MAX], list, count;
    struct symmcoll_group *made;
    const int *begin;
    symmcoll_status_t status;

    if (places->all != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected all to be NULL with SYMMCOLL_GROUP_LOCAL, for a rank "
            "knows its own group alone",
            options->where);
    status = check_lists(options->where, parent, lists, &count);
    if (status != SYMMCOLL_OK)
        return status;
    list = find_list(parent, lists, &begin);
    if (list < 0) {
        *places->own = NULL;
        return symc_fail(SYMMCOLL_NOT_MEMBER,
            "%s: expected a call of members only, found rank %d, which is in no "
            "list",
            options->where, parent->runner.rank);
    }
    read_list(parent, begin, lists->sizes[list], options->unsorted, ranks);
    partition.sizes = &lists->sizes[list];
    partition.ranks = ranks;
    if (options->name != NULL && lists->count > 1) {
        snprintf(name, sizeof(name), "%s.%d", options->name, list);
        named.name = name;
    }
    status = symc_group_create_by_members(
        parent->world, args, &partition, &named, &made);
    if (status == SYMMCOLL_OK)
        *places->own = made;
    return status;
}

static symmcoll_status_t split_lists(enum symc_kind kind,
    struct symmcoll_group *parent, const struct symmcoll_lists *lists,
    const struct symmcoll_group_args *args, const struct places *places)
{
    const char *where = symc_kind_name(kind);
    struct symmcoll_group_args copy;
    struct symc_group_options options;
    struct symc_partition partition;
    struct symmcoll_group **groups;
    symmcoll_status_t status;

    if (places->own == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the group, found NULL", where);
    status = symc_group_args_read(kind, parent, args, &copy, &options);
    if (status != SYMMCOLL_OK)
        return status;
    if (copy.ranks != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no ranks in args: the lists have them", where);
    if ((copy.flags & SYMMCOLL_GROUP_LOCAL) != 0)
        return split_by_members(parent, lists, &copy, &options, places);
    status = read_lists(where, parent, lists, options.unsorted, &partition);
    if (status == SYMMCOLL_ERR_NO_MEMORY)
        return symc_groups_refuse(parent, &options, status);
    if (status != SYMMCOLL_OK)
        return status;
    groups = symc_alloc((size_t)partition.count, sizeof(*groups));
    status = groups == NULL
                 ? symc_groups_refuse(parent, &options, SYMMCOLL_ERR_NO_MEMORY)
                 : make(parent, &partition, &options, groups, places);
    free(groups);
    free((void *)(uintptr_t)partition.ranks);
    return status;
}

symmcoll_status_t symmcoll_group_split_lists(struct symmcoll_group *parent,
    const struct symmcoll_lists *lists, const struct symmcoll_group_args *args,
    struct symmcoll_group **own, struct symmcoll_group **all)
{
    int cancel = symc_cancel_disable();
    const struct places places = {own, all};
    symmcoll_status_t status =
        split_lists(SYMC_SPLIT_GROUP_LISTS, parent, lists, args, &places);

    symc_cancel_restore(cancel);
    return status;
}

/* ---- runs of ranks ---- */

/* Reports to the others that this rank has no memory for the call. */
static symmcoll_status_t refuse_runs(
    struct symmcoll_group *parent, const struct symmcoll_group_args *args)
{
    struct symmcoll_group_args copy;
    struct symc_group_options options;
    symmcoll_status_t status = symc_group_args_read(
        SYMC_SPLIT_GROUP_RUNS, parent, args, &copy, &options);

    return status != SYMMCOLL_OK
               ? status
               : symc_groups_refuse(parent, &options, SYMMCOLL_ERR_NO_MEMORY);
}

static symmcoll_status_t split_runs(struct symmcoll_group *parent, int nranks,
    const struct symmcoll_group_args *args, const struct places *places)
{
    const char *where = symc_kind_name(SYMC_SPLIT_GROUP_RUNS);
    struct symmcoll_lists lists;
    int *numbers;
    symmcoll_status_t status;

    if (parent == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group to make others of, found NULL", where);
    if (nranks < 1 || nranks > parent->runner.size)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected runs of 1 to %d ranks, found %d", where,
            parent->runner.size, nranks);
    if (parent->runner.size % nranks != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected runs of a divisor of %d ranks, found %d", where,
            parent->runner.size, nranks);
    numbers = symc_alloc((size_t)parent->runner.size * 2, sizeof(*numbers));
    if (numbers == NULL)
        return refuse_runs(parent, args);
    lists = (struct symmcoll_lists){
        numbers, numbers + parent->runner.size, parent->runner.size / nranks};
    for (int r = 0; r < parent->runner.size; r++) {
        numbers[r] = r;
        numbers[parent->runner.size + r] = nranks;
    }
    status = split_lists(SYMC_SPLIT_GROUP_RUNS, parent, &lists, args, places);
    free(numbers);
    return status;
}

symmcoll_status_t symmcoll_group_split_runs(struct symmcoll_group *parent,
    int nranks, const struct symmcoll_group_args *args,
    struct symmcoll_group **own, struct symmcoll_group **all)
{
    int cancel = symc_cancel_disable();
    const struct places places = {own, all};
    symmcoll_status_t status = split_runs(parent, nranks, args, &places);

    symc_cancel_restore(cancel);
    return status;
}

/* ---- colors ---- */

/* A member and its choice. */
struct colored {
    struct symc_color choice;
    int rank; /* rank in the parent */
};

static int compare_colored(const void *a, const void *b)
{
    const struct colored *first = a, *second = b;

    if (first->choice.color != second->choice.color)
        return first->choice.color < second->choice.color ? -1 : 1;
    if (first->choice.key != second->choice.key)
        return first->choice.key < second->choice.key ? -1 : 1;
    return first->rank - second->rank;
}

/* Makes a partition of all choices, colors ascending.  Its numbers are stored
 * in ranks and sizes, each with room for all members. */
static void group_colors(const struct symmcoll_group *parent,
    struct colored *all, int *ranks, int *sizes,
    struct symc_partition *partition)
{
    int nranks = 0, count = 0;

    qsort(all, (size_t)parent->runner.size, sizeof(*all), compare_colored);
    for (int i = 0; i < parent->runner.size; i++) {
        if (all[i].choice.color < 0)
            continue;
        if (nranks == 0 || all[i].choice.color != all[i - 1].choice.color)
            sizes[count++] = 0;
        sizes[count - 1]++;
        ranks[nranks++] = parent->runner.global[all[i].rank];
    }
    *partition = (struct symc_partition){count, sizes, ranks};
}

/* Memory for a split by colors, allocated in advance because nothing may fail
 * on one rank alone between its rounds. */
struct split {
    struct symc_color *choices;
    struct colored *all;
    int *ranks;
    int *sizes;
    struct symmcoll_group **groups;
};

static symmcoll_status_t split_colors(struct symmcoll_group *parent,
    struct symc_color mine, struct symc_group_options *options,
    struct split *split, struct symmcoll_group **group)
{
    const struct places places = {group, NULL};
    struct symc_partition partition;
    symmcoll_status_t status =
        symc_groups_gather(parent, options, mine, split->choices);

    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 0; r < parent->runner.size; r++)
        split->all[r] = (struct colored){split->choices[r], r};
    group_colors(parent, split->all, split->ranks, split->sizes, &partition);
    if (partition.count == 0) {
        *group = NULL;
        return SYMMCOLL_OK;
    }
    return make(parent, &partition, options, split->groups, &places);
}

static symmcoll_status_t split_group(struct symmcoll_group *parent,
    struct symc_color mine, const struct symmcoll_group_args *args,
    struct symmcoll_group **group)
{
    const char *where = symc_kind_name(SYMC_SPLIT_GROUP);
    struct symmcoll_group_args copy;
    struct symc_group_options options;
    struct split split;
    size_t size;
    symmcoll_status_t status;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the group, found NULL", where);
    status =
        symc_group_args_read(SYMC_SPLIT_GROUP, parent, args, &copy, &options);
    if (status == SYMMCOLL_OK && copy.ranks != NULL)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no ranks in args: colors choose them", where);
    if (status != SYMMCOLL_OK)
        return status;
    size = (size_t)parent->runner.size;
    split = (struct split){.choices = symc_alloc(size, sizeof(*split.choices)),
        .all = symc_alloc(size, sizeof(*split.all)),
        .ranks = symc_alloc(size, sizeof(*split.ranks)),
        .sizes = symc_alloc(size, sizeof(*split.sizes)),
        .groups = symc_alloc(size, sizeof(*split.groups))};
    if (split.choices != NULL && split.all != NULL && split.ranks != NULL &&
        split.sizes != NULL && split.groups != NULL)
        status = split_colors(parent, mine, &options, &split, group);
    else
        status = symc_groups_refuse(parent, &options, SYMMCOLL_ERR_NO_MEMORY);
    free(split.choices);
    free(split.all);
    free(split.ranks);
    free(split.sizes);
    free(split.groups);
    return status;
}

symmcoll_status_t symmcoll_group_split(struct symmcoll_group *parent, int color,
    int key, const struct symmcoll_group_args *args,
    struct symmcoll_group **group)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status =
        split_group(parent, (struct symc_color){color, key}, args, group);

    symc_cancel_restore(cancel);
    return status;
}
