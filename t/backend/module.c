/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the module loader: a file that is not one of our modules is refused
 * with the reason. memory.c tests the functions of a module.
 */
#include "modules.h"

#include "backend/module.h"

#include <symmcoll.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files that are not modules ---- */

static int is_refused(
    const char *name, symmcoll_status_t expected, const char *text)
{
    const struct symc_backend *backend = NULL;
    symmcoll_status_t status = symc_module_load(name, &backend);

    if (status == expected && backend == NULL &&
        strstr(symmcoll_last_error(), text) != NULL)
        return 1;
    diag("'%.40s': %s: %s", name, symmcoll_status_name(status),
        symmcoll_last_error());
    return 0;
}

/* Builds t/backend/NAME.c as a module in a folder; false without a compiler. */
static bool build_module(const char *folder, const char *name)
{
    const char *compiler = getenv("T_CC"), *source = getenv("T_SRCDIR");
    const char *build = getenv("T_BUILDDIR");
    char command[3 * PATH_MAX];

    if (compiler == NULL || source == NULL || build == NULL)
        return false;
    snprintf(command, sizeof(command),
        "%s -std=gnu11 -D_GNU_SOURCE -fPIC -shared -I'%s/lib' -I'%s/lib' "
        "-o '%s/symmcoll_%s.so' '%s/t/backend/%s.c' >&2",
        compiler, build, source, folder, name, source, name);
    return system(command) == 0;
}

/* Writes a file of that name which is no shared object. */
static bool write_rubbish(const char *folder)
{
    char path[PATH_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/symmcoll_rubbish.so", folder);
    file = fopen(path, "w");
    if (file == NULL)
        return false;
    fputs("no module\n", file);
    return fclose(file) == 0;
}

static void remove_modules(const char *folder)
{
    static const char *const names[] = {
        "rubbish", "fifo", "old_module", "empty_module"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/symmcoll_%s.so", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* Checks that prefixes of a module, of several lengths, are refused. */
static bool cut_is_refused(const char *folder)
{
    char path[PATH_MAX];
    struct stat info;
    bool good = true;

    snprintf(path, sizeof(path), "%s/symmcoll_empty_module.so", folder);
    if (stat(path, &info) != 0)
        return false;
    for (int i = 15; i > 0; i--)
        good &= truncate(path, info.st_size * i / 16) == 0 &&
                is_refused("empty_module", SYMMCOLL_ERR_UNSUPPORTED,
                    info.st_size * i / 16 > 64 ? "cut off" : "");
    return good;
}

/* Puts files that are not our modules into the folder. */
static void test_strange_files(const char *folder)
{
    char path[PATH_MAX];

    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
    ok(write_rubbish(folder) &&
            is_refused("rubbish", SYMMCOLL_ERR_UNSUPPORTED, folder),
        "a file that is no module is UNSUPPORTED");
    snprintf(path, sizeof(path), "%s/symmcoll_fifo.so", folder);
    ok(mkfifo(path, 0600) == 0 && is_refused("fifo", SYMMCOLL_ERR_UNSUPPORTED,
                                      "expected a regular file"),
        "and so is a FIFO, without waiting for who writes to it");
    if (!build_module(folder, "old_module") ||
        !build_module(folder, "empty_module")) {
        skip(3, "no compiler: T_CC and T_SRCDIR name none");
        return;
    }
    ok(is_refused(
           "old_module", SYMMCOLL_ERR_UNSUPPORTED, "built with other headers"),
        "a module of another interface is UNSUPPORTED");
    ok(is_refused("empty_module", SYMMCOLL_ERR_UNSUPPORTED,
           "exports no 'symmcoll_backend'"),
        "a module without a backend is UNSUPPORTED");
    ok(cut_is_refused(folder), "a module that was cut off is UNSUPPORTED");
}

static void test_refusals(void)
{
    static char endless[PATH_MAX + 100];
    char folder[] = "/tmp/t-module-XXXXXX";

    ok(is_refused("no_such", SYMMCOLL_ERR_UNSUPPORTED, "symmcoll_no_such.so"),
        "a missing module is UNSUPPORTED, and named with its path");
    ok(is_refused("", SYMMCOLL_ERR_INVALID, "expected a name") &&
            is_refused("../fake_module", SYMMCOLL_ERR_INVALID, "found '../") &&
            is_refused("a b", SYMMCOLL_ERR_INVALID, "a-z") &&
            is_refused("Cuda", SYMMCOLL_ERR_INVALID, "a-z"),
        "a name that could leave the folder is INVALID");
    memset(endless, 'x', sizeof(endless) - 1);
    ok(is_refused(endless, SYMMCOLL_ERR_INVALID, "longer than"),
        "a name without end is INVALID");
    if (mkdtemp(folder) == NULL) {
        skip(5, "no scratch folder");
        return;
    }
    test_strange_files(folder);
    remove_modules(folder);
}

int main(void)
{
    const struct symc_backend *backend = NULL, *again = NULL;

    use_modules_of_tests();
    ok(strcmp(symc_module_folder(), getenv("SYMMCOLL_MODULE_DIR")) == 0,
        "modules are looked for where SYMMCOLL_MODULE_DIR says");
    if (!ok(symc_module_load("fake_module", &backend) == SYMMCOLL_OK &&
                strcmp(backend->name, "fake_module") == 0,
            "a module is loaded by its name")) {
        diag("%s", symmcoll_last_error());
        return done_testing();
    }
    ok(symc_module_load("fake_module", &again) == SYMMCOLL_OK &&
            again == backend,
        "loaded again it is the same");
    test_refusals();
    return done_testing();
}
