/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells and waiting.  A rank waits for a peer's word by polling; after a
 * while it sleeps on its own doorbell, a futex.  Whoever has written a word
 * wakes those who sleep, which a plain load of the doorbell tells: the sleeper,
 * not the writer, pays for the order of memory.  The sleeper announces itself,
 * has every processor pass a barrier (membarrier), reads the word again, and
 * only then sleeps; so either the writer sees it asleep, or it sees what was
 * written.  Where membarrier is missing it sleeps at most five milliseconds at
 * a time.
 */
#ifndef SYMC_SEGMENT_DOORBELL_H
#define SYMC_SEGMENT_DOORBELL_H

#include "base/base.h"
#include "segment/block.h"

/* The futex on which a rank sleeps.  Others wake it where `sleeping` is not
 * 0. */
struct symc_doorbell {
    _Alignas(SYMC_FALSE_SHARING) _Atomic uint32_t sleeping; /* threads */
    _Atomic uint32_t failed; /* this rank has failed a group that it serves */
    _Alignas(SYMC_LINE) _Atomic uint32_t wakes;
};

_Static_assert(
    sizeof(struct symc_doorbell) == sizeof(((struct symc_block *)0)->doorbell),
    "a block has room for one");

/* A rank's own one, whatever its groups. */
static inline struct symc_doorbell *symc_block_doorbell(
    struct symc_block *block)
{
    return (struct symc_doorbell *)(void *)block->doorbell;
}

/* How to wait; one for each world, set up by symc_waiting_init().  The last three
 * are what symc_wait_yield() has seen. */
struct symc_waiting {
    bool oversubscribed;     /* more ranks than processors */
    bool barrier;            /* membarrier can be used */
    int64_t spin_ns;         /* polling before sleeping; not oversubscribed */
    int64_t polls;           /* polls before yielding; oversubscribed */
    int64_t yield_ns;        /* yielding before sleeping; oversubscribed */
    int64_t nap_ns;          /* longest sleep before checking everything */
    int64_t switch_ns;       /* a yield so long has let another thread run */
    _Atomic bool shares;     /* the last yield let another thread run */
    _Atomic uint32_t yields; /* such ones since the last to one that computes */
    _Atomic int64_t asleep_until_ns; /* no polling before: they run there */
};

/* Set up, oversubscribed or not, and register with membarrier. */
void symc_waiting_init(struct symc_waiting *waiting, bool oversubscribed,
    int64_t spin_ns, int64_t polls, int64_t yield_ns);

/* Returns whether another thread waits for this processor: then a poll delays it,
 * and it may be the one that is waited for. */
static inline bool symc_wait_shares(const struct symc_waiting *waiting)
{
    return waiting->oversubscribed ||
           atomic_load_explicit(&waiting->shares, memory_order_relaxed);
}

/* Returns how long to poll before sleeping, from now: 0 beside threads that
 * compute. */
int64_t symc_wait_polling_ns(const struct symc_waiting *waiting, int64_t now);

/*
 * Yields the processor, and keeps what that has shown.  Returns the time after
 * it, or where threads that compute share the processor, 0: the next yield would
 * take as long as all of their time slices, while a thread that sleeps is woken
 * before them.
 */
int64_t symc_wait_yield(struct symc_waiting *waiting);

/* The part of symc_wait_yield() that judges a yield, which ended now and took so
 * long.  Returns whether to sleep at once. */
bool symc_wait_keep_yield(
    struct symc_waiting *waiting, int64_t now, int64_t took);

/* How long an operation may wait, from the first moment it has to. */
struct symc_wait_budget {
    int64_t timeout_ns;  /* SYMC_NEVER: for ever */
    int64_t deadline_ns; /* 0: has not begun */
    bool polled;         /* polling has been in vain: sleep at once */
};

/* What a waiting thread checks besides the word. */
struct symc_watch {
    struct symc_waiting *waiting;
    struct symc_doorbell *doorbell;  /* this rank's */
    const _Atomic uint32_t *stopped; /* not 0: give up; checked often */
    /* Called now and then; true: give up. */
    bool (*look)(void *arg);
    /* Called now and then, and with `sleeps` before the thread sleeps: what else
     * the rank has to do.  May be NULL. */
    void (*pass)(void *arg, bool sleeps);
    void *arg;
};

enum symc_wait_end {
    SYMC_WAIT_REACHED,
    SYMC_WAIT_STOPPED,
    SYMC_WAIT_EXPIRED
};

/* The slow part of symc_wait(). */
enum symc_wait_end symc_wait_long(const struct symc_watch *watch,
    const _Atomic uint64_t *word, uint64_t target,
    struct symc_wait_budget *budget);

/* The same for anything that other threads or processes write: until ready(arg)
 * is true. */
enum symc_wait_end symc_wait_until(const struct symc_watch *watch,
    bool (*ready)(void *arg), void *arg, struct symc_wait_budget *budget);

#define SYMC_QUICK_POLLS 32

/*
 * Between two polls.  A poll too early takes the cache line from the writer and
 * costs both a transfer: polling without a pause nearly doubles the time of a
 * small collective.
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
 * Wait until *word is at least target, with acquire order.  What a peer has
 * written counts before any failure: the word is checked first.
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

/* The same between threads of one process, where nothing but the word and the
 * time ends the wait; false when the time has passed. */
bool symc_wait_plainly(struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, const _Atomic uint64_t *word,
    uint64_t target, struct symc_wait_budget *budget);

/* Sleep on a doorbell once, until then at the latest.  ready(arg) is asked after
 * others can see that the thread sleeps; true: it does not. */
void symc_doorbell_sleep(const struct symc_waiting *waiting,
    struct symc_doorbell *doorbell, bool (*ready)(void *arg), void *arg,
    int64_t until_ns);

/* Wake everyone who sleeps on a doorbell. */
void symc_doorbell_wake(struct symc_doorbell *doorbell);

/* The same where anyone sleeps; to be called after the word has been
 * written. */
static inline void symc_doorbell_notify(struct symc_doorbell *doorbell)
{
    /* The compiler, too, keeps the load after the store. */
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(
                             &doorbell->sleeping, memory_order_relaxed) != 0,
            0))
        symc_doorbell_wake(doorbell);
}

#endif
