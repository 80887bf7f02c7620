/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.nan_check of memory of devices: what a rank sends is searched on its
 * stream, and what was found is told before the operation is.
 */
#include "t/cuda/members.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100
#define MANY 1500 /* more than are searched at once */
#define WAIT 20.0
#define VICTIM 1

struct side {
    struct symmcoll_group *group;
    int rank, size;
    struct symmcoll_call call;
    float *in, *out;
};

static void begin(struct side *side, struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    float ones[4 * COUNT];

    if (symmcoll_group_create(symmcoll_group_world(all), NULL, &group) !=
        SYMMCOLL_OK)
        abort();
    device_use(rank);
    *side = (struct side){.group = group,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .call = SYMMCOLL_CALL_INIT,
        .in = device_alloc(sizeof(ones)),
        .out = device_alloc(sizeof(ones))};
    side->call.stream = device_stream();
    for (int i = 0; i < 4 * COUNT; i++)
        ones[i] = 1;
    device_write(side->in, ones, sizeof(ones));
}

static int end(struct side *side, int right)
{
    device_wait(side->call.stream);
    right =
        say(symmcoll_group_free(side->group) == SYMMCOLL_OK, "free") && right;
    device_end_stream(side->call.stream);
    device_free(side->in);
    device_free(side->out);
    return right;
}

static void put_nan(struct side *side, size_t at)
{
    const float nan = NAN;

    device_write(side->in + at, &nan, sizeof(nan));
}

static symmcoll_status_t wait_for(
    symmcoll_status_t status, struct symmcoll_work *work)
{
    if (status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, WAIT);
    symmcoll_work_free(work);
    return status;
}

static symmcoll_status_t sum(struct side *side)
{
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status = symmcoll_all_reduce(
        side->group, side->out, side->in, COUNT, F32, SUM, &side->call, &work);

    return wait_for(status, work);
}

/* ---- errors ---- */

/* Until the failure of another rank has come. */
static symmcoll_status_t await_error(struct side *side)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < 20000 && status == SYMMCOLL_OK; i++) {
        (void)usleep(1000);
        status = symmcoll_group_error(side->group);
    }
    return status;
}

static int fails_its_group(struct symmcoll_group *all, int rank)
{
    static const char text[] =
        "rank 1: expected numbers, found element 3 of in NaN (2 elements are, of "
        "100)";
    struct side side;
    symmcoll_status_t status;
    int right;

    begin(&side, all, rank);
    right = say(sum(&side) == SYMMCOLL_OK, "numbers");
    if (rank == VICTIM) {
        put_nan(&side, 3);
        put_nan(&side, 77);
        right = ended(sum(&side), SYMMCOLL_ERR_INVALID, "all_reduce seq ") &&
                ended(SYMMCOLL_ERR_INVALID, SYMMCOLL_ERR_INVALID, text) &&
                right;
    } else {
        status = sum(&side); /* it may end before the failure has come */
        right = (status == SYMMCOLL_OK ||
                    ended(status, SYMMCOLL_ERR_INVALID, text)) &&
                right;
    }
    right = ended(await_error(&side), SYMMCOLL_ERR_INVALID, text) && right;
    return end(&side, right);
}

/* A list has the number of the part. */
static int names_the_part(struct symmcoll_group *all, int rank)
{
    struct symmcoll_work *work = NULL;
    struct side side;
    const void *ins[2];
    const size_t counts[2] = {COUNT, COUNT};
    symmcoll_status_t status;
    int right = 1;

    begin(&side, all, rank);
    ins[0] = side.in;
    ins[1] = side.in + 2 * COUNT;
    if (rank == VICTIM)
        put_nan(&side, 2 * COUNT + 9);
    status = symmcoll_reduce_scatter_list(
        side.group, side.out, COUNT, ins, counts, F32, SUM, &side.call, &work);
    status = wait_for(status, work);
    if (rank == VICTIM)
        right = ended(status, SYMMCOLL_ERR_INVALID,
            "found element 9 of ins[1] NaN (1 element is, of 100)");
    right = ended(await_error(&side), SYMMCOLL_ERR_INVALID, "of ins[1] NaN") &&
            right;
    return end(&side, right);
}

/* Neither what receives, nor bits of integers, nor what a rank does not send. */
static int searches_what_is_sent(struct symmcoll_group *all, int rank)
{
    struct symmcoll_work *work = NULL;
    struct side side;
    symmcoll_status_t status;
    int right;

    begin(&side, all, rank);
    if (rank != VICTIM)
        put_nan(&side, 5);
    status = symmcoll_broadcast(
        side.group, side.in, COUNT, F32, VICTIM, &side.call, &work);
    right = say(wait_for(status, work) == SYMMCOLL_OK, "numbers");
    put_nan(&side, 5);
    work = NULL;
    status = symmcoll_all_reduce(side.group, side.out, side.in, COUNT,
        SYMMCOLL_INT32, SUM, &side.call, &work);
    right = say(wait_for(status, work) == SYMMCOLL_OK, "integers") && right;
    return end(&side, right);
}

/* ---- warnings ---- */

static char *read_log(FILE *file, int saved, char *text, size_t nbytes)
{
    size_t got;

    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    got = fread(text, 1, nbytes - 1, file);
    text[got] = '\0';
    fclose(file);
    return text;
}

static int redirect(FILE **file)
{
    int saved = dup(STDERR_FILENO);

    *file = tmpfile();
    if (*file == NULL || saved < 0 || dup2(fileno(*file), STDERR_FILENO) < 0)
        abort();
    return saved;
}

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
    struct side side;
    FILE *file;
    float found = 0;
    int saved, right = 1;

    begin(&side, all, rank);
    put_nan(&side, 42);
    saved = redirect(&file);
    for (int i = 0; i < 3; i++)
        right = sum(&side) == SYMMCOLL_OK && right;
    (void)read_log(file, saved, text, sizeof(text));
    device_read(&found, side.out + 42, sizeof(found));
    right = say(right, "sums") && say(isnan(found), "a NaN") &&
            contains(text, "all_reduce seq 3 of group ") &&
            contains(text, "element 42 of in is NaN (1 element is, of 100)");
    return end(&side, right);
}

/* All run before any of them ends. */
static int has_room_for_many(struct symmcoll_group *all, int rank)
{
    static struct symmcoll_work *works[MANY];
    static char text[100000];
    struct side side;
    FILE *file;
    int saved, right = 1;

    begin(&side, all, rank);
    saved = redirect(&file);
    right = sum(&side) == SYMMCOLL_OK;
    fake_stall(side.call.stream);
    for (int i = 0; i < MANY && right; i++)
        right = symmcoll_all_reduce(side.group, side.out, side.in, 1, F32, SUM,
                    &side.call, &works[i]) == SYMMCOLL_OK;
    fake_resume(side.call.stream);
    for (int i = 0; i < MANY && right; i++)
        right = wait_for(SYMMCOLL_OK, works[i]) == SYMMCOLL_OK;
    put_nan(&side, 1);
    right = sum(&side) == SYMMCOLL_OK && right;
    (void)read_log(file, saved, text, sizeof(text));
    right =
        say(right, "sums") &&
        contains(text, "too many operations run at once to search what they "
                       "send, now and later") &&
        contains(text, "element 1 of in is NaN");
    return end(&side, right);
}

static int captures(struct symmcoll_group *all, int rank)
{
    static char text[100000];
    struct side side;
    CUgraph graph = NULL;
    FILE *file;
    int saved, right;

    begin(&side, all, rank);
    right = say(sum(&side) == SYMMCOLL_OK, "a sum");
    saved = redirect(&file);
    right = cuStreamBeginCapture(side.call.stream,
                CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS &&
            symmcoll_all_reduce(side.group, side.out, side.in, COUNT, F32, SUM,
                &side.call, NULL) == SYMMCOLL_OK &&
            cuStreamEndCapture(side.call.stream, &graph) == CUDA_SUCCESS &&
            cuGraphDestroy(graph) == CUDA_SUCCESS && right;
    (void)read_log(file, saved, text, sizeof(text));
    right =
        say(right, "a capture") &&
        contains(text, "errors.nan_check: what is captured in a graph is not "
                       "searched, now and later");
    return end(&side, right);
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    on_both(2, fails_its_group,
        "H26: a NaN that a rank sends fails its group with rank, element and "
        "count");
    on_both(2, names_the_part, "H26: of a list with the part");
    on_both(2, searches_what_is_sent,
        "what is received is not searched, and no integer is");
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "warn", 1);
    ok(ranks_run(2, warns), "H26: warn logs it, and the operation runs");
    ok(ranks_run(1, has_room_for_many),
        "operations beyond those that are searched at once run, and say so");
    ok(ranks_run(2, captures), "so does what is captured");
    return done_testing();
}
