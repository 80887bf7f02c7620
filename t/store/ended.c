/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the end of a store's server while clients use it: it closes all their
 * connections.
 */
#include "t/store/certs.h"
#include "t/tap.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#define CLIENTS 6
#define ROUNDS 12
#define OPENING 60.0 /* seconds, for slow machines */
#define TIMEOUT 2.0  /* of clients without a reply */

struct scene {
    struct symmcoll_store_tcp_args args; /* of clients */
    _Atomic int at_work;
    _Atomic int refused;
};

static int count_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;

    while (list != NULL && readdir(list) != NULL)
        count++;
    if (list != NULL)
        closedir(list);
    return count;
}

/* Requests replies until there is none. */
static void *be_client(void *arg)
{
    struct scene *scene = arg;
    struct symmcoll_store *store = NULL;

    if (symmcoll_store_open_tcp(&scene->args, &store) != SYMMCOLL_OK ||
        !set_text(store, "key", "text") ||
        symmcoll_store_set_timeout(store, TIMEOUT) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        scene->refused++;
    }
    scene->at_work++;
    while (store != NULL && set_text(store, "key", "text"))
        continue;
    symmcoll_store_close(store);
    return NULL;
}

/* Ends a server while clients use it. Returns whether no connection remains. */
static int ends_all(struct symmcoll_store_tcp_args *args)
{
    int before = count_descriptors(), after;
    struct scene scene = {.args = *args};
    struct symmcoll_store *server;
    pthread_t clients[CLIENTS];
    char url[64];

    scene.args.serve = 0;
    args->serve = 1;
    if (symmcoll_store_open_tcp(args, &server) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 0;
    }
    snprintf(url, sizeof(url), "%.*s%d", (int)strlen(args->url) - 1, args->url,
        symmcoll_store_port(server));
    scene.args.url = url;
    scene.args.timeout = OPENING;
    for (int i = 0; i < CLIENTS; i++)
        if (pthread_create(&clients[i], NULL, be_client, &scene) != 0)
            exit(1);
    while (scene.at_work < CLIENTS)
        usleep(100);
    symmcoll_store_close(server);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    after = count_descriptors();
    if (after != before)
        diag("%d descriptors more than before", after - before);
    return after == before && scene.refused == 0;
}

static int always_ends_all(struct symmcoll_store_tcp_args args)
{
    int good = 1;

    for (int i = 0; good && i < ROUNDS; i++)
        good = ends_all(&args);
    return good;
}

int main(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct certs certs;

    alarm(600);
    plan(2);
    args.url = "redis://127.0.0.1:0";
    ok(always_ends_all(args), "a server that ends closes all connections");
    if (make_certs(&certs)) {
        args.url = "rediss://127.0.0.1:0";
        args.tls_ca = args.tls_cert = certs.cert;
        args.tls_key = certs.key;
        ok(always_ends_all(args), "over TLS, too");
    } else {
        skip(1, "no openssl");
    }
    remove_certs(&certs);
    return done_testing();
}
