/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests exchanges in groups of some ranks, with roots given as global ranks. */
#include "../tap.h"
#include "data.h"

#define COUNT 10

/* Creates this rank's half of four ranks: 0 and 1, or 2 and 3. */
static struct symmcoll_group *make_half(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = NULL;

    if (symmcoll_group_split(all, rank / 2, rank, NULL, &half) != SYMMCOLL_OK)
        diag("rank %d: %s", rank, symmcoll_last_error());
    return half;
}

static bool is_all(const float *at, int value)
{
    for (int i = 0; i < COUNT; i++) {
        if (at[i] != (float)value)
            return false;
    }
    return true;
}

static void fill(float *at, int value)
{
    for (int i = 0; i < COUNT; i++)
        at[i] = (float)value;
}

/* Gathers at ranks 0 and 2. */
static int each_half_gathers(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    float in[COUNT], out[2][COUNT];
    void *outs[] = {out[0], out[1]};
    int root = symmcoll_group_rank_of(half, rank / 2 * 2);
    bool right;

    fill(in, rank);
    right =
        half != NULL &&
        symmcoll_gather_list(half, rank % 2 == 0 ? outs : NULL, in, COUNT,
            SYMMCOLL_FLOAT32, root, NULL, NULL) == SYMMCOLL_OK &&
        (rank % 2 == 1 || (is_all(out[0], rank) && is_all(out[1], rank + 1)));
    symmcoll_group_free(half);
    return right;
}

/* Scatters from ranks 1 and 3. */
static int each_half_scatters(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    float in[2][COUNT], out[COUNT];
    const void *ins[] = {in[0], in[1]};
    int root = symmcoll_group_rank_of(half, rank / 2 * 2 + 1);
    bool right;

    fill(in[0], rank - 1);
    fill(in[1], rank);
    right = half != NULL &&
            symmcoll_scatter_list(half, out, rank % 2 == 1 ? ins : NULL, COUNT,
                SYMMCOLL_FLOAT32, root, NULL, NULL) == SYMMCOLL_OK &&
            is_all(out, rank);
    symmcoll_group_free(half);
    return right;
}

/* Reduces at ranks 0 and 2. */
static int each_half_reduces(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    float x[COUNT];
    int root = symmcoll_group_rank_of(half, rank / 2 * 2);
    bool right;

    fill(x, rank);
    right = half != NULL &&
            symmcoll_reduce(half, x, x, COUNT, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
                root, NULL, NULL) == SYMMCOLL_OK &&
            is_all(x, rank % 2 == 0 ? 2 * rank + 1 : rank);
    symmcoll_group_free(half);
    return right;
}

/* Broadcasts from ranks 1 and 3. */
static int each_half_broadcasts(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half = make_half(all, rank);
    float x[COUNT];
    int root = symmcoll_group_rank_of(half, rank / 2 * 2 + 1);
    bool right;

    fill(x, rank);
    right = half != NULL &&
            symmcoll_broadcast(half, x, COUNT, SYMMCOLL_FLOAT32, root, NULL,
                NULL) == SYMMCOLL_OK &&
            is_all(x, rank / 2 * 2 + 1);
    symmcoll_group_free(half);
    return right;
}

/* Runs all other exchanges in both halves at once, small and large. */
static int each_half_exchanges(struct symmcoll_group *all, int rank)
{
    enum {
        MOST = 100000
    };
    struct symmcoll_group *half = make_half(all, rank);
    static _Thread_local int32_t in[2 * MOST], out[2 * MOST];
    bool right = half != NULL;

    for (size_t count = 1; right && count <= MOST; count *= 10) {
        size_t splits[] = {count, count / 2};
        size_t uneven = splits[rank % 2];

        for (size_t i = 0; i < 2 * count; i++)
            in[i] = rank * 4 + (int32_t)(i / count);
        right = symmcoll_all_to_all(half, out, in, count, SYMMCOLL_INT32, NULL,
                    NULL) == SYMMCOLL_OK &&
                out[0] == rank / 2 * 8 + rank % 2 &&
                out[2 * count - 1] == rank / 2 * 8 + 4 + rank % 2;
        /* Every rank has `count` elements for the first member, half of that
         * for the second. */
        right = right &&
                symmcoll_all_to_all_v(half, out, 2 * uneven,
                    (size_t[2]){uneven, uneven}, in, count + count / 2, splits,
                    SYMMCOLL_INT32, NULL, NULL) == SYMMCOLL_OK &&
                (uneven == 0 || out[2 * uneven - 1] / 4 == rank / 2 * 2 + 1);
    }
    symmcoll_group_free(half);
    return right;
}

/* Checks that a rank outside the group gets an error, and that nothing else
 * happens. */
static int others_are_told(struct symmcoll_group *all, int rank)
{
    static const int members[] = {0, 1};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *pair = NULL;
    float in[4] = {0}, out[4] = {0};
    void *outs[] = {out, out + 2};
    static const size_t twos[] = {2, 2};
    bool right;

    args.ranks = members;
    args.nranks = 2;
    right = symmcoll_group_create(symmcoll_group_world(all), &args, &pair) >= 0;
    if (right && rank > 1)
        right = symmcoll_all_to_all(pair, out, in, 2, SYMMCOLL_FLOAT32, NULL,
                    NULL) == SYMMCOLL_NOT_MEMBER &&
                symmcoll_all_to_all_list(pair, outs, NULL, NULL, NULL,
                    SYMMCOLL_FLOAT32, NULL, NULL) == SYMMCOLL_NOT_MEMBER &&
                symmcoll_all_gather_list(pair, outs, twos, in, 2,
                    SYMMCOLL_FLOAT32, NULL, NULL) == SYMMCOLL_NOT_MEMBER &&
                symmcoll_broadcast_coalesced(pair, outs, twos,
                    (enum symmcoll_dtype[2]){0, 0}, 2, 1, 0,
                    NULL) == SYMMCOLL_NOT_MEMBER;
    symmcoll_group_free(pair);
    return right;
}

int main(void)
{
    plan(12);
    both_run(4, each_half_gathers, "each half gathers for itself");
    both_run(4, each_half_scatters, "each half scatters for itself");
    both_run(4, each_half_reduces, "each half reduces for itself");
    both_run(4, each_half_broadcasts, "each half broadcasts for itself");
    both_run(4, each_half_exchanges, "each half exchanges for itself");
    both_run(4, others_are_told, "a rank that is no member is told");
    return done_testing();
}
