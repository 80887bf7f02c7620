/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that opening a store ends at its deadline: names that do not resolve,
 * and folders that are never created.
 */
#include "store/ops.h"
#include "store/tcp.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <netdb.h>
#include <time.h>

/* Replaces the C library's function: a name server that does not answer. */
int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **result)
{
    const struct timespec long_time = {.tv_sec = 20};

    (void)node;
    (void)service;
    (void)result;
    if (hints == NULL || (hints->ai_flags & AI_NUMERICHOST) == 0)
        nanosleep(&long_time, NULL);
    return EAI_NONAME;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int opens_in_time(int serve)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store;
    double began = now();
    symmcoll_status_t status;

    args.url = "redis://some-host.invalid";
    args.serve = serve;
    args.timeout = 0.3;
    status = symmcoll_store_open_tcp(&args, &store);
    if (status == SYMMCOLL_ERR_UNSUPPORTED)
        return 1;
    if (failed_with(status, SYMMCOLL_ERR_TIMEOUT, "some-host.invalid") &&
        now() - began >= 0.3 && now() - began < 15)
        return 1;
    diag("%g s: %s", now() - began, symmcoll_last_error());
    return 0;
}

#ifdef HAVE_HIREDIS
/* Checks the grace period of a call at a time before its deadline, or after
 * it. */
static int leaves_time(int64_t before_ns)
{
    int64_t at = symc_now_ns();

    return symc_tcp_grace(at + before_ns) - at >= SYMC_NS_PER_S / 2;
}
#endif

int main(void)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    struct symmcoll_store *store;
    double began, took = 1;
    int right = 1;

    alarm(600);
    plan(5);
    ok(opens_in_time(0), "a name without an address is a timeout for a client");
    ok(opens_in_time(1), "and for who serves at it");
    args.init_method = "file:///no/such/folder/file";
    args.world_size = 1;
    args.timeout = 0.1;
    /* Repeated, because a busy machine may take longer. */
    for (int i = 0; i < 10 && right && took >= 1; i++) {
        began = now();
        right = failed_with(symmcoll_init(&args, &world), SYMMCOLL_ERR_SYSTEM,
            "/no/such/folder/file: No such file");
        took = now() - began;
    }
    ok(right && took < 1, "init waits no longer for a folder than for ranks");
    began = now();
    ok(failed_with(symmcoll_store_open_file("/no/such/folder/file", 1, &store),
           SYMMCOLL_ERR_SYSTEM, "No such file") &&
            now() - began >= 1.9,
        "a folder may be made while a store waits for it");
#ifdef HAVE_HIREDIS
    ok(leaves_time(0) && leaves_time(-1) && leaves_time(1000000) &&
            leaves_time(SYMC_NS_PER_S),
        "a server has as long for a reply just before a deadline as after it");
#else
    skip(1, "built without hiredis");
#endif
    return done_testing();
}
