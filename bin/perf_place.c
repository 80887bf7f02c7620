/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place of the buffers: --device, and the options that need it.
 */
#include "perf_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDINAL_MAX 1023

bool perf_parse_device(struct perf_options *options, const char *text)
{
    const char *number = text + strlen("cuda:");
    char *end = NULL;
    long ordinal = 0;

    if (strncmp(text, "cuda:", strlen("cuda:")) == 0) {
        errno = 0;
        ordinal = strtol(number, &end, 10);
    }
    if ((end == NULL && strcmp(text, "cuda") != 0) ||
        (end != NULL && (end == number || *end != '\0' || errno != 0 ||
                            ordinal < 0 || ordinal > ORDINAL_MAX))) {
        fprintf(stderr,
            "symmcoll-perf: --device: expected cuda or cuda:N, found \"%s\"\n",
            text);
        return false;
    }
    options->device = true;
    options->first_device = (int)ordinal;
    return true;
}

static bool refuse(const char *option, const char *expected, const char *found)
{
    fprintf(stderr, "symmcoll-perf: %s: expected %s, found %s\n", option,
        expected, found);
    return false;
}

/* Checks that no option is used that needs --device. */
static bool check_host(const struct perf_options *options)
{
    const char *option = options->share        ? "--share"
                         : options->thresholds ? "--thresholds"
                                               : NULL;

    if (option == NULL)
        return true;
    fprintf(stderr, "symmcoll-perf: %s: expected --device too\n", option);
    return false;
}

/* Chooses the operation of --thresholds. */
static bool choose_thresholds(struct perf_options *options)
{
    static const struct perf_manner plain = {.dirty = false};

    if (options->named)
        return refuse(
            "--thresholds", "all_reduce alone, which it measures", "--op");
    if (options->groups > 0)
        return refuse("--thresholds", "groups of its own", "--groups");
    options->nchoices = 0;
    return perf_choose(options, "all_reduce", &plain);
}

bool perf_finish_device(struct perf_options *options)
{
    if (!options->device)
        return check_host(options);
    if (options->symmetric)
        return refuse(
            "--device", "buffers that are not symmetric", "--symmetric");
    if (options->nshapes > 0)
        return refuse("--device", "collectives", "--fused");
    if (options->thresholds && !choose_thresholds(options))
        return false;
    for (int i = 0; i < options->nchoices; i++)
        if (!options->choices[i].op->device)
            return refuse("--device",
                "operations that may be on device memory: all_reduce, "
                "all_gather, reduce_scatter, broadcast, reduce, gather, "
                "scatter, all_to_all, barrier, sendrecv, send_recv_both",
                options->choices[i].name);
    /* The barriers of measuring are the host's and use another group. */
    if (options->groups == 0)
        options->groups = 1;
    return true;
}
