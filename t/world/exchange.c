/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the exchange of descriptors for a backend: it ends with the group,
 * long before timeouts.init; it needs no named socket, and no other process
 * can interfere.
 */
#include "group/group.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 1

enum how {
    DIES,
    FINALIZES,
    ABORTS,
    LACKS,
    COMES
};

static symmcoll_status_t exchange(struct faults_rank *self, int *fds)
{
    const struct symc_core *core = &self->group->runner.core;

    return core->exchange(core->group, STDERR_FILENO, fds);
}

/* Replaces the sockets to the other ranks, as a program does that closes
 * unknown descriptors. */
static void lose_ways(struct faults_rank *self, int *fds)
{
    for (int r = 0; r < SIZE; r++) {
        if (r != self->rank)
            dup2(STDERR_FILENO, self->world->peers[r].inbox);
    }
    exchange(self, fds);
}

/* All but the victim exchange; the test chooses the victim's action. */
static int exchange_all(struct faults_rank *self)
{
    enum how how = *(const enum how *)self->arg;
    int fds[SIZE] = {-1, -1, -1};

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM && how != COMES) {
        faults_pass(self, 1);
        if (how == ABORTS)
            symmcoll_group_abort(self->group, "out of disk");
        if (how == LACKS)
            lose_ways(self, fds);
        if (how != FINALIZES)
            faults_pass(self, 2);
        return faults_finalize(self);
    }
    faults_note(self, exchange(self, fds));
    for (int r = 0; r < SIZE; r++) {
        if (fds[r] >= 0 && (fcntl(fds[r], F_GETFD) < 0 || close(fds[r]) != 0))
            return 1;
    }
    if (how == COMES)
        faults_note(self, exchange(self, fds));
    return faults_finalize(self);
}

static bool told(const struct faults_job *job, double began, enum how how)
{
    static const symmcoll_status_t statuses[] = {[DIES] = SYMMCOLL_ERR_PEER,
        [FINALIZES] = SYMMCOLL_ERR_PEER,
        [ABORTS] = SYMMCOLL_ERR_CANCELED,
        [LACKS] = SYMMCOLL_ERR_SYSTEM};
    static const char *const words[] = {[DIES] = "killed by SIGKILL",
        [FINALIZES] = "has finalized, and an exchange",
        [ABORTS] = "rank 1 aborted group",
        [LACKS] = "): exchange: sending to rank 0: "};
    bool good = true;

    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note;

        if (r == VICTIM)
            continue;
        note = faults_told(job, r, 0);
        good = faults_said(note, statuses[how], words[how], NULL) &&
               note->at - began < FAULTS_KNOWN && good;
    }
    return good;
}

static void try(enum how how, const char *what)
{
    struct faults_job job;
    double began;

    faults_start(&job, SIZE, exchange_all, &how);
    faults_await_asleep(&job, 0, 1);
    faults_await_asleep(&job, 2, 1);
    began = faults_now();
    if (how == DIES)
        faults_signal(&job, VICTIM, SIGKILL);
    faults_open(&job, 1);
    ok(told(&job, began, how), "an exchange ends when a member %s", what);
    faults_open(&job, 2);
    ok(faults_finish(&job, how == DIES ? 1u << VICTIM : 0) &&
            faults_clear_dumps(SIZE),
        "and nothing is left");
}

static void succeed(void)
{
    enum how how = COMES;
    struct faults_job job;
    bool good = true;

    faults_start(&job, SIZE, exchange_all, &how);
    for (int r = 0; r < SIZE; r++)
        for (int i = 0; i < 2; i++)
            good =
                faults_said(faults_told(&job, r, i), SYMMCOLL_OK, NULL) && good;
    ok(faults_finish(&job, 0) && good, "where all come it succeeds, twice");
}

/* ---- a descriptor that cannot be sent ---- */

#define NOT_OPEN 9999

static int one_cannot_send(struct faults_rank *self)
{
    const struct symc_core *core;
    int fds[SIZE];

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    core = &self->group->runner.core;
    for (int r = 0; r < SIZE; r++)
        fds[r] = -1;
    faults_note(
        self, core->exchange(core->group,
                  self->rank == VICTIM ? NOT_OPEN : STDERR_FILENO, fds));
    for (int r = 0; r < SIZE; r++) {
        if (fds[r] != -1)
            return 1;
    }
    faults_note(self, exchange(self, fds));
    return faults_finalize(self);
}

static void fail_alike(void)
{
    double began = faults_now();
    struct faults_job job;
    bool good = true;

    faults_start(&job, SIZE, one_cannot_send, NULL);
    for (int r = 0; r < SIZE; r++) {
        const char *words =
            r == VICTIM ? "Bad file descriptor"
                        : "rank 1 could not send its descriptor: Bad file";
        const struct faults_note *note = faults_told(&job, r, 0);

        good = faults_said(note, SYMMCOLL_ERR_SYSTEM, words, NULL) &&
               note->at - began < FAULTS_KNOWN && good;
        good = faults_said(faults_told(&job, r, 1), SYMMCOLL_OK, NULL) && good;
    }
    ok(faults_finish(&job, 0) && good,
        "a descriptor that cannot be sent fails an exchange on all, and the "
        "next one succeeds");
}

/* One rank has lost its inbox, and with it the messages of the others. */
static int one_is_deaf(struct faults_rank *self)
{
    int fds[SIZE] = {-1, -1, -1};

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    if (self->rank == VICTIM)
        dup2(STDERR_FILENO, self->world->inbox.fd);
    faults_note(self, exchange(self, fds));
    for (int r = 0; r < SIZE; r++) {
        if (fds[r] >= 0)
            close(fds[r]);
    }
    return faults_barrier(self) == SYMMCOLL_OK ? faults_finalize(self) : 1;
}

static void name_no_other(void)
{
    double began = faults_now();
    struct faults_job job;
    bool good = true;

    faults_start(&job, SIZE, one_is_deaf, NULL);
    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note = faults_told(&job, r, 0);

        good = (r == VICTIM ? faults_said(note, SYMMCOLL_ERR_SYSTEM,
                                  "this rank's inbox: ", NULL)
                            : faults_said(note, SYMMCOLL_OK, NULL)) &&
               note->at - began < FAULTS_KNOWN && good;
    }
    ok(faults_finish(&job, 0) && good,
        "a rank that cannot receive does not wait for the others");
}

/* ---- exchanges without named sockets ---- */

#define TIMES 50

static bool own_network;

/* Returns the number of named sockets in this network namespace; if it is
 * shared, those of a rendezvous. */
static int count_names(const char *rendezvous)
{
    FILE *file = fopen("/proc/self/net/unix", "r");
    char line[512];
    int count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, own_network ? "@" : rendezvous) != NULL;
    if (file != NULL)
        fclose(file);
    return file != NULL ? count : -1;
}

/* Binds a name and its variants, as any process of this machine can. */
static bool bind_names(const char *rendezvous, int fds[3])
{
    static const char *const ends[] = {"", ".0.0", ".0.1"};
    bool bound = true;

    for (int i = 0; i < 3; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int length = snprintf(address.sun_path + 1,
            sizeof(address.sun_path) - 1, "%s%s", rendezvous, ends[i]);

        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        bound = bind(fds[i], (struct sockaddr *)&address,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                (size_t)length)) == 0 &&
                listen(fds[i], 8) == 0 && bound;
    }
    return bound;
}

/* Exchanges descriptors of files that contain their rank and the number of the
 * exchange. */
static bool exchange_tokens(struct symmcoll_group *group, int times)
{
    const struct symc_core *core = &group->runner.core;
    bool good = true;

    for (int i = 0; i < times; i++) {
        int fds[SIZE], mine = group->runner.rank * 1000 + i, found;
        int token = memfd_create("token", MFD_CLOEXEC);

        good = write(token, &mine, sizeof(mine)) == sizeof(mine) &&
               core->exchange(core->group, token, fds) == SYMMCOLL_OK && good;
        if (!good)
            diag("rank %d, exchange %d: %s", group->runner.rank, i,
                symmcoll_last_error());
        close(token);
        for (int r = 0; good && r < SIZE; r++) {
            good = fds[r] != token &&
                   pread(fds[r], &found, sizeof(found), 0) == sizeof(found) &&
                   found == r * 1000 + i && good;
            close(fds[r]);
        }
    }
    return good;
}

static int exchange_beside_strangers(struct faults_rank *self)
{
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    atomic_fetch_add(
        &self->board->any, count_names(self->world->rendezvous.name) != 0);
    faults_reach(self, 1);
    faults_pass(self, 1);
    return exchange_tokens(self->group, TIMES) ? faults_finalize(self) : 1;
}

static void try_processes(void)
{
    struct faults_job job;
    bool bound;
    int fds[3];

    faults_start(&job, SIZE, exchange_beside_strangers, NULL);
    faults_await_all(&job, 1);
    ok(atomic_load(&job.board->any) == 0,
        "after init no socket of the ranks has a name");
    bound = bind_names(job.board->lines[0].rendezvous, fds);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    ok(faults_finish(&job, 0) && bound,
        "a stranger with the name that the ranks had comes into no exchange");
}

static int exchange_among_threads(struct symmcoll_group *group, int rank)
{
    const char *rendezvous = group->world->rendezvous.name;
    bool good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
                count_names(rendezvous) == 0 &&
                symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    int fds[3] = {-1, -1, -1};

    if (rank == 0)
        good = bind_names(rendezvous, fds) && good;
    good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
           exchange_tokens(group, TIMES) && good;
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    return good;
}

int main(void)
{
    plan(14);
    own_network = unshare(CLONE_NEWNET) == 0;
    faults_begin();
    try_processes();
    ok(threads_run(SIZE, exchange_among_threads),
        "so among threads, each of which has descriptors of its own");
    try(DIES, "dies");
    try(FINALIZES, "has finalized");
    try(ABORTS, "fails the group");
    try(LACKS, "cannot send");
    succeed();
    fail_alike();
    name_no_other();
    faults_end();
    return done_testing();
}
