/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll-conf: prints the settings in effect with their origins, checks a
 * file, and prints the OPTIONS section of symmcoll.conf(5). Uses the public
 * interface only.  Manual: symmcoll-conf(1).
 */
#include "help.h"

#include <symmcoll/config.h>
#include <symmcoll/error.h>

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exit statuses. */
enum {
    EXIT_FINE = 0,
    EXIT_PROBLEM = 1,
    EXIT_USAGE = 2
};

static const char usage[] =
    "Usage: symmcoll-conf list\n"
    "       symmcoll-conf get KEY\n"
    "       symmcoll-conf check FILE\n"
    "       symmcoll-conf --mdoc | --help | --version\n"
    "\n"
    "Show the settings of libsymmcoll that are in effect here.\n"
    "\n"
    "  list           each setting: key, value and origin, separated by tabs\n"
    "  get KEY        the same for one setting\n"
    "  check FILE     read a settings file alone, say what is wrong with it\n"
    "      --mdoc     print the OPTIONS section of symmcoll.conf(5)\n"
    "  -h, --help     print this text\n"
    "  -V, --version  print the version\n"
    "\n"
    "The exit status is 0; 1 if something is wrong with the settings, the\n"
    "file or the key; 2 if the command line is wrong.\n";

static int fail_usage(const char *problem, const char *word)
{
    fprintf(stderr, "symmcoll-conf: %s%s%s\n%s", problem,
        word != NULL ? ": " : "", word != NULL ? word : "", usage);
    return EXIT_USAGE;
}

static int fail(void)
{
    fprintf(stderr, "symmcoll-conf: %s\n", symmcoll_last_error());
    return EXIT_PROBLEM;
}

/* ---- printing of settings and warnings ---- */

static void print_row(const struct symmcoll_setting *setting, void *arg)
{
    (void)arg;
    printf("%s\t%s\t%s\n", setting->key, setting->value, setting->origin);
}

/* arg counts the warnings, or is NULL. */
static void print_warning(const char *line, void *arg)
{
    int *count = arg;

    if (count != NULL)
        ++*count;
    fprintf(stderr, "symmcoll-conf: warning: %s\n", line);
}

/* Prints words as lines of mdoc text, each sentence on a new line.  Help texts
 * contain no markup except backslashes. */
static void print_paragraph(const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        bool ends = text[n - 1] == '.';

        if (column > 0 && column + 1 + n > 78) {
            putchar('\n');
            column = 0;
        } else if (column > 0) {
            putchar(' ');
            column++;
        }
        column += n;
        for (; n > 0; n--, text++) {
            putchar(*text);
            if (*text == '\\')
                putchar('e');
        }
        text += strspn(text, " ");
        if (ends && *text != '\0') {
            putchar('\n');
            column = 0;
        }
    }
    putchar('\n');
}

/* Prints one macro line per name in a list separated by blanks. */
static void print_variables(const char *own, const char *others)
{
    printf(".Ev %s", own);
    while (*others != '\0') {
        size_t n = strcspn(others, " ");

        printf(" ,\n.Ev %.*s", (int)n, others);
        others += n + strspn(others + n, " ");
    }
    printf(" .\n");
}

static void print_mdoc(const struct symmcoll_setting *setting, void *arg)
{
    (void)arg;
    printf(".It Cm %s\n", setting->key);
    print_paragraph(setting->help);
    printf("Takes %s.\nDefault: %s.\nEnvironment:\n", setting->expected,
        setting->dflt[0] != '\0' ? setting->dflt : "empty text");
    print_variables(setting->variable, setting->aliases);
}

/* ---- commands ---- */

static int run_list(void)
{
    if (symmcoll_config_each(print_row, print_warning, NULL) != SYMMCOLL_OK)
        return fail();
    return EXIT_FINE;
}

static int run_get(const char *key)
{
    if (symmcoll_config_get(key, print_row, print_warning, NULL) != SYMMCOLL_OK)
        return fail();
    return EXIT_FINE;
}

static int run_check(const char *path)
{
    int warnings = 0;

    if (symmcoll_config_check(path, print_warning, &warnings) != SYMMCOLL_OK)
        return fail();
    return warnings == 0 ? EXIT_FINE : EXIT_PROBLEM;
}

/* The page is the same everywhere: files and variables are ignored. */
static int run_mdoc(void)
{
    if (clearenv() != 0 || setenv("SYMMCOLL_CONF", "", 1) != 0) {
        perror("symmcoll-conf: environment");
        return EXIT_PROBLEM;
    }
    printf(".Bl -tag -width Ds\n");
    if (symmcoll_config_each(print_mdoc, print_warning, NULL) != SYMMCOLL_OK)
        return fail();
    printf(".El\n");
    return EXIT_FINE;
}

static int run_command(int count, char **words)
{
    if (count == 0)
        return fail_usage("expected a command", NULL);
    if (strcmp(words[0], "list") == 0) {
        if (count != 1)
            return fail_usage("list takes nothing more, found", words[1]);
        return run_list();
    }
    if (strcmp(words[0], "get") == 0) {
        if (count != 2)
            return fail_usage("get takes one key", NULL);
        return run_get(words[1]);
    }
    if (strcmp(words[0], "check") == 0) {
        if (count != 2)
            return fail_usage("check takes one file", NULL);
        return run_check(words[1]);
    }
    return fail_usage("unknown command", words[0]);
}

/* Returns the exit status, or EXIT_PROBLEM if output was lost. */
static int close_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "symmcoll-conf: standard output: %s\n", strerror(errno));
    return EXIT_PROBLEM;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"mdoc", no_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    static char name[] = "symmcoll-conf"; /* shown in getopt's messages */
    bool mdoc = false;

    if (argc > 0)
        argv[0] = name;
    for (int option;
         (option = getopt_long(argc, argv, "hV", options, NULL)) != -1;) {
        switch (option) {
        case 'h':
            if (prints_help())
                fputs(usage, stdout);
            return close_output(EXIT_FINE);
        case 'V':
            if (prints_help())
                printf("symmcoll-conf %s\n", symmcoll_version());
            return close_output(EXIT_FINE);
        case 'm':
            mdoc = true;
            break;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (mdoc) {
        if (optind < argc)
            return fail_usage("--mdoc takes nothing more, found", argv[optind]);
        return close_output(run_mdoc());
    }
    return close_output(run_command(argc - optind, argv + optind));
}
