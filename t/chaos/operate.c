/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of every kind in a group, with values that each rank can check. */
#include "t/chaos/chaos.h"

#include <stdio.h>
#include <string.h>

#define COUNT_MAX 20000
#define BUFFERS 3 /* of a coalesced operation */

/* The first kinds are drawn in every case, all from scatter on in those with
 * groups. */
enum kind {
    BARRIER,
    ALL_GATHER,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_REDUCE,
    SCATTER,
    ALL_TO_ALL,
    ALL_TO_ALL_V,
    ALL_REDUCE_COALESCED,
    BROADCAST_COALESCED,
    RING,       /* each sends to the next and receives from the one before */
    ANY_SOURCE, /* all send to one */
    CREATE,
    SPLIT,
    LOCAL,
    KINDS,
    SYMM /* in cases with symmetric memory, instead of some others */
};

struct call {
    struct chaos_rank *self;
    struct symmcoll_group *group;
    enum kind kind;
    int i;
    size_t count;
    bool blocks;
    int rank, size; /* in the group */
    int root;
};

static float in[COUNT_MAX * CHAOS_RANKS], out[COUNT_MAX * CHAOS_RANKS];
/* Memory of the library until an operation has ended. */
static size_t sends[CHAOS_RANKS], receives[CHAOS_RANKS];
static void *buffers[BUFFERS];
static size_t counts[BUFFERS];
static const enum symmcoll_dtype dtypes[BUFFERS] = {
    SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT32};

/* ---- values ---- */

/* Returns element j that rank r passes to operation i: small, so that sums are
 * exact. */
static float value(int r, int i, size_t j)
{
    return (float)(r + 1) * (float)(1 + ((size_t)i + j) % 7);
}

/* Returns the sum over all ranks. */
static float sum(const struct call *call, size_t j)
{
    return value(call->size * (call->size + 1) / 2 - 1, call->i, j);
}

static void expect(const struct call *call, size_t j, float wanted)
{
    if (out[j] != wanted)
        atomic_fetch_add(&call->self->line->wrong, 1);
}

/* Returns the number of elements that rank r sends to rank q in
 * all_to_all_v. */
static size_t split(const struct call *call, int r, int q)
{
    return (size_t)(r + 2 * q + call->i) % 5 * (call->count / 4);
}

static void list_buffers(const struct call *call)
{
    size_t at = 0;

    for (size_t b = 0; b < BUFFERS; b++) {
        counts[b] = call->count / BUFFERS + b;
        buffers[b] = out + at;
        at += counts[b];
    }
}

static size_t listed_count(void)
{
    return counts[0] + counts[1] + counts[2];
}

static void fill(const struct call *call)
{
    size_t count = call->count * (size_t)call->size;

    for (size_t j = 0; j < count; j++)
        in[j] = value(call->rank, call->i, j);
    list_buffers(call);
    if (call->kind == BROADCAST)
        memcpy(out, in, call->count * sizeof(*in));
    if (call->kind == ALL_REDUCE_COALESCED || call->kind == BROADCAST_COALESCED)
        for (size_t j = 0; j < listed_count(); j++)
            out[j] = value(call->rank, call->i, j);
    for (int r = 0; r < call->size; r++) {
        sends[r] = split(call, call->rank, r);
        receives[r] = split(call, r, call->rank);
    }
}

static size_t add_all(const size_t *splits, int count)
{
    size_t all = 0;

    for (int r = 0; r < count; r++)
        all += splits[r];
    return all;
}

/* ---- collectives ---- */

static symmcoll_status_t issue_exchange(
    const struct call *call, struct symmcoll_work **work)
{
    struct symmcoll_group *group = call->group;

    switch (call->kind) {
    case SCATTER:
        return symmcoll_scatter(group, out, in, call->count, SYMMCOLL_FLOAT32,
            call->root, NULL, work);
    case ALL_TO_ALL:
        return symmcoll_all_to_all(
            group, out, in, call->count, SYMMCOLL_FLOAT32, NULL, work);
    case ALL_TO_ALL_V: {
        size_t from = 0;

        /* The parts for all ranks, one after another. */
        for (int r = 0; r < call->size; r++)
            for (size_t j = 0; j < sends[r]; j++)
                in[from++] = value(call->rank, call->i, j);
        return symmcoll_all_to_all_v(group, out, add_all(receives, call->size),
            receives, in, from, sends, SYMMCOLL_FLOAT32, NULL, work);
    }
    case ALL_REDUCE_COALESCED:
        return symmcoll_all_reduce_coalesced(group, buffers,
            (const void *const *)buffers, counts, BUFFERS, SYMMCOLL_FLOAT32,
            SYMMCOLL_SUM, NULL, work);
    default:
        return SYMMCOLL_ERR_INTERNAL;
    }
}

static symmcoll_status_t issue(
    const struct call *call, struct symmcoll_work **work)
{
    struct symmcoll_group *group = call->group;

    switch (call->kind) {
    case BARRIER:
        return symmcoll_barrier(group, NULL, work);
    case ALL_GATHER:
        return symmcoll_all_gather(
            group, out, in, call->count, SYMMCOLL_FLOAT32, NULL, work);
    case BROADCAST:
        return symmcoll_broadcast(
            group, out, call->count, SYMMCOLL_FLOAT32, call->root, NULL, work);
    case REDUCE_SCATTER:
        return symmcoll_reduce_scatter(group, out, in, call->count,
            SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, work);
    case ALL_REDUCE:
        return symmcoll_all_reduce(group, out, in, call->count,
            SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, work);
    default:
        return issue_exchange(call, work);
    }
}

static void check_splits(const struct call *call)
{
    size_t at = 0;

    for (int r = 0; r < call->size; r++)
        for (size_t j = 0; j < receives[r]; j++)
            expect(call, at++, value(r, call->i, j));
}

static void check(const struct call *call)
{
    size_t own = (size_t)call->rank * call->count;

    for (size_t j = 0; j < call->count; j++) {
        if (call->kind == BROADCAST)
            expect(call, j, value(call->root, call->i, j));
        else if (call->kind == REDUCE_SCATTER)
            expect(call, j, sum(call, j + own));
        else if (call->kind == ALL_REDUCE)
            expect(call, j, sum(call, j));
        else if (call->kind == SCATTER)
            expect(call, j, value(call->root, call->i, j + own));
        for (int r = 0; r < call->size && call->kind == ALL_GATHER; r++)
            expect(call, j + (size_t)r * call->count, value(r, call->i, j));
        for (int r = 0; r < call->size && call->kind == ALL_TO_ALL; r++)
            expect(
                call, j + (size_t)r * call->count, value(r, call->i, j + own));
    }
    if (call->kind == ALL_TO_ALL_V)
        check_splits(call);
    for (size_t j = 0; j < listed_count(); j++) {
        if (call->kind == ALL_REDUCE_COALESCED)
            expect(call, j, sum(call, j));
        else if (call->kind == BROADCAST_COALESCED)
            expect(call, j, value(call->root, call->i, j));
    }
}

/* Wait for a work, where a call has made one; the first error. */
static symmcoll_status_t finish(
    symmcoll_status_t status, struct symmcoll_work *work)
{
    symmcoll_status_t ended;

    if (work == NULL)
        return status;
    ended = symmcoll_work_wait(work, -1);
    symmcoll_work_free(work);
    return status < 0 ? status : ended;
}

static symmcoll_status_t collective(const struct call *call)
{
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    if (call->kind == BROADCAST_COALESCED)
        return symmcoll_broadcast_coalesced(call->group, buffers, counts,
            dtypes, BUFFERS, 4096, call->root, NULL);
    status = issue(call, call->blocks ? NULL : &work);
    return finish(status, work);
}

/* ---- sends and receives ---- */

static symmcoll_status_t send_to(
    const struct call *call, int peer, struct symmcoll_work **work)
{
    return symmcoll_send(call->group, in, call->count, SYMMCOLL_FLOAT32, peer,
        call->i, NULL, work);
}

static symmcoll_status_t receive_from(const struct call *call, size_t at,
    int peer, int *source, struct symmcoll_work **work)
{
    return symmcoll_recv(call->group, out + at, call->count, SYMMCOLL_FLOAT32,
        peer, call->i, source, NULL, work);
}

static symmcoll_status_t ring(const struct call *call)
{
    int next = (call->rank + 1) % call->size;
    int before = (call->rank + call->size - 1) % call->size;
    struct symmcoll_work *sent = NULL, *received = NULL;
    symmcoll_status_t status;

    if (!call->blocks) {
        status = receive_from(call, 0, before, NULL, &received);
        if (status == SYMMCOLL_OK)
            status = send_to(call, next, &sent);
        status = finish(status, sent);
        status = finish(status, received);
    } else if (call->rank % 2 == 0) {
        status = send_to(call, next, NULL);
        if (status == SYMMCOLL_OK)
            status = receive_from(call, 0, before, NULL, NULL);
    } else {
        status = receive_from(call, 0, before, NULL, NULL);
        if (status == SYMMCOLL_OK)
            status = send_to(call, next, NULL);
    }
    for (size_t j = 0; status == SYMMCOLL_OK && j < call->count; j++)
        expect(call, j, value(before, call->i, j));
    return status;
}

static symmcoll_status_t any_source(const struct call *call)
{
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status = SYMMCOLL_OK;
    unsigned int seen = 1u << call->root;

    if (call->rank != call->root) {
        status = send_to(call, call->root, call->blocks ? NULL : &work);
        return finish(status, work);
    }
    for (int n = 1; status == SYMMCOLL_OK && n < call->size; n++) {
        int source = -1;

        work = NULL;
        status = receive_from(
            call, 0, SYMMCOLL_ANY_SOURCE, &source, call->blocks ? NULL : &work);
        status = finish(status, work);
        if (status != SYMMCOLL_OK)
            break;
        if (source < 0 || source >= call->size || (seen >> source & 1) != 0) {
            atomic_fetch_add(&call->self->line->wrong, 1);
            break;
        }
        seen |= 1u << source;
        for (size_t j = 0; j < call->count; j++)
            expect(call, j, value(source, call->i, j));
    }
    return status;
}

/* ---- groups ---- */

/* Returns whether a rank of the world is a member of a group made by CREATE or
 * LOCAL: about two thirds are, always including the victim. */
static bool is_chosen(const struct call *call, int rank)
{
    return rank == call->self->drawn->victim || (rank + call->i) % 3 != 0;
}

/* Runs an operation in a new group, and frees the group. Reports the group's
 * failure, not that of the free. */
static symmcoll_status_t use(const struct call *call, symmcoll_status_t status,
    struct symmcoll_group *made)
{
    char detail[sizeof(call->self->line->detail)] = "";
    int ones = 1;

    if (status != SYMMCOLL_OK || made == NULL)
        return status;
    if (symmcoll_group_rank(made) >= 0)
        status = symmcoll_all_reduce(
            made, &ones, &ones, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);
    if (status != SYMMCOLL_OK) {
        /* This is how the rank learns of a member that could not create it. */
        call->self->spared = true;
        snprintf(detail, sizeof(detail), "%s", symmcoll_last_error());
    } else if (symmcoll_group_rank(made) >= 0 &&
               ones != symmcoll_group_size(made))
        atomic_fetch_add(&call->self->line->wrong, 1);
    if (symmcoll_group_free(made) != SYMMCOLL_OK)
        atomic_fetch_add(&call->self->line->wrong, 1);
    snprintf(call->self->reason, sizeof(call->self->reason), "%s", detail);
    return status;
}

static symmcoll_status_t make(const struct call *call)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *made = NULL;
    symmcoll_status_t status;
    int ranks[CHAOS_RANKS];

    if (call->kind == SPLIT) {
        status = symmcoll_group_split(
            call->group, (call->rank + call->i) % 2, -call->rank, NULL, &made);
        return use(call, status, made);
    }
    args.ranks = ranks;
    for (int r = 0; r < call->self->drawn->size; r++)
        if (is_chosen(call, r))
            ranks[args.nranks++] = r;
    if (call->kind == LOCAL) {
        if (!is_chosen(call, call->self->rank))
            return SYMMCOLL_OK;
        args.flags = SYMMCOLL_GROUP_LOCAL;
        args.timeout = call->self->seconds;
    }
    status = symmcoll_group_create(call->self->world, &args, &made);
    return use(call, status, made);
}

/* ---- one operation ---- */

static symmcoll_status_t run(struct call *call)
{
    symmcoll_status_t status;

    call->rank = symmcoll_group_rank(call->group);
    call->size = symmcoll_group_size(call->group);
    call->root = call->i % call->size;
    call->self->reason[0] = '\0';
    if (call->rank < 0)
        return SYMMCOLL_OK;
    if (call->kind == SYMM) {
        status =
            chaos_operate_symm(call->self, call->group, call->i, call->count);
        if (status == SYMMCOLL_OK)
            atomic_fetch_add(&call->self->line->completed, 1);
        return status;
    }
    fill(call);
    if (call->kind >= CREATE)
        status = make(call);
    else if (call->kind == RING || call->kind == ANY_SOURCE)
        status = call->size == 1      ? SYMMCOLL_OK
                 : call->kind == RING ? ring(call)
                                      : any_source(call);
    else
        status = collective(call);
    if (status == SYMMCOLL_OK) {
        check(call);
        atomic_fetch_add(&call->self->line->completed, 1);
    }
    return status;
}

symmcoll_status_t chaos_operate(struct chaos_rank *self, int i)
{
    static const size_t sizes[] = {1, 5, 300, COUNT_MAX};
    const struct chaos_case *drawn = self->drawn;
    uint64_t random = chaos_random(drawn->seed, 100 + (uint64_t)i);
    struct call call = {.self = self,
        .group = self->groups[0],
        .i = i,
        .count = sizes[random % 4],
        .kind = (enum kind)(random / 4 % (drawn->groups ? KINDS : SCATTER)),
        .blocks = (int)(random / 64 % 4) >= drawn->works};

    if (drawn->symm && random / 65536 % 3 == 0)
        call.kind = SYMM;
    if (drawn->groups)
        call.group = self->groups[random / 1024 % CHAOS_GROUPS];
    /* These are operations of the world. */
    if (call.kind == CREATE || call.kind == LOCAL)
        call.group = self->groups[0];
    self->spared = symmcoll_group_rank_of(call.group, drawn->victim) < 0;
    return run(&call);
}

symmcoll_status_t chaos_operate_all(
    struct chaos_rank *self, struct symmcoll_group *group)
{
    for (int kind = BARRIER; kind <= SPLIT; kind++) {
        struct call call = {.self = self,
            .group = group,
            .kind = (enum kind)kind,
            .i = kind,
            .count = 300,
            .blocks = kind % 2 == 0};
        symmcoll_status_t status = kind == CREATE ? SYMMCOLL_OK : run(&call);

        if (status != SYMMCOLL_OK)
            return status;
    }
    for (int i = 0; i < 2 && self->drawn->symm; i++) {
        struct call call = {
            .self = self, .group = group, .kind = SYMM, .i = i, .count = 300};
        symmcoll_status_t status = run(&call);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}
