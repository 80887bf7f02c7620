/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll-info: describes the library and this machine.  It uses internal
 * functions, so it is linked with the internal library.
 */
#include "help.h"
#include "info.h"

#include "config/config.h"
#include "config/option.h"

#include <symmcoll.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum exit_status {
    EXIT_FINE = 0,
    EXIT_PROBLEM = 1,
    EXIT_USAGE = 2
};

static const char usage[] =
    "Usage: symmcoll-info [--algorithms] [--json]\n"
    "Show what libsymmcoll is, has, and finds on this machine.\n"
    "\n"
    "      --algorithms  only which algorithms serve which operations\n"
    "      --json        as one JSON object\n"
    "  -h, --help        print this text\n"
    "  -V, --version     print the version\n";

static const struct option longs[] = {
    {"algorithms", no_argument, NULL, 'a'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static void print_warning(const char *line, void *arg)
{
    (void)arg;
    fprintf(stderr, "symmcoll-info: warning: %s\n", line);
}

static void print_all(
    struct info_out *out, const struct symc_config *config, const char *wrong)
{
    info_add_library(out, config, wrong);
    info_add_backends(out);
    info_add_blas(out, config);
    info_add_topology(out);
    info_add_connectivity(out);
    info_add_gpus(out, config);
    info_add_kernel(out);
    info_add_limits(out);
    info_add_memory(out, config);
}

/* Returns the exit status after all output. */
static int close_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_FINE;
    fprintf(stderr, "symmcoll-info: standard output: %s\n", strerror(errno));
    return EXIT_PROBLEM;
}

/*
 * Loads the settings in effect, or the defaults if they are wrong: the error is
 * then in *wrong and on standard error.  A program that finds out why nothing
 * works must work itself.
 */
static symmcoll_status_t load_settings(
    struct symc_config **config, char **wrong)
{
    static char *no_variables[] = {NULL};
    const struct symc_sources nowhere = {.environment = no_variables};

    *wrong = NULL;
    if (symc_config_load(config, print_warning, NULL) == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    *wrong = strdup(symmcoll_last_error());
    fprintf(stderr, "symmcoll-info: %s\n", symmcoll_last_error());
    return *wrong == NULL ? SYMMCOLL_ERR_NO_MEMORY
                          : symc_config_read(&nowhere, config, NULL, NULL);
}

static int print_info(struct info_out *out, bool only_algorithms)
{
    struct symc_config *config;
    char *wrong;
    int status = EXIT_FINE;

    if (load_settings(&config, &wrong) != SYMMCOLL_OK) {
        fprintf(stderr, "symmcoll-info: %s\n", symmcoll_last_error());
        free(wrong);
        return EXIT_PROBLEM;
    }
    info_begin(out);
    if (!only_algorithms)
        print_all(out, config, wrong);
    info_add_algorithms(out, config);
    info_add_device_algorithms(out, config);
    info_end(out);
    symc_config_free(config);
    if (wrong != NULL)
        status = EXIT_PROBLEM;
    free(wrong);
    return close_output() == EXIT_FINE ? status : EXIT_PROBLEM;
}

int main(int argc, char **argv)
{
    struct info_out out = {.file = stdout};
    bool only_algorithms = false;
    char name[] = "symmcoll-info";
    int key;

    if (argc > 0)
        argv[0] = name; /* shown in getopt_long()'s messages */
    while ((key = getopt_long(argc, argv, "hV", longs, NULL)) != -1) {
        switch (key) {
        case 'a':
            only_algorithms = true;
            break;
        case 'j':
            out.json = true;
            break;
        case 'h':
            if (prints_help())
                fputs(usage, stdout);
            return close_output();
        case 'V':
            if (prints_help())
                printf("symmcoll-info %s\n", symmcoll_version());
            return close_output();
        default:
            fputs("Try 'symmcoll-info --help'.\n", stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr,
            "symmcoll-info: arguments: expected options only, found \"%s\"\n",
            argv[optind]);
        return EXIT_USAGE;
    }
    return print_info(&out, only_algorithms);
}
