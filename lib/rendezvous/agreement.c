/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement on a rendezvous through a store: each rank claims its number, and
 * rank 0 publishes a random name with its node.
 */
#include "rendezvous/agreement.h"

#include "base/process.h"
#include "base/progress.h"
#include "rendezvous/launcher.h"
#include "store/hash.h"
#include "store/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NODE_MAX 256

#define SHARED_NAME "process" /* of all ranks of a store in memory */

/* Names this process.  The ranks of a store in memory are threads of one process, so
 * that no name has to be read from /proc, which may not be there. */
static symmcoll_status_t name_process(
    const struct symc_rendezvous *rendezvous, char name[SYMC_PROCESS_NAME])
{
    if (!symc_store_is_hash(rendezvous->store))
        return symc_process_name(name);
    snprintf(name, SYMC_PROCESS_NAME, "%s", SHARED_NAME);
    return SYMMCOLL_OK;
}

/* Names this machine, likewise. */
static symmcoll_status_t name_node(const struct symc_rendezvous *rendezvous,
    const struct symc_config *config, char name[NODE_MAX])
{
    bool named = config != NULL && config->host_node != NULL &&
                 config->host_node[0] != '\0';

    if (named || !symc_store_is_hash(rendezvous->store))
        return symc_rendezvous_node(config, name, NODE_MAX);
    snprintf(name, NODE_MAX, "%s", SHARED_NAME);
    return SYMMCOLL_OK;
}

/*
 * Claims the rank for this process, unless a process that still runs has
 * claimed it: two processes of one rank would both wait forever for the other
 * ranks.
 */
static symmcoll_status_t claim_rank(
    struct symc_rendezvous *out, const char *world)
{
    char own[SYMC_PROCESS_NAME];
    char key[SYMC_RENDEZVOUS_CLAIM];
    void *holder = NULL;
    size_t nbytes = 0;
    enum symmcoll_store_outcome outcome = SYMMCOLL_STORE_DIFFERS;
    symmcoll_status_t status = name_process(out, own);

    snprintf(key, sizeof key, "symmcoll/%s/rank/%d", world, out->rank);
    while (status == SYMMCOLL_OK && outcome == SYMMCOLL_STORE_DIFFERS) {
        char *expected = holder;
        enum symc_process_state state = SYMC_PROCESS_GONE;
        pid_t pid = 0;

        holder = NULL;
        if (expected != NULL && strcmp(expected, own) != 0)
            state = symc_process_find(expected, &pid);
        if (state == SYMC_PROCESS_UNREAD)
            status = SYMMCOLL_ERR_SYSTEM;
        else if (state == SYMC_PROCESS_RUNS)
            status = symc_fail(SYMMCOLL_ERR_INVALID,
                "init: rank %d of world \"%s\": expected it to be free, found "
                "process %ld there",
                out->rank, world, (long)pid);
        else
            status = symmcoll_store_compare_set(out->store, key, expected,
                nbytes, own, strlen(own), &outcome, &holder, &nbytes);
        free(expected);
        /* The holder left between the two reads: start again. */
        if (status == SYMMCOLL_OK && outcome == SYMMCOLL_STORE_ABSENT) {
            nbytes = 0;
            outcome = SYMMCOLL_STORE_DIFFERS;
            free(holder);
            holder = NULL;
        }
    }
    free(holder);
    if (status == SYMMCOLL_OK)
        snprintf(out->claim, sizeof out->claim, "%s", key);
    return status;
}

static symmcoll_status_t make_random_rendezvous(struct symc_rendezvous *out)
{
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "init: random name of the rendezvous");
    snprintf(out->name, sizeof out->name, "symmcoll-%016" PRIx64 "%016" PRIx64,
        random[0], random[1]);
    return SYMMCOLL_OK;
}

/* Publishes the rendezvous of rank 0: lines with size, name, server and
 * node. */
static symmcoll_status_t publish_rendezvous(
    struct symc_rendezvous *out, const char *key, const char *node)
{
    char text[2 * SYMC_RENDEZVOUS_NAME + NODE_MAX + 24];
    symmcoll_status_t status = make_random_rendezvous(out);
    int length;

    if (status != SYMMCOLL_OK)
        return status;
    length = snprintf(text, sizeof text, "%d\n%s\n%s\n%s", out->size, out->name,
        out->server, node);
    return symmcoll_store_set(out->store, key, text, (size_t)length);
}

/* Splits the next line off; NULL: no more. */
static char *take_line(char **text)
{
    return *text != NULL ? strsep(text, "\n") : NULL;
}

static symmcoll_status_t read_rendezvous(
    struct symc_rendezvous *out, char *text, const char *node)
{
    const char *size = take_line(&text);
    const char *rendezvous = take_line(&text);
    const char *server = take_line(&text);
    const char *other = text;
    int number;

    if (other == NULL ||
        !symc_rendezvous_number_parse(size, INT_MAX, &number) ||
        strlen(rendezvous) >= sizeof out->name || rendezvous[0] == '\0' ||
        strlen(server) >= sizeof out->server)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected rank 0's rendezvous in the store, found something "
            "else");
    if (number != out->size)
        return symc_fail(SYMMCOLL_ERR_MISMATCH,
            "init: world_size differs: rank 0 passed %d, rank %d passed %d",
            number, out->rank, out->size);
    if (strcmp(other, node) != 0)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "init: expected all ranks on one machine, found rank 0 on \"%s\" "
            "and rank %d on \"%s\": several machines are not supported in this "
            "release",
            other, out->rank, node);
    snprintf(out->name, sizeof out->name, "%s", rendezvous);
    snprintf(out->server, sizeof out->server, "%s", server);
    return SYMMCOLL_OK;
}

/* Waits until rank 0 publishes the rendezvous; logs the wait from time to
 * time. */
static symmcoll_status_t await_rendezvous(const struct symc_rendezvous *out,
    const struct symc_config *config, const char *key, int64_t deadline_ns,
    struct symc_bytes *text, bool *absent)
{
    const struct symc_log log = {
        .level = config != NULL ? (enum symc_log_level)config->log_level
                                : SYMC_LOG_OFF,
        .rank = out->rank};
    struct symc_progress progress;

    symc_progress_begin(
        &progress, &log, config != NULL ? config->log_progress : SYMC_NEVER);
    for (;;) {
        int64_t until =
            progress.next_ns < deadline_ns ? progress.next_ns : deadline_ns;
        symmcoll_status_t status =
            symc_store_get_until(out->store, key, until, text, absent);

        if (status != SYMMCOLL_ERR_TIMEOUT || until == deadline_ns)
            return status;
        if (symc_progress_is_due(&progress))
            symc_progress_log(
                &progress, *absent ? "rank 0 has not stored its rendezvous yet"
                                   : symmcoll_last_error());
    }
}

/* Each rank counts its worlds of this name, so that a later one in the same
 * store does not read the rendezvous of an earlier one. */
symmcoll_status_t symc_rendezvous_agree(struct symc_rendezvous *out,
    const char *world, const struct symc_config *config, int64_t deadline_ns)
{
    char key[SYMC_RENDEZVOUS_CLAIM];
    char node[NODE_MAX];
    struct symc_bytes text = {NULL, 0};
    int64_t generation = 0;
    bool absent = false;
    symmcoll_status_t status = name_node(out, config, node);

    if (status != SYMMCOLL_OK)
        return status;
    status = claim_rank(out, world);
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(key, sizeof key, "symmcoll/%s/join/%d", world, out->rank);
    status = symmcoll_store_add(out->store, key, 1, &generation);
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(key, sizeof key, "symmcoll/%s/%" PRId64 "/rendezvous", world,
        generation);
    if (out->rank == 0)
        return publish_rendezvous(out, key, node);
    status = await_rendezvous(out, config, key, deadline_ns, &text, &absent);
    if (absent)
        return symc_fail(status,
            "init: timeout: rank %d found no rendezvous of rank 0 in the store: "
            "number %" PRId64 " of world \"%s\"",
            out->rank, generation, world);
    if (status != SYMMCOLL_OK)
        return status;
    status = read_rendezvous(out, text.data, node);
    free(text.data);
    return status;
}

void symc_rendezvous_release(const struct symc_rendezvous *rendezvous)
{
    static const char free_text[] = "free";
    char own[SYMC_PROCESS_NAME];

    /* If this fails, the next claim finds that this process is dead. */
    if (name_process(rendezvous, own) == SYMMCOLL_OK &&
        symmcoll_store_compare_set(rendezvous->store, rendezvous->claim, own,
            strlen(own), free_text, strlen(free_text), NULL, NULL,
            NULL) != SYMMCOLL_OK)
        return;
}
