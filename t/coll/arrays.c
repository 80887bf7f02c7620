/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that arrays of pointers, counts and splits are read only during the
 * call: each rank overwrites and frees them once it has its work, before the
 * last rank has called.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The arguments of a call: `size` parts of `each` elements in every buffer of
 * this rank, in arrays that last as long as the call. */
struct passed {
    struct symmcoll_group *group;
    int rank, size;
    size_t each;
    double *out, *in; /* of all parts */
    void **outs;
    const void **ins;
    size_t *counts;
};

typedef symmcoll_status_t (*call_fn)(
    const struct passed *passed, struct symmcoll_work **work);

static symmcoll_status_t all_to_all_v(
    const struct passed *p, struct symmcoll_work **work)
{
    size_t count = p->each * (size_t)p->size;

    return symmcoll_all_to_all_v(p->group, p->out, count, p->counts, p->in,
        count, p->counts, SYMMCOLL_FLOAT64, NULL, work);
}

static symmcoll_status_t all_to_all_list(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_all_to_all_list(p->group, p->outs, p->counts, p->ins,
        p->counts, SYMMCOLL_FLOAT64, NULL, work);
}

static symmcoll_status_t all_gather_list(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_all_gather_list(p->group, p->outs, p->counts, p->in,
        p->each, SYMMCOLL_FLOAT64, NULL, work);
}

static symmcoll_status_t reduce_scatter_list(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_reduce_scatter_list(p->group, p->out, p->each, p->ins,
        p->counts, SYMMCOLL_FLOAT64, SYMMCOLL_SUM, NULL, work);
}

static symmcoll_status_t gather_list(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_gather_list(p->group, p->rank == 0 ? p->outs : NULL, p->in,
        p->each, SYMMCOLL_FLOAT64, 0, NULL, work);
}

static symmcoll_status_t scatter_list(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_scatter_list(p->group, p->out, p->rank == 0 ? p->ins : NULL,
        p->each, SYMMCOLL_FLOAT64, 0, NULL, work);
}

static symmcoll_status_t all_reduce_coalesced(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_all_reduce_coalesced(p->group, p->outs, p->ins, p->counts,
        (size_t)p->size, SYMMCOLL_FLOAT64, SYMMCOLL_SUM, NULL, work);
}

static symmcoll_status_t all_gather_coalesced(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_all_gather_coalesced(
        p->group, p->outs, p->ins, p->counts, 1, SYMMCOLL_FLOAT64, NULL, work);
}

static symmcoll_status_t reduce_scatter_coalesced(
    const struct passed *p, struct symmcoll_work **work)
{
    return symmcoll_reduce_scatter_coalesced(p->group, p->outs, p->ins,
        p->counts, 1, SYMMCOLL_FLOAT64, SYMMCOLL_SUM, NULL, work);
}

/* Returns element i of part r sent by rank p. */
static double element(int p, int r, size_t i)
{
    return (double)(100 * p + 10 * r) + (double)(i % 7);
}

/* The contents of part r of a rank's output. */
enum form {
    PART_OF_EACH, /* part `rank` of rank r */
    FIRST_OF_EACH,
    SUM_OF_MINE, /* of the parts `rank` of all; part 0 alone */
    FIRST_AT_ROOT,
    PART_OF_ROOT, /* part 0 alone */
    SUM_OF_ALL
};

static double expected(enum form form, int rank, int size, int r, size_t i)
{
    double sum = 0;

    if (form == PART_OF_EACH)
        return element(r, rank, i);
    if (form == FIRST_OF_EACH || form == FIRST_AT_ROOT)
        return element(r, 0, i);
    if (form == PART_OF_ROOT)
        return element(0, rank, i);
    for (int p = 0; p < size; p++)
        sum += element(p, form == SUM_OF_MINE ? rank : r, i);
    return sum;
}

static const struct {
    const char *name;
    call_fn call;
    enum form form;
} calls[] = {{"all_to_all_v", all_to_all_v, PART_OF_EACH},
    {"all_to_all_list", all_to_all_list, PART_OF_EACH},
    {"all_gather_list", all_gather_list, FIRST_OF_EACH},
    {"reduce_scatter_list", reduce_scatter_list, SUM_OF_MINE},
    {"gather_list", gather_list, FIRST_AT_ROOT},
    {"scatter_list", scatter_list, PART_OF_ROOT},
    {"all_reduce_coalesced", all_reduce_coalesced, SUM_OF_ALL},
    {"all_gather_coalesced", all_gather_coalesced, FIRST_OF_EACH},
    {"reduce_scatter_coalesced", reduce_scatter_coalesced, SUM_OF_MINE}};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int check(const struct passed *p, size_t index)
{
    enum form form = calls[index].form;
    bool first = form == SUM_OF_MINE || form == PART_OF_ROOT;
    int parts = form == FIRST_AT_ROOT && p->rank != 0 ? 0 : first ? 1 : p->size;

    for (int r = 0; r < parts; r++) {
        for (size_t i = 0; i < p->each; i++) {
            double wanted = expected(form, p->rank, p->size, r, i);
            double found = p->out[(size_t)r * p->each + i];

            if (found == wanted)
                continue;
            diag("%s, rank %d: element %zu of part %d: expected %g, found %g",
                calls[index].name, p->rank, i, r, wanted, found);
            return 0;
        }
    }
    return 1;
}

/* The number of ranks that have freed their arrays, in memory shared by
 * processes. */
static _Atomic int *freed;

static void spoil(void *array, size_t nbytes)
{
    memset(array, 0xa5, nbytes);
    free(array);
}

static symmcoll_status_t call_and_free(
    struct passed *p, size_t index, struct symmcoll_work **work)
{
    size_t n = (size_t)p->size, nbytes = n * sizeof(void *);
    symmcoll_status_t status;

    p->outs = malloc(nbytes);
    p->ins = malloc(nbytes);
    p->counts = malloc(nbytes);
    for (size_t r = 0; r < n; r++) {
        p->outs[r] = p->out + r * p->each;
        p->ins[r] = p->in + r * p->each;
        p->counts[r] = p->each;
    }
    status = calls[index].call(p, work);
    spoil(p->outs, nbytes);
    spoil((void *)p->ins, nbytes);
    spoil(p->counts, nbytes);
    return status;
}

static int run(struct symmcoll_group *group, int rank, size_t each)
{
    struct passed p = {.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .each = each};
    size_t all = (size_t)p.size * each;
    int right = 1;

    p.out = calloc(all, sizeof(*p.out));
    p.in = calloc(all, sizeof(*p.in));
    for (size_t index = 0; right && index < CALLS; index++) {
        struct symmcoll_work *work = NULL;

        for (size_t i = 0; i < all; i++)
            p.in[i] = element(rank, (int)(i / each), i % each);
        memset(p.out, 0, all * sizeof(*p.out));
        while (
            rank == 0 && atomic_load(freed) < (p.size - 1) * (int)(index + 1))
            usleep(1000);
        right = call_and_free(&p, index, &work) == SYMMCOLL_OK;
        if (rank != 0)
            atomic_fetch_add(freed, 1);
        right = right && symmcoll_work_wait(work, 60) == SYMMCOLL_OK &&
                check(&p, index);
        if (!right)
            diag("%s: %s", calls[index].name, symmcoll_last_error());
        symmcoll_work_free(work);
    }
    free(p.out);
    free(p.in);
    return right;
}

static int small_works_have_copies(struct symmcoll_group *group, int rank)
{
    return run(group, rank, 3);
}

static int large_works_have_copies(struct symmcoll_group *group, int rank)
{
    return run(group, rank, 50000);
}

static void both(int n, rank_fn body, const char *sentence)
{
    atomic_store(freed, 0);
    ok(ranks_run(n, body), "%s (%d processes)", sentence, n);
    atomic_store(freed, 0);
    ok(threads_run(n, body), "%s (%d threads)", sentence, n);
}

int main(void)
{
    plan(4);
    freed = mmap(NULL, sizeof(*freed), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    both(2, small_works_have_copies,
        "a small operation with a work has copies of the arrays");
    both(3, large_works_have_copies,
        "a large operation with a work has copies of the arrays");
    return done_testing();
}
