/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests settings from the environment: precedence, the names of
 * torch.distributed, profiles, and warnings about unknown names.
 */
#include "../tap.h"
#include "reading.h"

static struct reading reading;

/* Reads the given variables, up to a NULL. */
#define READ(...) read_environment(&reading, (char *[]){__VA_ARGS__, NULL})

static void test_own_names(void)
{
    READ("SYMMCOLL_TIMEOUTS_INIT=7s", "HOME=/", "SYMMCOLL");
    ok(is_set(reading.config, "timeouts.init", "7s",
           "environment SYMMCOLL_TIMEOUTS_INIT") &&
            reading.warnings == 0,
        "a variable's name follows the key, and is the origin");
    READ("SYMMCOLL_HOST_POLLS=1", "SYMMCOLL_HOST_POLLS=2");
    ok(reading.config->host_polls == 1,
        "of a name that stands twice the first counts, as for getenv()");
    READ("SYMMCOLL_HOST_CHUNKS=8KiB");
    ok(reading.status == SYMMCOLL_OK &&
            warned_with(&reading, "environment SYMMCOLL_HOST_CHUNKS: unknown",
                "did you mean SYMMCOLL_HOST_CHUNK?"),
        "an unknown variable is a warning with the nearest name");
    READ("SYMMCOLL_MODULEDIR=/x");
    ok(warned_with(&reading, "unknown", "did you mean SYMMCOLL_MODULE_DIR?"),
        "variables that are no settings are near names as well");
    READ("SYMMCOLL_QUITE_ANOTHER_THING=1");
    ok(warned_with(&reading, "SYMMCOLL_QUITE_ANOTHER_THING", "unknown") &&
            strstr(reading.last_warning, "mean") == NULL,
        "where none is near, none is proposed");
    READ("SYMMCOLL_CONF=x", "SYMMCOLL_MODULE_DIR=x", "SYMMCOLL_HUB=x",
        "SYMMCOLL_JOB=x", "SYMMCOLL_ATTEMPT=0");
    ok(reading.status == SYMMCOLL_OK && reading.warnings == 0,
        "those of launchers and modules are known");
    READ("SYMMCOLL_USER_PORT=1",
        "SYMMCOLL_USER_=", "SYMMCOLL_USER_HOST_CHUNK=x");
    ok(reading.status == SYMMCOLL_OK && reading.warnings == 0,
        "those that begin with SYMMCOLL_USER_ are the program's");
    READ("SYMMCOLL_USER=x");
    ok(warned_with(&reading, "SYMMCOLL_USER", "unknown"),
        "SYMMCOLL_USER alone is unknown");
    READ("SYMMCOLL_NO_ASSIGNMENT", "=", "");
    ok(reading.status == SYMMCOLL_OK && reading.warnings == 0,
        "entries of an environment that are no assignments are passed over");
}

static void test_aliases(void)
{
    READ("TORCH_NCCL_BLOCKING_WAIT=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "TORCH_NCCL_ENABLE_MONITORING=y", "TORCH_INCLUDE_ONLY_ACTIVE=True",
        "TORCH_NCCL_ENABLE_TIMING=1");
    ok(reading.config != NULL && reading.config->errors_blocking_wait &&
            reading.config->errors_async_handling == SYMC_ASYNC_TEAR_DOWN &&
            reading.config->errors_kill_process &&
            reading.config->trace_only_active && reading.config->trace_timing &&
            reading.warnings == 0,
        "names of torch.distributed are read");
    READ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=90",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=2500");
    ok(is_set(reading.config, "timeouts.heartbeat", "90s",
           "environment TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC") &&
            is_set(reading.config, "trace.dump_grace", "2500ms",
                "environment TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"),
        "a time by such a name has the unit that the name says");
    READ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=90s");
    ok(failed_with(&reading, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
           "expected a whole number of s, found \"90s\""),
        "and takes no other");
    READ("TORCH_FR_BUFFER_SIZE=10", "TORCH_FR_DUMP_ON_TIMEOUT=no",
        "TORCH_FR_DUMP_TEMP_FILE=/var/log/job_");
    ok(reading.config->trace_buffer_size == 10 &&
            !reading.config->trace_dump_on_error &&
            is_set(reading.config, "trace.dump_file", "/var/log/job_symmcoll_",
                "environment TORCH_FR_DUMP_TEMP_FILE"),
        "a dump's path by such a name is marked, to be apart from theirs");
    READ("TORCH_NCCL_BLOCKING_WAIT=abc");
    ok(failed_with(&reading, "environment TORCH_NCCL_BLOCKING_WAIT", "\"abc\""),
        "a bad value is refused with the alias as origin");
    READ("NCCL_BLOCKING_WAIT=1");
    ok(reading.config->errors_blocking_wait &&
            warned_with(&reading, "NCCL_BLOCKING_WAIT: deprecated",
                "use TORCH_NCCL_BLOCKING_WAIT, or "
                "SYMMCOLL_ERRORS_BLOCKING_WAIT"),
        "a deprecated name is read with a warning");
    READ("NCCL_BLOCKING_WAIT=1", "TORCH_NCCL_BLOCKING_WAIT=0");
    ok(!reading.config->errors_blocking_wait && reading.warnings == 0,
        "of several names the newest wins");
    READ("TORCH_NCCL_BLOCKING_WAIT=1", "SYMMCOLL_ERRORS_BLOCKING_WAIT=0");
    ok(!reading.config->errors_blocking_wait, "our own name wins over all");
}

static void test_alias_switch(void)
{
    char *environment[] = {"TORCH_NCCL_BLOCKING_WAIT=1", NULL};
    struct symc_sources beside_torch = {
        .environment = environment, .torch_loaded = true};
    char *forced[] = {
        "TORCH_NCCL_BLOCKING_WAIT=1", "SYMMCOLL_ERRORS_ALIASES=on", NULL};

    READ("TORCH_NCCL_BLOCKING_WAIT=1", "SYMMCOLL_ERRORS_ALIASES=off");
    ok(!reading.config->errors_blocking_wait,
        "errors.aliases = off hides them");
    read_sources(&reading, &beside_torch);
    ok(!reading.config->errors_blocking_wait,
        "beside libtorch they are not ours, by default");
    beside_torch.environment = forced;
    read_sources(&reading, &beside_torch);
    ok(reading.config->errors_blocking_wait, "errors.aliases = on takes them");
    ok(symc_is_torch("/opt/torch/lib/libtorch_cpu.so") &&
            symc_is_torch("libtorch.so.2.1") &&
            symc_is_torch("/a/libtorch_python.so") &&
            !symc_is_torch("/libtorch_x/libc.so.6") && !symc_is_torch("") &&
            !symc_is_torch("/usr/lib/libtorchlight.so"),
        "libtorch is known by the names of its objects");
    ok(!symc_torch_loaded(), "this program has it not loaded");
}

static void test_profile(void)
{
    READ("SYMMCOLL_PROFILE=compat-2024");
    ok(is_set(reading.config, "timeouts.heartbeat", "10min",
           "profile compat-2024") &&
            is_set(reading.config, "trace.buffer_size", "0",
                "profile compat-2024") &&
            reading.config->errors_async_handling == SYMC_ASYNC_SKIP_CLEAN_UP &&
            !reading.config->trace_dump_on_error,
        "a profile sets several values");
    ok(is_set(reading.config, "host.chunk", "256KiB", "built-in"),
        "and leaves the others built-in");
    READ("SYMMCOLL_PROFILE=compat-2024", "SYMMCOLL_TIMEOUTS_HEARTBEAT=1min",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
    ok(is_set(reading.config, "timeouts.heartbeat", "1min",
           "environment SYMMCOLL_TIMEOUTS_HEARTBEAT") &&
            reading.config->errors_async_handling == 1,
        "what any source sets stands above the profile");
}

static void test_distance(void)
{
    char buffer[SYMC_KEY_MAX];
    char long_name[1000];

    ok(symc_edit_distance("chunk", "chunk") == 0 &&
            symc_edit_distance("chunk", "chnk") == 1 &&
            symc_edit_distance("chunk", "chunks") == 1 &&
            symc_edit_distance("chunk", "chonk") == 1 &&
            symc_edit_distance("chunk", "cuhnk") == 1 &&
            symc_edit_distance("", "abc") == 3 &&
            symc_edit_distance("kitten", "sitting") == 3,
        "the distance counts insertions, deletions, replacements and swaps");
    ok(symc_edit_distance("CHUNK", "chunk") == 0, "case of letters is no slip");
    ok(strcmp(symc_nearest_key("trace.bufer_size", buffer),
           "trace.buffer_size") == 0 &&
            strcmp(symc_nearest_key("timeout.init", buffer), "timeouts.init") ==
                0,
        "the nearest key is found");
    ok(strcmp(symc_nearest_key("node", buffer), "host.node") == 0 &&
            strcmp(symc_nearest_key("trace.kill_process", buffer),
                "errors.kill_process") == 0,
        "a key without its group, or in another, is found");
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    ok(symc_nearest_key(long_name, buffer) == NULL &&
            symc_nearest_key("", buffer) == NULL,
        "nothing is near an empty name or one without end");
}

int main(void)
{
    plan(30);
    test_own_names();
    test_aliases();
    test_alias_switch();
    test_profile();
    test_distance();
    forget(&reading);
    return done_testing();
}
