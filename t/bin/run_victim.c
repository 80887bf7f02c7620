/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that run_ranks.t starts: ranks that run all_reduce until one of
 * them fails.
 *
 *   run_victim HOW RANK [MIB]
 *
 * HOW selects what RANK does after ten operations, in the eleventh:
 *
 *   good   nothing: all finalize
 *   wait   it writes its number to the file victim and waits to be killed inside
 *          the operation, which rank 0 does not join
 *   exit   it exits with status 3, without finalize
 *   leave  it exits with status 0, without finalize
 *   init   it kills itself before it has joined the others
 *   late   it calls init after the others have timed out
 *
 * With MIB, the rank has that much memory in use. The others print their error
 * on one line, and exit with status 1.
 */
#include <symmcoll.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int complain(const char *what, symmcoll_status_t status)
{
    fprintf(stderr, "%s: %s: %s\n", what, symmcoll_status_name(status),
        symmcoll_last_error());
    return 1;
}

static void use_memory(const char *mib)
{
    size_t nbytes = (size_t)atol(mib) << 20;
    char *memory = malloc(nbytes);

    if (memory == NULL)
        exit(9);
    memset(memory, 1, nbytes);
    /* Keeps the memory: a compiler may optimise away memory that is never
     * read. */
    if (write(-1, memory, nbytes) >= 0)
        exit(9);
}

/* Writes our number for the script that kills us; the file appears complete. */
static void offer_ourselves(void)
{
    FILE *file = fopen("victim.tmp", "w");

    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 ||
        fclose(file) != 0 || rename("victim.tmp", "victim") != 0)
        exit(9);
}

/* Calls on rank 0 after the other rank has died. */
static void wait_for_the_end(void)
{
    FILE *file = NULL;
    int pid = 0;

    while (pid == 0) {
        file = fopen("victim", "r");
        if (file != NULL) {
            if (fscanf(file, "%d", &pid) != 1)
                exit(9);
            fclose(file);
        } else {
            usleep(1000);
        }
    }
    while (access("killed", F_OK) != 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[1] : "";
    struct symmcoll_world *world;
    symmcoll_status_t status;
    int rank = atoi(getenv("RANK") != NULL ? getenv("RANK") : "0");
    bool is_victim;
    float x = 1;

    if (argc < 3)
        return 2;
    is_victim = rank == atoi(argv[2]);
    if (is_victim && argc > 3)
        use_memory(argv[3]);
    if (is_victim && strcmp(how, "init") == 0)
        raise(SIGKILL);
    if (is_victim && strcmp(how, "late") == 0)
        sleep(300);
    status = symmcoll_init(NULL, &world);
    if (status != SYMMCOLL_OK)
        return complain("init", status);
    for (int i = 1; i <= 20; i++) {
        if (i == 11 && is_victim && strcmp(how, "exit") == 0)
            _exit(3);
        if (i == 11 && is_victim && strcmp(how, "leave") == 0)
            _exit(0);
        if (i == 11 && is_victim && strcmp(how, "wait") == 0)
            offer_ourselves();
        if (i == 11 && rank == 0 && strcmp(how, "wait") == 0)
            wait_for_the_end();
        x = 1;
        status = symmcoll_all_reduce(symmcoll_world_group(world), &x, &x, 1,
            SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);
        if (status != SYMMCOLL_OK)
            return complain("all_reduce", status);
    }
    status = symmcoll_finalize(world);
    if (status != SYMMCOLL_OK)
        return complain("finalize", status);
    return x == (float)atoi(getenv("WORLD_SIZE")) ? 0 : 8;
}
