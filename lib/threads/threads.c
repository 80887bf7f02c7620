/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads as ranks. Either all start or none does: a missing rank would leave
 * the others waiting in init. A rank fails its groups when its function fails,
 * which ends the waits of its peers; each peer does the same when its function
 * returns, so that groups without the first rank end, too.
 */
#include "base/cancel.h"
#include "base/floating.h"
#include "base/ranks.h"
#include "base/thread.h"
#include "group/group.h"
#include "store/hash.h"

#include <symmcoll/store.h>
#include <symmcoll/threads.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct symmcoll_threads_args default_args =
    SYMMCOLL_THREADS_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_THREADS_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

enum gate {
    CLOSED,
    OPEN,
    GIVEN_UP
};

struct run {
    symmcoll_rank_fn body;
    void *arg;
    struct symmcoll_init_args init;
    sigset_t signals; /* the caller's, since ranks run the program's code */
    uint64_t mode;    /* the caller's mode of floating-point arithmetic */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum gate gate;
    _Atomic bool ending; /* a rank has failed or skipped */
};

struct rank {
    struct run *run;
    pthread_t thread;
    int number;
    symmcoll_status_t status;
    struct symc_error error; /* set if status is an error */
};

/* ---- one rank ---- */

/* Waits until all threads exist; false: one could not be created. */
static bool wait_for_gate(struct run *run)
{
    bool open;

    pthread_mutex_lock(&run->lock);
    while (run->gate == CLOSED)
        pthread_cond_wait(&run->changed, &run->lock);
    open = run->gate == OPEN;
    pthread_mutex_unlock(&run->lock);
    return open;
}

static void open_gate(struct run *run, enum gate gate)
{
    pthread_mutex_lock(&run->lock);
    run->gate = gate;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* Returns whether a value returned by the program is an error of the
 * library. */
static bool is_error(symmcoll_status_t status)
{
    return status < 0 &&
           symmcoll_status_category(status) != SYMMCOLL_CATEGORY_NONE &&
           strcmp(symmcoll_status_name(status), "unknown status") != 0;
}

static void keep_result(struct rank *rank, symmcoll_status_t status)
{
    rank->status = status;
    if (is_error(status))
        symc_error_keep(&rank->error, status);
}

/* Returns whether joining may have failed because another rank did not join. */
static bool may_be_ended(symmcoll_status_t status)
{
    return status == SYMMCOLL_ERR_PEER || status == SYMMCOLL_ERR_TIMEOUT ||
           status == SYMMCOLL_ERR_CANCELED || status == SYMMCOLL_ERR_ABORTED;
}

/* Returns whether a call of this rank was aborted because another rank had
 * failed. */
static bool was_ended(struct symmcoll_world *world, symmcoll_status_t status)
{
    struct symc_members *members = NULL;

    if (status == SYMMCOLL_ERR_CANCELED || status == SYMMCOLL_ERR_ABORTED)
        return true;
    while ((members = symc_world_next(world, members)) != NULL) {
        if (atomic_load(&members->reported) != 0)
            return true;
    }
    return false;
}

/* Ends the waits of the other ranks after this rank's function did not
 * succeed. */
static void end_others(struct rank *rank, struct symmcoll_world *world)
{
    struct symc_members *members = NULL;
    char reason[SYMC_DETAIL_MAX + 96];

    if (rank->status == SYMMCOLL_SKIPPED)
        snprintf(reason, sizeof(reason), "its function has skipped");
    else if (is_error(rank->status))
        snprintf(reason, sizeof(reason), "its function returned %s: %s",
            symmcoll_status_name(rank->status), rank->error.detail);
    else
        snprintf(reason, sizeof(reason), "its function returned %d",
            (int)rank->status);
    while ((members = symc_world_next(world, members)) != NULL)
        symmcoll_group_abort(symc_group_of(members), reason);
    symc_store_stop_hash(rank->run->init.store);
}

/* Runs the function in its world, and determines why it has ended. */
static void run_body(struct rank *rank, struct symmcoll_world *world)
{
    struct run *run = rank->run;
    bool ending;

    keep_result(rank, run->body(world, run->arg));
    if (rank->status == SYMMCOLL_OK)
        return;
    ending = atomic_exchange(&run->ending, true);
    end_others(rank, world);
    if (ending && rank->status != SYMMCOLL_SKIPPED &&
        was_ended(world, rank->status))
        rank->status = SYMMCOLL_ERR_ABORTED;
    else if (rank->status == SYMMCOLL_ERR_ABORTED)
        rank->status = SYMMCOLL_ERR_CANCELED; /* the program itself aborted */
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    struct run *run = rank->run;
    struct symmcoll_init_args init = run->init;
    struct symmcoll_world *world;
    symmcoll_status_t status;

    if (!wait_for_gate(run))
        return NULL;
    pthread_sigmask(SIG_SETMASK, &run->signals, NULL);
    symc_floating_put(run->mode);
    init.rank = rank->number;
    status = symmcoll_init(&init, &world);
    if (status != SYMMCOLL_OK) {
        keep_result(rank, status);
        if (atomic_exchange(&run->ending, true) && may_be_ended(status))
            rank->status = SYMMCOLL_ERR_ABORTED;
        symc_store_stop_hash(run->init.store);
        return NULL;
    }
    run_body(rank, world);
    status = symmcoll_finalize(world);
    if (status != SYMMCOLL_OK && rank->status == SYMMCOLL_OK &&
        !atomic_load(&run->ending))
        keep_result(rank, status);
    return NULL;
}

/* ---- all ranks ---- */

static bool has_failed(const struct rank *rank)
{
    return rank->status != SYMMCOLL_OK && rank->status != SYMMCOLL_SKIPPED &&
           rank->status != SYMMCOLL_ERR_ABORTED;
}

/* Returns whether two failed ranks have the same status and detail. */
static bool are_alike(const struct rank *first, const struct rank *second)
{
    return first->status == second->status &&
           strcmp(first->error.detail, second->error.detail) == 0;
}

/* Lists the ranks that failed like rank `number`; false if a lower one did. */
static bool list_alike(
    const struct rank *ranks, int size, int number, bool *listed)
{
    memset(listed, 0, SYMC_RANKS_MAX * sizeof(*listed));
    for (int i = 0; i < size; i++) {
        listed[i] =
            has_failed(&ranks[i]) && are_alike(&ranks[i], &ranks[number]);
        if (i < number && listed[i])
            return false;
    }
    return true;
}

/* Writes "ranks 0 and 2 returned TIMEOUT: ...", with at most `room` bytes of
 * the detail. */
static size_t describe_failed(const struct rank *rank, const bool *listed,
    int size, int room, char *buffer, size_t nbytes)
{
    char names[160];
    int used;

    symc_format_named_ranks(listed, size, names, sizeof(names));
    if (is_error(rank->status))
        used = snprintf(buffer, nbytes, "%s returned %s: %.*s", names,
            symmcoll_status_name(rank->status), room > 0 ? room : 0,
            rank->error.detail);
    else
        used = snprintf(
            buffer, nbytes, "%s returned %d", names, (int)rank->status);
    return used > 0 ? (size_t)used : 0;
}

/* Returns how many bytes of detail the next of several errors may have: enough
 * for its reason, as far as the ones after it can still be named. */
static int next_room(int used, int left)
{
    const int name = 36;    /* "; ranks 0 and 2 returned TIMEOUT: ", about */
    const int reason = 120; /* more than a file's name and a limit take */
    const int head = 48;    /* "threads_run: 6 of 6 ranks failed: ", about */
    int room = SYMC_DETAIL_MAX - head - used - left * name;
    int equal = room / left;
    int most = equal > reason ? equal : reason;

    return room < most ? room : most;
}

/* Returns one error for all ranks that have failed; there is at least one. */
static symmcoll_status_t fail_run(const struct rank *ranks, int size)
{
    bool listed[SYMC_RANKS_MAX];
    char text[SYMC_DETAIL_MAX] = "";
    size_t used = 0;
    int failed = 0, kinds = 0, first = -1;

    for (int i = 0; i < size; i++) {
        if (!has_failed(&ranks[i]))
            continue;
        if (failed++ == 0)
            first = i;
        kinds += list_alike(ranks, size, i, listed);
    }
    for (int i = first; i < size && used + 2 < sizeof(text); i++) {
        if (!has_failed(&ranks[i]) || !list_alike(ranks, size, i, listed))
            continue;
        if (i > first)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "; ");
        used += describe_failed(&ranks[i], listed, size,
            next_room((int)used, kinds--), text + used, sizeof(text) - used);
    }
    (void)symc_fail(
        is_error(ranks[first].status) ? ranks[first].status : SYMMCOLL_ERR_PEER,
        "threads_run: %d of %d ranks failed: %s", failed, size, text);
    for (int i = 0; i < size; i++)
        listed[i] = has_failed(&ranks[i]);
    return symc_error_add_ranks(&(struct symc_ranks){.size = size}, listed);
}

/* Stores the statuses of all ranks, and returns the one of the run. */
static symmcoll_status_t judge(
    const struct rank *ranks, int size, symmcoll_status_t *statuses)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < size; i++) {
        if (statuses != NULL)
            statuses[i] = ranks[i].status;
    }
    for (int i = 0; i < size; i++) {
        if (has_failed(&ranks[i]))
            return fail_run(ranks, size);
        if (ranks[i].status == SYMMCOLL_SKIPPED)
            status = SYMMCOLL_SKIPPED;
    }
    return status;
}

/* Creates all threads, lets them start together, and joins them. */
static symmcoll_status_t run_ranks(
    struct run *run, int size, struct rank *ranks, symmcoll_status_t *statuses)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    int made = 0;

    while (made < size && status == SYMMCOLL_OK) {
        char name[24]; /* sizes of worlds have four digits */

        snprintf(name, sizeof(name), "symmcoll r%d", made);
        ranks[made].run = run;
        ranks[made].number = made;
        ranks[made].status = SYMMCOLL_ERR_PEER;
        snprintf(ranks[made].error.detail, sizeof(ranks[made].error.detail),
            "its thread has ended itself");
        status = symc_thread_start(
            &ranks[made].thread, name, 0, rank_main, &ranks[made]);
        made += status == SYMMCOLL_OK;
    }
    open_gate(run, status == SYMMCOLL_OK ? OPEN : GIVEN_UP);
    for (int i = 0; i < made; i++)
        pthread_join(ranks[i].thread, NULL);
    return status == SYMMCOLL_OK ? judge(ranks, size, statuses) : status;
}

static symmcoll_status_t run_threads(int size, symmcoll_rank_fn body, void *arg,
    const struct symmcoll_threads_args *args)
{
    struct run run = {.body = body,
        .arg = arg,
        .init = SYMMCOLL_INIT_ARGS_INIT,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER};
    struct rank *ranks;
    symmcoll_status_t status;

    status = symmcoll_store_create_hash(&run.init.store);
    if (status != SYMMCOLL_OK)
        return status;
    run.init.world_size = size;
    run.init.name = args->name;
    run.init.timeout = args->timeout;
    pthread_sigmask(SIG_SETMASK, NULL, &run.signals);
    run.mode = symc_floating_get();
    ranks = symc_alloc((size_t)size, sizeof(*ranks));
    status = ranks == NULL ? SYMMCOLL_ERR_NO_MEMORY
                           : run_ranks(&run, size, ranks, args->statuses);
    free(ranks);
    symmcoll_store_close(run.init.store);
    return status;
}

symmcoll_status_t symmcoll_threads_run(int size, symmcoll_rank_fn body,
    void *arg, const struct symmcoll_threads_args *given)
{
    struct symmcoll_threads_args args;
    symmcoll_status_t status;
    int cancel;

    if (body == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "threads_run: expected a function, found NULL");
    if (size < 1 || size > SYMC_RANKS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "threads_run: expected 1 to %d ranks, found %d", SYMC_RANKS_MAX,
            size);
    status = symc_sized_read(&args_kind, "threads_run", given, &args);
    if (status != SYMMCOLL_OK)
        return status;
    cancel = symc_cancel_disable();
    status = run_threads(size, body, arg, &args);
    symc_cancel_restore(cancel);
    return status;
}
