/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests messages that no receive matches: messages with other tags when a
 * receive times out, and messages of groups that their receiver has released.
 */
#include "../coll/data.h"
#include "pair.h"

#include "group/group.h"
#include "message/message_state.h"
#include "t/world/faults.h"

#include <string.h>

/* ---- other tags ---- */

struct plan {
    int source;             /* of the receive */
    const int64_t *tags[2]; /* sent by ranks 0 and 1, 7 last */
    const char *text;
};

/* Rank 2 waits for tag 7; the others send the tags of the plan. */
static int receive_in_vain(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_call call = faults_timeout(0.3);
    struct symmcoll_group *other;
    int value = 0;
    bool right;

    if (!faults_init(self) ||
        symmcoll_group_create(self->world, NULL, &other) != SYMMCOLL_OK)
        return 1;
    /* A message of another group, which must not affect this one. */
    if (self->rank < 2 && !put(other, 2, 88, 1, self->rank, 0))
        return 1;
    if (self->rank < 2) {
        for (const int64_t *tag = plan->tags[self->rank]; *tag != 7; tag++) {
            if (symmcoll_send(self->group, &value, 1, SYMMCOLL_INT32, 2, *tag,
                    NULL, NULL) != SYMMCOLL_OK)
                return 1;
        }
    }
    faults_barrier(self);
    if (self->rank == 2)
        faults_note(self, symmcoll_recv(self->group, &value, 1, SYMMCOLL_INT32,
                              plan->source, 7, NULL, &call, NULL));
    right = self->rank < 2 ||
            (get(other, 0, 88, 1, 0, 0) && get(other, 1, 88, 1, 1, 0));
    faults_reach(self, 1);
    faults_pass(self, 1);
    return faults_finalize(self) || !right;
}

static void other_tags(const struct plan *plan, const char *sentence)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 3, receive_in_vain, plan);
    good = faults_await(&job, 2, 1);
    good = faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_TIMEOUT,
               " timed out after 0.3 s", plan->text, NULL) &&
           good;
    good =
        (strstr(plan->text, "did not come") != NULL) ==
            (strstr(faults_told(&job, 2, 0)->detail, "did not come") != NULL) &&
        good;
    faults_open(&job, 1);
    good = faults_finish(&job, 0) && good;
    ok(faults_clear_dumps(3) && good, "%s", sentence);
}

/* ---- groups that have been released ---- */

#define ROUNDS 150
#define EACH 40 /* messages between two answers: less than there are slots */

static size_t count_kept(struct symmcoll_group *group, int rank)
{
    struct symc_pairs *pairs = group->world->pairs;
    size_t count;

    symc_pairs_enter(pairs);
    count = pairs->peers[rank].kept_count;
    symc_pairs_leave(pairs);
    return count;
}

/* Rank 1 releases a group to which rank 0 sends more than is kept, both small
 * and large messages; the answers use the world's group. */
static int released_groups_keep_nothing(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    int numbers[1000] = {0};
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &group) == SYMMCOLL_OK;

    if (rank == 1)
        right = right && symmcoll_group_free(group) == SYMMCOLL_OK;
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; right && i < ROUNDS; i++) {
        if (rank == 1) {
            right = get(all, 0, 9, 1, 0, i) && put(all, 0, 9, 1, 1, i);
            continue;
        }
        for (int k = 0; right && k < EACH; k++)
            right =
                is_status(symmcoll_send(group, numbers, k % 8 == 0 ? 1000 : 2,
                              SYMMCOLL_INT32, 1, k, NULL, NULL),
                    SYMMCOLL_OK, "");
        right = right && put(all, 1, 9, 1, 0, i) && get(all, 1, 9, 1, 1, i);
    }
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK &&
            (rank == 0 || say(count_kept(all, 0) == 0, "kept"));
    return (rank == 1 || symmcoll_group_free(group) == SYMMCOLL_OK) && right;
}

/* Rank 0 keeps messages of rank 1 when it receives a later one in another group, and
 * releases theirs. */
static int kept_ones_go_with_their_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    int numbers[2] = {0};
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &group) == SYMMCOLL_OK;

    for (int i = 0; right && rank == 1 && i < 5; i++)
        right = is_status(
            symmcoll_send(group, numbers, 2, SYMMCOLL_INT32, 0, i, NULL, NULL),
            SYMMCOLL_OK, "");
    if (rank == 1)
        right = right && put(all, 0, 9, 1, 1, 0);
    else
        right = right && get(all, 1, 9, 1, 1, 0) &&
                say(count_kept(all, 1) == 5, "kept");
    if (rank == 1)
        return symmcoll_group_free(group) == SYMMCOLL_OK && right;
    return is_status(symmcoll_group_free(group), SYMMCOLL_ERR_MISMATCH,
               "5 messages were not received: expected none, found the first "
               "from rank 1 with 2 elements of int32 and tag 0") &&
           say(count_kept(all, 1) == 0, "dropped") && right;
}

/* A message that arrives before its group exists here is kept. */
static int groups_to_come_are_kept(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *first, *second;
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &first) == SYMMCOLL_OK &&
                 symmcoll_group_free(first) == SYMMCOLL_OK &&
                 symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &second) == SYMMCOLL_OK;

    for (int i = 0; right && i < 100; i++)
        right = rank == 0 ? put(second, 1, i % 3, 2, 0, i % 3) : true;
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 99; right && i >= 0; i--)
        right = rank == 1 ? get(second, 0, i % 3, 2, 0, i % 3) : true;
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    return right && symmcoll_group_free(second) == SYMMCOLL_OK;
}

/* ---- size ---- */

static int sizes_have_a_limit(struct symmcoll_group *group, int rank)
{
    size_t most = ((size_t)1 << 39) - 32768;
    static char byte;
    struct symmcoll_pair_op op = SYMMCOLL_PAIR_OP_INIT;

    op.kind = SYMMCOLL_PAIR_SEND;
    op.dtype = SYMMCOLL_UINT8;
    op.buf = &byte;
    op.peer = 1 - rank;
    op.count = most + 1;
    return is_status(symmcoll_send(group, &byte, most + 1, SYMMCOLL_UINT8,
                         1 - rank, 0, NULL, NULL),
               SYMMCOLL_ERR_INVALID,
               "send: expected a message of at most 549755781120 bytes, found "
               "549755781121") &&
           is_status(symmcoll_recv(group, &byte, most / 8 + 1, SYMMCOLL_INT64,
                         1 - rank, 0, NULL, NULL, NULL),
               SYMMCOLL_ERR_INVALID, "found 549755781128") &&
           is_status(symmcoll_batch(group, &op, 1, NULL, NULL),
               SYMMCOLL_ERR_INVALID,
               "batch: operation 0: send: expected a message of at most");
}

int main(void)
{
    static const int64_t none[] = {7}, three[] = {3, 5, 3, -2, 7},
                         nine[] = {9, 7}, many[] = {10, 11, 12, 13, 14, 15, 7};
    static const struct {
        struct plan plan;
        const char *sentence;
    } points[] = {
        {{0, {three, nine},
             ": messages with tags 3, 5, -2 from rank 0 came, none with tag 7"},
            "C41: a receive that times out says which other tags came"},
        {{1, {three, nine},
             ": a message with tag 9 from rank 1 came, none with tag 7"},
            "C41: those of its peer alone"},
        {{0, {many, none}, "tags 10, 11, 12, 13, 14, ... from rank 0 came"},
            "C41: the first of many"},
        {{SYMMCOLL_ANY_SOURCE, {three, nine},
             ": messages with tags 3, 5, -2 from rank 0, tag 9 from rank 1 "
             "came, none with tag 7"},
            "C41: from any source those of all"},
        {{0, {none, nine}, "rank 0 did not come"},
            "C41: a peer that has sent nothing did not come"},
    };

    plan((int)LENGTH(points) + 8);
    faults_begin();
    for (size_t i = 0; i < LENGTH(points); i++)
        other_tags(&points[i].plan, points[i].sentence);
    faults_end();
    both_run(2, released_groups_keep_nothing,
        "messages to a group that has been released are dropped");
    both_run(2, kept_ones_go_with_their_group,
        "those that were kept go with their group, and are named");
    both_run(
        2, groups_to_come_are_kept, "those of a group made after it are kept");
    both_run(2, sizes_have_a_limit,
        "a message that is too large is refused, with the limit");
    return done_testing();
}
