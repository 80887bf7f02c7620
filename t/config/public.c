/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the public view: all settings, one setting, one file; and the files
 * that this process finds through its environment.
 */
#include "../tap.h"
#include "reading.h"

static char scratch_path[PATH_MAX];

/* The calls that a callback received. */
struct seen {
    int count;
    int warnings;
    bool complete;   /* every member of every setting was there */
    char value[256]; /* of host.polls */
    char origin[PATH_MAX + 16];
};

static void see(const struct symmcoll_setting *setting, void *arg)
{
    struct seen *seen = arg;

    seen->count++;
    seen->complete = seen->complete && setting->value != NULL &&
                     setting->origin[0] != '\0' && setting->help[0] != '\0' &&
                     setting->dflt != NULL && setting->expected[0] != '\0' &&
                     strncmp(setting->variable, "SYMMCOLL_", 9) == 0 &&
                     setting->aliases != NULL;
    if (strcmp(setting->key, "host.polls") == 0) {
        snprintf(seen->value, sizeof seen->value, "%s", setting->value);
        snprintf(seen->origin, sizeof seen->origin, "%s", setting->origin);
    }
}

static void see_warning(const char *line, void *arg)
{
    struct seen *seen = arg;

    (void)line;
    seen->warnings++;
}

static symmcoll_status_t see_each(struct seen *seen)
{
    *seen = (struct seen){.complete = true};
    return symmcoll_config_each(see, see_warning, seen);
}

static void set(const char *name, const char *value)
{
    if ((value != NULL ? setenv(name, value, 1) : unsetenv(name)) != 0)
        exit(99);
}

static void test_each(void)
{
    struct seen seen;

    set("SYMMCOLL_CONF", "");
    ok(see_each(&seen) == SYMMCOLL_OK && seen.count == symc_option_count() &&
            seen.complete,
        "each setting comes once, with all that is known of it");
    ok(strcmp(seen.value, "300") == 0 && strcmp(seen.origin, "built-in") == 0,
        "a value comes as text with its origin");
    set("SYMMCOLL_HOST_POLLS", "many");
    ok(see_each(&seen) == SYMMCOLL_ERR_CONFIG && seen.count == 0 &&
            strstr(symmcoll_last_error(), "SYMMCOLL_HOST_POLLS") != NULL,
        "a bad value fails before the first");
    set("SYMMCOLL_HOST_POLLS", NULL);
    ok(symmcoll_config_each(NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID,
        "no function is refused");
}

static void test_get(void)
{
    struct seen seen = {.complete = true};

    ok(symmcoll_config_get("host.polls", see, see_warning, &seen) ==
                SYMMCOLL_OK &&
            seen.count == 1 && strcmp(seen.value, "300") == 0,
        "one setting comes alone");
    ok(symmcoll_config_get("host.pols", see, NULL, &seen) ==
                SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "did you mean host.polls?") != NULL,
        "an unknown key is refused with the nearest");
    ok(symmcoll_config_get("zebra", see, NULL, &seen) == SYMMCOLL_ERR_INVALID,
        "so is one with none near");
    ok(symmcoll_config_get(NULL, see, NULL, &seen) == SYMMCOLL_ERR_INVALID &&
            symmcoll_config_get("host.polls", NULL, NULL, NULL) ==
                SYMMCOLL_ERR_INVALID,
        "so is NULL");
}

static void test_load(void)
{
    struct symc_config *config;

    if (!ok(symc_config_load(&config, NULL, NULL) == SYMMCOLL_OK,
            "the settings of a world are loaded"))
        return;
    ok(symc_config_get_size(config, "host.chunk") == (size_t)256 * 1024 &&
            symc_config_get_int(config, "host.reduce_run") ==
                config->host_reduce_run &&
            symc_config_get_time(config, "timeouts.init") ==
                300 * SYMC_NS_PER_S &&
            symc_config_get_bool(config, "host.direct"),
        "each of them is found by its key");
    ok(symc_config_get_size(config, "host.chnk") == 0 &&
            symc_config_get_size(config, "timeouts.init") == 0 &&
            symc_config_get_int(config, "host.chunk") == 0 &&
            symc_config_get_time(config, "host.polls") == 0 &&
            !symc_config_get_bool(config, "host.polls"),
        "by no other, and as no other type");
    symc_config_free(config);
    symc_config_free(NULL);
}

#ifdef HAVE_LIBCONFIG

static void test_places(const char *scratch)
{
    char folder[PATH_MAX], file[PATH_MAX], named[PATH_MAX];
    struct seen seen;

    snprintf(folder, sizeof folder, "%s/.config", scratch);
    mkdir(folder, 0755);
    write_file(file, folder, "symmcoll.conf", "host: { polls = 5; };", 21);
    write_file(named, scratch, "symmcoll.conf", "host: { polls = 6; };", 21);
    set("HOME", scratch);
    set("XDG_CONFIG_HOME", NULL);
    set("SYMMCOLL_CONF", NULL);
    ok(see_each(&seen) == SYMMCOLL_OK && strcmp(seen.value, "5") == 0 &&
            strncmp(seen.origin, file, strlen(file)) == 0,
        "the user's file is $HOME/.config/symmcoll.conf");
    set("XDG_CONFIG_HOME", scratch);
    ok(see_each(&seen) == SYMMCOLL_OK && strcmp(seen.value, "6") == 0,
        "or that of $XDG_CONFIG_HOME");
    set("XDG_CONFIG_HOME", "relative");
    ok(see_each(&seen) == SYMMCOLL_OK && strcmp(seen.value, "5") == 0,
        "unless that is relative");
    set("SYMMCOLL_CONF", named);
    ok(see_each(&seen) == SYMMCOLL_OK && strcmp(seen.value, "6") == 0,
        "the file of $SYMMCOLL_CONF stands above the user's");
    set("SYMMCOLL_CONF", "");
    ok(see_each(&seen) == SYMMCOLL_OK && strcmp(seen.origin, "built-in") == 0,
        "an empty $SYMMCOLL_CONF means no file at all");
    set("SYMMCOLL_CONF", "/nonexistent/symmcoll.conf");
    ok(see_each(&seen) == SYMMCOLL_ERR_SYSTEM &&
            strstr(symmcoll_last_error(), "/nonexistent/symmcoll.conf") != NULL,
        "one that names no file is an error");
    set("SYMMCOLL_CONF", "");
}

static void test_check(const char *scratch)
{
    struct seen seen = {0};

    set("SYMMCOLL_HOST_CHUNK", "not looked at");
    write_file(scratch_path, scratch, "a.conf", "host: { polls = 7; };", 21);
    ok(symmcoll_config_check(scratch_path, see_warning, &seen) == SYMMCOLL_OK &&
            seen.warnings == 0,
        "a good file passes, whatever the environment says");
    set("SYMMCOLL_HOST_CHUNK", NULL);
    write_file(scratch_path, scratch, "a.conf", "a = 1; b = 2;", 13);
    ok(symmcoll_config_check(scratch_path, see_warning, &seen) == SYMMCOLL_OK &&
            seen.warnings == 2,
        "each unknown key is a warning");
    ok(symmcoll_config_check(scratch_path, NULL, NULL) == SYMMCOLL_OK,
        "which nobody has to take");
    write_file(scratch_path, scratch, "a.conf", "host: { polls = -7; };", 22);
    ok(symmcoll_config_check(scratch_path, NULL, NULL) == SYMMCOLL_ERR_CONFIG,
        "a bad value is an error");
    ok(symmcoll_config_check("/nonexistent", NULL, NULL) == SYMMCOLL_ERR_SYSTEM,
        "so is a missing file");
}

#else

static void test_places(const char *scratch)
{
    char folder[PATH_MAX];
    struct seen seen;

    snprintf(folder, sizeof folder, "%s/.config", scratch);
    mkdir(folder, 0755);
    write_file(scratch_path, folder, "symmcoll.conf", "host: {};", 9);
    set("HOME", scratch);
    set("XDG_CONFIG_HOME", NULL);
    set("SYMMCOLL_CONF", NULL);
    ok(see_each(&seen) == SYMMCOLL_OK && seen.warnings >= 1,
        "a file that is not read, without libconfig, is a warning");
    set("SYMMCOLL_CONF", "");
    skip(5, "built without libconfig");
}

static void test_check(const char *scratch)
{
    (void)scratch;
    ok(symmcoll_config_check("/dev/null", NULL, NULL) ==
            SYMMCOLL_ERR_UNSUPPORTED,
        "without libconfig no file can be checked");
    skip(4, "built without libconfig");
}

#endif

int main(void)
{
    const char *scratch = make_scratch();

    plan(23);
    test_each();
    test_get();
    test_load();
    test_places(scratch);
    test_check(scratch);
    ok(symmcoll_config_check(NULL, NULL, NULL) == SYMMCOLL_ERR_INVALID,
        "no path is refused");
    remove_scratch(scratch);
    return done_testing();
}
