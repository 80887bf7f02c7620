/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL chooses a place for each window on each rank by itself, after the existing
 * windows, and assumes that it is the same on all ranks.  A rank leaves memory when its
 * own use is over, so the members exchange which windows they still have, and make
 * another one only if these are equal.
 *
 * The program's memory becomes no window, which takes whole granules.  It is registered
 * with ncclCommRegister(), for which NCCL looks by address, too.
 */
#include "cuda/nccl/nccl_window.h"
#include "cuda/nccl/nccl_run.h"

#include "backend/placement.h"
#include "cuda/nccl/nccl_state.h"

#include <stdlib.h>

#define WINDOWS 32     /* entries: windows, and memory without one */
#define DELAYS_MOST 64 /* in a row */
#define SINCE SYMC_NCCL_CODE(2, 28, 0)

/* The members' decision about the memory of a number. */
struct symc_cuda_window {
    uint64_t number;                 /* 0: the entry is free */
    bool registered;                 /* on all; some may have left it since */
    struct symc_nccl_window *made;   /* written by NCCL */
    void *handle;                    /* for the program's memory, instead */
    struct symc_cuda_joined *joined; /* under the lock; NULL: not registered on
                                        this rank, or left */
    struct symc_cuda_windows *of;
};

struct symc_cuda_windows {
    struct symc_cuda_windows *next_kept;
    _Atomic(struct symc_cuda_comm *) comm;
    struct symc_cuda_window all[WINDOWS];
    int delays;
    bool off;     /* no more windows are made; alike on all members */
    bool written; /* NCCL may still write to a window that was not made */
};

/* Protects which memory is registered or left: memory may be left at any time, also while
 * its group is closed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Windows to which NCCL may still write. */
static struct symc_cuda_windows *kept; /* under the lock */

/* ---- look-up ---- */

static struct symc_cuda_window *find(
    struct symc_cuda_windows *windows, uint64_t number)
{
    for (int i = 0; windows != NULL && i < WINDOWS; i++) {
        if (windows->all[i].number == number)
            return &windows->all[i];
    }
    return NULL;
}

static bool is_undecided(struct symc_cuda_windows *windows, uint64_t number)
{
    return number != 0 && find(windows, number) == NULL;
}

/* Returns whether windows can be made; alike on all members, which have one version. */
static bool are_possible(const struct symc_cuda_group *group)
{
    const struct symc_nccl *nccl = group->comm->nccl;

    return group->limits.nccl_windows != 0 && !group->threads &&
           nccl->version >= SINCE && nccl->comm_window_register != NULL &&
           nccl->comm_window_deregister != NULL;
}

bool symc_cuda_windows_lack(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_agreed *agreed)
{
    struct symc_cuda_windows *windows = group->windows;
    struct symc_placement at;

    if (!are_possible(group) || !symc_is_placed(op) ||
        (windows != NULL && windows->off))
        return false;
    if (agreed != NULL && agreed->placed == SYMC_PLACED_UNLIKE)
        return false;
    /* Before the comparison: memory that this rank alone holds cannot be alike on all. */
    at = agreed != NULL && agreed->placed == SYMC_PLACED_ALIKE
             ? agreed->placement
             : symc_placement_of(group->core, op, group->size);
    return at.in != 0 && at.out != 0 &&
           (is_undecided(windows, at.in) || is_undecided(windows, at.out));
}

struct symc_cuda_comm *symc_cuda_windows_comm(
    const struct symc_cuda_group *group)
{
    struct symc_cuda_windows *windows = group->windows;

    return windows != NULL ? atomic_load(&windows->comm) : NULL;
}

struct symc_cuda_comm *symc_cuda_windows_find(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    struct symc_cuda_windows *windows = group->windows;
    const struct symc_placement *at = &group->agreed->placement;
    const struct symc_cuda_window *in, *out;

    if (windows == NULL || !symc_is_placed(op) ||
        group->agreed->placed != SYMC_PLACED_ALIKE || at->in == 0 ||
        at->out == 0)
        return NULL;
    in = find(windows, at->in);
    out = find(windows, at->out);
    return in != NULL && in->registered && out != NULL && out->registered
               ? atomic_load(&windows->comm)
               : NULL;
}

/* ---- making a window ---- */

/* The data that each member contributes to the gather about a window. */
struct contribution {
    uint64_t nbytes; /* 0: it cannot */
    uint64_t own;    /* 1: the memory is the program's */
    uint32_t left;   /* windows that it has left, a bit for each */
    uint32_t gone;   /* entries without a window whose memory it has left */
};

_Static_assert(WINDOWS <= 32, "each has a bit");

static uint32_t find_left(const struct symc_cuda_windows *windows)
{
    uint32_t left = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < WINDOWS; i++) {
        if (windows->all[i].registered && windows->all[i].joined == NULL)
            left |= UINT32_C(1) << i;
    }
    pthread_mutex_unlock(&lock);
    return left;
}

static uint32_t find_gone(const struct symc_cuda_group *group)
{
    const struct symc_shared_table *table = group->core->shared;
    const struct symc_cuda_window *all = group->windows->all;
    uint32_t gone = 0;

    for (int i = 0; i < WINDOWS; i++) {
        if (all[i].number != 0 && !all[i].registered &&
            symc_shared_by_number(table, all[i].number) == NULL)
            gone |= UINT32_C(1) << i;
    }
    return gone;
}

/* Returns whether memory is in a window already.  NCCL would use one place for memory in
 * two windows, and other ranks may not have both. */
static bool is_in_window(
    const struct symc_cuda_windows *windows, const struct symc_extent *extent)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < WINDOWS && !found; i++) {
        if (windows->all[i].joined == NULL)
            continue;
        found = windows->all[i].joined->own.begin == extent->begin;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns the extent of symmetric memory that the program has allocated. */
static struct symc_extent find_own(
    const struct symc_cuda_group *group, const struct symc_cuda_joined *joined)
{
    return (struct symc_extent){
        joined->joined.at[group->rank], joined->joined.nbytes};
}

/* Finds this rank's memory of a number: whole granules that the library has allocated, or
 * the program's memory. */
static struct symc_cuda_joined *find_memory(const struct symc_cuda_group *group,
    uint64_t number, struct contribution *mine)
{
    const struct symc_shared *shared =
        symc_shared_by_number(group->core->shared, number);
    struct symc_cuda_joined *joined =
        shared != NULL ? (void *)shared->joined : NULL;
    struct symc_extent extent = {.nbytes = 0};

    if (joined != NULL)
        extent = joined->own;
    if (joined != NULL && !joined->foreign && extent.nbytes == 0) {
        mine->nbytes = find_own(group, joined).nbytes;
        mine->own = 1;
    }
    if (extent.nbytes != 0 &&
        (uintptr_t)extent.begin % SYMC_NCCL_WINDOW_ALIGNMENT == 0 &&
        !is_in_window(group->windows, &extent))
        mine->nbytes = extent.nbytes;
    return joined;
}

/* Frees the entries that all members have left.  Returns whether the windows left are the
 * same on all members. */
static bool compare_left(const struct symc_cuda_group *group,
    struct symc_cuda_windows *windows, const struct contribution *all)
{
    uint32_t by_all = all[0].left, by_any = all[0].left, gone = all[0].gone;

    for (int r = 1; r < group->size; r++) {
        by_all &= all[r].left;
        by_any |= all[r].left;
        gone &= all[r].gone;
    }
    for (int i = 0; i < WINDOWS; i++) {
        if (((by_all | gone) >> i & 1) != 0)
            windows->all[i] = (struct symc_cuda_window){.number = 0};
    }
    return by_any == by_all;
}

static bool is_possible(
    const struct symc_cuda_group *group, const struct contribution *all)
{
    for (int r = 0; r < group->size; r++) {
        if (all[r].nbytes == 0 || all[r].nbytes != all[0].nbytes ||
            all[r].own != all[0].own)
            return false;
    }
    return true;
}

/* Records that memory is registered on this rank, until the rank leaves it. */
static void keep(
    struct symc_cuda_window *window, struct symc_cuda_joined *joined)
{
    pthread_mutex_lock(&lock);
    window->joined = joined;
    joined->window = window;
    pthread_mutex_unlock(&lock);
    window->registered = true;
}

static symmcoll_status_t register_window(struct symc_cuda_until until,
    struct symc_cuda_window *window, struct symc_cuda_joined *joined)
{
    struct symc_cuda_comm *comm = atomic_load(&window->of->comm);
    const struct symc_extent extent = joined->own;
    uint32_t busy[SYMC_KERNEL_RANKS];
    symmcoll_status_t status;

    window->of->written = true;
    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommWindowRegister";
    status = comm->made == NULL
                 ? symc_cuda_comm_refuse_aborted(comm)
                 : symc_cuda_comm_judge(
                       comm, comm->nccl->comm_window_register(comm->made,
                                 (void *)(uintptr_t)extent.begin, extent.nbytes,
                                 &window->made, SYMC_NCCL_WINDOW_SYMMETRIC));
    pthread_mutex_unlock(&comm->lock);
    if (status >= 0)
        status = symc_cuda_comm_await_all(comm, until, busy);
    if (status != SYMMCOLL_OK)
        return status;
    window->of->written = false;
    keep(window, joined);
    return SYMMCOLL_OK;
}

/* Registers the program's memory.  NULL: NCCL has not registered it, which is logged; it
 * returns no handle if its variables turn registration off. */
static void *call_register(
    struct symc_cuda_comm *comm, struct symc_extent extent)
{
    enum symc_nccl_result result = SYMC_NCCL_SUCCESS;
    char text[SYMC_DETAIL_MAX] = "ncclCommRegister: no handle";
    void *handle = NULL;

    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommRegister";
    if (comm->made != NULL)
        result = comm->nccl->comm_register(comm->made,
            (void *)(uintptr_t)extent.begin, extent.nbytes, &handle);
    if (result != SYMC_NCCL_SUCCESS) {
        symc_cuda_comm_describe(comm, result, text);
        handle = NULL;
    }
    pthread_mutex_unlock(&comm->lock);
    if (handle == NULL)
        comm->core->log(comm->core->group, SYMC_LOG_INFO,
            "memory of the program's is not registered with NCCL: %s", text);
    return handle;
}

static void call_deregister(struct symc_cuda_comm *comm, void *handle)
{
    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommDeregister";
    if (comm->made != NULL && handle != NULL)
        (void)comm->nccl->comm_deregister(comm->made, handle);
    pthread_mutex_unlock(&comm->lock);
}

/* Registers the program's memory on all members or on none; memory that is not registered
 * is used without. */
static symmcoll_status_t register_own(const struct symc_cuda_group *group,
    struct symc_cuda_window *window, struct symc_cuda_joined *joined)
{
    const struct symc_core *core = group->core;
    struct symc_cuda_comm *comm = atomic_load(&window->of->comm);
    uint32_t all[SYMC_KERNEL_RANKS], mine;
    symmcoll_status_t status;
    int failed = 0;

    /* All members have one version, so all lack these functions or none. */
    if (comm->nccl->comm_register == NULL ||
        comm->nccl->comm_deregister == NULL)
        return SYMMCOLL_OK;
    window->handle = call_register(comm, find_own(group, joined));
    mine = window->handle == NULL;
    status = core->gather(core->group, &mine, all, sizeof(mine));
    for (int r = 0; status == SYMMCOLL_OK && r < group->size; r++)
        failed += all[r] != 0;
    if (status == SYMMCOLL_OK && failed == 0) {
        keep(window, joined);
        return SYMMCOLL_OK;
    }
    call_deregister(comm, window->handle);
    window->handle = NULL;
    return status;
}

/* Decides about the memory of one number; collective. */
static symmcoll_status_t decide(struct symc_cuda_group *group,
    struct symc_cuda_until until, uint64_t number)
{
    const struct symc_core *core = group->core;
    struct symc_cuda_windows *windows = group->windows;
    struct contribution all[SYMC_KERNEL_RANKS], mine = {.nbytes = 0};
    struct symc_cuda_joined *joined = find_memory(group, number, &mine);
    struct symc_cuda_window *window;
    symmcoll_status_t status;

    mine.left = find_left(windows);
    mine.gone = find_gone(group);
    status = core->gather(core->group, &mine, all, sizeof(mine));
    if (status != SYMMCOLL_OK)
        return status;
    if (!compare_left(group, windows, all)) {
        windows->off = ++windows->delays == DELAYS_MOST;
        return SYMMCOLL_OK;
    }
    windows->delays = 0;
    window = find(windows, 0);
    if (window == NULL) {
        windows->off = true;
        return SYMMCOLL_OK;
    }
    *window = (struct symc_cuda_window){.number = number, .of = windows};
    if (!is_possible(group, all))
        return SYMMCOLL_OK;
    return mine.own != 0 ? register_own(group, window, joined)
                         : register_window(until, window, joined);
}

static symmcoll_status_t open_windows(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl_config *config)
{
    struct symc_cuda_windows *windows = group->windows;
    struct symc_cuda_comm *comm = NULL;
    struct symc_cuda_where where;
    symmcoll_status_t status;

    if (windows == NULL) {
        windows = calloc(1, sizeof(*windows));
        group->windows = windows;
    }
    if (windows == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory for windows of NCCL");
    if (atomic_load(&windows->comm) != NULL)
        return SYMMCOLL_OK;
    status = symc_cuda_find_where(group, &where);
    if (status == SYMMCOLL_OK)
        status = symc_cuda_comm_open(group->comm->nccl, config, group->core,
            where, until, group->rank, group->size, &comm);
    if (comm != NULL)
        comm->detects_groups = group->detects_groups;
    atomic_store(&windows->comm, comm);
    return status;
}

symmcoll_status_t symc_cuda_windows_prepare(struct symc_cuda_group *group,
    struct symc_cuda_until until, const struct symc_nccl_config *config)
{
    const struct symc_placement *at = &group->agreed->placement;
    symmcoll_status_t status = open_windows(group, until, config);

    if (status != SYMMCOLL_OK || group->agreed->placed != SYMC_PLACED_ALIKE)
        return status;
    if (is_undecided(group->windows, at->in))
        status = decide(group, until, at->in);
    if (status == SYMMCOLL_OK && is_undecided(group->windows, at->out) &&
        at->out != at->in)
        status = decide(group, until, at->out);
    return status;
}

void symc_cuda_windows_stop(struct symc_cuda_group *group)
{
    struct symc_cuda_windows *windows = group->windows;

    group->limits.nccl_windows = 0;
    if (windows == NULL)
        return;
    for (int i = 0; i < WINDOWS; i++)
        windows->all[i].registered = false;
    if (atomic_load(&windows->comm) != NULL)
        symc_cuda_comm_forgo(atomic_load(&windows->comm));
}

/* ---- the end ---- */

/* Ends a window with the lock held. */
static void end(struct symc_cuda_window *window)
{
    struct symc_cuda_comm *comm = atomic_load(&window->of->comm);
    const bool busy = window->of->written; /* after a window that failed */

    if (!busy)
        call_deregister(comm, window->handle);
    window->handle = NULL;
    pthread_mutex_lock(&comm->lock);
    comm->call = "ncclCommWindowDeregister";
    if (comm->made != NULL && window->made != NULL && !busy)
        (void)comm->nccl->comm_window_deregister(comm->made, window->made);
    pthread_mutex_unlock(&comm->lock);
    window->made = NULL;
    window->joined->window = NULL;
    window->joined = NULL;
}

void symc_cuda_windows_leave(struct symc_cuda_joined *joined)
{
    pthread_mutex_lock(&lock);
    if (joined->window != NULL)
        end(joined->window);
    pthread_mutex_unlock(&lock);
}

void symc_cuda_windows_close(struct symc_cuda_group *group, int64_t timeout_ns)
{
    struct symc_cuda_windows *windows = group->windows;

    if (windows == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WINDOWS; i++) {
        if (windows->all[i].joined != NULL)
            end(&windows->all[i]);
    }
    pthread_mutex_unlock(&lock);
    symc_cuda_comm_close(atomic_load(&windows->comm), timeout_ns);
    group->windows = NULL;
    if (!windows->written) {
        free(windows);
        return;
    }
    pthread_mutex_lock(&lock);
    windows->next_kept = kept;
    kept = windows;
    pthread_mutex_unlock(&lock);
}
