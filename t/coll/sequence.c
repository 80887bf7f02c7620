/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that a sequence number counts the calls of a group's collectives: each
 * call takes one on every rank, whatever its outcome; a call refused for its
 * arguments alone takes none. A call of another kind that is matched with one
 * of these takes one, too.
 */
#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE 100000 /* elements, which a work queues */

static symmcoll_status_t sum(struct symmcoll_group *group, double *values,
    size_t count, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(group, values, values, count, SYMMCOLL_FLOAT64,
        SYMMCOLL_SUM, NULL, work);
}

static int is_at(const struct symmcoll_group *group, uint64_t wanted)
{
    uint64_t found = symmcoll_group_sequence(group);

    if (found != wanted)
        diag("expected %d, found %d", (int)wanted, (int)found);
    return found == wanted;
}

static int each_call_takes_one(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[3];
    double values[3] = {0};
    int right =
        is_at(group, 0) && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
        is_at(group, 1) && sum(group, values, 0, NULL) == SYMMCOLL_OK &&
        is_at(group, 2) &&
        sum(group, values, rank == 0 ? 1 : 2, NULL) == SYMMCOLL_ERR_MISMATCH &&
        is_at(group, 3);

    for (int i = 0; right && i < 3; i++)
        right = sum(group, &values[i], 1, &works[i]) == SYMMCOLL_OK;
    for (int i = 2; right && i >= 0; i--) {
        right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                symmcoll_work_sequence(works[i]) == 4 + (uint64_t)i;
        symmcoll_work_free(works[i]);
    }
    return right && is_at(group, 6);
}

/* Fails on one rank only: its next call still matches that of the others. */
static int refused_arguments_take_none(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work;
    double value = 1;

    call.timeout = NAN;
    if (rank == 0 &&
        (sum(group, NULL, 1, NULL) != SYMMCOLL_ERR_INVALID ||
            sum(group, NULL, 1, &work) != SYMMCOLL_ERR_INVALID ||
            symmcoll_broadcast(group, &value, 1, SYMMCOLL_FLOAT64, -1, NULL,
                NULL) != SYMMCOLL_ERR_INVALID ||
            symmcoll_barrier(group, &call, NULL) != SYMMCOLL_ERR_INVALID ||
            symmcoll_all_reduce(group, &value, &value, 1, SYMMCOLL_FLOAT64,
                SYMMCOLL_BAND, NULL, NULL) != SYMMCOLL_ERR_UNSUPPORTED))
        return 0;
    return is_at(group, 0) && sum(group, &value, 1, NULL) == SYMMCOLL_OK &&
           is_at(group, 1) && value == symmcoll_group_size(group);
}

/* A call of all members that is not a collective: none of them takes a
 * number. */
typedef symmcoll_status_t (*bare_fn)(struct symmcoll_group *group);

static symmcoll_status_t make_group(struct symmcoll_group *group)
{
    struct symmcoll_group *made;

    return symmcoll_group_create(symmcoll_group_world(group), NULL, &made);
}

static symmcoll_status_t split(struct symmcoll_group *group)
{
    struct symmcoll_group *made;

    return symmcoll_group_split(group, 0, 0, NULL, &made);
}

static symmcoll_status_t get_workspace(struct symmcoll_group *group)
{
    struct symmcoll_symm *handle;

    return symmcoll_symm_workspace(group, 4096, NULL, &handle);
}

static symmcoll_status_t join(struct symmcoll_group *group)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle;
    void *data;
    symmcoll_status_t status = symmcoll_symm_alloc(world, 4096, NULL, &data);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_symm_rendezvous(group, data, NULL, &handle);
    return symmcoll_symm_free(world, data) == SYMMCOLL_OK
               ? status
               : SYMMCOLL_ERR_INTERNAL;
}

/* Checks that a call ends with a mismatch that has its number, the latest
 * here. */
static int mismatches_at(const struct symmcoll_group *group,
    symmcoll_status_t status, const char *place, uint64_t seq)
{
    const char *found = symmcoll_last_error();

    if (status != SYMMCOLL_ERR_MISMATCH || strstr(found, place) == NULL) {
        diag("expected a mismatch with %s, found %d: %s", place, (int)status,
            found);
        return 0;
    }
    return is_at(group, seq);
}

/* One rank makes the call, the others sum; then all of them sum, with works. */
static int takes_that_of_others(
    struct symmcoll_group *group, int rank, int odd, bare_fn call, uint64_t seq)
{
    struct symmcoll_work *works[2] = {NULL, NULL};
    double value = 1, others[2] = {1, 1};
    char place[32];
    int right;

    snprintf(place, sizeof(place), "seq %d)", (int)seq);
    right = mismatches_at(group,
        rank == odd ? call(group) : sum(group, &value, 1, NULL), place, seq);
    if (rank != odd)
        right = sum(group, &others[0], 1, &works[0]) == SYMMCOLL_OK && right;
    else
        right = mismatches_at(group, call(group), "called", seq + 1) && right;
    right = sum(group, &others[1], 1, &works[1]) == SYMMCOLL_OK && right;
    right = (works[0] == NULL ||
                symmcoll_work_wait(works[0], -1) == SYMMCOLL_ERR_MISMATCH) &&
            symmcoll_work_wait(works[1], -1) == SYMMCOLL_OK &&
            symmcoll_work_sequence(works[1]) == seq + 2 &&
            others[1] == symmcoll_group_size(group) && right;
    symmcoll_work_free(works[0]);
    symmcoll_work_free(works[1]);
    return right && is_at(group, seq + 2);
}

static int calls_without_one_take_that_of_others(
    struct symmcoll_group *group, int rank)
{
    static const bare_fn calls[] = {make_group, split, get_workspace, join};
    uint64_t seq = 1;
    int right = 1;

    for (size_t i = 0; right && i < sizeof(calls) / sizeof(calls[0]); i++)
        for (int odd = 0; right && odd < 2; odd++, seq += 3)
            right = takes_that_of_others(group, rank, odd, calls[i], seq);
    return right;
}

/* Checks that such calls take no number, even if they differ. */
static int calls_without_one_take_none_together(
    struct symmcoll_group *group, int rank)
{
    symmcoll_status_t status =
        rank == 0 ? make_group(group) : get_workspace(group);
    double value = 1;

    return status == SYMMCOLL_ERR_MISMATCH &&
           strstr(symmcoll_last_error(), "seq") == NULL && is_at(group, 0) &&
           sum(group, &value, 1, NULL) == SYMMCOLL_OK && is_at(group, 1);
}

/* Checks that the library's own operations take as many numbers on every
 * rank. */
static int the_librarys_own_count_too(struct symmcoll_group *group, int rank)
{
    double values[4] = {0}, seen;
    struct symmcoll_tensor param =
        SYMMCOLL_TENSOR_FLAT(values, 4, SYMMCOLL_FLOAT64);
    struct symmcoll_reducer *reducer;

    (void)rank;
    if (symmcoll_reducer_create(group, &param, 1, NULL, &reducer) !=
        SYMMCOLL_OK)
        return 0;
    seen = (double)symmcoll_group_sequence(group);
    symmcoll_reducer_free(reducer);
    return seen > 0 &&
           symmcoll_all_reduce(group, values, &seen, 1, SYMMCOLL_FLOAT64,
               SYMMCOLL_MAX, NULL, NULL) == SYMMCOLL_OK &&
           values[0] == seen;
}

static int a_failed_group_counts_no_more(struct symmcoll_group *group, int rank)
{
    double value = 1;
    uint64_t before;

    (void)rank;
    symmcoll_group_abort(group, NULL);
    before = symmcoll_group_sequence(group);
    return before == 0 && sum(group, &value, 1, NULL) == SYMMCOLL_ERR_ABORTED &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_ERR_ABORTED &&
           is_at(group, before);
}

/* The number of ranks that have done their part, in memory shared by
 * processes. */
static _Atomic int *done;

static void await_done(int ranks)
{
    while (atomic_load(done) < ranks)
        usleep(1000);
}

static int has_number(
    const char *what, const struct symmcoll_work *work, uint64_t wanted)
{
    uint64_t found = symmcoll_work_sequence(work);

    if (found != wanted)
        diag("%s: expected %d, found %d", what, (int)wanted, (int)found);
    return found == wanted;
}

/* Rank 0 calls each operation only after the other ranks have checked its
 * number. */
static int started_work_has_its_number(struct symmcoll_group *group, int rank)
{
    int others = symmcoll_group_size(group) - 1, right = 1;
    struct symmcoll_work *work;

    for (int i = 0; i < 2; i++) {
        size_t count = i == 0 ? 1 : LARGE;
        double *values = calloc(count, sizeof(*values));

        if (rank == 0)
            await_done(others * (i + 1));
        right = sum(group, values, count, &work) == SYMMCOLL_OK && right;
        if (rank != 0 && i == 0)
            right = has_number("small", work, 1) && right;
        while (rank != 0 && symmcoll_work_sequence(work) == 0)
            usleep(1000);
        if (rank != 0) {
            right = has_number("started", work, (uint64_t)i + 1) &&
                    symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS && right;
            atomic_fetch_add(done, 1);
        }
        right = symmcoll_work_wait(work, 60) == SYMMCOLL_OK &&
                has_number("ended", work, (uint64_t)i + 1) && right;
        symmcoll_work_free(work);
        free(values);
    }
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && right;
}

/* Checks the number that a call stores at *found. */
static int is_stored(const char *what, symmcoll_status_t status,
    const uint64_t *found, uint64_t wanted)
{
    if (status == SYMMCOLL_OK && *found == wanted)
        return 1;
    diag("%s: expected %d, found %d: %s, %s", what, (int)wanted, (int)*found,
        symmcoll_status_name(status), symmcoll_last_error());
    return 0;
}

static int blocking_calls_store_it(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int size = symmcoll_group_size(group), *dst_of = calloc((size_t)size, 4);
    double *values = calloc(LARGE, sizeof(*values)), other = 0;
    uint64_t number = 77;
    int right;

    call.sequence = &number;
    for (int r = 0; r < size; r++)
        dst_of[r] = (r + 1) % size;
    right =
        is_stored("barrier", symmcoll_barrier(group, &call, NULL), &number, 1);
    right = is_stored("large",
                symmcoll_all_reduce(group, values, values, LARGE,
                    SYMMCOLL_FLOAT64, SYMMCOLL_SUM, &call, NULL),
                &number, 2) &&
            right;
    right = is_stored("permute",
                symmcoll_permute(group, &other, values, 1, SYMMCOLL_FLOAT64,
                    dst_of, &call, NULL),
                &number, 1) &&
            right;
    if (rank == 0)
        right = is_stored("send",
                    symmcoll_send(
                        group, values, 1, SYMMCOLL_FLOAT64, 1, 0, &call, NULL),
                    &number, 2) &&
                right;
    if (rank == 1)
        right = is_stored("recv",
                    symmcoll_recv(group, values, 1, SYMMCOLL_FLOAT64, 0, 0,
                        NULL, &call, NULL),
                    &number, 2) &&
                right;
    right = symmcoll_all_reduce(group, values, values, rank == 0 ? 1 : 2,
                SYMMCOLL_FLOAT64, SYMMCOLL_SUM, &call,
                NULL) == SYMMCOLL_ERR_MISMATCH &&
            is_stored("mismatch", SYMMCOLL_OK, &number, 3) && right;
    number = 77;
    right = symmcoll_broadcast(group, values, 1, SYMMCOLL_FLOAT64, size, &call,
                NULL) == SYMMCOLL_ERR_INVALID &&
            is_stored("refused", SYMMCOLL_OK, &number, 77) && right;
    free(values);
    free(dst_of);
    return right;
}

static int calls_with_works_store_it(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *works[3] = {NULL};
    double value = 1, sent = rank, other = 0;
    uint64_t numbers[3] = {77, 77, 77};
    int size = symmcoll_group_size(group), next = (rank + 1) % size;
    int right;

    call.sequence = &numbers[0];
    right = symmcoll_all_reduce(group, &value, &value, 1, SYMMCOLL_FLOAT64,
                SYMMCOLL_SUM, &call, &works[0]) == SYMMCOLL_OK;
    call.sequence = &numbers[1];
    right = symmcoll_send(group, &sent, 1, SYMMCOLL_FLOAT64, next, 0, &call,
                &works[1]) == SYMMCOLL_OK &&
            right;
    call.sequence = &numbers[2];
    right = symmcoll_recv(group, &other, 1, SYMMCOLL_FLOAT64,
                (rank + size - 1) % size, 0, NULL, &call,
                &works[2]) == SYMMCOLL_OK &&
            right;
    for (int i = 0; i < 3; i++) {
        right = is_stored("work", SYMMCOLL_OK, &numbers[i], i == 2 ? 2 : 1) &&
                symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK && right;
        symmcoll_work_free(works[i]);
    }
    return right;
}

static int none_is_stored_in_a_failed_group(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    uint64_t number = 77;
    double value = 1;
    int right;

    (void)rank;
    symmcoll_group_abort(group, NULL);
    call.sequence = &number;
    right = symmcoll_barrier(group, &call, NULL) == SYMMCOLL_ERR_ABORTED &&
            number == 0 && sum(group, &value, 1, &work) == SYMMCOLL_OK &&
            symmcoll_work_wait(work, 60) == SYMMCOLL_ERR_ABORTED &&
            has_number("aborted", work, 0);
    symmcoll_work_free(work);
    return right;
}

static int refused_calls_store_none(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    uint64_t number = 77;

    (void)rank;
    call.sequence = &number;
    call.timeout = NAN;
    return symmcoll_barrier(group, &call, NULL) == SYMMCOLL_ERR_INVALID &&
           number == 77;
}

/* Passes the struct of a program built before the number was added. */
static int shorter_calls_are_left(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    uint64_t number = 77;

    (void)rank;
    call.size = offsetof(struct symmcoll_call, sequence);
    call.sequence = &number;
    return symmcoll_barrier(group, &call, NULL) == SYMMCOLL_OK && number == 77;
}

static void both(int n, rank_fn body, const char *sentence)
{
    ok(ranks_run(n, body), "%s (%d processes)", sentence, n);
    ok(threads_run(n, body), "%s (%d threads)", sentence, n);
}

int main(void)
{
    plan(24);
    done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    both(3, each_call_takes_one,
        "every call takes the next number, a mismatch and works too");
    both(3, refused_arguments_take_none,
        "arguments that are refused take no number");
    both(3, calls_without_one_take_that_of_others,
        "a call that takes none takes that of the collective that others call");
    both(2, calls_without_one_take_none_together,
        "calls that take none take none where they differ");
    both(2, the_librarys_own_count_too,
        "collectives that the library calls take numbers too");
    both(2, a_failed_group_counts_no_more,
        "a group that has failed counts no more");
    ok(ranks_run(2, started_work_has_its_number),
        "a work has its number from its start on (2 processes)");
    atomic_store(done, 0);
    ok(threads_run(3, started_work_has_its_number),
        "a work has its number from its start on (3 threads)");
    both(3, blocking_calls_store_it,
        "a blocking call stores its number where it is asked for");
    both(3, calls_with_works_store_it,
        "a call with a work stores its number where it is asked for");
    both(2, none_is_stored_in_a_failed_group,
        "a call in a group that has failed stores 0, and its work has none");
    both(2, refused_calls_store_none, "a refused call stores no number");
    both(2, shorter_calls_are_left,
        "a call of an older program, which lacks the number, is accepted");
    return done_testing();
}
