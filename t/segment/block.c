/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests blocks: they are sealed and laid out as requested; a file that is not
 * a block of the expected rank and size is refused; errors at process limits
 * have the requested amount.
 */
#include "../sanitized.h"
#include "../tap.h"
#include "child.h"

#include "segment/block.h"
#include "segment/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define TRACE 5000
#define ARENA ((size_t)2 << 20)

/* Creates a block of rank 2 of 3; ends the program on failure. */
static struct symc_block_view make_block(int *fd)
{
    struct symc_block_view view;

    if (symc_block_create("test", 2, 3, TRACE, TRACE, ARENA, &view, fd) !=
        SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        exit(1);
    }
    return view;
}

static bool is_zero(const struct symc_block *block, uint64_t offset, size_t n)
{
    const char *at = (const char *)block + offset;

    for (size_t i = 0; i < n; i++) {
        if (at[i] != 0)
            return false;
    }
    return true;
}

static void test_layout(void)
{
    int fd;
    struct symc_block_view view = make_block(&fd);
    const struct symc_block *block = view.block;
    const struct symc_block_layout *layout = &view.layout;

    ok(block->rank == 2 && block->size == 3 && block->pid == getpid() &&
            strcmp(block->world, "test") == 0 &&
            atomic_load(&block->liveness) == SYMC_LIVENESS_NONE,
        "a block says whose it is");
    ok(layout->trace_nbytes == TRACE && layout->trace_offset % 4096 == 0 &&
            layout->trace_offset >= sizeof(*block) &&
            layout->nbytes >= layout->trace_offset + TRACE &&
            layout->nbytes == symc_block_nbytes(TRACE) &&
            layout->nbytes % 4096 == 0 && view.mapped == ARENA,
        "its parts are as large as asked, apart, and on pages");
    ok(is_zero(block, layout->trace_offset, TRACE) &&
            is_zero(block, layout->nbytes, ARENA - layout->nbytes),
        "its parts and its arena begin as zeros");
    symc_block_unmap(&view);
    close(fd);
}

static void test_seals(void)
{
    int fd;
    struct symc_block_view view = make_block(&fd);
    off_t nbytes = (off_t)view.mapped;

    ok(ftruncate(fd, 4096) != 0 && errno == EPERM, "nobody can shorten it");
    ok(ftruncate(fd, nbytes * 2) != 0 && errno == EPERM, "nobody can grow it");
    ok(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0, "its seals are final");
    ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "no other program inherits it");
    ok(symc_memory_reserve(fd, view.layout.nbytes, ARENA - view.layout.nbytes,
           "the rest") == SYMMCOLL_OK &&
            symc_memory_reserve(fd, view.layout.nbytes, 0, "nothing") ==
                SYMMCOLL_OK,
        "its arena can be backed by memory, seals or not");
    symc_block_unmap(&view);
    close(fd);
}

static void test_mapping(void)
{
    int fd;
    struct symc_block_view view = make_block(&fd), other = {0};
    struct symc_block *block = view.block;
    const uint64_t head = view.layout.nbytes;

    ok(symc_block_map(fd, 2, ARENA, ARENA, &other) == SYMMCOLL_OK &&
            other.block != block && other.mapped == ARENA &&
            memcmp(&other.layout, &view.layout, sizeof(other.layout)) == 0,
        "another rank maps it");
    block->exit.marked = 77;
    ok(other.block->exit.marked == 77, "both see the same memory");
    symc_block_unmap(&other);
    ok(symc_block_map(fd, 2, ARENA, 0, &other) == SYMMCOLL_OK &&
            other.mapped == head && other.first.nbytes == 0,
        "the launcher maps the block alone");
    symc_block_unmap(&other);
    block->first = (struct symc_offer){head, 8192, 4096};
    ok(symc_block_map(fd, 2, ARENA, 0, &other) == SYMMCOLL_OK &&
            other.mapped == head + 8192 && other.first.offset == head &&
            other.first.nbytes == 8192 && other.first.generation == 4096,
        "or with its first segment");
    symc_block_unmap(&other);
    block->first.nbytes = ARENA;
    ok(symc_block_map(fd, 2, ARENA, 0, &other) == SYMMCOLL_OK &&
            other.mapped == head && other.first.nbytes == 0,
        "a first segment that is not within the arena is none");
    symc_block_unmap(&other);
    ok(failed_with(symc_block_map(fd, 1, ARENA, ARENA, &other),
           SYMMCOLL_ERR_INVALID, "expected rank 1"),
        "another rank's block is refused");
    ok(failed_with(symc_block_map(fd, 2, ARENA + 4096, ARENA, &other),
           SYMMCOLL_ERR_INVALID, "bytes, found"),
        "a block of another size is refused");
    ok(failed_with(symc_block_map(fd, 2, 16, 16, &other), SYMMCOLL_ERR_INVALID,
           "expected 16 bytes"),
        "a size that holds no head is refused");
    ok(failed_with(symc_block_map(fd, 2, ARENA, ARENA + 4096, &other),
           SYMMCOLL_ERR_INVALID, "or more, found"),
        "more than there is of it is not mapped");
    block->layout.trace_nbytes = ARENA;
    ok(failed_with(symc_block_map(fd, 2, ARENA, ARENA, &other),
           SYMMCOLL_ERR_INVALID, "outside"),
        "a block with a part outside of it is refused");
    block->layout.trace_nbytes = TRACE;
    block->layout.trace_offset += 8;
    ok(failed_with(symc_block_map(fd, 2, ARENA, ARENA, &other),
           SYMMCOLL_ERR_INVALID, "on pages"),
        "a block with a part off its page is refused");
    block->layout.trace_offset -= 8;
    block->layout.nbytes = ARENA * 2;
    ok(failed_with(symc_block_map(fd, 2, ARENA, 0, &other),
           SYMMCOLL_ERR_INVALID, "outside"),
        "a block that is larger than its arena is refused");
    block->layout.nbytes = head;
    block->magic++;
    ok(failed_with(symc_block_map(fd, 2, ARENA, ARENA, &other),
           SYMMCOLL_ERR_INVALID, "of another version"),
        "a block of another version is refused");
    symc_block_unmap(&view);
    symc_block_unmap(&view);
    close(fd);
}

static void test_strange_files(void)
{
    struct symc_block_view view;
    int ends[2] = {-1, -1};
    int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, 65536) != 0 || pipe(ends) != 0)
        exit(1);
    ok(failed_with(symc_block_map(fd, 0, 65536, 0, &view), SYMMCOLL_ERR_INVALID,
           "sealed"),
        "memory without seals is refused");
    ok(failed_with(symc_block_map(ends[0], 0, 65536, 0, &view),
           SYMMCOLL_ERR_INVALID, "sealed"),
        "a pipe is refused");
    ok(failed_with(symc_block_map(-1, 0, 65536, 0, &view), SYMMCOLL_ERR_INVALID,
           "sealed"),
        "a closed descriptor is refused");
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    ok(failed_with(symc_block_map(fd, 0, 1 << 20, 0, &view),
           SYMMCOLL_ERR_INVALID, "expected 1048576 bytes, found 65536"),
        "a short file is refused");
    ok(failed_with(symc_block_map(fd, 0, 65536, 0, &view), SYMMCOLL_ERR_INVALID,
           "another version"),
        "sealed memory that is no block is refused");
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* ---- limits, each in a new process ---- */

static void set_limit(int resource, rlim_t value)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0)
        exit(1);
    limit.rlim_cur = value;
    if (setrlimit(resource, &limit) != 0)
        exit(1);
}

static symmcoll_status_t try_block(size_t nbytes)
{
    struct symc_block_view view;
    int fd;

    return symc_block_create("test", 0, 1, TRACE, TRACE, nbytes, &view, &fd);
}

static int with_file_limit(void *arg)
{
    (void)arg;
    set_limit(RLIMIT_FSIZE, 64 * 1024);
    /* SIGXFSZ is not ignored, so it would end this process. */
    return failed_with(try_block((size_t)1 << 20), SYMMCOLL_ERR_NO_MEMORY,
               "RLIMIT_FSIZE is 64 KiB") &&
           strstr(symmcoll_last_error(), "requested") != NULL;
}

static int with_address_limit(void *arg)
{
    (void)arg;
    set_limit(RLIMIT_AS, (rlim_t)256 << 20);
    return failed_with(try_block((size_t)1 << 30), SYMMCOLL_ERR_NO_MEMORY,
               "RLIMIT_AS is 256 MiB") &&
           strstr(symmcoll_last_error(), "requested") != NULL;
}

static int with_descriptor_limit(void *arg)
{
    int told;

    (void)arg;
    set_limit(RLIMIT_NOFILE, 3);
    told =
        failed_with(try_block(4096), SYMMCOLL_ERR_SYSTEM, "RLIMIT_NOFILE is 3");
    set_limit(RLIMIT_NOFILE, 64); /* a leak checker needs some at the end */
    return told;
}

static int reserve_with_file_limit(void *arg)
{
    int fd;
    struct symc_block_view view = make_block(&fd);

    (void)arg;
    set_limit(RLIMIT_FSIZE, 64 * 1024);
    return failed_with(
        symc_memory_reserve(fd, view.layout.nbytes, ARENA - view.layout.nbytes,
            "staging of collectives"),
        SYMMCOLL_ERR_NO_MEMORY, "staging of collectives: ");
}

static int more_than_the_machine_has(void *arg)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    (void)arg;
    return failed_with(symc_memory_reserve(fd, 0, (size_t)1 << 50, "a test"),
               SYMMCOLL_ERR_NO_MEMORY, "1 PiB requested") &&
           strstr(symmcoll_last_error(), "available on this machine") != NULL;
}

static int lets_no_descriptor_leak(void *arg)
{
    (void)arg;
    int before = dup(0);

    set_limit(RLIMIT_FSIZE, 64 * 1024);
    for (int i = 0; i < 10; i++) {
        if (try_block((size_t)1 << 20) == SYMMCOLL_OK)
            return 0;
    }
    close(before);
    return dup(0) == before;
}

static void test_limits(void)
{
    ok(run_child(with_file_limit, NULL),
        "RLIMIT_FSIZE is named, with what was asked, and no signal comes");
    if (!SANITIZED)
        ok(run_child(with_address_limit, NULL),
            "RLIMIT_AS is named, with what was asked");
    else
        skip(1, "the sanitizer needs the address space");
    ok(run_child(with_descriptor_limit, NULL), "RLIMIT_NOFILE is named");
    ok(run_child(reserve_with_file_limit, NULL),
        "a limit met when memory is reserved is named");
    ok(run_child(more_than_the_machine_has, NULL),
        "more memory than the machine has is refused, with both sizes");
    ok(run_child(lets_no_descriptor_leak, NULL),
        "a block that cannot be made leaves no descriptor");
}

/* Checks that a forked child has no mapping of the block to write to. */
static int has_no_block(void *arg)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;

    (void)arg;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        found += strstr(line, "memfd:symmcoll:test:") != NULL;
    if (maps == NULL)
        return 0;
    fclose(maps);
    return found == 0;
}

static void test_fork(void)
{
    int fd;
    struct symc_block_view view = make_block(&fd);

    ok(has_no_block(NULL) == 0 && run_child(has_no_block, NULL),
        "a forked child does not map it");
    symc_block_unmap(&view);
    close(fd);
}

int main(void)
{
    test_layout();
    test_seals();
    test_mapping();
    test_strange_files();
    test_limits();
    test_fork();
    return done_testing();
}
