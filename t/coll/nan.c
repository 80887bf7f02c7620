/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests errors.nan_check: the input of an operation is searched for NaN
 * elements before other ranks see the call (H25, H26).
 */
#include "../tap.h"
#include "data.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 1000 /* elements of a buffer: vectors and a remainder */

/* Checks that a call was refused for these reasons. */
static bool is_refused(
    symmcoll_status_t status, const char *where, const char *which, int rank)
{
    char who[32];
    const char *detail = symmcoll_last_error();
    bool right;

    snprintf(who, sizeof(who), "rank %d", rank);
    right = status == SYMMCOLL_ERR_INVALID &&
            strncmp(detail, where, strlen(where)) == 0 &&
            strstr(detail, which) != NULL && strstr(detail, who) != NULL;
    if (!right)
        diag("%s: found %s: %s", where, symmcoll_status_name(status), detail);
    return right;
}

/* Only the second rank has a NaN; all others wait for its next call. */
static int one_is_named(struct symmcoll_group *group, int rank)
{
    float in[N], out[N];
    uint64_t before = symmcoll_group_sequence(group);
    bool right = true;

    for (int i = 0; i < N; i++)
        in[i] = 1;
    in[4] = INFINITY;
    if (rank == 1) {
        in[517] = in[999] = nanf("");
        right = is_refused(symmcoll_all_reduce(group, out, in, N,
                               SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL),
            "all_reduce of group",
            "found element 517 of in NaN (2 elements are, of 1000)", 1);
        in[517] = in[999] = 1;
    }
    right = right && symmcoll_all_reduce(group, out, in, N, SYMMCOLL_FLOAT32,
                         SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    return right && out[517] == (float)symmcoll_group_size(group) &&
           symmcoll_group_sequence(group) == before + 1;
}

/* ---- types ---- */

struct pattern {
    enum symmcoll_dtype dtype;
    uint64_t is[2];     /* NaN, also in the second half of a complex number */
    uint64_t others[2]; /* its nearest values: infinity, or the largest
                         * number */
};

static const struct pattern patterns[] = {
    {SYMMCOLL_FLOAT16, {0x7c01, 0xfe00}, {0x7c00, 0xfc00}},
    {SYMMCOLL_BFLOAT16, {0x7f81, 0xffc0}, {0x7f80, 0xff80}},
    {SYMMCOLL_FLOAT32, {0x7f800001, 0xffc00000}, {0x7f800000, 0xff800000}},
    {SYMMCOLL_FLOAT64, {UINT64_C(0x7ff0000000000001), UINT64_C(0xfff8) << 48},
        {UINT64_C(0x7ff) << 52, UINT64_C(0xfff) << 52}},
    {SYMMCOLL_COMPLEX64, {UINT64_C(0x7f800001), UINT64_C(0x7f800001) << 32},
        {UINT64_C(0x7f800000), UINT64_C(0x7f800000) << 32}},
    {SYMMCOLL_FLOAT8_E4M3FN, {0x7f, 0xff}, {0x7e, 0xfe}},
    {SYMMCOLL_FLOAT8_E5M2, {0x7d, 0xfe}, {0x7c, 0xfc}},
    {SYMMCOLL_FLOAT8_E4M3FNUZ, {0x80, 0x80}, {0x7f, 0xff}},
    {SYMMCOLL_FLOAT8_E5M2FNUZ, {0x80, 0x80}, {0x7f, 0xff}},
    {SYMMCOLL_FLOAT8_E8M0FNU, {0xff, 0xff}, {0xfe, 0x00}},
    {SYMMCOLL_INT32, {0, 0}, {UINT32_MAX, 0x7fc00000}},
    {SYMMCOLL_UINT8, {0, 0}, {0xff, 0x7f}},
};

/* Checks, on a single rank, whether a bit pattern is reported at each of
 * several places, or at none. */
static bool is_found(struct symmcoll_group *group, enum symmcoll_dtype dtype,
    uint64_t pattern, bool expected)
{
    static const size_t places[] = {0, 63, 64, 517, N - 1};
    size_t elem = symmcoll_dtype_size(dtype);
    static _Thread_local char in[N * 16], out[N * 16];

    for (size_t i = 0; i < LENGTH(places); i++) {
        char which[64];
        symmcoll_status_t status;

        memset(in, 0, sizeof(in));
        memcpy(in + places[i] * elem, &pattern,
            elem < sizeof(pattern) ? elem : sizeof(pattern));
        status = symmcoll_all_gather(group, out, in, N, dtype, NULL, NULL);
        snprintf(which, sizeof(which), "element %zu of in", places[i]);
        if (expected ? !is_refused(status, "all_gather", which, 0)
                     : status != SYMMCOLL_OK) {
            diag("%s, %zu", symmcoll_dtype_name(dtype), places[i]);
            return false;
        }
    }
    return true;
}

static int every_type_is_searched(struct symmcoll_group *group, int rank)
{
    bool right = rank == 0;

    for (size_t i = 0; i < LENGTH(patterns) && right; i++) {
        const struct pattern *it = &patterns[i];

        for (int k = 0; k < 2 && right; k++)
            right = (it->is[k] == 0 ||
                        is_found(group, it->dtype, it->is[k], true)) &&
                    is_found(group, it->dtype, it->others[k], false);
    }
    return right;
}

/* ---- operations ---- */

#define F32 SYMMCOLL_FLOAT32
#define SUM SYMMCOLL_SUM

/* Runs every operation with an input on both ranks; both pass a NaN, and both
 * are refused. */
static int every_operation_is_searched(struct symmcoll_group *group, int rank)
{
    float bad[8] = {0, 0, 0, 0, 0, NAN, 0, 0}, good[8] = {0}, out[16];
    const void *ins[2] = {good, bad};
    void *outs[2] = {out, out + 8};
    const size_t counts[2] = {2, 6}, halves[2] = {4, 4}, eight[2] = {8, 8};
    struct symmcoll_pair_op op = SYMMCOLL_PAIR_OP_INIT;
    const int across[2] = {1, 0};
    int peer = 1 - rank;
    bool right = true;

#define REFUSED(call, name, which) \
    right = right && is_refused(call, name, which, rank)
    REFUSED(symmcoll_reduce(group, out, bad, 8, F32, SUM, peer, NULL, NULL),
        "reduce", "element 5 of in");
    REFUSED(symmcoll_reduce_scatter(group, out, bad, 4, F32, SUM, NULL, NULL),
        "reduce_scatter", "element 5 of in");
    REFUSED(symmcoll_gather(group, out, bad, 8, F32, peer, NULL, NULL),
        "gather", "element 5 of in");
    REFUSED(symmcoll_broadcast(group, bad, 8, F32, rank, NULL, NULL),
        "broadcast", "element 5 of in");
    REFUSED(symmcoll_scatter(group, out, bad, 4, F32, rank, NULL, NULL),
        "scatter", "element 5 of in");
    REFUSED(symmcoll_all_to_all(group, out, bad, 4, F32, NULL, NULL),
        "all_to_all", "element 5 of in");
    REFUSED(symmcoll_all_to_all_v(group, out, 8, rank == 0 ? counts : halves,
                bad, 8, rank == 0 ? counts : halves, F32, NULL, NULL),
        "all_to_all_v", "element 5 of in");
    REFUSED(symmcoll_all_to_all_list(
                group, outs, eight, ins, eight, F32, NULL, NULL),
        "all_to_all_list", "element 5 of ins[1]");
    REFUSED(
        symmcoll_all_gather_list(group, outs, eight, bad, 8, F32, NULL, NULL),
        "all_gather_list", "element 5 of in");
    REFUSED(symmcoll_all_reduce_coalesced(
                group, outs, ins, eight, 2, F32, SUM, NULL, NULL),
        "all_reduce_coalesced", "element 5 of in");
    right = right && strstr(symmcoll_last_error(), "buffer 1 of 2") != NULL;
    REFUSED(symmcoll_send(group, bad, 8, F32, peer, 0, NULL, NULL), "send",
        "element 5 of in");
    REFUSED(symmcoll_permute(group, out, bad, 8, F32, across, NULL, NULL), "",
        "element 5 of in");
    op.kind = SYMMCOLL_PAIR_SEND;
    op.buf = bad;
    op.count = 8;
    op.dtype = F32;
    op.peer = peer;
    REFUSED(symmcoll_batch(group, &op, 1, NULL, NULL), "", "element 5 of in");
#undef REFUSED
    return right;
}

/* Checks that output buffers are not searched: they may hold anything. */
static int what_is_received_is_not(struct symmcoll_group *group, int rank)
{
    float good[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float bad[8] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    float *buf = rank == 0 ? good : bad, part[4];
    bool right =
        symmcoll_broadcast(group, buf, 4, F32, 0, NULL, NULL) == SYMMCOLL_OK &&
        buf[3] == 4;

    /* In a scatter only the root has an input. */
    bad[0] = NAN;
    right = right &&
            symmcoll_scatter(group, part, buf, 4, F32, 0, NULL, NULL) ==
                SYMMCOLL_OK &&
            part[0] == (rank == 0 ? 1 : 5);
    if (rank == 0)
        return right && symmcoll_send(group, good, 4, F32, 1, 7, NULL, NULL) ==
                            SYMMCOLL_OK;
    return right &&
           symmcoll_recv(group, bad, 4, F32, 0, 7, NULL, NULL, NULL) ==
               SYMMCOLL_OK &&
           bad[0] == 1;
}

/* ---- the setting ---- */

/* Checks that a NaN is sent in a world with settings that allow it, and
 * captures the log. */
static bool is_sent(char *text, size_t nbytes)
{
    struct symmcoll_world *world;
    float in = NAN, out = 0;
    FILE *file;
    int saved;
    bool right;
    size_t got;

    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return false;
    file = tmpfile();
    if (file == NULL)
        abort();
    saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    right = symmcoll_all_reduce(symmcoll_world_group(world), &out, &in, 1, F32,
                SUM, NULL, NULL) == SYMMCOLL_OK &&
            isnan(out);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    got = fread(text, 1, nbytes - 1, file);
    text[got] = '\0';
    fclose(file);
    return symmcoll_finalize(world) == SYMMCOLL_OK && right;
}

static int off_looks_at_nothing(int rank, int size, void *arg)
{
    char text[1000];

    (void)rank;
    (void)size;
    (void)arg;
    unsetenv("SYMMCOLL_ERRORS_NAN_CHECK");
    return !(is_sent(text, sizeof(text)) && text[0] == '\0');
}

static int warn_logs_it(int rank, int size, void *arg)
{
    char text[1000];

    (void)rank;
    (void)size;
    (void)arg;
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "warn", 1);
    return !(
        is_sent(text, sizeof(text)) &&
        strstr(text, "all_reduce of group 0: rank 0") != NULL &&
        strstr(text, "element 0 of in is NaN (1 element is, of 1)") != NULL);
}

static int alias_is_error(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    float in = NAN, out;
    bool right;

    (void)size;
    (void)arg;
    unsetenv("SYMMCOLL_ERRORS_NAN_CHECK");
    setenv("TORCH_NCCL_NAN_CHECK", "1", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = is_refused(symmcoll_all_reduce(symmcoll_world_group(world), &out,
                           &in, 1, F32, SUM, NULL, NULL),
        "all_reduce", "element 0 of in", rank);
    return symmcoll_finalize(world) != SYMMCOLL_OK || !right;
}

/* Returns whether the body succeeds in a new process. */
static bool holds(raw_rank_fn body)
{
    int status;

    return ranks_spawn(1, body, NULL, &status) && status == 0;
}

int main(void)
{
    plan(11);
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    both_run(2, one_is_named,
        "H26: a NaN that is to be sent is an error with rank, operation and "
        "index");
    both_run(1, every_type_is_searched,
        "H25: floats of every type are searched, integers are not");
    both_run(2, every_operation_is_searched,
        "H25: every operation that sends is searched");
    both_run(2, what_is_received_is_not, "H25: what is received into is not");
    ok(holds(off_looks_at_nothing), "H26: by default nobody looks");
    ok(holds(warn_logs_it),
        "H26: errors.nan_check = warn logs it, and the operation runs");
    ok(holds(alias_is_error),
        "H21: TORCH_NCCL_NAN_CHECK=1 is errors.nan_check = error");
    return done_testing();
}
