/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launchers and their variables, as a table.
 *
 * RANK and WORLD_SIZE, which symmcoll-run, torchrun and users set, take
 * precedence over the variables of MPI launchers and of Slurm, so that one
 * launcher can be started under another.
 */
#include "rendezvous/launcher.h"

#include "rendezvous/rendezvous.h"
#include "store/ops.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MARKS_MAX 8

struct launcher {
    const char *name;
    const char *rank;
    const char *size;
    const char *local_rank;
    const char *local_size;
    const char *marks[MARKS_MAX]; /* variables that identify the job */
};

static const struct launcher launchers[] = {
    {
        .name = "environment",
        .rank = "RANK",
        .size = "WORLD_SIZE",
        .local_rank = "LOCAL_RANK",
        .local_size = "LOCAL_WORLD_SIZE",
    },
    {
        .name = "Open MPI",
        .rank = "OMPI_COMM_WORLD_RANK",
        .size = "OMPI_COMM_WORLD_SIZE",
        .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
        .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
        .marks = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
            "OMPI_MCA_orte_hnp_uri"},
    },
    {
        .name = "PMI",
        .rank = "PMI_RANK",
        .size = "PMI_SIZE",
        .local_rank = "MPI_LOCALRANKID",
        .local_size = "MPI_LOCALNRANKS",
        .marks = {"PMI_JOBID", "PMI_KVSNAME", "PMI_PORT", "PMIX_NAMESPACE",
            "SLURM_JOB_ID", "SLURM_STEP_ID"},
    },
    {
        .name = "Slurm",
        .rank = "SLURM_PROCID",
        .size = "SLURM_NTASKS",
        .local_rank = "SLURM_LOCALID",
        .marks = {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID",
            "SLURM_STEPID"},
    },
};

#define LAUNCHER_COUNT (sizeof launchers / sizeof *launchers)

const char *symc_rendezvous_variable(const char *name)
{
    const char *value = symc_variable_get(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

bool symc_rendezvous_number_parse(const char *text, long most, int *number)
{
    long value;

    if (text[0] == '-' || !symc_parse_number(text, 0, most, &value))
        return false;
    *number = (int)value;
    return true;
}

static int read_number(struct symc_rendezvous_launch *launch, const char *name)
{
    const char *text = name != NULL ? symc_rendezvous_variable(name) : NULL;
    int number;

    if (text == NULL)
        return -1;
    if (symc_rendezvous_number_parse(text, INT_MAX, &number))
        return number;
    if (launch->bad == NULL)
        launch->bad = name;
    return -1;
}

/* Returns the first launcher that sets both rank and size; else the first of
 * the table, which may set one of them. */
static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < LAUNCHER_COUNT; i++)
        if (symc_rendezvous_variable(launchers[i].rank) != NULL &&
            symc_rendezvous_variable(launchers[i].size) != NULL)
            return &launchers[i];
    return &launchers[0];
}

/* Returns the name of the launcher; RANK and WORLD_SIZE can come from
 * several. */
static const char *name_launcher(const struct launcher *launcher)
{
    if (launcher != &launchers[0])
        return launcher->name;
    if (symc_rendezvous_variable("SYMMCOLL_HUB") != NULL)
        return "symmcoll-run";
    if (symc_rendezvous_variable("TORCHELASTIC_RUN_ID") != NULL)
        return "torchrun";
    return launcher->name;
}

void symc_rendezvous_launch_read(struct symc_rendezvous_launch *launch)
{
    const struct launcher *launcher = find_launcher();

    *launch = (struct symc_rendezvous_launch){
        .rank_name = launcher->rank, .size_name = launcher->size};
    launch->rank = read_number(launch, launcher->rank);
    launch->size = read_number(launch, launcher->size);
    launch->local_rank = read_number(launch, launcher->local_rank);
    if (launch->local_rank < 0)
        launch->local_rank = read_number(launch, "LOCAL_RANK");
    launch->local_size = read_number(launch, launcher->local_size);
    if (symc_rendezvous_variable(launcher->rank) != NULL ||
        symc_rendezvous_variable(launcher->size) != NULL)
        launch->launcher = name_launcher(launcher);
}

symmcoll_status_t symc_rendezvous_launch_check(
    const struct symc_rendezvous_launch *launch)
{
    char shown[SYMC_KEY_TEXT];

    if (launch->bad == NULL)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: environment variable %s: expected a whole number from 0, found "
        "\"%s\"",
        launch->bad,
        symc_key_text(symc_rendezvous_variable(launch->bad), shown));
}

void symc_rendezvous_detect(
    int *rank, int *size, int *local_rank, const char **launcher)
{
    struct symc_rendezvous_launch launch;

    symc_rendezvous_launch_read(&launch);
    *rank = launch.rank;
    *size = launch.size;
    *local_rank = launch.local_rank;
    *launcher = launch.launcher;
}

/* ---- identification of the job ---- */

/*
 * Adds the process that started all ranks of this machine. MPICH's launcher
 * passes no name of the job, but a socket to that process.
 */
static bool mark_parent(struct symc_digest *digest)
{
    const char *text = symc_rendezvous_variable("PMI_FD");
    struct ucred parent = {0};
    socklen_t nbytes = sizeof parent;
    char pid[24];
    int fd;

    if (text == NULL || !symc_rendezvous_number_parse(text, INT_MAX, &fd) ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &parent, &nbytes) != 0 ||
        parent.pid <= 0)
        return false;
    snprintf(pid, sizeof pid, "%ld", (long)parent.pid);
    symc_digest_add(digest, "PMI_FD", pid);
    return true;
}

bool symc_rendezvous_launch_mark(
    const struct symc_rendezvous_launch *launch, struct symc_digest *digest)
{
    const struct launcher *launcher = find_launcher();
    bool marked = false;

    if (launch->launcher == NULL)
        return false;
    for (size_t i = 0; i < MARKS_MAX && launcher->marks[i] != NULL; i++) {
        const char *value = symc_rendezvous_variable(launcher->marks[i]);

        if (value == NULL)
            continue;
        symc_digest_add(digest, launcher->marks[i], value);
        marked = true;
    }
    if (strcmp(launcher->name, "PMI") == 0 && mark_parent(digest))
        marked = true;
    return marked;
}
