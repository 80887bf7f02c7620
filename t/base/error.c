/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests error details and the names of statuses. */
#include "../tap.h"

#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static int is_detail(const char *expected)
{
    if (strcmp(symmcoll_last_error(), expected) == 0)
        return 1;
    diag("expected \"%s\", found \"%s\"", expected, symmcoll_last_error());
    return 0;
}

static void *fail_elsewhere(void *arg)
{
    int *was_empty = arg;

    *was_empty = symmcoll_last_error()[0] == '\0';
    (void)symc_fail(SYMMCOLL_ERR_PEER, "of another thread");
    return NULL;
}

static int details_are_per_thread(void)
{
    pthread_t thread;
    int was_empty = 0;

    (void)symc_fail(SYMMCOLL_ERR_INVALID, "of this thread");
    if (pthread_create(&thread, NULL, fail_elsewhere, &was_empty) != 0)
        return 0;
    (void)pthread_join(thread, NULL);
    return was_empty && is_detail("of this thread");
}

static int long_detail_is_cut(void)
{
    char text[2 * SYMC_DETAIL_MAX];
    const char *detail;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)symc_fail(SYMMCOLL_ERR_INVALID, "%s", text);
    detail = symmcoll_last_error();
    return strlen(detail) == SYMC_DETAIL_MAX - 1 &&
           strcmp(detail + SYMC_DETAIL_MAX - 4, "...") == 0;
}

static int detail_of_full_length_is_kept(void)
{
    char text[SYMC_DETAIL_MAX];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)symc_fail(SYMMCOLL_ERR_INVALID, "%s", text);
    return is_detail(text);
}

static int long_reason_is_cut(void)
{
    char text[SYMC_DETAIL_MAX];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)symc_fail_errno(SYMMCOLL_ERR_SYSTEM, ENOENT, "%s", text + 5);
    return strcmp(symmcoll_last_error() + SYMC_DETAIL_MAX - 4, "...") == 0;
}

/* Returns whether a number is reserved: no status, and not to be reused. */
static bool is_reserved(symmcoll_status_t status)
{
    return status == -9;
}

static int names_differ(void)
{
    for (symmcoll_status_t a = SYMMCOLL_ERR_INTERNAL; a <= SYMMCOLL_IN_PROGRESS;
         a++) {
        const char *name = symmcoll_status_name(a);

        if ((strcmp(name, "unknown status") == 0) != is_reserved(a))
            return 0;
        for (symmcoll_status_t b = a + 1;
             !is_reserved(a) && b <= SYMMCOLL_IN_PROGRESS; b++) {
            if (strcmp(name, symmcoll_status_name(b)) == 0)
                return 0;
        }
    }
    return 1;
}

/* Checks the categories from SYMMCOLL_ERR_INTERNAL to SYMMCOLL_NOT_MEMBER, in
 * the order of their numbers; a negative number that is no status is DIST as
 * well. */
static int categories_fit(void)
{
    static const enum symmcoll_category expected[] = {
        SYMMCOLL_CATEGORY_DIST /* INTERNAL */,
        SYMMCOLL_CATEGORY_VALUE /* CONFIG */,
        SYMMCOLL_CATEGORY_BACKEND /* DEVICE */,
        SYMMCOLL_CATEGORY_SYSTEM /* SYSTEM */,
        SYMMCOLL_CATEGORY_SYSTEM /* NO_MEMORY */,
        SYMMCOLL_CATEGORY_DIST /* reserved */,
        SYMMCOLL_CATEGORY_DIST /* NOT_SYMMETRIC */,
        SYMMCOLL_CATEGORY_BACKEND /* ABORTED */,
        SYMMCOLL_CATEGORY_BACKEND /* CANCELED */,
        SYMMCOLL_CATEGORY_BACKEND /* PEER */,
        SYMMCOLL_CATEGORY_BACKEND /* TIMEOUT */,
        SYMMCOLL_CATEGORY_DIST /* MISMATCH */,
        SYMMCOLL_CATEGORY_NOT_IMPLEMENTED /* UNSUPPORTED */,
        SYMMCOLL_CATEGORY_VALUE /* INVALID */, SYMMCOLL_CATEGORY_NONE /* OK */,
        SYMMCOLL_CATEGORY_NONE /* IN_PROGRESS */,
        SYMMCOLL_CATEGORY_NONE /* SKIPPED */,
        SYMMCOLL_CATEGORY_NONE /* NOT_MEMBER */};

    for (symmcoll_status_t s = SYMMCOLL_ERR_INTERNAL; s <= SYMMCOLL_NOT_MEMBER;
         s++) {
        if (symmcoll_status_category(s) != expected[s - SYMMCOLL_ERR_INTERNAL])
            return 0;
    }
    return 1;
}

/* Fails for another reason, as functions that clean up may. */
static symmcoll_status_t fail_again(void)
{
    return symc_fail(SYMMCOLL_ERR_SYSTEM, "close: not open");
}

static int kept_error_is_returned(void)
{
    struct symc_error error;

    symc_error_keep(&error, symc_fail(SYMMCOLL_ERR_INVALID, "count is 0"));
    (void)fail_again();
    return symc_error_return(&error) == SYMMCOLL_ERR_INVALID &&
           symc_error_status() == SYMMCOLL_ERR_INVALID &&
           is_detail("count is 0");
}

static int kept_success_changes_nothing(void)
{
    struct symc_error error;

    symc_error_keep(&error, SYMMCOLL_OK);
    (void)fail_again();
    return symc_error_return(&error) == SYMMCOLL_OK &&
           symc_error_status() == SYMMCOLL_ERR_SYSTEM &&
           is_detail("close: not open");
}

static int error_gets_a_prefix(void)
{
    symmcoll_status_t status = fail_again();

    return symc_error_prefix(status, "device %d", 1) == SYMMCOLL_ERR_SYSTEM &&
           is_detail("device 1: close: not open");
}

static int error_is_amended(void)
{
    symmcoll_status_t status = fail_again();

    return symc_error_amend(status, "%s (buffer %d)", symmcoll_last_error(),
               2) == SYMMCOLL_ERR_SYSTEM &&
           is_detail("close: not open (buffer 2)");
}

int main(void)
{
    plan(17);
    ok(is_detail(""), "the detail is empty before the first failure");
    ok(symc_fail(SYMMCOLL_ERR_MISMATCH, "count differs: %d and %d", 3, 4) ==
                SYMMCOLL_ERR_MISMATCH &&
            is_detail("count differs: 3 and 4"),
        "a failure returns its status and keeps its detail");
    (void)symc_fail(
        SYMMCOLL_ERR_INVALID, "all_reduce: %s", symmcoll_last_error());
    ok(is_detail("all_reduce: count differs: 3 and 4"),
        "the detail can be part of the one that replaces it");
    errno = EINTR;
    ok(symc_fail_errno(SYMMCOLL_ERR_SYSTEM, ENOENT, "open %s", "x") ==
                SYMMCOLL_ERR_SYSTEM &&
            is_detail("open x: No such file or directory"),
        "a failed system call has its reason");
    ok(errno == EINTR, "a failure leaves errno alone");
    (void)symc_fail(SYMMCOLL_ERR_INVALID, "one\ntwo\tthree\x7f");
    ok(is_detail("one two three "), "a detail is one line");
    ok(long_detail_is_cut(), "a detail that does not fit ends in dots");
    ok(detail_of_full_length_is_kept(), "a detail that just fits is whole");
    ok(long_reason_is_cut(), "a reason that does not fit ends in dots");
    ok(details_are_per_thread(), "each thread has its own detail");
    ok(names_differ(), "each status has its own name");
    ok(strcmp(symmcoll_status_name(99), "unknown status") == 0 &&
            strcmp(symmcoll_status_name(INT32_MIN), "unknown status") == 0,
        "what is no status is called unknown");
    ok(categories_fit(),
        "each status is in the category of its exception (T22)");
    ok(kept_error_is_returned(), "a kept error is returned after another");
    ok(kept_success_changes_nothing(), "a kept success changes no error");
    ok(error_gets_a_prefix(), "an error gets a prefix");
    ok(error_is_amended(), "an error is amended by a text that contains it");
    return done_testing();
}
