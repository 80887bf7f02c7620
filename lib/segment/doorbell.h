/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells and waiting.  A rank waits for a peer's word by polling; after a
 * while it sleeps on its own doorbell, a futex.  A rank that has written a word
 * then wakes the sleepers, if a plain load of the doorbell shows any: the
 * sleeper, not the writer, pays for memory ordering.  The sleeper announces
 * itself, executes a barrier on every processor (membarrier), reads the word
 * again and only then sleeps.  So either the writer sees the sleeper, or the
 * sleeper sees the word.  Without membarrier it sleeps for at most five
 * milliseconds at a time.
 *
 * Where ranks share processors they sleep often, and membarrier, which interrupts
 * the other processors, costs more than the sleep.  Their doorbells are fenced:
 * writers execute a barrier before they look at them.
 */
#ifndef SYMC_SEGMENT_DOORBELL_H
#define SYMC_SEGMENT_DOORBELL_H

#include "base/base.h"
#include "segment/block.h"

/* The futex on which a rank sleeps. */
struct symc_doorbell {
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t sleeping; /* a mark */
    _Atomic uint32_t failed; /* 1: this rank has failed a group that uses the
                                doorbell */
    _Alignas(SYMC_LINE) _Atomic uint32_t wakes;
};

/*
 * The mark of a doorbell: 0, or that a thread may sleep until any writer
 * notifies it, or, above that, until one member of the group does.  The writer
 * that removes the mark wakes all sleepers; no other needs to.
 * If that writer is stopped before it wakes them, they sleep until their nap
 * ends.
 */
#define SYMC_DOORBELL_ANY UINT32_C(1)
/* Beside the mark: writers execute a memory barrier before they read it. */
#define SYMC_DOORBELL_FENCED (UINT32_C(1) << 31)

/* Returns the mark of a thread that waits for a member's word; -1: any
 * writer's. */
static inline uint32_t symc_doorbell_mark(int member)
{
    return SYMC_DOORBELL_ANY + (uint32_t)(member + 1);
}

_Static_assert(
    sizeof(struct symc_doorbell) == sizeof(((struct symc_block *)0)->doorbell),
    "a block has room for one");

/* Returns the doorbell in a rank's block, which serves all of its groups. */
static inline struct symc_doorbell *symc_block_doorbell(
    struct symc_block *block)
{
    return (struct symc_doorbell *)(void *)block->doorbell;
}

/* The way the ranks of a world wait; see symc_waiting_init().  The last three
 * fields are measured by symc_wait_yield(). */
struct symc_waiting {
    bool oversubscribed;     /* more ranks than processors */
    bool barrier;            /* membarrier is available */
    int64_t spin_ns;         /* polling before sleep; if not oversubscribed */
    int64_t polls;           /* polls before the first yield; if
                                oversubscribed */
    int64_t yield_ns;        /* yielding before sleep; if oversubscribed */
    int64_t nap_ns;          /* longest sleep before all conditions are
                                checked */
    int64_t switch_ns;       /* a yield of this length has run another thread */
    _Atomic bool shares;     /* the last yield ran another thread */
    _Atomic uint32_t yields; /* such yields since the last that ran a time
                                slice */
    _Atomic int64_t asleep_until_ns; /* until then sleep without polling:
                                        computing threads share the processor */
};

/* Initialises how to wait, and registers the process with membarrier. */
void symc_waiting_init(struct symc_waiting *waiting, bool oversubscribed,
    int64_t spin_ns, int64_t polls, int64_t yield_ns);

/* Returns whether other threads share this processor: a poll then delays them,
 * perhaps the thread that is waited for. */
static inline bool symc_wait_shares(const struct symc_waiting *waiting)
{
    return waiting->oversubscribed ||
           atomic_load_explicit(&waiting->shares, memory_order_relaxed);
}

/* Returns how long to poll before sleeping; 0 if computing threads share the
 * processor. */
int64_t symc_wait_polling_ns(const struct symc_waiting *waiting, int64_t now);

/*
 * Yields the processor and records how long that took.  Returns the time after
 * it, or 0 if computing threads share the processor: the next yield would last
 * for all of their time slices, while a sleeping thread that is woken runs
 * before them.
 */
int64_t symc_wait_yield(struct symc_waiting *waiting);

/* The part of symc_wait_yield() that evaluates a yield that ended at `now` and
 * lasted `took`.  Returns whether to sleep at once. */
bool symc_wait_keep_yield(
    struct symc_waiting *waiting, int64_t now, int64_t took);

/* The time that an operation may wait, counted from when it first has to. */
struct symc_wait_budget {
    int64_t timeout_ns;  /* SYMC_NEVER: no timeout */
    int64_t deadline_ns; /* 0: not started */
    bool polled;         /* polling was unsuccessful: sleep at once */
};

/* The checks of a waiting thread besides the word. */
struct symc_watch {
    struct symc_waiting *waiting;
    struct symc_doorbell *doorbell;  /* this rank's */
    const _Atomic uint32_t *stopped; /* not 0: stop waiting; checked often */
    /* Called at intervals; returns true to stop waiting. */
    bool (*look)(void *arg);
    /* Called at intervals, and with `sleeps` before the thread sleeps, to make
     * progress on the rank's other work.  May be NULL. */
    void (*pass)(void *arg, bool sleeps);
    void *arg;
    uint32_t mark; /* of symc_doorbell_mark(), for the member that writes the
                      word; 0: any writer's */
};

enum symc_wait_end {
    SYMC_WAIT_REACHED,
    SYMC_WAIT_STOPPED,
    SYMC_WAIT_EXPIRED
};

/* The part of symc_wait() after the first polls. */
enum symc_wait_end symc_wait_long(const struct symc_watch *watch,
    const _Atomic uint64_t *word, uint64_t target,
    struct symc_wait_budget *budget);

/* Waits until ready(arg) returns true, for conditions that other threads or
 * processes write; otherwise as symc_wait(). */
enum symc_wait_end symc_wait_until(const struct symc_watch *watch,
    bool (*ready)(void *arg), void *arg, struct symc_wait_budget *budget);

#define SYMC_QUICK_POLLS 32

/*
 * Pauses between two polls.  A poll too early takes the cache line from the
 * writer and costs both a transfer: polling without a pause nearly doubles the
 * time of a small collective.
 */
static inline void symc_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * Waits until *word is at least target, with acquire order.  The word is
 * checked before any failure, so a peer's write counts even if the peer has
 * failed since.
 */
static inline enum symc_wait_end symc_wait(const struct symc_watch *watch,
    const _Atomic uint64_t *word, uint64_t target,
    struct symc_wait_budget *budget)
{
    for (int i = 0; i < SYMC_QUICK_POLLS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) >= target)
            return SYMC_WAIT_REACHED;
        symc_pause();
    }
    return symc_wait_long(watch, word, target, budget);
}

/* As symc_wait(), between threads of one process: only the word and the timeout
 * end the wait.  Returns false on timeout. */
bool symc_wait_plainly(struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, const _Atomic uint64_t *word,
    uint64_t target, struct symc_wait_budget *budget);

/* Sleeps on a doorbell once, at most until until_ns.  Calls ready(arg) after
 * the thread is visibly asleep, and does not sleep if it returns true. */
void symc_doorbell_sleep(const struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, bool (*ready)(void *arg), void *arg,
    int64_t until_ns);

/* Marks a doorbell as fenced if ranks share processors.  No thread sleeps on it
 * yet; writers may already notify it. */
void symc_doorbell_init(
    const struct symc_waiting *waiting, struct symc_doorbell *doorbell);

/* Wakes all threads that sleep on a doorbell. */
void symc_doorbell_wake(struct symc_doorbell *doorbell);

/* The part of symc_doorbell_notify_from() for a doorbell that has a mark. */
void symc_doorbell_notify_marked(struct symc_doorbell *doorbell, uint32_t mark);

/* Wakes the sleepers of a doorbell, if there are any that wait for words of
 * this member; -1: all.  To be called after the word has been written. */
static inline void symc_doorbell_notify_from(
    struct symc_doorbell *doorbell, int member)
{
    /* Keeps the compiler from moving the load before the store. */
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(
                             &doorbell->sleeping, memory_order_relaxed) != 0,
            0))
        symc_doorbell_notify_marked(doorbell, symc_doorbell_mark(member));
}

static inline void symc_doorbell_notify(struct symc_doorbell *doorbell)
{
    symc_doorbell_notify_from(doorbell, -1);
}

#endif
