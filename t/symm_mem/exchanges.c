/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests exchanges of pieces with sizes in symmetric memory, against a plain
 * computation on the data of all ranks.
 */
#include "t/symm_mem/ops.h"

#define ROW 3 /* elements of int32 */
#define ROW_NBYTES ((size_t)ROW * 4)
#define EXPERTS_MOST 4
#define RANKS_MOST 8
#define PIECES_MOST (EXPERTS_MOST * RANKS_MOST)
#define SPLIT_MOST 9
#define ROWS_MOST ((size_t)PIECES_MOST * 2 * SPLIT_MOST)

/* Offsets in the buffers. */
#define IN 0
#define OUT (ROWS_MOST * ROW_NBYTES)
#define BACK (2 * OUT)
#define IN_SPLITS ((3 * OUT + 7) / 8 * 8)
#define OUT_SPLITS (IN_SPLITS + PIECES_MOST * 8)
#define BACK_SPLITS (OUT_SPLITS + 2 * PIECES_MOST * 8)
#define NBYTES (BACK_SPLITS + 2 * PIECES_MOST * 8)

/* The parameters of an exchange, from which the data and the results are
 * computed. */
struct model {
    int ranks, experts, round;
    size_t align;
};

/* Returns the rows of a rank's piece; every third one is empty, and one rank
 * has none. */
static int64_t split_of(const struct model *model, int rank, size_t piece)
{
    uint64_t state = seed_of(rank, (int)piece + 100 * model->round);
    uint32_t number = next_number(&state);

    return rank == 1 || number % 3 == 0 ? 0 : number / 3 % SPLIT_MOST;
}

static size_t pieces_of(const struct model *model)
{
    return (size_t)model->ranks * (size_t)model->experts;
}

/* Returns element i of a rank's row. */
static int32_t element(int rank, size_t row, size_t i)
{
    return (int32_t)((size_t)rank * 1000000 + row * 10 + i);
}

static size_t fill(const struct model *model, char *data, int rank)
{
    int64_t *splits = (void *)(data + IN_SPLITS);
    int32_t *in = (void *)(data + IN);
    size_t rows = 0;

    for (size_t piece = 0; piece < pieces_of(model); piece++) {
        splits[piece] = split_of(model, rank, piece);
        rows += (size_t)splits[piece];
    }
    for (size_t i = 0; i < rows * ROW; i++)
        in[i] = element(rank, i / ROW, i % ROW);
    memset(data + OUT, 0xee, OUT);
    memset(data + OUT_SPLITS, 0xee, 2 * PIECES_MOST * 8);
    return rows;
}

/* Returns the first row of a rank's piece in its input. */
static size_t start_of(const struct model *model, int rank, size_t piece)
{
    size_t start = 0;

    for (size_t i = 0; i < piece; i++)
        start += (size_t)split_of(model, rank, i);
    return start;
}

/* Checks the data that a rank received, and its splits. */
static bool is_right(
    const struct model *model, const char *data, int rank, bool splits_too)
{
    const int64_t *splits = (const void *)(data + OUT_SPLITS);
    const int32_t *out = (const void *)(data + OUT);
    size_t place = 0, at = 0;

    for (int expert = 0; expert < model->experts; expert++) {
        size_t began = at;

        for (int source = 0; source < model->ranks; source++, place++) {
            size_t piece =
                (size_t)rank * (size_t)model->experts + (size_t)expert;
            int64_t rows = split_of(model, source, piece);
            size_t from = start_of(model, source, piece);

            if (splits_too &&
                !HOLDS(splits[place] == rows &&
                       splits[pieces_of(model) + place] == (int64_t)at))
                return false;
            for (size_t i = 0; i < (size_t)rows * ROW; i++) {
                if (!HOLDS(out[at * ROW + i] ==
                           element(source, from + i / ROW, i % ROW)))
                    return false;
            }
            at += (size_t)rows;
        }
        if (model->align > 0) {
            size_t rows = (at - began + model->align - 1) / model->align;

            at = began + (rows > 0 ? rows : 1) * model->align;
        }
    }
    return true;
}

static struct symmcoll_symm_exchange describe(const struct model *model)
{
    struct symmcoll_symm_exchange exchange = SYMMCOLL_SYMM_EXCHANGE_INIT;

    exchange.in_offset = IN;
    exchange.out_offset = OUT;
    exchange.in_rows = ROWS_MOST;
    exchange.out_rows = ROWS_MOST;
    exchange.row = ROW;
    exchange.in_splits_offset = IN_SPLITS;
    exchange.out_splits_offset = OUT_SPLITS;
    exchange.major_align = model->align;
    exchange.dtype = SYMMCOLL_INT32;
    exchange.experts = model->experts;
    return exchange;
}

/* ---- bodies ---- */

/* Combinations of experts and alignment. */
static const int shapes[][2] = {{1, 0}, {2, 0}, {4, 0}, {2, 1}, {3, 8}, {4, 5}};

static int exchanges(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (size_t s = 0; good && s < LENGTH(shapes); s++) {
        struct model model = {.ranks = symmcoll_group_size(group),
            .experts = shapes[s][0],
            .round = (int)s,
            .align = (size_t)shapes[s][1]};
        struct symmcoll_symm_exchange exchange = describe(&model);

        fill(&model, data, rank);
        good = OK(symmcoll_symm_all_to_all_v(handle, &exchange, NULL)) &&
               is_right(&model, data, rank, true);
        if (!good)
            diag("%d experts, alignment %zu", model.experts, model.align);
    }
    return part(group, data, handle) && good;
}

/* Exchanges forth and back: every rank has its original rows and splits. */
static int returns(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    for (size_t s = 0; good && s < LENGTH(shapes); s++) {
        struct model model = {.ranks = symmcoll_group_size(group),
            .experts = shapes[s][0],
            .round = (int)s + 20,
            .align = (size_t)shapes[s][1]};
        struct symmcoll_symm_exchange there = describe(&model), back = there;
        size_t rows = fill(&model, data, rank);
        const int64_t *splits = (const void *)((char *)data + BACK_SPLITS);

        back.in_offset = OUT;
        back.out_offset = BACK;
        back.in_splits_offset = OUT_SPLITS;
        back.out_splits_offset = BACK_SPLITS;
        memset((char *)data + BACK, 0xdd, OUT);
        good = OK(symmcoll_symm_all_to_all_v(handle, &there, NULL)) &&
               OK(symmcoll_symm_all_to_all_v_back(handle, &back, NULL)) &&
               equal_bytes((char *)data + BACK, (char *)data + IN,
                   rows * ROW_NBYTES, "back") &&
               equal_bytes(splits, (char *)data + IN_SPLITS,
                   pieces_of(&model) * 8, "splits");
        for (size_t p = 0; good && p < pieces_of(&model); p++)
            good = HOLDS(splits[pieces_of(&model) + p] ==
                         (int64_t)start_of(&model, rank, p));
    }
    return part(group, data, handle) && good;
}

/* Runs one plan several times, and pushes rows to the places that it
 * returns. */
static int plans(struct symmcoll_group *group, int rank)
{
    struct model model = {.ranks = symmcoll_group_size(group),
        .experts = 3,
        .round = 50,
        .align = 4};
    struct symmcoll_symm_exchange exchange = describe(&model);
    struct symmcoll_symm_plan *plan = NULL;
    int to[ROWS_MOST];
    size_t rows[ROWS_MOST], count = 0, all;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    all = good ? fill(&model, data, rank) : 0;
    good =
        good && OK(symmcoll_symm_plan_create(handle, &exchange, NULL, &plan));
    for (int i = 0; good && i < 3; i++) {
        memset((char *)data + OUT, 0xcc, OUT);
        good = OK(symmcoll_symm_plan_run(plan, NULL)) &&
               is_right(&model, data, rank, true);
    }
    for (size_t p = 0; good && p < pieces_of(&model); p++) {
        size_t first;
        int receiver;

        good = OK(symmcoll_symm_plan_place(plan, p, &receiver, &first));
        for (int64_t i = 0; good && i < split_of(&model, rank, p); i++) {
            to[count] = receiver;
            rows[count++] = first + (size_t)i;
        }
    }
    memset((char *)data + OUT, 0xbb, OUT);
    good = good && HOLDS(count == all) &&
           OK(symmcoll_barrier(group, NULL, NULL)) &&
           OK(symmcoll_symm_push_rows(handle, OUT, ROWS_MOST, (char *)data + IN,
               count, ROW, SYMMCOLL_INT32, to, rows, NULL)) &&
           is_right(&model, data, rank, false);
    symmcoll_symm_plan_free(plan);
    return part(group, data, handle) && good;
}

/* ---- an error of one rank, which all report ---- */

static bool refuses(struct symmcoll_group *group, struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange, const char *text)
{
    char *data;

    return REFUSED(symmcoll_symm_all_to_all_v(handle, exchange, NULL),
               SYMMCOLL_ERR_INVALID, text) &&
           OK(symmcoll_symm_buffer(
               handle, symmcoll_group_rank(group), OUT, 8, (void **)&data)) &&
           HOLDS(data[0] == (char)0xee) &&
           OK(symmcoll_barrier(group, NULL, NULL));
}

static int checks_splits(struct symmcoll_group *group, int rank)
{
    struct model model = {
        .ranks = symmcoll_group_size(group), .experts = 2, .round = 70};
    struct symmcoll_symm_exchange exchange = describe(&model);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);
    int64_t *splits = (void *)((char *)data + IN_SPLITS);

    if (!good)
        return 0;
    fill(&model, data, rank);
    if (rank == 2)
        splits[1] = -4;
    good = refuses(group, handle, &exchange, "found -4 at piece 1") &&
           HOLDS(strstr(symmcoll_last_error(), "rank 2") != NULL);
    if (rank == 2)
        splits[1] = (int64_t)ROWS_MOST + 1;
    good =
        good && refuses(group, handle, &exchange, "rank 2: expected the end");
    if (rank == 2)
        splits[1] = INT64_MAX;
    good =
        good && refuses(group, handle, &exchange, "rank 2: expected the end");
    if (rank == 2)
        splits[1] = 30;
    exchange.out_rows = 20;
    good = good && refuses(group, handle, &exchange, "rank 0: expected room");
    return part(group, data, handle) && good;
}

static int checks_arguments(struct symmcoll_group *group, int rank)
{
    struct model model = {
        .ranks = symmcoll_group_size(group), .experts = 2, .round = 80};
    struct symmcoll_symm_exchange good_one = describe(&model), bad;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle);

    if (!good)
        return 0;
    fill(&model, data, rank);
#define BAD(member, value, text)                                \
    (bad = good_one, bad.member = (value),                      \
        REFUSED(symmcoll_symm_all_to_all_v(handle, &bad, NULL), \
            SYMMCOLL_ERR_INVALID, text))
    good = BAD(experts, 0, "1 to 1024 experts") &&
           BAD(row, 0, "expected rows of") &&
           BAD(in_rows, NBYTES, "expected in within") &&
           BAD(out_offset, 8, "expected out apart from in") &&
           BAD(out_splits_offset, IN_SPLITS + 8, "apart from the splits") &&
           BAD(in_splits_offset, IN_SPLITS + 4, "on a multiple of 8") &&
           BAD(major_align, SIZE_MAX, "expected an alignment") &&
           BAD(dtype, SYMMCOLL_DTYPE_COUNT, "element type") &&
           REFUSED(symmcoll_symm_all_to_all_v(handle, NULL, NULL),
               SYMMCOLL_ERR_INVALID, "found NULL") &&
           REFUSED(symmcoll_symm_all_to_all_v(NULL, &good_one, NULL),
               SYMMCOLL_ERR_INVALID, "found NULL") &&
           REFUSED(symmcoll_symm_plan_run(NULL, NULL), SYMMCOLL_ERR_INVALID,
               "expected a plan");
    bad = good_one;
    bad.major_align = rank == 1 ? 4 : 0;
    good = good &&
           REFUSED(symmcoll_symm_all_to_all_v(handle, &bad, NULL),
               SYMMCOLL_ERR_MISMATCH, "digest of the exchange differs") &&
           OK(symmcoll_symm_all_to_all_v(handle, &good_one, NULL)) &&
           is_right(&model, data, rank, true);
    return part(group, data, handle) && good;
}

static int checks_rows(struct symmcoll_group *group, int rank)
{
    int to[1] = {0};
    size_t row[1] = {rank == 1 ? 7 : 0};
    int32_t in[ROW] = {1, 2, 3};
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool good = join(group, NBYTES, &data, &handle) &&
                REFUSED(symmcoll_symm_push_rows(handle, OUT, 7, in, 1, ROW,
                            SYMMCOLL_INT32, to, row, NULL),
                    SYMMCOLL_ERR_INVALID, "rank 1: expected rows") &&
                HOLDS(*(int32_t *)(void *)((char *)data + OUT) == 0);

    row[0] = (size_t)rank;
    to[0] = 5 * (rank == 0);
    good = good && REFUSED(symmcoll_symm_push_rows(handle, OUT, 7, in, 1, ROW,
                               SYMMCOLL_INT32, to, row, NULL),
                       SYMMCOLL_ERR_INVALID, "rank 0: expected rows");
    return part(group, data, handle) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, exchanges) && run(3, exchanges) && run(8, exchanges),
        "%s: pieces arrive in the order of experts, aligned (S66 S67)", kind);
    ok(run(2, returns) && run(5, returns), "%s: they return (S67)", kind);
    ok(run(2, plans) && run(6, plans),
        "%s: a plan is made once and moves many times (S68)", kind);
    ok(run(3, checks_splits),
        "%s: bad splits of one rank are an error on all (S66)", kind);
    ok(run(3, checks_arguments),
        "%s: bad arguments are refused, and different ones (S66 S67)", kind);
    ok(run(3, checks_rows), "%s: a row that is nowhere is refused on all (S68)",
        kind);
}

int main(void)
{
    plan(13);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    ok(threads_run(1, exchanges) && threads_run(1, returns) &&
            threads_run(1, plans),
        "one rank alone exchanges with itself");
    return done_testing();
}
