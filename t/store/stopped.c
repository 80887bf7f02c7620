/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a tcp store with a stopped server: each call ends at its deadline,
 * with an error that has the server's address.
 */
#include "t/store/apart.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <time.h>

#define TIMEOUT 0.1
#define BOUND 4.0 /* seconds, for a call with a timeout of 0.1 */

static struct server server;
static struct symmcoll_store *store;
static double began;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Checks that the call which began with BEGIN() timed out within its bound. */
static int ends(symmcoll_status_t status)
{
    char place[64];
    double took = now() - began;

    snprintf(place, sizeof place, "timeout: no answer from 127.0.0.1:%d",
        server.port);
    if (failed_with(status, SYMMCOLL_ERR_TIMEOUT, place) && took < BOUND)
        return 1;
    diag("%d after %g s: %s", (int)status, took, symmcoll_last_error());
    return 0;
}
#define ENDS(call) (began = now(), ends(call))

static void test_calls(void)
{
    const char *keys[] = {"k", "none"};
    const void *values[] = {"v", "w"};
    const size_t sizes[] = {1, 1};
    size_t nbytes = 0, count = 0;
    void *value = NULL;
    char **list = NULL;
    int exist = 0;

    ok(ENDS(symmcoll_store_set(store, "k", "v", 1)) &&
            ENDS(symmcoll_store_add(store, "n", 1, NULL)) &&
            ENDS(symmcoll_store_append(store, "k", "v", 1)) &&
            ENDS(symmcoll_store_compare_set(
                store, "k", "v", 1, "w", 1, NULL, NULL, NULL)) &&
            ENDS(symmcoll_store_delete(store, "k", NULL)) &&
            ENDS(symmcoll_store_multi_set(store, keys, values, sizes, 2)),
        "changes end at the store's timeout");
    ok(ENDS(symmcoll_store_get(store, "k", &value, &nbytes)) &&
            ENDS(symmcoll_store_get(store, "none", &value, &nbytes)) &&
            ENDS(symmcoll_store_multi_get(store, keys, &value, &nbytes, 1)) &&
            ENDS(symmcoll_store_check(store, keys, 2, &exist)) &&
            ENDS(symmcoll_store_num_keys(store, &count)) &&
            ENDS(symmcoll_store_list_keys(store, &list, &count)) &&
            ENDS(symmcoll_store_queue_len(store, "q", &count)),
        "and so does what reads");
    ok(ENDS(symmcoll_store_wait(store, keys, 2, 0)) &&
            ENDS(symmcoll_store_wait(store, keys, 2, TIMEOUT)) &&
            ENDS(symmcoll_store_queue_pop(store, "q", 0, &value, &nbytes)) &&
            ENDS(symmcoll_store_queue_pop(
                store, "q", TIMEOUT, &value, &nbytes)) &&
            ENDS(symmcoll_store_barrier(store, "b", 0, 2, 0)) &&
            ENDS(symmcoll_store_barrier(store, "b", 0, 2, TIMEOUT)),
        "what waits ends at its own, 0 too");
}

static void test_others(const char *url)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *other = NULL;

    args.url = url;
    args.timeout = TIMEOUT;
    ok(ENDS(symmcoll_store_open_tcp(&args, &other)), "opening ends, too");
    began = now();
    symmcoll_store_close(store);
    ok(now() - began < 2 + BOUND, "and closing");
}

int main(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    char url[64];

    alarm(600);
    plan(5);
    if (!start_server(&server, 0)) {
        skip(5, "no server in this build");
        return done_testing();
    }
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", server.port);
    args.url = url;
    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK ||
        !set_text(store, "k", "v") ||
        symmcoll_store_set_timeout(store, TIMEOUT) != SYMMCOLL_OK)
        return 1;
    pause_server(&server);
    test_calls();
    test_others(url);
    kill(server.pid, SIGCONT);
    stop_server(&server);
    return done_testing();
}
