/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a rendezvous. Arguments take precedence over the URL, and the URL
 * over the environment. Then the name of the rendezvous is derived (env://), or
 * agreed on through a store.
 */
#include "rendezvous/rendezvous.h"

#include "rendezvous/agreement.h"
#include "rendezvous/launcher.h"
#include "rendezvous/tcp_store.h"
#include "rendezvous/url.h"
#include "store/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_S 1.0 /* timeout of the store while it is closed */
#define WORLD_NAME_MAX 200

/* State of opening a rendezvous. */
struct opening {
    const struct symmcoll_init_args *args;
    const struct symc_config *config;
    int64_t deadline_ns;
    const char *name; /* name of the world */
    struct symc_rendezvous_url url;
    struct symc_rendezvous_launch launch;
    struct symmcoll_store *handled; /* store from a handler; NULL: none */
    struct symc_rendezvous *out;
};

static const struct symmcoll_init_args default_args = SYMMCOLL_INIT_ARGS_INIT;

/* ---- rank and size ---- */

static symmcoll_status_t check_args(struct opening *opening)
{
    const struct symmcoll_init_args *args = opening->args;

    opening->name = args->name != NULL ? args->name : "default";
    if (args->store != NULL && args->init_method != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a store or init_method, found both");
    if (args->world_size < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: world_size: expected more than 0, or 0 for the "
            "environment's, found %d",
            args->world_size);
    if (args->store != NULL && args->world_size == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected world_size and rank beside a store, found "
            "world_size 0");
    if (args->world_size > 1 && symc_store_is_fake(args->store))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a store that keeps values of %d ranks, found a fake "
            "store; symmcoll_fake_world() makes one rank without the others",
            args->world_size);
    if (opening->name[0] == '\0' || strlen(opening->name) > WORLD_NAME_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: name: expected 1 to %d bytes, found %zu", WORLD_NAME_MAX,
            strlen(opening->name));
    return SYMMCOLL_OK;
}

/* Appends a name to the list of missing variables for a message. */
static void list_missing(
    char *buffer, size_t nbytes, const char *name, bool missing)
{
    size_t used = strlen(buffer);

    if (missing)
        snprintf(
            buffer + used, nbytes - used, "%s%s", used > 0 ? ", " : "", name);
}

/* Checks that everything the scheme needs is set, and names what is missing. */
static symmcoll_status_t check_complete(
    const struct opening *opening, bool place_known)
{
    static const char *const schemes[] = {
        [SYMC_RENDEZVOUS_ENV] = "env://",
        [SYMC_RENDEZVOUS_FILE] = "file://",
        [SYMC_RENDEZVOUS_TCP] = "tcp://",
        [SYMC_RENDEZVOUS_HANDLER] = "the program's rendezvous handler",
    };
    const struct symc_rendezvous *out = opening->out;
    bool file = opening->url.scheme != SYMC_RENDEZVOUS_ENV;
    const char *scheme = schemes[opening->url.scheme];
    char missing[160] = "";

    list_missing(
        missing, sizeof missing, opening->launch.rank_name, out->rank < 0);
    list_missing(
        missing, sizeof missing, opening->launch.size_name, out->size < 0);
    list_missing(missing, sizeof missing, "MASTER_ADDR",
        !place_known && symc_rendezvous_variable("MASTER_ADDR") == NULL);
    list_missing(missing, sizeof missing, "MASTER_PORT",
        !place_known && symc_rendezvous_variable("MASTER_PORT") == NULL);
    if (missing[0] == '\0')
        return SYMMCOLL_OK;
    if (symc_process_is_privileged())
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: %s: expected in the arguments, but not set: %s (a process "
            "with more rights than its caller reads no environment)",
            scheme, missing);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: %s: expected in the environment, but not set: %s (%s)", scheme,
        missing,
        file && opening->url.scheme != SYMC_RENDEZVOUS_HANDLER
            ? "or \"?rank=R&world_size=N\" at the end"
            : "symmcoll-run or another launcher sets them");
}

/* Calls a registered handler, which opens its store and may set rank and
 * size. */
static symmcoll_status_t call_handler(struct opening *opening)
{
    const struct symmcoll_init_args *args = opening->args;
    bool said = args->world_size > 0;

    if (opening->url.scheme != SYMC_RENDEZVOUS_HANDLER || args->store != NULL)
        return SYMMCOLL_OK;
    opening->url.rank = said ? args->rank : opening->launch.rank;
    opening->url.size = said ? args->world_size : opening->launch.size;
    return symc_rendezvous_handler_open(&opening->url.handler,
        args->init_method, opening->deadline_ns, &opening->url.rank,
        &opening->url.size, &opening->handled);
}

/* Determines rank and size, and whether they come from the launcher. */
static symmcoll_status_t find_identity(struct opening *opening)
{
    const struct symc_rendezvous_launch *launch = &opening->launch;
    const struct symc_rendezvous_url *url = &opening->url;
    struct symc_rendezvous *out = opening->out;
    symmcoll_status_t status;

    if (opening->args->world_size > 0) {
        out->rank = opening->args->rank;
        out->size = opening->args->world_size;
    } else {
        if (url->rank < 0 || url->size < 0) {
            status = symc_rendezvous_launch_check(launch);
            if (status != SYMMCOLL_OK)
                return status;
        }
        out->rank = url->rank >= 0 ? url->rank : launch->rank;
        out->size = url->size >= 0 ? url->size : launch->size;
        if (out->rank < 0 || out->size < 0)
            return SYMMCOLL_OK; /* check_complete() names them */
    }
    if (out->size == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: world_size: expected more than 0, found 0");
    if (out->size > SYMC_RANKS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: world_size: expected at most %d, found %d", SYMC_RANKS_MAX,
            out->size);
    if (out->rank < 0 || out->rank >= out->size)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: rank: expected 0 to %d, found %d", out->size - 1, out->rank);
    out->local_rank = launch->local_rank;
    out->launcher = out->rank == launch->rank && out->size == launch->size
                        ? launch->launcher
                        : "arguments";
    return SYMMCOLL_OK;
}

/* Takes the launcher's bootstrap server, if this rank has the number and size that
 * the launcher has set: the server serves no others. */
static symmcoll_status_t take_server(struct opening *opening)
{
    struct symc_rendezvous *out = opening->out;
    const char *server = symc_rendezvous_variable("SYMMCOLL_HUB");

    if (server == NULL || out->rank != opening->launch.rank ||
        out->size != opening->launch.size)
        return SYMMCOLL_OK;
    if (strlen(server) >= sizeof out->server)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: environment variable SYMMCOLL_HUB: expected at most %zu "
            "bytes, found %zu: \"%.40s...\"",
            sizeof out->server - 1, strlen(server), server);
    snprintf(out->server, sizeof out->server, "%s", server);
    return SYMMCOLL_OK;
}

/* ---- env:// ---- */

static symmcoll_status_t check_port(void)
{
    const char *port = symc_rendezvous_variable("MASTER_PORT");
    char shown[SYMC_KEY_TEXT];
    int number;

    if (port == NULL || symc_rendezvous_number_parse(port, UINT16_MAX, &number))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: environment variable MASTER_PORT: expected 0 to %d, found "
        "\"%s\"",
        UINT16_MAX, symc_key_text(port, shown));
}

/*
 * Derives the rendezvous' name, which is the same in all ranks of a job and in
 * no other job. It is no secret: the server checks the connecting process.
 */
static symmcoll_status_t derive_rendezvous(struct opening *opening)
{
    static const char *const names[] = {"MASTER_ADDR", "MASTER_PORT",
        "SYMMCOLL_JOB", "SYMMCOLL_HUB", "TORCHELASTIC_RUN_ID",
        "SYMMCOLL_ATTEMPT", "TORCHELASTIC_RESTART_COUNT"};
    struct symc_digest digest = SYMC_DIGEST_INIT;
    char uid[24];
    bool marked = symc_rendezvous_launch_mark(&opening->launch, &digest);
    symmcoll_status_t status;

    marked = marked || symc_rendezvous_variable("SYMMCOLL_HUB") != NULL;
    status = check_complete(opening, marked);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_port();
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(uid, sizeof uid, "%ld", (long)getuid());
    symc_digest_add(&digest, "uid", uid);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        symc_digest_add(&digest, names[i], symc_rendezvous_variable(names[i]));
    symc_digest_add(&digest, "world", opening->name);
    snprintf(opening->out->name, sizeof opening->out->name,
        "symmcoll-%016" PRIx64 "%016" PRIx64, digest.a, digest.b);
    return SYMMCOLL_OK;
}

static symmcoll_status_t check_one_machine(const struct opening *opening)
{
    const struct symc_rendezvous_launch *launch = &opening->launch;
    const struct symc_rendezvous *out = opening->out;

    if (out->size != launch->size || launch->local_size < 0 ||
        launch->local_size >= out->size)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "init: expected all %d ranks on this machine, found %d of them (%s): "
        "several machines are not supported in this release",
        out->size, launch->local_size, launch->launcher);
}

static symmcoll_status_t open_env(struct opening *opening)
{
    symmcoll_status_t status = derive_rendezvous(opening);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_one_machine(opening);
    return status == SYMMCOLL_OK ? take_server(opening) : status;
}

/* ---- with a store ---- */

/* Opens the view in which the world works, with the world's timeout. */
static symmcoll_status_t open_view(
    struct opening *opening, struct symmcoll_store *store)
{
    struct symc_rendezvous *out = opening->out;
    double timeout = opening->args->timeout;
    symmcoll_status_t status =
        symmcoll_store_create_prefix(store, "default_pg", &out->store);

    if (status != SYMMCOLL_OK)
        return status;
    out->owns_store = true;
    if (timeout < 0) {
        if (opening->config == NULL)
            return SYMMCOLL_OK;
        timeout = opening->config->store_timeout == SYMC_NEVER
                      ? (double)INFINITY
                      : (double)opening->config->store_timeout /
                            (double)SYMC_NS_PER_S;
    }
    symc_store_set_usual(out->store, timeout);
    return SYMMCOLL_OK;
}

/* Returns the number of restarts of the job by its launcher; "0" if not set. */
static const char *find_attempt(void)
{
    const char *attempt = symc_rendezvous_variable("SYMMCOLL_ATTEMPT");

    if (attempt == NULL)
        attempt = symc_rendezvous_variable("TORCHELASTIC_RESTART_COUNT");
    return attempt != NULL ? attempt : "0";
}

/* Opens the TCP store. Its job has the world's name and the attempt, so that
 * the keys of an earlier attempt are not seen. */
static symmcoll_status_t open_tcp(
    struct opening *opening, struct symmcoll_store **store)
{
    char job[WORLD_NAME_MAX + 32];

    snprintf(job, sizeof(job), "%s:%.20s", opening->name, find_attempt());
    return symc_rendezvous_open_tcp(opening->out, opening->url.path, job,
        opening->config, opening->deadline_ns, store);
}

/* Takes the handler's store, or opens the one of the init method. */
static symmcoll_status_t open_own(
    struct opening *opening, struct symmcoll_store **own)
{
    symmcoll_status_t status = check_complete(opening, true);

    if (status != SYMMCOLL_OK)
        return status;
    *own = opening->handled;
    opening->handled = NULL;
    if (*own != NULL)
        return SYMMCOLL_OK;
    return opening->url.scheme == SYMC_RENDEZVOUS_TCP
               ? open_tcp(opening, own)
               : symc_store_open_file(opening->url.path, opening->out->size,
                     opening->deadline_ns, own);
}

static symmcoll_status_t open_store(struct opening *opening)
{
    struct symmcoll_store *own = NULL;
    struct symmcoll_store *store = opening->args->store;
    symmcoll_status_t status;

    if (store == NULL) {
        status = open_own(opening, &own);
        if (status != SYMMCOLL_OK)
            return status;
        store = own;
    }
    status = open_view(opening, store);
    if (status != SYMMCOLL_OK)
        goto close_own;
    if (opening->out->rank == 0) {
        status = take_server(opening);
        if (status != SYMMCOLL_OK)
            goto close_own;
    }
    status = symc_rendezvous_agree(
        opening->out, opening->name, opening->config, opening->deadline_ns);
close_own:
    symmcoll_store_close(own); /* the view keeps the store open */
    return status;
}

/* Opens a TCP store for the program if the settings request one. Under env://
 * the ranks join without a store. */
static symmcoll_status_t add_store(struct opening *opening)
{
    struct symmcoll_store *own = NULL;
    symmcoll_status_t status;

    if (!symc_rendezvous_wants_tcp(opening->config))
        return SYMMCOLL_OK;
    status = symc_rendezvous_open_tcp(opening->out, NULL, opening->out->name,
        opening->config, opening->deadline_ns, &own);
    if (status == SYMMCOLL_OK)
        status = open_view(opening, own);
    symmcoll_store_close(own);
    return status;
}

/* ---- calls ---- */

symmcoll_status_t symc_rendezvous_open(const struct symmcoll_init_args *args,
    const struct symc_config *config, int64_t deadline_ns,
    struct symc_rendezvous *rendezvous)
{
    struct opening opening = {
        .args = args != NULL ? args : &default_args,
        .config = config,
        .deadline_ns = deadline_ns,
        .out = rendezvous,
    };
    const char *method = opening.args->init_method;
    struct symc_error error;
    symmcoll_status_t status;

    *rendezvous =
        (struct symc_rendezvous){.rank = -1, .size = -1, .local_rank = -1};
    status = check_args(&opening);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_rendezvous_url_parse(
        method != NULL ? method : "env://", &opening.url);
    if (status != SYMMCOLL_OK)
        return status;
    symc_rendezvous_launch_read(&opening.launch);
    status = call_handler(&opening);
    if (status != SYMMCOLL_OK)
        goto close_rendezvous;
    status = find_identity(&opening);
    if (status != SYMMCOLL_OK)
        goto close_rendezvous;
    status =
        opening.args->store == NULL && opening.url.scheme == SYMC_RENDEZVOUS_ENV
            ? open_env(&opening)
            : open_store(&opening);
    if (status != SYMMCOLL_OK)
        goto close_rendezvous;
    if (rendezvous->store == NULL)
        status = add_store(&opening);
    if (status == SYMMCOLL_OK)
        return status;

close_rendezvous:
    symc_error_keep(&error, status); /* closing may fail as well */
    symmcoll_store_close(opening.handled);
    symc_rendezvous_close(rendezvous);
    return symc_error_return(&error);
}

void symc_rendezvous_close(struct symc_rendezvous *rendezvous)
{
    /* A stopped server must not delay this rank. */
    if (rendezvous->store != NULL && rendezvous->owns_store)
        symc_store_set_usual(rendezvous->store, CLOSE_S);
    if (rendezvous->store != NULL && rendezvous->claim[0] != '\0')
        symc_rendezvous_release(rendezvous);
    if (rendezvous->owns_store)
        symmcoll_store_close(rendezvous->store);
    rendezvous->store = NULL;
    rendezvous->owns_store = false;
    rendezvous->claim[0] = '\0';
}

symmcoll_status_t symc_rendezvous_local_rank(
    const struct symc_rendezvous *rendezvous, int fallback, int *local_rank)
{
    if (rendezvous->local_rank < 0 && fallback < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "local rank: environment variable LOCAL_RANK expected, but not "
            "set");
    *local_rank =
        rendezvous->local_rank >= 0 ? rendezvous->local_rank : fallback;
    return SYMMCOLL_OK;
}

const char *symc_rendezvous_job(
    const struct symc_rendezvous *rendezvous, char *buffer, size_t nbytes)
{
    const char *job = symc_rendezvous_variable("SYMMCOLL_JOB");
    struct symc_digest digest = SYMC_DIGEST_INIT;
    char text[64];

    if (job != NULL) {
        snprintf(text, sizeof(text), "%s", job);
    } else if (rendezvous->name[0] != '\0') {
        symc_digest_add(&digest, "name", rendezvous->name);
        snprintf(text, sizeof(text), "%016" PRIx64, digest.a);
    } else {
        snprintf(text, sizeof(text), "pid-%ld", (long)getpid());
    }
    snprintf(buffer, nbytes, "%s_%.20s", text, find_attempt());
    return buffer;
}
