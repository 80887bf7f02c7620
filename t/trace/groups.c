/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the recorder's table of groups: slots are reused, and no entry is ever
 * shown under the name of another group.
 */
#include "t/tap.h"
#include "t/trace/json.h"
#include "t/trace/ring_util.h"

#include "segment/arena.h"
#include "segment/memory.h"
#include "trace/view.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES 2048
#define MANY 1001
#define IN_FLIGHT 200
#define TEXT_MAX ((size_t)16 << 20)

static char text[TEXT_MAX];

/* Dumps a ring into text; false: invalid JSON. */
static bool dump(const struct symc_trace_ring *ring, int64_t entries)
{
    static const struct symc_trace_format format = {
        .version = "2.10", .backend_name = "nccl"};
    char path[64];
    FILE *file;
    size_t n = 0;

    snprintf(path, sizeof(path), "groups-dump-%ld", (long)getpid());
    if (symc_trace_write(ring, symc_trace_nbytes(entries), path, &format) !=
        SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return false;
    }
    file = fopen(path, "r");
    if (file != NULL) {
        n = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
    }
    text[n] = '\0';
    unlink(path);
    return n > 0 && json_is_valid(text);
}

static int count_text(const char *wanted)
{
    int count = 0;

    for (const char *at = strstr(text, wanted); at != NULL;
         at = strstr(at + 1, wanted))
        count++;
    return count;
}

static int64_t add(struct symc_trace_ring *ring, const char *name)
{
    return symc_trace_add_group(WRITER(ring), name, "undefined", 0, 2, NULL);
}

/* ---- reused slots ---- */

static bool a_freed_group_is_named_for_a_while(void)
{
    struct symc_trace_ring *ring = make_ring(16);
    int64_t first = add(ring, "first");
    bool right;

    record(ring, first, 1, 3);
    symc_trace_remove_group(WRITER(ring), first);
    record(ring, add(ring, "second"), 1, 2);
    right = dump(ring, 16) && count_text("[\"first\", \"undefined\"]") == 3 &&
            count_text("[\"second\", \"undefined\"]") == 2;
    free(ring);
    return right;
}

/* Adds as many groups as there are slots: then the first group's slot is
 * reused. */
static bool its_entries_become_nobodys(void)
{
    struct symc_trace_ring *ring = make_ring(16);
    int64_t first = add(ring, "first"), other = first;
    char position[SYMC_TRACE_POSITION];
    bool right;

    record(ring, first, 1, 3);
    symc_trace_remove_group(WRITER(ring), first);
    do {
        if (other != first)
            symc_trace_remove_group(WRITER(ring), other);
        other = add(ring, "later");
    } while (symc_trace_slot(other) != symc_trace_slot(first));
    symc_trace_position(
        ring, symc_trace_nbytes(16), NULL, position, sizeof(position));
    right = strcmp(position, "after all_reduce seq 3 of group (freed)") == 0;
    record(ring, other, 1, 1);
    right = right && symc_trace_generation(other) == 1 && dump(ring, 16) &&
            count_text("\"first\"") == 0 &&
            count_text("[\"(freed)\", \"\"]") == 3 &&
            count_text("\"(freed)\": {\"name\"") == 1 &&
            count_text("[\"later\", \"undefined\"]") == 1;
    if (!right)
        diag("%s", position);
    free(ring);
    return right;
}

/* Checks that names are keys: of a living group, or else of the one that was
 * freed last. */
static bool a_name_is_described_once(void)
{
    struct symc_trace_ring *ring = make_ring(16);
    int64_t first = add(ring, "dp"), second;
    bool right = true;

    record(ring, first, 1, 3);
    symc_trace_remove_group(WRITER(ring), first);
    second = add(ring, "dp");
    record(ring, second, 1, 2);
    for (int i = 0; i < 2; i++) {
        right = right && dump(ring, 16) && count_text("\"dp\": {") == 1 &&
                count_text("[\"dp\", \"undefined\"]") == 2 &&
                count_text("[\"(freed)\", \"\"]") == 3;
        symc_trace_remove_group(WRITER(ring), second);
    }
    free(ring);
    return right;
}

/* Its slot may come before that of a group freed earlier. */
static bool the_one_freed_last_is_described(void)
{
    struct symc_trace_ring *ring = make_ring(16);
    int64_t first, last;
    bool right;

    for (int i = 0; i < 2; i++)
        symc_trace_remove_group(WRITER(ring), add(ring, "other"));
    first = add(ring, "dp");
    record(ring, first, 1, 3);
    symc_trace_remove_group(WRITER(ring), first);
    do {
        last = add(ring, "other");
        symc_trace_remove_group(WRITER(ring), last);
    } while (symc_trace_slot(last) + 1 >= symc_trace_slot(first));
    last = add(ring, "dp");
    record(ring, last, 1, 2);
    symc_trace_remove_group(WRITER(ring), last);
    right = symc_trace_slot(last) < symc_trace_slot(first) && dump(ring, 16) &&
            count_text("\"dp\": {") == 1 &&
            count_text("[\"dp\", \"undefined\"]") == 2 &&
            count_text("[\"(freed)\", \"\"]") == 3;
    free(ring);
    return right;
}

static bool a_new_group_begins_at_0(void)
{
    struct symc_trace_ring *ring = make_ring(16);
    int64_t first = add(ring, "first"), other;
    struct symc_trace_group *group;
    bool right;

    record(ring, first, 1, 7);
    do {
        symc_trace_remove_group(WRITER(ring), first);
        other = add(ring, "other");
        first =
            symc_trace_slot(other) != symc_trace_slot(first) ? other : first;
    } while (symc_trace_generation(other) == 0);
    group = &WRITER(ring)->groups[symc_trace_slot(other)];
    right = group->enqueued == 0 && group->started == 0 &&
            group->completed == 0 && group->p2p == 0;
    free(ring);
    return right;
}

/* ---- many ---- */

static bool a_thousand_and_their_operations(void)
{
    struct symc_trace_ring *ring = make_ring(ENTRIES);
    struct symc_trace_entry *begun[IN_FLIGHT];
    int64_t refs[MANY];
    char name[32];
    bool right = true;

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "group-%d", i);
        refs[i] = add(ring, name);
        right = right && refs[i] > 0;
        record(ring, refs[i], 1, 1);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        struct symc_op op = make_op(2, 8);

        begun[i] = symc_trace_start(WRITER(ring), refs[MANY - 1 - i], &op);
        right = right && begun[i] != NULL;
    }
    right = right && dump(ring, ENTRIES) &&
            count_text("\"desc\": \"undefined\"") == MANY &&
            count_text("\"last_enqueued_collective\"") == MANY + 1 &&
            count_text("[\"group-1000\", \"undefined\"]") == 2 &&
            count_text("\"state\": \"started\"") == IN_FLIGHT &&
            count_text("\"state\": \"completed\"") == MANY;
    free(ring);
    return right;
}

static blkcnt_t count_blocks(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 ? info.st_blocks : -1;
}

/* Checks that the block of a rank has memory only for existing groups, in
 * pages. */
static bool memory_is_for_those_that_are(void)
{
    size_t nbytes = symc_round_to_page(symc_trace_nbytes(ENTRIES));
    size_t slot = sizeof(struct symc_trace_group);
    struct symc_trace_writer writer;
    blkcnt_t before, one, many;
    int64_t ref = 0;
    int fd = -1;
    void *at = NULL;
    bool right =
        symc_memory_create("groups", nbytes, "test", &fd) == SYMMCOLL_OK &&
        symc_memory_reserve(fd, 0, symc_trace_backed(ENTRIES), "test") ==
            SYMMCOLL_OK &&
        symc_memory_map(fd, nbytes, "test", &at) == SYMMCOLL_OK;

    if (!right)
        return false;
    symc_trace_init(at, ENTRIES, 0, 2);
    right = symc_trace_open(at, fd, 0, &writer) == SYMMCOLL_OK;
    before = count_blocks(fd);
    symc_trace_add_group(&writer, "0", "default_pg", 0, 2, NULL);
    one = count_blocks(fd);
    for (int i = 1; i < MANY; i++)
        ref = symc_trace_add_group(&writer, "x", "", 0, 2, NULL);
    right = right && ref > 0 && dump(at, ENTRIES); /* reads no hole */
    many = count_blocks(fd);
    for (int i = 0; i < 5 * MANY; i++) {
        symc_trace_remove_group(&writer, ref);
        ref = symc_trace_add_group(&writer, "x", "", 0, 2, NULL);
    }
    right = right && (one - before) * 512 == 4096 &&
            (size_t)(many - before) * 512 == symc_round_to_page(MANY * slot) &&
            count_blocks(fd) == many;
    if (!right)
        diag("blocks: %lld, %lld, %lld, %lld", (long long)before,
            (long long)one, (long long)many, (long long)count_blocks(fd));
    symc_trace_close(&writer);
    munmap(at, nbytes);
    close(fd);
    return right;
}

/* ---- members of a group ---- */

static bool ranks_are_those_of_the_world(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    int list[3] = {7, 2, 5}, even[100], odd[100];
    bool right;

    for (int i = 0; i < 100; i++) {
        even[i] = 1000 + 2 * i;
        odd[i] = i * i % 4096;
    }
    symc_trace_add_group(WRITER(ring), "list", "", 0, 3, list);
    symc_trace_add_group(WRITER(ring), "even", "", 0, 100, even);
    symc_trace_add_group(WRITER(ring), "odd", "", 0, 100, odd);
    right = dump(ring, 4) && count_text("\"[7, 2, 5]\"") == 1 &&
            count_text("\"[1000, 1002, ") == 1 &&
            count_text(", 1196, 1198]\"") == 1 &&
            count_text(", 400, 441]\"") == 1 && /* of 22 */
            count_text("\"[0, 1, 2, 3]\"") == 1;
    free(ring);
    return right;
}

/* ---- strangers ---- */

static bool strays_are_survived(void)
{
    struct symc_trace_ring *ring = make_ring(8);
    int64_t ref = add(ring, "one");
    struct symc_trace_group *group = &WRITER(ring)->groups[1];
    struct symc_op op = make_op(2, 8);
    struct symc_trace_entry *entry;
    bool right;

    record(ring, ref, 1, 1);
    group->generation = 9;
    right = dump(ring, 8) && count_text("[\"(freed)\", \"\"]") == 1;
    group->generation = 0;
    group->form = 77;
    right = right && dump(ring, 8) && count_text("\"one\"") == 0;
    group->form = SYMC_TRACE_FIRST;
    atomic_store(&group->used, SYMC_TRACE_FILLING);
    right = right && dump(ring, 8) && count_text("\"one\"") == 0;
    atomic_store(&group->used, SYMC_TRACE_VALID);
    atomic_store(&ring->groups, UINT32_MAX);
    right = right && dump(ring, 8) && count_text("[\"one\", ") == 1;
    /* If a stray store has hit the entry of an operation, the end of the
     * operation accesses no slot outside the memory. */
    entry = symc_trace_start(WRITER(ring), ref, &op);
    entry->group = SYMC_TRACE_GROUPS - 1;
    symc_trace_end(WRITER(ring), entry, true);
    right = right && WRITER(ring)->groups[SYMC_TRACE_GROUPS - 1].completed == 0;
    free(ring);
    return right;
}

static void *record_one(void *arg)
{
    pthread_setname_np(pthread_self(), "latest");
    record(arg, 0, 1, 1);
    return NULL;
}

static bool the_latest_threads_are_named(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    bool right = true;

    for (int i = 0; i < 3 * SYMC_TRACE_THREADS && right; i++) {
        pthread_t thread;

        right = pthread_create(&thread, NULL, record_one, ring) == 0 &&
                pthread_join(thread, NULL) == 0;
    }
    right = right && dump(ring, 4) &&
            count_text("\"thread_name\": \"latest\"") == 4;
    free(ring);
    return right;
}

int main(void)
{
    plan(10);
    ok(a_freed_group_is_named_for_a_while(),
        "entries of a freed group keep its name until its slot is needed");
    ok(its_entries_become_nobodys(),
        "then they are of a freed group, never of the one that has the slot");
    ok(a_name_is_described_once(),
        "a dump describes one group of a name, the living one");
    ok(the_one_freed_last_is_described(),
        "of several that have been freed, the one freed last");
    ok(a_new_group_begins_at_0(), "a slot that is used again begins at 0");
    ok(a_thousand_and_their_operations(),
        "1001 groups and 200 operations under way are in a dump");
    ok(memory_is_for_those_that_are(),
        "the table has memory for as many groups as there were at once");
    ok(ranks_are_those_of_the_world(),
        "the ranks of a group are those in the world");
    ok(strays_are_survived(), "what is not a group is left out");
    ok(the_latest_threads_are_named(),
        "the latest threads have names, however many there were");
    return done_testing();
}
