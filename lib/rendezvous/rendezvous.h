/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank and size of this process from arguments, launcher or URL (R35-R40), and
 * the name of the rendezvous of the ranks of one machine.
 */
#ifndef SYMC_RENDEZVOUS_RENDEZVOUS_H
#define SYMC_RENDEZVOUS_RENDEZVOUS_H

#include "base/base.h"
#include "config/config.h"

#include <symmcoll/store.h>
#include <symmcoll/world.h>

#define SYMC_RENDEZVOUS_NAME 96   /* bytes of a name, zero included */
#define SYMC_RENDEZVOUS_CLAIM 320 /* bytes of a key, zero included */

struct symc_rendezvous {
    int rank;
    int size;
    int local_rank;       /* -1: unknown */
    const char *launcher; /* "symmcoll-run", "torchrun", "Open MPI", "PMI",
                             "Slurm", "environment", "arguments"; static */
    /* abstract socket, without its leading zero */
    char name[SYMC_RENDEZVOUS_NAME];
    /* the launcher's socket, from SYMMCOLL_HUB; "": rank 0 serves `name` */
    char server[SYMC_RENDEZVOUS_NAME];
    struct symmcoll_store *store; /* NULL: no store is needed */
    bool owns_store;
    /* key in the store that claims this rank; "": none */
    char claim[SYMC_RENDEZVOUS_CLAIM];
};

/*
 * Opens a rendezvous. With a store it may wait for rank 0 until the deadline.
 *
 * args, config  NULL: all defaults
 *
 * env:// needs no store: `name` is a hash of uid, job, MASTER_ADDR,
 * MASTER_PORT, attempt and the world's name. Under mpirun and srun, which set
 * no MASTER_ADDR, the job's name takes its place. With a store (file://,
 * tcp://, a handler's or the caller's) rank 0 makes a random name and publishes
 * it with its node, and `store` is a view "default_pg" of it (R40). A rank on
 * another node gets an error that names both nodes.
 *
 * Errors: INVALID (names what is missing), TIMEOUT, UNSUPPORTED (a scheme),
 * SYSTEM, NO_MEMORY.
 */
symmcoll_status_t symc_rendezvous_open(const struct symmcoll_init_args *args,
    const struct symc_config *config, int64_t deadline_ns,
    struct symc_rendezvous *rendezvous);
void symc_rendezvous_close(struct symc_rendezvous *rendezvous);

/* Returns this rank's number on its machine: the launcher's, else the fallback
 * if it is not negative. Errors: INVALID (names LOCAL_RANK). */
symmcoll_status_t symc_rendezvous_local_rank(
    const struct symc_rendezvous *rendezvous, int fallback, int *local_rank);

/* Buffer size for symc_rendezvous_job(). */
#define SYMC_RENDEZVOUS_JOB 96

/* Formats the job and the attempt as part of a file name, which is the same on
 * all ranks and in no other running job: SYMMCOLL_JOB, else 16 digits of the
 * rendezvous' name, else, if the ranks have no rendezvous, the process; then
 * "_" and the attempt. */
const char *symc_rendezvous_job(
    const struct symc_rendezvous *rendezvous, char *buffer, size_t nbytes);

/* Returns this machine's name: host.node, else boot id and network
 * namespace. */
symmcoll_status_t symc_rendezvous_node(
    const struct symc_config *config, char *buffer, size_t nbytes);

/* Reads rank, size and launcher from the environment alone; -1 and NULL if
 * unset. An invalid number counts as unset here; opening a rendezvous refuses
 * it. */
void symc_rendezvous_detect(
    int *rank, int *size, int *local_rank, const char **launcher);

#endif
