/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests settings from files: the values read, and the errors, with the line,
 * for a file that is invalid, odd, inaccessible or not a regular file.
 */
#include "../tap.h"
#include "reading.h"

#include <sys/socket.h>
#include <sys/un.h>

#ifdef HAVE_LIBCONFIG

static struct reading reading;
static const char *scratch;
static char path[PATH_MAX];

/* Reads a file with these bytes. */
static bool read_bytes(const void *text, size_t nbytes)
{
    struct symc_sources sources = {.named = path};

    write_file(path, scratch, "symmcoll.conf", text, nbytes);
    return read_sources(&reading, &sources) == SYMMCOLL_OK;
}

static bool reads(const char *text)
{
    return read_bytes(text, strlen(text));
}

/* Checks that reading fails with "FILE:LINE: " and this reason. */
static bool refuses(const char *text, int line, const char *reason)
{
    char where[PATH_MAX + 16];

    reads(text);
    snprintf(where, sizeof where, "%s:%d: ", path, line);
    return failed_with(&reading, where, reason);
}

static bool warns(const char *text, int line, const char *reason)
{
    char where[PATH_MAX + 16];

    reads(text);
    snprintf(where, sizeof where, "%s:%d: ", path, line);
    return reading.status == SYMMCOLL_OK &&
           warned_with(&reading, where, reason);
}

static void test_values(void)
{
    char origin[PATH_MAX + 16];

    reads("# a comment\n"
          "host: {\n"
          "    spin = \"75us\"; chunk = \"64KiB\";\n"
          "    reduce_run = 8;\n"
          "};\n"
          "log = { level = \"info\"; };\n");
    snprintf(origin, sizeof origin, "%s:3", path);
    ok(is_set(reading.config, "host.chunk", "64KiB", origin) &&
            reading.config->host_spin == 75000 && reading.warnings == 0,
        "values are read from groups and keep file and line");
    ok(reading.config->host_reduce_run == 8 &&
            reading.config->log_level == SYMC_LOG_INFO,
        "and from the lines and groups after it");
    reads("errors: { blocking_wait = true; kill_process = \"yes\"; };\n"
          "host: { direct = 0; };");
    ok(reading.config->errors_blocking_wait &&
            reading.config->errors_kill_process && !reading.config->host_direct,
        "true, \"yes\" and 0 are good for on and off");
    reads("timeouts: { init = 90; collective = 0.25; finalize = 1e-3; };\n"
          "ddp: { bucket_cap = 4096; first_bucket_cap = 8589934592L; };");
    ok(reading.config->timeouts_init == 90 * SYMC_NS_PER_S &&
            reading.config->timeouts_collective == 250000000 &&
            reading.config->timeouts_finalize == 1000000,
        "plain numbers are seconds");
    ok(reading.config->ddp_bucket_cap == 4096 &&
            reading.config->ddp_first_bucket_cap == (size_t)8 << 30,
        "and bytes, with L beyond 32 bits");
    ok(reads("") && reads("\n\n") && reads("host: { };") && reads("# end") &&
            reading.warnings == 0,
        "an empty file and an empty group are fine");
    ok(reads("host: { node = \"@include # 99999999999 /* \\\" //\"; };") &&
            strcmp(reading.config->host_node,
                "@include # 99999999999 /* \" //") == 0,
        "what looks odd within a string is text");
    ok(reads("/* 99999999999 @include */ // 99999999999\n# @include\n") &&
            reading.warnings == 0,
        "and what looks odd within a comment is nothing");
}

static void test_bad_values(void)
{
    ok(refuses("\n\nhost: {\n  chunk = \"3KiB\"; };\n", 4,
           "host.chunk: expected a size from 4KiB to 1MiB, found \"3KiB\""),
        "a bad value is refused with line, range and value");
    ok(refuses("host: { chunk = 0.5; };", 1, "found \"0.5\"") &&
            refuses("timeouts: { init = -1.5; };", 1, "found \"-1.5\"") &&
            refuses("timeouts: { init = 1e30; };", 1, "found \"1e+30\""),
        "a bad float is shown as it is");
    ok(refuses("trace: { version = 2.10; };", 1,
           "expected 2.10 or 2.2, found a number without quotes"),
        "a number where text belongs is refused: 2.10 would be 2.1");
    ok(refuses("errors: { aliases = true; };", 1,
           "expected auto, on or off, found true or false"),
        "true where a word belongs is refused");
    ok(refuses("host: { chunk: { a = 1; }; };", 1, "found a group") &&
            refuses("host: { chunk = [1, 2]; };", 1, "found a list") &&
            refuses("host: { chunk = (1, \"a\"); };", 1, "found a list"),
        "a group or list where a value belongs is refused");
    ok(refuses("host: { node = \"a\\nb\"; };", 1, "text of one line"),
        "text of two lines is refused");
    ok(refuses(
           "\nddp: {\n bucket_cap = 4294967296; };", 3, "found 4294967296") &&
            refuses("ddp: { bucket_cap = 99999999999999999999L; };", 1,
                "found 99999999999999999999L") &&
            refuses("ddp: { bucket_cap = 0x1ffffffff; };", 1, "0x1ffffffff") &&
            refuses("ddp: { bucket_cap = -2147483649; };", 1, "-2147483649"),
        "an integer that libconfig would wrap is refused");
    ok(reads("ddp: { bucket_cap = 2147483647; first_bucket_cap = 0x7fffffff; "
             "};") &&
            reading.config->ddp_bucket_cap == 2147483647 &&
            reading.config->ddp_first_bucket_cap == 2147483647,
        "the greatest that it does not wrap is fine");
}

static void test_unknown(void)
{
    ok(warns("\nhost: {\n  chnk = 1;\n};", 3,
           "unknown key host.chnk: did you mean host.chunk?"),
        "an unknown key is a warning with line and nearest key");
    ok(warns("hosts: { chunk = \"8KiB\"; };", 1,
           "unknown key hosts.chunk: did you mean host.chunk?"),
        "so is a key of an unknown group");
    ok(warns("chunk = \"8KiB\";", 1,
           "unknown key chunk: did you mean host.chunk?"),
        "so is a key outside its group");
    ok(warns("profil = \"default\";", 1, "did you mean profile?"),
        "so is a key that would have no group");
    ok(refuses("\nhost: \"x\";", 2,
           "host: expected a group, found text in quotes") &&
            refuses("ddp = 1;", 1, "ddp: expected a group, found a number"),
        "a value where a group belongs is refused");
    ok(warns("host: { deep: { er: { chunk = 1; }; }; };", 1, "host.deep"),
        "a group within a group is unknown as a whole");
    ok(warns("zebra = 1;", 1, "unknown key zebra") &&
            strstr(reading.last_warning, "mean") == NULL,
        "where none is near, none is proposed");
    reads("a_key_that_is_longer_than_any_key_of_ours_by_quite_some_letters_"
          "and_goes_on = 1;");
    ok(reading.status == SYMMCOLL_OK && reading.warnings == 1,
        "an overlong key is just unknown");
}

static void test_syntax(void)
{
    static char nested[200000];

    ok(refuses("host: {\n  chunk = ;\n};", 2, "syntax error"),
        "a syntax error has its line");
    ok(refuses("log: {\n};\n  host.chunk = 1;", 3,
           "expected a group, \"host: { chunk = ...; };\", found host.chunk"),
        "a dotted key is no syntax of the file, and it is said what is");
    ok(refuses("log: { level = \"info\"; };\nlog: { level = \"off\"; };", 2,
           "duplicate"),
        "a group that stands twice is refused");
    ok(refuses("host: { node =\n \"unfinished\n\n", 2, "end of this text"),
        "an unfinished string is refused");
    ok(refuses("host: {\n", 2, "syntax error") &&
            refuses("\n/* never\n closed *", 2, "end of this comment"),
        "so is an unfinished group, or a comment, which would hide the rest");
    ok(refuses("/* more\n\n than one */ /* line\n*/\n@include \"x\"\n", 5,
           "found @include"),
        "lines of a comment count");
    ok(refuses("\n@include \"/etc/passwd\"\n", 2, "found @include"),
        "an include is refused");
    memset(nested, '(', sizeof nested);
    memcpy(nested, "a=", 2);
    ok(!read_bytes(nested, sizeof nested) &&
            reading.status == SYMMCOLL_ERR_CONFIG,
        "nesting without end is an error, no crash");
}

static void test_rubbish(void)
{
    unsigned char bytes[4096];
    uint32_t state = 1;
    bool held = true;

    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525 + 1013904223;
            bytes[i] = (unsigned char)(state >> 24);
            /* Without zero bytes in every other round, to parse further; and
             * without quotes, because libconfig leaks text at a misplaced
             * one. */
            if ((round % 2 == 1 && bytes[i] == 0) || bytes[i] == '"')
                bytes[i] = ' ';
        }
        held = held && !read_bytes(bytes, sizeof bytes) &&
               reading.status == SYMMCOLL_ERR_CONFIG;
    }
    ok(held, "random bytes are refused, with a detail");
    read_bytes("log: {\n};\n\0host: {};", 20);
    ok(failed_with(&reading, ":3: ", "found a zero byte"),
        "a zero byte is refused with its line: what follows would get lost");
    ok(read_bytes("\xEF\xBB\xBF", 3) || reading.status == SYMMCOLL_ERR_CONFIG,
        "a byte order mark does no harm");
}

static void test_odd_files(void)
{
    struct symc_sources named = {.named = scratch};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    static char huge[1024 * 1024 + 1];

    read_sources(&reading, &named);
    ok(reading.status == SYMMCOLL_ERR_SYSTEM &&
            strstr(reading.detail, "found a directory") != NULL,
        "a directory instead of a file is refused");
    named.named = "/dev/zero";
    read_sources(&reading, &named);
    ok(reading.status == SYMMCOLL_ERR_SYSTEM &&
            strstr(reading.detail,
                "/dev/zero: expected a regular file, found a "
                "device") != NULL,
        "a device is refused");
    snprintf(path, sizeof path, "%s/pipe", scratch);
    named.named = path;
    ok(mkfifo(path, 0600) == 0 &&
            read_sources(&reading, &named) == SYMMCOLL_ERR_SYSTEM &&
            strstr(reading.detail, "found a pipe") != NULL,
        "a pipe is refused, and not waited for");
    snprintf(path, sizeof path, "%s/socket", scratch);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ok(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
            read_sources(&reading, &named) == SYMMCOLL_ERR_SYSTEM,
        "a socket is refused");
    close(fd);

    memset(huge, '\n', sizeof huge);
    ok(read_bytes(huge, sizeof huge - 1), "a file of 1 MiB is read");
    read_bytes(huge, sizeof huge);
    ok(failed_with(&reading, "expected at most 1048576 bytes", "found 1048577"),
        "a greater one is refused");
    ok(truncate(path, (off_t)1 << 40) != 0 ||
            (named.named = path,
                read_sources(&reading, &named) == SYMMCOLL_ERR_CONFIG),
        "so is one of a terabyte, unread");
}

static void test_absent(void)
{
    char missing[PATH_MAX], below[PATH_MAX + 8];
    struct symc_sources sources = {.system = missing, .user = missing};

    snprintf(missing, sizeof missing, "%s/missing", scratch);
    ok(read_sources(&reading, &sources) == SYMMCOLL_OK && reading.warnings == 0,
        "the system's and the user's file may be absent");
    sources = (struct symc_sources){.named = missing};
    ok(read_sources(&reading, &sources) == SYMMCOLL_ERR_SYSTEM &&
            strstr(reading.detail, missing) != NULL &&
            strstr(reading.detail, "No such file") != NULL,
        "the one that somebody named may not");
    reads("");
    snprintf(below, sizeof below, "%s/x", path);
    sources = (struct symc_sources){.user = below, .folder = below};
    ok(read_sources(&reading, &sources) == SYMMCOLL_OK && reading.warnings == 0,
        "a file below a file is absent");
}

static void test_forbidden(void)
{
    struct symc_sources sources = {.system = path};
    uid_t uid = geteuid();

    reads("log: { level = \"info\"; };");
    if (chmod(path, 0) != 0 || (uid == 0 && seteuid(65534) != 0)) {
        skip(2, "cannot be another user than root");
        return;
    }
    ok(read_sources(&reading, &sources) == SYMMCOLL_ERR_SYSTEM &&
            strstr(reading.detail, path) != NULL &&
            strstr(reading.detail, "Permission denied") != NULL,
        "a file of the system that may not be read is an error");
    sources = (struct symc_sources){.user = path};
    ok(read_sources(&reading, &sources) == SYMMCOLL_OK &&
            warned_with(&reading, path, "not read: Permission denied"),
        "one of the user, who may have become another, is a warning");
    if (uid == 0 && seteuid(0) != 0)
        diag("cannot become root again");
    /* The tests below write this file again. */
    if (chmod(path, 0600) != 0)
        diag("cannot make %s readable again", path);
}

static void test_folder(void)
{
    char folder[PATH_MAX];
    char file[PATH_MAX];
    char origin[PATH_MAX + 16];
    struct symc_sources sources = {.system = path, .folder = folder};

    reads("host: { polls = 1; reduce_run = 3; }; log: { level = \"off\"; };");
    snprintf(folder, sizeof folder, "%s/symmcoll.conf.d", scratch);
    mkdir(folder, 0755);
    write_file(file, folder, "20-b.conf", "host: { polls = 20; };", 22);
    write_file(file, folder, "9.conf", "host: { polls = 9; };", 21);
    write_file(file, folder, "10-a.conf",
        "host: { polls = 10; reduce_run = 5; };", 38);
    write_file(file, folder, "99.conf.bak", "not = a setting", 15);
    write_file(file, folder, ".99.conf", "not = a setting", 15);
    write_file(file, folder, ".conf", "not = a setting", 15);
    read_sources(&reading, &sources);
    snprintf(origin, sizeof origin, "%s/9.conf:1", folder);
    ok(is_set(reading.config, "host.polls", "9", origin),
        "further files are read in the order of the bytes of their names");
    ok(reading.config->host_reduce_run == 5 &&
            reading.config->log_level == SYMC_LOG_OFF,
        "each stands above the system's file where it says something");
    ok(reading.warnings == 0, "hidden files and other endings are left alone");
    write_file(file, folder, "50.conf", "host: {", 7);
    ok(read_sources(&reading, &sources) == SYMMCOLL_ERR_CONFIG &&
            strstr(reading.detail, "50.conf:2: ") != NULL,
        "an error in one of them names it");
}

static void test_precedence(void)
{
    char user[PATH_MAX], named[PATH_MAX];
    char *environment[] = {"SYMMCOLL_HOST_POLLS=4",
        "TORCH_NCCL_BLOCKING_WAIT=0", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0",
        NULL};
    struct symc_sources sources = {path, NULL, user, named, environment, false};

    reads("host: { polls = 1; reduce_run = 11; small_max = 1; };\n"
          "profile = \"compat-2024\"; trace: { version = \"2.10\"; };");
    write_file(user, scratch, "user.conf",
        "host: { polls = 2; reduce_run = 12; };", 38);
    write_file(named, scratch, "named.conf",
        "host: { polls = 3; }; errors: { blocking_wait = true; };", 56);
    read_sources(&reading, &sources);
    ok(reading.status == SYMMCOLL_OK && reading.config->host_polls == 4 &&
            reading.config->host_reduce_run == 12 &&
            reading.config->host_small_max == 1,
        "the system's file is below the user's, and the environment is above");
    ok(!reading.config->errors_blocking_wait, "an alias is above the files");
    ok(reading.config->errors_async_handling == 0 &&
            strcmp(reading.config->trace_version, "2.10") == 0 &&
            reading.config->trace_buffer_size == 0,
        "a profile from a file is below whatever any source says");
    sources.environment = NULL;
    read_sources(&reading, &sources);
    ok(reading.config->host_polls == 3, "the named file is above the user's");
    write_file(named, scratch, "named.conf", "host: { polls = -1; };", 22);
    sources.environment = environment;
    ok(read_sources(&reading, &sources) == SYMMCOLL_ERR_CONFIG,
        "a bad value is an error even where another source wins");
}

int main(void)
{
    plan(56);
    scratch = make_scratch();
    test_values();
    test_bad_values();
    test_unknown();
    test_syntax();
    test_rubbish();
    test_odd_files();
    test_absent();
    test_forbidden();
    test_folder();
    test_precedence();
    forget(&reading);
    remove_scratch(scratch);
    return done_testing();
}

#else

int main(void)
{
    struct symc_sources sources = {.user = "/dev/null"};
    struct reading reading = {0};

    plan(1);
    ok(read_sources(&reading, &sources) == SYMMCOLL_ERR_SYSTEM,
        "without libconfig a file has to be one all the same");
    return done_testing();
}

#endif
