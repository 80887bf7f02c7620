/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests liveness words: whether another process sees that a rank is alive,
 * left, or died, and how.
 */
#include "../tap.h"
#include "child.h"

#include "segment/liveness.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* State shared by parent and child. */
static struct symc_block *block;
static _Atomic int *stage;

static void set_stage(int value)
{
    atomic_store(stage, value);
}

static int await_stage(int value)
{
    for (int i = 0; i < 120000; i++) {
        if (atomic_load(stage) >= value)
            return 1;
        usleep(500);
    }
    return 0;
}

enum ending {
    SHUTDOWN,
    QUIT,
    EXIT,
    KILLED
};

/* Takes the rank's word, waits until it has been seen, and ends. */
static int live(void *arg)
{
    enum ending ending = *(enum ending *)arg;
    static struct symc_liveness liveness;

    if (symc_liveness_acquire(&liveness, block) != SYMMCOLL_OK)
        return 0;
    set_stage(1);
    if (!await_stage(2))
        return 0;
    if (ending == SHUTDOWN || ending == QUIT)
        symc_liveness_release(&liveness, ending == SHUTDOWN);
    if (ending == KILLED)
        kill(getpid(), SIGKILL);
    if (ending == EXIT)
        _exit(3);
    return 1;
}

/* Starts a child and returns it as a peer. */
static struct symc_peer start_rank(enum ending *ending)
{
    struct symc_peer peer = {.view.block = block, .mine = true};

    atomic_store(&block->liveness, SYMC_LIVENESS_NONE);
    atomic_store(&block->exit.marked, 0);
    set_stage(0);
    peer.pid = start_child(live, ending);
    peer.pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    peer.pidfd_inode = symc_liveness_pidfd_inode(peer.pidfd);
    return peer;
}

static void test_ending(
    enum ending ending, enum symc_liveness_state state, const char *sentence)
{
    struct symc_peer peer = start_rank(&ending);
    bool alive =
        await_stage(1) && symc_liveness_state(&peer) == SYMC_LIVENESS_ALIVE;
    int status;

    set_stage(2);
    waitpid(peer.pid, &status, 0);
    ok(alive && symc_liveness_state(&peer) == state, "%s", sentence);
    close(peer.pidfd);
}

static void test_words(void)
{
    struct symc_peer peer = {.view.block = block, .pidfd = -1};
    char text[96];

    atomic_store(&block->exit.marked, 0);
    ok(!symc_liveness_format_end(&peer, text, sizeof(text)) &&
            strcmp(text, "died") == 0,
        "of an unknown end it is said that the rank died");
    symc_liveness_put_exit(&block->exit, SIGKILL);
    ok(symc_liveness_format_end(&peer, text, sizeof(text)) &&
            strcmp(text, "killed by SIGKILL") == 0,
        "the launcher's word on a signal is passed on");
    symc_liveness_put_exit(&block->exit, 7 << 8);
    ok(symc_liveness_format_end(&peer, text, sizeof(text)) &&
            strcmp(text, "exited with status 7 without finalize") == 0,
        "the launcher's word on an exit status is passed on");
    atomic_store(&block->exit.marked, 0x01010101);
    ok(!symc_liveness_format_end(&peer, text, sizeof(text)),
        "what a stray store has left is not passed on");
    symc_liveness_format_exit(0, 200, text, sizeof(text));
    ok(strcmp(text, "killed by signal 200") == 0,
        "a signal without a name has its number");
    atomic_store(&block->exit.marked, 0);
}

/* Before the child takes the word, only its process descriptor shows its
 * end. */
static int end_early(void *arg)
{
    (void)arg;
    return await_stage(2);
}

static void test_before_the_word(void)
{
    struct symc_peer peer = {.view.block = block};
    int status;

    atomic_store(&block->liveness, SYMC_LIVENESS_NONE);
    set_stage(0);
    peer.pid = start_child(end_early, NULL);
    peer.pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    peer.pidfd_inode = symc_liveness_pidfd_inode(peer.pidfd);
    if (peer.pidfd < 0) {
        skip(2, "the kernel has no pidfd");
        end_child(peer.pid);
        return;
    }
    ok(symc_liveness_state(&peer) == SYMC_LIVENESS_ALIVE,
        "a rank that has not begun counts as alive while its process lives");
    set_stage(2);
    waitpid(peer.pid, &status, 0);
    ok(symc_liveness_state(&peer) == SYMC_LIVENESS_DEAD,
        "a rank that ended before it began is dead");
    close(peer.pidfd);
}

/* Checks that a word which is held cannot be taken again. */
static int take_twice(void *arg)
{
    static struct symc_liveness first, second;

    (void)arg;
    return symc_liveness_acquire(&first, block) == SYMMCOLL_OK &&
           failed_with(symc_liveness_acquire(&second, block),
               SYMMCOLL_ERR_INTERNAL, "expected a liveness word of 0");
}

int main(void)
{
    block = mmap(
        NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        skip_all("no shared memory");
    stage = (_Atomic int *)(void *)((char *)block + 4096);
    test_ending(SHUTDOWN, SYMC_LIVENESS_LEFT,
        "a rank that shut down in order has left");
    test_ending(KILLED, SYMC_LIVENESS_DEAD, "a killed rank is dead");
    test_ending(EXIT, SYMC_LIVENESS_DEAD,
        "a rank that exits without finalize is "
        "dead");
    test_words();
    test_before_the_word();
    atomic_store(&block->liveness, SYMC_LIVENESS_NONE);
    ok(run_child(take_twice, NULL), "a word is taken once");
    return done_testing();
}
