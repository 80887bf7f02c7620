/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the settings of NCCL's communicators, with the stand-ins for the
 * driver and for NCCL: each reaches NCCL, or is refused with the reason on all
 * ranks.
 */
#include "t/nccl/by.h"
#include "t/nccl/exchanged.h"

#include "cuda/nccl/nccl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- settings that reach NCCL ---- */

/* The member of the stand-in that receives a setting. */
static const struct {
    const char *setting, *variable, *value;
    size_t at;
    int expected, otherwise;
    const char *what;
} numbers[] = {
    {"cuda.nccl_min_ctas", "SYMMCOLL_CUDA_NCCL_MIN_CTAS", "2",
        offsetof(struct fake_nccl, min_ctas), 2, SYMC_NCCL_UNDEFINED,
        "NCCL's kernels have as many blocks at least"},
    {"cuda.nccl_max_ctas", "SYMMCOLL_CUDA_NCCL_MAX_CTAS", "4",
        offsetof(struct fake_nccl, max_ctas), 4, SYMC_NCCL_UNDEFINED,
        "and as many at most"},
    {"cuda.nccl_cga", "SYMMCOLL_CUDA_NCCL_CGA", "0",
        offsetof(struct fake_nccl, cga), 0, SYMC_NCCL_UNDEFINED,
        "their blocks are in no clusters"},
    {"cuda.nccl_cta_policy", "SYMMCOLL_CUDA_NCCL_CTA_POLICY", "efficiency",
        offsetof(struct fake_nccl, cta_policy), SYMC_NCCL_EFFICIENCY,
        SYMC_NCCL_UNDEFINED, "as few serve as can"},
};

static size_t number;
static bool is_set;

static int reaches(struct symmcoll_group *group, int rank)
{
    int expected =
        is_set ? numbers[number].expected : numbers[number].otherwise;
    int found;

    device_use(rank);
    if (!say(exchange(group) == SYMMCOLL_OK, "an exchange"))
        return 0;
    found =
        atomic_load((_Atomic int *)((char *)find_nccl() + numbers[number].at));
    if (found != expected)
        diag("%s: expected %d, found %d", numbers[number].setting, expected,
            found);
    return found == expected;
}

static void test_numbers(void)
{
    for (number = 0; number < sizeof(numbers) / sizeof(numbers[0]); number++) {
        bool right;

        is_set = false;
        right = ranks_run(SIZE, reaches);
        setenv(numbers[number].variable, numbers[number].value, 1);
        is_set = true;
        right = ranks_run(SIZE, reaches) && right;
        unsetenv(numbers[number].variable);
        ok(right, "%s: %s", numbers[number].setting, numbers[number].what);
    }
}

static int has_the_network(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return say(exchange(group) == SYMMCOLL_OK, "an exchange") &&
           say(strcmp(find_nccl()->net, is_set ? "Socket" : "") == 0,
               "the network");
}

static void test_network(void)
{
    bool right;

    is_set = false;
    right = ranks_run(SIZE, has_the_network);
    setenv("SYMMCOLL_CUDA_NCCL_NET", "Socket", 1);
    is_set = true;
    ok(ranks_run(SIZE, has_the_network) && right,
        "cuda.nccl_net: NCCL is told its name");
    unsetenv("SYMMCOLL_CUDA_NCCL_NET");
}

/* ---- settings that prevent a communicator ---- */

static symmcoll_status_t expected;
static const char *text;

/* Checks that NCCL is refused, and that kernels run what they can. */
static int is_refused(struct symmcoll_group *group, int rank)
{
    const struct collective sum = {
        .kind = SYMC_ALL_REDUCE, .dtype = SYMMCOLL_INT32, .count = ELEMENTS};

    device_use(rank);
    return right_by(group, rank, &sum, false) &&
           exchanges_without(group, expected, text) &&
           right_by(group, rank, &sum, false);
}

static void test_refused(void)
{
    setenv("SYMMCOLL_CUDA_NCCL_CTA_POLICY", "zero", 1);
    setenv("FAKE_NCCL_VERSION", "22707", 1);
    expected = SYMMCOLL_ERR_UNSUPPORTED;
    text = "cuda.nccl_cta_policy = zero: expected NCCL 2.28.0 or later, found "
           "2.27.7 in ";
    on_both(SIZE, is_refused, "a policy that this NCCL lacks");
    unsetenv("FAKE_NCCL_VERSION");
    unsetenv("SYMMCOLL_CUDA_NCCL_CTA_POLICY");
    setenv("SYMMCOLL_CUDA_NCCL_MIN_CTAS", "8", 1);
    setenv("SYMMCOLL_CUDA_NCCL_MAX_CTAS", "4", 1);
    expected = SYMMCOLL_ERR_CONFIG;
    text = "cuda.nccl_min_ctas: expected cuda.nccl_max_ctas = 4 at most, found "
           "8";
    on_both(SIZE, is_refused, "more blocks at least than at most");
    unsetenv("SYMMCOLL_CUDA_NCCL_MAX_CTAS");
    unsetenv("SYMMCOLL_CUDA_NCCL_MIN_CTAS");
}

static int is_allowed(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return say(exchange(group) == SYMMCOLL_OK, "an exchange");
}

/* Sets the variable in a file that NCCL reads. */
static void test_file(void)
{
    char path[] = "/tmp/nccl.conf.XXXXXX", expected_text[128];
    int fd = mkstemp(path);

    if (fd < 0 || dprintf(fd, "# ours\nNCCL_COMM_BLOCKING=1\n") < 0)
        diag("no file: %s", path);
    setenv("NCCL_CONF_FILE", path, 1);
    (void)snprintf(expected_text, sizeof(expected_text),
        "%s:2: NCCL_COMM_BLOCKING: expected it unset or 0, found 1", path);
    text = expected_text;
    expected = SYMMCOLL_ERR_CONFIG;
    on_both(SIZE, is_refused, "a file of NCCL's that has them block is named");
    unsetenv("NCCL_CONF_FILE");
    (void)unlink(path);
    (void)close(fd);
}

/* Refuses blocking communicators, because a blocking call can be neither timed
 * out nor aborted. */
static void test_blocking(void)
{
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    expected = SYMMCOLL_ERR_CONFIG;
    text = "NCCL_COMM_BLOCKING: expected it unset or 0, found 1";
    on_both(SIZE, is_refused, "a variable that has calls of NCCL block");
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    on_both(SIZE, is_allowed, "one that says that they do not");
    unsetenv("NCCL_COMM_BLOCKING");
    test_file();
}

/* ---- ranks that share a device ---- */

static bool by_nccl;

static int shares(struct symmcoll_group *group, int rank)
{
    const struct collective sum = {
        .kind = SYMC_ALL_REDUCE, .dtype = SYMMCOLL_INT32, .count = ELEMENTS};

    device_use(0);
    return right_by(group, rank, &sum, by_nccl) &&
           say(exchange_by(group, by_nccl) == SYMMCOLL_OK, "an exchange");
}

static void test_shared(void)
{
    bool right;

    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    by_nccl = false;
    right = ranks_run(SIZE, shares);
    setenv("SYMMCOLL_CUDA_NCCL_SHARED", "on", 1);
    by_nccl = true;
    ok(ranks_run(SIZE, shares) && right,
        "cuda.nccl_shared: NCCL serves ranks that share a device");
    unsetenv("SYMMCOLL_CUDA_NCCL_SHARED");
    unsetenv("SYMMCOLL_CUDA_SHARE_DEVICE");
}

int main(void)
{
    device_begin();
    name_nccl();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    test_numbers();
    test_network();
    test_refused();
    test_blocking();
    test_shared();
    return done_testing();
}
