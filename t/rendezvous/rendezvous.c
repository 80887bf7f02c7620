/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the rendezvous: the rank's number from arguments, URL and launcher,
 * and the place where it joins the others if no store is needed. Every case
 * runs in a new process with its own environment.
 */
#include "rendezvous/rendezvous.h"

#include "rendezvous/launcher.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <sys/socket.h>

/* A case: an environment, arguments, and the expected result. */
struct trial {
    const char *environment[12]; /* "NAME=VALUE", up to a NULL */
    const char *method;
    int rank; /* arguments, where world_size > 0 */
    int world_size;
    symmcoll_status_t status;
    const char *text; /* in the detail, or the launcher's name */
    int found_rank;
    int found_size;
    int found_local_rank;
};

static void set_environment(const char *const *environment)
{
    clearenv();
    for (; *environment != NULL; environment++) {
        char name[256];

        snprintf(name, sizeof name, "%s", *environment);
        name[strcspn(name, "=")] = '\0';
        setenv(name, strchr(*environment, '=') + 1, 1);
    }
}

static symmcoll_status_t open_with(const struct symmcoll_init_args *args,
    double seconds, struct symc_rendezvous *rendezvous)
{
    return symc_rendezvous_open(args, NULL,
        symc_deadline_ns(symc_now_ns(), symc_seconds_ns(seconds)), rendezvous);
}

static int holds_trial(const void *arg)
{
    const struct trial *trial = arg;
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symc_rendezvous found;
    symmcoll_status_t status;
    int good;

    set_environment(trial->environment);
    args.init_method = trial->method;
    args.rank = trial->rank;
    args.world_size = trial->world_size;
    status = open_with(&args, 0, &found);
    if (status != SYMMCOLL_OK) {
        good = failed_with(status, trial->status, trial->text);
        if (!good)
            diag("status %d: %s", (int)status, symmcoll_last_error());
        return good;
    }
    good = trial->status == SYMMCOLL_OK && found.rank == trial->found_rank &&
           found.size == trial->found_size &&
           found.local_rank == trial->found_local_rank &&
           strcmp(found.launcher, trial->text) == 0;
    if (!good)
        diag("found rank %d of %d, local rank %d, by %s", found.rank,
            found.size, found.local_rank, found.launcher);
    symc_rendezvous_close(&found);
    return good;
}

#define TRIAL(sentence, ...)                             \
    do {                                                 \
        const struct trial trial = {__VA_ARGS__};        \
        ok(run_in_child(holds_trial, &trial), sentence); \
    } while (0)
#define MASTER "MASTER_ADDR=localhost", "MASTER_PORT=29500"
#define REFUSED(code, detail) .status = SYMMCOLL_ERR_##code, .text = (detail)
#define FOUND(launched_by, r, n, l)                              \
    .text = (launched_by), .found_rank = (r), .found_size = (n), \
    .found_local_rank = (l)

static void test_launchers(void)
{
    TRIAL("RANK and WORLD_SIZE are read",
        .environment = {MASTER, "RANK=1", "WORLD_SIZE=3"},
        FOUND("environment", 1, 3, -1));
    TRIAL("torchrun is told by its run id",
        .environment = {MASTER, "RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=1",
            "TORCHELASTIC_RUN_ID=none"},
        FOUND("torchrun", 1, 3, 1));
    TRIAL("symmcoll-run is recognised by its server, which the ranks join",
        .environment = {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0",
            "SYMMCOLL_HUB=launcher-1"},
        FOUND("symmcoll-run", 0, 2, 0));
    TRIAL("Open MPI's launcher is known and names its job itself",
        .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
            "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
            "PMIX_NAMESPACE=12"},
        FOUND("Open MPI", 1, 2, 1));
    TRIAL("PMI is known",
        .environment = {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1",
            "PMI_JOBID=7.0"},
        FOUND("PMI", 1, 2, 1));
    TRIAL("Slurm is known",
        .environment = {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=0",
            "SLURM_JOB_ID=7", "SLURM_STEP_ID=0"},
        FOUND("Slurm", 1, 2, 0));
    TRIAL("RANK and WORLD_SIZE win over other launchers",
        .environment = {MASTER, "PMI_RANK=1", "PMI_SIZE=2", "RANK=3",
            "WORLD_SIZE=4", "SLURM_PROCID=1", "SLURM_NTASKS=2"},
        FOUND("environment", 3, 4, -1));
    TRIAL("a lone WORLD_SIZE does not hide another launcher",
        .environment = {"PMI_RANK=1", "PMI_SIZE=2", "WORLD_SIZE=4",
            "PMI_JOBID=7.0", "LOCAL_RANK=5"},
        FOUND("PMI", 1, 2, 5));
    TRIAL("a launcher that does not name its job needs MASTER_ADDR and _PORT",
        .environment = {"PMI_RANK=1", "PMI_SIZE=2"},
        REFUSED(INVALID, "not set: MASTER_ADDR, MASTER_PORT ("));
    TRIAL("ranks on several machines are refused with both numbers",
        .environment = {MASTER, "RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4"},
        REFUSED(UNSUPPORTED, "all 8 ranks on this machine, found 4"));
}

static void test_missing(void)
{
    TRIAL("without any environment each missing variable is named",
        .environment = {"HOME=/"},
        REFUSED(
            INVALID, "not set: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT ("));
    TRIAL("a missing RANK is named", .environment = {MASTER, "WORLD_SIZE=1"},
        REFUSED(INVALID, "not set: RANK ("));
    TRIAL("a missing WORLD_SIZE is named", .environment = {MASTER, "RANK=0"},
        REFUSED(INVALID, "not set: WORLD_SIZE ("));
    TRIAL("a missing MASTER_ADDR is named",
        .environment = {"RANK=0", "WORLD_SIZE=1", "MASTER_PORT=29500"},
        REFUSED(INVALID, "not set: MASTER_ADDR ("));
    TRIAL("an empty MASTER_PORT counts as missing",
        .environment = {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a",
            "MASTER_PORT="},
        REFUSED(INVALID, "not set: MASTER_PORT ("));
    TRIAL("a rank that is no number is named with its value",
        .environment = {MASTER, "RANK=one", "WORLD_SIZE=2"},
        REFUSED(INVALID, "variable RANK: expected a whole number from 0, found "
                         "\"one\""));
    TRIAL("a size with something after it is no number",
        .environment = {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2x"},
        REFUSED(INVALID, "OMPI_COMM_WORLD_SIZE"));
    TRIAL("a size too large is no number",
        .environment = {MASTER, "RANK=0", "WORLD_SIZE=99999999999"},
        REFUSED(INVALID, "\"99999999999\""));
    TRIAL("a negative local rank is refused",
        .environment = {MASTER, "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=-1"},
        REFUSED(INVALID, "variable LOCAL_RANK"));
    TRIAL("a port out of range is named with its value",
        .environment = {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a",
            "MASTER_PORT=65536"},
        REFUSED(INVALID, "MASTER_PORT: expected 0 to 65535, found \"65536\""));
    TRIAL("a rank that is not below the size is refused with both",
        .environment = {MASTER, "RANK=2", "WORLD_SIZE=2"},
        REFUSED(INVALID, "rank: expected 0 to 1, found 2"));
    TRIAL("a size of 0 is refused",
        .environment = {MASTER, "RANK=0", "WORLD_SIZE=0"},
        REFUSED(INVALID, "world_size: expected more than 0"));
}

static void test_urls(void)
{
    TRIAL("rank and world_size may stand in the URL", .environment = {MASTER},
        .method = "env://?rank=1&world_size=2", FOUND("arguments", 1, 2, -1));
    TRIAL("the environment fills in what the URL leaves out",
        .environment = {MASTER, "RANK=7", "WORLD_SIZE=4"},
        .method = "env://?rank=1", FOUND("arguments", 1, 4, -1));
    TRIAL("arguments win over the URL and the environment",
        .environment = {MASTER, "RANK=junk", "WORLD_SIZE=4"},
        .method = "env://?rank=1&world_size=2", .rank = 2, .world_size = 3,
        FOUND("arguments", 2, 3, -1));
    TRIAL("a negative rank is refused", .environment = {MASTER}, .rank = -1,
        .world_size = 3, REFUSED(INVALID, "rank: expected 0 to 2, found -1"));
    TRIAL("a negative world_size is refused", .environment = {MASTER},
        .world_size = -3, REFUSED(INVALID, "found -3"));
    TRIAL("a parameter without a number is refused", .environment = {MASTER},
        .method = "env://?rank=&world_size=2",
        REFUSED(INVALID, "expected rank=NUMBER, found \"rank=\""));
    TRIAL("an unknown parameter is named", .environment = {MASTER},
        .method = "env://?ranks=1", REFUSED(INVALID, "found \"ranks=1\""));
    TRIAL("env:// has no path", .environment = {MASTER},
        .method = "env://host:1", REFUSED(INVALID, "nothing after env://"));
    TRIAL("file:// needs a path", .environment = {NULL}, .rank = 0,
        .world_size = 1, .method = "file://", REFUSED(INVALID, "path missing"));
    TRIAL("and one from the root", .environment = {NULL}, .world_size = 1,
        .method = "file://tmp/x", REFUSED(INVALID, "from the root"));
    TRIAL("file:// needs rank and world_size", .environment = {NULL},
        .method = "file:///tmp/x",
        REFUSED(INVALID, "file://: expected in the environment, but not set: "
                         "RANK, WORLD_SIZE"));
    TRIAL("tcp:// needs a port", .environment = {MASTER},
        .method = "tcp://localhost?rank=0&world_size=1",
        REFUSED(INVALID, "port missing: expected tcp://HOST:PORT"));
    TRIAL("and a host", .environment = {MASTER},
        .method = "tcp://:1?rank=0&world_size=1",
        REFUSED(INVALID, "host missing"));
    TRIAL("and a port that is one", .environment = {MASTER},
        .method = "tcp://localhost:65536?rank=0&world_size=1",
        REFUSED(INVALID, "port: expected 1 to 65535"));
    TRIAL("and rank and world_size", .environment = {NULL},
        .method = "tcp://localhost:1",
        REFUSED(INVALID, "tcp://: expected in the environment, but not set: "
                         "RANK, WORLD_SIZE"));
    TRIAL("a scheme that nobody knows is named", .environment = {MASTER},
        .method = "etcd://x", REFUSED(UNSUPPORTED, "handler for etcd://"));
    TRIAL("a method without a scheme is refused", .environment = {MASTER},
        .method = "/tmp/x", REFUSED(INVALID, "found \"/tmp/x\""));
}

/* ---- the name of the rendezvous ---- */

/* Returns the rendezvous' name for an environment and a world's name. */
static void derive(const char *const *environment, const char *world,
    char rendezvous[SYMC_RENDEZVOUS_NAME])
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symc_rendezvous found;

    set_environment(environment);
    args.name = world;
    rendezvous[0] = '\0';
    if (open_with(&args, 0, &found) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return;
    }
    snprintf(rendezvous, SYMC_RENDEZVOUS_NAME, "%s", found.name);
    symc_rendezvous_close(&found);
}

/* Checks that the first two names are equal, and that all others differ. */
static int tells_rendezvous_apart(const void *arg)
{
    static const char *const environments[][8] = {
        {MASTER, "RANK=0", "WORLD_SIZE=2"},
        {MASTER, "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1"},
        {"MASTER_ADDR=localhost", "MASTER_PORT=29501", "RANK=0",
            "WORLD_SIZE=2"},
        {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", "RANK=0",
            "WORLD_SIZE=2"},
        {MASTER, "RANK=0", "WORLD_SIZE=2", "SYMMCOLL_ATTEMPT=1"},
        {MASTER, "RANK=0", "WORLD_SIZE=2", "TORCHELASTIC_RESTART_COUNT=1"},
        {MASTER, "RANK=0", "WORLD_SIZE=2", "SYMMCOLL_HUB=h"},
        {"PMI_RANK=0", "PMI_SIZE=2", "PMI_JOBID=1"},
        {"PMI_RANK=0", "PMI_SIZE=2", "PMI_JOBID=2"},
        {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=1"},
        {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=1",
            "SLURM_STEP_ID=1"},
    };
    enum {
        COUNT = sizeof environments / sizeof *environments
    };
    char names[COUNT + 1][SYMC_RENDEZVOUS_NAME];

    (void)arg;
    for (int i = 0; i < COUNT; i++)
        derive(environments[i], NULL, names[i]);
    derive(environments[0], "second", names[COUNT]);
    if (strlen(names[0]) != strlen("symmcoll-") + 32 ||
        strcmp(names[0], names[1]) != 0)
        return 0;
    for (int i = 1; i <= COUNT; i++)
        for (int j = i + 1; j <= COUNT; j++)
            if (names[i][0] == '\0' || strcmp(names[i], names[j]) == 0)
                return 0;
    return 1;
}

static int derives_from_socket(const void *arg)
{
    const char *environment[] = {"PMI_RANK=0", "PMI_SIZE=2", NULL, NULL};
    char rendezvous[SYMC_RENDEZVOUS_NAME];
    char variable[32];
    int fds[2];

    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return 0;
    snprintf(variable, sizeof variable, "PMI_FD=%d", fds[0]);
    environment[2] = variable;
    derive(environment, NULL, rendezvous);
    return rendezvous[0] != '\0';
}

static int keeps_server_for_its_ranks(const void *arg)
{
    static const char *const environment[] = {
        MASTER, "RANK=0", "WORLD_SIZE=2", "SYMMCOLL_HUB=launcher-1", NULL};
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symc_rendezvous launched;
    struct symc_rendezvous own;

    (void)arg;
    set_environment(environment);
    args.world_size = 4;
    return open_with(NULL, 0, &launched) == SYMMCOLL_OK &&
           strcmp(launched.server, "launcher-1") == 0 &&
           launched.store == NULL && open_with(&args, 0, &own) == SYMMCOLL_OK &&
           own.server[0] == '\0';
}

static int finds_local_rank(const void *arg)
{
    static const char *const with[] = {
        MASTER, "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", NULL};
    static const char *const without[] = {
        MASTER, "RANK=1", "WORLD_SIZE=2", NULL};
    struct symc_rendezvous found;
    int local_rank = -1;

    (void)arg;
    set_environment(with);
    if (open_with(NULL, 0, &found) != SYMMCOLL_OK ||
        symc_rendezvous_local_rank(&found, 5, &local_rank) != SYMMCOLL_OK ||
        local_rank != 1)
        return 0;
    set_environment(without);
    return open_with(NULL, 0, &found) == SYMMCOLL_OK &&
           symc_rendezvous_local_rank(&found, 5, &local_rank) == SYMMCOLL_OK &&
           local_rank == 5 &&
           failed_with(symc_rendezvous_local_rank(&found, -1, &local_rank),
               SYMMCOLL_ERR_INVALID, "LOCAL_RANK");
}

static int detects_launcher(const void *arg)
{
    static const char *const slurm[] = {
        "SLURM_PROCID=3", "SLURM_NTASKS=4", NULL};
    static const char *const nothing[] = {NULL};
    const char *launcher = "";
    int rank;
    int size;
    int local_rank;

    (void)arg;
    set_environment(slurm);
    symc_rendezvous_detect(&rank, &size, &local_rank, &launcher);
    if (rank != 3 || size != 4 || local_rank != -1 ||
        strcmp(launcher, "Slurm") != 0)
        return 0;
    set_environment(nothing);
    symc_rendezvous_detect(&rank, &size, &local_rank, &launcher);
    return rank == -1 && size == -1 && local_rank == -1 && launcher == NULL;
}

static void test_names(void)
{
    ok(run_in_child(tells_rendezvous_apart, NULL),
        "ranks of a job agree on a rendezvous; address, port, attempt, server, "
        "job, step and the world's name each make another one");
    ok(run_in_child(derives_from_socket, NULL),
        "under MPICH's launcher its socket tells the job");
    ok(run_in_child(keeps_server_for_its_ranks, NULL),
        "the launcher's server serves the launcher's ranks only");
    ok(run_in_child(finds_local_rank, NULL),
        "the local rank is the launcher's, else the fallback, else an error "
        "that names LOCAL_RANK");
    ok(run_in_child(detects_launcher, NULL),
        "the environment alone tells the launcher, or that there is none");
}

int main(void)
{
    alarm(600);
    plan(44);
    test_launchers();
    test_missing();
    test_urls();
    test_names();
    return done_testing();
}
