/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the conversion from text to value, for each type of setting: accepted
 * and refused texts, and the text printed for a value. All texts are passed
 * through the environment, which does not change them.
 */
#include "../tap.h"
#include "reading.h"

#include <locale.h>

static struct reading reading;

/* Reads one variable. */
static bool accepts(const char *assignment)
{
    char *environment[] = {(char *)assignment, NULL};

    return read_environment(&reading, environment) == SYMMCOLL_OK;
}

static bool refuses(const char *assignment, const char *expected)
{
    char found[80];

    accepts(assignment);
    snprintf(found, sizeof found, "found \"%s\"", strchr(assignment, '=') + 1);
    return failed_with(&reading, expected, found);
}

/* Checks that a time is parsed as `ns` nanoseconds and printed as the
 * canonical text. */
static bool is_time(const char *text, int64_t ns, const char *canonical)
{
    char assignment[80];

    snprintf(
        assignment, sizeof assignment, "SYMMCOLL_TIMEOUTS_FINALIZE=%s", text);
    return accepts(assignment) && reading.config->timeouts_finalize == ns &&
           is_set(reading.config, "timeouts.finalize", canonical,
               "environment SYMMCOLL_TIMEOUTS_FINALIZE");
}

static bool is_size(const char *text, size_t nbytes, const char *canonical)
{
    char assignment[80];

    snprintf(assignment, sizeof assignment, "SYMMCOLL_DDP_BUCKET_CAP=%s", text);
    return accepts(assignment) && reading.config->ddp_bucket_cap == nbytes &&
           is_set(reading.config, "ddp.bucket_cap", canonical,
               "environment SYMMCOLL_DDP_BUCKET_CAP");
}

static bool refuses_time(const char *text)
{
    char assignment[80];

    snprintf(
        assignment, sizeof assignment, "SYMMCOLL_TIMEOUTS_FINALIZE=%s", text);
    return refuses(assignment, "expected a time from 0 to inf");
}

static bool refuses_size(const char *text)
{
    char assignment[80];

    snprintf(assignment, sizeof assignment, "SYMMCOLL_DDP_BUCKET_CAP=%s", text);
    return refuses(assignment, "expected a size from 0 to inf");
}

static void test_times(void)
{
    const int64_t second = SYMC_NS_PER_S;

    ok(is_time("50us", 50000, "50us") && is_time("20ms", 20000000, "20ms") &&
            is_time("7ns", 7, "7ns") && is_time("3s", 3 * second, "3s") &&
            is_time("10min", 600 * second, "10min") &&
            is_time("2h", 7200 * second, "2h"),
        "a time has a unit: ns, us, ms, s, min or h");
    ok(is_time("480", 480 * second, "8min"), "a plain number is seconds");
    ok(is_time("1.5s", 1500000000, "1500ms") &&
            is_time("0.000000001", 1, "1ns") &&
            is_time("1.50000000000000000000000s", 1500000000, "1500ms") &&
            is_time("0.1h", 360 * second, "6min"),
        "a fraction is exact");
    ok(is_time("inf", SYMC_NEVER, "inf") && is_time("INF", SYMC_NEVER, "inf"),
        "inf is never");
    ok(is_time("0", 0, "0") && is_time("0ms", 0, "0"), "no time is 0");
    ok(is_time(" 5 s ", 5 * second, "5s"), "blanks around a unit are fine");
    ok(refuses_time("") && refuses_time("s") && refuses_time("fast") &&
            refuses_time("5 parsecs") && refuses_time("5m") &&
            refuses_time("5s5") && refuses_time("0x10") &&
            refuses_time("1e3") && refuses_time("."),
        "what is no time is refused");
    ok(refuses_time("-1") && refuses_time("-1s") && refuses_time("-inf"),
        "a negative time is refused");
    ok(refuses_time("9223372037") && refuses_time("99999999999999999999ns") &&
            refuses_time("2562048h"),
        "a time beyond 64 bits of nanoseconds is refused");
    ok(is_time(
           "9223372036854775806ns", INT64_MAX - 1, "9223372036854775806ns") &&
            refuses_time("9223372036854775807ns"),
        "the last time before inf is a time, inf in digits is not");
    ok(refuses_time("0.5ns") && refuses_time("0.0000000001s"),
        "a fraction of a nanosecond is refused");
}

static void test_sizes(void)
{
    ok(is_size("4096", 4096, "4KiB") && is_size("4097", 4097, "4097B"),
        "a plain number is bytes");
    ok(is_size("3B", 3, "3B") && is_size("256KiB", 262144, "256KiB") &&
            is_size("25MiB", 26214400, "25MiB") &&
            is_size("1GiB", (size_t)1 << 30, "1GiB") &&
            is_size("2TiB", (size_t)2 << 40, "2TiB"),
        "KiB, MiB, GiB and TiB are powers of 1024");
    ok(is_size("4k", 4096, "4KiB") && is_size("1M", 1 << 20, "1MiB"),
        "K, M, G and T are the same");
    ok(is_size("1kB", 1000, "1000B") && is_size("1MB", 1000000, "1000000B"),
        "kB, MB, GB and TB are powers of 1000");
    ok(is_size("1.5KiB", 1536, "1536B") && refuses_size("1.0001KiB"),
        "a fraction has to be whole bytes");
    ok(is_size("inf", SIZE_MAX, "inf"), "inf is no limit");
    ok(refuses_size("9223372036854775808") && refuses_size("8388608TiB"),
        "a size beyond 63 bits is refused");
    ok(refuses_size("-1") && refuses_size("5s") && refuses_size("big") &&
            refuses_size(""),
        "what is no size is refused");
}

static void test_ranges(void)
{
    ok(accepts("SYMMCOLL_HOST_CHUNK=4KiB") &&
            accepts("SYMMCOLL_HOST_CHUNK=1MiB"),
        "a range includes its ends");
    ok(refuses("SYMMCOLL_HOST_CHUNK=4095",
           "environment SYMMCOLL_HOST_CHUNK: host.chunk: expected a size from "
           "4KiB to 1MiB") &&
            refuses("SYMMCOLL_HOST_CHUNK=1048577", "4KiB to 1MiB"),
        "a size out of its range is refused with origin, key and range");
    ok(refuses("SYMMCOLL_HOST_SPIN=1001ms", "a time from 0 to 1s") &&
            refuses("SYMMCOLL_HOST_SPIN=inf", "a time from 0 to 1s"),
        "a time out of its range is refused");
    ok(refuses("SYMMCOLL_HOST_REDUCE_RUN=1", "a whole number from 2 to 1024") &&
            refuses("SYMMCOLL_ERRORS_ASYNC_HANDLING=4", "0 to 3") &&
            refuses("SYMMCOLL_ERRORS_ASYNC_HANDLING=-1", "0 to 3"),
        "a number out of its range is refused");
}

static void test_numbers_and_words(void)
{
    static const char *const yes[] = {
        "y", "yes", "1", "t", "true", "on", "YES", "True", "T"};
    static const char *const no[] = {
        "n", "no", "0", "f", "false", "off", "No", "FALSE", "F"};
    static const char *const bad[] = {"abc", "-1", "2147483647", "4294967295",
        "", "tru", "yess", "2", "yes no"};
    char assignment[80];
    bool held = true;

    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        snprintf(assignment, sizeof assignment,
            "SYMMCOLL_ERRORS_BLOCKING_WAIT=%s", yes[i]);
        held =
            held && accepts(assignment) && reading.config->errors_blocking_wait;
    }
    ok(held, "y, yes, 1, t, true and on are true, in any case of letters");
    held = true;
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        snprintf(
            assignment, sizeof assignment, "SYMMCOLL_HOST_DIRECT=%s", no[i]);
        held = held && accepts(assignment) && !reading.config->host_direct;
    }
    ok(held, "n, no, 0, f, false and off are false");
    held = true;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(assignment, sizeof assignment,
            "SYMMCOLL_ERRORS_BLOCKING_WAIT=%s", bad[i]);
        held = held && refuses(assignment, "expected on or off");
    }
    ok(held, "anything else is neither, and refused");

    ok(accepts("SYMMCOLL_HOST_POLLS=+12") && reading.config->host_polls == 12,
        "a number may have a sign");
    ok(refuses("SYMMCOLL_HOST_POLLS=12abc", "a whole number") &&
            refuses("SYMMCOLL_HOST_POLLS=1.5", "a whole number") &&
            refuses(
                "SYMMCOLL_HOST_POLLS=99999999999999999999", "a whole number") &&
            refuses("SYMMCOLL_HOST_POLLS=", "a whole number"),
        "what is no whole number is refused");
    ok(accepts("SYMMCOLL_LOG_LEVEL=Debug") &&
            reading.config->log_level == SYMC_LOG_DEBUG &&
            is_set(reading.config, "log.level", "debug",
                "environment SYMMCOLL_LOG_LEVEL"),
        "a word is found in any case of letters and listed in its own");
    ok(refuses("SYMMCOLL_LOG_LEVEL=loud",
           "expected off, error, warn, info or debug") &&
            refuses("SYMMCOLL_LOG_LEVEL=off error", "off, error") &&
            refuses("SYMMCOLL_LOG_LEVEL=", "off, error"),
        "another word is refused with those there are");
    ok(accepts("SYMMCOLL_HOST_NODE=left rack") &&
            strcmp(reading.config->host_node, "left rack") == 0 &&
            accepts("SYMMCOLL_HOST_NODE=") &&
            strcmp(reading.config->host_node, "") == 0,
        "text is taken as it is, empty too");
    accepts("SYMMCOLL_HOST_NODE=a\tb");
    ok(failed_with(&reading, "expected text of one line", "found"),
        "text with a control character is refused");
    ok(refuses("SYMMCOLL_TRACE_VERSION=2.1", "expected 2.10 or 2.2"),
        "text with a list of words is refused outside of it");
}

/* Checks the properties of the table itself. */
static void test_table(void)
{
    bool canonical = true, described = true, parsed = true;
    char *environment[] = {NULL};
    char expected[SYMC_EXPECTED_MAX];

    if (!ok(read_environment(&reading, environment) == SYMMCOLL_OK,
            "the built-in values are valid"))
        return;
    for (int i = 0; i < symc_option_count(); i++) {
        const struct symc_option *option = &symc_options[i];

        canonical = canonical && is_set(reading.config, option->key,
                                     option->dflt, "built-in");
        described = described && strlen(option->help) > 10 &&
                    option->help[strlen(option->help) - 1] == '.' &&
                    strlen(option->key) + 10 < SYMC_KEY_MAX;
        parsed = parsed && symc_option_expected(option, expected)[0] != '\0' &&
                 strlen(expected) + 1 < SYMC_EXPECTED_MAX;
    }
    ok(canonical, "each built-in value is in its canonical form");
    ok(described, "each setting has a short key and a sentence");
    ok(parsed, "each setting says what it takes");
    for (const struct symc_alias *alias = symc_aliases; alias->name; alias++)
        parsed = parsed && symc_option_find(alias->key) >= 0;
    for (const struct symc_preset *preset = symc_compat_2024; preset->key;
         preset++)
        parsed = parsed && symc_option_find(preset->key) >= 0;
    ok(parsed, "aliases and profiles name settings that there are");
}

static void test_locale(void)
{
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL &&
        setlocale(LC_ALL, "fr_FR.UTF-8") == NULL) {
        skip(1, "no locale with a decimal comma is installed");
        return;
    }
    ok(is_time("1.5s", 1500000000, "1500ms"),
        "a point is a point where the locale has a comma");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    plan(39);
    test_times();
    test_sizes();
    test_ranges();
    test_numbers_and_words();
    test_table();
    test_locale();
    forget(&reading);
    return done_testing();
}
