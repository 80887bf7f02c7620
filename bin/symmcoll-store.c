/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll-store: serves a tcp store until a signal ends it, for jobs that
 * outlive their rank 0. Manual: symmcoll-store(1).
 */
#include "help.h"
#include "store/server.h"

#include <symmcoll.h>

#include <errno.h>
#include <getopt.h>
#include <signal.h>
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
    "Usage: symmcoll-store [--bind ADDRESS] [--port PORT] [OPTION]...\n"
    "\n"
    "Serve a key-value store of libsymmcoll to clients of the Redis protocol.\n"
    "\n"
    "  -b, --bind ADDRESS       the address to listen at; default 127.0.0.1\n"
    "      --unix PATH          listen at this socket instead\n"
    "  -p, --port PORT          its port, 0 for any; default 6379\n"
    "      --password-file FILE its first line is what clients need\n"
    "      --tls-cert FILE      serve over TLS with this certificate\n"
    "      --tls-key FILE       its key; default: in the same file\n"
    "      --tls-ca FILE        clients need a certificate of these authorities\n"
    "      --max-clients N      default: 4096, or what descriptors allow\n"
    "      --max-memory SIZE    bytes, or with K, M or G; default: 1G\n"
    "  -h, --help               print this text\n"
    "  -V, --version            print the version\n"
    "\n"
    "The address is printed when clients can connect.  SIGTERM and SIGINT end\n"
    "it with exit status 0.  The exit status is 1 if it cannot serve, 2 if the\n"
    "command line is wrong.\n";

static int fail_usage(const char *problem, const char *word)
{
    fprintf(stderr, "symmcoll-store: %s, found '%s'\n%s", problem, word, usage);
    return EXIT_USAGE;
}

static int fail(void)
{
    fprintf(stderr, "symmcoll-store: %s\n", symmcoll_last_error());
    return EXIT_PROBLEM;
}

/* Parses a number up to most, with a unit if units is true. */
static bool read_number(
    const char *text, size_t most, bool units, size_t *number)
{
    static const char letters[] = "KMG";
    const char *unit;
    char *end;
    unsigned long long value;
    int shift = 0;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (units && *end != '\0' && (unit = strchr(letters, *end)) != NULL) {
        shift = 10 * (int)(unit - letters + 1);
        end++;
    }
    if (errno != 0 || *end != '\0' || value > most >> shift)
        return false;
    *number = (size_t)value << shift;
    return true;
}

/* Serves until a signal arrives. */
static int serve(const struct symc_server_args *args)
{
    struct symc_server *server;
    char text[SYMC_PLACE_TEXT];
    struct symc_place place = *args->place;
    sigset_t ends;
    int signal;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (symc_server_start(args, &server) != SYMMCOLL_OK)
        return fail();
    place.port = symc_server_port(server);
    printf("symmcoll-store: serving at %s%s\n", symc_place_text(&place, text),
        place.tls ? " over TLS" : "");
    if (fflush(stdout) != 0) {
        fprintf(
            stderr, "symmcoll-store: standard output: %s\n", strerror(errno));
        symc_server_stop(server);
        return EXIT_PROBLEM;
    }
    while (sigwait(&ends, &signal) != 0)
        continue;
    symc_server_stop(server);
    return EXIT_FINE;
}

enum {
    PASSWORD = 256,
    SOCKET,
    TLS_CERT,
    TLS_KEY,
    TLS_CA,
    CLIENTS,
    MEMORY
};

/* Stores one option in the arguments. */
static int take_option(
    int option, struct symc_place *place, struct symc_server_args *args)
{
    size_t number;
    char **files[] = {&place->tls_cert, &place->tls_key, &place->tls_ca};

    switch (option) {
    case 'b':
        if (optarg[0] == '\0' || strlen(optarg) >= sizeof(place->host))
            return fail_usage("--bind takes an address", optarg);
        snprintf(place->host, sizeof(place->host), "%s", optarg);
        return EXIT_FINE;
    case SOCKET:
        if (optarg[0] != '/' || strlen(optarg) > 107)
            return fail_usage(
                "--unix takes a path from the root of at most 107 bytes",
                optarg);
        snprintf(place->host, sizeof(place->host), "%s", optarg);
        place->local = true;
        return EXIT_FINE;
    case 'p':
        if (!read_number(optarg, UINT16_MAX, false, &number))
            return fail_usage("--port takes 0 to 65535", optarg);
        place->port = (int)number;
        return EXIT_FINE;
    case PASSWORD:
        return symc_password_read(optarg, place->password) == SYMMCOLL_OK
                   ? EXIT_FINE
                   : fail();
    case CLIENTS:
        if (!read_number(optarg, 1000000, false, &args->max_clients) ||
            args->max_clients == 0)
            return fail_usage("--max-clients takes 1 to 1000000", optarg);
        return EXIT_FINE;
    case MEMORY:
        if (!read_number(optarg, SIZE_MAX / 2, true, &args->max_memory) ||
            args->max_memory == 0)
            return fail_usage("--max-memory takes a size such as 64M", optarg);
        return EXIT_FINE;
    default:
        *files[option - TLS_CERT] = optarg;
        place->tls |= option == TLS_CERT;
        return EXIT_FINE;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"bind", required_argument, NULL, 'b'},
        {"port", required_argument, NULL, 'p'},
        {"unix", required_argument, NULL, SOCKET},
        {"password-file", required_argument, NULL, PASSWORD},
        {"tls-cert", required_argument, NULL, TLS_CERT},
        {"tls-key", required_argument, NULL, TLS_KEY},
        {"tls-ca", required_argument, NULL, TLS_CA},
        {"max-clients", required_argument, NULL, CLIENTS},
        {"max-memory", required_argument, NULL, MEMORY},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    static char name[] = "symmcoll-store"; /* shown in getopt's messages */
    struct symc_place place = {.host = "127.0.0.1", .port = 6379};
    struct symc_server_args args = {.place = &place, .deadline_ns = SYMC_NEVER};
    int status = EXIT_FINE;

    if (argc > 0)
        argv[0] = name;
    for (int option;
         (option = getopt_long(argc, argv, "b:p:hV", options, NULL)) != -1;) {
        switch (option) {
        case 'h':
            if (prints_help())
                fputs(usage, stdout);
            return fflush(stdout) == 0 ? EXIT_FINE : EXIT_PROBLEM;
        case 'V':
            if (prints_help())
                printf("symmcoll-store %s\n", symmcoll_version());
            return fflush(stdout) == 0 ? EXIT_FINE : EXIT_PROBLEM;
        case '?':
            fputs(usage, stderr);
            return EXIT_USAGE;
        default:
            status = take_option(option, &place, &args);
            if (status != EXIT_FINE)
                return status;
        }
    }
    if (optind < argc)
        return fail_usage("expected options only", argv[optind]);
    if (place.local && place.tls)
        return fail_usage(
            "--unix has no TLS: expected no --tls-cert", place.tls_cert);
    if (!place.tls && (place.tls_key != NULL || place.tls_ca != NULL)) {
        fprintf(stderr,
            "symmcoll-store: --tls-key and --tls-ca need --tls-cert\n%s",
            usage);
        return EXIT_USAGE;
    }
    status = serve(&args);
    explicit_bzero(place.password, sizeof(place.password));
    return status;
}
