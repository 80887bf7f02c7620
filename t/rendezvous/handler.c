/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests schemes of init_method that the program registers: the arguments and
 * results of a handler, and ranks that join through one (R38).
 */
#include "t/ranks.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <math.h>
#include <pthread.h>

#define RANKS 3

/* The result of a test's handler, and the arguments that it received. */
struct handler {
    symmcoll_status_t status;
    struct symmcoll_store *shared; /* NULL: a file store, by the URL's path */
    int rank, world_size;          /* set where 0 or more */
    int no_store;
    const char *breaks; /* a URL that a call of the library refuses; NULL */

    char url[256];
    double timeout;
    int passed_rank, passed_size;
};

static symmcoll_status_t open_store(void *user, const char *url, double timeout,
    int *rank, int *world_size, struct symmcoll_store **store)
{
    struct handler *handler = user;

    snprintf(handler->url, sizeof handler->url, "%s", url);
    handler->timeout = timeout;
    handler->passed_rank = *rank;
    handler->passed_size = *world_size;
    if (handler->rank >= 0)
        *rank = handler->rank;
    if (handler->world_size >= 0)
        *world_size = handler->world_size;
    if (handler->breaks != NULL) {
        struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;

        args.url = handler->breaks;
        return symmcoll_store_open_tcp(&args, store);
    }
    if (handler->status != SYMMCOLL_OK || handler->no_store)
        return handler->status;
    if (handler->shared != NULL)
        return symmcoll_store_clone(handler->shared, store);
    return symmcoll_store_open_file(strstr(url, "://") + 3, *world_size, store);
}

static symmcoll_status_t register_as(
    const char *scheme, struct handler *handler)
{
    struct symmcoll_rendezvous_functions functions =
        SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT;

    functions.user = handler;
    functions.open = open_store;
    return symmcoll_rendezvous_register(scheme, &functions);
}

static symmcoll_status_t join(
    const char *method, int rank, int size, struct symmcoll_world **world)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;

    args.init_method = method;
    args.rank = rank;
    args.world_size = size;
    args.timeout = 30;
    return symmcoll_init(&args, world);
}

/* ---- registering ---- */

static int refuses(const char *scheme, const char *text)
{
    struct handler handler = {.status = SYMMCOLL_OK};

    return failed_with(
        register_as(scheme, &handler), SYMMCOLL_ERR_INVALID, text);
}

static int checks_arguments(const void *arg)
{
    struct symmcoll_rendezvous_functions functions =
        SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT;

    (void)arg;
    return refuses("env", "of the program's own, found env://") &&
           refuses("file", "file://") && refuses("tcp", "tcp://") &&
           refuses("", "found \"\"") && refuses("1a", "the first a letter") &&
           refuses("Etcd", "found \"Etcd\"") && refuses("a\nb", "a?b") &&
           refuses("a234567890123456789012345678901x", "1 to 31") &&
           refuses(NULL, "scheme is NULL") &&
           failed_with(symmcoll_rendezvous_register("mine", NULL),
               SYMMCOLL_ERR_INVALID, "functions is NULL") &&
           failed_with(symmcoll_rendezvous_register("mine", &functions),
               SYMMCOLL_ERR_INVALID, "open is NULL") &&
           (functions.size = 8, 1) &&
           failed_with(symmcoll_rendezvous_register("mine", &functions),
               SYMMCOLL_ERR_INVALID, "SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT");
}

static int registers_once(const void *arg)
{
    struct handler handler = {.status = SYMMCOLL_OK};
    struct symmcoll_world *world;
    char scheme[16];
    int n = 2;

    (void)arg;
    if (!failed_with(join("a.b+c-1://x", 0, 1, &world),
            SYMMCOLL_ERR_UNSUPPORTED, "no rendezvous handler for a.b+c-1://") ||
        register_as("a.b+c-1", &handler) != SYMMCOLL_OK ||
        register_as("a234567890123456789012345678901", &handler) !=
            SYMMCOLL_OK ||
        !failed_with(register_as("a.b+c-1", &handler), SYMMCOLL_ERR_INVALID,
            "found a.b+c-1://, which has one"))
        return 0;
    do
        snprintf(scheme, sizeof scheme, "n%d", n);
    while (register_as(scheme, &handler) == SYMMCOLL_OK && ++n < 1000);
    return n == 32 && strstr(symmcoll_last_error(), "at most 32") != NULL;
}

/* ---- what a handler says ---- */

static int is_passed_what_is_known(const void *arg)
{
    struct handler handler = {.rank = -1, .world_size = -1};
    struct symmcoll_world *world;
    int good;

    (void)arg;
    handler.status = SYMMCOLL_ERR_TIMEOUT;
    if (register_as("mine", &handler) != SYMMCOLL_OK)
        return 0;
    clearenv();
    good = failed_with(join("mine://here?a=1", 0, 0, &world),
               SYMMCOLL_ERR_TIMEOUT, "rendezvous handler returned TIMEOUT") &&
           strcmp(handler.url, "mine://here?a=1") == 0 &&
           handler.timeout > 20 && handler.timeout <= 30 &&
           handler.passed_rank == -1 && handler.passed_size == -1;
    setenv("RANK", "4", 1);
    setenv("WORLD_SIZE", "5", 1);
    /* An error before the handler's is not its cause. */
    good = good && symmcoll_barrier(NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID &&
           join("mine://", 0, 0, &world) == SYMMCOLL_ERR_TIMEOUT &&
           strstr(symmcoll_last_error(), "barrier") == NULL &&
           handler.passed_rank == 4 && handler.passed_size == 5;
    return good && join("mine://", 1, 2, &world) == SYMMCOLL_ERR_TIMEOUT &&
           handler.passed_rank == 1 && handler.passed_size == 2;
}

static int says_who_it_is(const void *arg)
{
    struct handler handler = {.rank = 0, .world_size = 1};
    struct symmcoll_world *world = NULL;
    int good;

    (void)arg;
    clearenv();
    if (symmcoll_store_create_hash(&handler.shared) != SYMMCOLL_OK ||
        register_as("mine", &handler) != SYMMCOLL_OK)
        return 0;
    good = join("mine://", 0, 0, &world) == SYMMCOLL_OK &&
           symmcoll_world_size(world) == 1 &&
           set_text(symmcoll_world_store(world), "k", "v") &&
           holds(handler.shared, "default_pg/k", "v");
    good = symmcoll_finalize(world) == SYMMCOLL_OK && good;
    handler.rank = 7;
    good = good && join("mine://", 0, 1, &world) == SYMMCOLL_OK &&
           symmcoll_finalize(world) == SYMMCOLL_OK;
    symmcoll_store_close(handler.shared);
    return good;
}

static int checks_what_it_says(const void *arg)
{
    struct handler handler = {.rank = -1, .world_size = -1, .no_store = 1};
    struct symmcoll_world *world;
    int good;

    (void)arg;
    clearenv();
    if (symmcoll_store_create_hash(&handler.shared) != SYMMCOLL_OK ||
        register_as("mine", &handler) != SYMMCOLL_OK)
        return 0;
    good = failed_with(join("mine://", 0, 1, &world), SYMMCOLL_ERR_INVALID,
        "expected a store, found NULL");
    handler.status = 17;
    good =
        good && failed_with(join("mine://", 0, 1, &world), SYMMCOLL_ERR_INVALID,
                    "expected 0 or an error, found 17");
    handler.status = SYMMCOLL_OK;
    handler.no_store = 0;
    good =
        good && failed_with(join("mine://", 0, 0, &world), SYMMCOLL_ERR_INVALID,
                    "handler: expected in the environment, but not set: RANK, "
                    "WORLD_SIZE");
    handler.rank = 3;
    handler.world_size = 2;
    good = good && failed_with(join("mine://", 0, 0, &world),
                       SYMMCOLL_ERR_INVALID, "rank: expected 0 to 1, found 3");
    handler.breaks = "http://x";
#ifdef HAVE_HIREDIS
    good =
        good && failed_with(join("mine://", 0, 1, &world), SYMMCOLL_ERR_INVALID,
                    "handler returned INVALID: tcp store: URL: expected");
#else
    good =
        good && failed_with(join("mine://", 0, 1, &world),
                    SYMMCOLL_ERR_UNSUPPORTED, "handler returned UNSUPPORTED: ");
#endif
    symmcoll_store_close(handler.shared);
    return good;
}

/* ---- ranks ---- */

static int adds_up(struct symmcoll_world *world)
{
    int sum = 0, one = 1;
    int good = symmcoll_all_reduce(symmcoll_world_group(world), &sum, &one, 1,
                   SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
               sum == RANKS;

    return symmcoll_finalize(world) == SYMMCOLL_OK && good;
}

static int join_as_process(int rank, int size, void *arg)
{
    struct handler handler = {.rank = -1, .world_size = -1};
    struct symmcoll_world *world;
    char method[4200];

    (void)rank;
    (void)size;
    snprintf(method, sizeof method, "mine://%s", (const char *)arg);
    if (register_as("mine", &handler) != SYMMCOLL_OK ||
        join(method, 0, 0, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return 1;
    }
    return !adds_up(world);
}

static void *join_as_thread(void *arg)
{
    struct symmcoll_world *world;

    if (join("mine://", *(int *)arg, RANKS, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return NULL;
    }
    return adds_up(world) ? arg : NULL;
}

/* A handler that keeps nothing of a call, so threads can share it. */
static symmcoll_status_t share(void *user, const char *url, double timeout,
    int *rank, int *world_size, struct symmcoll_store **store)
{
    (void)url;
    (void)timeout;
    (void)rank;
    (void)world_size;
    return symmcoll_store_clone(user, store);
}

static int run_threads(const void *arg)
{
    struct symmcoll_rendezvous_functions functions =
        SYMMCOLL_RENDEZVOUS_FUNCTIONS_INIT;
    struct symmcoll_store *store;
    pthread_t threads[RANKS];
    int ranks[RANKS], good = 1;
    void *result;

    (void)arg;
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        return 0;
    functions.user = store;
    functions.open = share;
    if (symmcoll_rendezvous_register("mine", &functions) != SYMMCOLL_OK)
        return 0;
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = i;
        pthread_create(&threads[i], NULL, join_as_thread, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], &result);
        good &= result != NULL;
    }
    symmcoll_store_close(store);
    return good;
}

int main(void)
{
    int statuses[RANKS] = {-1, -1, -1};
    char path[4096];

    alarm(600);
    plan(7);
    ok(run_in_child(checks_arguments, NULL),
        "scheme and functions are checked, and the library's schemes refused");
    ok(run_in_child(registers_once, NULL),
        "a scheme is unknown until it has a handler, and gets one only");
    ok(run_in_child(is_passed_what_is_known, NULL),
        "a handler is passed URL, time, rank and size as far as they are known");
    ok(run_in_child(says_who_it_is, NULL),
        "what it says counts where the arguments say nothing");
    ok(run_in_child(checks_what_it_says, NULL), "what it says is checked");
    snprintf(path, sizeof path, "%s", scratch_path());
    ok(ranks_spawn(RANKS, join_as_process, path, statuses) &&
            statuses[0] == 0 && statuses[1] == 0 && statuses[2] == 0,
        "processes join through the store that a handler opens");
    ok(run_in_child(run_threads, NULL),
        "threads join through the store that a handler shares");
    return done_testing();
}
