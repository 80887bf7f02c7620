/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings: the bytes are a file, or after a zero byte the variables of an
 * environment, each terminated by a zero byte.
 */
#include "t/fuzz/fuzz.h"

#include "config/option.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLES_MAX 64

const char fuzz_name[] = "settings";

/* Suppresses a leak of libconfig, which loses the text that it was reading at
 * a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so";
}

static void take_warning(const char *text, void *arg)
{
    (void)text;
    (void)arg;
}

static void read_sources(const struct symc_sources *sources)
{
    struct symc_config *config;

    if (symc_config_read(sources, &config, take_warning, NULL) != SYMMCOLL_OK)
        return;
    /* An accepted value is in range and has a text. */
    for (int i = 0; i < symc_option_count(); i++)
        if (config->values[i].text == NULL || config->values[i].origin == NULL)
            abort();
    symc_config_free(config);
}

static void read_as_file(const uint8_t *data, size_t nbytes)
{
    char path[64];
    struct symc_sources sources = {.named = path};
    int fd;

    snprintf(
        path, sizeof(path), "/tmp/symmcoll-fuzz-settings-%ld", (long)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, nbytes) != (ssize_t)nbytes || close(fd) != 0)
        abort();
    read_sources(&sources);
    unlink(path);
}

static void read_as_environment(const uint8_t *data, size_t nbytes)
{
    char *text = malloc(nbytes + 1);
    char *variables[VARIABLES_MAX + 1];
    struct symc_sources sources = {.environment = variables};
    int count = 0;

    if (text == NULL)
        abort();
    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    for (size_t at = 0; at < nbytes && count < VARIABLES_MAX;
         at += strlen(text + at) + 1)
        variables[count++] = text + at;
    variables[count] = NULL;
    read_sources(&sources);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes > 0 && data[0] == 0)
        read_as_environment(data + 1, nbytes - 1);
    else
        read_as_file(data, nbytes);
    return 0;
}
