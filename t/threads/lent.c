/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a thread that is a rank and times out in its join after another has
 * borrowed its block and the socket to its inbox: both stay valid. The linker
 * redirects the calls of the join to the wrappers here.
 */
#include "t/ranks.h"
#include "t/tap.h"

#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"
#include "rendezvous/rendezvous.h"

#include <symmcoll.h>

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define POOR 0 /* serves the join, so that the other one need not wait for it */

static sem_t has_joined;  /* the other one */
static sem_t has_left;    /* POOR has released everything else */
static bool fails_to_map; /* otherwise it does not receive the other's offer */
static bool stays;        /* whether the other one still sees the borrowed
                           * memory */
static _Thread_local bool is_poor;

symmcoll_status_t __real_symc_bootstrap_join(
    const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_own *own, struct symc_peer *peers,
    bool *threads);
symmcoll_status_t __wrap_symc_bootstrap_join(
    const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_own *own, struct symc_peer *peers,
    bool *threads);
symmcoll_status_t __real_symc_block_borrow(struct symc_block *block, int rank,
    size_t mapped, struct symc_block_view *view);
symmcoll_status_t __wrap_symc_block_borrow(struct symc_block *block, int rank,
    size_t mapped, struct symc_block_view *view);
int __real_symc_bootstrap_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds);
int __wrap_symc_bootstrap_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds);
void __real_symc_rendezvous_close(struct symc_rendezvous *rendezvous);
void __wrap_symc_rendezvous_close(struct symc_rendezvous *rendezvous);

symmcoll_status_t __wrap_symc_bootstrap_join(
    const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_own *own, struct symc_peer *peers,
    bool *threads)
{
    symmcoll_status_t status;
    struct stat info;

    is_poor = args->rank == POOR;
    status = __real_symc_bootstrap_join(args, own, peers, threads);
    if (is_poor || status != SYMMCOLL_OK)
        return status;
    sem_post(&has_joined);
    sem_wait(&has_left);
    /* Memory that is gone ends the process here. */
    (void)*(volatile const char *)(void *)peers[POOR].view.block;
    stays = fstat(peers[POOR].inbox, &info) == 0 && S_ISSOCK(info.st_mode);
    return status;
}

symmcoll_status_t __wrap_symc_block_borrow(struct symc_block *block, int rank,
    size_t mapped, struct symc_block_view *view)
{
    if (!is_poor)
        return __real_symc_block_borrow(block, rank, mapped, view);
    sem_wait(&has_joined);
    return symc_fail(SYMMCOLL_ERR_SYSTEM, "no block of rank %d", rank);
}

int __wrap_symc_bootstrap_message_receive(
    int fd, void *data, size_t *nbytes, int *fds, int *nfds)
{
    if (!is_poor || fails_to_map)
        return __real_symc_bootstrap_message_receive(
            fd, data, nbytes, fds, nfds);
    sem_wait(&has_joined);
    *nfds = 0;
    return EBADMSG;
}

void __wrap_symc_rendezvous_close(struct symc_rendezvous *rendezvous)
{
    if (is_poor)
        sem_post(&has_left);
    __real_symc_rendezvous_close(rendezvous);
}

static symmcoll_status_t return_at_once(struct symmcoll_world *world, void *arg)
{
    (void)world;
    (void)arg;
    return SYMMCOLL_OK;
}

static int leaves_what_it_lent(void)
{
    struct symmcoll_threads_args args = SYMMCOLL_THREADS_ARGS_INIT;
    symmcoll_status_t statuses[2], status;

    sem_init(&has_joined, 0, 0);
    sem_init(&has_left, 0, 0);
    args.statuses = statuses;
    status = symmcoll_threads_run(2, return_at_once, NULL, &args);
    return status != SYMMCOLL_OK && statuses[POOR] == SYMMCOLL_ERR_SYSTEM &&
           stays;
}

int main(void)
{
    plan(2);
    ok(process_run(leaves_what_it_lent),
        "a thread that cannot receive the others leaves them its block");
    fails_to_map = true;
    ok(process_run(leaves_what_it_lent),
        "one that cannot use the others' blocks leaves them its own");
    return done_testing();
}
