/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that no thread has waited for yet, by the address of their memory, in
 * one table per world. A result that is not in the table is complete.
 */
#include "base/cancel.h"
#include "functional/functional.h"

#include <symmcoll/work.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BUCKETS 64 /* a power of two */
#define NAP_NS 20000
#define LONG_S 1e9 /* longer than any operation takes */

struct results {
    struct symc_extension extension;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a result is finished */
    struct symc_f_result *buckets[BUCKETS];
};

/* ---- table of a world ---- */

/* Drops references of a result; the last one frees it, and the operation with
 * its last result. */
static void release(struct symc_f_result *result, int holders)
{
    struct symc_f_operation *operation = result->operation;

    result->holders -= holders;
    if (result->holders > 0)
        return;
    symc_site_release(result->site, result->temp);
    symc_site_close(result->site);
    free(result->counts);
    if (--operation->holders > 0)
        return;
    symmcoll_work_free(operation->work);
    free(operation);
}

/* Ends the table at finalize, when all operations have ended. Warns of results
 * that were never waited for, since the program may have read them too early;
 * not of those of an operation that has returned its error for another
 * result. */
static void end_results(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct results *results = (struct results *)extension;
    const char *name = NULL;
    uint64_t seq = UINT64_MAX;
    int count = 0;

    for (int i = 0; i < BUCKETS; i++) {
        while (results->buckets[i] != NULL) {
            struct symc_f_result *result = results->buckets[i];
            uint64_t own = symmcoll_work_sequence(result->operation->work);

            results->buckets[i] = result->next;
            if (!result->operation->reported) {
                if (own < seq || name == NULL) {
                    seq = own;
                    name = result->operation->name;
                }
                count++;
            }
            release(result, 1);
        }
    }
    if (count > 0)
        symc_logf(&world->log, SYMC_LOG_WARN,
            "finalize: %d result%s of functional calls %s never waited for, "
            "the first of %s, seq %" PRIu64,
            count, count == 1 ? "" : "s", count == 1 ? "was" : "were", name,
            seq);
    pthread_cond_destroy(&results->changed);
    pthread_mutex_destroy(&results->lock);
    free(results);
}

static const char key; /* its address identifies this module's extension */

static struct symc_extension *make_results(void)
{
    struct results *results = symc_alloc(1, sizeof(*results));

    if (results == NULL)
        return NULL;
    pthread_mutex_init(&results->lock, NULL);
    pthread_cond_init(&results->changed, NULL);
    results->extension =
        (struct symc_extension){.key = &key, .end = end_results};
    return &results->extension;
}

/* Returns the table; NULL: none and not to be made, or no memory. */
static struct results *find_results(struct symmcoll_world *world, bool make)
{
    return (struct results *)symc_world_extension(
        world, &key, make ? make_results : NULL);
}

static struct symc_f_result **find_bucket(
    struct results *results, const void *data)
{
    uintptr_t address = (uintptr_t)data / SYMC_LINE;

    return &results->buckets[(address ^ address >> 6) % BUCKETS];
}

struct symc_f_operation *symc_f_operation_create(
    struct symmcoll_world *world, const char *name, size_t n)
{
    struct symc_f_operation *made;
    size_t each = sizeof(made->results[0]) + sizeof(*made->outs) +
                  sizeof(*made->ins) + sizeof(*made->counts);

    made = find_results(world, true) == NULL
               ? NULL
               : symc_alloc(1, sizeof(*made) + n * each);
    if (made == NULL)
        return NULL;
    made->name = name;
    made->outs = (void **)(void *)&made->results[n];
    made->ins = (const void **)(void *)&made->outs[n];
    made->counts = (size_t *)(void *)&made->ins[n];
    return made;
}

void symc_f_operation_add(
    struct symc_f_operation *operation, const struct symc_f_step *step)
{
    size_t at = operation->n++;

    operation->dtype = step->in.dtype;
    operation->outs[at] = step->to;
    operation->ins[at] = step->from;
    operation->counts[at] = step->count;
    operation->results[at] = (struct symc_f_result){.operation = operation,
        .data = step->out.data,
        .site = symc_site_share(step->site),
        .temp = step->temp,
        .counts = step->counts,
        .after = step->after,
        .elem = step->elem,
        .holders = 1};
}

void symc_f_operation_list(
    struct symmcoll_world *world, struct symc_f_operation *operation)
{
    struct results *results = find_results(world, false);

    operation->holders = operation->n;
    pthread_mutex_lock(&results->lock);
    for (size_t i = 0; i < operation->n; i++) {
        struct symc_f_result *result = &operation->results[i];
        struct symc_f_result **bucket = find_bucket(results, result->data);

        result->next = *bucket;
        *bucket = result;
    }
    pthread_mutex_unlock(&results->lock);
}

/* ---- waiting ---- */

/* Returns the oldest pending result of a buffer, under the lock. */
static struct symc_f_result *find_result(
    struct results *results, const void *data)
{
    struct symc_f_result *found = NULL;

    for (struct symc_f_result *at = *find_bucket(results, data); at != NULL;
         at = at->next) {
        if (at->data == data)
            found = at;
    }
    return found;
}

/* Removes a result that is complete or never will be, under the lock. False:
 * another thread has removed it. */
static bool remove_result(struct results *results, struct symc_f_result *result)
{
    struct symc_f_result **at = find_bucket(results, result->data);

    while (*at != NULL && *at != result)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = result->next;
    return true;
}

/* Completes a result, once: copies the received elements to their places. Under
 * the lock. The operation has ended, or the stream waits for it. */
static symmcoll_status_t finish(
    struct results *results, struct symc_f_result *result)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    while (result->finishing && !result->finished)
        pthread_cond_wait(&results->changed, &results->lock);
    if (result->finished)
        return SYMMCOLL_OK;
    result->finishing = true;
    pthread_mutex_unlock(&results->lock);
    if (result->temp != NULL && result->after.ndim > 0)
        status = symc_f_copy(result->site, &result->after, result->temp,
            result->data, result->elem);
    pthread_mutex_lock(&results->lock);
    result->finished = true;
    pthread_cond_broadcast(&results->changed);
    return status;
}

/* The manner of a wait. */
struct manner {
    double timeout; /* negative: none; the stream of a device result waits */
    bool ordered;   /* for later operations on `stream`: */
    void *stream;
};

/* Returns whether the host has to wait for the result's stream. */
static bool blocks(
    const struct symc_f_result *result, const struct manner *manner)
{
    return result->site != NULL &&
           (manner->timeout >= 0 ||
               (manner->ordered &&
                   symc_site_is_beside(result->site, manner->stream)));
}

/* Refuses a wait that has to enqueue a copy or a free on a stream that is being
 * captured: a graph would repeat it at each launch. */
static symmcoll_status_t check_captured(const struct symc_f_result *result)
{
    void *stream = symc_site_stream(result->site);
    symmcoll_status_t status;
    bool captured;

    if (result->site == NULL || result->temp == NULL)
        return SYMMCOLL_OK;
    status = symc_site_query_captured(result->site, stream, &captured);
    /* The driver does not answer for the default stream while a stream that
     * waits for it is being captured. */
    if (status != SYMMCOLL_OK)
        return symc_error_prefix(status, "%s", result->operation->name);
    if (!captured)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: stream %p is being captured: expected a wait for the result before "
        "that, or after it",
        result->operation->name, stream);
}

/* Waits for the stream if a copy was enqueued after the operation. Under the
 * lock, which is released during the wait. */
static symmcoll_status_t await_stream(struct results *results,
    const struct symc_f_result *result, int64_t deadline_ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    symmcoll_status_t status;

    if (result->temp == NULL || result->after.ndim == 0)
        return SYMMCOLL_OK;
    pthread_mutex_unlock(&results->lock);
    status = symc_site_query(result->site);
    while (status == SYMMCOLL_IN_PROGRESS && symc_now_ns() < deadline_ns) {
        nanosleep(&nap, NULL);
        status = symc_site_query(result->site);
    }
    pthread_mutex_lock(&results->lock);
    return status != SYMMCOLL_IN_PROGRESS
               ? status
               : symc_fail(SYMMCOLL_ERR_TIMEOUT,
                     "%s: the result has not been copied in time; it goes on",
                     result->operation->name);
}

/* Waits for all results in a buffer. waited (out): there was one, and it is
 * complete. */
static symmcoll_status_t wait_for(struct results *results, const void *data,
    const struct manner *manner, bool *waited)
{
    symmcoll_status_t first = SYMMCOLL_OK;
    int64_t deadline_ns = SYMC_NEVER;
    int count = 0;
    struct symc_f_result *result;

    if (manner->timeout >= 0)
        deadline_ns = symc_deadline_ns(symc_now_ns(),
            manner->timeout < LONG_S
                ? (int64_t)(manner->timeout * (double)SYMC_NS_PER_S)
                : SYMC_NEVER);

    pthread_mutex_lock(&results->lock);
    while ((result = find_result(results, data)) != NULL) {
        symmcoll_status_t status, expired;
        bool blocking = blocks(result, manner);

        result->holders++;
        pthread_mutex_unlock(&results->lock);
        status = check_captured(result);
        expired = status == SYMMCOLL_OK
                      ? symmcoll_work_wait(result->operation->work,
                            blocking && manner->timeout < 0 ? LONG_S
                                                            : manner->timeout)
                      : status;
        pthread_mutex_lock(&results->lock);
        if (status != SYMMCOLL_OK) {
            release(result, 1);
            first = status;
            break;
        }
        /* It may have ended after the wait: its own status counts. */
        status = symmcoll_work_test(result->operation->work);
        if (status == SYMMCOLL_IN_PROGRESS && expired == SYMMCOLL_OK &&
            result->site != NULL)
            status = SYMMCOLL_OK; /* its stream waits */
        if (status == SYMMCOLL_OK)
            status = finish(results, result);
        else if (status == SYMMCOLL_IN_PROGRESS)
            first = expired; /* or the wait was refused */
        if (status == SYMMCOLL_OK && blocking &&
            await_stream(results, result, deadline_ns) ==
                SYMMCOLL_ERR_TIMEOUT) {
            first = SYMMCOLL_ERR_TIMEOUT;
            status = SYMMCOLL_IN_PROGRESS;
        }
        if (status == SYMMCOLL_IN_PROGRESS) {
            release(result, 1);
            break;
        }
        if (status != SYMMCOLL_OK && first == SYMMCOLL_OK)
            first = status;
        result->operation->reported =
            result->operation->reported || status != SYMMCOLL_OK;
        release(result, remove_result(results, result) ? 2 : 1);
        count++;
    }
    pthread_mutex_unlock(&results->lock);
    *waited = count > 0;
    return first;
}

static symmcoll_status_t wait_in_manner(
    struct symmcoll_world *world, const void *data, const struct manner *manner)
{
    struct results *results = find_results(world, false);
    symmcoll_status_t status;
    bool waited;

    if (results == NULL || data == NULL)
        return SYMMCOLL_OK;
    status = wait_for(results, data, manner, &waited);
    if (waited)
        symc_f_record_wait(world, data);
    return status;
}

symmcoll_status_t symc_f_result_wait(
    struct symmcoll_world *world, const void *data, double timeout)
{
    const struct manner manner = {.timeout = timeout};

    return wait_in_manner(world, data, &manner);
}

symmcoll_status_t symc_f_result_await(
    struct symmcoll_world *world, const void *data, void *stream)
{
    const struct manner manner = {
        .timeout = -1, .ordered = true, .stream = stream};

    return wait_in_manner(world, data, &manner);
}

bool symc_f_result_is_pending(struct symmcoll_world *world, const void *data)
{
    struct results *results = find_results(world, false);
    bool pending;

    if (results == NULL || data == NULL)
        return false;
    pthread_mutex_lock(&results->lock);
    pending = find_result(results, data) != NULL;
    pthread_mutex_unlock(&results->lock);
    return pending;
}

symmcoll_status_t symmcoll_f_wait(struct symmcoll_world *world,
    const struct symmcoll_tensor *tensor, double timeout)
{
    struct symmcoll_tensor copy;
    symmcoll_status_t status;
    int64_t ns;
    int cancel;

    if (world == NULL || tensor == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "f_wait: expected a world and a tensor, found NULL");
    status = symc_timeout_read("f_wait", timeout, 0, &ns);
    if (status == SYMMCOLL_OK)
        status = symc_tensor_read("f_wait", tensor, 0, &copy);
    if (status != SYMMCOLL_OK)
        return status;
    cancel = symc_cancel_disable();
    status = symc_f_result_wait(world, copy.data, timeout);
    symc_cancel_restore(cancel);
    return status;
}

void symmcoll_f_free(
    struct symmcoll_world *world, struct symmcoll_tensor *tensor)
{
    bool pending = false;

    if (tensor == NULL || tensor->data == NULL)
        return;
    if (world != NULL) {
        int cancel = symc_cancel_disable();

        (void)symc_f_result_wait(world, tensor->data, -1);
        pending = symc_f_result_is_pending(world, tensor->data);
        if (tensor->device == SYMMCOLL_CUDA && !pending)
            symc_f_disown(world, tensor->data);
        symc_cancel_restore(cancel);
    }
    /* Memory to which an operation still writes is not freed; device memory is
     * freed at finalize. */
    if (tensor->device != SYMMCOLL_CUDA && !pending)
        free(tensor->data);
    tensor->data = NULL;
}
