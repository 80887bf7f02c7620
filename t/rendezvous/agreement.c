/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that agree on a rendezvous through a store, and the names of
 * machines and processes by which they find out whether they can connect.
 */
#include "base/process.h"
#include "rendezvous/rendezvous.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <pthread.h>

struct member {
    struct symmcoll_store *store;
    const char *method;
    const char *name;
    const struct symc_config *config;
    int rank;
    int size;
    double seconds; /* until the deadline */
    double timeout; /* of init */
    symmcoll_status_t status;
    char detail[SYMC_DETAIL_MAX];
    struct symc_rendezvous found;
};

static void *join(void *arg)
{
    struct member *member = arg;
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;

    args.store = member->store;
    args.init_method = member->method;
    args.name = member->name;
    args.rank = member->rank;
    args.world_size = member->size;
    args.timeout = member->timeout;
    member->status = symc_rendezvous_open(&args, member->config,
        symc_deadline_ns(symc_now_ns(), symc_seconds_ns(member->seconds)),
        &member->found);
    snprintf(
        member->detail, sizeof member->detail, "%s", symmcoll_last_error());
    return NULL;
}

/* Joins two threads as ranks, and checks that both have the same name. */
static int same_place(struct member *a, struct member *b)
{
    pthread_t thread;

    pthread_create(&thread, NULL, join, b);
    join(a);
    pthread_join(thread, NULL);
    return a->status == SYMMCOLL_OK && b->status == SYMMCOLL_OK &&
           strncmp(a->found.name, "symmcoll-", 9) == 0 &&
           strcmp(a->found.name, b->found.name) == 0;
}

static void part(struct member *a, struct member *b)
{
    symc_rendezvous_close(&a->found);
    symc_rendezvous_close(&b->found);
}

static int rank_is_taken(const void *arg)
{
    struct member again = *(const struct member *)arg;

    join(&again);
    return again.status == SYMMCOLL_ERR_INVALID &&
           strstr(again.detail, "rank 1 of world \"w\": expected it to be free,"
                                " found process") != NULL;
}

static int rank_is_free(const void *arg)
{
    struct member again = *(const struct member *)arg;

    again.rank = 0; /* publishes, so that it does not wait */
    join(&again);
    symc_rendezvous_close(&again.found);
    return again.status == SYMMCOLL_OK;
}

static void test_arguments(struct symmcoll_store *store)
{
    struct symmcoll_init_args both = SYMMCOLL_INIT_ARGS_INIT;
    struct symc_rendezvous none;

    both.store = store;
    both.init_method = "env://";
    both.world_size = 1;
    ok(failed_with(symc_rendezvous_open(&both, NULL, 0, &none),
           SYMMCOLL_ERR_INVALID, "expected a store or init_method, found both"),
        "a store excludes a method");
    both.init_method = NULL;
    both.world_size = 0;
    ok(failed_with(symc_rendezvous_open(&both, NULL, 0, &none),
           SYMMCOLL_ERR_INVALID, "world_size and rank beside a store"),
        "a store wants world_size");
}

/* Checks that get in a world of one rank fails after the timeout of init. */
static int times_out(struct symmcoll_store *store)
{
    struct member alone = {.store = store,
        .name = "alone",
        .size = 1,
        .seconds = 60,
        .timeout = 0.2};
    int64_t began_ns;
    void *value = NULL;
    size_t nbytes = 0;
    int good;

    join(&alone);
    if (alone.status != SYMMCOLL_OK)
        return 0;
    began_ns = symc_now_ns();
    good = failed_with(
               symmcoll_store_get(alone.found.store, "none", &value, &nbytes),
               SYMMCOLL_ERR_TIMEOUT, "timeout: key \"none\" did not appear") &&
           symc_now_ns() - began_ns >= symc_seconds_ns(0.2) && value == NULL;
    symc_rendezvous_close(&alone.found);
    return good;
}

static void test_store(struct symmcoll_store *store)
{
    struct member a;
    struct member b;
    char first[SYMC_RENDEZVOUS_NAME];

    a = (struct member){.store = store,
        .name = "w",
        .rank = 0,
        .size = 2,
        .seconds = 60,
        .timeout = 17};
    b = a;
    b.rank = 1;
    ok(same_place(&a, &b) && a.found.store != NULL && a.found.owns_store,
        "ranks join through a store");
    ok(set_text(a.found.store, "k", "v") && holds(store, "default_pg/k", "v") &&
            holds(b.found.store, "k", "v"),
        "their world works in the view default_pg");
    ok(symmcoll_store_timeout(a.found.store) > 16 &&
            symmcoll_store_timeout(a.found.store) < 18 &&
            symmcoll_store_timeout(store) > 299,
        "the timeout of init is the view's and leaves the store's alone (R3)");
    snprintf(first, sizeof first, "%s", a.found.name);
    part(&a, &b);
    ok(same_place(&a, &b) && strcmp(first, a.found.name) != 0,
        "a second world over the same store joins under another name (G1)");
    part(&a, &b);
    ok(times_out(store), "a key that is missing is waited for as long (R3)");

    b.name = "other"; /* rank 0 is not there */
    b.seconds = 0.02;
    join(&b);
    ok(b.status == SYMMCOLL_ERR_TIMEOUT &&
            strstr(b.detail, "rank 1 found no rendezvous of rank 0") != NULL &&
            strstr(b.detail, "\"other\"") != NULL && b.found.store == NULL,
        "a rank that waits for rank 0 honours its deadline and says so");
    b.name = "sizes";
    a.name = "sizes";
    b.size = 3;
    b.seconds = 60;
    same_place(&a, &b);
    ok(b.status == SYMMCOLL_ERR_MISMATCH &&
            strstr(b.detail, "rank 0 passed 2, rank 1 passed 3") != NULL,
        "sizes that differ are named");
    part(&a, &b);
}

static void test_file(void)
{
    struct member a;
    struct member b;
    char url[4200];

    snprintf(url, sizeof url, "file://%s", scratch_path());
    a = (struct member){.method = url,
        .name = "w",
        .rank = 0,
        .size = 2,
        .seconds = 60,
        .timeout = 17};
    b = a;
    b.rank = 1;
    ok(same_place(&a, &b), "ranks join through a file");
    part(&a, &b);
    ok(access(url + strlen("file://"), F_OK) != 0,
        "the last of them removes the file");
}

static void test_claims(void)
{
    struct symmcoll_store *store = NULL;
    struct symc_config config = {.host_node = NULL};
    char node_a[] = "node-a";
    char node_b[] = "node-b";
    struct member a;
    struct member b;
    const char *path = scratch_path();

    if (symmcoll_store_open_file(path, 0, &store) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    a = (struct member){.store = store,
        .name = "w",
        .rank = 0,
        .size = 2,
        .seconds = 60,
        .timeout = 17};
    b = a;
    b.rank = 1;
    ok(same_place(&a, &b) && run_in_child(rank_is_taken, &b),
        "a second process of one rank's number is refused, with the first");
    part(&a, &b);
    ok(run_in_child(rank_is_free, &a),
        "the number is free again when the rank has closed its world");

    config.host_node = node_a;
    config.store_timeout = SYMC_NEVER;
    a.config = &config;
    a.name = "nodes";
    join(&a);
    config.host_node = node_b;
    b.config = &config;
    b.name = "nodes";
    join(&b);
    ok(a.status == SYMMCOLL_OK && b.status == SYMMCOLL_ERR_UNSUPPORTED &&
            strstr(b.detail, "\"node-a\"") != NULL &&
            strstr(b.detail, "rank 1 on \"node-b\"") != NULL,
        "ranks on two nodes are refused with both names");
    part(&a, &b);
    symmcoll_store_close(store);
    unlink(path);
}

static int tells_its_name(const void *arg)
{
    char name[SYMC_PROCESS_NAME] = "";
    pid_t pid = -1;

    return symc_process_name(name) == SYMMCOLL_OK &&
           symc_process_find(name, &pid) == SYMC_PROCESS_RUNS &&
           pid == getpid() &&
           write(*(const int *)arg, name, sizeof name) == sizeof name;
}

static void test_names(void)
{
    struct symc_config config = {.host_node = NULL};
    char given[] = "rack 7";
    char name[SYMC_PROCESS_NAME] = "";
    char a[128];
    char b[128];
    int fds[2];
    pid_t pid = -1;

    ok(symc_rendezvous_node(NULL, a, sizeof a) == SYMMCOLL_OK &&
            symc_rendezvous_node(&config, b, sizeof b) == SYMMCOLL_OK &&
            strcmp(a, b) == 0 && strchr(a, '/') != NULL,
        "a machine has one name: its boot and its network");
    config.host_node = given;
    ok(symc_rendezvous_node(&config, a, sizeof a) == SYMMCOLL_OK &&
            strcmp(a, given) == 0 &&
            symc_rendezvous_node(&config, a, 3) == SYMMCOLL_ERR_INVALID,
        "host.node names it otherwise");
    ok(pipe(fds) == 0 && run_in_child(tells_its_name, &fds[1]) &&
            read(fds[0], name, sizeof name) == sizeof name &&
            symc_process_find(name, &pid) == SYMC_PROCESS_GONE &&
            pid != getpid(),
        "a process is known while it runs and when it is gone");
    name[0] = name[0] == '0' ? '1' : '0';
    ok(symc_process_find(name, NULL) == SYMC_PROCESS_ELSEWHERE &&
            symc_process_find("free", &pid) == SYMC_PROCESS_ELSEWHERE &&
            pid == 0,
        "of another machine's process nothing is said");
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    struct symmcoll_store *store = NULL;

    alarm(600);
    plan(18);
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    test_arguments(store);
    test_store(store);
    symmcoll_store_close(store);
    test_file();
    test_claims();
    test_names();
    return done_testing();
}
