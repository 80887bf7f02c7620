/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests public structs that begin with their size, as passed by programs built
 * with older and newer headers. t/style/headers.t checks that every such
 * struct of the headers is in the list. members.c tests which members are read
 * and filled in.
 */
#include <symmcoll.h>

#include "t/ranks.h"
#include "t/tap.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MORE 64 /* bytes of a newer header's members */

static struct symmcoll_store *store;
static struct symmcoll_world *world;
static struct symmcoll_reducer *reducer, *sharded;
static float weight[6];
static const int one_rank[] = {0}, one_size[] = {1};
static const struct symmcoll_lists lists = {one_rank, one_size, 1};
static const struct symmcoll_tensor one_scale =
    SYMMCOLL_TENSOR_FLAT(weight, 1, SYMMCOLL_FLOAT32);
static const struct symmcoll_tensor one_eighth = {
    .size = sizeof(struct symmcoll_tensor),
    .dtype = SYMMCOLL_FLOAT8_E5M2,
    .device = SYMMCOLL_META,
    .ndim = 2,
    .shape = {1, 1},
    .strides = {1, 1}};

/* ---- a use of each struct ---- */

static symmcoll_status_t use_call(void *given)
{
    int sum = 0, one = 1;

    return symmcoll_all_reduce(symmcoll_world_group(world), &sum, &one, 1,
        SYMMCOLL_INT32, SYMMCOLL_SUM, given, NULL);
}

static symmcoll_status_t use_connectivity(void *given)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;
    symmcoll_status_t status =
        symmcoll_connectivity_detect(world, "host", given);

    if (status != SYMMCOLL_OK)
        return status;
    memcpy(&found, given, sizeof(found));
    symmcoll_connectivity_free(&found);
    return status;
}

static symmcoll_status_t use_symm_exchange(void *given)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    struct symmcoll_symm *handle;
    void *data;
    symmcoll_status_t status = symmcoll_symm_alloc(world, 4096, NULL, &data);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_symm_rendezvous(group, data, NULL, &handle);
    if (status == SYMMCOLL_OK) {
        status = symmcoll_symm_all_to_all_v(handle, given, NULL);
        symmcoll_symm_release(handle);
    }
    return symmcoll_symm_free(world, data) == SYMMCOLL_OK
               ? status
               : SYMMCOLL_ERR_INTERNAL;
}

static symmcoll_status_t use_group_args(void *given)
{
    struct symmcoll_group *made;
    symmcoll_status_t status = symmcoll_group_create(world, given, &made);

    return status == SYMMCOLL_OK ? symmcoll_group_free(made) : status;
}

static symmcoll_status_t use_shrink_args(void *given)
{
    struct symmcoll_group *made, *left;
    symmcoll_status_t status = symmcoll_group_create(world, NULL, &made);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_group_shrink(made, given, &left, NULL);
    if (status == SYMMCOLL_OK)
        status = symmcoll_group_free(left);
    return symmcoll_group_free(made) == SYMMCOLL_OK ? status
                                                    : SYMMCOLL_ERR_INTERNAL;
}

static symmcoll_status_t use_error_info(void *given)
{
    return symmcoll_error_info(given);
}

static symmcoll_status_t use_group_info(void *given)
{
    return symmcoll_group_get_info(symmcoll_world_group(world), given);
}

static symmcoll_status_t use_symm_args(void *given)
{
    void *data;
    symmcoll_status_t status = symmcoll_symm_alloc(world, 16, given, &data);

    return status == SYMMCOLL_OK ? symmcoll_symm_free(world, data) : status;
}

static symmcoll_status_t use_symm_info(void *given)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    struct symmcoll_symm *handle;
    symmcoll_status_t status =
        symmcoll_symm_workspace(group, 16, NULL, &handle);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_symm_get_info(handle, given);
    symmcoll_symm_release(handle);
    return status;
}

static symmcoll_status_t use_symm_pool_info(void *given)
{
    struct symmcoll_symm_pool *pool;
    symmcoll_status_t status = symmcoll_symm_default_pool(world, &pool);

    return status == SYMMCOLL_OK ? symmcoll_symm_pool_get_info(pool, given)
                                 : status;
}

/* Uses the struct with an A without memory. */
static symmcoll_status_t use_scaled_matrix(void *given)
{
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT8_E4M3FN, 1, 1);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    a.device = SYMMCOLL_META;
    return symmcoll_fused_all_gather_scaled_matmul(symmcoll_world_group(world),
        &a, &one_scale, given, 1, 0, NULL, NULL, &out);
}

static symmcoll_status_t use_designator(void *given)
{
    const char *tag;
    int ranks[1], nranks, nrun;

    return symmcoll_designator_expand(
        world, given, &tag, ranks, &nranks, &nrun);
}

static symmcoll_status_t use_mesh(void *given)
{
    struct symmcoll_designator designator = SYMMCOLL_DESIGNATOR_INIT;

    designator.mesh = given;
    return use_designator(&designator);
}

static symmcoll_status_t use_init_args(void *given)
{
    struct symmcoll_world *made;
    symmcoll_status_t status = symmcoll_init(given, &made);

    return status == SYMMCOLL_OK ? symmcoll_finalize(made) : status;
}

static symmcoll_status_t use_reducer_args(void *given)
{
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_FLAT(weight, 6, SYMMCOLL_FLOAT32);
    struct symmcoll_reducer *made;
    symmcoll_status_t status = symmcoll_reducer_create(
        symmcoll_world_group(world), &param, 1, given, &made);

    if (status == SYMMCOLL_OK)
        symmcoll_reducer_free(made);
    return status;
}

/* Runs one backward in 16 bits, with the hook in the struct. */
static symmcoll_status_t use_hook_wrapped(void *given)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_FLAT(weight, 6, SYMMCOLL_FLOAT32);
    struct symmcoll_reducer *made = NULL;
    float grad[6] = {0};
    symmcoll_status_t status;

    args.hook = symmcoll_hook_fp16_wrapper;
    args.hook_arg = given;
    status = symmcoll_reducer_create(
        symmcoll_world_group(world), &param, 1, &args, &made);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_begin(made, 1);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_ready(made, 0, grad);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_finish(made);
    symmcoll_reducer_free(made);
    return status;
}

static symmcoll_status_t use_hook_args(void *given)
{
    struct symmcoll_hook *made = NULL;
    symmcoll_status_t status =
        symmcoll_hook_create(symmcoll_world_group(world), given, &made);

    symmcoll_hook_free(made);
    return status;
}

static symmcoll_status_t use_powersgd_args(void *given)
{
    struct symmcoll_powersgd *made = NULL;
    symmcoll_status_t status =
        symmcoll_powersgd_create(symmcoll_world_group(world), given, &made);

    symmcoll_powersgd_free(made);
    return status;
}

static symmcoll_status_t use_join_args(void *given)
{
    struct symmcoll_join *join;
    symmcoll_status_t status = symmcoll_join_begin(&reducer, 1, given, &join);

    return status == SYMMCOLL_OK ? symmcoll_join_end(join) : status;
}

static symmcoll_status_t use_bucket(void *given)
{
    return symmcoll_reducer_bucket(reducer, 0, given);
}

static symmcoll_status_t use_shard(void *given)
{
    return symmcoll_reducer_shard(sharded, 0, given);
}

static symmcoll_status_t use_reducer_times(void *given)
{
    return symmcoll_reducer_get_times(reducer, given);
}

static symmcoll_status_t use_reducer_stats(void *given)
{
    return symmcoll_reducer_get_stats(reducer, given);
}

static symmcoll_status_t use_tensor(void *given)
{
    struct symmcoll_reducer *made;
    symmcoll_status_t status = symmcoll_reducer_create(
        symmcoll_world_group(world), given, 1, NULL, &made);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_reducer_grad(made, 0, given);
    symmcoll_reducer_free(made);
    return status;
}

static symmcoll_status_t get_nothing(void *user, const char *key,
    double timeout, int *found, void **value, size_t *nbytes)
{
    (void)user;
    (void)key;
    (void)timeout;
    (void)value;
    (void)nbytes;
    *found = 0;
    return SYMMCOLL_OK;
}

static symmcoll_status_t set_nothing(void *user, const char *key,
    const void *value, size_t nbytes, double timeout)
{
    (void)user;
    (void)key;
    (void)value;
    (void)nbytes;
    (void)timeout;
    return SYMMCOLL_OK;
}

static symmcoll_status_t open_nothing(void *user, const char *url,
    double timeout, int *rank, int *world_size, struct symmcoll_store **made)
{
    (void)user;
    (void)url;
    (void)timeout;
    (void)rank;
    (void)world_size;
    (void)made;
    return SYMMCOLL_ERR_UNSUPPORTED;
}

/* Registers a scheme, a different one each time. */
static symmcoll_status_t use_rendezvous_functions(void *given)
{
    static int count;
    char scheme[16];
    symmcoll_status_t status;

    snprintf(scheme, sizeof(scheme), "s%d", count);
    status = symmcoll_rendezvous_register(scheme, given);
    count += status == SYMMCOLL_OK;
    return status;
}

static symmcoll_status_t use_store_functions(void *given)
{
    struct symmcoll_store *made;
    symmcoll_status_t status = symmcoll_store_create_user(given, &made);

    if (status == SYMMCOLL_OK)
        symmcoll_store_close(made);
    return status;
}

/* Needs no server: the scheme is checked first. */
static symmcoll_status_t use_store_tcp_args(void *given)
{
    struct symmcoll_store *made;
    symmcoll_status_t status = symmcoll_store_open_tcp(given, &made);

    return status == SYMMCOLL_ERR_UNSUPPORTED ||
                   strstr(symmcoll_last_error(), "another scheme") != NULL ||
                   strstr(symmcoll_last_error(), "url is NULL") != NULL
               ? SYMMCOLL_OK
               : status;
}

static symmcoll_status_t do_nothing(struct symmcoll_world *ours, void *arg)
{
    (void)ours;
    (void)arg;
    return SYMMCOLL_OK;
}

static symmcoll_status_t use_threads_args(void *given)
{
    return symmcoll_threads_run(1, do_nothing, NULL, given);
}

static symmcoll_status_t use_fake_args(void *given)
{
    struct symmcoll_world *made;
    symmcoll_status_t status = symmcoll_fake_world(given, &made);

    return status == SYMMCOLL_OK ? symmcoll_finalize(made) : status;
}

static symmcoll_status_t use_f_record(void *given)
{
    symmcoll_status_t status = symmcoll_f_record_begin(world, given, 1);
    int count;

    return status == SYMMCOLL_OK ? symmcoll_f_record_end(world, &count)
                                 : status;
}

/* A world of one rank has no peer to send to, which is checked after the
 * arguments. */
static symmcoll_status_t use_pair_op(void *given)
{
    symmcoll_status_t status =
        symmcoll_batch(symmcoll_world_group(world), given, 1, NULL, NULL);

    return status == SYMMCOLL_ERR_INVALID &&
                   strstr(symmcoll_last_error(), "two ranks or more") != NULL
               ? SYMMCOLL_OK
               : status;
}

/* ---- the list ---- */

/* STRUCT(NAME, LEAST, INIT): its sizes, an initialised one, and the function
 * that uses it. */
#define STRUCT(name, least, ...)                             \
    {                                                        \
#name, sizeof(struct symmcoll_##name), (least),      \
            &(struct symmcoll_##name)__VA_ARGS__, use_##name \
    }

struct kind {
    const char *name;
    size_t nbytes;
    size_t least; /* the smallest that is accepted */
    const void *filled;
    symmcoll_status_t (*use)(void *given);
};

/* Uses a struct in nbytes bytes of memory, with `said` as its size. */
static symmcoll_status_t use(
    const struct kind *kind, size_t nbytes, size_t said, unsigned char tail)
{
    unsigned char *given = calloc(1, nbytes);
    symmcoll_status_t status;

    memcpy(given, kind->filled, nbytes < kind->nbytes ? nbytes : kind->nbytes);
    memcpy(given, &said, nbytes < sizeof(said) ? nbytes : sizeof(said));
    if (nbytes > kind->nbytes)
        given[nbytes - 1] = tail;
    status = kind->use(given);
    free(given);
    return status;
}

static void check(const struct kind *kind)
{
    static const size_t absurd[] = {0, 1, sizeof(size_t) - 1, 1 << 20,
        (size_t)1 << 40, SIZE_MAX - 7, SIZE_MAX};
    size_t nbytes = kind->least;
    int refused = 0, explained = 0, n = sizeof(absurd) / sizeof(*absurd);

    while (nbytes <= kind->nbytes && use(kind, nbytes, nbytes, 0) == 0)
        nbytes += sizeof(size_t);
    ok(nbytes > kind->nbytes,
        "%s: every size from the oldest header's on is accepted", kind->name);
    if (nbytes <= kind->nbytes)
        diag(
            "size %zu of %zu: %s", nbytes, kind->nbytes, symmcoll_last_error());
    ok(use(kind, kind->nbytes + MORE, kind->nbytes + MORE, 0) == SYMMCOLL_OK,
        "%s: a newer one is accepted where what it has more is zero",
        kind->name);
    ok(use(kind, kind->nbytes + MORE, kind->nbytes + MORE, 7) ==
                SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "expected 0 in") != NULL &&
            strstr(symmcoll_last_error(), "found 7 in byte") != NULL,
        "%s: and refused where it is not, with the byte", kind->name);
    for (int i = 0; i < n; i++) {
        refused +=
            use(kind, kind->nbytes, absurd[i], 0) == SYMMCOLL_ERR_INVALID;
        explained += strstr(symmcoll_last_error(), "of size") != NULL &&
                     strstr(symmcoll_last_error(), "_INIT") != NULL;
    }
    refused += use(kind, kind->nbytes, kind->nbytes - 1, 0) ==
               SYMMCOLL_ERR_INVALID; /* half a member */
    ok(refused == n + 1 && explained == n,
        "%s: other sizes are refused with the macro's name", kind->name);
}

int main(void)
{
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_FLAT(weight, 6, SYMMCOLL_FLOAT32);
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_reducer_args reducer_args = SYMMCOLL_REDUCER_ARGS_INIT;
    const struct kind kinds[] = {
        STRUCT(call, sizeof(size_t), SYMMCOLL_CALL_INIT),
        STRUCT(connectivity, sizeof(struct symmcoll_connectivity),
            SYMMCOLL_CONNECTIVITY_INIT),
        STRUCT(error_info, sizeof(size_t), SYMMCOLL_ERROR_INFO_INIT),
        STRUCT(group_args, sizeof(size_t), SYMMCOLL_GROUP_ARGS_INIT),
        STRUCT(group_info, sizeof(size_t), SYMMCOLL_GROUP_INFO_INIT),
        STRUCT(designator, offsetof(struct symmcoll_designator, group),
            {.size = sizeof(struct symmcoll_designator), .lists = &lists}),
        STRUCT(mesh, sizeof(struct symmcoll_mesh),
            {.size = sizeof(struct symmcoll_mesh),
                .ranks = one_rank,
                .shape = one_size,
                .ndim = 1}),
        STRUCT(shrink_args, sizeof(size_t), SYMMCOLL_SHRINK_ARGS_INIT),
        STRUCT(symm_args, sizeof(size_t), SYMMCOLL_SYMM_ARGS_INIT),
        STRUCT(symm_info, sizeof(size_t), SYMMCOLL_SYMM_INFO_INIT),
        STRUCT(symm_pool_info, sizeof(size_t), SYMMCOLL_SYMM_POOL_INFO_INIT),
        STRUCT(init_args, sizeof(size_t), SYMMCOLL_INIT_ARGS_INIT),
        STRUCT(reducer_args, sizeof(size_t), SYMMCOLL_REDUCER_ARGS_INIT),
        STRUCT(join_args, sizeof(size_t), SYMMCOLL_JOIN_ARGS_INIT),
        STRUCT(bucket, sizeof(size_t), SYMMCOLL_BUCKET_INIT),
        STRUCT(hook_wrapped, sizeof(struct symmcoll_hook_wrapped),
            {.size = sizeof(struct symmcoll_hook_wrapped),
                .hook = symmcoll_hook_all_reduce}),
        STRUCT(hook_args, offsetof(struct symmcoll_hook_args, start),
            {.size = sizeof(struct symmcoll_hook_args), .name = "noop"}),
        STRUCT(powersgd_args, sizeof(size_t), SYMMCOLL_POWERSGD_ARGS_INIT),
        STRUCT(shard, sizeof(size_t), SYMMCOLL_SHARD_INIT),
        STRUCT(reducer_times, sizeof(size_t), SYMMCOLL_REDUCER_TIMES_INIT),
        STRUCT(reducer_stats, sizeof(size_t), SYMMCOLL_REDUCER_STATS_INIT),
        STRUCT(rendezvous_functions,
            sizeof(struct symmcoll_rendezvous_functions),
            {.size = sizeof(struct symmcoll_rendezvous_functions),
                .open = open_nothing}),
        STRUCT(store_functions,
            offsetof(struct symmcoll_store_functions, compare_set),
            {.size = sizeof(struct symmcoll_store_functions),
                .get = get_nothing,
                .set = set_nothing}),
        STRUCT(store_tcp_args, sizeof(size_t),
            {.size = sizeof(struct symmcoll_store_tcp_args), .url = "x://"}),
        STRUCT(fake_args, sizeof(size_t), SYMMCOLL_FAKE_ARGS_INIT),
        STRUCT(f_record, sizeof(size_t), SYMMCOLL_F_RECORD_INIT),
        STRUCT(threads_args, sizeof(size_t), SYMMCOLL_THREADS_ARGS_INIT),
        STRUCT(pair_op, sizeof(struct symmcoll_pair_op), SYMMCOLL_PAIR_OP_INIT),
        STRUCT(symm_exchange, sizeof(struct symmcoll_symm_exchange),
            {.size = sizeof(struct symmcoll_symm_exchange),
                .in_offset = 1024,
                .out_offset = 2048,
                .in_rows = 4,
                .out_rows = 4,
                .row = 1,
                .out_splits_offset = 64,
                .experts = 1}),
        STRUCT(scaled_matrix, sizeof(struct symmcoll_scaled_matrix),
            {.size = sizeof(struct symmcoll_scaled_matrix),
                .b = &one_eighth,
                .b_scale = &one_scale,
                .out_dtype = SYMMCOLL_FLOAT32}),
        STRUCT(tensor, sizeof(struct symmcoll_tensor),
            SYMMCOLL_TENSOR_FLAT(weight, 6, SYMMCOLL_FLOAT32)),
    };
    int n = sizeof(kinds) / sizeof(*kinds);

    plan(4 * n);
    ranks_environment();
    ranks_environment_rank(0, 1);
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK)
        return 1;
    args.world_size = 1;
    args.store = store;
    if (symmcoll_init(&args, &world) != SYMMCOLL_OK)
        return 1;
    if (symmcoll_reducer_create(symmcoll_world_group(world), &param, 1, NULL,
            &reducer) != SYMMCOLL_OK)
        return 1;
    reducer_args.shard = 1;
    if (symmcoll_reducer_create(symmcoll_world_group(world), &param, 1,
            &reducer_args, &sharded) != SYMMCOLL_OK)
        return 1;
    for (int i = 0; i < n; i++)
        check(&kinds[i]);
    symmcoll_reducer_free(reducer);
    symmcoll_reducer_free(sharded);
    if (symmcoll_finalize(world) != SYMMCOLL_OK)
        return 1;
    symmcoll_store_close(store);
    return done_testing();
}
