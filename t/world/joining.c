/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failing rendezvous: ranks that die during it, do not arrive, arrive
 * twice, or disagree with the others.
 */
#include "registry/registry.h"
#include "t/attempts.h"
#include "t/tap.h"
#include "t/world/faults.h"
#include "world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 3
/* Initial timeout of ranks in seconds; a sanitizer needs one second for a rank
 * that ends. */
#define SHORT (SANITIZED ? 3.0 : 1.0)

#define TEN "0123456789"

/* ---- bodies of ranks ---- */

/* Joins when the test permits: rank r at gate r; then runs one barrier. */
static int come_in_turn(struct faults_rank *self)
{
    faults_pass(self, self->rank);
    faults_reach(self, 1);
    if (!faults_init(self))
        return 0;
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

/* The last rank is invalid: its number is another rank's, or its world is
 * larger. */
static int claim_a_number(struct faults_rank *self)
{
    setenv("WORLD_SIZE", "3", 1);
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    if (self->rank == 3)
        setenv("RANK", "1", 1);
    return come_in_turn(self);
}

static int claim_a_size(struct faults_rank *self)
{
    if (self->rank == 2) {
        setenv("WORLD_SIZE", "4", 1);
        setenv("LOCAL_WORLD_SIZE", "4", 1);
    }
    return come_in_turn(self);
}

/* arg: "NAME=VALUE" for the environment. */
static int join_with(struct faults_rank *self)
{
    putenv((char *)(uintptr_t)self->arg);
    return faults_init(self) ? faults_finalize(self) : 0;
}

/* Performs init by hand as far as joining, so that this rank is not yet
 * monitored. */
static struct symc_block *join_by_hand(const struct faults_rank *self)
{
    static struct symc_peer peers[SIZE];
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    int64_t deadline = symc_now_ns() + 60 * SYMC_NS_PER_S;
    struct symc_bootstrap_args bootstrap_args = {
        .rank = self->rank, .size = self->size, .deadline_ns = deadline};
    struct symc_rendezvous rendezvous;
    static struct symc_segments segments;
    struct symc_config *config;
    struct symc_registry registry;
    struct symc_log log = {.level = SYMC_LOG_WARN, .rank = self->rank};
    struct symc_bootstrap_own own = {.inbox = -1};
    struct symc_block_view *view = &own.view;
    struct symc_bootstrap_inbox inbox;
    struct symc_backend_layout layout;
    size_t trace, channel;
    bool threads;

    args.name = self->world_name;
    if (symc_config_load(&config, NULL, NULL) != SYMMCOLL_OK ||
        symc_registry_open(&registry, config, &log) != SYMMCOLL_OK ||
        symc_rendezvous_open(&args, config, deadline, &rendezvous) !=
            SYMMCOLL_OK)
        return NULL;
    trace = symc_trace_nbytes(config->trace_buffer_size);
    layout = symc_registry_layout(&registry, config, self->size);
    channel = symc_round_to_page(SYMC_GROUP_CHANNEL + layout.channel);
    bootstrap_args.name = rendezvous.name;
    if (symc_block_create(self->world_name, self->rank, self->size, trace,
            trace, (size_t)1 << 30, view, &own.fd) != SYMMCOLL_OK ||
        symc_segments_open(&segments, self->rank, self->size, view, own.fd) !=
            SYMMCOLL_OK ||
        symc_segment_offer(&segments, channel + layout.staging, channel,
            &view->first) != SYMMCOLL_OK ||
        symc_bootstrap_inbox_open(&inbox, &own.inbox) != SYMMCOLL_OK)
        return NULL;
    view->block->first = view->first;
    own.least = view->first.offset + view->first.nbytes;
    symc_trace_init(symc_block_trace(view), config->trace_buffer_size,
        self->rank, self->size);
    if (symc_bootstrap_join(&bootstrap_args, &own, peers, &threads) !=
        SYMMCOLL_OK)
        return NULL;
    return view->block;
}

static int die_after_joining(struct faults_rank *self)
{
    if (self->rank != 1)
        return come_in_turn(self);
    if (join_by_hand(self) != NULL)
        raise(SIGKILL);
    return 1;
}

/* The process lives on: nothing but its word says that it has given up. */
static int give_up_after_joining(struct faults_rank *self)
{
    struct symc_block *block;

    if (self->rank != 1)
        return come_in_turn(self);
    block = join_by_hand(self);
    if (block == NULL)
        return 1;
    symc_liveness_give_up(&block->liveness);
    faults_pass(self, SIZE + 1);
    faults_exit(0);
}

/* ---- with a timeout ---- */

/* The two points to check for a job with a given timeout. */
struct judged {
    bool first, second;
};

static void set_timeout(double seconds)
{
    char text[32];

    snprintf(text, sizeof(text), "%.0fs", seconds);
    setenv("SYMMCOLL_TIMEOUTS_INIT", text, 1);
}

/* Checks both points with a timeout long enough for all present ranks to
 * arrive in time. */
static struct judged judge(attempt_fn attempt)
{
    struct judged judged = {.first = false};

    attempts_hold(attempt, SHORT, &judged);
    unsetenv("SYMMCOLL_TIMEOUTS_INIT");
    return judged;
}

/* ---- ranks that die ---- */

static bool kill_before_hello(double seconds, void *arg)
{
    struct judged *judged = arg;
    struct faults_job job;

    set_timeout(seconds);
    faults_start(&job, SIZE, come_in_turn, NULL);
    kill(job.pids[1], SIGKILL); /* before its gate has been opened */
    faults_reap(&job, 1);
    faults_open(&job, SIZE);
    judged->first = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
                        "2 of 3 ranks joined, missing: rank 1", NULL) &&
                    faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_TIMEOUT,
                        "missing: rank 1", NULL);
    judged->second = faults_finish(&job, 1u << 1);
    return judged->first && judged->second;
}

static void before_it_says_hello(void)
{
    struct judged judged = judge(kill_before_hello);

    ok(judged.first, "a rank killed before it has come is named as missing");
    ok(judged.second, "and nothing is left of the rendezvous");
}

static void after_it_said_hello(void)
{
    struct faults_job job;
    const struct faults_note *note;
    char name[64];

    faults_start(&job, SIZE, come_in_turn, NULL);
    faults_await_asleep(&job, 0, 1);
    faults_open(&job, 1);
    faults_await_asleep(&job, 1, 1);
    faults_signal(&job, 1, SIGKILL);
    faults_open(&job, 2);
    note = faults_told(&job, 0, 0);
    ok(faults_said(note, SYMMCOLL_ERR_PEER, faults_name(&job, 1, name),
           "killed by SIGKILL", NULL) &&
            note->at - job.killed_at < FAULTS_KNOWN,
        "a rank killed while it waits for the others is named at once");
    ok(faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_PEER, name,
           "killed by SIGKILL", NULL),
        "also to one who comes later");
    ok(faults_finish(&job, 1u << 1) && faults_clear_dumps(SIZE),
        "and nothing is left of that rendezvous");
}

/* Rank 0 has given up and gone. */
static void after_all_have_gone(void)
{
    struct faults_job job;

    set_timeout(SHORT);
    faults_start(&job, SIZE, come_in_turn, NULL);
    faults_open(&job, 1);
    faults_told(&job, 0, 0);
    faults_told(&job, 1, 0);
    faults_open(&job, 2);
    ok(faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_TIMEOUT,
           "rank 0 did not join", NULL),
        "one who comes when all have given up does not wait for ever");
    faults_finish(&job, 0);
    unsetenv("SYMMCOLL_TIMEOUTS_INIT");
}

static void the_one_who_serves(void)
{
    struct faults_job job;
    const struct faults_note *note;
    char name[64];

    faults_start(&job, SIZE, come_in_turn, NULL);
    faults_await_asleep(&job, 0, 1);
    faults_open(&job, 1);
    faults_await_asleep(&job, 1, 1);
    faults_await_asleep(&job, 0, 1); /* it has heard rank 1, too */
    faults_signal(&job, 0, SIGKILL);
    note = faults_told(&job, 1, 0);
    ok(faults_said(note, SYMMCOLL_ERR_PEER, faults_name(&job, 0, name), NULL) &&
            note->at - job.killed_at < FAULTS_KNOWN,
        "a killed rank 0, which serves the others, is named at once");
    faults_signal(&job, 2, SIGKILL);
    ok(faults_finish(&job, 1u << 0 | 1u << 2), "and leaves no socket");
}

static void before_it_is_watched(
    faults_fn body, unsigned bad, const char *end, const char *sentence)
{
    struct faults_job job;
    char name[64];
    bool told = true;

    faults_start(&job, SIZE, body, NULL);
    faults_open(&job, SIZE);
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                   faults_name(&job, 1, name), end, NULL) &&
               told;
    faults_open(&job, SIZE + 1);
    ok(told, "%s", sentence);
    ok(faults_finish(&job, bad) && faults_clear_dumps(SIZE),
        "%s: nothing is left", sentence);
}

/* ---- absent and wrong ranks ---- */

static void nobody_else(int rank, const char *missing, const char *sentence)
{
    struct faults_job job;

    set_timeout(SHORT);
    faults_start(&job, SIZE, come_in_turn, NULL);
    for (int r = 0; r < SIZE; r++) {
        if (r != rank)
            faults_signal(&job, r, SIGKILL);
    }
    for (int r = 0; r < SIZE; r++) {
        if (r != rank)
            faults_await_death(&job, r);
    }
    faults_open(&job, SIZE);
    ok(faults_said(
           faults_told(&job, rank, 0), SYMMCOLL_ERR_TIMEOUT, missing, NULL),
        "%s", sentence);
    faults_finish(&job, 7);
    unsetenv("SYMMCOLL_TIMEOUTS_INIT");
}

static void a_late_rank(void)
{
    struct faults_job job;

    faults_start(&job, SIZE, come_in_turn, NULL);
    faults_open(&job, 1);
    faults_await_asleep(&job, 0, 1);
    faults_await_asleep(&job, 1, 1);
    faults_open(&job, 2);
    ok(faults_finish(&job, 0), "a late rank is waited for");
}

static void one_number_twice(void)
{
    struct faults_job job;
    char first[64], second[64];
    bool good;

    faults_start(&job, SIZE + 1, claim_a_number, NULL);
    faults_open(&job, 1);
    faults_await_asleep(&job, 0, 1);
    faults_await_asleep(&job, 1, 1);
    faults_signal(&job, 2, SIGSTOP); /* the rendezvous must not complete */
    faults_open(&job, 3);
    snprintf(first, sizeof(first), "already (pid %d)", (int)job.pids[1]);
    snprintf(second, sizeof(second), "(pid %d) passed", (int)job.pids[3]);
    good = faults_said(faults_told(&job, 3, 0), SYMMCOLL_ERR_INVALID,
        "rank 1 has joined already", first, second, NULL);
    ok(good, "who takes a rank that is taken is told by whom");
    faults_signal(&job, 2, SIGCONT);
    for (int r = 0; r < SIZE; r++)
        good = faults_told(&job, r, 0)->status == SYMMCOLL_OK && good;
    ok(good, "and the others join without it");
    faults_finish(&job, 0);
}

static bool differ_in_size(double seconds, void *arg)
{
    struct judged *judged = arg;
    struct faults_job job;

    set_timeout(seconds);
    faults_start(&job, SIZE, claim_a_size, NULL);
    faults_open(&job, 1);
    faults_await_asleep(&job, 0, 1);
    faults_await_asleep(&job, 1, 1);
    faults_open(&job, 2);
    judged->first = faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_INVALID,
        "rank 2 passed 4, others passed 3", NULL);
    judged->second = faults_said(
        faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT, "missing: rank 2", NULL);
    faults_finish(&job, 0);
    return judged->first && judged->second;
}

static void sizes_that_differ(void)
{
    struct judged judged = judge(differ_in_size);

    ok(judged.first, "a world size that differs is told to who passed it");
    ok(judged.second, "and the others go on to wait for that rank");
}

/* Rank 0 does not hear that the others come, and later hears everything at
 * once.
 */
static bool stop_the_server(double seconds, void *arg)
{
    struct judged *judged = arg;
    struct faults_job job;
    char name[64];
    bool good = true;

    set_timeout(seconds);
    faults_start(&job, SIZE, come_in_turn, NULL);
    faults_await_asleep(&job, 0, 1);
    faults_signal(&job, 0, SIGSTOP);
    faults_open(&job, SIZE);
    for (int r = 1; r < SIZE; r++)
        good = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   faults_name(&job, 0, name), "is stopped", NULL) &&
               good;
    judged->first = good;
    for (int r = 1; r < SIZE; r++)
        faults_reap(&job, r);
    faults_signal(&job, 0, SIGCONT);
    judged->second = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
        "all 3 ranks joined, but ranks 1 and 2 gave up", NULL);
    judged->second = faults_finish(&job, 0) && judged->second;
    return judged->first && judged->second;
}

static void a_stopped_server(void)
{
    struct judged judged = judge(stop_the_server);

    ok(judged.first, "a rank 0 that is stopped is named as such");
    ok(judged.second,
        "and when it goes on calls nobody missing who had come, and leaves "
        "nothing");
}

static void a_bad_environment(
    const char *setting, const char *name, const char *value)
{
    struct faults_job job;

    faults_start(&job, 1, join_with, setting);
    ok(faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_INVALID, "init", name,
           value, NULL),
        "%s is refused by name and value", setting);
    faults_finish(&job, 0);
}

/* ---- machines ---- */

static int come_from_a_node(struct faults_rank *self)
{
    setenv("SYMMCOLL_HOST_NODE", self->rank == 2 ? "node-b" : "node-a",
        self->arg == NULL);
    if (!faults_init(self))
        return self->arg != NULL;
    return faults_finalize(self);
}

static void nodes_that_differ(void)
{
    struct faults_job job;
    bool told = true;

    faults_start(&job, SIZE, come_from_a_node, NULL);
    for (int r = 0; r < SIZE; r++)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_UNSUPPORTED,
                   "\"node-a\"", "rank 2 on \"node-b\"", NULL) &&
               told;
    ok(told, "ranks whose host.node differs are refused, and both are named");
    ok(faults_finish(&job, 0), "and nothing is left of them");
    setenv("SYMMCOLL_HOST_NODE", "node-c", 1);
    faults_start(&job, SIZE, come_from_a_node, "");
    ok(faults_finish(&job, 0), "ranks with one host.node join");
    unsetenv("SYMMCOLL_HOST_NODE");
}

int main(void)
{
    plan(30);
    faults_begin();
    before_it_says_hello();
    after_it_said_hello();
    after_all_have_gone();
    the_one_who_serves();
    before_it_is_watched(die_after_joining, 1u << 1, "killed by SIGKILL",
        "a rank killed between joining and its first watch is named");
    before_it_is_watched(give_up_after_joining, 0, "gave up during init",
        "a rank that gives up after joining is named");
    nobody_else(0, "1 of 3 ranks joined, missing: ranks 1 and 2",
        "where nobody else comes, all others are named");
    nobody_else(1, "rank 0 did not join", "a missing rank 0 is named");
    a_late_rank();
    one_number_twice();
    sizes_that_differ();
    a_bad_environment("RANK=first", "RANK", "first");
    a_bad_environment("RANK=-1", "RANK", "-1");
    a_bad_environment("RANK=1", "rank", "expected 0 to 0, found 1");
    a_bad_environment(
        "WORLD_SIZE=0", "world_size", "expected more than 0, found 0");
    a_bad_environment(
        "WORLD_SIZE=5000", "world_size", "expected at most 4096, found 5000");
    a_bad_environment("SYMMCOLL_HUB=" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN,
        "SYMMCOLL_HUB", "at most 95 bytes, found 100");
    a_stopped_server();
    nodes_that_differ();
    faults_end();
    return done_testing();
}
