/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of symmcoll-run.
 */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: symmcoll-run -n N [options] program [arguments]\n"
    "\n"
    "Run N ranks of a program on this machine.\n"
    "\n"
    "  -n, --ranks N        how many ranks, 1 to 1024\n"
    "      --bind WHERE     core: give each rank its share of the processors;\n"
    "                       none: leave that to the kernel; auto (default):\n"
    "                       core where there is a processor for each rank\n"
    "      --grace SECONDS  after a rank has failed, how long the others may\n"
    "                       take to end by themselves (default 5)\n"
    "      --max-restarts K start all ranks again after a failure, up to K "
    "times\n"
    "      --no-prefix      no \"[rank] \" before each line of output\n"
    "      --output DIR     write each rank's output to DIR/RANK.out and\n"
    "                       DIR/RANK.err instead\n"
    "  -v, --verbose        say what is being done\n"
    "  -h, --help           print this text\n"
    "  -V, --version        print the version\n"
    "\n"
    "The exit status is 0 when every rank's was, else that of the rank that\n"
    "failed first (128 and the signal's number where one killed it); 2 when\n"
    "the command line is wrong, 126 or 127 when the program cannot be run.\n";

enum {
    OPTION_BIND = 256,
    OPTION_GRACE,
    OPTION_MAX_RESTARTS,
    OPTION_NO_PREFIX,
    OPTION_OUTPUT,
    OPTION_NP /* the name in other launchers */
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"max-restarts", required_argument, NULL, OPTION_MAX_RESTARTS},
    {"no-prefix", no_argument, NULL, OPTION_NO_PREFIX},
    {"output", required_argument, NULL, OPTION_OUTPUT},
    {"np", optional_argument, NULL, OPTION_NP},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int fail_usage(const char *format, ...) SYMC_PRINTF(1, 2);

static int fail_usage(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "symmcoll-run: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry 'symmcoll-run --help'.\n");
    return RUN_EXIT_USAGE;
}

/* Parses a whole number within bounds.  Returns -1, or the exit status. */
static int parse_count(
    const char *option, const char *text, int least, int most, int *value)
{
    long number;

    if (!symc_parse_number(text, least, most, &number))
        return fail_usage("%s: expected a whole number from %d to %d, found "
                          "\"%s\"",
            option, least, most, text);
    *value = (int)number;
    return -1;
}

static int parse_seconds(const char *option, const char *text, double *value)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end != '\0' || isnan(number) || number < 0)
        return fail_usage(
            "%s: expected seconds, 0 or more, found \"%s\"", option, text);
    *value = number;
    return -1;
}

static int parse_bind(const char *text, enum run_bind *bind)
{
    if (strcmp(text, "auto") == 0)
        *bind = RUN_BIND_AUTO;
    else if (strcmp(text, "none") == 0)
        *bind = RUN_BIND_NONE;
    else if (strcmp(text, "core") == 0)
        *bind = RUN_BIND_CORE;
    else
        return fail_usage(
            "--bind: expected auto, none or core, found \"%s\"", text);
    return -1;
}

/* Flushes and returns the exit status of a call that only prints. */
static int finish_printing(void)
{
    if (fflush(stdout) == 0)
        return 0;
    fprintf(stderr, "symmcoll-run: standard output: %s\n", strerror(errno));
    return RUN_EXIT_FAILED;
}

static int take_option(int option, struct run_options *options)
{
    switch (option) {
    case 'n':
        if (strcmp(optarg, "p") == 0)
            return fail_usage("expected -n and the number of ranks, found -np");
        return parse_count("-n", optarg, 1, RUN_RANKS_MAX, &options->ranks);
    case OPTION_BIND:
        return parse_bind(optarg, &options->bind);
    case OPTION_GRACE:
        return parse_seconds("--grace", optarg, &options->grace);
    case OPTION_MAX_RESTARTS:
        return parse_count(
            "--max-restarts", optarg, 0, 1000000, &options->max_restarts);
    case OPTION_NO_PREFIX:
        options->prefix = false;
        return -1;
    case OPTION_OUTPUT:
        if (*optarg == '\0')
            return fail_usage("--output: expected a folder, found \"\"");
        options->output = optarg;
        return -1;
    case 'v':
        options->verbose = true;
        return -1;
    case 'h':
        fputs(help, stdout);
        return finish_printing();
    case 'V':
        printf("symmcoll-run %s\n", symmcoll_version());
        return finish_printing();
    case OPTION_NP:
        return fail_usage("expected -n and the number of ranks, found --np");
    default: /* getopt has printed the error */
        fprintf(stderr, "Try 'symmcoll-run --help'.\n");
        return RUN_EXIT_USAGE;
    }
}

int run_options_parse(int argc, char **argv, struct run_options *options)
{
    static char name[] = "symmcoll-run"; /* shown in getopt's messages */
    int option;

    *options =
        (struct run_options){.bind = RUN_BIND_AUTO, .prefix = true, .grace = 5};
    if (argc > 0)
        argv[0] = name;
    /* "+": the program's options are not parsed here. */
    while ((option = getopt_long(argc, argv, "+n:vhV", long_options, NULL)) !=
           -1) {
        int status = take_option(option, options);

        if (status >= 0)
            return status;
    }
    if (options->ranks == 0)
        return fail_usage("expected -n and the number of ranks, found none");
    if (optind >= argc)
        return fail_usage("expected a program to run, found none");
    if (*argv[optind] == '\0')
        return fail_usage("expected a program to run, found \"\"");
    options->program = argv + optind;
    return -1;
}
