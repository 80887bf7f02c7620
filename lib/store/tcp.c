/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp store: a table at a server with the Redis protocol.  This file opens
 * and closes it and counts its workers.
 *
 * The store's own keys are "init/", the number of workers that have opened it,
 * and "open/", the number that have it open.  The last one to close removes the
 * keys of the job if all num_workers have opened it; otherwise they expire a
 * day after the last process has ended.
 */
#include "store/tcp.h"

#include "base/cancel.h"
#include "store/server.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT 300.0                /* seconds */
#define LEAVE_NS (2 * SYMC_NS_PER_S)         /* longest wait when closing */
#define RENEW_NS (21600 * SYMC_NS_PER_S)     /* a quarter of SYMC_TCP_LIFE */
#define ALL_HERE "symmcoll/all workers came" /* among the users' keys */

static const struct symmcoll_store_tcp_args default_args =
    SYMMCOLL_STORE_TCP_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_STORE_TCP_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

#ifdef HAVE_HIREDIS

static void share_tcp(void *table)
{
    struct symc_tcp *tcp = table;

    pthread_mutex_lock(&tcp->lock);
    tcp->handles++;
    pthread_mutex_unlock(&tcp->lock);
}

static void free_tcp(struct symc_tcp *tcp)
{
    symc_tcp_close_links(tcp);
    /* Before the server stops: while it has the port, the file is its own. */
    if (tcp->server != NULL && tcp->secret_path[0] != '\0')
        unlink(tcp->secret_path);
    symc_server_stop(tcp->server);
    symc_place_clear(&tcp->place);
    pthread_mutex_destroy(&tcp->lock);
    free(tcp);
}

/* Leaves the job.  If this fails the keys expire after a day. */
static symmcoll_status_t leave(struct symc_tcp *tcp)
{
    int64_t deadline_ns = symc_now_ns() + LEAVE_NS;
    int64_t open = 1, joined = 0;
    symmcoll_status_t status =
        symc_tcp_add_own(tcp, "open/", -1, deadline_ns, &open);

    if (status == SYMMCOLL_OK && open == 0)
        status = symc_tcp_add_own(tcp, "init/", 0, deadline_ns, &joined);
    if (status != SYMMCOLL_OK || open != 0 || tcp->num_workers == 0 ||
        joined < tcp->num_workers)
        return status;
    return symc_tcp_for_each(tcp, true, deadline_ns);
}

static void close_tcp(void *table)
{
    struct symc_tcp *tcp = table;
    bool last;

    pthread_mutex_lock(&tcp->lock);
    last = --tcp->handles == 0;
    pthread_mutex_unlock(&tcp->lock);
    if (!last)
        return;
    if (tcp->pid != getpid()) { /* the threads exist only in the parent */
        tcp->server = NULL;
        free(tcp->renewal);
        tcp->renewal = NULL;
    }
    symc_renewal_stop(tcp->renewal);
    tcp->renewal = NULL;
    if (tcp->pid == getpid() && tcp->joined && tcp->server == NULL)
        leave(tcp);
    free_tcp(tcp);
}

static const struct symc_store_ops tcp_ops = {
    .kind = "tcp",
    .share = share_tcp,
    .close = close_tcp,
    .edit = symc_tcp_edit,
    .find = symc_tcp_find,
    .wait = symc_tcp_wait,
    .count = symc_tcp_count,
    .set_all = symc_tcp_set_all,
    .length = symc_tcp_length,
    .list = symc_tcp_list,
    .await_change = symc_tcp_await_change,
};

/* ---- opening ---- */

/* Copies a path unless it is empty.  Returns false if memory is short. */
static bool copy_path(const char *path, char **copy)
{
    if (path == NULL || path[0] == '\0')
        return true;
    *copy = symc_strdup(path);
    return *copy != NULL;
}

static symmcoll_status_t read_place(
    const struct symmcoll_store_tcp_args *args, struct symc_place *place)
{
    symmcoll_status_t status = symc_place_parse(args->url, place);

    if (status != SYMMCOLL_OK)
        return status;
    if (args->password_file != NULL && args->password_file[0] != '\0') {
        status = symc_password_read(args->password_file, place->password);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (!copy_path(args->tls_ca, &place->tls_ca) ||
        !copy_path(args->tls_cert, &place->tls_cert) ||
        !copy_path(args->tls_key, &place->tls_key))
        return SYMMCOLL_ERR_NO_MEMORY;
    return SYMMCOLL_OK;
}

static symmcoll_status_t check_args(const struct symmcoll_store_tcp_args *args)
{
    static const char where[] = "store_open_tcp";
    const char *job = args->job != NULL ? args->job : "default";

    if (args->url == NULL)
        return symc_store_refuse_null(where, "url");
    if (args->num_workers < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: num_workers: expected 0 or more, found %d", where,
            args->num_workers);
    if (args->listen_fd < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: listen_fd: expected a descriptor above 0, or 0 for none, "
            "found %d",
            where, args->listen_fd);
    if (args->listen_fd > 0 && args->serve == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: listen_fd: expected serve to be 1 beside it, found 0", where);
    if (job[0] == '\0' || strlen(job) > SYMC_JOB_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: job: expected 1 to %d bytes, found %zu", where, SYMC_JOB_MAX,
            strlen(job));
    return SYMMCOLL_OK;
}

/* Waits for the other workers; the last one releases all. */
static symmcoll_status_t await_workers(
    struct symc_tcp *tcp, int64_t joined, int64_t deadline_ns, double timeout)
{
    static const char *const key = ALL_HERE;
    struct symc_edit edit = {.kind = SYMC_EDIT_SET};
    size_t missing = 0;
    symmcoll_status_t status;

    if (joined >= tcp->num_workers)
        return symc_tcp_edit(tcp, key, &edit, deadline_ns);
    status = symc_tcp_wait(tcp, &key, 1, deadline_ns, deadline_ns, &missing);
    if (status != SYMMCOLL_OK || missing == 1)
        return status;
    status =
        symc_tcp_add_own(tcp, "init/", 0, symc_tcp_grace(deadline_ns), &joined);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "store_open_tcp: timeout: %" PRId64 " of %d workers opened it within "
        "%g s",
        joined, tcp->num_workers, timeout);
}

/* Serves the table in this process, at the place. */
static symmcoll_status_t serve(
    struct symc_tcp *tcp, int listen_fd, int64_t deadline_ns)
{
    const struct symc_server_args args = {.place = &tcp->place,
        .deadline_ns = deadline_ns,
        .listen_fd = listen_fd};
    symmcoll_status_t status = symc_server_start(&args, &tcp->server);

    if (status == SYMMCOLL_OK)
        tcp->place.port = symc_server_port(tcp->server);
    return status;
}

/* Compares protocol versions: the first process of a job stores its version,
 * the others compare theirs (R34). */
static symmcoll_status_t compare_versions(
    struct symc_tcp *tcp, int64_t deadline_ns)
{
    struct symc_tcp_call call;
    struct symc_reply *reply = NULL;
    char found[SYMC_KEY_TEXT];
    struct symc_arg name;
    symmcoll_status_t status = symc_tcp_begin(tcp, "", deadline_ns, &call);

    if (status != SYMMCOLL_OK)
        return status;
    call.name.nbytes = (size_t)snprintf(
        call.name.text, sizeof(call.name.text), "%sversion/", tcp->prefix);
    name = symc_tcp_arg(&call.name);
    status = symc_tcp_order(&call,
        (struct symc_arg[]){SYMC_ARG("SET"), name, SYMC_ARG(SYMC_TCP_VERSION),
            SYMC_ARG("EX"), SYMC_ARG(SYMC_TCP_LIFE), SYMC_ARG("NX")},
        6);
    if (status != SYMMCOLL_OK)
        goto end_call;
    status =
        symc_link_request(call.link, (struct symc_arg[]){SYMC_ARG("GET"), name},
            2, call.deadline_ns, &reply);
    if (status != SYMMCOLL_OK)
        goto end_call;
    status = symc_tcp_check("version/", reply, SYMC_REPLY_TEXT);
    if (status == SYMMCOLL_OK && strcmp(reply->text, SYMC_TCP_VERSION) != 0)
        status = symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "store_open_tcp: the version of the store's protocol differs: this "
            "process has version " SYMC_TCP_VERSION
            ", the first one of job \"%s\" has \"%s\": use one version of the "
            "library",
            tcp->prefix, symc_key_text(reply->text, found));
    symc_reply_free(reply);
end_call:
    symc_tcp_end(&call);
    return status;
}

/* Connects and registers this worker. */
static symmcoll_status_t join(
    struct symc_tcp *tcp, int64_t deadline_ns, double timeout, bool wait)
{
    struct symc_link *link;
    int64_t joined = 0, open = 0;
    symmcoll_status_t status =
        symc_link_open(&tcp->place, true, deadline_ns, &link);

    if (status != SYMMCOLL_OK)
        return status;
    symc_tcp_give(tcp, link);
    status = compare_versions(tcp, deadline_ns);
    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_tcp_add_own(tcp, "open/", 1, symc_tcp_grace(deadline_ns), &open);
    tcp->joined = status == SYMMCOLL_OK;
    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_tcp_add_own(tcp, "init/", 1, symc_tcp_grace(deadline_ns), &joined);
    if (status != SYMMCOLL_OK || tcp->num_workers == 0)
        return status;
    if (joined > tcp->num_workers)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_tcp: expected %d workers of job \"%s\", found one "
            "more: another run has the same name",
            tcp->num_workers, tcp->prefix);
    return wait ? await_workers(tcp, joined, deadline_ns, timeout)
                : SYMMCOLL_OK;
}

/* Serves, with a secret's password if there is one, and writes its file. */
static symmcoll_status_t serve_secretly(struct symc_tcp *tcp, int listen_fd,
    const struct symc_secret *secret, int64_t deadline_ns)
{
    symmcoll_status_t status = serve(tcp, listen_fd, deadline_ns);

    if (status != SYMMCOLL_OK || secret == NULL)
        return status;
    memcpy(tcp->secret_path, secret->path, sizeof(tcp->secret_path));
    return secret->path[0] != '\0' ? symc_secret_write(secret) : SYMMCOLL_OK;
}

/* Reads the place, serves there if the arguments say so, and joins the job. */
static symmcoll_status_t start(struct symc_tcp *tcp,
    const struct symmcoll_store_tcp_args *args,
    const struct symc_secret *secret, int64_t deadline_ns, double timeout)
{
    symmcoll_status_t status = read_place(args, &tcp->place);

    if (status != SYMMCOLL_OK)
        return status;
    if (secret != NULL)
        memcpy(
            tcp->place.password, secret->password, sizeof(tcp->place.password));
    if (args->serve != 0) {
        status = serve_secretly(tcp, args->listen_fd, secret, deadline_ns);
        if (status != SYMMCOLL_OK)
            return status;
    }
    return join(tcp, deadline_ns, timeout, args->wait_workers != 0);
}

static symmcoll_status_t open_tcp(const struct symmcoll_store_tcp_args *given,
    struct symc_secret *secret, struct symmcoll_store **store)
{
    struct symmcoll_store_tcp_args args;
    struct symc_tcp *tcp;
    double timeout;
    int64_t timeout_ns, deadline_ns;
    symmcoll_status_t status;

    if (store == NULL)
        return symc_store_refuse_null("store_open_tcp", "store");
    status = symc_sized_read(&args_kind, "store_open_tcp", given, &args);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_args(&args);
    if (status != SYMMCOLL_OK)
        return status;
    timeout = args.timeout < 0 ? DEFAULT_TIMEOUT : args.timeout;
    status = symc_timeout_read("store_open_tcp", timeout, 0, &timeout_ns);
    if (status != SYMMCOLL_OK)
        return status;
    tcp = symc_alloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_init(&tcp->lock, NULL);
    tcp->handles = 1;
    tcp->pid = getpid();
    tcp->num_workers = args.num_workers;
    snprintf(tcp->prefix, sizeof(tcp->prefix),
        "symmcoll:%s:", args.job != NULL ? args.job : "default");
    deadline_ns = symc_deadline_ns(symc_now_ns(), timeout_ns);
    status = start(tcp, &args, secret, deadline_ns, timeout);
    if (secret != NULL)
        secret->refused = status == SYMMCOLL_ERR_INVALID && !tcp->joined;
    if (status == SYMMCOLL_OK)
        status = symc_renewal_start(tcp, RENEW_NS, &tcp->renewal);
    if (status != SYMMCOLL_OK) {
        struct symc_error error;

        symc_error_keep(&error, status); /* closing may fail as well */
        close_tcp(tcp);
        return symc_error_return(&error);
    }
    status = symc_store_create(&tcp_ops, tcp, store);
    if (status != SYMMCOLL_OK)
        return status;
    if (timeout_ns > 0)
        symc_store_set_usual(*store, timeout);
    if (args.listen_fd > 0)
        close(args.listen_fd); /* the server has its own copy */
    return SYMMCOLL_OK;
}

#else

static symmcoll_status_t open_tcp(const struct symmcoll_store_tcp_args *given,
    struct symc_secret *secret, struct symmcoll_store **store)
{
    struct symmcoll_store_tcp_args args;
    symmcoll_status_t status;

    (void)secret;
    if (store == NULL)
        return symc_store_refuse_null("store_open_tcp", "store");
    status = symc_sized_read(&args_kind, "store_open_tcp", given, &args);
    return status != SYMMCOLL_OK
               ? status
               : symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
                     "store_open_tcp: this library was built without hiredis");
}
#endif

int symmcoll_store_port(const struct symmcoll_store *store)
{
#ifdef HAVE_HIREDIS
    while (store != NULL && store->ops->underlying != NULL)
        store = store->ops->underlying(store->table);
    if (store != NULL && store->ops == &tcp_ops)
        return ((const struct symc_tcp *)store->table)->place.port;
#else
    (void)store;
#endif
    return 0;
}

symmcoll_status_t symc_store_open_tcp(
    const struct symmcoll_store_tcp_args *args, struct symc_secret *secret,
    struct symmcoll_store **store)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = open_tcp(args, secret, store);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_store_open_tcp(
    const struct symmcoll_store_tcp_args *args, struct symmcoll_store **store)
{
    return symc_store_open_tcp(args, NULL, store);
}
