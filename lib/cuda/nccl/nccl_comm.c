/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/nccl/nccl_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAP_NS SYMC_CUDA_COMM_NAP_NS /* the first one */
#define NAP_MOST_NS (INT64_C(5000) * 1000)
#define TEXT 192 /* bytes of a text of NCCL */

/* ---- errors ---- */

int symc_cuda_comm_world_rank(const struct symc_cuda_comm *comm, int rank)
{
    const struct symc_ranks *ranks = comm->core->ranks;

    return ranks->global != NULL ? ranks->global[rank] : rank;
}

symmcoll_status_t symc_cuda_comm_status(enum symc_nccl_result result)
{
    switch (result) {
    case SYMC_NCCL_SUCCESS:
        return SYMMCOLL_OK;
    case SYMC_NCCL_IN_PROGRESS:
        return SYMMCOLL_IN_PROGRESS;
    case SYMC_NCCL_SYSTEM_ERROR:
        return SYMMCOLL_ERR_SYSTEM;
    case SYMC_NCCL_REMOTE_ERROR:
        return SYMMCOLL_ERR_PEER;
    case SYMC_NCCL_INVALID_ARGUMENT:
    case SYMC_NCCL_INVALID_USAGE:
        return SYMMCOLL_ERR_INVALID;
    default:
        return SYMMCOLL_ERR_DEVICE;
    }
}

/* Copies a text as one line. */
static const char *copy_text(const char *text, char *buffer)
{
    size_t n = 0;

    for (; text != NULL && text[n] != '\0' && n < TEXT - 1; n++)
        buffer[n] = text[n] == '\n' ? ' ' : text[n];
    while (n > 0 && buffer[n - 1] == ' ')
        n--;
    buffer[n] = '\0';
    return buffer;
}

void symc_cuda_comm_describe(
    const struct symc_cuda_comm *comm, enum symc_nccl_result result, char *text)
{
    const struct symc_nccl *nccl = comm->nccl;
    char what[TEXT], more[TEXT], last[SYMC_NCCL_TEXT];

    copy_text(nccl->get_error_string(result), what);
    copy_text(symc_nccl_last_error(nccl, comm->made, last), more);
    (void)snprintf(text, SYMC_DETAIL_MAX,
        "%s on rank %d: NCCL error %d, %s%s%s", comm->call,
        symc_cuda_comm_world_rank(comm, comm->rank), (int)result, what,
        more[0] != '\0' ? ": " : "", more);
}

symmcoll_status_t symc_cuda_comm_judge(
    const struct symc_cuda_comm *comm, enum symc_nccl_result result)
{
    symmcoll_status_t status = symc_cuda_comm_status(result);
    char text[SYMC_DETAIL_MAX];

    if (status >= 0)
        return status;
    /* A communicator is made from values of the library, the settings and the machine.
     * NCCL reports problems with them, such as a shared device, as invalid usage; they
     * are no mistake in a member's call, and last. */
    if (status == SYMMCOLL_ERR_INVALID && !comm->ready)
        status = SYMMCOLL_ERR_DEVICE;
    symc_cuda_comm_describe(comm, result, text);
    return comm->core->fail(status, "%s", text);
}

symmcoll_status_t symc_cuda_comm_refuse_aborted(
    const struct symc_cuda_comm *comm)
{
    return comm->core->fail(SYMMCOLL_ERR_ABORTED,
        "%s on rank %d: expected a communicator, found one that was aborted",
        comm->call, symc_cuda_comm_world_rank(comm, comm->rank));
}

bool symc_cuda_comm_is_grouped(const struct symc_cuda_comm *comm)
{
    return comm->detects_groups && symc_nccl_is_grouped(comm->nccl);
}

/* ---- work in progress ---- */

symmcoll_status_t symc_cuda_comm_test(struct symc_cuda_comm *comm)
{
    enum symc_nccl_result found = SYMC_NCCL_SUCCESS, result;
    symmcoll_status_t status;

    pthread_mutex_lock(&comm->lock);
    if (comm->made == NULL) {
        status = symc_cuda_comm_refuse_aborted(comm);
    } else {
        result = comm->nccl->comm_get_async_error(comm->made, &found);
        status = symc_cuda_comm_judge(
            comm, result != SYMC_NCCL_SUCCESS ? result : found);
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}

void symc_cuda_comm_drop(struct symc_cuda_comm *comm)
{
    if (comm->made != NULL)
        symc_cuda_keeper_stop(
            comm->keeper, comm->nccl, comm->made, comm->keeps);
    comm->made = NULL;
}

void symc_cuda_comm_abort(struct symc_cuda_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    symc_cuda_comm_drop(comm);
    pthread_mutex_unlock(&comm->lock);
}

void symc_cuda_comm_forgo(struct symc_cuda_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    comm->forgone = true;
    pthread_mutex_unlock(&comm->lock);
}

void symc_cuda_comm_try_abort(struct symc_cuda_comm *comm)
{
    if (pthread_mutex_trylock(&comm->lock) != 0)
        return;
    symc_cuda_comm_drop(comm);
    pthread_mutex_unlock(&comm->lock);
}

void symc_cuda_comm_pause(const struct symc_core *core, int64_t nap_ns)
{
    static const _Atomic uint64_t never;
    struct symc_wait_budget budget = {.deadline_ns = core->now() + nap_ns};

    (void)core->wait(core->group, &never, 1, -1, &budget);
}

/* ---- opening ---- */

/* Checks that all members have the same version: different versions are incompatible. */
static symmcoll_status_t compare_versions(const struct symc_cuda_comm *comm)
{
    const struct symc_core *core = comm->core;
    int32_t mine = comm->nccl->version, *all;
    char versions[2][32];
    symmcoll_status_t status;

    all = calloc((size_t)comm->size, sizeof(*all));
    if (all == NULL)
        return core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for %d members", comm->size);
    status = core->gather(core->group, &mine, all, sizeof(mine));
    for (int r = 1; r < comm->size && status == SYMMCOLL_OK; r++)
        if (all[r] != all[0])
            status = core->fail(SYMMCOLL_ERR_UNSUPPORTED,
                "expected one version of NCCL on all members, found %s on rank "
                "%d and %s on rank %d",
                symc_nccl_format_version(all[0], versions[0]),
                symc_cuda_comm_world_rank(comm, 0),
                symc_nccl_format_version(all[r], versions[1]),
                symc_cuda_comm_world_rank(comm, r));
    free(all);
    return status;
}

/* Gets the id that rank 0 draws (out).  For each id NCCL opens a socket and starts a
 * thread that serves it. */
static symmcoll_status_t draw_id(
    struct symc_cuda_comm *comm, struct symc_nccl_id *id)
{
    const struct symc_core *core = comm->core;
    struct symc_nccl_id mine = {.bytes = {0}}, *all;
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclGetUniqueId";
    if (comm->rank == 0)
        status = symc_cuda_comm_judge(comm, comm->nccl->get_unique_id(&mine));
    pthread_mutex_unlock(&comm->lock);
    if (status != SYMMCOLL_OK)
        return status;
    all = calloc((size_t)comm->size, sizeof(*all));
    if (all == NULL)
        return core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for %d members", comm->size);
    status = core->gather(core->group, &mine, all, sizeof(mine));
    *id = all[0];
    free(all);
    return status;
}

static symmcoll_status_t begin(struct symc_cuda_comm *comm,
    struct symc_nccl_config config, struct symc_nccl_id id)
{
    symmcoll_status_t status;

    config.blocking = 0;
    config.comm_name = symc_cuda_keeper_name(comm->keeper);
    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommInitRankConfig";
    status = symc_cuda_comm_judge(
        comm, comm->nccl->comm_init_rank_config(
                  &comm->made, comm->size, id, comm->rank, &config));
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* Fails because the deadline has passed, with the members that are still busy. */
static symmcoll_status_t expire(
    const struct symc_cuda_comm *comm, const uint32_t *busy, int64_t timeout_ns)
{
    bool ranks[SYMC_RANKS_MAX] = {false};
    char text[TEXT] = "";
    size_t used = 0;
    symmcoll_status_t status;

    for (int r = 0; r < comm->size; r++)
        ranks[r] = busy[r] != 0;
    for (int r = 0; r < comm->size && used < sizeof(text) - 16; r++)
        if (busy[r] != 0)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d",
                used > 0 ? ", " : "", symc_cuda_comm_world_rank(comm, r));
    status = comm->core->fail(SYMMCOLL_ERR_TIMEOUT,
        "%s: expected it to end on all %d members within %.3g s, found it in "
        "progress on rank %s",
        comm->call, comm->size, (double)timeout_ns / (double)SYMC_NS_PER_S,
        text);
    comm->core->add_ranks(comm->core->group, ranks);
    return status;
}

symmcoll_status_t symc_cuda_comm_await_all(
    struct symc_cuda_comm *comm, struct symc_cuda_until until, uint32_t *busy)
{
    const struct symc_core *core = comm->core;
    int64_t nap = NAP_NS;

    for (;;) {
        symmcoll_status_t status = symc_cuda_comm_test(comm);
        uint32_t mine = status == SYMMCOLL_IN_PROGRESS;
        int left = 0;

        if (status >= 0)
            status = core->gather(core->group, &mine, busy, sizeof(mine));
        if (status < 0)
            return status;
        for (int r = 0; r < comm->size; r++)
            left += busy[r] != 0;
        if (left == 0)
            return SYMMCOLL_OK;
        if (core->now() >= until.deadline_ns)
            return expire(comm, busy, until.timeout_ns);
        symc_cuda_comm_pause(core, nap);
        if (nap < NAP_MOST_NS)
            nap *= 2;
    }
}

symmcoll_status_t symc_cuda_comm_take_made(
    struct symc_cuda_comm *parent, struct symc_cuda_comm *child)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&parent->lock);
    if (parent->made == NULL)
        status = symc_cuda_comm_refuse_aborted(parent);
    else if (child != NULL)
        child->made = symc_cuda_keeper_settle(parent->keeper);
    pthread_mutex_unlock(&parent->lock);
    return status;
}

static symmcoll_status_t make(struct symc_cuda_comm *comm,
    const struct symc_nccl_config *config, struct symc_cuda_until until)
{
    struct symc_nccl_id id;
    symmcoll_status_t status = compare_versions(comm);
    uint32_t *busy;

    if (status == SYMMCOLL_OK)
        status = draw_id(comm, &id);
    if (status != SYMMCOLL_OK)
        return status;
    busy = calloc((size_t)comm->size, sizeof(*busy));
    if (busy == NULL)
        return comm->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for %d members", comm->size);
    status = begin(comm, *config, id);
    if (status >= 0)
        status = symc_cuda_comm_await_all(comm, until, busy);
    free(busy);
    return status;
}

static void end_with(struct symc_cuda_comm *comm,
    enum symc_nccl_result (*call)(struct symc_nccl_comm *comm))
{
    pthread_mutex_lock(&comm->lock);
    if (comm->made != NULL)
        symc_cuda_keeper_end(comm->keeper, call, comm->made);
    comm->made = NULL;
    pthread_mutex_unlock(&comm->lock);
}

bool symc_cuda_comm_end(struct symc_cuda_comm *comm, int64_t timeout_ns)
{
    bool over;

    end_with(comm, comm->nccl->comm_abort);
    over = comm->keeper == NULL ||
           symc_cuda_keeper_leave(comm->keeper, timeout_ns);
    comm->keeper = NULL;
    return over;
}

bool symc_cuda_comm_release(struct symc_cuda_comm *comm, int64_t timeout_ns)
{
    bool over = symc_cuda_comm_end(comm, timeout_ns);

    pthread_mutex_destroy(&comm->lock);
    atomic_fetch_sub(comm->core->communicators, 1);
    free(comm);
    return over;
}

struct symc_cuda_comm *symc_cuda_comm_wrap(const struct symc_nccl *nccl,
    const struct symc_core *core, struct symc_cuda_keeper *keeper, int rank,
    int size)
{
    struct symc_cuda_comm *made = calloc(1, sizeof(*made));

    if (made == NULL) {
        (void)core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for a communicator");
        return NULL;
    }
    made->nccl = nccl;
    made->keeper = keeper;
    made->core = core;
    made->rank = rank;
    made->size = size;
    pthread_mutex_init(&made->lock, NULL);
    /* Dumps of failures query NCCL while any communicator is counted.  It is counted
     * before the call that makes it, which may hang already, until it is freed: a group
     * that fails aborts it before the dump. */
    atomic_fetch_add(core->communicators, 1);
    return made;
}

symmcoll_status_t symc_cuda_comm_create(const struct symc_nccl *nccl,
    const struct symc_core *core, struct symc_cuda_where where, int rank,
    int size, struct symc_cuda_comm **comm)
{
    struct symc_cuda_keeper *keeper = NULL;
    int error = symc_cuda_keeper_start(where, core->name, &keeper);

    if (error == ENOMEM)
        return core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for a communicator");
    if (error != 0)
        return core->fail(SYMMCOLL_ERR_SYSTEM,
            "no thread for a communicator: %s", strerror(error));
    *comm = symc_cuda_comm_wrap(nccl, core, keeper, rank, size);
    if (*comm != NULL)
        return SYMMCOLL_OK;
    (void)symc_cuda_keeper_leave(keeper, 0);
    return SYMMCOLL_ERR_NO_MEMORY;
}

symmcoll_status_t symc_cuda_comm_open(const struct symc_nccl *nccl,
    const struct symc_nccl_config *config, const struct symc_core *core,
    struct symc_cuda_where where, struct symc_cuda_until until, int rank,
    int size, struct symc_cuda_comm **comm)
{
    struct symc_cuda_comm *made = NULL;
    symmcoll_status_t status =
        symc_cuda_comm_create(nccl, core, where, rank, size, &made);

    if (made == NULL)
        return status;
    status = make(made, config, until);
    made->ready = status == SYMMCOLL_OK;
    if (made->ready)
        *comm = made;
    else
        (void)symc_cuda_comm_release(made, SYMC_CUDA_COMM_FAILED_NS);
    return status;
}

/* ---- closing ---- */

bool symc_cuda_comm_find_broken(const struct symc_cuda_comm *comm, int *member)
{
    const struct symc_core *core = comm->core;

    *member = -1;
    if (core->failed(core->group, -1))
        return true;
    for (int r = 0; r < comm->size; r++) {
        *member = r;
        if (r != comm->rank && core->failed(core->group, r))
            return true;
    }
    return false;
}

/* Waits until the work that this member has enqueued has ended; returns whether
 * it has. */
static bool finalize(struct symc_cuda_comm *comm, int64_t timeout_ns)
{
    const struct symc_core *core = comm->core;
    int64_t deadline = symc_deadline_ns(core->now(), timeout_ns);
    symmcoll_status_t status;
    int member;

    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommFinalize";
    status = comm->made == NULL ? symc_cuda_comm_refuse_aborted(comm)
                                : symc_cuda_comm_judge(comm,
                                      comm->nccl->comm_finalize(comm->made));
    pthread_mutex_unlock(&comm->lock);
    while (status == SYMMCOLL_IN_PROGRESS) {
        status = symc_cuda_comm_test(comm);
        if (status != SYMMCOLL_IN_PROGRESS)
            break;
        if (symc_cuda_comm_find_broken(comm, &member) ||
            core->now() >= deadline)
            return false;
        symc_cuda_comm_pause(core, NAP_NS);
    }
    return status == SYMMCOLL_OK;
}

void symc_cuda_comm_close(struct symc_cuda_comm *comm, int64_t timeout_ns)
{
    const struct symc_core *core;
    int member;

    if (comm == NULL)
        return;
    core = comm->core;
    if (!symc_cuda_comm_is_grouped(comm) &&
        !symc_cuda_comm_find_broken(comm, &member) &&
        symc_cuda_comm_test(comm) == SYMMCOLL_OK && finalize(comm, timeout_ns))
        end_with(comm, comm->nccl->comm_destroy);
    if (!symc_cuda_comm_release(comm, timeout_ns))
        core->log(core->group, SYMC_LOG_INFO,
            "the group's communicator of NCCL ends later: other ranks have one "
            "still");
}
