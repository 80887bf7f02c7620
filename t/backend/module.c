/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module loader, with a module that has every table and every function:
 * each is called once and says so through the core; what is no module of ours
 * is refused with the reason.
 */
#include "../ranks.h"
#include "../tap.h"

#include "backend/module.h"
#include "group/group.h"

#include <symmcoll.h>

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a core that keeps what it is told ---- */

struct diary {
    char text[8192];
    size_t used;
    bool failed;
};

static void note(struct diary *diary, const char *format, ...)
    SYMC_PRINTF(2, 3);

static void note_all(struct diary *diary, const char *format, va_list arguments)
{
    size_t room = sizeof(diary->text) - diary->used;
    int wrote = vsnprintf(diary->text + diary->used, room, format, arguments);

    diary->used += wrote < 0              ? 0
                   : (size_t)wrote < room ? (size_t)wrote
                                          : room - 1;
}

static void note(struct diary *diary, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    note_all(diary, format, arguments);
    va_end(arguments);
}

static void log_line(
    void *group, enum symc_log_level level, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    note_all(group, format, arguments);
    va_end(arguments);
    note(group, level == SYMC_LOG_DEBUG ? ";" : "?;");
}

static symmcoll_status_t exchange(void *group, int fd, int *fds)
{
    note(group, "core exchange;");
    fds[0] = dup(fd);
    return SYMMCOLL_OK;
}

static symmcoll_status_t reserve(void *group)
{
    note(group, "core reserve;");
    return SYMMCOLL_OK;
}

static void record(void *group, const struct symc_op *op)
{
    note(group, "core record %d;", (int)op->kind);
}

static bool failed(void *group, int member)
{
    note(group, "core failed %d;", member);
    return ((struct diary *)group)->failed;
}

static symmcoll_status_t failure(
    void *group, const struct symc_op *op, int member)
{
    note(group, "core failure %d %d;", (int)op->kind, member);
    return SYMMCOLL_ERR_ABORTED;
}

static symmcoll_status_t expire(
    void *group, const struct symc_op *op, const bool *missing)
{
    note(group, "core expire %d %d;", (int)op->kind, missing[0]);
    ((struct diary *)group)->failed = true;
    return SYMMCOLL_ERR_TIMEOUT;
}

static struct symc_core make_core(struct diary *diary)
{
    return (struct symc_core){.group = diary,
        .name = "diary",
        .fail = symc_fail,
        .log = log_line,
        .exchange = exchange,
        .reserve = reserve,
        .record = record,
        .failed = failed,
        .failure = failure,
        .expire = expire,
        .now = symc_now_ns};
}

/* Whether the diary holds just these lines; it is empty afterwards. */
static bool reads(struct diary *diary, const char *expected)
{
    bool same = strcmp(diary->text, expected) == 0;

    if (!same)
        diag("expected '%s', found '%s'", expected, diary->text);
    diary->used = 0;
    diary->text[0] = '\0';
    return same;
}

/* ---- every table, once ---- */

static void use_coll(
    const struct symc_backend *backend, void *state, struct diary *diary)
{
    struct symc_op op = {.kind = SYMC_GATHER, .count = 7};
    void *token = NULL;

    ok(backend->coll->start(state, &op, &token) == SYMMCOLL_IN_PROGRESS &&
            backend->coll->test(state, token) == SYMMCOLL_OK &&
            reads(diary, "start 6 of 7;test 1;"),
        "a collective is started and asked about");
    backend->coll->cancel(state, token);
    ok(reads(diary, "cancel 1;"), "it is cancelled");
}

static void use_all(const struct symc_backend *backend)
{
    static struct diary diary;
    struct symc_core core = make_core(&diary);
    struct symc_peers peers = {.rank = 0, .size = 1};
    struct symc_backend_layout layout = {0};
    void *state = NULL;

    backend->layout(NULL, 3, &layout);
    ok(backend->probe(&peers) == SYMMCOLL_OK && layout.channel == 300 &&
            layout.staging == 3000 && layout.staging_least == 30,
        "it can serve a group, and says what it wants of a block");
    ok(backend->open(&core, &peers, &state) == SYMMCOLL_OK &&
            reads(&diary, "open 0 of 1 in diary;core reserve;"
                          "core exchange;core record 1;"
                          "core expire 1 1;core failed -1;core failure 1 -1;"
                          "expire -4 failure -7;"),
        "opening, it is served by every function of the core");
    use_coll(backend, state, &diary);
    backend->close(state);
    ok(reads(&diary, "close;"), "it is closed");
}

/* ---- with the core of a real group ---- */

static int opens_in_a_group(struct symmcoll_group *group, int rank)
{
    const struct symc_backend *backend;
    void *state = NULL;
    float buf = (float)rank;

    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK ||
        symc_module_load("fake_module", &backend) != SYMMCOLL_OK ||
        backend->open(&group->core, &group->peers, &state) != SYMMCOLL_OK)
        return 0;
    backend->close(state);
    /* It has let an operation expire: the group has failed everywhere. */
    return symmcoll_group_error(group) == SYMMCOLL_ERR_TIMEOUT &&
           symmcoll_all_reduce(group, &buf, &buf, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) < 0 &&
           buf == (float)rank;
}

/* ---- what is none ---- */

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

/* Build t/backend/NAME.c as a module in a folder; false without a compiler. */
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

/* A file of that name which is no shared object. */
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
        "rubbish", "old_module", "empty_module"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/symmcoll_%s.so", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* What is in the folder, and is no module of ours. */
static void test_strange_files(const char *folder)
{
    setenv("SYMMCOLL_MODULE_DIR", folder, 1);
    ok(write_rubbish(folder) &&
            is_refused("rubbish", SYMMCOLL_ERR_UNSUPPORTED, folder),
        "a file that is no module is UNSUPPORTED");
    if (!build_module(folder, "old_module") ||
        !build_module(folder, "empty_module")) {
        skip(2, "no compiler: T_CC and T_SRCDIR name none");
        return;
    }
    ok(is_refused(
           "old_module", SYMMCOLL_ERR_UNSUPPORTED, "built with other headers"),
        "a module of another interface is UNSUPPORTED");
    ok(is_refused("empty_module", SYMMCOLL_ERR_UNSUPPORTED,
           "exports no 'symmcoll_backend'"),
        "a module without a backend is UNSUPPORTED");
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
        skip(3, "no scratch folder");
        return;
    }
    test_strange_files(folder);
    remove_modules(folder);
}

int main(void)
{
    const struct symc_backend *backend = NULL, *again = NULL;

    ok(getenv("SYMMCOLL_MODULE_DIR") == NULL ||
            strcmp(symc_module_folder(), getenv("SYMMCOLL_MODULE_DIR")) == 0,
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
    use_all(backend);
    ok(ranks_run(2, opens_in_a_group), "it opens in a group of processes");
    ok(threads_run(2, opens_in_a_group), "it opens in a group of threads");
    test_refusals();
    return done_testing();
}
