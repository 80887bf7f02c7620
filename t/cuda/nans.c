/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests errors.nan_check on device memory: the data that a rank sends is
 * searched on its stream, and the finding is logged before the end of the
 * operation.
 */
#include "t/cuda/searched.h"
#include "t/logged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MANY 1500 /* more than are searched at once */

/* ---- warnings ---- */

static int contains(const char *text, const char *expected)
{
    if (strstr(text, expected) != NULL)
        return 1;
    diag("expected '%s', found '%s'", expected, text);
    return 0;
}

static int warns(struct symmcoll_group *all, int rank)
{
    static char text[100000];
    struct searched it;
    struct logged logged;
    float found = 0;
    int right = 1;

    searched_begin(&it, all, rank);
    searched_put_nan(&it, 42);
    logged_begin(&logged);
    for (int i = 0; i < 3; i++)
        right = searched_sum(&it) == SYMMCOLL_OK && right;
    (void)logged_end(&logged, text, sizeof(text));
    device_read(&found, it.out + 42, sizeof(found));
    right = say(right, "sums") && say(isnan(found), "a NaN") &&
            contains(text, "all_reduce seq 3 of group ") &&
            contains(text, "element 42 of in is NaN (1 element is, of 100)");
    return searched_end(&it, right);
}

/* Starts all operations before any of them ends. */
static int has_room_for_many(struct symmcoll_group *all, int rank)
{
    static struct symmcoll_work *works[MANY];
    static char text[100000];
    struct searched it;
    struct logged logged;
    int right = 1;

    searched_begin(&it, all, rank);
    logged_begin(&logged);
    right = searched_sum(&it) == SYMMCOLL_OK;
    fake_stall(it.call.stream);
    for (int i = 0; i < MANY && right; i++)
        right = symmcoll_all_reduce(it.group, it.out, it.in, 1, F32, SUM,
                    &it.call, &works[i]) == SYMMCOLL_OK;
    fake_resume(it.call.stream);
    for (int i = 0; i < MANY && right; i++)
        right = searched_wait(SYMMCOLL_OK, works[i]) == SYMMCOLL_OK;
    searched_put_nan(&it, 1);
    right = searched_sum(&it) == SYMMCOLL_OK && right;
    (void)logged_end(&logged, text, sizeof(text));
    right =
        say(right, "sums") &&
        contains(text, "too many operations run at once to search what they "
                       "send, now and later") &&
        contains(text, "element 1 of in is NaN");
    return searched_end(&it, right);
}

static int captures(struct symmcoll_group *all, int rank)
{
    static char text[100000];
    struct searched it;
    CUgraph graph = NULL;
    struct logged logged;
    int right;

    searched_begin(&it, all, rank);
    right = say(searched_sum(&it) == SYMMCOLL_OK, "a sum");
    logged_begin(&logged);
    right = cuStreamBeginCapture(it.call.stream,
                CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS &&
            symmcoll_all_reduce(it.group, it.out, it.in, SEARCHED_COUNT, F32,
                SUM, &it.call, NULL) == SYMMCOLL_OK &&
            cuStreamEndCapture(it.call.stream, &graph) == CUDA_SUCCESS &&
            cuGraphDestroy(graph) == CUDA_SUCCESS && right;
    (void)logged_end(&logged, text, sizeof(text));
    right =
        say(right, "a capture") &&
        contains(text, "errors.nan_check: what is captured in a graph is not "
                       "searched, now and later");
    return searched_end(&it, right);
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    on_both(2, searched_fails_its_group,
        "H26: a NaN that a rank sends fails its group with rank, element and "
        "count");
    on_both(2, searched_names_the_part, "H26: of a list with the part");
    on_both(2, searched_names_the_buffer, "H26: of several with the buffer");
    on_both(2, searched_is_what_is_sent,
        "what is received is not searched, and no integer is");
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "warn", 1);
    ok(ranks_run(2, warns), "H26: warn logs it, and the operation runs");
    ok(ranks_run(1, has_room_for_many),
        "operations beyond those that are searched at once run, and say so");
    ok(ranks_run(2, captures), "so does what is captured");
    return done_testing();
}
