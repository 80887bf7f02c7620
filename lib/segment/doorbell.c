/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting beyond the first polls: spin, yield, sleep.
 *
 * Waking a sleeping processor costs 20 to 40 microseconds, some hundred times
 * the transfer of a cache line, so a rank with a processor of its own polls for
 * that long first.  If ranks share processors, polling delays the rank that is
 * waited for: after a few polls the processor is yielded.  If computing threads
 * share the processor, a yield lasts for all of their time slices: the rank
 * sleeps at once, because a thread that is woken runs before them.
 *
 * The duration of a yield shows whether a rank shares its processor, whatever
 * the number of ranks: the scheduler may put two on one processor although
 * others are idle.  A yield returns at once if no other thread is runnable
 * there.
 */
#include "segment/doorbell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_EVERY 64 /* polls between two readings of the clock */
#define YIELD_EVERY 4  /* readings of the clock between two yields */
/* A yield that takes this many times as long as a system call has run another
 * thread: two context switches take about twenty times as long, a yield without
 * a switch three times. */
#define SWITCH_CALLS 8
#define SWITCH_LEAST_NS 500
#define CALLS 16 /* system calls that time_call() measures */
/* A yield of this length has run computing threads for a time slice. */
#define SLICE_NS (INT64_C(1) * 1000 * 1000)
#define SLEEP_NS (INT64_C(10) * 1000) /* a sleep with an immediate wakeup */
/* After such a yield, ranks sleep without polling for CROWD_TIMES its duration,
 * but for no longer than CROWD_MAX_NS. */
#define CROWD_TIMES 16
#define CROWD_MAX_NS SYMC_NS_PER_S
/* The longest sleep: with membarrier, and without. */
#define NAP_NS (INT64_C(100) * 1000 * 1000)
#define NAP_BLIND_NS (INT64_C(5) * 1000 * 1000)

/* Returns the duration of a short system call. */
static int64_t time_call(void)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < CALLS; i++) {
        int64_t began = symc_now_ns(), took;

        syscall(SYS_getppid);
        took = symc_now_ns() - began;
        if (took < least)
            least = took;
    }
    return least;
}

void symc_waiting_init(struct symc_waiting *waiting, bool oversubscribed,
    int64_t spin_ns, int64_t polls, int64_t yield_ns)
{
    waiting->oversubscribed = oversubscribed;
    waiting->barrier = syscall(SYS_membarrier,
                           MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    waiting->nap_ns = waiting->barrier ? NAP_NS : NAP_BLIND_NS;
    waiting->spin_ns = spin_ns;
    waiting->polls = polls;
    waiting->yield_ns = yield_ns;
    waiting->switch_ns = SWITCH_CALLS * time_call();
    if (waiting->switch_ns < SWITCH_LEAST_NS) /* the clock may be coarse */
        waiting->switch_ns = SWITCH_LEAST_NS;
}

static bool is_asleep(const struct symc_waiting *waiting, int64_t now)
{
    return now < atomic_load_explicit(
                     &waiting->asleep_until_ns, memory_order_relaxed);
}

/* Returns for how long the settings let a rank poll before it sleeps. */
static int64_t set_polling_ns(const struct symc_waiting *waiting)
{
    return waiting->oversubscribed ? waiting->yield_ns : waiting->spin_ns;
}

int64_t symc_wait_polling_ns(const struct symc_waiting *waiting, int64_t now)
{
    return is_asleep(waiting, now) ? 0 : set_polling_ns(waiting);
}

/* Records a yield in which computing threads used their time slices.  Returns
 * whether sleeping would have cost less than the yields since the last such
 * one. */
static bool keep_slices(struct symc_waiting *waiting, int64_t now, int64_t took)
{
    int64_t yields =
        atomic_exchange_explicit(&waiting->yields, 0, memory_order_relaxed);
    int64_t asleep_ns =
        took < CROWD_MAX_NS / CROWD_TIMES ? CROWD_TIMES * took : CROWD_MAX_NS;

    if (took < yields * SLEEP_NS || took < set_polling_ns(waiting))
        return false;
    atomic_store_explicit(
        &waiting->asleep_until_ns, now + asleep_ns, memory_order_relaxed);
    return true;
}

bool symc_wait_keep_yield(
    struct symc_waiting *waiting, int64_t now, int64_t took)
{
    bool shares = took >= waiting->switch_ns;

    if (shares != atomic_load_explicit(&waiting->shares, memory_order_relaxed))
        atomic_store_explicit(&waiting->shares, shares, memory_order_relaxed);
    if (shares)
        atomic_fetch_add_explicit(&waiting->yields, 1, memory_order_relaxed);
    return took >= SLICE_NS && keep_slices(waiting, now, took);
}

int64_t symc_wait_yield(struct symc_waiting *waiting)
{
    int64_t began = symc_now_ns(), now;

    sched_yield();
    now = symc_now_ns();
    return symc_wait_keep_yield(waiting, now, now - began) ? 0 : now;
}

static void execute_barrier_everywhere(const struct symc_waiting *waiting)
{
    if (waiting->barrier)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void symc_doorbell_init(
    const struct symc_waiting *waiting, struct symc_doorbell *doorbell)
{
    if (!waiting->oversubscribed)
        return;
    atomic_fetch_or(&doorbell->sleeping, SYMC_DOORBELL_FENCED);
    /* The word of a writer that has not seen the mark is visible after this. */
    execute_barrier_everywhere(waiting);
}

void symc_doorbell_notify_marked(struct symc_doorbell *doorbell, uint32_t mark)
{
    uint32_t found;

    atomic_thread_fence(memory_order_seq_cst);
    found = atomic_load_explicit(&doorbell->sleeping, memory_order_relaxed);
    do {
        uint32_t asleep = found & ~SYMC_DOORBELL_FENCED;

        if (asleep == 0 || (asleep != SYMC_DOORBELL_ANY && asleep != mark &&
                               mark != SYMC_DOORBELL_ANY))
            return;
    } while (!atomic_compare_exchange_weak(
        &doorbell->sleeping, &found, found & SYMC_DOORBELL_FENCED));
    symc_doorbell_wake(doorbell);
}

/* Marks a doorbell: as that of any writer if another thread may be asleep that
 * waits for another member.  Returns whether it is fenced. */
static bool mark_asleep(struct symc_doorbell *doorbell, uint32_t mark)
{
    uint32_t found = atomic_load(&doorbell->sleeping), fenced, wanted;

    do {
        fenced = found & SYMC_DOORBELL_FENCED;
        wanted = found == fenced || found == (fenced | mark)
                     ? fenced | mark
                     : fenced | SYMC_DOORBELL_ANY;
    } while (
        !atomic_compare_exchange_weak(&doorbell->sleeping, &found, wanted));
    if (fenced != 0)
        atomic_thread_fence(memory_order_seq_cst);
    return fenced != 0;
}

void symc_doorbell_wake(struct symc_doorbell *doorbell)
{
    atomic_fetch_add_explicit(&doorbell->wakes, 1, memory_order_release);
    syscall(SYS_futex, &doorbell->wakes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* One wait beyond its first polls: for ready(arg) or, if ready is NULL, for a
 * word. */
struct wait {
    const struct symc_watch *watch;
    const _Atomic uint64_t *word;
    uint64_t target;
    bool (*ready)(void *arg);
    void *arg;
    struct symc_wait_budget *budget;
};

static bool is_reached(const struct wait *wait)
{
    if (__builtin_expect(wait->ready != NULL, 0))
        return wait->ready(wait->arg);
    return atomic_load_explicit(wait->word, memory_order_acquire) >=
           wait->target;
}

static bool is_stopped(const struct wait *wait)
{
    return atomic_load_explicit(wait->watch->stopped, memory_order_acquire) !=
           0;
}

static void pass(const struct wait *wait, bool sleeps)
{
    if (wait->watch->pass != NULL)
        wait->watch->pass(wait->watch->arg, sleeps);
}

/* Polls until the word is reached or `stopped` is set.  Returns false if the time
 * is up first, or if computing threads are found to share the processor.
 * Yields the processor at intervals, because the peer may need it, and at every
 * round if yields have run another thread. */
static bool spin(const struct wait *wait, int64_t until_ns)
{
    struct symc_waiting *waiting = wait->watch->waiting;

    for (int round = 1;; round++) {
        bool shares = symc_wait_shares(waiting);
        int64_t now;

        for (int i = 0; i < (shares ? 1 : CLOCK_EVERY); i++) {
            if (is_reached(wait))
                return true;
            symc_pause();
        }
        if (is_stopped(wait))
            return true;
        pass(wait, false);
        now = shares || round % YIELD_EVERY == 0 ? symc_wait_yield(waiting)
                                                 : symc_now_ns();
        if (now == 0 || now >= until_ns)
            return is_reached(wait);
    }
}

/* Polls a number of times without a clock, and then yields the processor before
 * each poll.  Returns as spin() does. */
static bool yield(const struct wait *wait, int64_t polls, int64_t until_ns)
{
    for (int64_t i = 0; i < polls; i++) {
        if (is_reached(wait) || (i % 512 == 511 && is_stopped(wait)))
            return true;
    }
    for (;;) {
        int64_t now = symc_wait_yield(wait->watch->waiting);

        if (is_reached(wait) || is_stopped(wait))
            return true;
        pass(wait, false);
        if (now == 0 || now >= until_ns)
            return false;
    }
}

/* Polls for as long as the settings say, or not at all if computing threads
 * share the processor. */
static bool poll(const struct wait *wait, int64_t now)
{
    const struct symc_waiting *waiting = wait->watch->waiting;
    int64_t until = now + set_polling_ns(waiting);

    if (is_asleep(waiting, now))
        return false;
    return waiting->oversubscribed ? yield(wait, waiting->polls, until)
                                   : spin(wait, until);
}

static void sleep_on(struct symc_doorbell *doorbell, uint32_t wakes, int64_t ns)
{
    struct timespec time = {
        .tv_sec = ns / SYMC_NS_PER_S, .tv_nsec = ns % SYMC_NS_PER_S};

    syscall(SYS_futex, &doorbell->wakes, FUTEX_WAIT, wakes, &time, NULL, 0);
}

/* Sleeps once.  The caller checks all conditions again afterwards. */
static void nap(const struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, uint32_t mark, bool (*ready)(void *arg),
    void *arg, int64_t left)
{
    int64_t longest = waiting->nap_ns;
    uint32_t wakes =
        atomic_load_explicit(&doorbell->wakes, memory_order_acquire);

    if (left < longest)
        longest = left;
    if (!mark_asleep(doorbell, mark != 0 ? mark : SYMC_DOORBELL_ANY))
        execute_barrier_everywhere(waiting);
    if (!ready(arg))
        sleep_on(doorbell, wakes, longest);
}

void symc_doorbell_sleep(const struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, bool (*ready)(void *arg), void *arg,
    int64_t until_ns)
{
    int64_t left = until_ns - symc_now_ns();

    if (left > 0)
        nap(waiting, doorbell, SYMC_DOORBELL_ANY, ready, arg, left);
}

static bool is_over(void *arg)
{
    const struct wait *wait = arg;

    return is_reached(wait) || is_stopped(wait);
}

/* Polls, then sleeps until the wait ends.  The first wait that needs this
 * function starts the budget's deadline. */
static enum symc_wait_end wait_long(struct wait *wait)
{
    const struct symc_watch *watch = wait->watch;
    const struct symc_waiting *how = watch->waiting;
    struct symc_wait_budget *budget = wait->budget;
    int64_t now = symc_now_ns();

    if (budget->deadline_ns == 0)
        budget->deadline_ns = symc_deadline_ns(now, budget->timeout_ns);
    if (!budget->polled && poll(wait, now))
        goto look;
    now = symc_now_ns();
    for (;;) {
        if (now < budget->deadline_ns) {
            pass(wait, true);
            nap(how, watch->doorbell, watch->mark, is_over, wait,
                budget->deadline_ns - now);
        }
    look:
        if (is_reached(wait))
            return SYMC_WAIT_REACHED;
        if (is_stopped(wait) || watch->look(watch->arg))
            return is_reached(wait) ? SYMC_WAIT_REACHED : SYMC_WAIT_STOPPED;
        now = symc_now_ns();
        if (now >= budget->deadline_ns)
            return is_reached(wait) ? SYMC_WAIT_REACHED : SYMC_WAIT_EXPIRED;
    }
}

enum symc_wait_end symc_wait_long(const struct symc_watch *watch,
    const _Atomic uint64_t *word, uint64_t target,
    struct symc_wait_budget *budget)
{
    struct wait wait = {
        .watch = watch, .word = word, .target = target, .budget = budget};

    return wait_long(&wait);
}

enum symc_wait_end symc_wait_until(const struct symc_watch *watch,
    bool (*ready)(void *arg), void *arg, struct symc_wait_budget *budget)
{
    struct wait wait = {
        .watch = watch, .ready = ready, .arg = arg, .budget = budget};

    return wait_long(&wait);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

bool symc_wait_plainly(struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, const _Atomic uint64_t *word,
    uint64_t target, struct symc_wait_budget *budget)
{
    static const _Atomic uint32_t not_stopped;
    struct symc_watch watch = {.waiting = waiting,
        .doorbell = doorbell,
        .stopped = &not_stopped,
        .look = never};

    return symc_wait(&watch, word, target, budget) == SYMC_WAIT_REACHED;
}
