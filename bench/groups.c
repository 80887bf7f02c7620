/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the cost of groups: creating and releasing one, its memory, and the
 * same with many groups.
 *
 *   groups [-k TIMES] [-n RANKS] [-g GROUPS]
 *
 * Without -n: 2 and 16 ranks. First one line of tab-separated columns for each
 * number of ranks, as processes and as threads: kind of ranks, ranks, times,
 * the medians in us of creating and of releasing a group of all ranks, with
 * the slowest rank's time for each set of ranks, and the same for a group that
 * only its members create. Then, with processes, a line for 1, 10, 100 and
 * 1000 groups that exist at once (-g: the largest number): ranks, groups, the
 * mean in us of creating one, and in KiB for each group the address space of a
 * rank, and its share of resident memory.
 */
#include "bench/ranks.h"

#include <symmcoll.h>

#include <string.h>
#include <sys/mman.h>

#define TIMES_MAX 10000
#define GROUPS_MAX 1000

/* State in memory shared by all ranks. */
struct board {
    int times, groups;
    double made[TIMES_MAX][BENCH_RANKS], freed[TIMES_MAX][BENCH_RANKS];
    double made_alone[TIMES_MAX][BENCH_RANKS];
    double mean[4], space[4], memory[4];
};

static struct symmcoll_group *groups[GROUPS_MAX];

static int fail(const char *where)
{
    fprintf(stderr, "%s: %s\n", where, symmcoll_last_error());
    return 0;
}

static int line_up(struct symmcoll_world *world)
{
    return symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
                   SYMMCOLL_OK
               ? 1
               : fail("barrier");
}

/* ---- creating and releasing ---- */

static int make_and_free(struct symmcoll_world *world, struct board *board,
    const struct symmcoll_group_args *args, int k)
{
    int rank = symmcoll_group_rank(symmcoll_world_group(world));
    struct symmcoll_group *group;
    double before;

    if (!line_up(world))
        return 0;
    before = bench_now();
    if (symmcoll_group_create(world, args, &group) != SYMMCOLL_OK)
        return fail("create");
    if ((args->flags & SYMMCOLL_GROUP_LOCAL) != 0)
        board->made_alone[k][rank] = (bench_now() - before) * 1e6;
    else
        board->made[k][rank] = (bench_now() - before) * 1e6;
    if (!line_up(world))
        return 0;
    before = bench_now();
    if (symmcoll_group_free(group) != SYMMCOLL_OK)
        return fail("free");
    board->freed[k][rank] = (bench_now() - before) * 1e6;
    return 1;
}

static int measure_times(struct symmcoll_world *world, struct board *board)
{
    int size = symmcoll_group_size(symmcoll_world_group(world));
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    int ranks[BENCH_RANKS], good = 1;

    for (int r = 0; r < size; r++)
        ranks[r] = r;
    args.ranks = ranks;
    args.nranks = size;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    for (int k = 0; good && k < board->times; k++)
        good = make_and_free(world, board, &args, k);
    args.flags = 0;
    for (int k = 0; good && k < board->times; k++)
        good = make_and_free(world, board, &args, k);
    return good;
}

/* ---- many ---- */

/* Returns a line of /proc/self/status or smaps_rollup, in KiB. */
static double read_kib(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    double value = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtod(line + strlen(key), NULL);
    }
    if (file != NULL)
        fclose(file);
    return value;
}

static int grow(struct symmcoll_world *world, struct board *board)
{
    int rank = symmcoll_group_rank(symmcoll_world_group(world)), have = 0;
    double space = read_kib("/proc/self/status", "VmSize:");
    double memory = read_kib("/proc/self/smaps_rollup", "Pss:");
    double spent = 0;

    for (int i = 0, wanted = 1; i < 4 && wanted <= board->groups;
         i++, wanted *= 10) {
        double before = bench_now();

        for (; have < wanted; have++) {
            if (symmcoll_group_create(world, NULL, &groups[have]) !=
                SYMMCOLL_OK)
                return fail("create");
        }
        spent += bench_now() - before;
        if (!line_up(world))
            return 0;
        if (rank == 0) {
            board->mean[i] = spent / wanted * 1e6;
            board->space[i] =
                (read_kib("/proc/self/status", "VmSize:") - space) / wanted;
            board->memory[i] =
                (read_kib("/proc/self/smaps_rollup", "Pss:") - memory) / wanted;
        }
        if (!line_up(world))
            return 0;
    }
    for (int i = 0; i < have; i++) {
        if (symmcoll_group_free(groups[i]) != SYMMCOLL_OK)
            return fail("free");
    }
    return 1;
}

/* ---- ranks ---- */

static int be_process(int rank, int size, void *arg)
{
    struct board *board = arg;
    struct symmcoll_world *world;
    int good;

    (void)rank;
    (void)size;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return fail("init") + 1;
    good = measure_times(world, board) && grow(world, board);
    return symmcoll_finalize(world) == SYMMCOLL_OK && good ? 0 : 1;
}

static symmcoll_status_t be_thread(struct symmcoll_world *world, void *arg)
{
    return measure_times(world, arg) ? SYMMCOLL_OK : SYMMCOLL_ERR_INTERNAL;
}

static double slowest_of(double (*values)[BENCH_RANKS], int times, int size)
{
    static double slowest[TIMES_MAX];

    for (int k = 0; k < times; k++) {
        slowest[k] = 0;
        for (int r = 0; r < size; r++) {
            if (values[k][r] > slowest[k])
                slowest[k] = values[k][r];
        }
    }
    return bench_median(slowest, times);
}

static void print_times(struct board *board, const char *how, int size)
{
    printf("%s\t%d\t%d\t%.1f\t%.1f\t%.1f\n", how, size, board->times,
        slowest_of(board->made, board->times, size),
        slowest_of(board->freed, board->times, size),
        slowest_of(board->made_alone, board->times, size));
    fflush(stdout);
}

static int measure(struct board *board, int size)
{
    pid_t pids[BENCH_RANKS];
    int good;

    bench_start(size, be_process, board, pids);
    good = bench_finish(size, pids) == 0;
    if (!good)
        return 0;
    print_times(board, "processes", size);
    good = symmcoll_threads_run(size, be_thread, board, NULL) == SYMMCOLL_OK;
    if (good)
        print_times(board, "threads", size);
    else
        fail("threads");
    return good;
}

static void print_many(const struct board *board, int size)
{
    for (int i = 0, count = 1; i < 4 && count <= board->groups;
         i++, count *= 10)
        printf("%d\t%d\t%.1f\t%.1f\t%.1f\n", size, count, board->mean[i],
            board->space[i], board->memory[i]);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {2, 16};
    struct board *board = mmap(NULL, 2 * sizeof(*board), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int only = 0, times = 100, most = GROUPS_MAX, option, count, good = 1;

    while ((option = getopt(argc, argv, "k:n:g:")) != -1) {
        if (option == 'k')
            times = bench_number(optarg, 1, TIMES_MAX);
        else if (option == 'n')
            only = bench_number(optarg, 1, BENCH_RANKS);
        else if (option == 'g')
            most = bench_number(optarg, 1, GROUPS_MAX);
        else
            return 2;
    }
    if (board == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    count = only > 0 ? 1 : 2;
    printf("how\tranks\ttimes\tcreate_us\tfree_us\tcreate_local_us\n");
    for (int i = 0; good && i < count; i++) {
        board[i].times = times;
        board[i].groups = most;
        good = measure(&board[i], only > 0 ? only : sizes[i]);
    }
    printf("ranks\tgroups\tcreate_us\tspace_KiB\tmemory_KiB\n");
    for (int i = 0; good && i < count; i++)
        print_many(&board[i], only > 0 ? only : sizes[i]);
    return good ? 0 : 1;
}
