/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests machines without a CUDA driver, and machines with an unusable one. */
#include "cuda/driver.h"
#include "cuda/find.h"
#include "t/cuda/loaded.h"

#include <sys/stat.h>

#define FOLDER_NBYTES (PATH_MAX - 64)

static int on_the_stack_is_the_hosts(void)
{
    int16_t device = 99;

    return !symc_cuda_find(&device, &device) && device == 99;
}

static int its_absence_is_told(void *unused)
{
    const struct symc_cuda *cuda = NULL;
    struct loaded loaded;
    char reason[SYMC_DETAIL_MAX];

    (void)unused;
    return on_the_stack_is_the_hosts() &&
           failed_with(symc_cuda_load(symc_fail, &cuda),
               SYMMCOLL_ERR_UNSUPPORTED,
               "no CUDA driver: libcuda.so.1: cannot open shared object "
               "file") &&
           cuda == NULL && symc_cuda_loaded() == NULL &&
           strcmp(symc_cuda_reason(reason), symmcoll_last_error()) == 0 &&
           on_the_stack_is_the_hosts() && load_fake(&loaded) &&
           symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK &&
           symc_cuda_reason(reason)[0] == '\0';
}

/* Builds a libcuda.so.1 from a source text; false without a compiler. */
static bool build(const char *source, char *folder, char *path)
{
    const char *compiler = getenv("T_CC"), *flags = getenv("T_CFLAGS");
    const char *built = getenv("T_BUILDDIR");
    char command[3 * PATH_MAX];

    if (compiler == NULL || built == NULL)
        return false;
    (void)snprintf(folder, FOLDER_NBYTES, "%s/t/scratch/absent-%ld", built,
        (long)getpid());
    (void)snprintf(path, PATH_MAX, "%s/libcuda.so.1", folder);
    (void)snprintf(command, sizeof(command),
        "mkdir -p %s && echo '%s' | %s %s -x c -shared -fPIC "
        "-Wl,-soname,libcuda.so.1 -o %s -",
        folder, source, compiler, flags != NULL ? flags : "", path);
    return system(command) == 0;
}

struct none {
    const char *source, *text;
};

static int is_refused(void *arg)
{
    const struct none *none = arg;
    const struct symc_cuda *cuda = NULL;
    char folder[FOLDER_NBYTES], path[PATH_MAX];
    int right;

    if (!build(none->source, folder, path))
        return 0;
    right = dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL &&
            failed_with(symc_cuda_load(symc_fail, &cuda),
                SYMMCOLL_ERR_UNSUPPORTED, none->text);
    return unlink(path) == 0 && rmdir(folder) == 0 && right;
}

/* ---- places where it could be found ---- */

/* Runs in a program for which the loader would find the driver: looking up the
 * device of an address does not load the driver. */
static int it_is_not_loaded_for_a_question(void)
{
    const struct symc_cuda *cuda = NULL;

    return on_the_stack_is_the_hosts() &&
           dlopen(SYMC_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == NULL &&
           symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK;
}

static int start_with_a_path(void *unused)
{
    const char *built = getenv("T_BUILDDIR");
    char path[PATH_MAX];

    (void)unused;
    (void)snprintf(path, sizeof(path), "%s/t/cuda/fake/.libs",
        built != NULL ? built : ".");
    if (setenv("LD_LIBRARY_PATH", path, 1) == 0)
        (void)execl("/proc/self/exe", "absent", "path", (char *)NULL);
    return 0;
}

int main(int argc, char **argv)
{
    struct none nothing = {"int x;",
        "libcuda.so.1: expected a CUDA driver, found no version of one"};
    struct none old = {
        "int cuDriverGetVersion(int *v) { *v = 11040; return 0; }",
        "libcuda.so.1: expected a driver of CUDA 12.4 or later, found 11.4"};
    struct none odd = {
        "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }",
        "libcuda.so.1: expected cuGetProcAddress_v2, found none in a driver of "
        "CUDA 13.0"};

    (void)argv;
    if (argc > 1)
        return it_is_not_loaded_for_a_question() ? 0 : 1;
    if (dlopen(SYMC_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL) != NULL)
        skip_all("this machine has a CUDA driver");
    plan(5);
    ok(run_child(its_absence_is_told, NULL),
        "where there is no driver that is told, until there is one");
    ok(run_child(is_refused, &nothing),
        "a library that is no driver is refused");
    ok(run_child(is_refused, &old),
        "a driver before 12.4 is refused with its version");
    ok(run_child(is_refused, &odd),
        "a driver without the function that finds the others is refused");
    ok(run_child(start_with_a_path, NULL),
        "a driver that could be found is loaded for an operation, and not for "
        "a question");
    return done_testing();
}
