/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests waiting: a write to a word wakes every sleeper, whatever the timing; a
 * wait that is stopped or times out ends; a word that was written takes
 * precedence.
 */
#include "../tap.h"
#include "child.h"

#include "segment/doorbell.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

/* Bound in seconds for a game on any machine: less than the timeout of one
 * wait. */
#define GAME_MAX 200

/* Two players and the data that they share. */
struct side {
    struct symc_doorbell doorbell;
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint64_t word;
    _Atomic uint32_t stopped;
};

struct court {
    struct side sides[2];
    uint64_t rounds;
};

static struct court *court;

/* Sleeps at once, so that every wait races with the wake, and for the whole
 * timeout, so that one lost wake is detected. */
static struct symc_waiting sleepy = {.barrier = true, .nap_ns = SYMC_NEVER};
static struct symc_waiting usual;

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static struct symc_watch watch_of(
    struct side *side, struct symc_waiting *waiting)
{
    return (struct symc_watch){.waiting = waiting,
        .doorbell = &side->doorbell,
        .stopped = &side->stopped,
        .look = never};
}

static void write_word(struct side *mine, struct side *other, uint64_t value)
{
    atomic_store_explicit(&mine->word, value, memory_order_release);
    symc_doorbell_notify(&other->doorbell);
}

/* Spins for a random time, to vary the race. */
static void dawdle(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    for (volatile uint64_t i = *state % 16 == 0 ? *state % 3000 : *state % 60;
         i > 0; i--)
        ;
    if (*state % 64 == 0)
        sched_yield();
}

/* Runs one of the two players; false: a wait ended for another reason than the
 * word. */
static bool play(int number, struct symc_waiting *waiting)
{
    struct side *mine = &court->sides[number];
    struct side *other = &court->sides[1 - number];
    struct symc_watch watch = watch_of(mine, waiting);
    uint64_t state = (uint64_t)number + 12345;

    for (uint64_t i = 1; i <= court->rounds; i++) {
        struct symc_wait_budget budget = {.timeout_ns = 250 * SYMC_NS_PER_S};

        if (number == 0) {
            dawdle(&state);
            write_word(mine, other, i);
        }
        if (symc_wait(&watch, &other->word, i, &budget) != SYMC_WAIT_REACHED)
            return false;
        if (number == 1) {
            dawdle(&state);
            write_word(mine, other, i);
        }
    }
    return true;
}

static struct symc_waiting *player_waiting;

static int play_as_child(void *arg)
{
    (void)arg;
    return play(1, player_waiting);
}

static void *play_as_thread(void *arg)
{
    return play(1, player_waiting) ? arg : NULL;
}

static double seconds_now(void)
{
    return (double)symc_now_ns() / (double)SYMC_NS_PER_S;
}

/* Clears what the players share, with doorbells of ranks that wait so. */
static void set_up_court(const struct symc_waiting *waiting, uint64_t rounds)
{
    memset(court, 0, sizeof(*court));
    court->rounds = rounds;
    for (int i = 0; i < 2; i++)
        symc_doorbell_init(waiting, &court->sides[i].doorbell);
}

/* Runs a game. One lost wake costs the whole timeout of a wait, longer than a
 * game may take. Naps occur in most rounds. */
static void test_game(
    struct symc_waiting *waiting, uint64_t rounds, const char *sentence)
{
    double began;
    pthread_t thread;
    pid_t child;
    void *good;
    bool played;

    set_up_court(waiting, rounds);
    player_waiting = waiting;
    began = seconds_now();
    child = start_child(play_as_child, NULL);
    played = play(0, waiting);
    ok(end_child(child) && played && seconds_now() - began < GAME_MAX,
        "%s (processes)", sentence);
    set_up_court(waiting, rounds);
    began = seconds_now();
    if (pthread_create(&thread, NULL, play_as_thread, court) != 0)
        exit(1);
    played = play(0, waiting);
    pthread_join(thread, &good);
    ok(good != NULL && played && seconds_now() - began < GAME_MAX,
        "%s (threads)", sentence);
}

/* ---- ends of a wait ---- */

static void test_ends(void)
{
    struct side *side = &court->sides[0];
    struct symc_watch watch = watch_of(side, &sleepy);
    struct symc_wait_budget budget = {.timeout_ns = SYMC_NS_PER_S / 50};
    double began = seconds_now();

    memset(court, 0, sizeof(*court));
    ok(symc_wait(&watch, &side->word, 1, &budget) == SYMC_WAIT_EXPIRED &&
            seconds_now() - began >= 0.02,
        "a wait expires when its time is up, not before");
    ok(symc_wait(&watch, &side->word, 1, &budget) == SYMC_WAIT_EXPIRED,
        "the time is that of all waits of an operation together");
    atomic_store(&side->stopped, 1);
    budget = (struct symc_wait_budget){.timeout_ns = SYMC_NEVER};
    ok(symc_wait(&watch, &side->word, 1, &budget) == SYMC_WAIT_STOPPED,
        "a wait ends when its group is stopped");
    atomic_store(&side->word, 7);
    ok(symc_wait(&watch, &side->word, 7, &budget) == SYMC_WAIT_REACHED,
        "what was written counts before the stop");
}

/* ---- marks ---- */

/* Returns how often a doorbell was rung by writers that found the mark of a
 * sleeper, when these members notify it one after the other. */
static uint32_t count_wakes(uint32_t mark, const int *members, int count)
{
    struct symc_doorbell *doorbell = &court->sides[0].doorbell;

    memset(court, 0, sizeof(*court));
    atomic_store(&doorbell->sleeping, mark);
    for (int i = 0; i < count; i++)
        symc_doorbell_notify_from(doorbell, members[i]);
    return atomic_load(&doorbell->wakes);
}

static bool is_awake(void)
{
    return (atomic_load(&court->sides[0].doorbell.sleeping) &
               ~SYMC_DOORBELL_FENCED) == 0;
}

static void test_marks(void)
{
    const uint32_t fenced = SYMC_DOORBELL_FENCED;

    ok(count_wakes(SYMC_DOORBELL_ANY, (int[]){3, 4, -1}, 3) == 1 && is_awake(),
        "the first of several writers wakes");
    ok(count_wakes(symc_doorbell_mark(4), (int[]){3, 5, 0}, 3) == 0 &&
            !is_awake(),
        "a sleeper that waits for a member sleeps on when others write");
    ok(count_wakes(fenced | symc_doorbell_mark(4), (int[]){3, 4, 4}, 3) == 1 &&
            is_awake() &&
            count_wakes(fenced | symc_doorbell_mark(0), (int[]){-1}, 1) == 1 &&
            is_awake(),
        "but not when that member does, or a writer that is for all");
    ok(count_wakes(fenced, (int[]){-1, 0, 1}, 3) == 0 &&
            atomic_load(&court->sides[0].doorbell.sleeping) == fenced,
        "and a doorbell stays fenced");
}

/* Two threads of a rank that wait on its doorbell for different members, or for
 * the same one. */
struct sleeper {
    pthread_t thread;
    struct side *word_of;
    uint32_t mark;
    _Atomic uint64_t reached;
    _Atomic bool good;
};

#define SLEEPER_ROUNDS 10000

static void *sleep_often(void *arg)
{
    struct sleeper *sleeper = arg;
    struct symc_watch watch = watch_of(&court->sides[0], &sleepy);

    watch.mark = sleeper->mark;
    for (uint64_t i = 1; sleeper->good && i <= SLEEPER_ROUNDS; i++) {
        struct symc_wait_budget budget = {.timeout_ns = 250 * SYMC_NS_PER_S};

        sleeper->good = symc_wait(&watch, &sleeper->word_of->word, i,
                            &budget) == SYMC_WAIT_REACHED;
        atomic_store(&sleeper->reached, i);
    }
    return NULL;
}

/* Writes the words of sides 0 and 1 in random order, as members 0 and 1 or both
 * as member 1. */
static void test_two_sleepers(bool same, const char *sentence)
{
    struct symc_doorbell *doorbell = &court->sides[0].doorbell;
    struct sleeper sleepers[2];
    uint64_t state = 4711, written[2] = {0, 0};
    double began = seconds_now();
    bool good = true;

    memset(court, 0, sizeof(*court));
    symc_doorbell_init(
        &(struct symc_waiting){.oversubscribed = true, .barrier = true},
        doorbell);
    for (int i = 0; i < 2; i++) {
        sleepers[i] = (struct sleeper){.word_of = &court->sides[i],
            .mark = symc_doorbell_mark(same ? 1 : i),
            .good = true};
        if (pthread_create(
                &sleepers[i].thread, NULL, sleep_often, &sleepers[i]) != 0)
            exit(1);
    }
    while (written[0] + written[1] < 2 * SLEEPER_ROUNDS) {
        int side = written[1] < SLEEPER_ROUNDS &&
                   (state % 2 == 0 || written[0] == SLEEPER_ROUNDS);

        while (atomic_load(&sleepers[side].reached) < written[side] &&
               atomic_load(&sleepers[side].good))
            sched_yield();
        atomic_store_explicit(
            &court->sides[side].word, ++written[side], memory_order_release);
        symc_doorbell_notify_from(doorbell, same ? 1 : side);
        dawdle(&state);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(sleepers[i].thread, NULL);
        good = good && sleepers[i].good;
    }
    ok(good && seconds_now() - began < GAME_MAX, "%s", sentence);
}

static bool say_enough(void *arg)
{
    int *looks = arg;

    return ++*looks == 3;
}

static void test_look(void)
{
    static struct symc_waiting restless = {
        .barrier = true, .nap_ns = SYMC_NS_PER_S / 100};
    struct side *side = &court->sides[0];
    struct symc_watch watch = watch_of(side, &restless);
    struct symc_wait_budget budget = {.timeout_ns = 20 * SYMC_NS_PER_S};
    int looks = 0;

    memset(court, 0, sizeof(*court));
    watch.look = say_enough;
    watch.arg = &looks;
    ok(symc_wait(&watch, &side->word, 1, &budget) == SYMC_WAIT_STOPPED &&
            looks == 3,
        "a sleeper looks at failures now and then, and gives up on one");
}

/* Waits half a second in a child, which reports its processor time. */
static int sleeps_cheaply(void *arg)
{
    struct side *side = &court->sides[0];
    struct symc_watch watch = watch_of(side, &usual);
    struct symc_wait_budget budget = {.timeout_ns = SYMC_NS_PER_S / 2};
    struct rusage before, after;
    double used;

    (void)arg;
    getrusage(RUSAGE_SELF, &before);
    if (symc_wait(&watch, &side->word, 1, &budget) != SYMC_WAIT_EXPIRED)
        return 0;
    getrusage(RUSAGE_SELF, &after);
    used = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
           (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 +
           (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    return used < 0.05;
}

/* ---- a processor that other threads use ---- */

/* Binds the thread to the first allowed processor. */
static void pin(void)
{
    cpu_set_t allowed, one;
    int first = 0;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

/* The word for which a wait on one processor waits. */
struct turn {
    const _Atomic uint64_t *word;
    uint64_t target;
    uint64_t looks;
};

static bool look_at_turn(void *arg)
{
    struct turn *turn = arg;

    turn->looks++;
    return atomic_load_explicit(turn->word, memory_order_acquire) >=
           turn->target;
}

/* Runs one of two players on one processor; 0: it has polled too often. */
static int play_beside(int number)
{
    struct side *mine = &court->sides[number];
    struct side *other = &court->sides[1 - number];
    struct symc_watch watch = watch_of(mine, &usual);
    struct turn turn = {.word = &other->word};

    pin();
    for (uint64_t i = 1; i <= court->rounds; i++) {
        struct symc_wait_budget budget = {.timeout_ns = 250 * SYMC_NS_PER_S};

        turn.target = i;
        if (number == 0)
            write_word(mine, other, i);
        if (symc_wait_until(&watch, look_at_turn, &turn, &budget) !=
            SYMC_WAIT_REACHED)
            return 0;
        if (number == 1)
            write_word(mine, other, i);
    }
    return turn.looks < 64 * court->rounds;
}

static int play_beside_as_child(void *arg)
{
    return play_beside(*(const int *)arg);
}

static void test_beside(void)
{
    int numbers[] = {0, 1};
    pid_t children[2];
    bool good = true;

    memset(court, 0, sizeof(*court));
    court->rounds = 5000;
    for (int i = 0; i < 2; i++)
        children[i] = start_child(play_beside_as_child, &numbers[i]);
    for (int i = 0; i < 2; i++)
        good = end_child(children[i]) && good;
    ok(good,
        "a rank that shares its processor with the one it waits for yields "
        "it instead of polling");
}

/* How often a wait has polled for other work of the rank. */
struct passes {
    int polling, sleeping;
};

static void count_pass(void *arg, bool sleeps)
{
    struct passes *passes = arg;

    if (sleeps)
        passes->sleeping++;
    else
        passes->polling++;
}

static struct passes passes_of(struct symc_waiting *waiting)
{
    struct side *side = &court->sides[0];
    struct passes passes = {0, 0};
    struct symc_watch watch = watch_of(side, waiting);
    struct symc_wait_budget budget = {.timeout_ns = SYMC_NS_PER_S / 50};

    memset(court, 0, sizeof(*court));
    watch.pass = count_pass;
    watch.arg = &passes;
    if (symc_wait(&watch, &side->word, 1, &budget) != SYMC_WAIT_EXPIRED)
        passes.sleeping = -1;
    return passes;
}

/* ---- yields of a given length ---- */

#define SETTING_NS (INT64_C(50) * 1000)
#define SLICE_NS (INT64_C(3) * 1000 * 1000)

/* Returns a time after the end of the test. */
static int64_t far_ahead(void)
{
    return symc_now_ns() + 1000 * SYMC_NS_PER_S;
}

static struct symc_waiting waiting_of(bool many, int64_t setting_ns)
{
    struct symc_waiting waiting = {0};

    symc_waiting_init(&waiting, many, setting_ns, 300, setting_ns);
    waiting.nap_ns = SYMC_NEVER;
    return waiting;
}

static void test_shares(void)
{
    struct symc_waiting waiting = waiting_of(false, SETTING_NS);
    int64_t now = symc_now_ns();
    bool before = symc_wait_shares(&waiting), used, unused;
    bool sleeps = symc_wait_keep_yield(&waiting, now, waiting.switch_ns);

    used = symc_wait_shares(&waiting);
    sleeps =
        symc_wait_keep_yield(&waiting, now, waiting.switch_ns - 1) || sleeps;
    unused = symc_wait_shares(&waiting);
    ok(!before && used && !unused && !sleeps && waiting.switch_ns > 1,
        "a yield as long as a switch shows that another thread used it");
}

static void test_crowd(bool many, const char *sentence)
{
    struct symc_waiting waiting = waiting_of(many, SETTING_NS);
    bool sleeps = symc_wait_keep_yield(&waiting, far_ahead(), SLICE_NS);
    bool polls_not = symc_wait_polling_ns(&waiting, symc_now_ns()) == 0;
    struct passes passes = passes_of(&waiting);

    ok(sleeps && polls_not && symc_wait_shares(&waiting) &&
            passes.polling == 0 && passes.sleeping >= 1,
        "%s", sentence);
}

/* Checks how long ranks sleep without polling after a yield that took this
 * time. */
static bool lasts(int64_t took, int64_t length)
{
    struct symc_waiting waiting = waiting_of(false, SETTING_NS);

    return symc_wait_keep_yield(&waiting, SYMC_NS_PER_S, took) &&
           symc_wait_polling_ns(&waiting, SYMC_NS_PER_S + length - 1) == 0 &&
           symc_wait_polling_ns(&waiting, SYMC_NS_PER_S + length) == SETTING_NS;
}

static void test_crowd_ends(void)
{
    struct symc_waiting waiting = waiting_of(false, SETTING_NS);
    int64_t began = symc_now_ns() - SYMC_NS_PER_S;
    bool asleep = symc_wait_keep_yield(&waiting, began, SLICE_NS);

    ok(asleep && passes_of(&waiting).polling > 0, "and polls again later");
    ok(lasts(SLICE_NS, 16 * SLICE_NS) && lasts(SYMC_NS_PER_S, SYMC_NS_PER_S),
        "after 16 times as long as the yield took, and a second at most");
}

static void test_seldom(void)
{
    struct symc_waiting waiting = waiting_of(false, SETTING_NS);
    int64_t now = symc_now_ns();
    bool sleeps = false;

    for (int i = 0; i < SLICE_NS / 10000; i++)
        sleeps =
            symc_wait_keep_yield(&waiting, now, waiting.switch_ns) || sleeps;
    sleeps = symc_wait_keep_yield(&waiting, now, SLICE_NS) || sleeps;
    ok(!sleeps && symc_wait_polling_ns(&waiting, now) == SETTING_NS,
        "a rank goes on yielding where a time slice is lost seldom");
    ok(symc_wait_keep_yield(&waiting, now, SLICE_NS),
        "but not where the next yield loses one");
}

static void test_long_setting(void)
{
    struct symc_waiting waiting = waiting_of(false, 2 * SLICE_NS);
    int64_t now = symc_now_ns();

    ok(!symc_wait_keep_yield(&waiting, now, SLICE_NS) &&
            symc_wait_polling_ns(&waiting, now) == 2 * SLICE_NS &&
            symc_wait_keep_yield(&waiting, now, 2 * SLICE_NS),
        "a rank that is to poll longer than a time slice does");
}

int main(void)
{
    struct symc_waiting oversubscribed;

    court = mmap(NULL, sizeof(*court), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (court == MAP_FAILED)
        skip_all("no shared memory");
    symc_waiting_init(
        &usual, sysconf(_SC_NPROCESSORS_ONLN) < 2, 50000, 300, 1000000);
    usual.nap_ns = SYMC_NEVER;
    if (!usual.barrier)
        skip_all("no membarrier: sleepers wake by themselves");
    oversubscribed = (struct symc_waiting){.oversubscribed = true,
        .barrier = true,
        .nap_ns = SYMC_NEVER,
        .yield_ns = 1};
    test_game(&sleepy, 20000, "no wakeup is lost where all sleep at once");
    test_game(&oversubscribed, 20000,
        "nor where they yield once before and writers execute the barrier");
    test_game(&usual, 20000, "nor with the settings' spinning");
    test_marks();
    test_two_sleepers(
        false, "two threads of a rank sleep until their members have written");
    test_two_sleepers(true, "also where both wait for one member");
    test_ends();
    test_look();
    test_beside();
    test_shares();
    test_crowd(false, "a rank beside threads that compute sleeps at once");
    test_crowd(true, "also where ranks outnumber processors");
    test_crowd_ends();
    test_seldom();
    test_long_setting();
    memset(court, 0, sizeof(*court));
    ok(run_child(sleeps_cheaply, NULL),
        "a long wait uses next to no processor");
    return done_testing();
}
