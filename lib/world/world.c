/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing a world: settings, rendezvous, block, peers, recorder,
 * monitor, in this order, and in reverse.
 */
#include "world/world.h"

#include "store/hash.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- settings ---- */

struct warnings {
    char *text;
    size_t nbytes;
};

/* Keeps a warning: warnings are raised before the log level is known. */
static void keep_warning(const char *line, void *arg)
{
    struct warnings *kept = arg;
    size_t more = strlen(line) + 1;
    char *grown = realloc(kept->text, kept->nbytes + more);

    if (grown == NULL)
        return;
    memcpy(grown + kept->nbytes, line, more);
    kept->text = grown;
    kept->nbytes += more;
}

static symmcoll_status_t load_settings(struct symmcoll_world *world)
{
    struct warnings kept = {NULL, 0};
    symmcoll_status_t status =
        symc_config_load(&world->config, keep_warning, &kept);

    world->log = (struct symc_log){.level = SYMC_LOG_WARN, .rank = -1};
    if (status == SYMMCOLL_OK)
        world->log.level = (enum symc_log_level)world->config->log_level;
    for (size_t at = 0; at < kept.nbytes; at += strlen(kept.text + at) + 1)
        symc_logf(&world->log, SYMC_LOG_WARN, "%s", kept.text + at);
    free(kept.text);
    return status;
}

/* Applies the call's name and timeout, which override the settings. */
static symmcoll_status_t apply_args(
    struct symmcoll_world *world, const struct symmcoll_init_args *args)
{
    const char *name = args->name != NULL ? args->name : SYMC_WORLD_DEFAULT;
    symmcoll_status_t status;

    if (strlen(name) >= sizeof(world->name) || name[0] == '\0')
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a name of 1 to %zu bytes, found '%s'",
            sizeof(world->name) - 1, name);
    strcpy(world->name, name);
    status = symc_timeout_read("init", args->timeout,
        world->config->timeouts_init, &world->config->timeouts_init);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_timeout_read("init", args->timeout,
        world->config->timeouts_collective,
        &world->config->timeouts_collective);
}

/* ---- the block and the peers ---- */

/* Takes staging for a group from the budget: what is left of it, but at least
 * what the group needs, so that no group fails for lack of staging. */
static size_t take_staging(struct symmcoll_world *world,
    const struct symc_backend_layout *layout, size_t most)
{
    int64_t left = atomic_load(&world->staging_left);
    size_t nbytes;

    do {
        nbytes = left > 0 ? (size_t)left / SYMC_PAGE * SYMC_PAGE : 0;
        if (most > 0 && nbytes > most)
            nbytes = most / SYMC_PAGE * SYMC_PAGE;
        if (nbytes > layout->staging)
            nbytes = layout->staging;
        if (nbytes < layout->staging_least)
            nbytes = layout->staging_least;
    } while (!atomic_compare_exchange_weak(
        &world->staging_left, &left, left - (int64_t)nbytes));
    return nbytes;
}

struct symc_group_part symc_world_take_part(
    struct symmcoll_world *world, int size, size_t most)
{
    const struct symc_backend_layout none = {0};
    const struct symc_backend_layout layout =
        world->fake != NULL
            ? none
            : symc_registry_layout(&world->registry, world->config, size);
    struct symc_group_part part = {
        .staging = symc_round_to_page(SYMC_GROUP_CHANNEL + layout.channel)};

    part.nbytes = part.staging + take_staging(world, &layout, most);
    return part;
}

void symc_world_return_staging(struct symmcoll_world *world, size_t nbytes)
{
    atomic_fetch_add(&world->staging_left, (int64_t)nbytes);
}

/* Offers the part of the group of all ranks in the block's header, so that
 * nothing else needs to be exchanged. */
static symmcoll_status_t offer_first(struct symmcoll_world *world)
{
    const struct symc_group_part *part = &world->first;
    symmcoll_status_t status = symc_segments_open(
        &world->segments, world->rank, world->size, &world->own, world->fd);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_segment_offer(
        &world->segments, part->nbytes, part->staging, &world->own.first);
    if (status != SYMMCOLL_OK)
        symc_segments_close(&world->segments);
    world->own.block->first = world->own.first;
    return status;
}

static symmcoll_status_t make_block(struct symmcoll_world *world, size_t *least)
{
    size_t trace = symc_trace_nbytes(world->config->trace_buffer_size);
    struct symc_trace_ring *ring;
    symmcoll_status_t status;

    atomic_init(
        &world->staging_left, world->config->host_staging < INT64_MAX / 2
                                  ? (int64_t)world->config->host_staging
                                  : INT64_MAX / 2);
    world->first = symc_world_take_part(world, world->size, 0);
    *least = symc_block_nbytes(trace) + symc_round_to_page(world->first.nbytes);
    status = symc_block_create(world->name, world->rank, world->size, trace,
        symc_trace_backed(world->config->trace_buffer_size),
        symc_arena_choose_nbytes(*least, world->size), &world->own, &world->fd);
    if (status != SYMMCOLL_OK)
        return status;
    status = offer_first(world);
    if (status != SYMMCOLL_OK)
        goto close_block;
    snprintf(world->own.block->node, sizeof(world->own.block->node), "%s",
        world->config->host_node);
    ring = symc_block_trace(&world->own);
    symc_trace_init(
        ring, world->config->trace_buffer_size, world->rank, world->size);
    status =
        symc_proposals_open(&world->proposals, world->own.block, world->size);
    if (status != SYMMCOLL_OK)
        goto close_segments;
    status = symc_trace_open(
        ring, world->fd, world->own.layout.trace_offset, &world->trace);
    if (status == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    symc_proposals_close(&world->proposals);

close_segments:
    symc_segments_close(&world->segments);
close_block:
    symc_block_unmap(&world->own);
    close(world->fd);
    return status;
}

static void close_launcher(struct symmcoll_world *world)
{
    if (world->launcher >= 0)
        close(world->launcher);
}

/* Returns whether a rank thread has stopped its store, which it does when it
 * fails. */
static bool has_ended(void *arg)
{
    const struct symmcoll_world *world = arg;

    return symc_store_is_stopped(world->rendezvous.store);
}

/* Joins the other ranks.  lent (out): see struct symc_bootstrap_args. */
static symmcoll_status_t join_ranks(
    struct symmcoll_world *world, size_t least, int64_t deadline_ns, bool *lent)
{
    struct symc_progress progress;
    struct symc_bootstrap_args args = {
        .server = world->rendezvous.server[0] != '\0' ? world->rendezvous.server
                                                      : NULL,
        .name = world->rendezvous.name,
        .rank = world->rank,
        .size = world->size,
        .deadline_ns = deadline_ns,
        .progress = &progress,
        .lent = lent,
        .ended = has_ended,
        .arg = world};
    struct symc_bootstrap_own own = {
        .view = world->own, .fd = world->fd, .least = least};
    symmcoll_status_t status;

    if (args.server != NULL)
        args.server_pidfd = &world->launcher;

    if ((world->size == 1 || world->fake != NULL) && args.server == NULL) {
        symc_bootstrap_inbox_open_none(&world->inbox);
        for (int r = 0; r < world->size; r++)
            world->peers[r] = (struct symc_peer){.pidfd = -1, .inbox = -1};
        world->peers[world->rank] = (struct symc_peer){.view = world->own,
            .pid = getpid(),
            .pidfd = -1,
            .mine = true,
            .inbox = -1};
        return SYMMCOLL_OK;
    }
    status = symc_bootstrap_inbox_open(&world->inbox, &own.inbox);
    if (status != SYMMCOLL_OK)
        return status;
    symc_progress_begin(&progress, &world->log, world->config->log_progress);
    status = symc_bootstrap_join(&args, &own, world->peers, &world->threads);
    if (status != SYMMCOLL_OK)
        symc_bootstrap_inbox_close(&world->inbox);
    return status;
}

/* Makes the rendezvous of a fake world. */
static symmcoll_status_t make_fake_rendezvous(
    struct symmcoll_world *world, const struct symmcoll_init_args *args)
{
    world->rendezvous = (struct symc_rendezvous){.rank = args->rank,
        .size = args->world_size,
        .local_rank = -1,
        .launcher = "arguments",
        .owns_store = true};
    return symmcoll_store_create_fake(&world->rendezvous.store);
}

/* Does everything up to the peers' blocks.  On success symc_world_close()
 * releases it. */
static symmcoll_status_t join_world(
    struct symmcoll_world *world, const struct symmcoll_init_args *args)
{
    const struct symc_config *config = world->config;
    int64_t began = symc_now_ns();
    int64_t deadline = symc_deadline_ns(began, config->timeouts_init);
    symmcoll_status_t status =
        world->fake != NULL
            ? make_fake_rendezvous(world, args)
            : symc_rendezvous_open(args, config, deadline, &world->rendezvous);
    struct symc_error error;
    bool lent = false;
    size_t least;

    if (status != SYMMCOLL_OK)
        return status;
    (void)symc_rendezvous_job(
        &world->rendezvous, world->job, sizeof(world->job));
    world->rank = world->rendezvous.rank;
    world->size = world->rendezvous.size;
    world->log.rank = world->rank;
    symc_logf(&world->log, SYMC_LOG_DEBUG,
        "rendezvous '%s' of %d ranks, served by %s", world->rendezvous.name,
        world->size,
        world->rendezvous.server[0] != '\0' ? "the launcher" : "rank 0");
    world->peers = symc_alloc((size_t)world->size, sizeof(*world->peers));
    status = world->peers == NULL ? SYMMCOLL_ERR_NO_MEMORY
                                  : make_block(world, &least);
    if (status != SYMMCOLL_OK)
        goto leave;
    status = join_ranks(world, least, deadline, &lent);
    if (status != SYMMCOLL_OK)
        goto leave;
    symc_segments_connect(&world->segments, world->peers);
    symc_logf(&world->log, SYMC_LOG_DEBUG,
        "joined %d ranks, %s, %.3g ms after the settings", world->size,
        world->threads ? "threads" : "processes",
        (double)(symc_now_ns() - began) / 1e6);
    symc_world_watch_launcher(world);
    return SYMMCOLL_OK;

leave:
    if (world->own.block != NULL) {
        symc_liveness_give_up(&world->own.block->liveness);
        symc_segments_close(&world->segments);
        symc_trace_close(&world->trace);
        symc_proposals_close(&world->proposals);
        if (!lent)
            symc_block_unmap(&world->own);
        close(world->fd);
    }
    free(world->peers);
    close_launcher(world);
    symc_error_keep(&error, status); /* closing may fail as well */
    symc_rendezvous_close(&world->rendezvous);
    return symc_error_return(&error);
}

/* Formats a quoted host.node, or "a machine without host.node". */
static const char *format_node(
    const struct symc_peer *peer, char *buffer, size_t nbytes)
{
    char name[SYMC_NODE_MAX];

    memcpy(name, peer->view.block->node, sizeof(name));
    name[sizeof(name) - 1] = '\0';
    symc_make_printable(name);
    if (name[0] == '\0')
        snprintf(buffer, nbytes, "a machine without host.node");
    else
        snprintf(buffer, nbytes, "\"%.80s\"", name);
    return buffer;
}

/* Checks that all ranks have the same host.node. */
static symmcoll_status_t check_nodes(const struct symmcoll_world *world)
{
    char mine[96], other[96];

    format_node(&world->peers[world->rank], mine, sizeof(mine));
    for (int r = 0; r < world->size; r++) {
        if (world->peers[r].view.block == NULL)
            continue; /* the backend decides whether it serves other machines */
        if (strcmp(format_node(&world->peers[r], other, sizeof(other)), mine) !=
            0)
            return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
                "init: expected all ranks on one machine, found rank %d on %s "
                "and rank %d on %s: several machines are not supported in this "
                "release",
                r, other, world->rank, mine);
    }
    return SYMMCOLL_OK;
}

/* Returns whether there are more ranks than processors allowed to all of them
 * together.  A rank bound to one processor sees only that one. */
static bool is_oversubscribed(const struct symmcoll_world *world)
{
    cpu_set_t all, one;

    CPU_ZERO(&all);
    for (int r = 0; r < world->size; r++) {
        pid_t pid = r == world->rank ? getpid() : world->peers[r].pid;

        /* A rank in another PID namespace may have no PID here. */
        if (pid <= 0)
            return world->size > sysconf(_SC_NPROCESSORS_ONLN);
        if (sched_getaffinity(pid, sizeof(one), &one) == 0)
            CPU_OR(&all, &all, &one);
        else if (errno != ESRCH) /* a rank that has ended needs none */
            return world->size > sysconf(_SC_NPROCESSORS_ONLN);
    }
    return world->size > CPU_COUNT(&all);
}

static symmcoll_status_t open_pairs(struct symmcoll_world *world)
{
    struct symc_pair_setup setup = {.rank = world->rank,
        .size = world->size,
        .peers = world->peers,
        .segments = &world->segments,
        .block = world->own.block,
        .waiting = &world->origin->waiting,
        .stream_min = world->config->host_stream_min};

    return symc_pairs_open(&setup, &world->pairs);
}

static void close_pairs(struct symmcoll_world *world)
{
    char text[SYMC_DETAIL_MAX];

    symc_pairs_close(world->pairs, world->config->timeouts_finalize, text);
    if (text[0] != '\0')
        symc_logf(&world->log, SYMC_LOG_WARN, "finalize: %s", text);
}

symmcoll_status_t symc_world_open(const struct symmcoll_init_args *args,
    struct symc_fake *fake, struct symc_origin *origin,
    struct symmcoll_world **world)
{
    struct symmcoll_world *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL) {
        free(fake);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    made->fake = fake;
    made->origin = origin;
    made->alive = origin->alive;
    made->launcher = -1;
    status = load_settings(made);
    if (status != SYMMCOLL_OK)
        goto free_world;
    status = symc_registry_open(&made->registry, made->config, &made->log);
    if (status != SYMMCOLL_OK)
        goto free_config;
    made->inspects = made->registry.finds ||
                     made->config->errors_nan_check != SYMC_NAN_CHECK_OFF;
    status = apply_args(made, args);
    if (status != SYMMCOLL_OK)
        goto free_config;
    origin->blocking_wait = made->config->errors_blocking_wait;
    status = join_world(made, args);
    if (status != SYMMCOLL_OK)
        goto free_config;
    symc_waiting_init(&origin->waiting, is_oversubscribed(made),
        made->config->host_spin, made->config->host_polls,
        made->config->host_yield);
    symc_doorbell_init(&origin->waiting, symc_block_doorbell(made->own.block));
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->claimed, NULL);
    status = check_nodes(made);
    if (status != SYMMCOLL_OK)
        goto leave;
    status = open_pairs(made);
    if (status != SYMMCOLL_OK)
        goto leave;
    status = symc_monitor_start(made);
    if (status != SYMMCOLL_OK)
        goto leave;
    *world = made;
    return SYMMCOLL_OK;

leave:
    symc_liveness_give_up(&made->own.block->liveness);
    close_pairs(made);
    pthread_mutex_destroy(&made->lock);
    symc_bootstrap_inbox_close(&made->inbox);
    symc_segments_close(&made->segments);
    symc_bootstrap_leave(made->peers, made->size);
    symc_trace_close(&made->trace);
    symc_proposals_close(&made->proposals);
    close(made->fd);
    close_launcher(made);
    free(made->peers);
    symc_rendezvous_close(&made->rendezvous);
free_config:
    symc_config_free(made->config);
free_world:
    free(made->fake);
    free(made);
    return status;
}

void symc_world_close(struct symmcoll_world *world, bool orderly)
{
    symc_pairs_stop(world->pairs);
    symc_monitor_stop(world, orderly);
    close_pairs(world);
    pthread_cond_destroy(&world->claimed);
    pthread_mutex_destroy(&world->lock);
    symc_bootstrap_inbox_close(&world->inbox);
    symc_segments_close(&world->segments);
    symc_bootstrap_leave(world->peers, world->size);
    symc_trace_close(&world->trace);
    symc_proposals_close(&world->proposals);
    close(world->fd);
    close_launcher(world);
    free(world->peers);
    free(world->premuls);
    symc_rendezvous_close(&world->rendezvous);
    symc_config_free(world->config);
    free(world->fake);
    free(world);
}

/* ---- queries ---- */

int symmcoll_world_rank(const struct symmcoll_world *world)
{
    return world->rank;
}

int symmcoll_world_size(const struct symmcoll_world *world)
{
    return world->size;
}

struct symmcoll_store *symmcoll_world_store(const struct symmcoll_world *world)
{
    return world->rendezvous.store;
}

struct symmcoll_group *symmcoll_world_group(struct symmcoll_world *world)
{
    return world == NULL ? NULL : world->all;
}
