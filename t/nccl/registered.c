/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows of the stand-in for NCCL. Like NCCL it places each window after the
 * existing ones, independently on each rank. It ends the process if the places
 * differ between ranks, if memory is registered that NCCL would refuse, or is
 * deregistered while it is used, and if a window remains when its communicator
 * is destroyed.
 */
#include "t/nccl/comms.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

API int ncclCommWindowRegister(struct symc_nccl_comm *comm, void *at,
    size_t nbytes, struct symc_nccl_window **window, int flags);
API int ncclCommWindowDeregister(
    struct symc_nccl_comm *comm, struct symc_nccl_window *window);

int fake_windows_find(const struct symc_nccl_comm *comm, const void *at)
{
    for (int i = 0; i < FAKE_WINDOWS; i++) {
        const struct symc_nccl_window *window = &comm->windows[i];

        if ((uintptr_t)at - (uintptr_t)window->at < window->nbytes)
            return i;
    }
    return -1;
}

static uint64_t place(const struct symc_nccl_comm *comm, int i, const void *at)
{
    return (uint64_t)((const char *)at - comm->windows[i].at) * FAKE_WINDOWS +
           (uint64_t)i + 1;
}

/* Marks windows on this rank only, as NCCL does: a buffer without a window
 * takes another path. */
void fake_windows_use(struct fake_work *work, const void *in, const void *out)
{
    struct symc_nccl_comm *comm = work->comm;
    int from = fake_windows_find(comm, in), to = fake_windows_find(comm, out);

    if (from < 0 || to < 0)
        return;
    work->windows = 1 << from | 1 << to;
    work->placed = place(comm, from, in) << 32 | place(comm, to, out);
    for (int i = 0; i < FAKE_WINDOWS; i++)
        atomic_fetch_add(&comm->windows[i].uses, work->windows >> i & 1);
    atomic_fetch_add(&fake_nccl.windowed, 1);
}

void fake_windows_unuse(struct fake_work *work)
{
    for (int i = 0; i < FAKE_WINDOWS; i++) {
        if ((work->windows >> i & 1) != 0)
            atomic_fetch_sub(&work->comm->windows[i].uses, 1);
    }
    work->windows = 0;
}

/* Returns IN_PROGRESS until all ranks have registered as many windows. Called
 * with the lock. */
int fake_windows_ask(struct symc_nccl_comm *comm)
{
    struct fake_clique *clique = comm->clique;
    const int size = atomic_load(&clique->size);
    struct symc_nccl_window *made = comm->registering;

    if (atomic_load(&clique->registered) < comm->nregistered * size)
        return SYMC_NCCL_IN_PROGRESS;
    for (int r = 0; r < size; r++) {
        if (atomic_load(&clique->nbytes[r]) != made->nbytes ||
            atomic_load(&clique->used[r]) !=
                atomic_load(&clique->used[comm->rank]))
            fake_nccl_die("ranks have other windows, or of other sizes");
    }
    *comm->made = made;
    comm->registering = NULL;
    atomic_fetch_add(&fake_nccl.windows, 1);
    return SYMC_NCCL_SUCCESS;
}

void fake_windows_end(struct symc_nccl_comm *comm, int destroyed)
{
    for (int i = 0; i < FAKE_WINDOWS; i++) {
        if (comm->windows[i].nbytes == 0)
            continue;
        if (destroyed)
            fake_nccl_die("a communicator is destroyed that has a window");
        if (comm->windows[i].plain)
            atomic_fetch_sub(&fake_nccl.registered, 1);
        else if (&comm->windows[i] != comm->registering)
            atomic_fetch_sub(&fake_nccl.windows, 1);
    }
}

/* ---- functions since 2.28, as the library uses them ---- */

#ifndef NCCL_FEW

static int find_used(const struct symc_nccl_comm *comm)
{
    int used = 0;

    for (int i = 0; i < FAKE_WINDOWS; i++)
        used |= (comm->windows[i].nbytes != 0) << i;
    return used;
}

static struct symc_nccl_window *add_window(
    struct symc_nccl_comm *comm, const void *at, size_t nbytes)
{
    struct symc_nccl_window *made = comm->windows;

    while (made->nbytes != 0)
        if (++made == comm->windows + FAKE_WINDOWS)
            fake_nccl_die("there are too many windows");
    made->at = at;
    made->nbytes = nbytes;
    made->plain = 0;
    return made;
}

int ncclCommWindowRegister(struct symc_nccl_comm *comm, void *at, size_t nbytes,
    struct symc_nccl_window **window, int flags)
{
    struct symc_nccl_window *made;

    fake_group_leave_out();
    fake_nccl_enter(comm);
    if (comm->phase != FAKE_READY || comm->pending != NULL ||
        comm->registering != NULL)
        fake_nccl_die("memory is registered with what is not ready");
    if (at == NULL || (uintptr_t)at % SYMC_NCCL_WINDOW_ALIGNMENT != 0 ||
        nbytes == 0 || flags != SYMC_NCCL_WINDOW_SYMMETRIC)
        fake_nccl_die("a window is wrong");
    if (atomic_load(&fake_nccl.window_result) != 0) {
        comm->broken = atomic_load(&fake_nccl.window_result);
        return fake_nccl_leave(comm, SYMC_NCCL_IN_PROGRESS);
    }
    atomic_store(&comm->clique->used[comm->rank], find_used(comm));
    atomic_store(&comm->clique->nbytes[comm->rank], nbytes);
    made = add_window(comm, at, nbytes);
    comm->made = window;
    comm->registering = made;
    comm->nregistered++;
    atomic_fetch_add(&comm->clique->registered, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_IN_PROGRESS);
}

int ncclCommWindowDeregister(
    struct symc_nccl_comm *comm, struct symc_nccl_window *window)
{
    fake_nccl_enter(comm);
    if (comm->phase != FAKE_READY || comm->pending != NULL ||
        window->nbytes == 0 || window->plain || window == comm->registering)
        fake_nccl_die("a window is deregistered that is not there");
    if (atomic_load(&window->uses) != 0)
        fake_nccl_die("a window is deregistered that is in use");
    window->nbytes = 0;
    atomic_fetch_sub(&fake_nccl.windows, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

/* ---- memory without a window, of this rank only ---- */

API int ncclCommRegister(
    struct symc_nccl_comm *comm, void *at, size_t nbytes, void **handle);
API int ncclCommDeregister(struct symc_nccl_comm *comm, void *handle);

int ncclCommRegister(
    struct symc_nccl_comm *comm, void *at, size_t nbytes, void **handle)
{
    struct symc_nccl_window *made;
    int result = atomic_load(&fake_nccl.register_result);

    fake_nccl_enter(comm);
    if (comm->phase != FAKE_READY || comm->registering != NULL || at == NULL ||
        nbytes == 0)
        fake_nccl_die("memory is registered wrongly");
    *handle = NULL;
    if (result != 0 || atomic_load(&fake_nccl.register_none))
        return fake_nccl_leave(comm, result);
    made = add_window(comm, at, nbytes);
    made->plain = 1;
    *handle = made;
    atomic_fetch_add(&fake_nccl.registered, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

int ncclCommDeregister(struct symc_nccl_comm *comm, void *handle)
{
    struct symc_nccl_window *made = handle;

    fake_nccl_enter(comm);
    if (comm->phase != FAKE_READY || made->nbytes == 0 || !made->plain)
        fake_nccl_die("memory is deregistered that was not registered");
    if (atomic_load(&made->uses) != 0)
        fake_nccl_die("memory is deregistered that is in use");
    made->nbytes = 0;
    made->plain = 0;
    atomic_fetch_sub(&fake_nccl.registered, 1);
    return fake_nccl_leave(comm, SYMC_NCCL_SUCCESS);
}

#endif
