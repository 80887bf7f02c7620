/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the kernels of an all-to-all with sizes in device memory, forth and
 * back: the place of each row, in the order of symmcoll/symm_exchange.h;
 * invalid splits; and a plan that is run twice.
 */
#include "t/kernels/checks.h"
#include "t/kernels/group.h"
#include "t/tap.h"

#include <string.h>

void symc_plan(const void *args);
void symc_plan_run(const void *args);

#define EXPERTS 3
#define PIECES (GROUP_RANKS * EXPERTS)
#define PIECE_ROWS 5
#define ALIGN_MAX 4
#define ROWS (PIECES * (PIECE_ROWS + ALIGN_MAX)) /* room of each rank */
#define ROW_NBYTES 9                             /* at most */

enum mistake {
    NO_MISTAKE,
    NEGATIVE,
    TOO_MANY,
    NO_ROOM,
    MISTAKES
};

struct point {
    int size, experts;
    uint64_t align, row_nbytes, in_rows, out_rows;
    enum mistake mistake;
    int mistaken; /* rank */
    int64_t splits[GROUP_RANKS][PIECES];
    uint32_t blocks, threads;
};

/* The layout of a rank's data: splits and rows, forth and back. */
struct layout {
    int64_t splits[PIECES];
    int64_t splits_back[2 * PIECES]; /* and those that symc_plan() stores */
    unsigned char in[ROWS * ROW_NBYTES];
    unsigned char out[ROWS * ROW_NBYTES];
};

/* The arguments and memory of one rank. */
struct work {
    struct symc_plan_args plan, plan_back;
    struct symc_plan_run_args run, run_back;
    struct symc_plan_piece pieces[PIECES], pieces_back[PIECES];
    int64_t gathered[GROUP_RANKS * PIECES],
        gathered_back[GROUP_RANKS * 2 * PIECES];
    int64_t splits_home[2 * PIECES];
    uint64_t wrong, wrong_back;
    unsigned char home[ROWS * ROW_NBYTES];
    int64_t splits[PIECES];
    struct copying put_splits, overwrite_splits, overwrite_rows, refill;
};

/* Draws a mistake. The first rank with a mistake must be named, even if others
 * have one, too. */
static void draw_mistake(struct point *point)
{
    const bool alone = group_draw() % 2 == 0;

    if (point->mistake == NO_ROOM) {
        memset(point->splits, 0, sizeof(point->splits));
        point->out_rows = 2;
    }
    for (int r = point->mistaken; r < point->size; r++) {
        int64_t *splits = point->splits[r];

        if (point->mistake == NEGATIVE)
            splits[group_draw() % (uint32_t)point->experts] = -1;
        else if (point->mistake == TOO_MANY)
            splits[point->experts - 1] = ROWS + 1;
        else if (point->mistake == NO_ROOM)
            point->splits[0][r * point->experts] = 3;
        if (alone)
            break;
    }
}

static void draw_point(struct point *point)
{
    *point = (struct point){.size = 1 + (int)(group_draw() % GROUP_RANKS),
        .experts = 1 + (int)(group_draw() % EXPERTS),
        .align = group_draw() % 2 == 0 ? 0 : group_draw() % (ALIGN_MAX + 1),
        .row_nbytes = 1 + group_draw() % ROW_NBYTES,
        .in_rows = ROWS,
        .out_rows = ROWS,
        .blocks = machine_draw_blocks()};
    point->threads = machine_draw_threads(point->size);
    for (int r = 0; r < point->size; r++)
        for (int i = 0; i < point->size * point->experts; i++)
            point->splits[r][i] = group_draw() % (PIECE_ROWS + 1);
    if (group_draw() % 2 == 0)
        return;
    point->mistake = (enum mistake)(1 + group_draw() % (MISTAKES - 1));
    point->mistaken = (int)(group_draw() % (uint32_t)point->size);
    draw_mistake(point);
}

static struct layout *layout_of(const struct group *group, int rank)
{
    return (struct layout *)(void *)group_data(group, rank);
}

static struct symc_device_data member_of(
    const struct group *group, size_t offset)
{
    struct symc_device_data data = group_data_of(group);

    data.offset += offset;
    return data;
}

static void describe(
    const struct point *point, struct group *group, int rank, struct work *work)
{
    struct layout *layout = layout_of(group, rank);
    const uint64_t n = (uint64_t)point->size * (uint64_t)point->experts;

    work->plan = (struct symc_plan_args){.group = group_of(group, rank),
        .in_splits = member_of(group, offsetof(struct layout, splits)),
        .out_splits = layout->splits_back,
        .gathered = work->gathered,
        .pieces = work->pieces,
        .wrong = &work->wrong,
        .in_rows = point->in_rows,
        .out_rows = point->out_rows,
        .major_align = point->align,
        .experts = (uint32_t)point->experts};
    work->run = (struct symc_plan_run_args){.group = group_of(group, rank),
        .data = member_of(group, offsetof(struct layout, in)),
        .pieces = work->pieces,
        .wrong = &work->wrong,
        .out = layout->out,
        .npieces = n,
        .row_nbytes = point->row_nbytes};
    work->plan_back = work->plan;
    work->plan_back.in_splits =
        member_of(group, offsetof(struct layout, splits_back));
    work->plan_back.out_splits = work->splits_home;
    work->plan_back.gathered = work->gathered_back;
    work->plan_back.pieces = work->pieces_back;
    work->plan_back.wrong = &work->wrong_back;
    work->plan_back.out_rows = ROWS;
    work->plan_back.back = 1;
    work->run_back = work->run;
    work->run_back.data = member_of(group, offsetof(struct layout, out));
    work->run_back.pieces = work->pieces_back;
    work->run_back.wrong = &work->wrong_back;
    work->run_back.out = work->home;
    memcpy(work->splits, point->splits[rank], sizeof(work->splits));
    work->put_splits =
        (struct copying){layout->splits, work->splits, sizeof(layout->splits)};
    work->overwrite_splits = (struct copying){
        layout->splits, group->in[rank], sizeof(layout->splits)};
    work->overwrite_rows =
        (struct copying){layout->in, group->in[rank], sizeof(layout->in)};
    work->refill = (struct copying){
        layout->in, group->in[rank] + sizeof(layout->in), sizeof(layout->in)};
}

/* Launches the plan forth twice, once with other rows and once with those that
 * are kept, and then back. */
static void launch(
    const struct point *point, struct group *group, int rank, struct work *work)
{
    const uint32_t blocks = point->blocks, threads = point->threads;

    group_launch_copy(group, rank, &work->put_splits);
    group_launch(group, rank, symc_plan, &work->plan, 1, threads);
    /* Ranks share the word with the failure, so that the others end their
     * waits for ranks that are still reading. */
    if (point->mistake == NO_MISTAKE)
        group_launch_copy(group, rank, &work->overwrite_splits);
    group_launch(group, rank, symc_plan_run, &work->run, blocks, threads);
    group_launch_copy(group, rank, &work->refill);
    group_launch(group, rank, symc_plan_run, &work->run, blocks, threads);
    group_launch_copy(group, rank, &work->overwrite_rows);
    if (point->mistake != NO_MISTAKE)
        return;
    group_launch(group, rank, symc_plan, &work->plan_back, 1, threads);
    group_launch(group, rank, symc_plan_run, &work->run_back, blocks, threads);
    group_launch_copy(group, rank, &work->overwrite_rows);
}

/* ---- what is expected ---- */

static const unsigned char *rows_of(const struct group *group, int rank)
{
    return group->in[rank] + sizeof(layout_of(group, rank)->in);
}

/* Returns the first row of a piece of a rank. */
static uint64_t begin_of(const struct point *point, int rank, int index)
{
    uint64_t row = 0;

    for (int i = 0; i < index; i++)
        row += (uint64_t)point->splits[rank][i];
    return row;
}

static bool is_piece_right(const struct point *point, const struct group *group,
    int rank, int expert, int source, uint64_t row)
{
    const struct layout *layout = layout_of(group, rank);
    const int n = point->size * point->experts,
              index = rank * point->experts + expert,
              place = expert * point->size + source;
    const int64_t rows = point->splits[source][index];

    return layout->splits_back[place] == rows &&
           layout->splits_back[n + place] == (int64_t)row &&
           memcmp(layout->out + row * point->row_nbytes,
               rows_of(group, source) +
                   begin_of(point, source, index) * point->row_nbytes,
               (size_t)rows * point->row_nbytes) == 0;
}

static bool is_there(
    const struct point *point, const struct group *group, int rank)
{
    uint64_t row = 0;

    for (int expert = 0; expert < point->experts; expert++) {
        const uint64_t began = row;

        for (int source = 0; source < point->size; source++) {
            if (!is_piece_right(point, group, rank, expert, source, row))
                return false;
            row +=
                (uint64_t)point->splits[source][rank * point->experts + expert];
        }
        while (point->align > 0 &&
               ((row - began) % point->align != 0 || row == began))
            row++;
    }
    return true;
}

static bool is_home(const struct point *point, const struct group *group,
    int rank, const struct work *work)
{
    const int n = point->size * point->experts;

    for (int i = 0; i < n; i++)
        if (work->splits_home[i] != point->splits[rank][i] ||
            work->splits_home[n + i] != (int64_t)begin_of(point, rank, i))
            return false;
    return work->wrong_back == 0 &&
           memcmp(work->home, rows_of(group, rank),
               begin_of(point, rank, n) * point->row_nbytes) == 0;
}

static bool is_right(const struct point *point, const struct group *group,
    int rank, const struct work *work)
{
    bool right;

    if (point->mistake != NO_MISTAKE)
        right = work->wrong == (uint64_t)point->mistaken + 1;
    else
        right = work->wrong == 0 && is_there(point, group, rank) &&
                is_home(point, group, rank, work);
    if (!right)
        diag("%d ranks, %d experts, aligned to %llu, rows of %llu bytes, "
             "mistake %d of %d: rank %d, wrong %llu",
            point->size, point->experts, (unsigned long long)point->align,
            (unsigned long long)point->row_nbytes, (int)point->mistake,
            point->mistaken, rank, (unsigned long long)work->wrong);
    return right;
}

/* Checks the rank and the kind of the invalid splits. */
static bool is_told(
    const struct point *point, const struct symc_device_failure *failure)
{
    static const struct symc_device_splits expected[MISTAKES] = {
        [NEGATIVE] = {SYMC_WRONG_SPLIT, 0, 0, 0, -1},
        [TOO_MANY] = {SYMC_WRONG_END, 0, 0, 0, ROWS + 1},
        [NO_ROOM] = {SYMC_WRONG_ROOM, 0, 0, 3, 2}};
    const struct symc_device_splits *told = &failure->splits,
                                    *right = &expected[point->mistake];
    const int64_t row =
        point->mistake == TOO_MANY ? (int64_t)point->in_rows : right->expected;

    if (failure->peer == (uint32_t)point->mistaken &&
        told->wrong == right->wrong && told->found == right->found &&
        told->expected == row)
        return true;
    diag("mistake %d of rank %d: peer %u, wrong %u, expected %lld, found %lld",
        (int)point->mistake, point->mistaken, failure->peer, told->wrong,
        (long long)told->expected, (long long)told->found);
    return false;
}

static bool check(const struct point *point)
{
    const struct sizes sizes = {.data = sizeof(struct layout),
        .in = 2 * sizeof(((struct layout *)0)->in)};
    const size_t nbytes = (size_t)point->size * sizeof(struct work);
    struct work *works = machine_alloc(16, nbytes);
    struct group group;
    bool right;

    memset(works, 0, nbytes);
    group_open(&group, point->size, &sizes);
    for (int r = 0; r < point->size; r++) {
        describe(point, &group, r, &works[r]);
        launch(point, &group, r, &works[r]);
    }
    if (point->mistake != NO_MISTAKE)
        group.expected = SYMC_DEVICE_SPLITS;
    right = group_run(&group) && (point->mistake == NO_MISTAKE ||
                                     is_told(point, &group.words->failure));
    for (int r = 0; right && r < point->size; r++)
        right = is_right(point, &group, r, &works[r]);
    group_close(&group);
    machine_free(works);
    return right;
}

static bool check_plan(int rounds)
{
    struct point point;
    bool right = true;

    for (int i = 0; right && i < rounds; i++) {
        draw_point(&point);
        right = check(&point);
    }
    return right;
}

const struct check checks_of_plans[] = {
    {"plan.h",
        "each piece is where it belongs, there and back, or a rank is named",
        check_plan, 500},
    {.file = NULL},
};
