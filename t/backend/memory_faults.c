/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a backend in a module that refuses, dies, fails, hangs and never
 * finishes: no rank waits forever, and all get the cause.
 */
#include "../attempts.h"
#include "../logged.h"
#include "modules.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- opening ---- */

static int refusal(struct symmcoll_group *group, int rank,
    symmcoll_status_t status, const char *text)
{
    float *at = device(rank);
    struct symmcoll_work *work = NULL;
    char first[256], later[256];

    snprintf(first, sizeof(first), "all_reduce: %s", text);
    snprintf(later, sizeof(later), " s ago, in all_reduce seq 1: %s", text);
    for (int i = 0; i < 2; i++) {
        if (!ended(sum_device(group, at, rank, NULL), status,
                i == 0 ? first : later) ||
            !ended(status, status, "(group ") ||
            !say(sum_host(group, rank) == SYMMCOLL_OK, "after it"))
            return 0;
    }
    if (!say(sum_device(group, at, rank, &work) == SYMMCOLL_OK, "a work"))
        return 0;
    if (!ended(symmcoll_work_wait(work, 30), status, later) ||
        !ended(status, status, "all_reduce: device memory was refused "))
        return 0;
    symmcoll_work_free(work);
    return symmcoll_group_sequence(group) == 5 && at[1] == 0;
}

static int one_refuses(struct symmcoll_group *group, int rank)
{
    atomic_store(&control()->refuses, 1);
    return refusal(
        group, rank, SYMMCOLL_ERR_UNSUPPORTED, "rank 1: fake: refused");
}

static int one_refuses_late(struct symmcoll_group *group, int rank)
{
    atomic_store(&control()->refuses_late, 0);
    return refusal(
        group, rank, SYMMCOLL_ERR_NO_MEMORY, "rank 0: fake: refused late");
}

/* Members that exchange different amounts have read nothing. */
static int one_tells_less(struct symmcoll_group *group, int rank)
{
    atomic_store(&control()->tells_less, 1);
    return refusal(group, rank, SYMMCOLL_ERR_INTERNAL,
        "backend fake_module exchanges or gathers other than on rank 0 on rank "
        "1");
}

static int one_dies_while_opening(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    float *at;
    symmcoll_status_t status;

    (void)size;
    (void)arg;
    /* Without a record the call in which the rank died is not known. */
    setenv("SYMMCOLL_TRACE_BUFFER_SIZE", "0", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    atomic_store(&control()->dies_opening, 1);
    at = device(rank);
    status = sum_device(symmcoll_world_group(world), at, rank, NULL);
    if (!ended(status, SYMMCOLL_ERR_PEER, "rank 1") ||
        !ended(status, SYMMCOLL_ERR_PEER, "all_reduce"))
        return 1;
    return symmcoll_finalize(world) == SYMMCOLL_OK ? 0 : 1;
}

static int others_learn_of_the_death(int n)
{
    int statuses[4];

    if (!ranks_spawn(n, one_dies_while_opening, NULL, statuses))
        return 0;
    for (int r = 0; r < n; r++) {
        if (!WIFEXITED(statuses[r]) || WEXITSTATUS(statuses[r]) != 0)
            return 0;
    }
    return 1;
}

/* ---- errors, timeouts, aborts ---- */

/* The other ranks may complete before they see the failure; their next
 * operation then ends with the cause. */
static int one_fails(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    symmcoll_status_t status;

    atomic_store(&control()->fails, 1);
    status = sum_device(group, at, rank, NULL);
    if (rank != 1 && status == SYMMCOLL_OK)
        status = sum_host(group, rank);
    return ended(status, SYMMCOLL_ERR_DEVICE,
               "backend fake_module of rank 1: fake: out of order") &&
           sum_host(group, rank) == SYMMCOLL_ERR_ABORTED;
}

static double short_time; /* the timeout */

/* Makes one rank's backend hang; those of the others wait for it. */
static int times_out(struct symmcoll_group *group, int rank, bool waits)
{
    float *at = device(rank);
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    if (!say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "before") ||
        symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    atomic_store(&control()->hangs, 0);
    if (symmcoll_group_set_timeout(group, short_time) != SYMMCOLL_OK)
        return 0;
    status = sum_device(group, at, rank, waits ? &work : NULL);
    if (waits && status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, 30);
    symmcoll_work_free(work);
    return ended(status, SYMMCOLL_ERR_TIMEOUT, "has not completed it") &&
           strstr(symmcoll_last_error(), "owns") == NULL && at[1] == 0;
}

static int hangs(struct symmcoll_group *group, int rank)
{
    return times_out(group, rank, false);
}

static int hangs_in_a_work(struct symmcoll_group *group, int rank)
{
    return times_out(group, rank, true);
}

/* The number of ranks that have begun the operation, in memory shared by
 * processes. */
static _Atomic int *started;

static int aborted(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_work *work = NULL;

    if (!say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "before") ||
        symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    atomic_store(&control()->hangs, 1);
    atomic_store(&control()->all_started, started);
    if (!say(sum_device(group, at, rank, &work) == SYMMCOLL_OK, "a work"))
        return 0;
    /* An operation that has not begun would never begin. */
    while (rank == 0 && atomic_load(started) < symmcoll_group_size(group))
        usleep(1000);
    if (rank == 0)
        symmcoll_group_abort(group, "enough");
    if (!ended(symmcoll_work_wait(work, 30), SYMMCOLL_ERR_CANCELED, "enough"))
        return 0;
    symmcoll_work_free(work);
    return at[1] == 0;
}

/* Runs an operation that its backend never completes or releases. */
static int keeps_its_buffers(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    struct symmcoll_work *work = NULL;
    bool blocks = arg == NULL;
    float *at;
    symmcoll_status_t status;
    int right;

    (void)size;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    at = device(rank);
    if (sum_device(group, at, rank, NULL) != SYMMCOLL_OK ||
        symmcoll_group_set_timeout(group, short_time) != SYMMCOLL_OK)
        return 1;
    atomic_store(&control()->keeps, 0);
    status = sum_device(group, at, rank, blocks ? NULL : &work);
    if (!blocks && status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, 30);
    right = ended(status, SYMMCOLL_ERR_TIMEOUT, "has not completed it") &&
            (strstr(symmcoll_last_error(),
                 "backend fake_module still owns in (4 bytes at 0x") != NULL) ==
                (rank == 0);
    if (!right)
        diag("rank %d: %s", rank, symmcoll_last_error());
    symmcoll_work_free(work);
    status = symmcoll_finalize(world);
    if (rank == 0)
        right =
            right &&
            ended(status, SYMMCOLL_ERR_DEVICE,
                "still owns the buffers of all_reduce seq 2 on the default stream");
    else
        right = right && status == SYMMCOLL_OK;
    if (!right)
        diag("rank %d: finalize: %s", rank, symmcoll_status_name(status));
    return right ? 0 : 1;
}

static bool says_whose_they_are(double seconds, void *arg)
{
    const int n = 2;
    int statuses[4];

    short_time = seconds;
    if (!ranks_spawn(n, keeps_its_buffers, arg, statuses))
        return false;
    for (int r = 0; r < n; r++) {
        if (!WIFEXITED(statuses[r]) || WEXITSTATUS(statuses[r]) != 0)
            return false;
    }
    return true;
}

struct hanging {
    int (*run)(int n, rank_fn body);
    int size;
    rank_fn body;
};

static bool hang(double seconds, void *arg)
{
    const struct hanging *hanging = arg;

    short_time = seconds;
    return hanging->run(hanging->size, hanging->body);
}

/* Runs on processes and on threads. All ranks must begin within the timeout of
 * the first one. */
static void on_both_hangs(int n, rank_fn body, const char *what)
{
    struct hanging hanging = {ranks_run, n, body};

    ok(attempts_hold(hang, 0.3, &hanging), "%s, %d processes", what, n);
    hanging.run = threads_run;
    ok(attempts_hold(hang, 0.3, &hanging), "%s, %d threads", what, n);
}

/* ---- missing operations ---- */

static int kind_that_it_lacks(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);

    atomic_store(&control()->lacks_gather, 1);
    return ended(symmcoll_gather(group, rank == 0 ? at + 64 : NULL, at, 1, F32,
                     0, NULL, NULL),
               SYMMCOLL_ERR_UNSUPPORTED,
               "gather: expected a backend of device memory that serves it, "
               "found fake_module, which does not") &&
           say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "after it");
}

/* ---- searched data ---- */

/* Sums a NaN twice and captures the log. */
static int sum_nan(
    struct symmcoll_group *group, float *at, char *text, size_t nbytes)
{
    struct logged logged;
    int right = 1;

    at[0] = NAN;
    logged_begin(&logged);
    for (int i = 0; i < 2; i++)
        right &= symmcoll_all_reduce(
                     group, at + 1, at, 1, F32, SUM, NULL, NULL) == SYMMCOLL_OK;
    logged_end(&logged, text, nbytes);
    return right && isnan(at[1]);
}

static int it_is_not_searched(struct symmcoll_group *group, int rank)
{
    const char *said = "errors.nan_check: expected host memory, found device "
                       "memory, in which nothing is searched";
    float *at = device(rank);
    char text[2000], *first;

    if (!say(sum_nan(group, at, text, sizeof(text)), "the sums"))
        return 0;
    first = strstr(text, said);
    if (first != NULL && strstr(first + 1, said) == NULL)
        return 1;
    diag("expected once '%s', found '%s'", said, text);
    return 0;
}

int main(void)
{
    started = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (started == MAP_FAILED)
        skip_all("no shared memory");
    use_modules_of_tests();
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    for (int n = 2; n <= 4; n++) {
        on_both(n, one_refuses, "one member refuses for all");
        on_both(n, one_refuses_late, "one that refuses in the middle, too");
        on_both(n, one_tells_less, "one that tells less than the others");
        on_both_hangs(n, hangs, "a backend that never completes times out");
    }
    on_both(3, one_fails, "an error of one backend fails the group");
    on_both_hangs(2, hangs_in_a_work, "a work that never completes times out");
    ok(ranks_run(3, aborted),
        "an abort ends what the backend has begun, 3 processes");
    atomic_store(started, 0);
    ok(threads_run(3, aborted),
        "an abort ends what the backend has begun, 3 threads");
    ok(others_learn_of_the_death(3), "one that dies while opening is named");
    ok(attempts_hold(says_whose_they_are, 0.3, NULL) &&
            attempts_hold(says_whose_they_are, 0.3, &(int){1}),
        "buffers that a backend never lets go of are named, and at the end");
    on_both(2, kind_that_it_lacks, "a kind that all lack is refused");
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    ok(ranks_run(2, it_is_not_searched),
        "errors.nan_check says once that it does not search another memory");
    unsetenv("SYMMCOLL_ERRORS_NAN_CHECK");
    return done_testing();
}
