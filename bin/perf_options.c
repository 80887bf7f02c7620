/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of symmcoll-perf.
 */
#include "help.h"
#include "perf_device.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096
#define GROUPS_MAX 1000
#define SECONDS_MAX 3600.0
#define SIDE_MAX 65536
#define NBYTES_MAX ((size_t)1 << 40)

enum option_key {
    OPT_OP = 'o',
    OPT_DTYPE = 'd',
    OPT_REDUCE = 'r',
    OPT_MIN = 'b',
    OPT_MAX = 'e',
    OPT_STEP = 'f',
    OPT_THREADS = 't',
    OPT_HELP = 'h',
    OPT_VERSION = 'V',
    OPT_IN_PLACE = 256,
    OPT_DIRTY,
    OPT_ASYNC,
    OPT_TSV,
    OPT_PEER,
    OPT_SECONDS,
    OPT_CHECK_ONLY,
    OPT_GROUPS,
    OPT_SYMMETRIC,
    OPT_FUSED,
    OPT_SHAPE,
    OPT_PLOT,
    OPT_DEVICE,
    OPT_SHARE,
    OPT_THRESHOLDS
};

static const char usage[] =
    "Usage: symmcoll-run -n N symmcoll-perf [OPTION]...\n"
    "       symmcoll-perf --threads N [OPTION]...\n"
    "       symmcoll-perf --plot FILE.svg [--op LIST] FILE.tsv...\n"
    "Check collectives, then measure their latency and bandwidth.\n"
    "\n"
    "  -o, --op LIST       operations, separated by commas (default: all):\n"
    "                      all_reduce all_gather reduce_scatter broadcast "
    "reduce\n"
    "                      gather scatter all_to_all all_to_all_v barrier\n"
    "                      bucket_avg; also with _dirty, _in_place\n"
    "                      or, for bucket_avg, _blocking, _nonblocking\n"
    "                      only where named: store, which sets and gets a\n"
    "                      key; group_create, which makes and releases one;\n"
    "                      symm_barrier, of symmetric memory;\n"
    "                      of 2 ranks: sendrecv and put_signal, one way of\n"
    "                      there and back, and send_recv_both, both at once\n"
    "  -d, --dtype TYPE    element type (float32)\n"
    "  -r, --reduce OP     sum, avg, product, min, max, band, bor, bxor or\n"
    "                      premul_sum (sum)\n"
    "  -b, --min SIZE      smallest size, in bytes or with K, M, G (8)\n"
    "  -e, --max SIZE      largest size (64M)\n"
    "  -f, --step N        each size is N times the one before (8)\n"
    "  -t, --threads N     ranks are N threads of this process\n"
    "      --groups K      run the operations in K groups in turn\n"
    "      --fused LIST    instead: all_gather_matmul, matmul_reduce_scatter\n"
    "      --shape M,K,N   of --fused, any number (1024,1024,1024)\n"
    "      --device cuda[:N]\n"
    "                      memory of GPUs, timed by their events: rank 0's\n"
    "                      is N (0), that of others the next ones\n"
    "      --share         have all ranks on that one\n"
    "      --thresholds    measure how all_reduce is best done there, and\n"
    "                      print settings for symmcoll.conf\n"
    "      --in-place      use the input's buffer for the result\n"
    "      --dirty         write each input again before each sample\n"
    "      --symmetric     have the buffers in symmetric memory\n"
    "      --async         bucket_avg: start all, then wait\n"
    "      --seconds S     time to measure each size, in s (0.08)\n"
    "      --check-only    check results without measuring\n"
    "      --tsv           tab-separated values, without a heading\n"
    "      --peer NAME     first column of --tsv (symmcoll; with\n"
    "                      --symmetric symmcoll_symmetric)\n"
    "      --plot FILE     plot files of --tsv as SVG, do not measure\n"
    "  -h, --help          print this\n"
    "  -V, --version       print the version\n";

static const struct option longs[] = {
    {"op", required_argument, NULL, OPT_OP},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"reduce", required_argument, NULL, OPT_REDUCE},
    {"min", required_argument, NULL, OPT_MIN},
    {"max", required_argument, NULL, OPT_MAX},
    {"step", required_argument, NULL, OPT_STEP},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"groups", required_argument, NULL, OPT_GROUPS},
    {"in-place", no_argument, NULL, OPT_IN_PLACE},
    {"dirty", no_argument, NULL, OPT_DIRTY},
    {"symmetric", no_argument, NULL, OPT_SYMMETRIC},
    {"async", no_argument, NULL, OPT_ASYNC},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"check-only", no_argument, NULL, OPT_CHECK_ONLY},
    {"tsv", no_argument, NULL, OPT_TSV},
    {"peer", required_argument, NULL, OPT_PEER},
    {"fused", required_argument, NULL, OPT_FUSED},
    {"shape", required_argument, NULL, OPT_SHAPE},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"share", no_argument, NULL, OPT_SHARE},
    {"thresholds", no_argument, NULL, OPT_THRESHOLDS},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

/* Reads a rank from an environment variable.  Returns false if it is not
 * set. */
static bool read_rank(const char *name, int *rank)
{
    const char *text = getenv(name);

    if (!text || *text == '\0')
        return false;
    *rank = atoi(text);
    return true;
}

bool perf_launched(int *rank)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK",
        "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};

    *rank = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (read_rank(names[i], rank))
            return true;
    return false;
}

static bool refuse(const char *option, const char *expected, const char *found)
{
    fprintf(stderr, "symmcoll-perf: %s: expected %s, found \"%s\"\n", option,
        expected, found);
    return false;
}

/* Parses "4096", "4K" or "4KiB"; units are powers of 1024. */
static bool parse_size(const char *option, const char *text, size_t *nbytes)
{
    static const char units[] = "KMG";
    const char *unit;
    char *end;
    unsigned long long value;
    int shift = 0;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *text == '-')
        return refuse(option, "a size such as 8, 4K or 64MiB", text);
    unit = *end != '\0' ? strchr(units, *end) : NULL;
    if (unit) {
        shift = 10 * (int)(unit - units + 1);
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B')
        end++;
    if (*end != '\0')
        return refuse(option, "a size such as 8, 4K or 64MiB", text);
    if (value == 0 || value > NBYTES_MAX >> shift)
        return refuse(option, "1 byte to 1024G", text);
    *nbytes = (size_t)value << shift;
    return true;
}

static bool parse_count(
    const char *option, const char *text, long least, long most, long *value)
{
    char expected[PERF_NAME_MAX];
    char *end;

    errno = 0;
    *value = strtol(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *value >= least &&
        *value <= most)
        return true;
    snprintf(
        expected, sizeof(expected), "a number from %ld to %ld", least, most);
    return refuse(option, expected, text);
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*seconds) || *seconds <= 0 ||
        *seconds > SECONDS_MAX)
        return refuse("--seconds", "a time above 0 and up to 3600", text);
    return true;
}

static const char *dtype_name_at(int index)
{
    return symmcoll_dtype_name((enum symmcoll_dtype)index);
}

static const char *reduce_name_at(int index)
{
    return symmcoll_op_name(index);
}

static bool refuse_name(const char *option, const char *what, const char *found,
    const char *nearest)
{
    fprintf(stderr,
        "symmcoll-perf: %s: expected the name of %s, found \"%s\"%s%s%s\n",
        option, what, found, nearest ? "; the nearest is \"" : "",
        nearest ? nearest : "", nearest ? "\"" : "");
    return false;
}

static bool parse_reduce(const char *text, symmcoll_op_t *op)
{
    /* symmcoll_op_parse() does not know it: it is created by a call of its
     * own. */
    if (strcmp(text, symmcoll_op_name(SYMMCOLL_PREMUL_SUM)) == 0) {
        *op = SYMMCOLL_PREMUL_SUM;
        return true;
    }
    if (symmcoll_op_parse(text, op) == SYMMCOLL_OK)
        return true;
    return refuse_name("--reduce", "a reduce operation", text,
        perf_nearest(text, reduce_name_at));
}

static bool parse_dtype(const char *text, enum symmcoll_dtype *dtype)
{
    if (symmcoll_dtype_parse(text, dtype) == SYMMCOLL_OK)
        return true;
    return refuse_name(
        "--dtype", "an element type", text, perf_nearest(text, dtype_name_at));
}

static bool parse_fused(const char *text, struct perf_options *options)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ",");

        if (strncmp(text, "all_gather_matmul", length) == 0 && length == 17)
            options->gathers = true;
        else if (strncmp(text, "matmul_reduce_scatter", length) == 0 &&
                 length == 21)
            options->scatters = true;
        else
            return refuse("--fused",
                "all_gather_matmul, matmul_reduce_scatter or both", text);
        text += length + (text[length] == ',');
    }
    return true;
}

static bool parse_shape(const char *text, struct perf_options *options)
{
    struct perf_shape *shape = &options->shapes[options->nshapes];
    long long sides[3];
    char rest;

    if (options->nshapes == PERF_SHAPES_MAX)
        return refuse("--shape", "not so many of them", text);
    if (sscanf(text, "%lld,%lld,%lld%c", &sides[0], &sides[1], &sides[2],
            &rest) != 3)
        return refuse("--shape", "M,K,N", text);
    for (int i = 0; i < 3; i++) {
        if (sides[i] < 1 || sides[i] > SIDE_MAX)
            return refuse("--shape", "sides from 1 to 65536", text);
    }
    *shape = (struct perf_shape){sides[0], sides[1], sides[2]};
    options->nshapes++;
    return true;
}

/* Options that can be checked only when all have been read. */
struct pending {
    const char *ops[PERF_CHOICES_MAX];
    int nops;
    struct perf_manner manner;
};

static bool parse_one(int key, const char *text, struct perf_options *options,
    struct pending *pending)
{
    long number;

    switch (key) {
    case OPT_OP:
        if (pending->nops == PERF_CHOICES_MAX)
            return refuse("--op", "not so many of them", text);
        pending->ops[pending->nops++] = text;
        return true;
    case OPT_DTYPE:
        return parse_dtype(text, &options->dtype);
    case OPT_REDUCE:
        return parse_reduce(text, &options->reduce);
    case OPT_MIN:
        return parse_size("--min", text, &options->min_nbytes);
    case OPT_MAX:
        return parse_size("--max", text, &options->max_nbytes);
    case OPT_STEP:
        if (!parse_count("--step", text, 2, 1 << 20, &number))
            return false;
        options->step = (size_t)number;
        return true;
    case OPT_THREADS:
        if (!parse_count("--threads", text, 1, THREADS_MAX, &number))
            return false;
        options->threads = (int)number;
        return true;
    case OPT_GROUPS:
        if (!parse_count("--groups", text, 1, GROUPS_MAX, &number))
            return false;
        options->groups = (int)number;
        return true;
    case OPT_FUSED:
        return parse_fused(text, options);
    case OPT_SHAPE:
        return parse_shape(text, options);
    case OPT_SECONDS:
        return parse_seconds(text, &options->seconds);
    case OPT_PEER:
        options->peer = text;
        return *text != '\0' && strpbrk(text, "\t\n") == NULL
                   ? true
                   : refuse("--peer", "a name without tabs", text);
    case OPT_IN_PLACE:
        pending->manner.in_place = true;
        return true;
    case OPT_DIRTY:
        pending->manner.dirty = true;
        return true;
    case OPT_SYMMETRIC:
        options->symmetric = true;
        return true;
    case OPT_DEVICE:
        return perf_parse_device(options, text);
    case OPT_SHARE:
        options->share = true;
        return true;
    case OPT_THRESHOLDS:
        options->thresholds = true;
        return true;
    case OPT_ASYNC:
        pending->manner.async = true;
        return true;
    case OPT_CHECK_ONLY:
        options->check_only = true;
        return true;
    case OPT_TSV:
        options->tsv = true;
        return true;
    case OPT_PLOT:
        options->plot = text;
        return *text != '\0' ? true : refuse("--plot", "a path", text);
    default:
        fputs("Try 'symmcoll-perf --help'.\n", stderr);
        return false;
    }
}

/* Checks that --plot has files and no option for measuring. */
static bool check_plot(const struct perf_options *options)
{
    const char *other = options->tsv           ? "--tsv"
                        : options->check_only  ? "--check-only"
                        : options->device      ? "--device"
                        : options->threads > 0 ? "--threads"
                                               : NULL;

    if (other != NULL)
        fprintf(stderr,
            "symmcoll-perf: --plot: expected files of an earlier run with "
            "--tsv, found %s\n",
            other);
    else if (options->ninputs == 0)
        fputs("symmcoll-perf: --plot: expected files of --tsv to draw, found "
              "none\n",
            stderr);
    return other == NULL && options->ninputs > 0;
}

/* Checks that --shape has --fused.  No other buffers are needed then. */
static bool finish_fused(struct perf_options *options)
{
    bool fused = options->gathers || options->scatters;

    if (!fused && options->nshapes > 0) {
        fputs("symmcoll-perf: --shape: expected --fused too\n", stderr);
        return false;
    }
    if (fused && options->nshapes == 0)
        options->shapes[options->nshapes++] =
            (struct perf_shape){1024, 1024, 1024};
    if (fused)
        options->max_nbytes = options->min_nbytes;
    return true;
}

static bool finish(struct perf_options *options, const struct pending *pending)
{
    int rank;

    if (!finish_fused(options))
        return false;

    if (options->plot != NULL && !check_plot(options))
        return false;
    if (options->threads > 0 && perf_launched(&rank)) {
        fputs("symmcoll-perf: --threads: expected no launcher, found one "
              "that started this process as a rank\n",
            stderr);
        return false;
    }
    if (options->min_nbytes > options->max_nbytes) {
        fprintf(stderr,
            "symmcoll-perf: --min: expected at most --max, %zu, found %zu\n",
            options->max_nbytes, options->min_nbytes);
        return false;
    }
    if (options->peer == NULL)
        options->peer = options->symmetric ? "symmcoll_symmetric"
                        : options->device  ? "symmcoll_cuda"
                                           : "symmcoll";
    options->named = pending->nops > 0;
    for (int i = 0; i < pending->nops; i++)
        if (!perf_choose(options, pending->ops[i], &pending->manner))
            return false;
    if (!options->named)
        perf_choose_all(options, &pending->manner);
    if (!perf_finish_device(options))
        return false;
    for (int i = 0; i < options->nchoices; i++) {
        if (!options->choices[i].dirty || options->max_nbytes >= PERF_DIRTY_MIN)
            continue;
        fprintf(stderr,
            "symmcoll-perf: %s: expected --max of at least %d, found %zu\n",
            options->choices[i].name, PERF_DIRTY_MIN, options->max_nbytes);
        return false;
    }
    return true;
}

bool perf_parse(
    int argc, char **argv, struct perf_options *options, int *status)
{
    struct pending pending = {.nops = 0};
    int key;

    *options = (struct perf_options){
        .dtype = SYMMCOLL_FLOAT32,
        .reduce = SYMMCOLL_SUM,
        .min_nbytes = 8,
        .max_nbytes = (size_t)64 << 20,
        .step = 8,
        .seconds = 0.08,
    };
    *status = PERF_USAGE;
    while ((key = getopt_long(argc, argv, "o:d:r:b:e:f:t:hV", longs, NULL)) !=
           -1) {
        if (key == OPT_HELP || key == OPT_VERSION) {
            if (key == OPT_HELP && prints_help())
                fputs(usage, stdout);
            else if (prints_help())
                printf("symmcoll-perf %s\n", symmcoll_version());
            *status = perf_flush() ? PERF_PASSED : PERF_FAILED;
            return false;
        }
        if (!parse_one(key, optarg, options, &pending))
            return false;
    }
    if (optind < argc && options->plot == NULL)
        return refuse("arguments", "options only", argv[optind]);
    options->inputs = argv + optind;
    options->ninputs = argc - optind;
    return finish(options, &pending);
}
