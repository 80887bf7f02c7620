/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fused.blas = auto: all ranks adopt the choice of one, and the
 * program's own BLAS and its environment are unchanged. The libraries are
 * those of t/fused/fakes, which are found before the system's;
 * t/examples/blas.t tests unusable libraries.
 */
#include "../ranks.h"
#include "../tap.h"
#include "made.h"

#include <symmcoll.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPENBLAS 4 /* elements of the fakes' products */
#define BLIS 5

/* Returns the element that all elements of a product of this group have on all
 * ranks; 0: an error. */
static float multiply(struct symmcoll_group *group)
{
    float ones[4] = {1, 1, 1, 1}, all[2] = {0, 0}, mine = 0;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    if (!OK(symmcoll_fused_all_gather_matmul(
            group, &a, &a, 1, 0, NULL, NULL, &out)))
        return 0;
    mine = (float)made_at(&out, 0);
    symmcoll_f_free(symmcoll_group_world(group), &out);
    if (!OK(symmcoll_all_gather(
            group, all, &mine, 1, SYMMCOLL_FLOAT32, NULL, NULL)))
        return 0;
    if (all[0] != all[1])
        diag("products of rank 0 are by %g, of rank 1 by %g", (double)all[0],
            (double)all[1]);
    return all[0] == all[1] ? mine : 0;
}

/* Makes each rank measure another library as the faster one. */
static int one_choice(struct symmcoll_group *group, int rank)
{
    float number;

    setenv("FAST_BLAS", rank == 0 ? "4" : "5", 1);
    number = multiply(group);
    return number == OPENBLAS || number == BLIS;
}

static int takes_faster(struct symmcoll_group *group, int rank)
{
    (void)rank;
    setenv("FAST_BLAS", "5", 1);
    return multiply(group) == BLIS;
}

static int keeps_environment(struct symmcoll_group *group, int rank)
{
    char **before;

    (void)rank;
    setenv("FAST_BLAS", "4", 1);
    before = environ;
    return multiply(group) == OPENBLAS && environ == before &&
           getenv("OPENBLAS_CORETYPE") == NULL &&
           getenv("OPENBLAS_NUM_THREADS") == NULL;
}

static int keeps_own(struct symmcoll_group *group, int rank)
{
    (void)rank;
    setenv("FAST_BLAS", "4", 1);
    if (dlopen("libblis.so.4", RTLD_NOW | RTLD_LOCAL) == NULL) {
        diag("%s", dlerror());
        return 0;
    }
    return multiply(group) == BLIS;
}

static int takes_named_kernels(struct symmcoll_group *group, int rank)
{
    (void)rank;
    setenv("FAST_BLAS", "5", 1);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    return multiply(group) == OPENBLAS;
}

/* Restarts the program, because libraries are searched in the LD_LIBRARY_PATH
 * of its start. */
static void start_among_fakes(char **argv)
{
    const char *folder = getenv("T_BUILDDIR"),
               *path = getenv("LD_LIBRARY_PATH");
    char text[PATH_MAX];

    if (getenv("CHOICE_FAKES") != NULL)
        return;
    snprintf(text, sizeof(text), "%s/t/fused/fakes/.libs%s%s",
        folder != NULL ? folder : ".", path != NULL ? ":" : "",
        path != NULL ? path : "");
    setenv("LD_LIBRARY_PATH", text, 1);
    setenv("CHOICE_FAKES", "1", 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    (void)argc;
    start_among_fakes(argv);
    unsetenv("OPENBLAS_NUM_THREADS");
    setenv("SYMMCOLL_FUSED_BLAS", "auto", 1);
    plan(7);
    ok(ranks_run(2, takes_faster), "fused.blas: auto is the fastest library");
    ok(ranks_run(2, one_choice), "all ranks take the choice of one");
    ok(threads_run(2, takes_faster), "so do ranks that are threads");
    ok(ranks_run(2, keeps_environment), "the environment is as it was");
    ok(ranks_run(2, keeps_own),
        "a library that the program has loaded is taken");
    ok(ranks_run(2, takes_named_kernels),
        "OPENBLAS_CORETYPE is the program's choice of OpenBLAS");
    setenv("SYMMCOLL_FUSED_BLAS", "libblis.so.4:Haswell", 1);
    ok(ranks_run(2, takes_faster), "a library and kernels may be named");
    return done_testing();
}
