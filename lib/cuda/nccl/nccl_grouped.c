/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A probe for whether a thread is in a group of calls by the program, between
 * ncclGroupStart() and ncclGroupEnd(): there NCCL's calls return success for work that
 * is done at the end of the group.
 *
 * NCCL has no function for this.  But ncclGroupSimulateEnd() reads its argument only at
 * the end of the outermost group: with an invalid argument it returns an error there,
 * and success in an inner group; neither changes anything.  NCCL promises neither
 * result, so both are tried first on a thread that certainly is in no group.  Before
 * 2.27 the error would end work in progress of the thread.
 *
 * The probe's error overwrites the text of NCCL's latest error, of which a process has
 * one; the earlier text is therefore kept here.
 */
#include "cuda/nccl/nccl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SINCE SYMC_NCCL_CODE(2, 27, 0)
#define QUESTION "ncclSimInfo_t" /* the beginning of the probe's error text */

/* ---- texts of errors ---- */

static struct {
    pthread_mutex_t lock;
    char text[SYMC_NCCL_TEXT]; /* of the latest error before a probe */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_of_error(const char *text)
{
    return text != NULL && strncmp(text, QUESTION, strlen(QUESTION)) != 0;
}

static void keep_error(const struct symc_nccl *nccl)
{
    const char *text = nccl->get_last_error(NULL);

    if (!is_of_error(text))
        return;
    pthread_mutex_lock(&kept.lock);
    (void)snprintf(kept.text, sizeof(kept.text), "%s", text);
    pthread_mutex_unlock(&kept.lock);
}

const char *symc_nccl_last_error(
    const struct symc_nccl *nccl, struct symc_nccl_comm *comm, char *buffer)
{
    const char *text = nccl->get_last_error(comm);

    pthread_mutex_lock(&kept.lock);
    (void)snprintf(
        buffer, SYMC_NCCL_TEXT, "%s", is_of_error(text) ? text : kept.text);
    pthread_mutex_unlock(&kept.lock);
    return buffer;
}

/* ---- the probe ---- */

static enum symc_nccl_result probe(const struct symc_nccl *nccl)
{
    struct symc_nccl_simulated none = {.size = sizeof(none)}; /* no magic */

    keep_error(nccl);
    return nccl->group_start() == SYMC_NCCL_SUCCESS
               ? nccl->group_simulate_end(&none)
               : SYMC_NCCL_INTERNAL_ERROR;
}

static void *try_both(void *arg)
{
    const struct symc_nccl *nccl = arg;
    enum symc_nccl_result inner;

    if (probe(nccl) != SYMC_NCCL_INVALID_ARGUMENT ||
        nccl->group_start() != SYMC_NCCL_SUCCESS)
        return NULL;
    inner = probe(nccl);
    return nccl->group_end() == SYMC_NCCL_SUCCESS && inner == SYMC_NCCL_SUCCESS
               ? arg
               : NULL;
}

static bool is_tried(const struct symc_nccl *nccl)
{
    struct symc_nccl copy = *nccl;
    sigset_t all, before;
    void *found = NULL;
    pthread_t thread;
    int error;

    if (nccl->version < SINCE || nccl->group_simulate_end == NULL)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, try_both, &copy);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return false;
    pthread_join(thread, &found);
    return found != NULL;
}

/* Tries the probe once for each library: the end of an empty group leaks memory
 * in NCCL. */
bool symc_nccl_detects_groups(const struct symc_nccl *nccl)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct symc_nccl *latest;
    static bool latest_detects;
    bool detects;

    pthread_mutex_lock(&lock);
    if (latest != nccl)
        latest_detects = is_tried(nccl);
    latest = nccl;
    detects = latest_detects;
    pthread_mutex_unlock(&lock);
    return detects;
}

bool symc_nccl_is_grouped(const struct symc_nccl *nccl)
{
    return probe(nccl) == SYMC_NCCL_SUCCESS;
}
