/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a group's communicator of NCCL with the stand-in: it is created on all
 * members or on none, whatever fails, and ended without waiting for absent
 * members.
 */
#include "t/nccl/opened.h"

#include <time.h>

#define SHORT_NS (SYMC_NS_PER_S / 20)

/* Checks that every member has the status, with a text in its detail, and that
 * nothing remains. */
static int refused(int n, symmcoll_status_t status, const char *text)
{
    int right =
        all_do(open_one, n) && none_is_left() && atomic_load(&counted) == 0;

    for (int r = 0; r < n; r++) {
        if (members[r].status == status &&
            strstr(members[r].text, text) != NULL && members[r].comm == NULL)
            continue;
        diag("rank %d: expected %s with '%s', found %s: %s", r,
            symmcoll_status_name(status), text,
            symmcoll_status_name(members[r].status), members[r].text);
        right = 0;
    }
    return right;
}

/* ---- making ---- */

static int it_is_made(void *size)
{
    int n = *(int *)size;

    return load(n) && opened() && atomic_load(&fake->live) == n &&
           all_do(close_one, n) && ended(n, 0);
}

static int it_is_waited_for(void *unused)
{
    (void)unused;
    if (!load(SIZE))
        return 0;
    atomic_store(&fake->slow, 7);
    return opened() && all_do(close_one, SIZE) && ended(SIZE, 0);
}

static int versions_are_compared(void *unused)
{
    (void)unused;
    if (!load(SIZE))
        return 0;
    members[2].nccl.version = 22707;
    return refused(SIZE, SYMMCOLL_ERR_UNSUPPORTED,
               "expected one version of NCCL on all members, found 2.28.9 on rank 0 "
               "and 2.27.7 on rank 2") &&
           atomic_load(&fake->drawn) == 0;
}

static int an_error_of_rank_0_is_everybodys(void *unused)
{
    (void)unused;
    if (!load(SIZE))
        return 0;
    atomic_store(&fake->id_result, SYMC_NCCL_SYSTEM_ERROR);
    return refused(SIZE, SYMMCOLL_ERR_SYSTEM,
        "ncclGetUniqueId on rank 0: NCCL error 2, an error: said of no "
        "communicator");
}

/* Checks that the query for an open group of calls keeps the previous error. */
static int questions_keep_what_is_said(void *unused)
{
    const struct symc_nccl *nccl = &members[0].nccl;

    (void)unused;
    if (!load(SIZE))
        return 0;
    atomic_store(&fake->said, "no cable\n");
    if (symc_nccl_is_grouped(nccl))
        return 0;
    atomic_store(&fake->said, "no route\n");
    if (symc_nccl_is_grouped(nccl) || symc_nccl_is_grouped(nccl))
        return 0;
    atomic_store(&fake->id_result, SYMC_NCCL_SYSTEM_ERROR);
    return refused(SIZE, SYMMCOLL_ERR_SYSTEM,
        "ncclGetUniqueId on rank 0: NCCL error 2, an error: no route");
}

/* A function that fails on one member only. */
static enum symc_nccl_result fail_init(struct symc_nccl_comm **comm, int size,
    struct symc_nccl_id id, int rank, struct symc_nccl_config *config)
{
    (void)size;
    (void)id;
    (void)rank;
    (void)config;
    *comm = NULL;
    return SYMC_NCCL_INVALID_USAGE;
}

static enum symc_nccl_result fail_later(
    struct symc_nccl_comm *comm, enum symc_nccl_result *error)
{
    (void)comm;
    *error = SYMC_NCCL_REMOTE_ERROR;
    return SYMC_NCCL_SUCCESS;
}

static int an_error_of_one_is_everybodys(void *unused)
{
    (void)unused;
    if (!load(SIZE))
        return 0;
    members[2].nccl.comm_init_rank_config = fail_init;
    return refused(SIZE, SYMMCOLL_ERR_DEVICE,
               "ncclCommInitRankConfig on rank 2: NCCL error 5, invalid "
               "usage") &&
           ended(0, SIZE - 1);
}

static int so_is_one_that_comes_later(void *unused)
{
    (void)unused;
    if (!load(SIZE))
        return 0;
    atomic_store(&fake->stuck, 1);
    members[1].nccl.comm_get_async_error = fail_later;
    return refused(SIZE, SYMMCOLL_ERR_PEER,
               "ncclCommInitRankConfig on rank 1: NCCL error 6, an error") &&
           ended(0, SIZE);
}

static int a_deadline_ends_it(void *unused)
{
    (void)unused;
    if (!load(SIZE))
        return 0;
    atomic_store(&fake->stuck, 1);
    for (int r = 0; r < SIZE; r++)
        members[r].timeout_ns = SHORT_NS;
    return refused(SIZE, SYMMCOLL_ERR_TIMEOUT,
               "ncclCommInitRankConfig: expected it to end on all 4 members "
               "within 0.05 s, found it in progress on rank 0, 1, 2, 3") &&
           ended(0, SIZE);
}

/* Takes part in the exchange of versions, passes no id, and then dies. */
static void *die(void *unused)
{
    struct symc_nccl_id ids[SIZE] = {{{0}}};
    int32_t versions[SIZE] = {22809};

    (void)unused;
    (void)gather(
        &members[SIZE - 1], &versions[0], versions, sizeof(versions[0]));
    (void)gather(&members[SIZE - 1], &ids[0], ids, sizeof(ids[0]));
    while (atomic_load(&fake->live) < SIZE - 1)
        usleep(100);
    refuse(SYMMCOLL_ERR_PEER, "rank 3 has died");
    return NULL;
}

static int a_death_ends_it(void *unused)
{
    pthread_t thread;
    int right;

    (void)unused;
    if (!load(SIZE))
        return 0;
    atomic_store(&fake->stuck, 1);
    if (pthread_create(&thread, NULL, die, NULL) != 0)
        return 0;
    right = refused(SIZE - 1, SYMMCOLL_ERR_PEER, "rank 3 has died");
    pthread_join(thread, NULL);
    return right && ended(0, SIZE - 1);
}

/* ---- ending ---- */

static int a_failed_one_is_aborted(void *unused)
{
    (void)unused;
    if (!load(SIZE) || !opened())
        return 0;
    atomic_store(&fake->error, SYMC_NCCL_REMOTE_ERROR);
    return failed_with(symc_cuda_comm_test(members[1].comm), SYMMCOLL_ERR_PEER,
               "on rank 1: NCCL error 6, an error") &&
           all_do(close_one, SIZE) && ended(0, SIZE);
}

static int a_stuck_one_is_aborted(void *unused)
{
    (void)unused;
    if (!load(SIZE) || !opened())
        return 0;
    atomic_store(&fake->stuck, 1);
    for (int r = 0; r < SIZE; r++)
        members[r].timeout_ns = SHORT_NS;
    return all_do(close_one, SIZE) && ended(0, SIZE);
}

/* early: the abort is between the query of its status and its end. */
static int one_that_cannot_end_is_aborted(void *early)
{
    if (!load(early != NULL ? 1 : SIZE) || !opened())
        return 0;
    atomic_store(&doomed, early != NULL ? members[0].comm : NULL);
    atomic_store(&fake->finalize_result, SYMC_NCCL_INTERNAL_ERROR);
    return all_do(close_one, group.size) && ended(0, group.size);
}

/* Checks that no member waits for another: not even in the end of a
 * communicator, which NCCL calls collective, in whatever order. */
static int each_ends_alone(void *unused)
{
    (void)unused;
    if (!load(SIZE) || !opened())
        return 0;
    for (int r = 0; r < SIZE; r++) {
        members[r].timeout_ns = SHORT_NS;
        close_one(&members[r]);
        if (r < SIZE - 1 && atomic_load(&fake->live) != SIZE)
            return diag("a member's communicator ended before the others"), 0;
    }
    return ended(SIZE, 0);
}

static int who_has_left_is_not_waited_for(void *unused)
{
    int right;

    (void)unused;
    if (!load(SIZE) || !opened())
        return 0;
    atomic_store(&group.gone, SIZE);
    for (int r = 0; r < SIZE; r++)
        members[r].timeout_ns = SHORT_NS;
    right = all_do(close_one, SIZE - 1) && atomic_load(&fake->finalized) == 0;
    atomic_store(&group.gone, 0);
    close_one(&members[SIZE - 1]);
    return right && ended(1, SIZE - 1);
}

/* Checks that a member without pending work also gets the group's failure. */
static int abort_waits_for_nobody(void *unused)
{
    symmcoll_status_t status;

    (void)unused;
    if (!load(2) || !opened())
        return 0;
    symc_cuda_comm_abort(members[0].comm);
    status = symc_cuda_comm_watch(members[0].comm);
    if (status != SYMMCOLL_ERR_ABORTED || atomic_load(&fake->aborted) != 0)
        return 0;
    symc_cuda_comm_try_abort(members[1].comm);
    for (int r = 0; r < 2; r++)
        close_one(&members[r]);
    return ended(0, 2);
}

static void *test_often(void *comm)
{
    symmcoll_status_t status;

    do
        status = symc_cuda_comm_test(comm);
    while (status == SYMMCOLL_OK);
    return failed_with(status, SYMMCOLL_ERR_ABORTED,
               "rank 0: expected a communicator, found one that was aborted")
               ? comm
               : NULL;
}

static int an_abort_has_it_alone(void *unused)
{
    pthread_t threads[2];
    void *found[2] = {NULL};

    (void)unused;
    if (!load(1) || !opened())
        return 0;
    atomic_store(&fake->pause_us, 2000);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, test_often, members[0].comm) != 0)
            return 0;
    usleep(20000);
    symc_cuda_comm_abort(members[0].comm);
    symc_cuda_comm_abort(members[0].comm);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &found[i]);
    close_one(&members[0]);
    symc_cuda_comm_close(NULL, 0);
    return found[0] != NULL && found[1] != NULL && ended(0, 1);
}

/* Checks that open communicators are counted: dumps of a failure then query
 * NCCL, which must happen after an abort. */
static int they_are_counted(void *unused)
{
    (void)unused;
    if (!load(SIZE) || !opened() || atomic_load(&counted) != SIZE)
        return 0;
    symc_cuda_comm_abort(members[0].comm);
    if (atomic_load(&counted) != SIZE)
        return 0;
    for (int r = 0; r < SIZE; r++)
        members[r].timeout_ns = SHORT_NS;
    return all_do(close_one, SIZE) && atomic_load(&counted) == 0;
}

int main(void)
{
    int one = 1, two = 2, four = SIZE;

    plan(18);
    ok(run_child(it_is_made, &one) && run_child(it_is_made, &two) &&
            run_child(it_is_made, &four),
        "a communicator is made on all members, and ends with them");
    ok(run_child(it_is_waited_for, NULL), "what is in progress is waited for");
    ok(run_child(versions_are_compared, NULL),
        "members with different versions of NCCL are refused with both, before "
        "any id is drawn");
    ok(run_child(an_error_of_rank_0_is_everybodys, NULL),
        "where rank 0 can draw no id, all have its error");
    ok(run_child(questions_keep_what_is_said, NULL),
        "with what NCCL said of it, whatever it has been asked since");
    ok(run_child(an_error_of_one_is_everybodys, NULL),
        "where one cannot begin, all have its error, and nothing is left");
    ok(run_child(so_is_one_that_comes_later, NULL),
        "so it is where one fails while the others are in progress");
    ok(run_child(a_deadline_ends_it, NULL),
        "a deadline that passes is told with who is in progress");
    ok(run_child(a_death_ends_it, NULL),
        "a member that dies meanwhile is not waited for");
    ok(run_child(a_failed_one_is_aborted, NULL),
        "one that has failed is told, and aborted at its end");
    ok(run_child(a_stuck_one_is_aborted, NULL),
        "one whose end does not come in time is aborted");
    ok(run_child(one_that_cannot_end_is_aborted, NULL),
        "one that NCCL cannot finalize is aborted");
    ok(run_child(who_has_left_is_not_waited_for, NULL),
        "the end waits for nobody where a member has left");
    ok(run_child(each_ends_alone, NULL),
        "nor anybody else: each member closes it when it likes");
    ok(run_child(abort_waits_for_nobody, NULL),
        "who aborts it waits for nobody");
    ok(run_child(an_abort_has_it_alone, NULL),
        "who aborts it has it alone, and it is not used after that");
    ok(run_child(one_that_cannot_end_is_aborted, &one),
        "one that is aborted while it is closed is not finalized");
    ok(run_child(they_are_counted, NULL),
        "the group knows how many it has, until they are released");
    return done_testing();
}
