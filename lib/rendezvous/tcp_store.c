/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening the world's TCP store. Rank 0 serves it, unless store.url names a
 * server, or a server already listens at the place: that of another world of
 * the same ranks, or symmcoll-store.
 */
#include "rendezvous/tcp_store.h"

#include "rendezvous/launcher.h"
#include "store/secret.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* time to find a server that already listens */
#define OTHER_SERVER_NS (2 * SYMC_NS_PER_S)
/* time until a password has to be accepted */
#define REFUSED_NS (5 * SYMC_NS_PER_S)

bool symc_rendezvous_wants_tcp(const struct symc_config *config)
{
    return config != NULL &&
           (config->store_serve ||
               (config->store_url != NULL && config->store_url[0] != '\0'));
}

/* Refuses a password in the setting, since it would be printed with the
 * setting. */
static symmcoll_status_t check_url(const char *url)
{
    const char *at = strchr(url, '@');
    const char *login = strstr(url, "://");

    if (at == NULL || login == NULL ||
        memchr(login + 3, ':', (size_t)(at - login - 3)) == NULL)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: store.url: expected no password, found one: put it into the "
        "file that store.password_file names");
}

/* Formats "MASTER_ADDR:port". Under torchrun the agent listens at MASTER_PORT,
 * so the next port is used. */
static symmcoll_status_t find_place(
    const struct symc_config *config, char *place, size_t nbytes)
{
    const char *host = symc_rendezvous_variable("MASTER_ADDR");
    const char *text = symc_rendezvous_variable("MASTER_PORT");
    int agent = symc_rendezvous_variable("TORCHELASTIC_RUN_ID") != NULL;
    int64_t port = config != NULL ? config->store_port : 0;
    int number = 0;

    if (port == 0 && text != NULL &&
        symc_rendezvous_number_parse(text, UINT16_MAX - agent, &number))
        port = number + agent;
    if (host == NULL || port == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: the tcp store: expected in the environment, but not set: %s",
            host == NULL ? "MASTER_ADDR" : "MASTER_PORT, or store.port");
    snprintf(place, nbytes, strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d",
        host, (int)port);
    return SYMMCOLL_OK;
}

static double seconds_until(int64_t deadline_ns)
{
    int64_t left = deadline_ns - symc_now_ns();

    if (deadline_ns == SYMC_NEVER)
        return 1e9;
    return left > 0 ? (double)left / (double)SYMC_NS_PER_S : 0;
}

/*
 * Joins a server with the password in the file, or without one. The file may be
 * an earlier server's or not written yet, and the server may have no password,
 * so a refused connection is retried for a while.
 */
static symmcoll_status_t join(struct symmcoll_store_tcp_args *args,
    struct symc_secret *secret, int64_t deadline_ns,
    struct symmcoll_store **store)
{
    static const struct timespec pause = {.tv_nsec = 10000000};
    int64_t until_ns = SYMC_NEVER;
    symmcoll_status_t status;
    bool with = false;

    if (secret->path[0] == '\0')
        return symmcoll_store_open_tcp(args, store);
    for (;;) {
        with = !with && symc_secret_read(secret);
        if (!with)
            explicit_bzero(secret->password, sizeof(secret->password));
        args->timeout = seconds_until(deadline_ns);
        status = symc_store_open_tcp(args, secret, store);
        if (!secret->refused)
            return status;
        if (until_ns == SYMC_NEVER)
            until_ns = symc_now_ns() + REFUSED_NS;
        if (symc_now_ns() >= until_ns || symc_now_ns() >= deadline_ns)
            return status;
        nanosleep(&pause, NULL);
    }
}

/* Serves the store, or joins a server that already listens at the place. */
static symmcoll_status_t serve(struct symmcoll_store_tcp_args *args,
    struct symc_secret *secret, int64_t deadline_ns,
    struct symmcoll_store **store)
{
    int64_t other_ns = symc_now_ns() + OTHER_SERVER_NS;
    struct symc_error error;
    symmcoll_status_t status;

    args->serve = 1;
    status = secret->path[0] != '\0' ? symc_secret_make(secret) : SYMMCOLL_OK;
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_store_open_tcp(
        args, secret->path[0] != '\0' ? secret : NULL, store);
    if (status != SYMMCOLL_ERR_SYSTEM)
        return status;
    symc_error_keep(&error, status);
    args->serve = 0;
    if (other_ns > deadline_ns)
        other_ns = deadline_ns;
    args->timeout = seconds_until(other_ns);
    if (join(args, secret, other_ns, store) == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    return symc_error_return(&error);
}

/* Opens the store at rank 0. A password is generated if the settings name none
 * and all users of this machine could connect. */
static symmcoll_status_t open_rank_0(const struct symc_rendezvous *out,
    struct symmcoll_store_tcp_args *args, int64_t deadline_ns,
    struct symmcoll_store **store)
{
    struct symc_secret secret = {.path = ""};
    symmcoll_status_t status = SYMMCOLL_OK;

    if (args->password_file == NULL || args->password_file[0] == '\0')
        status = symc_secret_find(args->url, deadline_ns, secret.path);
    if (status == SYMMCOLL_OK)
        status = out->rank == 0 ? serve(args, &secret, deadline_ns, store)
                                : join(args, &secret, deadline_ns, store);
    explicit_bzero(&secret, sizeof(secret));
    return status;
}

symmcoll_status_t symc_rendezvous_open_tcp(const struct symc_rendezvous *out,
    const char *place, const char *job, const struct symc_config *config,
    int64_t deadline_ns, struct symmcoll_store **store)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    bool site = config != NULL && config->store_url != NULL &&
                config->store_url[0] != '\0';
    char found[320], url[352];
    symmcoll_status_t status = SYMMCOLL_OK;

    args.job = job;
    args.num_workers = out->size;
    args.timeout = seconds_until(deadline_ns);
    if (config != NULL) {
        args.password_file = config->store_password_file;
        args.tls_ca = config->store_tls_ca;
        args.tls_cert = config->store_tls_cert;
        args.tls_key = config->store_tls_key;
    }
    if (site) {
        status = check_url(config->store_url);
        args.url = config->store_url;
        return status == SYMMCOLL_OK ? symmcoll_store_open_tcp(&args, store)
                                     : status;
    }
    if (place == NULL) {
        status = find_place(config, found, sizeof(found));
        place = found;
    }
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(url, sizeof(url), "%s://%s",
        args.tls_cert != NULL && args.tls_cert[0] != '\0' ? "rediss" : "redis",
        place);
    args.url = url;
    return open_rank_0(out, &args, deadline_ns, store);
}
