/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the flight recorder's entries for sends and receives. */
#include "../coll/data.h"
#include "pair.h"

#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns this rank's dump as text, which the caller frees. */
static char *dump(struct symmcoll_world *world, int rank)
{
    char path[64];
    char *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "pair-record-%d-%d.json", getpid(), rank);
    if (text == NULL ||
        !say(symmcoll_trace_dump(world, path, 0) == SYMMCOLL_OK, "dump"))
        return text;
    file = fopen(path, "r");
    if (file != NULL) {
        if (fread(text, 1, (1 << 20) - 1, file) == 0)
            diag("%s: nothing", path);
        fclose(file);
    }
    unlink(path);
    return text;
}

/* Returns the text of the n-th entry with a name, from 0; NULL: none. */
static const char *find(const char *text, const char *name, int n)
{
    char key[96];

    snprintf(key, sizeof(key), "\"profiling_name\": \"nccl:%s\"", name);
    for (const char *at = strstr(text, key); at != NULL;
         at = strstr(at + 1, key)) {
        if (n-- == 0)
            return at;
    }
    diag("no %s in %s", key, text);
    return NULL;
}

/* Returns whether the n-th entry of this name has these numbers directly
 * before its name, and has `rest`. */
static bool has(const char *text, const char *name, int n, const char *numbers,
    const char *rest)
{
    const char *at = find(text, name, n), *before;
    size_t length = strlen(numbers);

    if (at == NULL)
        return false;
    before = at - length - 2;
    return say(memcmp(before, numbers, length) == 0, numbers) &&
           say(strstr(at, rest) != NULL &&
                   strstr(at, rest) < strstr(at, "is_p2p") + 40,
               rest);
}

static int pairs_are_recorded(struct symmcoll_group *group, int rank)
{
    /* The last two are sent when rings exist. */
    static const size_t counts[] = {3, 500, 70000, 5, 700};
    bool right = true;
    char numbers[96];
    char *text;

    right = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    for (size_t i = 0; right && i < LENGTH(counts); i++)
        right = rank == 0 ? get(group, i == 1 ? SYMMCOLL_ANY_SOURCE : 1, 0,
                                counts[i], 1, 0)
                          : put(group, 0, 0, counts[i], 1, 0);
    text = dump(group->world, rank);
    for (int i = 0; right && i < (int)LENGTH(counts); i++) {
        char sizes[64];

        snprintf(numbers, sizeof(numbers),
            "\"collective_seq_id\": 1, \"p2p_seq_id\": %d, \"op_id\": %d",
            i + 1, i + 1);
        snprintf(sizes, sizeof(sizes), "\"input_sizes\": [[%zu]]", counts[i]);
        right =
            has(text, rank == 0 ? "recv 0<-1" : "send 1->0", i, numbers, sizes);
        snprintf(sizes, sizeof(sizes), "\"output_sizes\": [[%zu]]", counts[i]);
        right = right && has(text, rank == 0 ? "recv 0<-1" : "send 1->0", i,
                             numbers, sizes);
        right = right &&
                has(text, rank == 0 ? "recv 0<-1" : "send 1->0", i, numbers,
                    "\"state\": \"completed\"") &&
                has(text, rank == 0 ? "recv 0<-1" : "send 1->0", i, numbers,
                    "\"is_p2p\": true");
    }
    free(text);
    return right;
}

/* Checks the entry of a pending receive: it has no peer yet, but its label. */
static int what_goes_on_is_recorded(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work;
    int value = 7;
    char *text;
    bool right;

    call.label = "gradient";
    if (rank == 1)
        return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
               symmcoll_send(group, &value, 1, SYMMCOLL_INT32, 0, 0, NULL,
                   NULL) == SYMMCOLL_OK;
    right = say(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32,
                    SYMMCOLL_ANY_SOURCE, 0, NULL, &call, &work) == SYMMCOLL_OK,
        "recv");
    text = dump(group->world, rank);
    right = right &&
            has(text, "recv 0<-any", 0,
                "\"collective_seq_id\": 0, \"p2p_seq_id\": 1, \"op_id\": 1",
                "\"state\": \"started\"") &&
            say(strstr(text, "\"label\": \"gradient\"") != NULL, "label");
    free(text);
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && ends(work) &&
           right;
}

int main(void)
{
    plan(4);
    both_run(2, pairs_are_recorded,
        "C61 X11 each send and receive is recorded, with its peer, its number "
        "and its size");
    both_run(2, what_goes_on_is_recorded,
        "one that goes on is recorded with its label");
    return done_testing();
}
