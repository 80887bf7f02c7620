/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of train_charlm.
 */
#include "charlm.h"

#include <symmcoll.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int charlm_fail(char *error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, CHARLM_ERROR_MAX, format, args);
    va_end(args);
    return -1;
}

static const struct option long_options[] = {
    {"text", required_argument, NULL, 't'},
    {"steps", required_argument, NULL, 's'},
    {"batch", required_argument, NULL, 'b'},
    {"accumulate", required_argument, NULL, 'a'},
    {"threads", required_argument, NULL, 'n'},
    {"seed", required_argument, NULL, 'x'},
    {"learning-rate", required_argument, NULL, 'l'},
    {"hook", required_argument, NULL, 'H'},
    {"shard", no_argument, NULL, 'S'},
    {"uneven", no_argument, NULL, 'e'},
    {"kill-rank", required_argument, NULL, 'k'},
    {"at-step", required_argument, NULL, 'K'},
    {"plot", required_argument, NULL, 'p'},
    {"save", required_argument, NULL, 'w'},
    {"blas", no_argument, NULL, 'B'},
    {"use-blas", required_argument, NULL, 'u'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

void charlm_print_help(void)
{
    fputs("usage: train_charlm [OPTION]...\n"
          "       symmcoll-run -n RANKS train_charlm [OPTION]...\n"
          "\n"
          "Train a character-level language model with data parallelism.\n"
          "\n"
          "  --text FILE...       learn from these files; without it: the\n"
          "                       licences in /usr/share/common-licenses\n"
          "  --steps N            steps of the optimizer (1000)\n"
          "  --batch N            characters of one micro-batch (256)\n"
          "  --accumulate N       micro-batches of each rank in one step (1)\n"
          "  --threads N          run N ranks as threads of this process\n"
          "  --seed N             of weights and batches (1)\n"
          "  --learning-rate X    the largest (0.002)\n"
          "  --hook NAME          average gradients by this hook of\n"
          "                       symmcoll_hook_create(3), or none (none)\n"
          "  --shard              update a part of the parameters on each "
          "rank\n"
          "  --uneven             give later ranks fewer steps\n"
          "  --kill-rank N        kill this process, from 1, and go on without "
          "it\n"
          "                       (symmcoll-run --grace SECONDS waits for the "
          "rest)\n"
          "  --at-step N          before this step, from 0 (0)\n"
          "  --plot FILE.svg      draw the loss\n"
          "  --save FILE          write the parameters\n"
          "  --blas               print which BLAS multiplies matrices, and "
          "end\n"
          "  --use-blas LIBRARY[:KERNELS]\n"
          "                       multiply by this one; OpenBLAS by these "
          "kernels\n"
          "  --help               print this\n",
        stdout);
}

static int parse_number(const char *name, const char *text, long long least,
    long long most, long long *number, char *error)
{
    char *end;

    errno = 0;
    *number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *number < least ||
        *number > most)
        return charlm_fail(error,
            "--%s: expected a number from %lld to %lld, found \"%s\"", name,
            least, most, text);
    return 0;
}

static int parse_int(const char *name, const char *text, int least, int most,
    int *value, char *error)
{
    long long number;

    if (parse_number(name, text, least, most, &number, error) != 0)
        return -1;
    *value = (int)number;
    return 0;
}

static int parse_seed(const char *text, uint64_t *seed, char *error)
{
    long long number;

    if (parse_number("seed", text, 0, INT64_MAX, &number, error) != 0)
        return -1;
    *seed = (uint64_t)number;
    return 0;
}

static int parse_rate(const char *text, double *rate, char *error)
{
    char *end;

    *rate = strtod(text, &end);
    if (end == text || *end != '\0' || !(*rate > 0.0 && *rate <= 1.0))
        return charlm_fail(error,
            "--learning-rate: expected a number above 0 and up to 1, found "
            "\"%s\"",
            text);
    return 0;
}

static int parse_hook(const char *text, const char **hook, char *error)
{
    char names[256] = "none";
    const char *name;

    *hook = NULL;
    for (int i = 0; (name = symmcoll_hook_name(i)) != NULL; i++) {
        size_t length = strlen(names);

        if (strcmp(text, name) == 0)
            *hook = name;
        snprintf(names + length, sizeof(names) - length, ", %s", name);
    }
    return *hook != NULL || strcmp(text, "none") == 0
               ? 0
               : charlm_fail(error, "--hook: expected one of %s, found \"%s\"",
                     names, text);
}

static int parse_path(
    const char *name, const char *text, const char **path, char *error)
{
    /* More likely the path was forgotten than that it begins with "-". */
    if (*text == '\0' || *text == '-')
        return charlm_fail(
            error, "--%s: expected a path, found \"%s\"", name, text);
    *path = text;
    return 0;
}

/* Takes the argument of --text and all that follows up to the next option. */
static int take_texts(
    int argc, char **argv, struct charlm_options *options, char *error)
{
    int first = optind - 1;
    const char *path;

    if (parse_path("text", optarg, &path, error) != 0)
        return -1;
    argv[first] = optarg; /* part of the word for --text=FILE */
    while (optind < argc && argv[optind][0] != '-')
        optind++;
    options->texts = (const char *const *)&argv[first];
    options->ntexts = optind - first;
    return 0;
}

static int refuse_option(char **argv, char *error)
{
    if (optopt == 0)
        return charlm_fail(
            error, "no option %s (try --help)", argv[optind - 1]);
    for (const struct option *o = long_options; o->name != NULL; o++)
        if (o->val == optopt && o->has_arg == no_argument)
            return charlm_fail(error, "--%s takes no argument", o->name);
    return charlm_fail(error, "no option -%c (try --help)", optopt);
}

/* Checks that --shard comes with options that it can be combined with. */
static int check_shard(const struct charlm_options *options, char *error)
{
    const char *other = NULL;

    if (options->hook != NULL)
        other = "--hook";
    else if (options->uneven)
        other = "--uneven";
    else if (options->kill_rank > 0)
        other = "--kill-rank";
    if (!options->shard || other == NULL)
        return 0;
    return charlm_fail(
        error, "expected --shard or %s, found both (try --help)", other);
}

/* Checks the options about a rank that is killed. */
static int check_death(struct charlm_options *options, char *error)
{
    if (options->uneven && options->kill_rank > 0)
        return charlm_fail(
            error, "expected --uneven or --kill-rank, found both (try --help)");
    if (options->kill_rank > 0 && options->hook != NULL &&
        strcmp(options->hook, "all_reduce") != 0 &&
        strstr(options->hook, "_compress") == NULL)
        return charlm_fail(error,
            "expected --hook %s or --kill-rank, found both (try --help)",
            options->hook);
    if (options->at_step >= 0 && options->kill_rank == 0)
        return charlm_fail(error,
            "--at-step: expected --kill-rank with it, found none (try --help)");
    if (options->at_step >= options->steps)
        return charlm_fail(error,
            "--at-step: expected a step from 0 to %d, as --steps is %d, found "
            "%d",
            options->steps - 1, options->steps, options->at_step);
    if (options->at_step < 0)
        options->at_step = 0;
    return 0;
}

int charlm_parse_options(
    int argc, char **argv, struct charlm_options *options, char *error)
{
    int c, status = 0;

    *options = (struct charlm_options){.steps = 1000,
        .batch = 256,
        .accumulate = 1,
        .seed = 1,
        .learning_rate = 2e-3,
        .at_step = -1};
    opterr = 0;
    /* "+": keeps the order of arguments; ":": returns ':' for a missing one. */
    while (status == 0 &&
           (c = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
        if (c == 't')
            status = take_texts(argc, argv, options, error);
        else if (c == 's')
            status =
                parse_int("steps", optarg, 1, 1000000, &options->steps, error);
        else if (c == 'b')
            status =
                parse_int("batch", optarg, 1, 65536, &options->batch, error);
        else if (c == 'a')
            status = parse_int(
                "accumulate", optarg, 1, 65536, &options->accumulate, error);
        else if (c == 'n')
            status =
                parse_int("threads", optarg, 1, 256, &options->threads, error);
        else if (c == 'x')
            status = parse_seed(optarg, &options->seed, error);
        else if (c == 'l')
            status = parse_rate(optarg, &options->learning_rate, error);
        else if (c == 'H')
            status = parse_hook(optarg, &options->hook, error);
        else if (c == 'S')
            options->shard = true;
        else if (c == 'e')
            options->uneven = true;
        else if (c == 'k')
            status = parse_int(
                "kill-rank", optarg, 1, 1023, &options->kill_rank, error);
        else if (c == 'K')
            status = parse_int(
                "at-step", optarg, 0, 999999, &options->at_step, error);
        else if (c == 'p')
            status = parse_path("plot", optarg, &options->plot, error);
        else if (c == 'w')
            status = parse_path("save", optarg, &options->save, error);
        else if (c == 'B')
            options->blas = true;
        else if (c == 'u')
            status = parse_path("use-blas", optarg, &options->use_blas, error);
        else if (c == 'h')
            return 1;
        else if (c == ':')
            status = charlm_fail(
                error, "%s wants an argument (try --help)", argv[optind - 1]);
        else
            status = refuse_option(argv, error);
    }
    if (status == 0 && optind < argc)
        status =
            charlm_fail(error, "no argument \"%s\" (try --help)", argv[optind]);
    if (status == 0)
        status = check_shard(options, error);
    return status == 0 ? check_death(options, error) : status;
}
