/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work handles.  The user and the queue hold an asynchronous operation's work;
 * the last to release it frees it.  Works hold their queue, which so outlives
 * its group.  Completion of a work is here too.
 */
#include "run/work.h"

#include <stdlib.h>
#include <string.h>

/* ---- queues ---- */

_Static_assert(sizeof(struct symc_queue) % SYMC_FALSE_SHARING == 0,
    "aligned_alloc() wants a multiple");

symmcoll_status_t symc_queue_create(struct symc_runner *runner,
    struct symc_engine *engine, struct symc_queue **queue)
{
    struct symc_queue *made = aligned_alloc(SYMC_FALSE_SHARING, sizeof(*made));

    if (made == NULL)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "operation queue: %zu bytes requested", sizeof(*made));
    memset(made, 0, sizeof(*made));
    made->runner = runner;
    symc_engine_hold(engine);
    made->engine = engine;
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->running_lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    atomic_init(&made->holders, 1);
    *queue = made;
    return SYMMCOLL_OK;
}

void symc_queue_release(struct symc_queue *queue)
{
    struct symc_engine *engine = queue->engine;

    /* Acquire: the last holder must see the other holders' writes. */
    if (atomic_fetch_sub_explicit(&queue->holders, 1, memory_order_acq_rel) > 1)
        return;
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->running_lock);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
    symc_engine_release(engine);
}

/* ---- works ---- */

/* Marks a spare's place once the queue is closed. */
#define CLOSED ((struct symmcoll_work *)1)

static struct symmcoll_work *take_spare(struct symc_queue *queue)
{
    for (int i = 0; i < SYMC_SPARES; i++) {
        struct symmcoll_work *spare =
            atomic_load_explicit(&queue->spares[i], memory_order_relaxed);

        if (spare != NULL)
            spare = atomic_exchange_explicit(
                &queue->spares[i], NULL, memory_order_acquire);
        if (spare != NULL)
            return spare;
    }
    return NULL;
}

/* Keeps a work as a spare; another thread may take or free it from then on.
 * Returns false if all places are taken. */
static bool keep_spare(struct symc_queue *queue, struct symmcoll_work *work)
{
    for (int i = 0; i < SYMC_SPARES; i++) {
        struct symmcoll_work *none = NULL;

        if (atomic_load_explicit(&queue->spares[i], memory_order_relaxed) ==
                NULL &&
            atomic_compare_exchange_strong_explicit(&queue->spares[i], &none,
                work, memory_order_release, memory_order_relaxed))
            return true;
    }
    return false;
}

static struct symmcoll_work *make_new(struct symc_queue *queue)
{
    size_t nbytes = (sizeof(struct symmcoll_work) + SYMC_FALSE_SHARING - 1) /
                    SYMC_FALSE_SHARING * SYMC_FALSE_SHARING;
    struct symmcoll_work *work = aligned_alloc(SYMC_FALSE_SHARING, nbytes);

    if (work == NULL) {
        symc_fail(SYMMCOLL_ERR_NO_MEMORY, "work: %zu bytes requested", nbytes);
        return NULL;
    }
    memset(work, 0, sizeof(*work));
    symc_queue_hold(queue);
    work->queue = queue;
    work->engine = queue->engine;
    return work;
}

struct symmcoll_work *symc_work_create(
    struct symc_queue *queue, const struct symc_op *op)
{
    struct symmcoll_work *work = take_spare(queue);

    if (work == NULL)
        work = make_new(queue);
    if (work == NULL)
        return NULL;
    work->next = NULL;
    work->deadline_ns = 0;
    work->issued = false;
    work->paired = false;
    work->source = -1;
    work->op = *op;
    if (__builtin_expect(op->listed, 0)) {
        work->lists = *op->lists;
        work->op.lists = &work->lists;
    }
    if (__builtin_expect(symc_queue_runs(op), 0)) {
        work->mark = work->token = NULL;
        work->cancel_ns = 0;
        work->followers = 0;
        work->given_up = work->owned = false;
        atomic_init(&work->started, 0);
    }
    atomic_init(&work->callbacks, NULL);
    atomic_init(&work->ended, 0);
    atomic_init(&work->holders, 2);
    return work;
}

/* Copies n words to *at and advances that past the copy.  Returns the copy, or
 * NULL for NULL. */
static void *copy_array(char **at, const void *array, size_t n)
{
    size_t nbytes = n * sizeof(void *);
    void *copy = *at;

    if (array == NULL)
        return NULL;
    memcpy(copy, array, nbytes);
    *at += nbytes;
    return copy;
}

_Static_assert(sizeof(size_t) == sizeof(void *), "arrays of one kind of words");

symmcoll_status_t symc_work_copy_arrays(struct symmcoll_work *work, int size)
{
    struct symc_op *op = &work->op;
    struct symc_lists *lists = &work->lists;
    bool coalesced = symc_kind_has(op->kind, SYMC_COALESCED);
    size_t n = (size_t)(coalesced ? op->buffers : size);
    char *at;

    work->arrays = at = symc_alloc(n, 4 * sizeof(void *));
    if (at == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (op->listed) {
        lists->outs = copy_array(&at, lists->outs, n);
        lists->ins = copy_array(&at, lists->ins, n);
        lists->out_counts = copy_array(&at, lists->out_counts, n);
        lists->in_counts = copy_array(&at, lists->in_counts, n);
        return SYMMCOLL_OK;
    }
    op->out = copy_array(&at, op->out, n);
    op->in = copy_array(&at, op->in, n);
    op->counts = copy_array(&at, op->counts, n);
    return SYMMCOLL_OK;
}

struct symmcoll_work *symc_work_create_paired(
    struct symc_queue *queue, const struct symc_op *op)
{
    struct symmcoll_work *work = symc_work_create(queue, op);

    if (work != NULL)
        work->paired = true;
    return work;
}

static void destroy(struct symmcoll_work *work)
{
    struct symc_queue *queue = work->queue;

    free(work);
    symc_queue_release(queue);
}

void symc_work_drop_spares(struct symc_queue *queue)
{
    for (int i = 0; i < SYMC_SPARES; i++) {
        struct symmcoll_work *spare =
            atomic_exchange(&queue->spares[i], CLOSED);

        if (spare != NULL && spare != CLOSED)
            destroy(spare);
    }
}

void symc_work_release(struct symmcoll_work *work)
{
    /* A sole holder is the last one and needs no atomic decrement. */
    if (atomic_load(&work->holders) != 1 &&
        atomic_fetch_sub(&work->holders, 1) != 1)
        return;
    if (__builtin_expect(work->arrays != NULL, 0)) {
        free(work->arrays);
        work->arrays = NULL;
    }
    if (!keep_spare(work->queue, work))
        destroy(work);
}

/* ---- completion ---- */

/* Queues the callbacks of a list that begins with the latest, the oldest
 * first. */
static void queue_callbacks(
    struct symmcoll_work *work, struct symc_callback *latest)
{
    struct symc_callback *oldest = NULL, *next;

    for (; latest != NULL; latest = next) {
        next = latest->next;
        latest->next = oldest;
        oldest = latest;
    }
    for (; oldest != NULL; oldest = next) {
        next = oldest->next;
        symc_callbacks_push(&work->engine->callbacks, oldest);
    }
}

void symc_work_end(struct symmcoll_work *work, symmcoll_status_t status)
{
    struct symc_callback *latest;

    work->status = status;
    if (status < 0)
        symc_error_keep(&work->error, status);
    latest = atomic_exchange(&work->callbacks, SYMC_CALLING);
    atomic_store_explicit(&work->ended, 1, memory_order_release);
    if (__builtin_expect(symc_queue_runs(&work->op), 0))
        atomic_store_explicit(&work->started, 1, memory_order_release);
    queue_callbacks(work, latest);
    atomic_store_explicit(&work->callbacks, SYMC_CALLED, memory_order_release);
    symc_doorbell_notify(&work->doorbell);
}
