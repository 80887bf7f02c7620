/* SPDX-License-Identifier: BSD-3-Clause */
/* Small checks that the tests of stores share. */
#ifndef T_STORE_HELPERS_H
#define T_STORE_HELPERS_H

#include <symmcoll.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Checks that a call failed with a status and with a text in its detail. */
static inline int failed_with(
    symmcoll_status_t status, symmcoll_status_t expected, const char *text)
{
    return status == expected && strstr(symmcoll_last_error(), text) != NULL;
}

/* Checks that a call with a short timeout fails because the store lacks
 * something. On a busy machine a server may not answer in that time; the call
 * is then repeated. */
#define TIMES_OUT(call, text)                                            \
    failed_with(__extension__({                                          \
        symmcoll_status_t status_;                                       \
                                                                         \
        do                                                               \
            status_ = (call);                                            \
        while (status_ == SYMMCOLL_ERR_TIMEOUT &&                        \
               strstr(symmcoll_last_error(), "no answer from") != NULL); \
        status_;                                                         \
    }),                                                                  \
        SYMMCOLL_ERR_TIMEOUT, text)

static inline int set_text(
    struct symmcoll_store *store, const char *key, const char *text)
{
    return symmcoll_store_set(store, key, text, strlen(text)) == SYMMCOLL_OK;
}

/* Returns whether a key exists and holds a text. */
static inline int holds(
    struct symmcoll_store *store, const char *key, const char *text)
{
    void *value = NULL;
    size_t nbytes = 0;
    int exist = 0;
    int same;

    if (symmcoll_store_check(store, &key, 1, &exist) != SYMMCOLL_OK || !exist ||
        symmcoll_store_get(store, key, &value, &nbytes) != SYMMCOLL_OK)
        return 0;
    same = nbytes == strlen(text) && strcmp(value, text) == 0;
    free(value);
    return same;
}

static inline int is_absent(struct symmcoll_store *store, const char *key)
{
    int exist = 1;

    return symmcoll_store_check(store, &key, 1, &exist) == SYMMCOLL_OK &&
           !exist;
}

/* Returns a path in the scratch folder at which no file exists. */
static inline const char *scratch_path(void)
{
    static char path[4096];
    static unsigned calls;
    const char *build = getenv("T_BUILDDIR");

    snprintf(path, sizeof path, "%s%s/store-%ld-%u",
        build != NULL ? build : "/tmp", build != NULL ? "/t/scratch" : "",
        (long)getpid(), calls++);
    unlink(path);
    return path;
}

/* Runs a body in a new process with an alarm. Returns whether it returned
 * true. */
static inline int run_in_child(int (*body)(const void *arg), const void *arg)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        alarm(600);
        exit(body(arg) ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

#endif
